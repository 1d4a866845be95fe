//! The connection goes to exactly the address that was checked.

use super::{Receiver, create, deliveries, quick, start, wait_for};
use futures_util::FutureExt;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use rustls::{RootCertStore, ServerConfig};
use selvedge_server::{Resolve, Resolved, WebhookOptions};
use serde_json::json;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A resolver that gives these answers, one after the other; the last one for ever.
#[derive(Debug)]
struct Answers(Mutex<Vec<Vec<SocketAddr>>>);

impl Answers {
    fn new(answers: Vec<Vec<SocketAddr>>) -> Arc<Answers> {
        Arc::new(Answers(Mutex::new(answers)))
    }

    fn left(&self) -> usize {
        self.0.lock().expect("no test panicked").len()
    }
}

impl Resolve for Answers {
    fn resolve<'a>(&'a self, host: &'a str, _port: u16) -> Resolved<'a> {
        assert_eq!(host, "hook.example.com");
        let mut answers = self.0.lock().expect("no test panicked");
        let answer = if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() };
        async move { Ok(answer) }.boxed()
    }
}

/// A public address that nobody answers at: no test can reach the internet.
fn public() -> SocketAddr {
    "192.0.1.1:443".parse().expect("is an address")
}

#[tokio::test]
async fn a_name_with_any_private_address_gets_no_connection() {
    let receiver = Receiver::start().await;
    let resolver = Answers::new(vec![vec![public(), receiver.address]]);
    let server = start(WebhookOptions { allow_private: false, resolver, ..quick() }).await;
    create(&server, "w", "https://hook.example.com/", &["execution.submitted"]).await;
    server.submit(json!({ "kind": "k" })).await;
    let webhook = wait_for(&server, "w", |webhook| webhook["failing_since_at"].is_string()).await;
    let error = webhook["last_error"].as_str().expect("there is an error");
    assert!(error.contains("leads to 127.0.0.1, which is not a public address"), "{error}");
    assert_eq!(receiver.connections(), 0);
}

#[tokio::test]
async fn a_name_that_moves_to_a_private_address_gets_no_connection_from_then_on() {
    let receiver = Receiver::start().await;
    let mapped = format!("[::ffff:127.0.0.1]:{}", receiver.address.port()).parse().expect("is an address");
    let resolver = Answers::new(vec![vec![public()], vec![mapped], vec![receiver.address]]);
    let options = WebhookOptions {
        allow_private: false,
        resolver: resolver.clone(),
        timeout: Duration::from_millis(200),
        ..quick()
    };
    let server = start(options).await;
    create(&server, "w", "https://hook.example.com/", &["execution.submitted"]).await;
    server.submit(json!({ "kind": "k" })).await;
    wait_for(&server, "w", |webhook| {
        let error = webhook["last_error"].as_str().unwrap_or_default();
        resolver.left() == 1 && error.contains("127.0.0.1, which is not a public address")
    })
    .await;
    assert_eq!(receiver.connections(), 0);
    assert_eq!(deliveries(&server, "w", "pending").await.len(), 1);
}

/// Returns a configuration with a certificate for a name, and the store that trusts it.
fn certificate(name: &str) -> (ServerConfig, Arc<RootCertStore>) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed([name.to_owned()]).expect("a certificate");
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the versions are known")
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .expect("the certificate is usable");
    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone()).expect("the certificate is trusted");
    (config, Arc::new(roots))
}

#[tokio::test]
async fn over_tls_the_name_of_the_url_is_checked_and_not_the_address() {
    let (config, roots) = certificate("hook.example.com");
    let receiver = Receiver::over_tls(config).await;
    let resolver = Answers::new(vec![vec![receiver.address]]);
    let server = start(WebhookOptions { resolver, roots: Some(roots), ..quick() }).await;
    let port = receiver.address.port();
    create(&server, "w", &format!("https://hook.example.com:{port}/"), &["execution.submitted"]).await;
    server.submit(json!({ "kind": "k" })).await;
    let received = receiver.wait_for(1).await;
    assert_eq!(received[0].header("host"), format!("hook.example.com:{port}"));
    wait_for(&server, "w", |webhook| webhook["delivered"] == 1).await;
}

#[tokio::test]
async fn a_certificate_of_another_name_or_of_an_unknown_issuer_is_refused() {
    let (other_name, other_roots) = certificate("other.example.com");
    let (unknown, _) = certificate("hook.example.com");
    for (config, roots) in [(other_name, other_roots.clone()), (unknown, other_roots)] {
        let receiver = Receiver::over_tls(config).await;
        let resolver = Answers::new(vec![vec![receiver.address]]);
        let server = start(WebhookOptions { resolver, roots: Some(roots), ..quick() }).await;
        create(&server, "w", "https://hook.example.com/", &["execution.submitted"]).await;
        server.submit(json!({ "kind": "k" })).await;
        let webhook = wait_for(&server, "w", |webhook| webhook["failing_since_at"].is_string()).await;
        let error = webhook["last_error"].as_str().expect("there is an error");
        assert!(error.contains("no TLS connection"), "{error}");
        assert_eq!(receiver.received().len(), 0);
    }
}
