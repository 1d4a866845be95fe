//! Invalid flows are refused with the field named, and nothing changes.

use crate::support::{Server, text_of};
use serde_json::{Value, json};

type Problem = (u16, String, String);

fn invalid_field(pointer: &str) -> Problem {
    (422, "invalid_field".into(), pointer.into())
}

fn unknown_field(pointer: &str) -> Problem {
    (422, "unknown_field".into(), pointer.into())
}

/// Asserts that `body` is refused with the expected problem, whose detail names the field.
async fn check(server: &Server, path: &str, body: Value, expected: Problem) {
    let reply = server.post(path, body.clone()).await;
    assert_eq!(reply.problem(), expected, "{body}: {}", reply.text());
    let detail = text_of(&reply.json()["detail"]);
    assert!(detail.contains(&expected.2), "{detail} does not name {}", expected.2);
}

async fn check_that_nothing_is_stored(server: &Server) {
    assert_eq!(server.get("/v1/flows").await.json()["items"], json!([]));
    assert_eq!(server.get("/v1/executions").await.json()["items"], json!([]));
}

/// Returns a flow of three nodes with these edges and groups.
fn flow(edges: Value, groups: Value) -> Value {
    let nodes = json!([{ "name": "a" }, { "name": "b" }, { "name": "c" }]);
    json!({ "defaults": { "kind": "k" }, "nodes": nodes, "edges": edges, "groups": groups })
}

#[tokio::test]
async fn an_invalid_field_of_a_flow_is_named() {
    let server = Server::start().await;
    let node = json!([{ "name": "a", "kind": "k" }]);
    for (body, expected) in [
        (json!({}), invalid_field("/nodes")),
        (json!({ "nodes": [] }), invalid_field("/nodes")),
        (json!({ "nodes": {} }), invalid_field("/nodes")),
        (json!({ "nodes": node, "id": "x" }), invalid_field("/id")),
        (json!({ "nodes": node, "name": "" }), invalid_field("/name")),
        (json!({ "nodes": node, "name": "a\u{0}" }), invalid_field("/name")),
        (json!({ "nodes": node, "idempotency_key": "" }), invalid_field("/idempotency_key")),
        (json!({ "nodes": node, "tags": { "a:b": "c" } }), invalid_field("/tags/a:b")),
        (json!({ "nodes": node, "tags": { "a": 1 } }), invalid_field("/tags/a")),
        (json!({ "nodes": node, "deadline_ms": -1 }), invalid_field("/deadline_ms")),
        (json!({ "nodes": node, "retention_ms": "1" }), invalid_field("/retention_ms")),
        (json!({ "nodes": node, "defaults": 7 }), invalid_field("/defaults")),
        (json!({ "nodes": node, "edges": 7 }), invalid_field("/edges")),
        (json!({ "nodes": node, "groups": "g" }), invalid_field("/groups")),
        (json!({ "nodes": node, "kind": "k" }), unknown_field("/kind")),
        (json!({ "nodes": node, "namespace": "other" }), unknown_field("/namespace")),
    ] {
        check(&server, "/v1/flows", body, expected).await;
    }
    check_that_nothing_is_stored(&server).await;
}

#[tokio::test]
async fn an_invalid_field_of_a_node_is_named() {
    let server = Server::start().await;
    for (node, expected) in [
        (json!({ "kind": "k" }), invalid_field("/nodes/1/name")),
        (json!({ "name": "", "kind": "k" }), invalid_field("/nodes/1/name")),
        (json!({ "name": "x".repeat(201), "kind": "k" }), invalid_field("/nodes/1/name")),
        (json!({ "name": "a", "kind": "k" }), invalid_field("/nodes/1/name")),
        (json!({ "name": "b" }), invalid_field("/nodes/1/kind")),
        (json!({ "name": "b", "kind": "" }), invalid_field("/nodes/1/kind")),
        (json!({ "name": "b", "kind": 5 }), invalid_field("/nodes/1/kind")),
        (json!({ "name": "b", "kind": "k", "lane": "" }), invalid_field("/nodes/1/lane")),
        (json!({ "name": "b", "kind": "k", "delay_ms": -1 }), invalid_field("/nodes/1/delay_ms")),
        (
            json!({ "name": "b", "kind": "k", "tags": { "a/b": "\u{0}" } }),
            invalid_field("/nodes/1/tags/a~1b"),
        ),
        (json!({ "name": "b", "kind": "k", "capabilities": [7] }), invalid_field("/nodes/1/capabilities/0")),
        (
            json!({ "name": "b", "kind": "k", "retry": { "backoff": { "type": "fixed", "delay_ms": -1 } } }),
            invalid_field("/nodes/1/retry/backoff/delay_ms"),
        ),
        (json!({ "name": "b", "kind": "k", "retry": { "tries": 1 } }), unknown_field("/nodes/1/retry/tries")),
        (json!({ "name": "b", "kind": "k", "id": "x" }), invalid_field("/nodes/1/id")),
        (
            json!({ "name": "b", "kind": "k", "idempotency_key": "x" }),
            invalid_field("/nodes/1/idempotency_key"),
        ),
        (
            json!({ "name": "b", "kind": "k", "unique_while_active": "x" }),
            invalid_field("/nodes/1/unique_while_active"),
        ),
        (json!({ "name": "b", "kind": "k", "budgets": ["b", ""] }), invalid_field("/nodes/1/budgets/1")),
        (
            json!({ "name": "b", "kind": "k", "budgets": [{ "name": "b", "reserve": { "tokens": -1 } }] }),
            invalid_field("/nodes/1/budgets/0/reserve/tokens"),
        ),
        (
            json!({ "name": "b", "kind": "k", "concurrency": { "key": "c", "limit": 0 } }),
            invalid_field("/nodes/1/concurrency/limit"),
        ),
        (json!({ "name": "b", "kind": "k", "nmae": 1 }), unknown_field("/nodes/1/nmae")),
        (
            json!({ "name": "b", "kind": "k", "input": "x".repeat(1024 * 1024) }),
            (413, "payload_too_large".into(), "/nodes/1/input".into()),
        ),
        (json!("b"), invalid_field("/nodes/1")),
    ] {
        let body = json!({ "nodes": [{ "name": "a", "kind": "k" }, node] });
        check(&server, "/v1/flows", body, expected).await;
    }
    check_that_nothing_is_stored(&server).await;
}

