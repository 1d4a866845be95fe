//! Finished scenes of flows: every join policy and edge condition, growth, children, and every outcome.

use crate::driver::{Driver, FOREVER_MS, text};
use crate::server::wait_until;
use serde_json::{Value, json};

/// Plays all scenes.
pub async fn play(driver: &mut Driver) {
    joined(driver).await;
    failed(driver).await;
    cancelled(driver).await;
    reopened(driver).await;
    grown(driver).await;
    with_children(driver).await;
}

/// Returns nodes with these names.
pub fn nodes<const COUNT: usize>(names: [&str; COUNT]) -> Value {
    names.map(|name| json!({ "name": name })).into_iter().collect()
}

/// Waits until a submitted flow has the given state.
async fn wait_for_end(driver: &Driver, response: &Value, state: &str) {
    let path = format!("/v1/flows/{}", text(&response["flow"]["id"]));
    wait_until(&format!("{path} is {state}"), async || driver.server.get(&path).await["state"] == state)
        .await;
}

/// Claims one execution, which must be the node with this name.
async fn claim_node(driver: &Driver, lane: &str, name: &str) -> Value {
    let claim = driver.claim_one(lane).await;
    assert_eq!(claim["execution"]["node"], name);
    claim
}

/// `all_of`, `any_of` and `quorum`, with remaining upstreams that are cancelled and others that may finish.
async fn joined(driver: &mut Driver) {
    let submission = json!({
        "name": "joined", "tags": { "flow": "joined" }, "idempotency_key": "flow-1",
        "deadline_ms": FOREVER_MS,
        "nodes": nodes(["a", "b", "c", "d", "all", "any", "some", "let-run"]),
        "edges": [
            { "from": "a", "to": "all" }, { "from": "b", "to": "all" },
            { "from": "a", "to": "any" }, { "from": "c", "to": "any" },
            { "from": "a", "to": "some" }, { "from": "b", "to": "some", "when": "finished" }, { "from": "c", "to": "some" },
            { "from": "b", "to": "let-run" }, { "from": "d", "to": "let-run" },
        ],
        "groups": [
            { "node": "all", "policy": { "type": "all_of" } },
            { "node": "any", "policy": { "type": "any_of" } },
            { "node": "some", "policy": { "type": "quorum", "k": 2 } },
            { "node": "let-run", "policy": { "type": "any_of", "on_satisfied": "let_run" } },
        ],
    });
    let flow = driver.flow(201, "joined", submission.clone()).await;
    driver.notes.add("idempotent_flow", submission);
    let (first, rest): (Vec<Value>, Vec<Value>) = driver
        .claim("joined", 4)
        .await
        .into_iter()
        .partition(|claim| ["a", "b"].iter().any(|name| claim["execution"]["node"] == *name));
    for claim in &first {
        driver.complete(claim, json!({ "from": claim["execution"]["node"] })).await;
    }
    driver.server.wait_for_state(&text(&flow["executions"]["c"]), "cancelled").await;
    let d = rest.iter().find(|claim| claim["execution"]["node"] == "d").expect("node d is claimed");
    driver.complete(d, json!("let run")).await;
    for name in ["all", "any", "some", "let-run"] {
        driver.server.wait_for_state(&text(&flow["executions"][name]), "waiting").await;
    }
    for claim in driver.claim("joined", 4).await {
        driver.complete(&claim, claim["upstream"].clone()).await;
    }
    wait_for_end(driver, &flow, "completed").await;
}

/// A failure with a failure edge and skipped nodes, and a failure without one, which fails its flow.
async fn failed(driver: &Driver) {
    let flow = driver
        .flow(
            202,
            "flow-absorbed",
            json!({
                "name": "absorbed", "nodes": nodes(["first", "then", "after", "alert", "cleanup"]),
                "edges": [
                    { "from": "first", "to": "then" }, { "from": "then", "to": "after" },
                    { "from": "first", "to": "alert", "when": "failure" },
                    { "from": "then", "to": "cleanup", "when": "finished" },
                ],
            }),
        )
        .await;
    driver.fail(&claim_node(driver, "flow-absorbed", "first").await, "no").await;
    for name in ["then", "after"] {
        driver.server.wait_for_state(&text(&flow["executions"][name]), "skipped").await;
    }
    driver.server.wait_for_state(&text(&flow["executions"]["cleanup"]), "waiting").await;
    for claim in driver.claim("flow-absorbed", 2).await {
        driver.complete(&claim, json!(null)).await;
    }
    wait_for_end(driver, &flow, "completed").await;
    let edges = json!([{ "from": "first", "to": "then" }]);
    let flow =
        driver.flow(208, "flow-failed", json!({ "nodes": nodes(["first", "then"]), "edges": edges })).await;
    driver.fail(&claim_node(driver, "flow-failed", "first").await, "for good").await;
    wait_for_end(driver, &flow, "failed").await;
}

