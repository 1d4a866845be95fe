//! Work on the nodes of a flow: claims with upstream results, spawned children, and replays.

use crate::support::{Server, check_problem, op, text_of};
use serde_json::{Value, json};

fn spawn(claim: &Value, nodes: Value) -> Value {
    let mut spawn = op("spawn", claim);
    spawn["nodes"] = nodes;
    spawn
}

#[tokio::test]
async fn a_join_gets_the_results_of_its_upstreams_byte_for_byte() {
    let server = Server::start().await;
    let body = json!({
        "defaults": { "kind": "k", "retry": { "max_retries": 0 } },
        "nodes": [{ "name": "a\"b/c" }, { "name": "broken", "priority": -1 }, { "name": "join", "priority": -2 }],
        "edges": [{ "from": "a\"b/c", "to": "join" }, { "from": "broken", "to": "join", "when": "finished" }],
    });
    let response = server.submit_flow(body).await;
    let result = r#"{"z": 1.0e+2, "a":  [ 1,2 ], "n": 123456789012345678901234567890, "é":"\u0000"}"#;
    let claim = server.claim_one("i").await;
    assert_eq!(claim["execution"]["node"], "a\"b/c");
    let fence = op("complete", &claim).to_string();
    let report = format!(r#"{{"ops": [{}, "result":  {result} }}]}}"#, fence.trim_end_matches('}'));
    let reported = server.post_text("/v1/workers/i/report", &report).await;
    assert!(reported.text().contains(r#""state":"completed""#), "{}", reported.text());
    let claim = server.claim_one("i").await;
    server.fail("i", &claim, "it broke").await;

    let body = r#"{"worker": "w", "lanes": ["default"], "max": 1, "wait_ms": 20000}"#;
    let reply = server.post_text("/v1/workers/i/claim", body).await;
    assert!(reply.text().contains(&format!(r#""upstream":{{"a\"b/c":{result}}},"#)), "{}", reply.text());
    let claim = reply.json()["claims"][0].clone();
    assert_eq!(claim["execution"]["id"], response["executions"]["join"]);
    let outcomes = json!({
        "a\"b/c": { "execution": response["executions"]["a\"b/c"], "outcome": "completed", "error": null },
        "broken": { "execution": response["executions"]["broken"], "outcome": "failed", "error": { "message": "it broke", "class": "permanent" } },
    });
    assert_eq!((&claim["upstream_outcomes"], &claim["children"]), (&outcomes, &json!({})));
    server.complete("i", &claim, json!("done")).await;
    // A `finished` edge handles no failure, so the flow fails.
    let ended = server.flow_result(&text_of(&response["flow"]["id"])).await;
    assert_eq!((&ended["outcome"], &ended["results"]["join"]["result"]), (&json!("failed"), &json!("done")));
}

#[tokio::test]
async fn an_active_upstream_has_no_outcome() {
    let server = Server::start().await;
    let body = json!({
        "defaults": { "kind": "k" }, "nodes": [{ "name": "fast" }, { "name": "slow" }, { "name": "join" }],
        "edges": [{ "from": "fast", "to": "join" }, { "from": "slow", "to": "join" }],
        "groups": [{ "node": "join", "policy": { "type": "any_of", "on_satisfied": "let_run" } }],
    });
    server.submit_flow(body).await;
    let fast = server.claim_one("i").await;
    let slow = server.claim_one("i").await;
    server.complete("i", &fast, json!([1])).await;
    let join = server.claim_one("i").await;
    assert_eq!(join["upstream"], json!({ "fast": [1] }));
    let (fast_id, slow_id) = (&fast["execution"]["id"], &slow["execution"]["id"]);
    let outcomes = json!({
        "fast": { "execution": fast_id, "outcome": "completed", "error": null },
        "slow": { "execution": slow_id, "outcome": null, "error": null },
    });
    assert_eq!(join["upstream_outcomes"], outcomes);
    server.complete("i", &slow, json!(2)).await;
}

#[tokio::test]
async fn a_satisfied_group_cancels_the_remaining_upstreams() {
    let server = Server::start().await;
    let body = json!({
        "defaults": { "kind": "k" }, "nodes": [{ "name": "a" }, { "name": "b" }, { "name": "join" }],
        "edges": [{ "from": "a", "to": "join" }, { "from": "b", "to": "join" }],
        "groups": [{ "node": "join", "policy": { "type": "any_of" } }],
    });
    let response = server.submit_flow(body).await;
    let claim = server.claim_one("i").await;
    server.complete("i", &claim, json!(1)).await;
    let remaining = text_of(&response["executions"]["b"]);
    let ended = server.get(&format!("/v1/executions/{remaining}/result?wait_ms=20000")).await.json();
    assert_eq!(ended["outcome"], "cancelled");
    let join = server.claim_one("i").await;
    server.complete("i", &join, json!(null)).await;
    assert_eq!(server.flow_result(&text_of(&response["flow"]["id"])).await["state"], "completed");
}

#[tokio::test]
async fn the_next_claim_of_a_report_carries_upstream_results() {
    let server = Server::start().await;
    let nodes = json!([{ "name": "a", "kind": "k" }, { "name": "b", "kind": "k" }]);
    server.submit_flow(json!({ "nodes": nodes, "edges": [{ "from": "a", "to": "b" }] })).await;
    let claim = server.claim_one("i").await;
    let mut complete = op("complete", &claim);
    complete["result"] = json!("from a");
    let next = json!({ "worker": "w", "lanes": ["default"], "max": 1, "wait_ms": 20_000 });
    let reply = server.post("/v1/workers/i/report", json!({ "ops": [complete], "claim": next })).await;
    assert_eq!(reply.json()["claims"][0]["upstream"], json!({ "a": "from a" }), "{}", reply.text());
}

#[tokio::test]
async fn an_active_execution_spawns_children_and_a_later_claim_carries_their_outcomes() {
    let server = Server::start().await;
    let id = server
        .submit(json!({ "kind": "k", "retry": { "backoff": { "type": "fixed", "delay_ms": 0 } } }))
        .await;
    let parent = server.claim_one("i").await;
    let mut body = spawn(&parent, json!([{ "name": "one", "kind": "k" }, { "name": "two", "kind": "k" }]));
    body["edges"] = json!([{ "from": "one", "to": "two", "when": "finished" }]);
    let spawned = server.report("i", body.clone()).await;
    assert_eq!((&spawned["ok"], &spawned["state"]), (&json!(true), &json!("active")));
    let names: Vec<&String> =
        spawned["executions"].as_object().expect("executions is an object").keys().collect();
    assert_eq!(names, ["one", "two"]);
    // Repeating the operation changes nothing and returns the same result.
    assert_eq!(server.report("i", body.clone()).await, spawned);

    let root = server.execution(&id).await;
    assert_eq!(
        (&root["flow_id"], &root["node"], &root["parent"]),
        (&json!(id), &json!("root"), &json!(null))
    );
    let flow = server.flow(&id).await;
    assert_eq!((&flow["counts"]["total"], &flow["counts"]["active"]), (&json!(3), &json!(1)));
    let graph = server.get(&format!("/v1/flows/{id}/graph")).await.json();
    let spawned = json!([{ "parent": "root", "child": "one" }, { "parent": "root", "child": "two" }]);
    assert_eq!(graph["spawned"], spawned);

    let one = server.claim_one("i").await;
    assert_eq!((&one["execution"]["node"], &one["execution"]["parent"]), (&json!("one"), &json!(id)));
    assert_eq!(one["execution"]["flow_id"], json!(id));
    server.complete("i", &one, json!({ "n": 1 })).await;
    let two = server.claim_one("i").await;
    server.fail("i", &two, "no").await;
    assert_eq!(server.report("i", op("release", &parent)).await["state"], "waiting");
    let again = server.claim_one("i").await;
    let children = json!({
        "one": { "outcome": "completed", "result": { "n": 1 } }, "two": { "outcome": "failed", "result": null },
    });
    assert_eq!((&again["execution"]["id"], &again["children"]), (&json!(id), &children));
    let ended = again["children_outcomes"].as_object().expect("the outcomes of the children");
    assert!(ended.iter().all(|(name, child)| child["outcome"] == children[name]["outcome"]), "{ended:?}");
    assert_eq!(ended.len(), children.as_object().map_or(0, |children| children.len()));
    assert_eq!(again["upstream"], json!({}));
}

#[tokio::test]
async fn children_of_a_failed_parent_are_cancelled_unless_they_are_detached() {
    let server = Server::start().await;
    let id = server.submit(json!({ "kind": "k" })).await;
    let parent = server.claim_one("i").await;
    let attached = spawn(&parent, json!([{ "name": "attached", "kind": "k", "lane": "l" }]));
    let mut detached = spawn(&parent, json!([{ "name": "detached", "kind": "k", "lane": "l" }]));
    detached["detach"] = json!(true);
    let mut failed = op("fail", &parent);
    (failed["message"], failed["class"]) = (json!("m"), json!("permanent"));
    let reply = server.post("/v1/workers/i/report", json!({ "ops": [attached, detached, failed] })).await;
    assert!(
        reply.json()["results"]
            .as_array()
            .expect("results is an array")
            .iter()
            .all(|result| result["ok"] == true)
    );
    let graph = server.get(&format!("/v1/flows/{id}/graph")).await.json();
    let execution = |name: &str| {
        let nodes = graph["nodes"].as_array().expect("nodes is an array");
        text_of(&nodes.iter().find(|node| node["name"] == name).expect(name)["execution"])
    };
    let ended = server.get(&format!("/v1/executions/{}/result?wait_ms=20000", execution("attached"))).await;
    assert_eq!(ended.json()["outcome"], "cancelled");
    assert_eq!(server.execution(&execution("detached")).await["state"], "waiting");
}

#[tokio::test]
async fn an_invalid_spawn_is_refused_alone() {
    let server = Server::start().await;
    let id = server.submit(json!({ "kind": "k" })).await;
    let parent = server.claim_one("i").await;
    let first = spawn(&parent, json!([{ "name": "child", "kind": "k" }]));
    assert_eq!(server.report("i", first).await["ok"], true);
    let with = |nodes: Value, fields: Value| {
        let mut spawn = spawn(&parent, nodes);
        for (name, value) in fields.as_object().expect("a JSON object") {
            spawn[name] = value.clone();
        }
        spawn
    };
    let new = json!([{ "name": "new", "kind": "k" }]);
    let invalid = [
        (with(json!([]), json!({})), "invalid_field", "/nodes"),
        (with(json!([{ "name": "new" }]), json!({})), "invalid_field", "/nodes/0/kind"),
        (with(json!([{ "name": "new", "kind": "k", "x": 1 }]), json!({})), "unknown_field", "/nodes/0/x"),
        (with(new.clone(), json!({ "detach": "yes" })), "invalid_field", "/detach"),
        (with(new.clone(), json!({ "defaults": {} })), "unknown_field", "/defaults"),
        (
            with(new.clone(), json!({ "edges": [{ "from": "z", "to": "new" }] })),
            "unknown_node",
            "/edges/0/from",
        ),
        (with(new.clone(), json!({ "edges": [{ "from": "new", "to": "new" }] })), "cycle", "/edges/0"),
        (
            with(new.clone(), json!({ "edges": [{ "from": "new", "to": "child" }] })),
            "invalid_field",
            "/edges/0/to",
        ),
        (
            with(new, json!({ "groups": [{ "node": "new", "policy": { "type": "any_of" } }] })),
            "invalid_field",
            "/groups/0/policy",
        ),
        (
            with(json!([{ "name": "child", "kind": "other" }]), json!({})),
            "idempotency_mismatch",
            "/nodes/0/name",
        ),
    ];
    let mut ops: Vec<Value> = invalid.iter().map(|(op, _, _)| op.clone()).collect();
    ops.push(spawn(&parent, json!([{ "name": "valid", "kind": "k" }])));
    let reply = server.post("/v1/workers/i/report", json!({ "ops": ops })).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let results = reply.json()["results"].as_array().expect("results is an array").clone();
    for (index, (_, code, pointer)) in invalid.iter().enumerate() {
        let problem = &results[index]["error"];
        check_problem(problem);
        assert_eq!(
            (&problem["code"], &problem["pointer"]),
            (&json!(code), &json!(format!("/ops/{index}{pointer}")))
        );
    }
    assert_eq!(results[invalid.len()]["ok"], json!(true));
    assert_eq!(server.flow(&id).await["counts"]["total"], 3);

    server.complete("i", &parent, json!(null)).await;
    let late = server.report("i", spawn(&parent, json!([{ "name": "late", "kind": "k" }]))).await;
    assert_eq!(late["error"]["code"], "stale_lease");
}

#[tokio::test]
async fn a_dry_run_of_a_replay_lists_the_executions_that_would_reopen() {
    let server = Server::start().await;
    let body = json!({
        "defaults": { "kind": "k" }, "nodes": [{ "name": "a" }, { "name": "b" }, { "name": "c" }, { "name": "alert" }],
        "edges": [{ "from": "a", "to": "b" }, { "from": "b", "to": "c" }, { "from": "a", "to": "alert", "when": "failure" }],
    });
    let response = server.submit_flow(body).await;
    let id = text_of(&response["flow"]["id"]);
    let executions = &response["executions"];
    let claim = server.claim_one("i").await;
    server.fail("i", &claim, "m").await;
    let alert = server.claim_one("i").await;
    assert_eq!(alert["execution"]["node"], "alert");
    server.complete("i", &alert, json!(null)).await;
    assert_eq!(server.flow_result(&id).await["state"], "completed");

    let path = format!("/v1/executions/{}/replay", text_of(&executions["a"]));
    let reply = server.post(&path, json!({ "dry_run": true })).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(reply.json()["execution"]["id"], executions["a"]);
    assert_eq!(reply.json()["would_reopen"], json!([executions["b"], executions["c"]]));
    assert_eq!(server.flow(&id).await["state"], "completed");
    let b = server.execution(&text_of(&executions["b"])).await;
    assert_eq!((&b["state"], &b["generation"]), (&json!("skipped"), &json!(0)));

    assert_eq!(server.post(&path, json!({})).await.status, 200);
    for node in ["a", "b", "c"] {
        let claim = server.claim_one("i").await;
        assert_eq!(
            (&claim["execution"]["node"], &claim["execution"]["generation"]),
            (&json!(node), &json!(1))
        );
        server.complete("i", &claim, json!(node)).await;
    }
    let ended = server.flow_result(&id).await;
    assert_eq!((&ended["state"], &ended["results"]["c"]["result"]), (&json!("completed"), &json!("c")));
}
