//! A copy of the store is not enough to make a session or the token of a waitpoint.

use crate::support::{
    Directory, Place, Postgres, Server, Sqlite, claim, command, get, on_each_store, post, submit, text,
};
use rusqlite::Connection;
use selvedge_core::api_key::KeyDigest;
use selvedge_core::token::Secret;
use selvedge_core::web_session::SessionKey;
use serde_json::{Value, json};
use std::process::Command;
use uuid::Uuid;

on_each_store!(
    a_copy_of_the_store_makes_no_session,
    a_store_that_contains_its_secret_keeps_it_until_it_is_moved_as_documented,
);

const ADMIN: &str = "admin-key-0123456789abcdef";
/// A time in the year 2100, in milliseconds.
const LATE: i64 = 4_102_444_800_000;

/// A store whose rows can be read.
trait Copied: Place {
    /// Returns the root secret in the store, if there is one.
    fn kept_secret(&self) -> Option<Vec<u8>>;
    /// Returns the digests of all API keys.
    fn digests(&self) -> Vec<Vec<u8>>;
}

impl Copied for Sqlite {
    fn kept_secret(&self) -> Option<Vec<u8>> {
        let copy = self.copied();
        copy.query_row("select secret from kept_secret", (), |row| row.get(0)).ok()
    }

    fn digests(&self) -> Vec<Vec<u8>> {
        let copy = self.copied();
        let mut statement = copy.prepare("select digest from api_keys").expect("the table exists");
        let digests = statement.query_map((), |row| row.get(0)).expect("the keys are read");
        digests.collect::<Result<_, _>>().expect("the keys are read")
    }
}

impl Sqlite {
    /// Returns a copy of the store.
    fn copied(&self) -> Connection {
        let copy = self.path(&format!("copy-{}.db", Uuid::new_v4()));
        let source = Connection::open(self.database()).expect("the file opens");
        source.execute("vacuum into ?1", [copy.display().to_string()]).expect("the copy is taken");
        Connection::open(copy).expect("the copy opens")
    }
}

impl Copied for Postgres {
    fn kept_secret(&self) -> Option<Vec<u8>> {
        self.bytes("select secret from selvedge.kept_secret").pop()
    }

    fn digests(&self) -> Vec<Vec<u8>> {
        self.bytes("select digest from selvedge.api_keys")
    }
}

/// Returns the status of a page for a session.
fn status_of_page(url: &str, cookie: &str) -> String {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--max-time", "90", "--output", "/dev/null", "--write-out", "%{http_code}"]);
    curl.args(["--header", "accept: text/html", "--cookie", &format!("selvedge-session={cookie}"), url]);
    String::from_utf8(curl.output().expect("curl runs").stdout).expect("a status is text")
}

/// Returns the cookie of a session that a key of sessions makes.
fn cookie(key: &SessionKey, digest: KeyDigest) -> String {
    let number = Uuid::from_u128(1);
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let text = format!("v2.{}.{}.{LATE}.", number.simple(), hex(&key.mask(number, digest).0));
    let code = key.sign(&text);
    format!("{text}.{code}")
}

fn start(place: &impl Place, variables: &[(&str, &str)]) -> Server {
    let mut serve = command();
    serve.args(["serve", "--store", &place.store()]).envs(variables.iter().copied());
    Server::spawn(serve)
}

