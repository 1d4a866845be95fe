//! An engine with all reconcilers completes the work that a fixture left pending, and repeated requests get their first
//! response.
//!
//! These tests cover the rows that the API does not show: idempotency keys, the outbox, token keys, and the counts of
//! gates.

use crate::directory::Directory;
use crate::driver::{FAR_FUTURE, FOREVER_MS, fixed_id, op, text, with};
use crate::notes::Notes;
use crate::server::{Server, full_options, passive_options, wait_until};
use crate::snapshot;
use selvedge_conformance::fixtures::{Fixture, all};
use selvedge_engine::Options;
use selvedge_engine::store::Store;
use selvedge_system_tests::database::Database;
use serde_json::{Value, json};
use std::sync::Arc;

/// A server on a copy of a fixture, and the notes of the fixture.
struct OpenedFixture {
    server: Server,
    notes: Notes,
    /// Deletes the copy when the test ends.
    _copy: FixtureCopy,
}

#[allow(dead_code)]
enum FixtureCopy {
    Sqlite(Directory),
    Postgres(Database),
}

impl OpenedFixture {
    async fn sqlite(fixture: &Fixture, options: Options) -> OpenedFixture {
        Self::in_directory(fixture, Directory::copy(fixture), options).await
    }

    /// Opens the SQLite file in the far future: no test may depend on the age of a fixture.
    async fn sqlite_later(fixture: &Fixture, options: Options) -> OpenedFixture {
        Self::in_directory(fixture, Directory::copy_for_later(fixture), options).await
    }

    async fn in_directory(fixture: &Fixture, directory: Directory, options: Options) -> OpenedFixture {
        let store = directory.store().await;
        Self::new(fixture, "sqlite.json", store, FixtureCopy::Sqlite(directory), options).await
    }

    async fn postgres(fixture: &Fixture, options: Options) -> OpenedFixture {
        let database = Database::restore(fixture).await;
        let store = database.store().await;
        Self::new(fixture, "postgres.json", store, FixtureCopy::Postgres(database), options).await
    }

    async fn new(
        fixture: &Fixture,
        file: &str,
        store: Arc<dyn Store>,
        copy: FixtureCopy,
        options: Options,
    ) -> OpenedFixture {
        let (notes, _) = snapshot::parse(&fixture.text(file));
        OpenedFixture { server: Server::start(store, options).await, notes, _copy: copy }
    }

    /// Repeats the submission of execution 1, with further fields.
    async fn submit_again(&self, fields: Value) -> (u16, Value) {
        let base = json!({ "kind": "work", "lane": "completed", "retention_ms": FOREVER_MS });
        let body = with(with(base, self.notes.get("idempotent_submission").clone()), fields);
        self.server.call("POST", "/v1/executions", None, Some(body)).await
    }

    /// Reports one operation. Returns its result.
    async fn report(&self, op: Value) -> Value {
        let response =
            self.server.call_ok("POST", "/v1/workers/worker-1/report", json!({ "ops": [op] })).await;
        response["results"][0].clone()
    }

    /// Delivers a signal through a waitpoint of the notes, with the payload of the deliveries in the fixture.
    async fn deliver(&self, name: &str) -> (u16, Value) {
        let waitpoint = self.notes.get(name);
        let path = format!("/v1/waitpoints/{}/signal", text(&waitpoint["id"]));
        let body = json!({ "token": waitpoint["token"], "payload": { "approved": true } });
        self.server.call("POST", &path, None, Some(body)).await
    }

    /// Returns the execution of a node, by the fixed id of its flow.
    async fn node(&self, flow: u32, name: &str) -> String {
        let graph = self.server.get(&format!("/v1/flows/{}/graph", fixed_id(flow))).await;
        let nodes = graph["nodes"].as_array().expect("nodes is an array");
        text(&nodes.iter().find(|node| node["name"] == name).expect("the flow has the node")["execution"])
    }
}

/// Defines a test of each case for each way to open a store. It runs the case on a copy of every fixture.
macro_rules! on_every_store {
    ($(mod $store:ident;)* cases $cases:tt) => {
        $(mod $store { on_every_store! { @cases $store $cases } })*
    };
    (@cases $store:ident { $($case:ident, $options:ident;)* }) => {
        $(#[tokio::test]
        async fn $case() {
            for fixture in super::all() {
                super::$case(super::OpenedFixture::$store(&fixture, super::$options()).await).await;
            }
        })*
    };
}

