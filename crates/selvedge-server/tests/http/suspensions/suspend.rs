//! Suspending and resuming: the shown suspension, and the signals and steps of the next claim.

use crate::support::{Server, op, op_with, text_of, within};
use serde_json::{Value, json};

#[tokio::test]
async fn a_suspended_execution_shows_its_conditions() {
    let server = Server::start().await;
    let (id, claim) = server.submit_and_claim().await;
    let condition = json!({ "any": [
        { "signal": "approve" },
        { "all": [{ "operator": true }, { "until_at": "2100-01-01T00:00:00+02:00" }] },
    ] });
    let fields = json!({ "condition": condition, "timeout_ms": 3_600_000, "on_timeout": "escalate", "step": "approval" });
    let suspended = server.suspend("i", &claim, fields).await;
    assert_eq!(suspended, json!({ "ok": true, "state": "suspended", "waitpoints": [] }));

    let shown = server.execution(&id).await;
    assert_eq!((&shown["state"], &shown["outcome"]), (&json!("suspended"), &json!(null)));
    assert_eq!((&shown["ready_at"], &shown["delayed_until_at"]), (&json!(null), &json!(null)));
    assert_eq!((&shown["lease"], &shown["attempts"]), (&json!(null), &json!(1)));
    let suspension = &shown["suspension"];
    assert_eq!((&suspension["number"], &suspension["attempt"]), (&json!(1), &json!(0)));
    assert!(text_of(&suspension["since_at"]).ends_with('Z'), "{suspension}");
    let wait = &suspension["waits"][0];
    let expected = json!({ "any": [
        { "signal": "approve" },
        { "all": [{ "operator": true }, { "until_at": "2099-12-31T22:00:00.000Z" }] },
    ] });
    assert_eq!((&wait["condition"], &wait["step"]), (&expected, &json!("approval")));
    assert_eq!((&wait["on_timeout"], &wait["escalated"]), (&json!("escalate"), &json!(false)));
    assert!(text_of(&wait["timeout_at"]) > text_of(&suspension["since_at"]), "{wait}");

    let listed = server.get("/v1/executions?state=suspended").await.json();
    assert_eq!(listed["items"][0]["suspension"], *suspension);
    assert_eq!(server.get("/v1/executions?state=active").await.json()["items"], json!([]));
    let attempts = server.list_of(&id, "attempts").await;
    assert_eq!((&attempts[0]["outcome"], attempts.len()), (&json!("suspended"), 1));
    let explained = server.get(&format!("/v1/executions/{id}/explain")).await.json();
    assert_eq!(
        (&explained["state"], &explained["reasons"][0]["code"]),
        (&json!("suspended"), &json!("suspended"))
    );
    let message = text_of(&explained["reasons"][0]["message"]);
    assert!(message.contains("signal \"approve\""), "{message}");

    let events = server.get(&format!("/v1/events?execution={id}&types=execution.suspended")).await.json();
    assert_eq!(events["items"][0]["data"], *suspension, "the event has the same data");
    let waiting = server.submit(json!({ "kind": "k" })).await;
    assert_eq!(server.execution(&waiting).await["suspension"], json!(null));
}