/// Calls the API with the administrator's key.
fn administer(server: &Server, path: &str, body: &Value) -> Value {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--fail-with-body", "--max-time", "90", "--data-binary", &body.to_string()]);
    curl.args(["--header", &format!("authorization: Bearer {ADMIN}"), &format!("{}{path}", server.url)]);
    let output = curl.output().expect("curl runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    serde_json::from_slice(&output.stdout).expect("the answer is JSON")
}

fn a_copy_of_the_store_makes_no_session(place: &impl Copied) {
    let server = start(place, &[("SELVEDGE_ADMIN_KEY", ADMIN)]);
    let key = json!({"name": "root", "role": "admin", "namespaces": ["*"]});
    let created = administer(&server, "/v1/admin/keys", &key);
    let mut digests: Vec<KeyDigest> =
        place.digests().iter().map(|digest| KeyDigest(digest[..].try_into().expect("32 bytes"))).collect();
    assert_eq!(digests, [KeyDigest::of(&text(&created["key"]))]);
    digests.push(KeyDigest::of(ADMIN));
    // Without a secret in the store, whatever else it contains.
    let secret = place.kept_secret().unwrap_or_else(|| b"there is no secret in the copy".to_vec());
    let secret = Secret::new(secret).expect("the secret is long enough");
    let admin_digest = KeyDigest::of(ADMIN).0;
    for digest in &digests {
        for more in [&b""[..], &admin_digest, &digest.0] {
            let forged = cookie(&secret.session_key(more), *digest);
            assert_eq!(status_of_page(&server.url, &forged), "303");
        }
    }
    // The same forger succeeds with the secrets that are in no store.
    let place_of_secret = format!("{}-secret", place.store().trim_start_matches("sqlite:"));
    let beside =
        std::fs::read_to_string(place_of_secret).ok().map(|text| text.trim_end().as_bytes().to_vec());
    let secret = place.kept_secret().or(beside).expect("there is a secret somewhere");
    let of_servers =
        KeyDigest::of(&format!("selvedge web sessions of the administrator's key v1\n{ADMIN}")).0;
    let key = Secret::new(secret).expect("the secret is long enough").session_key(&of_servers);
    assert_eq!(status_of_page(&server.url, &cookie(&key, digests[0])), "200");
}

#[test]
fn without_a_secret_outside_of_the_store_nobody_signs_in() {
    let place = Postgres::new();
    let server = start(&place, &[("SELVEDGE_ADMIN_KEY", ADMIN)]);
    let key = json!({"name": "root", "role": "admin", "namespaces": ["*"]});
    let key = text(&administer(&server, "/v1/admin/keys", &key)["key"]);
    drop(server);
    let sign_in = |server: &Server| {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--max-time", "90", "--write-out", "\n%{http_code}"]);
        curl.args(["--header", &format!("origin: {}", server.url), "--data-binary", &format!("key={key}")]);
        let output = curl.arg(format!("{}/login", server.url)).output().expect("curl runs");
        String::from_utf8(output.stdout).expect("the page is text")
    };
    let mut server = start(&place, &[]);
    server.wait_for_log("the store contains the secret that signs waitpoint tokens");
    let refused = sign_in(&server);
    assert!(refused.ends_with("\n403") && refused.contains("SELVEDGE_SECRET"), "{refused}");
    drop(server);
    let accepted = sign_in(&start(&place, &[("SELVEDGE_SECRET", "a secret of the servers")]));
    assert!(accepted.ends_with("\n303"), "{accepted}");
}

/// Suspends an execution until a signal. Returns its waitpoint with the token.
fn create_waitpoint(url: &str) -> Value {
    submit(url, json!({"kind": "k"}));
    let claim = claim(url, "w", 1, 0).remove(0);
    let op = json!({
        "op": "suspend", "execution": claim["execution"]["id"], "attempt": claim["attempt"],
        "lease_id": claim["lease"]["id"], "epoch": claim["lease"]["epoch"],
        "condition": {"signal": "go"}, "waitpoints": ["go"],
    });
    let (status, response) = post(&format!("{url}/v1/workers/w/report"), &json!({"ops": [op]}));
    assert_eq!(status, 200, "{response}");
    response["results"][0]["waitpoints"][0].clone()
}

fn deliver(url: &str, waitpoint: &Value) -> (u16, Value) {
    let path = format!("{url}/v1/waitpoints/{}/signal", text(&waitpoint["id"]));
    post(&path, &json!({"token": waitpoint["token"]}))
}

#[test]
fn a_copy_of_a_sqlite_store_signs_no_token_and_needs_the_file_with_the_secret() {
    let place = Sqlite::new();
    let mut server = Server::start(&place);
    server.wait_for_log("selvedge.db-secret; back it up with the store");
    let (first, second) = (create_waitpoint(&server.url), create_waitpoint(&server.url));
    let secret = std::fs::read(place.path("selvedge.db-secret")).expect("the secret lies beside the store");
    let copy = place.copied();
    let restored = Sqlite::new();
    copy.execute("vacuum into ?1", [restored.database().display().to_string()]).expect("the copy is taken");
    let bytes = std::fs::read(restored.database()).expect("the copy is read");
    let words = secret.trim_ascii_end();
    assert!(words.len() == 64 && !bytes.windows(words.len()).any(|part| part == words));
    assert_eq!(place.kept_secret(), None);
    drop(server);

    // A new store says nothing of a missing secret; the copy does, and refuses the tokens until the file is back.
    let mut server = Server::start(&restored);
    server.wait_for_log("the root secret of this store is missing");
    assert_eq!(deliver(&server.url, &first).1["code"], "invalid_token");
    server.stop_and_read_log();
    std::fs::write(restored.path("selvedge.db-secret"), &secret).expect("the file is put back");
    let server = Server::start(&restored);
    assert_eq!(deliver(&server.url, &first).0, 200);
    drop(server);

    // The file can also be moved, and named.
    let elsewhere = Directory::new();
    let moved = elsewhere.path().join("root-secret");
    std::fs::rename(restored.path("selvedge.db-secret"), &moved).expect("the file is moved");
    let server = start(&restored, &[("SELVEDGE_SECRET_FILE", moved.to_str().expect("the path is text"))]);
    assert_eq!(deliver(&server.url, &second).0, 200);
    assert!(!restored.path("selvedge.db-secret").exists(), "no second secret is made");
    assert_eq!(get(&format!("{}/readyz", server.url)).0, 200);
}

fn a_store_that_contains_its_secret_keeps_it_until_it_is_moved_as_documented(place: &impl Copied) {
    // A SQLite store of an earlier version, and any Postgres store, contains its secret.
    drop(Server::start(place));
    let is_sqlite = place.store().starts_with("sqlite:");
    let path = place.store().trim_start_matches("sqlite:").to_owned();
    let file = format!("{path}-secret");
    if is_sqlite {
        std::fs::remove_file(&file).expect("the secret lies beside the store");
        let old = Connection::open(&path).expect("the file opens");
        let ends_badly = [&[7_u8; 31][..], b"\r"].concat();
        old.execute("insert into kept_secret (single, secret) values (1, ?1)", [ends_badly]).expect("a row");
    }
    let mut server = start(place, &[("SELVEDGE_ADMIN_KEY", ADMIN)]);
    server.wait_for_log("the store contains the secret that signs waitpoint tokens");
    drop(server);
    let server = Server::start(place);
    let waitpoint = create_waitpoint(&server.url);
    assert!(!std::path::Path::new(&file).exists());
    drop(server);

    let directory = Directory::new();
    let page = include_str!("../../../../docs/operating.md");
    let store = if is_sqlite { "sqlite3" } else { "psql" };
    let block = page.split("```").find(|block| {
        block.starts_with("sh no-test") && block.contains("kept_secret") && block.contains(store)
    });
    let (_, script) = block.expect("the page has the commands").split_once('\n').expect("a block has lines");
    let mut shell = Command::new("sh");
    shell.args(["-ec", script]).env("SELVEDGE_STORE", place.store());
    shell.current_dir(match is_sqlite {
        true => std::path::Path::new(&path).parent().expect("the store is in a directory"),
        false => directory.path(),
    });
    let output = shell.output().expect("the shell starts");
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(place.kept_secret(), None);
    let moved = directory.path().join("selvedge.secret").display().to_string();
    let server = match is_sqlite {
        true => Server::start(place),
        false => start(place, &[("SELVEDGE_SECRET_FILE", &moved)]),
    };
    assert_eq!(deliver(&server.url, &waitpoint).0, 200);
}