on_every_store! {
    mod sqlite;
    mod sqlite_later;
    mod postgres;
    cases {
        a_submission_with_a_stored_key_or_id_returns_the_existing_execution, passive_options;
        a_repeated_report_gets_its_first_result, passive_options;
        a_stored_lease_is_valid_until_it_expires, passive_options;
        a_token_verifies_under_its_key_and_delivers_once, passive_options;
        new_usage_is_added_to_the_stored_period, passive_options;
        every_kind_of_work_in_the_outbox_is_done, full_options;
        stored_leases_expire_and_their_executions_are_claimed_again, full_options;
        held_executions_are_released_when_their_gate_has_room, full_options;
        suspended_executions_resume_when_their_conditions_are_satisfied, full_options;
        a_node_that_waits_for_its_upstream_runs_after_it, full_options;
    }
}

async fn a_submission_with_a_stored_key_or_id_returns_the_existing_execution(opened: OpenedFixture) {
    let (status, response) = opened.submit_again(json!({})).await;
    assert_eq!((status, &response["duplicate"]), (200, &json!(true)), "{response}");
    assert_eq!(response["execution"]["id"], fixed_id(1));
    let (status, response) = opened.submit_again(json!({ "priority": 8 })).await;
    assert_eq!((status, &response["code"]), (409, &json!("idempotency_mismatch")));

    // By id alone, and by a key that is unique among active executions.
    let waiting = json!({ "kind": "work", "lane": "waiting", "retention_ms": FOREVER_MS });
    let first = with(
        waiting.clone(),
        json!({ "id": fixed_id(401), "capabilities": ["rare"], "tags": { "kept": "waiting" } }),
    );
    let second = with(waiting, json!({ "priority": 3, "unique_while_active": "only-one" }));
    for (body, number) in [(first, 401), (second, 402)] {
        let (status, response) = opened.server.call("POST", "/v1/executions", None, Some(body)).await;
        assert_eq!((status, &response["execution"]["id"]), (200, &json!(fixed_id(number))), "{response}");
    }

    // A flow by its id: its idempotency key is valid for a day only.
    let flow = with(
        json!({ "id": fixed_id(201), "retention_ms": FOREVER_MS, "defaults": { "kind": "work", "lane": "joined", "retention_ms": FOREVER_MS } }),
        opened.notes.get("idempotent_flow").clone(),
    );
    let (status, response) = opened.server.call("POST", "/v1/flows", None, Some(flow)).await;
    assert_eq!((status, &response["flow"]["id"]), (200, &json!(fixed_id(201))), "{response}");
    assert_eq!(response["executions"].as_object().map(|nodes| nodes.len()), Some(8));
    opened.server.stop().await;
}

async fn a_repeated_report_gets_its_first_result(opened: OpenedFixture) {
    let repeated = opened.notes.get("repeated_report").clone();
    let before = opened.server.execution(&fixed_id(1)).await;
    let result = opened.report(repeated.clone()).await;
    assert_eq!((&result["ok"], &result["state"]), (&json!(true), &json!("completed")), "{result}");
    assert_eq!(opened.server.execution(&fixed_id(1)).await, before, "a repeat changes nothing");
    let other = with(repeated, json!({ "op_id": "another", "result": "another" }));
    assert!(opened.report(other).await["error"].is_object());
    opened.server.stop().await;
}

async fn a_stored_lease_is_valid_until_it_expires(opened: OpenedFixture) {
    // No reconciler has reclaimed these leases yet, so a late report of their holder is accepted.
    let claim = opened.notes.get("live_lease").clone();
    let result = opened.report(op("complete", &claim, json!({ "result": "late" }))).await;
    assert_eq!(result["state"], "completed", "{result}");
    assert_eq!(opened.server.execution(&fixed_id(420)).await["result"], "late");
    // Once a lease has expired, its holder is refused.
    let claim = opened.notes.get("holder_of_key").clone();
    wait_until("the leases expire", async || {
        opened.server.engine.tick("lease_expiry").await.expect("the tick succeeds");
        opened.server.execution(&fixed_id(410)).await["state"] != "active"
    })
    .await;
    let result = opened.report(op("complete", &claim, json!({}))).await;
    assert_eq!(result["error"]["code"], "stale_lease", "{result}");
    opened.server.stop().await;
}