async fn cancelled(driver: &Driver) {
    let flow = driver
        .flow(
            203,
            "flow-cancelled",
            json!({
                "nodes": nodes(["done", "runs", "waits"]), "edges": [{ "from": "runs", "to": "waits" }],
            }),
        )
        .await;
    let claims = driver.claim("flow-cancelled", 2).await;
    let done =
        claims.iter().find(|claim| claim["execution"]["node"] == "done").expect("node done is claimed");
    driver.complete(done, json!(null)).await;
    let path = format!("/v1/flows/{}/cancel", text(&flow["flow"]["id"]));
    driver.server.call_ok("POST", &path, json!({ "mode": "all", "reason": "enough" })).await;
    wait_for_end(driver, &flow, "cancelled").await;
}

/// A replay that reopens a flow and its skipped node; the flow ends a second time.
async fn reopened(driver: &Driver) {
    let flow = driver
        .flow(204, "reopened", json!({
            "name": "reopened", "nodes": nodes(["first", "then"]), "edges": [{ "from": "first", "to": "then" }],
        }))
        .await;
    driver.fail(&claim_node(driver, "reopened", "first").await, "the first time").await;
    wait_for_end(driver, &flow, "failed").await;
    driver.operate(&text(&flow["executions"]["first"]), "replay", json!({})).await;
    driver.server.wait_for_state(&text(&flow["executions"]["then"]), "waiting_dependencies").await;
    driver.complete(&claim_node(driver, "reopened", "first").await, json!("again")).await;
    driver.server.wait_for_state(&text(&flow["executions"]["then"]), "waiting").await;
    driver.complete(&claim_node(driver, "reopened", "then").await, json!("then")).await;
    wait_for_end(driver, &flow, "completed").await;
    // A replay of a node with upstreams.
    driver.operate(&text(&flow["executions"]["then"]), "replay", json!({})).await;
    driver.complete(&claim_node(driver, "reopened", "then").await, json!("once more")).await;
    wait_for_end(driver, &flow, "completed").await;
}

async fn grown(driver: &Driver) {
    let flow = driver.flow(205, "grown", json!({ "nodes": nodes(["seed"]) })).await;
    let path = format!("/v1/flows/{}/nodes", text(&flow["flow"]["id"]));
    let node =
        |name: &str| json!({ "name": name, "kind": "work", "lane": "grown", "retention_ms": FOREVER_MS });
    let growth = json!({
        "nodes": [node("left"), node("right")],
        "edges": [{ "from": "seed", "to": "left" }, { "from": "left", "to": "right" }],
    });
    let (status, response) = driver.server.call("POST", &path, Some("grow-1"), Some(growth)).await;
    assert_eq!(status, 201, "{response}");
    for name in ["seed", "left", "right"] {
        let graph = driver.server.get(&format!("/v1/flows/{}/graph", text(&flow["flow"]["id"]))).await;
        let nodes = graph["nodes"].as_array().expect("nodes is an array");
        let node = nodes.iter().find(|node| node["name"] == name).expect("the flow has the node");
        driver.server.wait_for_state(&text(&node["execution"]), "waiting").await;
        driver.complete(&claim_node(driver, "grown", name).await, json!(name)).await;
    }
    wait_for_end(driver, &flow, "completed").await;
}

/// A parent that waits for its children and has a detached one, and a parent whose failure cancels its child.
async fn with_children(driver: &Driver) {
    let node = |name: &str, lane: &str| json!({ "name": name, "kind": "child", "lane": lane, "retention_ms": FOREVER_MS });
    driver.submit(206, "parent", json!({})).await;
    let claim = driver.claim_one("parent").await;
    let children = json!({ "nodes": [node("one", "child"), node("two", "child")], "op_id": "spawn-1" });
    driver.report("spawn", &claim, children).await;
    let detached = json!({ "nodes": [node("apart", "detached")], "detach": true });
    driver.report("spawn", &claim, detached).await;
    let join = json!({ "step": "join", "kind": "join", "condition": { "children": true } });
    driver.report("suspend", &claim, join).await;
    driver.complete(&driver.claim_one("detached").await, json!("apart")).await;
    for claim in driver.claim("child", 2).await {
        driver.complete(&claim, claim["execution"]["node"].clone()).await;
    }
    let parent = text(&claim["execution"]["id"]);
    driver.server.wait_for_state(&parent, "waiting").await;
    let claim = driver.claim_one("parent").await;
    assert_eq!(claim["children"]["two"]["result"], "two", "{claim}");
    driver.complete(&claim, claim["children"].clone()).await;

    driver.submit(207, "bad-parent", json!({})).await;
    let claim = driver.claim_one("bad-parent").await;
    let spawned = driver.report("spawn", &claim, json!({ "nodes": [node("orphan", "bad-child")] })).await;
    driver.fail(&claim, "and its child goes with it").await;
    driver.server.wait_for_state(&text(&spawned["executions"]["orphan"]), "cancelled").await;
}
