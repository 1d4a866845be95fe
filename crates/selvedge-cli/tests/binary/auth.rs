//! API keys on the real binary: the first key, every route with every role, namespaces, restarts, and that no key and no token
//! is ever written where others can read it.

#[path = "../../../selvedge-server/tests/http/auth/frame.rs"]
mod frame;

use crate::support::{Directory, Place, Server, Sqlite, command, on_each_store, text};
use frame::{OPEN, example, is_allowed};
use selvedge_server::{Role, route_table};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

on_each_store!(
    every_route_answers_the_roles_that_have_its_permission_and_refuses_the_others,
    what_belongs_to_another_namespace_is_not_found,
    only_administrators_create_namespaces_unless_the_server_is_told_otherwise,
    keys_outlive_a_restart_and_keep_the_server_closed_without_the_admin_key,
    no_key_and_no_token_is_in_a_log_an_event_or_an_answer,
);

const ADMIN: &str = "admin-key-0123456789abcdef";

fn serve(place: &impl Place) -> Command {
    let mut serve = command();
    serve.args(["serve", "--store", &place.store()]);
    serve
}

fn start(place: &impl Place) -> Server {
    let mut serve = serve(place);
    serve.env("SELVEDGE_ADMIN_KEY", ADMIN);
    Server::spawn(serve)
}

/// An answer: its status, its headers as text and its body.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    fn code(&self) -> String {
        text(&self.json()["code"])
    }
}

/// Sends a request with a key, on a connection of its own.
fn call(url: &str, key: Option<&str>, method: &str, path: &str, body: &Value) -> Answer {
    let address = url.strip_prefix("http://").expect("the URL has the scheme http");
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let authorization = key.map(|key| format!("authorization: Bearer {key}\r\n")).unwrap_or_default();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{authorization}content-length: {length}\r\n\r\n{body}"
    );
    let mut stream = TcpStream::connect(address).expect("the server accepts");
    // The server may answer and close before it has read a body that it refuses.
    let _ = stream.write_all(request.as_bytes());
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the answer is text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("the answer has a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    Answer { status, head: head.to_lowercase(), body: body.to_owned() }
}

fn create(url: &str, name: &str, role: &str, namespaces: &[&str]) -> Value {
    let body = json!({"name": name, "role": role, "namespaces": namespaces});
    let answer = call(url, Some(ADMIN), "POST", "/v1/admin/keys", &body);
    assert_eq!(answer.status, 201, "{}", answer.body);
    answer.json()
}

fn every_route_answers_the_roles_that_have_its_permission_and_refuses_the_others(place: &impl Place) {
    let server = start(place);
    let keys: Vec<(Role, String)> = Role::ALL
        .into_iter()
        .map(|role| (role, text(&create(&server.url, role.as_str(), role.as_str(), &["default"])["key"])))
        .collect();
    for route in route_table().iter().filter(|route| !OPEN.contains(&route.path)) {
        let (path, body) = example(route);
        let method = route.method.as_str();
        let cell = |who: &str, answer: &Answer| format!("{method} {path} as {who}: {}", answer.body);
        for (role, key) in &keys {
            let answer = call(&server.url, Some(key), method, &path, &body);
            assert_eq!(
                answer.status == 403,
                !is_allowed(*role, false, route),
                "{}",
                cell(role.as_str(), &answer)
            );
            assert!(![401, 500].contains(&answer.status), "{}", cell(role.as_str(), &answer));
        }
        let answer = call(&server.url, None, method, &path, &body);
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (401, "unauthorized"),
            "{}",
            cell("nobody", &answer)
        );
        assert!(answer.head.contains("www-authenticate: bearer"), "{}", answer.head);
    }
}

fn only_administrators_create_namespaces_unless_the_server_is_told_otherwise(place: &impl Place) {
    let submit = |server: &Server, namespace: &str| {
        let arguments = ["submit", "k", "--server", &server.url, "--key", ADMIN, "--namespace", namespace];
        command().args(arguments).output().expect("the command runs")
    };
    let server = start(place);
    for name in ["typo", "*"] {
        let refused = submit(&server, name);
        let message = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success(), "{message}");
        assert!(message.contains("selvedge namespaces set NAME"), "{message}");
    }
    let names = |server: &Server| {
        let listed = call(&server.url, Some(ADMIN), "GET", "/v1/admin/namespaces", &Value::Null).json();
        let items = listed["items"].as_array().expect("a list").clone();
        items.iter().map(|item| text(&item["name"])).collect::<Vec<_>>()
    };
    assert_eq!(names(&server), ["default"]);
    let set = ["namespaces", "set", "typo", "--server", &server.url, "--key", ADMIN];
    assert!(command().args(set).output().expect("the command runs").status.success());
    assert!(submit(&server, "typo").status.success());
    drop(server);

    let mut told = serve(place);
    told.arg("--create-namespaces").env("SELVEDGE_ADMIN_KEY", ADMIN);
    let server = Server::spawn(told);
    assert!(submit(&server, "named").status.success());
    assert!(!submit(&server, "*").status.success());
    assert_eq!(names(&server), ["default", "named", "typo"]);
}