async fn a_token_verifies_under_its_key_and_delivers_once(opened: OpenedFixture) {
    for (name, number) in [("graced_waitpoint", 432), ("signing_waitpoint", 433)] {
        let (status, response) = opened.deliver(name).await;
        assert_eq!((status, &response["effect"]), (200, &json!("resumed")), "{name}: {response}");
        assert_eq!(opened.server.execution(&fixed_id(number)).await["state"], "waiting");
        let again = opened.deliver(name).await;
        assert_eq!(
            (again.0, &again.1["effect"]),
            (200, &json!("resumed")),
            "a repeat gets the same response"
        );
    }
    let (status, response) = opened.deliver("used_waitpoint").await;
    assert_eq!(
        (status, &response["effect"]),
        (200, &json!("counted")),
        "a repeat gets the first response: {response}"
    );
    for name in ["expired_waitpoint", "revoked_waitpoint", "kept_secret_waitpoint"] {
        let (status, response) = opened.deliver(name).await;
        assert!(status >= 400, "{name}: {status} {response}");
    }
    opened.server.stop().await;
}

async fn new_usage_is_added_to_the_stored_period(opened: OpenedFixture) {
    let before = opened.server.get("/v1/budgets/month").await;
    assert_eq!((&before["usage"], &before["period"]), (&json!({ "tokens": 9 }), &json!(1)));
    let usage = json!({ "usage": { "tokens": 1 }, "dedup_key": "new" });
    for duplicate in [false, true] {
        let response = opened.server.call_ok("POST", "/v1/budgets/month/usage", usage.clone()).await;
        assert_eq!(
            (&response["duplicate"], &response["budget"]["usage"]),
            (&json!(duplicate), &json!({ "tokens": 10 }))
        );
    }
    opened.server.stop().await;
}

async fn every_kind_of_work_in_the_outbox_is_done(opened: OpenedFixture) {
    let server = &opened.server;
    // Edges: the end of the upstream is propagated to the downstream.
    server.wait_for_state(&opened.node(440, "down").await, "waiting").await;
    // Siblings: the remaining upstream of a satisfied group is cancelled.
    server.wait_for_state(&opened.node(443, "slow").await, "cancelled").await;
    // Children: the child of the failed parent is cancelled.
    server.wait_for_state(&opened.node(447, "child").await, "cancelled").await;
    // Flow: the nodes that had not started are cancelled, and the flow ends.
    for name in ["a", "b"] {
        server.wait_for_state(&opened.node(448, name).await, "cancelled").await;
    }
    let flow = format!("/v1/flows/{}", fixed_id(448));
    wait_until("the flow ends", async || server.get(&flow).await["state"] == "cancelled").await;
    // Parent: the parent resumes after the end of its child.
    server.wait_for_state(&fixed_id(451), "waiting").await;
    let overview = server.engine.store().overview().await.expect("the overview is read");
    assert!(overview.outbox.is_empty(), "{:?}", overview.outbox);
    opened.server.stop().await;
}

async fn stored_leases_expire_and_their_executions_are_claimed_again(opened: OpenedFixture) {
    let server = &opened.server;
    let interrupted = server.wait_for_state(&fixed_id(420), "waiting").await;
    assert_eq!((&interrupted["interruptions"], &interrupted["attempts"]), (&json!(1), &json!(1)));
    let body = json!({ "worker": "later", "lanes": ["leased"], "max": 1, "wait_ms": 20_000 });
    let response = server.call_ok("POST", "/v1/workers/later-1/claim", body).await;
    let claim = &response["claims"][0];
    assert_eq!(
        (&claim["execution"]["id"], &claim["attempt"]),
        (&json!(fixed_id(420)), &json!(1)),
        "{response}"
    );
    assert_eq!(claim["steps"], json!({ "first": 1 }), "the claim carries the recorded steps");
    let completed = server
        .call_ok("POST", "/v1/workers/later-1/report", json!({ "ops": [op("complete", claim, json!({}))] }))
        .await;
    assert_eq!(completed["results"][0]["state"], "completed");
    // An execution with a requested cancellation is not claimed again.
    server.wait_for_state(&fixed_id(421), "cancelled").await;
    opened.server.stop().await;
}