#[tokio::test]
async fn the_next_claim_carries_the_signals_byte_for_byte_and_the_steps() {
    let server = Server::start().await;
    let (id, claim) = server.submit_and_claim().await;
    let step = op_with("step", &claim, json!({ "name": "charge \"1\"", "result": { "id": 7 } }));
    assert_eq!(server.report("i", step).await, json!({ "ok": true, "state": "active" }));
    let condition = json!({ "all": [{ "signal": "paid" }, { "signal": "packed" }] });
    server.suspend("i", &claim, json!({ "condition": condition })).await;
    let payload = r#"{"z": 1.0e+2, "a":  [ 1,2 ], "n": 123456789012345678901234567890, "é":"\u0000"}"#;
    let path = format!("/v1/executions/{id}/signals");
    let body = format!(r#"{{"name": "paid", "payload":  {payload} , "source": "bank"}}"#);
    assert_eq!(server.post_text(&path, &body).await.json()["effect"], "counted");
    assert_eq!(server.claim("i", 1).await, [Value::Null; 0]);
    // A signal that no condition names is buffered and not part of the next claim.
    assert_eq!(server.signal(&id, json!({ "name": "returned" })).await["effect"], "buffered");
    let resumed = server.signal(&id, json!({ "name": "packed" })).await;
    let signal = json!({ "number": 3, "name": "packed", "source": "admin" });
    assert_eq!(resumed, json!({ "signal": signal, "duplicate": false, "effect": "resumed" }));

    let shown = server.execution(&id).await;
    assert_eq!((&shown["state"], &shown["suspension"]), (&json!("waiting"), &json!(null)));
    assert!(shown["ready_at"].is_string());
    let claim = r#"{"worker": "w", "lanes": ["default"], "max": 1}"#;
    let reply = server.post_text("/v1/workers/i/claim", claim).await;
    let signals = format!(
        r#""signals":[{{"name":"paid","payload":{payload},"source":"bank","waitpoint":null}},{{"name":"packed","payload":null,"source":"admin","waitpoint":null}}]"#
    );
    assert!(reply.text().contains(&signals), "{}", reply.text());
    let claim = reply.json()["claims"][0].clone();
    assert_eq!((&claim["attempt"], &claim["resumed_by"]), (&json!(1), &json!("condition")));
    assert_eq!(claim["steps"], json!({ "charge \"1\"": { "id": 7 } }));
    server.complete("i", &claim, json!("sent")).await;
    assert_eq!(server.list_of(&id, "attempts").await.len(), 2);
}

#[tokio::test]
async fn a_condition_that_is_already_satisfied_resumes_the_execution_at_once() {
    let server = Server::start().await;
    let (id, claim) = server.submit_and_claim().await;
    assert_eq!(server.signal(&id, json!({ "name": "go", "payload": 1 })).await["effect"], "buffered");
    let suspended = server.suspend("i", &claim, json!({ "condition": { "signal": "go" } })).await;
    assert_eq!(suspended["state"], "waiting");
    let claim = server.claim("i", 1).await.remove(0);
    assert_eq!(claim["signals"][0]["payload"], 1);
    // A signal satisfies only one condition.
    let suspended = server.suspend("i", &claim, json!({ "condition": { "signal": "go" } })).await;
    assert_eq!(suspended["state"], "suspended");
}

#[tokio::test]
async fn a_repeated_suspension_gets_the_same_result() {
    let server = Server::start().await;
    let (id, claim) = server.submit_and_claim().await;
    let fields =
        json!({ "condition": { "signal": "go" }, "waitpoints": ["go", { "name": "b", "source": "bob" }] });
    let suspended = server.suspend("i", &claim, fields.clone()).await;
    assert_eq!(server.suspend("i", &claim, fields).await, suspended);
    server.signal(&id, json!({ "name": "go" })).await;
    let other =
        server.report("i", op_with("suspend", &claim, json!({ "condition": { "signal": "x" } }))).await;
    assert_eq!(
        (&other["error"]["code"], &other["error"]["state"]),
        (&json!("stale_lease"), &json!("waiting"))
    );
    let late = server.report("i", op("complete", &claim)).await;
    assert_eq!(late["error"]["code"], "stale_lease");
}

#[tokio::test]
async fn a_count_counts_distinct_sources_or_signals() {
    let server = Server::start().await;
    let (id, claim) = server.submit_and_claim().await;
    let count = json!({ "count": { "n": 2, "of": ["approve"], "distinct": "sources" } });
    server.suspend("i", &claim, json!({ "condition": count })).await;
    let approve =
        async |source: &str| server.signal(&id, json!({ "name": "approve", "source": source })).await;
    assert_eq!(approve("ann").await["effect"], "counted");
    assert_eq!(approve("ann").await["effect"], "buffered", "a source is counted once");
    assert_eq!(approve("bob").await["effect"], "resumed");
    let claim = server.claim("i", 1).await.remove(0);
    let sources: Vec<&Value> = claim["signals"]
        .as_array()
        .expect("signals is an array")
        .iter()
        .map(|signal| &signal["source"])
        .collect();
    assert_eq!(sources, ["ann", "bob"]);

    let count = json!({ "count": { "n": 2, "of": ["a", "b", "c"], "distinct": "signals" } });
    server.suspend("i", &claim, json!({ "condition": count })).await;
    assert_eq!(server.signal(&id, json!({ "name": "c" })).await["effect"], "counted");
    assert_eq!(server.signal(&id, json!({ "name": "a" })).await["effect"], "resumed");
}

#[tokio::test]
async fn satisfied_waits_are_recorded_as_steps_and_the_others_stay_open() {
    let server = Server::start().await;
    let (id, claim) = server.submit_and_claim().await;
    let waits = json!([
        { "step": "reply", "condition": { "signal": "reply" } },
        { "step": "pause", "kind": "sleep", "condition": { "delay_ms": 3_600_000 } },
        { "condition": { "operator": true } },
    ]);
    server.suspend("i", &claim, json!({ "waits": waits })).await;
    let steps = server.list_of(&id, "steps").await;
    let shown: Vec<_> = steps.iter().map(|step| (&step["name"], &step["kind"], &step["state"])).collect();
    let open = json!("open");
    assert_eq!(shown, [(&json!("reply"), &json!("wait"), &open), (&json!("pause"), &json!("sleep"), &open)]);
    assert_eq!((&steps[1]["duration_ms"], &steps[1]["result"]), (&json!(null), &json!(null)));

    server.signal(&id, json!({ "name": "reply", "payload": [1] })).await;
    let claim = server.claim("i", 1).await.remove(0);
    let signals = json!([{ "name": "reply", "payload": [1], "source": "admin", "waitpoint": null }]);
    assert_eq!(claim["steps"], json!({ "reply": { "resumed_by": "condition", "signals": signals } }));
    assert_eq!(claim["signals"], signals);
    let steps = server.list_of(&id, "steps").await;
    assert_eq!((&steps[0]["state"], &steps[1]["state"]), (&json!("recorded"), &json!("open")));
    assert!(steps[0]["recorded_at"].is_string() && steps[0]["duration_ms"].is_number());
}

#[tokio::test]
async fn an_operator_resumes_a_suspended_execution() {
    let server = Server::start().await;
    let (id, claim) = server.submit_and_claim().await;
    let path = format!("/v1/executions/{id}/resume");
    assert_eq!(server.post(&path, json!({})).await.problem(), (409, "wrong_state".into(), "".into()));
    server.suspend("i", &claim, json!({ "condition": { "operator": true } })).await;
    let version = server.execution(&id).await["version"].as_u64().expect("version is an integer");
    let stale = server.post(&path, json!({ "if_version": version - 1 })).await;
    assert_eq!(stale.problem(), (409, "version_mismatch".into(), "".into()));
    let unknown = server.post(&path, json!({ "reason": "x" })).await;
    assert_eq!(unknown.problem(), (422, "unknown_field".into(), "/reason".into()));
    let resumed = server.post(&path, json!({ "if_version": version })).await;
    assert_eq!((resumed.status, &resumed.json()["execution"]["state"]), (200, &json!("waiting")));
    let events = server.get("/v1/events?types=execution.resumed").await.json();
    let event = &events["items"][0];
    assert_eq!((&event["actor"], &event["data"]["by"]), (&json!("admin"), &json!("operator")));

    let claim = server.claim("i", 1).await.remove(0);
    assert_eq!((&claim["resumed_by"], &claim["signals"]), (&json!("operator"), &json!([])));
    // A condition without `operator` can be resumed as well, also with an empty body.
    server.suspend("i", &claim, json!({ "condition": { "signal": "never" } })).await;
    assert_eq!(server.send("POST", &path, &[], Vec::new()).await.status, 200);
    let claim = server.claim("i", 1).await.remove(0);
    server.complete("i", &claim, json!(null)).await;
    assert_eq!(server.post(&path, json!({})).await.problem(), (409, "already_terminal".into(), "".into()));
}

#[tokio::test]
async fn a_parent_waits_for_its_children_and_its_claim_carries_their_outcomes() {
    let server = Server::start().await;
    let (id, parent) = server.submit_and_claim().await;
    let nodes = json!([
        { "name": "one", "kind": "k" }, { "name": "two", "kind": "k", "retry": { "max_retries": 0 } },
    ]);
    server.report("i", op_with("spawn", &parent, json!({ "nodes": nodes }))).await;
    let condition = json!({ "condition": { "children": true }, "step": "join", "kind": "join" });
    assert_eq!(server.suspend("i", &parent, condition).await["state"], "suspended");
    let counts = server.flow(&id).await["counts"].clone();
    assert_eq!(
        (&counts["total"], &counts["suspended"], &counts["waiting"]),
        (&json!(3), &json!(1), &json!(2))
    );
    let graph = server.get(&format!("/v1/flows/{id}/graph")).await.json();
    assert_eq!(graph["nodes"][0]["state"], "suspended");

    let one = server.claim_one("i").await;
    let two = server.claim_one("i").await;
    server.complete("i", &one, json!("fine")).await;
    server.fail("i", &two, "not fine").await;
    let parent = server.claim_one("i").await;
    assert_eq!((&parent["execution"]["id"], &parent["resumed_by"]), (&json!(id), &json!("condition")));
    let children = json!({
        "one": { "outcome": "completed", "result": "fine" }, "two": { "outcome": "failed", "result": null },
    });
    assert_eq!(parent["children"], children);
    assert_eq!(parent["steps"], json!({ "join": { "resumed_by": "condition", "signals": [] } }));
}

#[tokio::test]
async fn a_suspended_execution_can_be_cancelled_but_not_rescheduled() {
    let server = Server::start().await;
    let (id, claim) = server.submit_and_claim().await;
    server.suspend("i", &claim, json!({ "condition": { "signal": "go" } })).await;
    let reply = server.post(&format!("/v1/executions/{id}/reschedule"), json!({ "delay_ms": 0 })).await;
    assert_eq!(reply.problem(), (409, "wrong_state".into(), "".into()));
    let reply = server.post(&format!("/v1/executions/{id}/cancel"), json!({})).await;
    assert_eq!(reply.json()["execution"]["outcome"], "cancelled");
    let reply = server.post(&format!("/v1/executions/{id}/signals"), json!({ "name": "go" })).await;
    assert_eq!(reply.problem(), (409, "already_terminal".into(), "".into()));
}

#[tokio::test]
async fn each_op_of_a_report_sees_the_effects_of_the_ops_before() {
    let server = Server::start().await;
    let (id, claim) = server.submit_and_claim().await;
    let nodes = json!([{ "name": "child", "kind": "k" }]);
    let ops = json!([
        op_with("step", &claim, json!({ "name": "first", "result": 1 })),
        op_with("waitpoint", &claim, json!({ "name": "early" })),
        op_with("spawn", &claim, json!({ "nodes": nodes })),
        op_with(
            "suspend",
            &claim,
            json!({ "condition": { "children": true }, "waitpoints": ["early", "late"] })
        ),
        op_with("step", &claim, json!({ "name": "too late" })),
    ]);
    let next = json!({ "worker": "w", "lanes": ["default"], "max": 5 });
    let reply = server.post("/v1/workers/i/report", json!({ "ops": ops, "claim": next })).await.json();
    let states: Vec<&Value> = reply["results"]
        .as_array()
        .expect("results is an array")
        .iter()
        .map(|result| &result["state"])
        .collect();
    assert_eq!(
        states,
        [&json!("active"), &json!("active"), &json!("active"), &json!("suspended"), &Value::Null]
    );
    let results = &reply["results"];
    assert_eq!(results[1]["waitpoints"][0], results[3]["waitpoints"][0]);
    assert_eq!(results[4]["error"]["code"], "stale_lease");
    let claims = reply["claims"].as_array().expect("claims is an array");
    assert_eq!((claims.len(), &claims[0]["execution"]["node"]), (1, &json!("child")));
    server.complete("i", &claims[0], json!("done")).await;
    let parent = server.claim_one("i").await;
    assert_eq!((&parent["execution"]["id"], &parent["steps"]), (&json!(id), &json!({ "first": 1 })));
    assert_eq!(parent["children"]["child"]["result"], "done");
    assert_eq!(server.list_of(&id, "waitpoints").await.len(), 2);
}

#[tokio::test]
async fn a_suspension_that_is_already_satisfied_is_claimed_again_by_the_same_report() {
    let server = Server::start().await;
    let (id, claim) = server.submit_and_claim().await;
    server.signal(&id, json!({ "name": "go", "payload": [1] })).await;
    let suspend = op_with("suspend", &claim, json!({ "condition": { "signal": "go" }, "step": "go" }));
    let next = json!({ "worker": "w", "lanes": ["default"], "max": 1, "wait_ms": 20_000 });
    let reply = server.post("/v1/workers/i/report", json!({ "ops": [suspend], "claim": next })).await.json();
    assert_eq!(reply["results"][0]["state"], "waiting");
    let claim = &reply["claims"][0];
    assert_eq!((&claim["execution"]["id"], &claim["attempt"]), (&json!(id), &json!(1)));
    assert_eq!((&claim["signals"][0]["payload"], &claim["resumed_by"]), (&json!([1]), &json!("condition")));
    assert_eq!(claim["steps"]["go"]["signals"][0]["payload"], json!([1]));
}

#[tokio::test]
async fn a_signal_hands_the_execution_to_a_waiting_claim() {
    let server = Server::start().await;
    let (id, claim) = server.submit_and_claim().await;
    server.suspend("i", &claim, json!({ "condition": { "signal": "go" } })).await;
    // The claim waits longer than the test's timeout, so only the signal can wake it up.
    let body = json!({ "worker": "w", "lanes": ["default"], "max": 1, "wait_ms": 60_000 });
    let waiting = server.post("/v1/workers/i/claim", body);
    let signal = async {
        server.wait_for_claims(1).await;
        server.signal(&id, json!({ "name": "go", "payload": 7 })).await
    };
    let (claimed, signalled) = within(async { tokio::join!(waiting, signal) }).await;
    assert_eq!(signalled["effect"], "resumed");
    assert_eq!(claimed.json()["claims"][0]["signals"][0]["payload"], 7, "{}", claimed.text());
}
