//! The lives of a namespace on real stores: one that is deleted and created again has nothing of the former one, through any server.

use crate::directory::Directory;
use crate::server::{Server, wait_until_within};
use selvedge_engine::Options;
use selvedge_engine::store::Store;
use selvedge_server::{AdminKey, AuthOptions};
use selvedge_system_tests::database::Database;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

const ADMIN: &str = "the-admin-key-of-the-tests";
const TRIAL: &str = "/v1/admin/namespaces/trial";
/// Longer than the deletion of a namespace waits for other servers to notice it.
const DELETION: Duration = Duration::from_secs(120);

async fn server(store: Arc<dyn Store>) -> Server {
    let admin_key = Some(AdminKey::new(ADMIN).expect("the key is valid"));
    let auth = AuthOptions { admin_key, ..AuthOptions::default() };
    Server::start_with(store, Options::default(), selvedge_server::Options { auth, ..Default::default() })
        .await
}

/// A caller with a key, in a namespace or in that of the key.
struct Caller<'a> {
    server: &'a Server,
    key: &'a str,
    namespace: Option<&'a str>,
}

impl Caller<'_> {
    async fn call(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let authorization = format!("Bearer {}", self.key);
        let mut headers = vec![("authorization", authorization.as_str())];
        headers.extend(self.namespace.map(|name| ("selvedge-namespace", name)));
        self.server.call_with(method, path, &headers, body).await
    }

    async fn ok(&self, method: &str, path: &str, body: Option<Value>) -> Value {
        let (status, answer) = self.call(method, path, body).await;
        assert!((200..300).contains(&status), "{method} {path}: {status} {answer}");
        answer
    }
}

fn admin(server: &Server) -> Caller<'_> {
    Caller { server, key: ADMIN, namespace: None }
}

async fn key(server: &Server, role: &str, namespaces: &[&str]) -> String {
    let body = json!({"name": format!("{role} of {namespaces:?}"), "role": role, "namespaces": namespaces});
    let created = admin(server).ok("POST", "/v1/admin/keys", Some(body)).await;
    created["key"].as_str().expect("the key is shown").to_owned()
}

fn submission() -> Option<Value> {
    Some(json!({"kind": "k", "idempotency_key": "once"}))
}

/// `one` and `other` are servers of the same store.
async fn a_namespace_created_again_has_a_new_life(one: &Server, other: &Server) {
    admin(one).ok("PUT", TRIAL, Some(json!({"weight": 7}))).await;
    let old = [key(one, "operator", &["trial"]).await, key(one, "operator", &["kept", "trial"]).await];
    // The other server has known the first life, and then has no calls until the second one.
    for (key, namespace) in [(&old[0], None), (&old[1], Some("trial")), (&ADMIN.to_owned(), Some("trial"))] {
        let caller = Caller { server: other, key, namespace };
        caller.ok("POST", "/v1/executions", submission()).await;
    }
    let job = admin(one).ok("DELETE", TRIAL, None).await;
    let path = format!("/v1/bulk-jobs/{}", job["id"].as_str().expect("an id"));
    let ended = async || admin(one).ok("GET", &path, None).await["state"] == "completed";
    wait_until_within(DELETION, "the namespace is deleted", &mut { ended }).await;
    let in_trial = |server| Caller { server, key: ADMIN, namespace: Some("trial") };
    for server in [one, other] {
        let (status, answer) = in_trial(server).call("GET", "/v1/executions", None).await;
        assert_eq!((status, &answer["code"]), (404, &json!("unknown_namespace")), "{answer}");
    }

    let created = admin(one).ok("PUT", TRIAL, None).await;
    assert_eq!(created["weight"], 1, "the settings are new");
    let reader = key(one, "reader", &["trial"]).await;
    let submitted = in_trial(one).ok("POST", "/v1/executions", submission()).await;
    assert_eq!(submitted["duplicate"], false, "{submitted}");
    for server in [other, one] {
        for key in [&reader, &ADMIN.to_owned()] {
            let caller = Caller { server, key, namespace: Some("trial") };
            let listed = caller.ok("GET", "/v1/executions", None).await;
            assert_eq!(listed["items"].as_array().map(Vec::len), Some(1), "{listed}");
            assert_eq!(listed["items"][0]["id"], submitted["execution"]["id"]);
            let events = caller.ok("GET", "/v1/events?from=beginning", None).await;
            let events = events["items"].as_array().expect("a list").clone();
            assert!(!events.is_empty());
            for event in events {
                assert_eq!(event["execution"], submitted["execution"]["id"], "{event}");
            }
        }
        // 404 for the seconds for which a server believes a key that it knows: its handle is that of the deleted namespace.
        for (key, refused) in [(&old[0], [401, 404]), (&old[1], [403, 404])] {
            let caller = Caller { server, key, namespace: Some("trial") };
            for (method, body) in [("GET", None), ("POST", submission())] {
                let (found, answer) = caller.call(method, "/v1/executions", body).await;
                assert!(refused.contains(&found), "{method}: {found} {answer}");
            }
        }
        let caller = Caller { server, key: &old[1], namespace: Some("kept") };
        caller.ok("GET", "/v1/executions", None).await;
    }
    let names = admin(other).ok("GET", "/v1/admin/namespaces", None).await;
    let names: Vec<&str> =
        names["items"].as_array().expect("a list").iter().filter_map(|one| one["name"].as_str()).collect();
    assert_eq!(names, ["default", "kept", "trial"]);
}

/// A name is found by every server as soon as the call that created it was answered, and nobody creates one by a typing error.
async fn a_namespace_is_found_by_every_server_once_it_is_created(one: &Server, other: &Server) {
    for (creator, reader, name) in [(one, other, "a"), (other, one, "b")] {
        let there = Caller { server: reader, key: ADMIN, namespace: Some(name) };
        let (status, answer) = there.call("GET", "/v1/executions", None).await;
        assert_eq!((status, &answer["code"]), (404, &json!("unknown_namespace")), "{answer}");
        let (status, _) = admin(reader).call("GET", &format!("/v1/admin/namespaces/{name}"), None).await;
        assert_eq!(status, 404);
        admin(creator).ok("PUT", &format!("/v1/admin/namespaces/{name}"), None).await;
        there.ok("POST", "/v1/executions", submission()).await;
        let (status, _) = admin(reader).call("PUT", &format!("/v1/admin/namespaces/{name}"), None).await;
        assert_eq!(status, 200, "it exists");
    }
}

#[tokio::test]
async fn on_sqlite_a_namespace_created_again_has_a_new_life() {
    let directory = Directory::new();
    let server = server(directory.store().await).await;
    a_namespace_created_again_has_a_new_life(&server, &server).await;
    a_namespace_is_found_by_every_server_once_it_is_created(&server, &server).await;
    server.stop().await;
}

#[tokio::test]
async fn on_postgres_a_namespace_created_again_has_a_new_life_on_every_server() {
    let database = Database::create().await;
    let (one, other) = (server(database.store().await).await, server(database.store().await).await);
    a_namespace_created_again_has_a_new_life(&one, &other).await;
    a_namespace_is_found_by_every_server_once_it_is_created(&one, &other).await;
    for server in [one, other] {
        server.stop().await;
    }
}
