//! The deletion of a namespace with everything in it.

use super::{ADMIN, call, call_in, check, key, start};
use crate::support::{Server, within};
use selvedge_core::bulk_job::BulkJobId;
use selvedge_engine::store::{Deletion, NamespaceSettings};
use serde_json::{Value, json};
use uuid::Uuid;

const PATH: &str = "/v1/admin/namespaces/old";

async fn in_old(server: &Server, method: &str, path: &str, body: Value) -> Value {
    let reply = call_in(server, ADMIN, Some("old"), method, path, body).await;
    assert!((200..300).contains(&reply.status), "{method} {path}: {}", reply.text());
    reply.json()
}

/// Runs the reconcilers until a job has ended, and returns it.
async fn ended(server: &Server, job: &Value) -> Value {
    let path = format!("/v1/bulk-jobs/{}", job["id"].as_str().expect("an id"));
    within(async {
        loop {
            for reconciler in ["bulk_jobs", "dependency", "edge_cancel_dispatcher", "delay_promoter"] {
                server.engine.tick(reconciler).await.expect("the tick succeeds");
            }
            let job = call(server, ADMIN, "GET", &path, Value::Null).await.json();
            if job["state"] != "running" {
                return job;
            }
        }
    })
    .await
}

/// Fills the namespace with a row of every kind.
async fn fill(server: &Server) {
    for kind in ["a", "b", "c"] {
        in_old(server, "POST", "/v1/executions", json!({"kind": kind, "tags": {"k": kind}})).await;
    }
    let keyed = json!({"kind": "d", "idempotency_key": "once", "concurrency": {"key": "k", "limit": 1}});
    in_old(server, "POST", "/v1/executions", keyed).await;
    let nodes = json!({"nodes": [{"name": "n", "kind": "k"}, {"name": "m", "kind": "k"}],
        "edges": [{"from": "n", "to": "m"}]});
    in_old(server, "POST", "/v1/flows", nodes).await;
    let schedule = json!({"interval_ms": 3_600_000, "submit": {"execution": {"kind": "k"}}});
    in_old(server, "PUT", "/v1/schedules/s", schedule).await;
    let webhook = json!({"url": "https://example.org/hook", "types": ["execution.completed"]});
    in_old(server, "PUT", "/v1/webhooks/w", webhook).await;
    in_old(server, "PUT", "/v1/quotas/q", json!({"concurrency": 1})).await;
    in_old(server, "PUT", "/v1/budgets/b", json!({"limits": {"n": {"hard": 9}}, "scope": "lane"})).await;
    in_old(server, "PUT", "/v1/lanes/default", json!({"concurrency": 3})).await;
    in_old(server, "POST", "/v1/budgets/b/usage", json!({"usage": {"n": 1}})).await;
    let claim = json!({"worker": "w", "lanes": ["default"], "max": 2});
    let claims = in_old(server, "POST", "/v1/workers/w/claim", claim).await;
    let claim = &claims["claims"][0];
    let op = json!({
        "op": "complete", "execution": claim["execution"]["id"], "attempt": claim["attempt"],
        "lease_id": claim["lease"]["id"], "epoch": claim["lease"]["epoch"],
    });
    in_old(server, "POST", "/v1/workers/w/report", json!({"ops": [op]})).await;
}

#[tokio::test]
async fn a_deleted_namespace_is_empty_and_its_keys_are_revoked() {
    let server = start().await;
    let own = key(&server, "own", "worker", &["old"]).await;
    let shared = key(&server, "shared", "reader", &["old", "new"]).await;
    fill(&server).await;
    let elsewhere =
        call_in(&server, ADMIN, Some("new"), "POST", "/v1/executions", json!({"kind": "k"})).await;
    let elsewhere = elsewhere.json()["execution"]["id"].as_str().expect("an id").to_owned();
    let deleted = call(&server, ADMIN, "DELETE", PATH, Value::Null).await;
    assert_eq!(deleted.status, 202, "{}", deleted.text());
    let job = deleted.json();
    assert_eq!(job["action"], json!({"type": "delete_namespace", "namespace": "old"}));
    // From now on the namespace takes no calls, and a repeated deletion is the same job.
    let refused = call_in(&server, ADMIN, Some("old"), "POST", "/v1/executions", json!({"kind": "k"})).await;
    check(&refused, 404, "not_found");
    let again = call(&server, ADMIN, "DELETE", PATH, Value::Null).await;
    assert_eq!((again.status, &again.json()["id"]), (202, &job["id"]), "{}", again.text());
    check(&call(&server, ADMIN, "PUT", PATH, json!({"weight": 2})).await, 409, "wrong_state");
    assert_eq!(call(&server, ADMIN, "GET", PATH, Value::Null).await.json()["deleting"], true);

    let job = ended(&server, &job).await;
    assert_eq!(job["state"], "completed", "{job}");
    for method in ["GET", "DELETE"] {
        check(&call(&server, ADMIN, method, PATH, Value::Null).await, 404, "not_found");
    }
    let listed = call(&server, ADMIN, "GET", "/v1/admin/namespaces", Value::Null).await.json();
    assert!(!listed.to_string().contains("\"old\""), "{listed}");
    let keys = call(&server, ADMIN, "GET", "/v1/admin/keys", Value::Null).await.json();
    let keys = keys["items"].as_array().expect("a list").clone();
    let revoked = |name: &str| keys.iter().any(|key| key["name"] == name && !key["revoked_at"].is_null());
    assert_eq!((revoked("own"), revoked("shared")), (true, false));
    let shared_key = keys.iter().find(|key| key["name"] == "shared").expect("it is listed");
    assert_eq!(shared_key["namespaces"], json!(["new"]));
    drop(own);
    let read = call_in(&server, &shared, Some("new"), "GET", "/v1/executions", Value::Null).await.json();
    assert_eq!(read["items"][0]["id"], json!(elsewhere), "other namespaces are untouched: {read}");

    // Created again, it is empty.
    assert_eq!(call(&server, ADMIN, "PUT", PATH, json!({"weight": 2})).await.status, 201);
    for list in [
        "executions",
        "flows",
        "quotas",
        "budgets",
        "workers",
        "waitpoints",
        "bulk-jobs",
        "schedules",
        "webhooks",
    ] {
        let listed = in_old(&server, "GET", &format!("/v1/{list}"), Value::Null).await;
        assert_eq!(listed["items"], json!([]), "{list}");
    }
    let lane = call_in(&server, ADMIN, Some("old"), "GET", "/v1/lanes/default", Value::Null).await;
    check(&lane, 404, "not_found");
    let keyed = json!({"kind": "d", "idempotency_key": "once"});
    let submitted = in_old(&server, "POST", "/v1/executions", keyed).await;
    assert_eq!(submitted["duplicate"], false, "{submitted}");
}