async fn held_executions_are_released_when_their_gate_has_room(opened: OpenedFixture) {
    let server = &opened.server;
    // The slot of the key and the reservation of the budget are given back when the leases of their holders expire.
    // Then the execution that is claimed first holds up the other.
    for (lane, numbers) in [("held-by-key", [410, 411]), ("held-by-budget", [413, 414])] {
        let mut remaining = numbers.to_vec();
        while !remaining.is_empty() {
            let body = json!({ "worker": "later", "lanes": [lane], "max": 1, "wait_ms": 20_000 });
            let claim = server.call_ok("POST", "/v1/workers/later-1/claim", body).await["claims"][0].clone();
            remaining.retain(|number| claim["execution"]["id"] != fixed_id(*number));
            let ops = json!({ "ops": [op("complete", &claim, json!({}))] });
            server.call_ok("POST", "/v1/workers/later-1/report", ops).await;
        }
    }
    for (gate, body, number, state) in [
        ("quotas/closed", json!({ "rate": { "count": 5, "window_ms": 1000 } }), 412, "waiting"),
        (
            "budgets/suspends",
            json!({ "limits": { "tokens": { "hard": 1000 } }, "on_hard": "suspend" }),
            310,
            "waiting",
        ),
        ("lanes/paused", json!({}), 407, "waiting"),
    ] {
        server.call_ok("PUT", &format!("/v1/{gate}"), body).await;
        server.wait_for_state(&fixed_id(number), state).await;
    }
    // The line of a fairness key advances.
    for number in [415, 416, 417] {
        let body = json!({ "worker": "later", "lanes": ["held-by-fairness"], "max": 1, "wait_ms": 20_000 });
        let claim = server.call_ok("POST", "/v1/workers/later-1/claim", body).await["claims"][0].clone();
        assert_eq!(claim["execution"]["id"], fixed_id(number));
    }
    opened.server.stop().await;
}

async fn suspended_executions_resume_when_their_conditions_are_satisfied(opened: OpenedFixture) {
    let server = &opened.server;
    let signal = |number: u32| format!("/v1/executions/{}/signals", fixed_id(number));
    // The nested condition has one of its two votes: a second source satisfies it. A repeated key is the same signal.
    let first = json!({ "name": "vote", "source": "ada", "payload": 1, "idempotency_key": "ada" });
    assert_eq!(server.call_ok("POST", &signal(430), first).await["duplicate"], true);
    let second = json!({ "name": "vote", "source": "bob", "payload": 2 });
    assert_eq!(server.call_ok("POST", &signal(430), second).await["effect"], "resumed");
    // The wait of a step is recorded when it ends.
    assert_eq!(server.call_ok("POST", &signal(431), json!({ "name": "answer" })).await["effect"], "resumed");
    let steps = server.get(&format!("/v1/executions/{}/steps", fixed_id(431))).await;
    assert_eq!(
        (&steps["items"][1]["name"], &steps["items"][1]["state"]),
        (&json!("answer"), &json!("recorded"))
    );
    // Earlier progress counts: a time for one execution, the end of a child for the other.
    for number in [112, 113] {
        assert_eq!(
            server.call_ok("POST", &signal(number), json!({ "name": "rest" })).await["effect"],
            "resumed"
        );
    }
    let delayed = server.execution(&fixed_id(403)).await;
    assert_eq!((&delayed["state"], &delayed["delayed_until_at"]), (&json!("delayed"), &json!(FAR_FUTURE)));
    opened.server.stop().await;
}

async fn a_node_that_waits_for_its_upstream_runs_after_it(opened: OpenedFixture) {
    let server = &opened.server;
    for name in ["up", "down"] {
        let body = json!({ "worker": "later", "lanes": ["blocked"], "max": 1, "wait_ms": 20_000 });
        let claim = server.call_ok("POST", "/v1/workers/later-1/claim", body).await["claims"][0].clone();
        assert_eq!(claim["execution"]["node"], name, "{claim}");
        let ops = json!({ "ops": [op("complete", &claim, json!({ "result": name }))] });
        server.call_ok("POST", "/v1/workers/later-1/report", ops).await;
    }
    let result = server.get(&format!("/v1/flows/{}/result?wait_ms=20000", fixed_id(405))).await;
    assert_eq!(result["state"], "completed", "{result}");
    opened.server.stop().await;
}
