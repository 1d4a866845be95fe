//! The nodes of a flow at work: what a claim carries, what is spawned, and what a replay opens again.

use crate::client::{Server, check_problem, op, text_of};
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
    let answer = server.submit_flow(body).await;
    let result = r#"{"z": 1.0e+2, "a":  [ 1,2 ], "n": 123456789012345678901234567890, "é":"\u0000"}"#;
    let claim = server.claim_one("i").await;
    assert_eq!(claim["execution"]["node"], "a\"b/c");
    let fence = op("complete", &claim).to_string();
    let done = format!(r#"{{"ops": [{}, "result":  {result} }}]}}"#, fence.trim_end_matches('}'));
    let reported = server.post_text("/v1/workers/i/report", &done).await;
    assert!(reported.text().contains(r#""state":"completed""#), "{}", reported.text());
    let claim = server.claim_one("i").await;
    server.fail("i", &claim, "it broke").await;

    let body = r#"{"worker": "w", "lanes": ["default"], "max": 1, "wait_ms": 20000}"#;
    let reply = server.post_text("/v1/workers/i/claim", body).await;
    assert!(reply.text().contains(&format!(r#""upstream":{{"a\"b/c":{result}}},"#)), "{}", reply.text());
    let claim = reply.json()["claims"][0].clone();
    assert_eq!(claim["execution"]["id"], answer["executions"]["join"]);
    let outcomes = json!({
        "a\"b/c": { "outcome": "completed", "error": null },
        "broken": { "outcome": "failed", "error": { "message": "it broke", "class": "permanent" } },
    });
    assert_eq!((&claim["upstream_outcomes"], &claim["children"]), (&outcomes, &json!({})));
    server.complete("i", &claim, json!("done")).await;
    // The edge that held made up for the failure.
    let ended = server.flow_result(&text_of(&answer["flow"]["id"])).await;
    assert_eq!(
        (&ended["outcome"], &ended["results"]["join"]["result"]),
        (&json!("completed"), &json!("done"))
    );
}

#[tokio::test]
async fn an_upstream_that_still_runs_has_no_outcome() {
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
    let outcomes = json!({ "fast": { "outcome": "completed", "error": null }, "slow": { "outcome": null, "error": null } });
    assert_eq!(join["upstream_outcomes"], outcomes);
    server.complete("i", &slow, json!(2)).await;
}

#[tokio::test]
async fn a_group_that_is_satisfied_cancels_the_rest() {
    let server = Server::start().await;
    let body = json!({
        "defaults": { "kind": "k" }, "nodes": [{ "name": "a" }, { "name": "b" }, { "name": "join" }],
        "edges": [{ "from": "a", "to": "join" }, { "from": "b", "to": "join" }],
        "groups": [{ "node": "join", "policy": { "type": "any_of" } }],
    });
    let answer = server.submit_flow(body).await;
    let claim = server.claim_one("i").await;
    server.complete("i", &claim, json!(1)).await;
    let loser = text_of(&answer["executions"]["b"]);
    let ended = server.get(&format!("/v1/executions/{loser}/result?wait_ms=20000")).await.json();
    assert_eq!(ended["outcome"], "cancelled");
    let join = server.claim_one("i").await;
    server.complete("i", &join, json!(null)).await;
    assert_eq!(server.flow_result(&text_of(&answer["flow"]["id"])).await["state"], "completed");
}

#[tokio::test]
async fn the_next_claim_of_a_report_carries_upstreams_too() {
    let server = Server::start().await;
    let nodes = json!([{ "name": "a", "kind": "k" }, { "name": "b", "kind": "k" }]);
    server.submit_flow(json!({ "nodes": nodes, "edges": [{ "from": "a", "to": "b" }] })).await;
    let claim = server.claim_one("i").await;
    let mut done = op("complete", &claim);
    done["result"] = json!("from a");
    let next = json!({ "worker": "w", "lanes": ["default"], "max": 1, "wait_ms": 20_000 });
    let reply = server.post("/v1/workers/i/report", json!({ "ops": [done], "claim": next })).await;
    assert_eq!(reply.json()["claims"][0]["upstream"], json!({ "a": "from a" }), "{}", reply.text());
}

#[tokio::test]
async fn a_running_execution_spawns_children_and_sees_how_they_ended() {
    let server = Server::start().await;
    let id = server
        .submit(json!({ "kind": "k", "retry": { "backoff": { "type": "fixed", "delay_ms": 0 } } }))
        .await;
    let parent = server.claim_one("i").await;
    let mut body = spawn(&parent, json!([{ "name": "one", "kind": "k" }, { "name": "two", "kind": "k" }]));
    body["edges"] = json!([{ "from": "one", "to": "two", "when": "finished" }]);
    let spawned = server.report("i", body.clone()).await;
    assert_eq!((&spawned["ok"], &spawned["state"]), (&json!(true), &json!("active")));
    let names: Vec<&String> = spawned["executions"].as_object().expect("ids by name").keys().collect();
    assert_eq!(names, ["one", "two"]);
    // The same again is a no-op with the same answer.
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
    assert_eq!(again["upstream"], json!({}));
}

#[tokio::test]
async fn children_end_with_a_parent_that_fails_unless_they_are_detached() {
    let server = Server::start().await;
    let id = server.submit(json!({ "kind": "k" })).await;
    let parent = server.claim_one("i").await;
    let attached = spawn(&parent, json!([{ "name": "attached", "kind": "k", "lane": "l" }]));
    let mut detached = spawn(&parent, json!([{ "name": "detached", "kind": "k", "lane": "l" }]));
    detached["detach"] = json!(true);
    let mut failed = op("fail", &parent);
    (failed["message"], failed["class"]) = (json!("m"), json!("permanent"));
    let reply = server.post("/v1/workers/i/report", json!({ "ops": [attached, detached, failed] })).await;
    assert!(reply.json()["results"].as_array().expect("results").iter().all(|one| one["ok"] == true));
    let graph = server.get(&format!("/v1/flows/{id}/graph")).await.json();
    let execution = |name: &str| {
        let nodes = graph["nodes"].as_array().expect("nodes");
        text_of(&nodes.iter().find(|node| node["name"] == name).expect(name)["execution"])
    };
    let ended = server.get(&format!("/v1/executions/{}/result?wait_ms=20000", execution("attached"))).await;
    assert_eq!(ended.json()["outcome"], "cancelled");
    assert_eq!(server.execution(&execution("detached")).await["state"], "waiting");
}

#[tokio::test]
async fn a_spawn_that_is_wrong_refuses_only_itself() {
    let server = Server::start().await;
    let id = server.submit(json!({ "kind": "k" })).await;
    let parent = server.claim_one("i").await;
    let first = spawn(&parent, json!([{ "name": "child", "kind": "k" }]));
    assert_eq!(server.report("i", first).await["ok"], true);
    let with = |nodes: Value, more: Value| {
        let mut spawn = spawn(&parent, nodes);
        for (name, value) in more.as_object().expect("an object") {
            spawn[name] = value.clone();
        }
        spawn
    };
    let new = json!([{ "name": "new", "kind": "k" }]);
    let wrong = [
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
    let mut ops: Vec<Value> = wrong.iter().map(|(op, _, _)| op.clone()).collect();
    ops.push(spawn(&parent, json!([{ "name": "right", "kind": "k" }])));
    let reply = server.post("/v1/workers/i/report", json!({ "ops": ops })).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let results = reply.json()["results"].as_array().expect("results").clone();
    for (index, (_, code, pointer)) in wrong.iter().enumerate() {
        let problem = &results[index]["error"];
        check_problem(problem);
        assert_eq!(
            (&problem["code"], &problem["pointer"]),
            (&json!(code), &json!(format!("/ops/{index}{pointer}")))
        );
    }
    assert_eq!(results[wrong.len()]["ok"], json!(true));
    assert_eq!(server.flow(&id).await["counts"]["total"], 3);

    server.complete("i", &parent, json!(null)).await;
    let late = server.report("i", spawn(&parent, json!([{ "name": "late", "kind": "k" }]))).await;
    assert_eq!(late["error"]["code"], "stale_lease");
}

#[tokio::test]
async fn a_dry_run_of_a_replay_lists_what_would_reopen() {
    let server = Server::start().await;
    let body = json!({
        "defaults": { "kind": "k" }, "nodes": [{ "name": "a" }, { "name": "b" }, { "name": "c" }, { "name": "alert" }],
        "edges": [{ "from": "a", "to": "b" }, { "from": "b", "to": "c" }, { "from": "a", "to": "alert", "when": "failure" }],
    });
    let answer = server.submit_flow(body).await;
    let id = text_of(&answer["flow"]["id"]);
    let executions = &answer["executions"];
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
