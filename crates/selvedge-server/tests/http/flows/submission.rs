//! Flows: submission, growth, details, lists, graphs and events.

use super::chain;
use crate::support::{Reply, Server, text_of};
use selvedge_core::Draft;
use selvedge_core::plan::{GraphDraft, NodeDraft};
use selvedge_core::rules::flows::submit::FlowDraft;
use serde_json::{Value, json};

const ID: &str = "0e3e9a52-6a0a-4d5d-9e0b-4d1f0a3c2b1a";

/// Returns `body` with further fields.
fn with(mut body: Value, fields: Value) -> Value {
    for (name, value) in fields.as_object().expect("a JSON object") {
        body[name] = value.clone();
    }
    body
}

/// Posts `body` with an `Idempotency-Key`.
async fn post_with_key(server: &Server, path: &str, key: &str, body: &Value) -> Reply {
    server.send("POST", path, &[("idempotency-key", key)], body.to_string().into()).await
}

#[tokio::test]
async fn a_submitted_flow_returns_its_counts_and_executions() {
    let server = Server::start().await;
    let more = json!({ "id": ID, "name": "nightly", "tags": { "team": "x" }, "deadline_ms": 60_000, "retention_ms": 5 });
    let reply = server.post("/v1/flows", with(chain(), more)).await;
    assert_eq!(reply.status, 201, "{}", reply.text());
    let response = reply.json();
    assert_eq!(response["duplicate"], false);
    let flow = &response["flow"];
    let counts = json!({
        "total": 2, "waiting": 1, "delayed": 0, "waiting_dependencies": 1, "active": 0, "suspended": 0,
        "held": 0, "completed": 0, "failed": 0, "cancelled": 0, "expired": 0, "skipped": 0,
    });
    for (field, value) in [
        ("id", json!(ID)),
        ("namespace", json!("default")),
        ("name", json!("nightly")),
        ("state", json!("running")),
        ("counts", counts),
        ("tags", json!({ "team": "x" })),
        ("ended_at", json!(null)),
        ("cancel", json!(null)),
        ("retention_ms", json!(5)),
    ] {
        assert_eq!(flow[field], value, "{field}");
    }
    for field in ["submitted_at", "deadline_at"] {
        assert_eq!(text_of(&flow[field]).len(), 24, "{field}");
    }
    assert_eq!(server.flow(ID).await, *flow);

    let (a, b) = (text_of(&response["executions"]["a"]), text_of(&response["executions"]["b"]));
    let first = server.execution(&a).await;
    assert_eq!(
        (&first["flow_id"], &first["node"], &first["state"]),
        (&json!(ID), &json!("a"), &json!("waiting"))
    );
    assert_eq!(first["parent"], json!(null));
    let second = server.execution(&b).await;
    assert_eq!((&second["state"], &second["ready_at"]), (&json!("waiting_dependencies"), &json!(null)));
    let explained = server.get(&format!("/v1/executions/{b}/explain")).await.json();
    assert_eq!(
        (&explained["state"], &explained["reasons"][1]["ref"]),
        (&json!("waiting_dependencies"), &json!({ "type": "execution", "id": a }))
    );
    let listed = async |query: &str| {
        let items = server.get(&format!("/v1/executions?{query}")).await.json()["items"].clone();
        items
            .as_array()
            .expect("items is an array")
            .iter()
            .map(|execution| text_of(&execution["node"]))
            .collect::<Vec<_>>()
    };
    assert_eq!(listed("state=waiting_dependencies").await, ["b"]);
    assert_eq!(listed(&format!("flow={ID}")).await.len(), 2);
}