fn what_belongs_to_another_namespace_is_not_found(place: &impl Place) {
    let server = start(place);
    let url = &server.url;
    let [a, b] = ["a", "b"].map(|name| text(&create(url, name, "operator", &[name])["key"]));
    let submitted = call(url, Some(&a), "POST", "/v1/executions", &json!({"kind": "k"})).json();
    let id = text(&submitted["execution"]["id"]);
    assert_eq!(submitted["execution"]["namespace"], "a");
    for (method, path) in [("GET", ""), ("GET", "/explain"), ("GET", "/events"), ("POST", "/cancel")] {
        let body = if method == "GET" { Value::Null } else { json!({}) };
        let answer = call(url, Some(&b), method, &format!("/v1/executions/{id}{path}"), &body);
        assert_eq!((answer.status, answer.code().as_str()), (404, "not_found"), "{}", answer.body);
    }
    let claim = json!({"worker": "w", "lanes": ["default"], "max": 1});
    let claims = call(url, Some(&b), "POST", "/v1/workers/w/claim", &claim).json();
    assert_eq!(claims["claims"], json!([]));
    // A key of both namespaces claims from both, and reports to both.
    let submitted = call(url, Some(&b), "POST", "/v1/executions", &json!({"kind": "k"}));
    assert_eq!(submitted.status, 201, "{}", submitted.body);
    let both = text(&create(url, "both", "worker", &["a", "b"])["key"]);
    let claim = json!({"worker": "w", "lanes": ["default"], "max": 2});
    let claims = call(url, Some(&both), "POST", "/v1/workers/w/claim", &claim).json();
    let claims = claims["claims"].as_array().expect("claims is a list").clone();
    assert_eq!(claims.len(), 2, "{claims:?}");
    let ops: Vec<Value> = claims
        .iter()
        .map(|claim| {
            json!({
                "op": "complete", "execution": claim["execution"]["id"], "attempt": claim["attempt"],
                "lease_id": claim["lease"]["id"], "epoch": claim["lease"]["epoch"],
            })
        })
        .collect();
    let report = call(url, Some(&both), "POST", "/v1/workers/w/report", &json!({"ops": ops})).json();
    for result in report["results"].as_array().expect("results is a list") {
        assert_eq!(result["state"], "completed", "{report}");
    }
}

fn keys_outlive_a_restart_and_keep_the_server_closed_without_the_admin_key(place: &impl Place) {
    let server = start(place);
    let created = create(&server.url, "ada", "admin", &["*"]);
    let ada = text(&created["key"]);
    server.kill();
    let mut server = Server::spawn(serve(place));
    server.wait_for_log("requests need an API key, because the store has keys");
    assert_eq!(call(&server.url, None, "GET", "/v1/executions", &Value::Null).status, 401);
    assert_eq!(call(&server.url, Some(ADMIN), "GET", "/v1/executions", &Value::Null).status, 401);
    assert_eq!(call(&server.url, Some(&ada), "GET", "/v1/executions", &Value::Null).status, 200);
    let path = format!("/v1/admin/keys/{}", text(&created["id"]));
    assert_eq!(call(&server.url, Some(&ada), "DELETE", &path, &Value::Null).status, 200);
    assert_eq!(call(&server.url, Some(&ada), "GET", "/v1/executions", &Value::Null).status, 401);
    server.kill();
    let server = Server::spawn(serve(place));
    assert_eq!(call(&server.url, None, "GET", "/v1/executions", &Value::Null).status, 200, "no key is left");
}