#[tokio::test]
async fn a_new_key_creates_a_deleted_namespace_again_but_not_one_that_is_being_deleted() {
    let server = start().await;
    assert_eq!(call(&server, ADMIN, "PUT", PATH, json!({})).await.status, 201);
    let job = call(&server, ADMIN, "DELETE", PATH, Value::Null).await.json();
    let body = json!({"name": "n", "role": "reader", "namespaces": ["old"]});
    let refused = call(&server, ADMIN, "POST", "/v1/admin/keys", body).await;
    assert_eq!(
        (refused.status, &refused.json()["pointer"]),
        (422, &json!("/namespaces")),
        "{}",
        refused.text()
    );
    ended(&server, &job).await;
    let again = key(&server, "again", "reader", &["old"]).await;
    let listed = call(&server, &again, "GET", "/v1/executions", Value::Null).await;
    assert_eq!(listed.status, 200, "{}", listed.text());
}

#[tokio::test]
async fn only_its_administrators_delete_a_namespace_and_nobody_deletes_default() {
    let server = start().await;
    let ann = key(&server, "ann", "admin", &["a"]).await;
    assert_eq!(call(&server, ADMIN, "PUT", PATH, json!({})).await.status, 201);
    check(&call(&server, &ann, "DELETE", PATH, Value::Null).await, 403, "forbidden");
    check(&call(&server, ADMIN, "DELETE", "/v1/admin/namespaces/none", Value::Null).await, 404, "not_found");
    let default = call(&server, ADMIN, "DELETE", "/v1/admin/namespaces/default", Value::Null).await;
    check(&default, 409, "wrong_state");
}

#[tokio::test]
async fn nobody_stops_a_deletion_and_only_its_administrators_see_it() {
    let server = start().await;
    assert_eq!(call(&server, ADMIN, "PUT", PATH, json!({})).await.status, 201);
    let job = call(&server, ADMIN, "DELETE", PATH, Value::Null).await.json();
    let path = format!("/v1/bulk-jobs/{}", job["id"].as_str().expect("an id"));
    let plain = json!({"action": {"type": "replay"}, "all": true});
    let plain = call(&server, ADMIN, "POST", "/v1/bulk-jobs", plain).await.json();
    for role in ["reader", "operator", "admin"] {
        let key = key(&server, role, role, &["default"]).await;
        let listed = call(&server, &key, "GET", "/v1/bulk-jobs?limit=1", Value::Null).await.json();
        assert_eq!(
            (&listed["items"][0]["id"], &listed["next_cursor"]),
            (&plain["id"], &Value::Null),
            "{listed}"
        );
        check(&call(&server, &key, "GET", &path, Value::Null).await, 404, "not_found");
        let stopped = call(&server, &key, "DELETE", &path, Value::Null).await;
        assert!([403, 404].contains(&stopped.status), "{}", stopped.text());
        let page = call(&server, &key, "GET", "/executions", Value::Null).await;
        assert!(!page.text().contains("Delete the namespace"), "{role} sees it on the page");
    }
    let stopped = call(&server, ADMIN, "DELETE", &path, Value::Null).await;
    check(&stopped, 409, "wrong_state");
    assert!(stopped.text().contains("cannot be stopped"), "{}", stopped.text());
    let page = call(&server, ADMIN, "GET", "/executions", Value::Null).await;
    assert!(page.text().contains("Delete the namespace old"), "{}", page.text());
    let job = ended(&server, &job).await;
    assert_eq!(job["state"], "completed", "{job}");
    assert_eq!(call(&server, ADMIN, "PUT", PATH, json!({})).await.status, 201);
}

#[tokio::test]
async fn a_namespace_that_is_marked_and_has_no_job_is_deleted_by_the_next_call() {
    let server = start().await;
    assert_eq!(call(&server, ADMIN, "PUT", PATH, json!({})).await.status, 201);
    // As a server leaves it that crashes after the mark.
    let old = server.engine.namespace("old").await.expect("it exists");
    let id = BulkJobId(Uuid::now_v7());
    let mark = NamespaceSettings { deletion: Some(Deletion::Running(id)), ..NamespaceSettings::default() };
    old.set_settings(mark).await.expect("it is marked");
    check(&call(&server, ADMIN, "PUT", PATH, json!({})).await, 409, "wrong_state");
    let job = call(&server, ADMIN, "DELETE", PATH, Value::Null).await.json();
    assert_eq!(job["id"], id.to_string());
    assert_eq!(ended(&server, &job).await["state"], "completed");
    assert_eq!(call(&server, ADMIN, "PUT", PATH, json!({})).await.status, 201);
}