#[tokio::test]
async fn defaults_apply_to_every_node_and_its_own_fields_replace_them() {
    let server = Server::start().await;
    let body = r#"{
        "defaults": {
            "kind": "k", "lane": "l", "priority": 7, "input": {"z": 1.0, "a":  2}, "tags": {"a": "1", "b": "2"},
            "capabilities": ["gpu"], "delay_until_at": "2100-01-01T00:00:00Z", "deadline_ms": 1000,
            "retry": {"max_retries": 9, "backoff": {"type": "fixed", "delay_ms": 5}}
        },
        "nodes": [
            {"name": "plain", "lane": null, "retry": null},
            {"name": "own", "kind": "other", "lane": "m", "priority": 0, "input": null, "tags": {"c": "3"},
             "capabilities": [], "delay_ms": 0, "deadline_ms": 2000, "retry": {"max_retries": 1}}
        ]
    }"#;
    let reply = server.post_text("/v1/flows", body).await;
    assert_eq!(reply.status, 201, "{}", reply.text());
    let executions = reply.json()["executions"].clone();
    let plain = server.get(&format!("/v1/executions/{}", text_of(&executions["plain"]))).await;
    assert!(plain.text().contains(r#""input":{"z": 1.0, "a":  2},"#), "{}", plain.text());
    let expected = json!({
        "kind": "k", "lane": "l", "priority": 7, "tags": { "a": "1", "b": "2" }, "capabilities": ["gpu"],
        "state": "delayed", "delayed_until_at": "2100-01-01T00:00:00.000Z", "deadline_ms": 1000,
    });
    for (field, value) in expected.as_object().expect("a JSON object") {
        assert_eq!(plain.json()[field], *value, "{field}");
    }
    assert_eq!(plain.json()["retry"]["max_retries"], 9);

    let own = server.execution(&text_of(&executions["own"])).await;
    let expected = json!({
        "kind": "other", "lane": "m", "priority": 0, "input": null, "tags": { "c": "3" }, "capabilities": [],
        "delayed_until_at": null, "deadline_ms": 2000,
    });
    for (field, value) in expected.as_object().expect("a JSON object") {
        assert_eq!(own[field], *value, "{field}");
    }
    assert_eq!(
        (&own["retry"]["max_retries"], &own["retry"]["backoff"]["type"]),
        (&json!(1), &json!("exponential"))
    );
}

#[tokio::test]
async fn a_repeated_flow_is_a_duplicate_and_with_other_content_a_conflict() {
    let server = Server::start().await;
    for (key, value) in [("id", ID), ("idempotency_key", "key")] {
        let body = with(chain(), json!({ key: value }));
        let first = server.submit_flow(body.clone()).await;
        let again = server.post("/v1/flows", body.clone()).await;
        assert_eq!(again.status, 200, "{}", again.text());
        let again = again.json();
        assert_eq!(again["duplicate"], true);
        assert_eq!(again["flow"], first["flow"]);
        assert_eq!(again["executions"], first["executions"]);
        let mut other = body.clone();
        other["nodes"][1]["priority"] = json!(5);
        let reply = server.post("/v1/flows", other).await;
        assert_eq!(reply.problem(), (409, "idempotency_mismatch".into(), format!("/{key}")));
    }
    let first = post_with_key(&server, "/v1/flows", "call", &chain()).await;
    let again = post_with_key(&server, "/v1/flows", "call", &chain()).await;
    assert_eq!((first.status, again.status), (201, 200));
    assert_eq!(first.json()["executions"], again.json()["executions"]);
    let reply = post_with_key(&server, "/v1/flows", "call", &with(chain(), json!({ "name": "n" }))).await;
    assert_eq!(reply.problem(), (409, "idempotency_mismatch".into(), "/headers/idempotency-key".into()));
    let items = server.get("/v1/flows").await.json()["items"].clone();
    assert_eq!(items.as_array().map(Vec::len), Some(3));
}

#[tokio::test]
async fn a_flow_grows_while_it_runs() {
    let server = Server::start().await;
    let response = server.submit_flow(with(chain(), json!({ "id": ID }))).await;
    let a = server.claim_one("i").await;
    server.complete("i", &a, json!(1)).await;
    let b = server.claim_one("i").await;
    let path = format!("/v1/flows/{ID}/nodes");
    let more = json!({
        "nodes": [{ "name": "c", "kind": "k" }, { "name": "d", "kind": "k" }],
        "edges": [{ "from": "a", "to": "c" }, { "from": "b", "to": "d" }, { "from": "c", "to": "d", "when": "finished" }],
        "groups": [{ "node": "d", "policy": { "type": "any_of", "on_satisfied": "let_run" } }],
    });
    let reply = post_with_key(&server, &path, "growth", &more).await;
    assert_eq!(reply.status, 201, "{}", reply.text());
    let grown = reply.json();
    assert_eq!((&grown["flow"]["id"], &grown["flow"]["counts"]["total"]), (&json!(ID), &json!(4)));
    assert_eq!(grown["executions"].as_object().map(|names| names.len()), Some(2));
    assert_eq!(b["execution"]["id"], response["executions"]["b"]);
    // A new edge from a terminal upstream is resolved at once.
    let c = server.execution(&text_of(&grown["executions"]["c"])).await;
    assert_eq!(c["state"], "waiting");

    let again = post_with_key(&server, &path, "growth", &more).await;
    assert_eq!((again.status, &again.json()["executions"]), (200, &grown["executions"]));
    assert_eq!(server.flow(ID).await["counts"]["total"], 4);
    let reply =
        post_with_key(&server, &path, "growth", &json!({ "nodes": [{ "name": "e", "kind": "k" }] })).await;
    assert_eq!(reply.problem(), (409, "idempotency_mismatch".into(), "/headers/idempotency-key".into()));

    // Growth by an edge only, to a node that still waits for upstreams.
    let edge = json!({ "edges": [{ "from": "a", "to": "d" }] });
    let reply = server.post(&path, edge).await;
    assert_eq!((reply.status, &reply.json()["executions"]), (201, &json!({})), "{}", reply.text());
}

#[tokio::test]
async fn a_graph_is_available_as_json_dot_and_svg() {
    let server = Server::start().await;
    let body = json!({
        "name": "n <&> \"q\"", "defaults": { "kind": "k" },
        "nodes": [{ "name": "a" }, { "name": "b" }, { "name": "c/\"<é" }],
        "edges": [{ "from": "a", "to": "c/\"<é" }, { "from": "b", "to": "c/\"<é", "when": "finished" }],
        "groups": [{ "node": "c/\"<é", "policy": { "type": "quorum", "k": 2 } }],
    });
    let response = server.submit_flow(body).await;
    let id = text_of(&response["flow"]["id"]);
    let path = format!("/v1/flows/{id}/graph");
    let reply = server.get(&path).await;
    assert_eq!(reply.header("content-type"), "application/json");
    let graph = reply.json();
    assert_eq!(graph, server.get(&format!("{path}?format=json")).await.json());
    assert_eq!(
        graph["nodes"][0],
        json!({ "name": "a", "execution": response["executions"]["a"], "state": "waiting" })
    );
    assert_eq!(
        (&graph["nodes"][2]["name"], &graph["nodes"][2]["state"]),
        (&json!("c/\"<é"), &json!("waiting_dependencies"))
    );
    let edge = json!({ "from": "b", "to": "c/\"<é", "when": "finished", "resolution": "pending" });
    assert_eq!(graph["edges"][1], edge);
    let policy = json!({ "type": "quorum", "k": 2, "on_satisfied": "cancel_remaining" });
    let group = json!({ "node": "c/\"<é", "policy": policy, "holds": 0, "dead": 0, "pending": 2, "decision": "pending" });
    assert_eq!(graph["groups"], json!([group]));
    assert_eq!(graph["spawned"], json!([]));

    let dot = server.get(&format!("{path}?format=dot")).await;
    assert_eq!((dot.status, dot.header("content-type")), (200, "text/vnd.graphviz"));
    assert!(dot.text().starts_with("digraph"), "{}", dot.text());
    let svg = server.get(&format!("{path}?format=svg")).await;
    assert_eq!((svg.status, svg.header("content-type")), (200, "image/svg+xml"));
    assert!(svg.text().contains("<svg") && !svg.text().contains("\"<é"), "{}", svg.text());
    let reply = server.get(&format!("{path}?format=png")).await;
    assert_eq!(reply.problem(), (422, "invalid_field".into(), "/query/format".into()));
    assert!(reply.text().contains("json, dot, svg"), "{}", reply.text());

    for _ in 0..2 {
        let claim = server.claim_one("i").await;
        server.complete("i", &claim, json!(1)).await;
    }
    server.claim_one("i").await;
    let graph = server.get(&path).await.json();
    assert_eq!(
        (&graph["groups"][0]["holds"], &graph["groups"][0]["decision"]),
        (&json!(2), &json!("satisfied"))
    );
    assert_eq!(
        (&graph["edges"][0]["resolution"], &graph["nodes"][2]["state"]),
        (&json!("holds"), &json!("active"))
    );
}

#[tokio::test]
async fn flows_are_listed_newest_first_with_filters_and_pages() {
    let server = Server::start().await;
    let flow_with = |fields: Value| with(json!({ "nodes": [{ "name": "a", "kind": "k" }] }), fields);
    let mut ids = Vec::new();
    for fields in [
        json!({ "name": "x" }),
        json!({ "tags": { "t": "1" } }),
        json!({ "name": "y", "tags": { "t": "2" } }),
    ] {
        ids.push(text_of(&server.submit_flow(flow_with(fields)).await["flow"]["id"]));
    }
    server.post(&format!("/v1/flows/{}/cancel", ids[0]), json!({ "wait_ms": 20_000 })).await;
    server.flow_result(&ids[0]).await;
    let lone = server.submit(json!({ "kind": "k" })).await;
    let submitted = text_of(&server.flow(&ids[2]).await["submitted_at"]);
    let listed = async |query: &str| -> (Vec<String>, Value) {
        let reply = server.get(&format!("/v1/flows?{query}")).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        let items = reply.json()["items"].as_array().expect("items is an array").clone();
        (items.iter().map(|flow| text_of(&flow["id"])).collect(), reply.json()["next_cursor"].clone())
    };
    let [x, t, y] = &ids[..] else { panic!("three flows are submitted") };
    for (query, expected) in [
        ("".to_owned(), vec![y, t, x]),
        ("state=running".into(), vec![y, t]),
        ("state=cancelled,failed".into(), vec![x]),
        ("name=y".into(), vec![y]),
        ("name=z".into(), vec![]),
        ("tag=t:1".into(), vec![t]),
        ("tag=t:2&state=running&name=y".into(), vec![y]),
        ("submitted_before=2000-01-01T00:00:00Z".into(), vec![]),
        (format!("submitted_after={submitted}&name=y"), vec![y]),
    ] {
        let (found, next) = listed(&query).await;
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{query}");
        assert_eq!(next, Value::Null);
        assert!(!found.contains(&lone));
    }
    let (first, next) = listed("limit=2").await;
    let (rest, end) = listed(&format!("limit=2&cursor={}", text_of(&next))).await;
    assert_eq!((first, rest, end), (vec![y.clone(), t.clone()], vec![x.clone()], Value::Null));
    for (query, pointer) in [
        ("state=waiting", "/query/state"),
        ("tag=t", "/query/tag"),
        ("submitted_after=noon", "/query/submitted_after"),
        ("limit=0", "/query/limit"),
        ("name=a%00", "/query/name"),
    ] {
        let reply = server.get(&format!("/v1/flows?{query}")).await;
        assert_eq!(reply.problem(), (422, "invalid_field".into(), pointer.into()), "{query}");
    }
    assert_eq!(server.get("/v1/flows?lane=l").await.problem().1, "unknown_field");
    assert_eq!(server.get("/v1/flows?cursor=x").await.problem().1, "invalid_cursor");
}

#[tokio::test]
async fn an_execution_without_a_flow_is_its_own_flow() {
    let server = Server::start().await;
    let id = server.submit(json!({ "kind": "k", "tags": { "t": "1" } })).await;
    let flow = server.flow(&id).await;
    assert_eq!((&flow["id"], &flow["state"], &flow["name"]), (&json!(id), &json!("running"), &json!(null)));
    assert_eq!((&flow["counts"]["total"], &flow["counts"]["waiting"]), (&json!(1), &json!(1)));
    assert_eq!(flow["tags"], json!({ "t": "1" }));
    let graph = server.get(&format!("/v1/flows/{id}/graph")).await.json();
    assert_eq!(graph["nodes"], json!([{ "name": "root", "execution": id, "state": "waiting" }]));
    assert!(server.get(&format!("/v1/flows/{id}/graph?format=svg")).await.text().contains("<svg"));
    let claim = server.claim_one("i").await;
    server.complete("i", &claim, json!(7)).await;
    assert_eq!(server.flow_result(&id).await["outcome"], "completed");
    let reply = server.post(&format!("/v1/flows/{id}/cancel"), json!({})).await;
    assert_eq!(reply.problem(), (409, "flow_ended".into(), "".into()));

    let other = server.submit(json!({ "kind": "k" })).await;
    let reply = server.post(&format!("/v1/flows/{other}/cancel"), json!({})).await;
    assert_eq!((reply.status, &reply.json()["flow"]["state"]), (200, &json!("cancelled")));
}

#[tokio::test]
async fn events_are_filtered_by_flow() {
    let server = Server::start().await;
    server.submit(json!({ "kind": "other", "lane": "l" })).await;
    let response = server.submit_flow(chain()).await;
    let id = text_of(&response["flow"]["id"]);
    for _ in 0..2 {
        let claim = server.claim_one("i").await;
        server.complete("i", &claim, json!(1)).await;
    }
    server.flow_result(&id).await;
    let types = async |query: &str| -> Vec<String> {
        let reply = server.get(&format!("/v1/events?limit=500&{query}")).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        let items = reply.json()["items"].as_array().expect("items is an array").clone();
        assert!(items.iter().all(|event| event["flow"] == json!(id)));
        items.iter().map(|event| text_of(&event["type"])).collect()
    };
    let all = types(&format!("flow={id}")).await;
    assert_eq!(all[0], "flow.submitted");
    assert_eq!(all.iter().filter(|kind| *kind == "execution.submitted").count(), 2);
    assert_eq!(all.last().map(String::as_str), Some("flow.completed"));
    let selected =
        types("types=edge.resolved,group.decided,flow.completed,flow.reopened,execution.wired").await;
    assert_eq!(selected, ["edge.resolved", "group.decided", "flow.completed"]);
}

#[tokio::test]
async fn the_overview_shows_flows_with_their_states_and_a_link() {
    let server = Server::start().await;
    assert!(server.get("/").await.text().contains("No flows"));
    let response = server.submit_flow(with(chain(), json!({ "name": "<b>bold</b>" }))).await;
    let id = text_of(&response["flow"]["id"]);
    let page = server.get("/").await.text();
    assert!(page.contains(&format!("href=\"/flows/{id}\"")), "{page}");
    assert!(page.contains("&lt;b&gt;bold") && !page.contains("<b>bold"));
    assert!(page.contains("<span>running</span>"), "{page}");
    assert!(page.contains("<span>1 waiting dependencies</span>"), "{page}");
}

#[tokio::test]
async fn flows_of_another_namespace_are_not_visible() {
    let server = Server::start().await;
    let other = server.engine.namespace("other").await.expect("the namespace exists");
    let nodes = vec![NodeDraft { name: "a".into(), draft: Draft::new("k") }];
    let draft = FlowDraft { graph: GraphDraft { nodes, ..GraphDraft::default() }, ..FlowDraft::default() };
    let submitted = other.submit_flow(draft, None).await.expect("the flow is submitted");
    let lone = other.submit(Draft::new("k")).await.expect("the execution is submitted").execution.id;
    let not_found = (404, "not_found".to_owned(), String::new());
    for id in [submitted.flow.id.to_string(), lone.to_string(), "seven".to_owned()] {
        for path in ["", "/graph", "/graph?format=svg", "/result?wait_ms=20000"] {
            let reply = server.get(&format!("/v1/flows/{id}{path}")).await;
            assert_eq!(reply.problem(), not_found, "{id}{path}");
            assert!(reply.text().contains("there is no flow"), "{}", reply.text());
        }
        let reply = server.post(&format!("/v1/flows/{id}/cancel"), json!({})).await;
        assert_eq!(reply.problem(), not_found);
        let more = json!({ "nodes": [{ "name": "b", "kind": "k" }] });
        let reply = server.post(&format!("/v1/flows/{id}/nodes"), more).await;
        assert_eq!(reply.problem(), not_found);
    }
    assert_eq!(server.get("/v1/flows").await.json()["items"], json!([]));
    let flow = other.flow(submitted.flow.id).await.expect("the flow exists in its namespace").flow;
    assert_eq!(flow.counts.total(), 1);
}

#[tokio::test]
async fn ten_thousand_nodes_are_accepted_in_one_request_and_one_more_is_refused() {
    let server = Server::start().await;
    let body = |count: usize| {
        let nodes: Vec<Value> = (0..count).map(|index| json!({ "name": format!("n{index}") })).collect();
        let edges: Vec<Value> =
            (1..count).map(|index| json!({ "from": "n0", "to": format!("n{index}") })).collect();
        json!({ "defaults": { "kind": "k" }, "nodes": nodes, "edges": edges })
    };
    let reply = server.post("/v1/flows", body(10_001)).await;
    assert_eq!(reply.problem(), (422, "invalid_field".into(), "/nodes".into()));
    assert!(reply.text().contains("at most 10000"), "{}", reply.text());
    let response = server.submit_flow(body(10_000)).await;
    assert_eq!(response["executions"].as_object().map(|names| names.len()), Some(10_000));
    let counts = &response["flow"]["counts"];
    assert_eq!((&counts["total"], &counts["waiting_dependencies"]), (&json!(10_000), &json!(9_999)));
    let id = text_of(&response["flow"]["id"]);
    let graph = server.get(&format!("/v1/flows/{id}/graph")).await.json();
    assert_eq!(graph["nodes"].as_array().map(Vec::len), Some(10_000));
    assert!(server.get(&format!("/v1/flows/{id}/graph?format=svg")).await.text().contains("<svg"));
}