fn no_key_and_no_token_is_in_a_log_an_event_or_an_answer(place: &impl Place) {
    let mut traced = serve(place);
    traced.args(["--log", "warn,selvedge=debug"]).env("SELVEDGE_ADMIN_KEY", ADMIN);
    let server = Server::spawn(traced);
    let url = &server.url;
    let created = create(url, "ada", "operator", &["default"]);
    let ada = text(&created["key"]);
    let mut answers = Vec::new();
    let mut send = |key: &str, method: &str, path: &str, body: Value| {
        let answer = call(url, Some(key), method, path, &body);
        answers.push(format!("{method} {path}: {}\n{}", answer.head, answer.body));
        answer
    };
    let submitted = send(&ada, "POST", "/v1/executions", json!({"kind": "k"})).json();
    let id = text(&submitted["execution"]["id"]);
    let claim = json!({"worker": "w", "lanes": ["default"], "max": 1});
    let claim = send(&ada, "POST", "/v1/workers/w/claim", claim).json()["claims"][0].clone();
    let op = json!({
        "op": "suspend", "execution": id, "attempt": claim["attempt"], "lease_id": claim["lease"]["id"],
        "epoch": claim["lease"]["epoch"], "condition": {"signal": "go"}, "waitpoints": ["go"],
    });
    // This answer alone shows the token.
    let reported = call(url, Some(&ada), "POST", "/v1/workers/w/report", &json!({"ops": [op]})).json();
    let waitpoint = reported["results"][0]["waitpoints"][0].clone();
    let (token, point) = (text(&waitpoint["token"]), text(&waitpoint["id"]));
    // Requests that fail in every way that quotes what the caller sent.
    let wrong = format!("{}{}", &ada[..42], if ada.ends_with('x') { 'y' } else { 'x' });
    send(&wrong, "GET", "/v1/executions", Value::Null);
    send(&format!("{ADMIN}x"), "GET", "/v1/executions", Value::Null);
    send(&ada, "GET", "/v1/admin/keys", Value::Null);
    for path in ["look", "signal"] {
        let body = json!({"token": format!("{token}x")});
        send("none", "POST", &format!("/v1/waitpoints/{point}/{path}"), body);
    }
    send("none", "POST", &format!("/v1/waitpoints/{point}/look"), json!({"token": token, "what": 1}));
    send("none", "POST", &format!("/v1/waitpoints/{point}/signal"), json!({"token": token}));
    let revoke = format!("/v1/admin/keys/{}", text(&created["id"]));
    send(ADMIN, "DELETE", &revoke, Value::Null);
    send(&ada, "GET", "/v1/executions", Value::Null);
    for path in [
        "/v1/admin/keys",
        "/v1/admin/waitpoint-keys",
        "/v1/events",
        "/v1/waitpoints",
        "/metrics",
        "/",
        &format!("/v1/executions/{id}"),
        &format!("/v1/executions/{id}/events"),
        &format!("/v1/executions/{id}/signals"),
        &format!("/v1/executions/{id}/waitpoints"),
    ] {
        let answer = send(ADMIN, "GET", path, Value::Null);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    }
    let events =
        answers.iter().find(|answer| answer.starts_with("GET /v1/events")).expect("events were read");
    for kind in ["key.created", "key.revoked", "waitpoint.created", "signal.delivered"] {
        assert!(events.contains(kind), "{kind} is missing: {events}");
    }
    let log = server.stop_and_read_log();
    let mac = token.rsplit('.').next().expect("a token has a MAC").to_owned();
    for secret in [ADMIN, &ada, &ada[4..30], &token, &mac] {
        assert!(!log.contains(secret), "a secret is in the log");
        for answer in &answers {
            assert!(!answer.contains(secret), "a secret is in an answer: {answer}");
        }
    }
}

#[test]
fn an_admin_key_from_a_file_lets_the_server_listen_beyond_loopback() {
    let place = Sqlite::new();
    let directory = Directory::new();
    let file = directory.path().join("admin-key");
    std::fs::write(&file, format!("{ADMIN}\n")).expect("the file is written");
    // A port in use ends the attempt after the address was accepted, so that no test listens beyond loopback.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port is bound");
    let port = taken.local_addr().expect("the listener has an address").port();
    let mut beyond = serve(&place);
    beyond.args(["--listen", &format!("0.0.0.0:{port}")]).env("SELVEDGE_ADMIN_KEY_FILE", &file);
    let output = beyond.output().expect("the binary starts");
    let message = String::from_utf8(output.stderr).expect("messages are text");
    assert!(message.contains("the port is in use"), "{message}");
    let mut serve = serve(&place);
    serve.env("SELVEDGE_ADMIN_KEY_FILE", &file).args(["--trusted-proxies", "10.0.0.0/8,127.0.0.1"]);
    let mut server = Server::spawn(serve);
    server.wait_for_log("requests need an API key");
    assert_eq!(call(&server.url, Some(ADMIN), "GET", "/v1/executions", &Value::Null).status, 200);
}

#[test]
fn a_wrong_admin_key_or_proxy_is_refused_in_one_line_and_not_shown() {
    for (variables, expected) in [
        (vec![("SELVEDGE_ADMIN_KEY", "0123456789abcde")], "SELVEDGE_ADMIN_KEY is shorter than 16 characters"),
        (vec![("SELVEDGE_ADMIN_KEY", ADMIN), ("SELVEDGE_ADMIN_KEY_FILE", "/x")], "both given; keep only one"),
        (
            vec![("SELVEDGE_ADMIN_KEY_FILE", "/nowhere/at/all")],
            "cannot read the file of the administrator's key",
        ),
        (vec![("SELVEDGE_TRUSTED_PROXIES", "10.0.0.0/40")], "10.0.0.0/40"),
    ] {
        let place = Sqlite::new();
        let mut refused = serve(&place);
        refused.args(["--listen", "127.0.0.1:0"]).envs(variables.iter().copied());
        let output = refused.output().expect("the binary starts");
        let message = String::from_utf8(output.stderr).expect("messages are text");
        assert!(!output.status.success() && output.stdout.is_empty(), "{message}");
        assert!(message.contains(expected), "{message}");
        assert!(!message.contains(ADMIN) && !message.contains("abcde"), "{message}");
    }
}