#[tokio::test]
async fn an_invalid_default_is_named_by_its_own_pointer() {
    let server = Server::start().await;
    for (defaults, expected) in [
        (json!({ "kind": "" }), invalid_field("/defaults/kind")),
        (json!({ "kind": 5 }), invalid_field("/defaults/kind")),
        (json!({ "lane": "" }), invalid_field("/defaults/lane")),
        (json!({ "priority": 40_000 }), invalid_field("/defaults/priority")),
        (
            json!({ "retry": { "backoff": { "type": "linear" } } }),
            invalid_field("/defaults/retry/backoff/type"),
        ),
        (
            json!({ "retry": { "backoff": { "type": "fixed", "delay_ms": -1 } } }),
            invalid_field("/defaults/retry/backoff/delay_ms"),
        ),
        (json!({ "attempt_timeout_ms": 0 }), invalid_field("/defaults/attempt_timeout_ms")),
        (
            json!({ "delay_ms": 1, "delay_until_at": "2100-01-01T00:00:00Z" }),
            invalid_field("/defaults/delay_ms"),
        ),
        (json!({ "tags": { "a:b": "" } }), invalid_field("/defaults/tags/a:b")),
        (json!({ "id": "0e3e9a52-6a0a-4d5d-9e0b-4d1f0a3c2b1a" }), invalid_field("/defaults/id")),
        (json!({ "idempotency_key": "x" }), invalid_field("/defaults/idempotency_key")),
        (json!({ "idempotency_window_ms": 1 }), invalid_field("/defaults/idempotency_window_ms")),
        (json!({ "unique_while_active": "x" }), invalid_field("/defaults/unique_while_active")),
        (json!({ "quotas": ["q", "q"] }), invalid_field("/defaults/quotas/1")),
        (json!({ "concurrency": { "key": "", "limit": 1 } }), invalid_field("/defaults/concurrency/key")),
        (json!({ "name": "n" }), unknown_field("/defaults/name")),
        (json!({ "knid": "n" }), unknown_field("/defaults/knid")),
        (
            json!({ "input": "x".repeat(1024 * 1024) }),
            (413, "payload_too_large".into(), "/defaults/input".into()),
        ),
    ] {
        // With and without a kind of the node's own.
        for kind in [json!("k"), Value::Null] {
            let body = json!({ "defaults": defaults, "nodes": [{ "name": "a", "kind": kind }] });
            check(&server, "/v1/flows", body, expected.clone()).await;
        }
    }
    check_that_nothing_is_stored(&server).await;
}

#[tokio::test]
async fn a_default_input_cannot_exceed_the_body_limit_by_multiplication() {
    let server = Server::start().await;
    let nodes: Vec<Value> = (0..100).map(|index| json!({ "name": index.to_string() })).collect();
    let body = json!({ "defaults": { "kind": "k", "input": "x".repeat(1_000_000) }, "nodes": nodes });
    check(&server, "/v1/flows", body, invalid_field("/defaults/input")).await;
    check_that_nothing_is_stored(&server).await;
}

