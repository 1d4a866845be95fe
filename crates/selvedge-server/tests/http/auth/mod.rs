//! API keys: their life, their roles, their namespaces, and what happens to those who have none.

mod attempts;
mod deletion;
mod frame;
mod keys;
mod matrix;
mod namespaces;
mod workers;

use crate::support::{Reply, Server};
use selvedge_engine::Options;
use selvedge_memory::Clock;
use selvedge_server::{AdminKey, AuthOptions};
use serde_json::{Value, json};

/// The administrator's key of every server here.
pub const ADMIN: &str = "the-admin-key-of-the-tests";

/// Starts a server with keys and with this clock.
pub async fn start_at(clock: Clock) -> Server {
    start_with(clock, AuthOptions::default()).await
}

/// Starts a server with keys, with this clock and these options.
pub async fn start_with(clock: Clock, auth: AuthOptions) -> Server {
    let admin_key = Some(AdminKey::new(ADMIN).expect("the key is valid"));
    let auth = AuthOptions { admin_key, ..auth };
    let serving = selvedge_server::Options { auth, ..selvedge_server::Options::default() };
    Server::start_serving(Options { reconcilers: false, ..Options::default() }, clock, serving).await
}

/// Starts a server with keys.
pub async fn start() -> Server {
    start_at(Clock::system()).await
}

/// Sends a request with a key.
pub async fn call(server: &Server, key: &str, method: &str, path: &str, body: Value) -> Reply {
    call_in(server, key, None, method, path, body).await
}

/// Sends a request with a key, in a namespace.
pub async fn call_in(
    server: &Server,
    key: &str,
    namespace: Option<&str>,
    method: &str,
    path: &str,
    body: Value,
) -> Reply {
    let authorization = format!("Bearer {key}");
    let mut headers = vec![("authorization", authorization.as_str())];
    headers.extend(namespace.map(|namespace| ("selvedge-namespace", namespace)));
    let body = if body.is_null() { String::new() } else { body.to_string() };
    server.send(method, path, &headers, body.into()).await
}

/// Creates a key. Returns the response, with the key in the field `key`.
pub async fn create(server: &Server, name: &str, role: &str, namespaces: &[&str]) -> Value {
    let body = json!({"name": name, "role": role, "namespaces": namespaces});
    let reply = call(server, ADMIN, "POST", "/v1/admin/keys", body).await;
    assert_eq!(reply.status, 201, "{}", reply.text());
    reply.json()
}

/// Creates a key and returns it.
pub async fn key(server: &Server, name: &str, role: &str, namespaces: &[&str]) -> String {
    create(server, name, role, namespaces).await["key"].as_str().expect("the key is shown").to_owned()
}

/// Asserts the status and the code of a refusal.
pub fn check(reply: &Reply, status: u16, code: &str) {
    assert_eq!((reply.status, reply.json()["code"].as_str()), (status, Some(code)), "{}", reply.text());
}
