//! TLS to Postgres: every connection is encrypted, certificates are checked, and refusals say what to do.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use selvedge_postgres::{PostgresStore, Settings};
use selvedge_store::{Error, Transactions};
use selvedge_system_tests::cluster::Cluster;
use selvedge_system_tests::{PlainConnection, wait_until};
use std::path::PathBuf;
use std::sync::Arc;

/// A Postgres with TLS, whose certificate names 127.0.0.1 alone and has a root of its own.
struct Secured {
    cluster: Cluster,
    root: PathBuf,
    /// A root with the same name as the one of the certificate, and one with another name.
    strangers: [PathBuf; 2],
}

/// Returns a root certificate and its key.
fn new_root(name: &str) -> (CertificateParams, KeyPair, String) {
    let key = KeyPair::generate().expect("a key is made");
    let mut root = CertificateParams::new(Vec::new()).expect("the names are valid");
    root.distinguished_name.push(DnType::CommonName, name);
    root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let text = root.self_signed(&key).expect("the root is made").pem();
    (root, key, text)
}

impl Secured {
    fn start() -> Secured {
        let (root, root_key, root_text) = new_root("root");
        let key = KeyPair::generate().expect("a key is made");
        let certificate = CertificateParams::new(["127.0.0.1".to_owned()])
            .and_then(|server| server.signed_by(&key, &Issuer::from_params(&root, &root_key)))
            .expect("the certificate is made");
        let access = "hostssl all ada 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n";
        let files = [
            ("server.crt", certificate.pem()),
            ("server.key", key.serialize_pem()),
            ("pg_hba.conf", access.to_owned()),
        ];
        let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
        let cluster = Cluster::start_with(&files, &["ssl=on"]);
        let strangers =
            ["root", "other"].map(|name| cluster.write(&format!("stranger-{name}"), &new_root(name).2));
        let root = cluster.write("root.crt", &root_text);
        Secured { cluster, root, strangers }
    }

    /// Returns an address with parameters. `ROOT` stands for the path of the root certificate.
    fn url(&self, parameters: &str) -> String {
        let parameters = parameters.replace("ROOT", &self.root.display().to_string());
        format!("{}?{parameters}", self.cluster.url("postgres"))
    }

    async fn plain(&self) -> PlainConnection {
        PlainConnection::connect(&self.cluster.url("postgres"), "public").await
    }
}

async fn refusal(url: &str) -> String {
    match PostgresStore::connect(url).await.err() {
        Some(Error::Unavailable(text) | Error::BadAddress(text)) => text,
        other => panic!("{url}: {other:?}"),
    }
}

/// Counts the connections of the store and of its listener, with and without TLS.
async fn connections(plain: &PlainConnection) -> (i64, i64) {
    let count = async |ssl: bool| {
        let text = "select count(*) from pg_stat_activity join pg_stat_ssl using (pid) \
                    where application_name in ('tls', 'selvedge listener') and ssl = $1";
        plain.number(text, &[&ssl]).await
    };
    (count(true).await, count(false).await)
}

#[tokio::test]
async fn every_connection_is_encrypted_as_the_mode_says() {
    let secured = Secured::start();
    let plain = secured.plain().await;
    for (mode, encrypted) in [
        ("sslmode=disable", false),
        ("", true),
        ("sslmode=prefer", true),
        ("sslmode=require", true),
        ("sslmode=verify-ca&sslrootcert=ROOT", true),
        ("sslmode=verify-full&sslrootcert=ROOT", true),
    ] {
        let url = secured.url(&format!("application_name=tls&{mode}"));
        let settings = Settings { schema: "encrypted".into(), ..Settings::default() };
        let store = PostgresStore::connect_with(&url, settings).await;
        let store = Arc::new(store.unwrap_or_else(|error| panic!("{mode}: {error}")));
        store.ping().await.expect("the store answers");
        let listening = tokio::spawn({
            let store = store.clone();
            async move { store.next_notification().await }
        });
        // One connection at least of a pool, and the one that listens.
        wait_until("the store is connected and listens", async || {
            let (with, without) = connections(&plain).await;
            assert_eq!(if encrypted { without } else { with }, 0, "{mode}");
            with + without >= 2
        })
        .await;
        listening.abort();
        store.close().await;
        drop(store);
        wait_until("the store has gone", async || connections(&plain).await == (0, 0)).await;
    }
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted_is_refused_with_the_remedy() {
    let secured = Secured::start();
    for (mode, stranger) in [
        ("verify-ca", &secured.strangers[0]),
        ("verify-full", &secured.strangers[1]),
        ("require", &secured.strangers[1]),
    ] {
        let parameters = format!("sslmode={mode}&sslrootcert={}", stranger.display());
        let unknown = refusal(&secured.url(&parameters)).await;
        assert!(unknown.contains("not trusted") && unknown.contains("sslrootcert"), "{mode}: {unknown}");
    }
    let by_name = |parameters: &str| secured.url(parameters).replace("127.0.0.1", "localhost");
    let wrong_name = refusal(&by_name("sslmode=verify-full&sslrootcert=ROOT")).await;
    assert!(wrong_name.contains("does not name the host"), "{wrong_name}");
    assert!(wrong_name.contains("localhost") && wrong_name.contains("verify-ca"), "{wrong_name}");
    let store = PostgresStore::connect(&by_name("sslmode=verify-ca&sslrootcert=ROOT")).await;
    store.expect("the name is not checked").ping().await.expect("the store answers");
    let without = refusal(&secured.url("sslmode=verify-full")).await;
    assert!(without.contains("sslrootcert=FILE"), "{without}");
}

#[tokio::test]
async fn a_password_is_bound_to_the_certificate() {
    let secured = Secured::start();
    secured.plain().await.run("create role ada superuser login password 'lovelace'").await;
    let url = secured.url("sslmode=verify-full&sslrootcert=ROOT&channel_binding=require");
    let url = url.replace("postgres@", "ada:lovelace@");
    let store = PostgresStore::connect(&url).await.expect("the password is accepted");
    store.ping().await.expect("the store answers");
}

#[tokio::test]
async fn a_server_without_tls_is_refused_where_tls_is_required() {
    let url = std::env::var("SELVEDGE_TEST_POSTGRES").expect("scripts/postgres sets the address");
    let separator = if url.contains('?') { '&' } else { '?' };
    let refused = refusal(&format!("{url}{separator}sslmode=require")).await;
    assert!(refused.contains("does not support TLS"), "{refused}");
}