#[tokio::test]
async fn an_invalid_edge_is_named() {
    let server = Server::start().await;
    let (a_b, b_c) = (json!({ "from": "a", "to": "b" }), json!({ "from": "b", "to": "c" }));
    let unknown_node = |pointer: &str| (422, "unknown_node".to_owned(), pointer.to_owned());
    for (edges, expected) in [
        (json!([a_b, { "to": "b" }]), invalid_field("/edges/1/from")),
        (json!([a_b, { "from": "b" }]), invalid_field("/edges/1/to")),
        (json!([a_b, { "from": 1, "to": "b" }]), invalid_field("/edges/1/from")),
        (json!([{ "from": "a", "to": "b", "when": "later" }]), invalid_field("/edges/0/when")),
        (json!([{ "from": "a", "to": "b", "if": "x" }]), unknown_field("/edges/0/if")),
        (json!(["a -> b"]), invalid_field("/edges/0")),
        (json!([a_b, a_b]), invalid_field("/edges/1")),
        (json!([a_b, { "from": "nobody", "to": "b" }]), unknown_node("/edges/1/from")),
        (json!([a_b, { "from": "a", "to": "nobody" }]), unknown_node("/edges/1/to")),
        (json!([{ "from": "a", "to": "" }]), invalid_field("/edges/0/to")),
        (json!([a_b, { "from": "c", "to": "c" }]), (422, "cycle".into(), "/edges/1".into())),
        (json!([a_b, b_c, { "from": "c", "to": "a" }]), (422, "cycle".into(), "/edges".into())),
    ] {
        check(&server, "/v1/flows", flow(edges, json!([])), expected).await;
    }
    let reply =
        server.post("/v1/flows", flow(json!([{ "from": "a", "to": "b", "when": "x" }]), json!([]))).await;
    assert!(reply.text().contains("success, failure, failure_or_skipped, finished"), "{}", reply.text());
    let reply = server.post("/v1/flows", flow(json!([a_b, { "from": "b", "to": "a" }]), json!([]))).await;
    assert!(reply.text().contains("a -> b -> a") || reply.text().contains("b -> a -> b"), "{}", reply.text());
    let edges = vec![json!({ "from": "a", "to": "b" }); 50_001];
    check(&server, "/v1/flows", flow(json!(edges), json!([])), invalid_field("/edges")).await;
    check_that_nothing_is_stored(&server).await;
}

#[tokio::test]
async fn an_invalid_group_is_named() {
    let server = Server::start().await;
    let edges = json!([{ "from": "a", "to": "c" }, { "from": "b", "to": "c" }]);
    let any = json!({ "type": "any_of" });
    for (groups, expected) in [
        (json!([{ "policy": any }]), invalid_field("/groups/0/node")),
        (json!([{ "node": "c" }]), invalid_field("/groups/0/policy")),
        (json!([{ "node": "c", "policy": "any_of" }]), invalid_field("/groups/0/policy")),
        (json!([{ "node": "c", "policy": {} }]), invalid_field("/groups/0/policy/type")),
        (json!([{ "node": "c", "policy": { "type": "most" } }]), invalid_field("/groups/0/policy/type")),
        (json!([{ "node": "c", "policy": { "type": "quorum" } }]), invalid_field("/groups/0/policy/k")),
        (
            json!([{ "node": "c", "policy": { "type": "quorum", "k": 0 } }]),
            invalid_field("/groups/0/policy/k"),
        ),
        (
            json!([{ "node": "c", "policy": { "type": "quorum", "k": 3 } }]),
            invalid_field("/groups/0/policy/k"),
        ),
        (
            json!([{ "node": "c", "policy": { "type": "quorum", "k": -1 } }]),
            invalid_field("/groups/0/policy/k"),
        ),
        (
            json!([{ "node": "c", "policy": { "type": "any_of", "on_satisfied": "stop" } }]),
            invalid_field("/groups/0/policy/on_satisfied"),
        ),
        (
            json!([{ "node": "c", "policy": { "type": "all_of", "on_satisfied": "let_run" } }]),
            unknown_field("/groups/0/policy/on_satisfied"),
        ),
        (
            json!([{ "node": "c", "policy": { "type": "any_of", "k": 1 } }]),
            unknown_field("/groups/0/policy/k"),
        ),
        (json!([{ "node": "c", "policy": any, "edges": [] }]), unknown_field("/groups/0/edges")),
        (
            json!([{ "node": "c", "policy": any }, { "node": "c", "policy": any }]),
            invalid_field("/groups/1/node"),
        ),
        (json!([{ "node": "a", "policy": any }]), invalid_field("/groups/0/policy")),
        (json!([{ "node": "z", "policy": any }]), (422, "unknown_node".into(), "/groups/0/node".into())),
    ] {
        check(&server, "/v1/flows", flow(edges.clone(), groups), expected).await;
    }
    check_that_nothing_is_stored(&server).await;
}

