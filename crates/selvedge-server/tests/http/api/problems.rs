//! Problems of the whole API: unknown ids, paths and methods, stale fences, other origins, and shutdown.

use crate::support::{Server, op};
use serde_json::json;
use uuid::Uuid;

#[tokio::test]
async fn an_unknown_id_is_not_found() {
    let server = Server::start().await;
    let not_found = (404, "not_found".to_owned(), String::new());
    let id = Uuid::now_v7();
    for path in [
        "",
        "/explain",
        "/attempts",
        "/events",
        "/result",
        "/signals",
        "/steps",
        "/waitpoints",
        "/usage",
        "/upstreams",
        "/children",
    ] {
        let reply = server.get(&format!("/v1/executions/{id}{path}")).await;
        assert_eq!(reply.problem(), not_found, "{path}");
        let reply = server.get(&format!("/v1/executions/seven{path}")).await;
        assert_eq!(reply.problem(), not_found);
        assert!(reply.text().contains("UUID"), "{}", reply.text());
    }
    for action in ["cancel", "replay", "revoke-lease", "resume"] {
        let reply = server.post(&format!("/v1/executions/{id}/{action}"), json!({})).await;
        assert_eq!(reply.problem(), not_found, "{action}");
    }
    let reply = server.post(&format!("/v1/executions/{id}/signals"), json!({ "name": "go" })).await;
    assert_eq!(reply.problem(), not_found);
    // A token in form; text that is none is refused first.
    let token = format!("v1.{:016x}.{}.0.YQ.{}", 1, id.simple(), "A".repeat(43));
    for (path, body) in [("signal", json!({ "token": token })), ("revoke", json!({}))] {
        let reply = server.post(&format!("/v1/waitpoints/{id}/{path}"), body.clone()).await;
        assert_eq!(reply.problem(), not_found, "{path}");
        let reply = server.post(&format!("/v1/waitpoints/seven/{path}"), body).await;
        assert_eq!(reply.problem(), not_found);
    }
    assert_eq!(server.post("/v1/workers/nobody/drain", json!({})).await.problem(), not_found);
    let reply = server.send("DELETE", "/v1/workers/nobody", &[], Vec::new()).await;
    assert_eq!(reply.problem(), not_found);
}

#[tokio::test]
async fn an_unknown_path_is_not_found() {
    let server = Server::start().await;
    let id = server.submit(json!({ "kind": "k" })).await;
    for path in [
        "/v1/waitpoints/".to_owned(),
        "/v1/nothing".to_owned(),
        "/v1/flows/".to_owned(),
        "/v1/lanes/".to_owned(),
        "/v1/executions/".to_owned(),
        format!("/v1/executions/{id}/spent"),
    ] {
        let reply = server.post(&path, json!({})).await;
        assert_eq!(reply.problem(), (404, "not_found".into(), "".into()), "{path}");
        assert!(reply.text().contains(&path), "{}", reply.text());
    }
}

#[tokio::test]
async fn an_unsupported_method_is_refused_with_the_supported_ones() {
    let server = Server::start().await;
    for (method, path, allow) in [
        ("DELETE", "/v1/executions", "GET,HEAD,POST"),
        ("PUT", "/v1/executions/batch", "POST"),
        ("POST", "/v1/events", "GET,HEAD"),
        ("GET", "/v1/workers/i", "DELETE"),
        ("POST", "/v1/lanes/default", "DELETE,GET,HEAD,PATCH,PUT"),
        ("POST", "/v1/quotas", "GET,HEAD"),
        ("GET", "/v1/budgets/b/reset", "POST"),
        ("OPTIONS", "/healthz", "GET,HEAD"),
    ] {
        let reply = server.send(method, path, &[], Vec::new()).await;
        assert_eq!(reply.problem(), (405, "method_not_allowed".into(), "".into()), "{path}");
        let mut allowed: Vec<&str> = reply.header("allow").split(',').collect();
        allowed.sort_unstable();
        assert_eq!(allowed.join(","), allow);
    }
    let reply = server.send("HEAD", "/v1/executions", &[], Vec::new()).await;
    assert_eq!((reply.status, reply.body.len()), (200, 0));
}

#[tokio::test]
async fn a_refusal_of_a_stale_fence_names_the_lease_holder_or_the_outcome() {
    let server = Server::start().await;
    let id = server.submit(json!({ "kind": "k" })).await;
    let first = server.claim("one", 1).await.remove(0);
    server.post(&format!("/v1/executions/{id}/revoke-lease"), json!({})).await;
    let second = server.claim("two", 1).await.remove(0);
    let problem = server.report("one", op("complete", &first)).await["error"].clone();
    crate::support::check_problem(&problem);
    assert_eq!((&problem["code"], &problem["status"]), (&json!("stale_lease"), &json!(409)));
    assert_eq!((&problem["state"], &problem["outcome"]), (&json!("active"), &json!(null)));
    assert_eq!(problem["holder"]["instance"], "two");
    assert_eq!(problem["holder"]["lease_id"], second["lease"]["id"]);
    assert_eq!(problem["holder"]["epoch"], 2);

    assert_eq!(server.report("two", op("complete", &second)).await["state"], "completed");
    let problem = server.report("one", op("complete", &first)).await["error"].clone();
    assert_eq!((&problem["state"], &problem["outcome"]), (&json!("completed"), &json!("completed")));
    assert_eq!(problem["holder"], json!(null));
}

#[tokio::test]
async fn requests_from_pages_of_other_sites_are_refused() {
    let server = Server::start().await;
    let body = br#"{"kind": "k"}"#.to_vec();
    let origin = [("origin", "https://example.org"), ("content-type", "text/plain")];
    let reply = server.send("POST", "/v1/executions", &origin, body.clone()).await;
    assert_eq!(reply.problem(), (403, "cross_origin".into(), "".into()));
    let own = format!("http://{}", server.address);
    let reply = server.send("POST", "/v1/executions", &[("origin", &own)], body).await;
    assert_eq!(reply.status, 201);
}

#[tokio::test]
async fn a_request_to_an_engine_that_has_shut_down_is_refused_as_such() {
    let server = Server::start().await;
    server.engine.shutdown().await;
    let reply = server.post("/v1/executions", json!({ "kind": "k" })).await;
    assert_eq!(reply.problem(), (503, "shutting_down".into(), "".into()));
}