#[tokio::test]
async fn an_id_that_is_in_use_is_a_conflict() {
    let server = Server::start().await;
    let id = server.submit(json!({ "kind": "k" })).await;
    let body = json!({ "nodes": [{ "name": "a", "kind": "k" }, { "name": "b", "kind": "k", "id": id }] });
    check(&server, "/v1/flows", body, (409, "idempotency_mismatch".into(), "/nodes/1/id".into())).await;
    assert_eq!(server.get("/v1/flows").await.json()["items"], json!([]));
}

#[tokio::test]
async fn invalid_growth_is_refused_and_changes_nothing() {
    let server = Server::start().await;
    let response = server
        .submit_flow(flow(json!([{ "from": "a", "to": "b" }, { "from": "b", "to": "c" }]), json!([])))
        .await;
    let id = text_of(&response["flow"]["id"]);
    let path = format!("/v1/flows/{id}/nodes");
    let new = json!([{ "name": "d", "kind": "k" }]);
    for (body, expected) in [
        (json!({}), invalid_field("/nodes")),
        (json!({ "nodes": [] }), invalid_field("/nodes")),
        (json!({ "nodes": [{ "name": "a", "kind": "k" }] }), invalid_field("/nodes/0/name")),
        (json!({ "nodes": [{ "name": "d" }] }), invalid_field("/nodes/0/kind")),
        (json!({ "nodes": new, "defaults": {} }), unknown_field("/defaults")),
        (json!({ "nodes": new, "detach": true }), unknown_field("/detach")),
        (
            json!({ "nodes": new, "edges": [{ "from": "a", "to": "d" }, { "from": "z", "to": "d" }] }),
            (422, "unknown_node".into(), "/edges/1/from".into()),
        ),
        (
            json!({ "nodes": new, "edges": [{ "from": "c", "to": "d" }, { "from": "d", "to": "b" }] }),
            (422, "cycle".into(), "/edges".into()),
        ),
        (json!({ "edges": [{ "from": "a", "to": "b" }] }), invalid_field("/edges/0")),
    ] {
        check(&server, &path, body, expected).await;
    }
    // The edge leads to a node that no longer waits for upstreams.
    let body = json!({ "nodes": new, "edges": [{ "from": "d", "to": "a" }] });
    let reply = server.post(&path, body).await;
    assert_eq!(reply.problem(), (409, "wrong_state".into(), "".into()), "{}", reply.text());
    assert!(reply.text().contains("/edges/0/to"), "{}", reply.text());
    assert_eq!(server.flow(&id).await["counts"]["total"], 3);

    server.post(&format!("/v1/flows/{id}/cancel"), json!({ "wait_ms": 20_000 })).await;
    let reply = server.post(&path, json!({ "nodes": new })).await;
    assert_eq!(reply.problem(), (409, "flow_ended".into(), "".into()));
    assert_eq!(server.flow(&id).await["counts"]["total"], 3);
}

#[tokio::test]
async fn an_invalid_field_of_a_cancellation_is_named() {
    let server = Server::start().await;
    let response = server.submit_flow(flow(json!([]), json!([]))).await;
    let id = text_of(&response["flow"]["id"]);
    let path = format!("/v1/flows/{id}/cancel");
    for (body, expected) in [
        (json!({ "mode": "some" }), invalid_field("/mode")),
        (json!({ "reason": 7 }), invalid_field("/reason")),
        (json!({ "reason": "\u{0}" }), invalid_field("/reason")),
        (json!({ "wait_ms": 60_001 }), invalid_field("/wait_ms")),
        (json!({ "grace_ms": 1 }), unknown_field("/grace_ms")),
    ] {
        check(&server, &path, body, expected).await;
    }
    assert_eq!(server.flow(&id).await["cancel"], json!(null));
    for _ in 0..3 {
        let claim = server.claim_one("i").await;
        server.complete("i", &claim, json!(null)).await;
    }
    let reply = server.post(&path, json!({})).await;
    assert_eq!(reply.problem(), (409, "flow_ended".into(), "".into()));
    let reply = server.get(&format!("/v1/flows/{id}/result?wait_ms=60001")).await;
    assert_eq!(reply.problem(), invalid_field("/query/wait_ms"));
}

#[tokio::test]
async fn the_body_of_a_flow_may_be_large_but_not_unlimited() {
    let server = Server::start().await;
    let body = |count: usize| {
        let input = "x".repeat(1_000_000);
        let nodes: Vec<String> = (0..count)
            .map(|index| format!(r#"{{"name": "{index}", "kind": "k", "input": "{input}"}}"#))
            .collect();
        format!(r#"{{"nodes": [{}]}}"#, nodes.join(","))
    };
    assert_eq!(server.post_text("/v1/flows", &body(10)).await.status, 201);
    let reply = server.post_text("/v1/flows", &body(34)).await;
    assert_eq!(reply.problem(), (413, "payload_too_large".into(), "".into()));
}
