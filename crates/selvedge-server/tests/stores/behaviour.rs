//! What a fixture left undone is done by an engine that runs everything, and what was answered once is answered again.
//!
//! The rows that the API does not show are proved here: keys, the outbox, keys of tokens, and what gates count.

use crate::answers;
use crate::database::Database;
use crate::directory::Directory;
use crate::driver::{FAR, FOR_EVER_MS, fixed, op, text, with};
use crate::notes::Notes;
use crate::server::{Server, quiet, running, until};
use selvedge_conformance::fixtures::{Fixture, all};
use selvedge_engine::Options;
use selvedge_engine::store::Store;
use serde_json::{Value, json};
use std::sync::Arc;

/// A server on a copy of a fixture, and the notes of the fixture.
struct Opened {
    server: Server,
    notes: Notes,
    /// Goes with the test.
    _copy: Copy,
}

#[allow(dead_code)]
enum Copy {
    Sqlite(Directory),
    Postgres(Database),
}

impl Opened {
    async fn sqlite(fixture: &Fixture, options: Options) -> Opened {
        Self::in_directory(fixture, Directory::copy(fixture), options).await
    }

    /// The SQLite file in the far future: no case may depend on how old a fixture is.
    async fn sqlite_later(fixture: &Fixture, options: Options) -> Opened {
        Self::in_directory(fixture, Directory::copy_for_later(fixture), options).await
    }

    async fn in_directory(fixture: &Fixture, directory: Directory, options: Options) -> Opened {
        let store = directory.store().await;
        Self::new(fixture, "sqlite.json", store, Copy::Sqlite(directory), options).await
    }

    async fn postgres(fixture: &Fixture, options: Options) -> Opened {
        let database = Database::restore(fixture).await;
        let store = database.store().await;
        Self::new(fixture, "postgres.json", store, Copy::Postgres(database), options).await
    }

    async fn new(
        fixture: &Fixture,
        file: &str,
        store: Arc<dyn Store>,
        copy: Copy,
        options: Options,
    ) -> Opened {
        let (notes, _) = answers::parse(&fixture.text(file));
        Opened { server: Server::start(store, options).await, notes, _copy: copy }
    }

    /// Submits again what scene 1 submitted.
    async fn submit_again(&self, more: Value) -> (u16, Value) {
        let base = json!({ "kind": "work", "lane": "completed", "retention_ms": FOR_EVER_MS });
        let body = with(with(base, self.notes.of("idempotent_submission").clone()), more);
        self.server.call("POST", "/v1/executions", None, Some(body)).await
    }

    /// Reports one op, and returns its result.
    async fn report(&self, op: Value) -> Value {
        let answer = self.server.done("POST", "/v1/workers/worker-1/report", json!({ "ops": [op] })).await;
        answer["results"][0].clone()
    }

    /// Delivers a signal through a waitpoint of the notes, with the payload that those had which were used.
    async fn deliver(&self, name: &str) -> (u16, Value) {
        let waitpoint = self.notes.of(name);
        let path = format!("/v1/waitpoints/{}/signal", text(&waitpoint["id"]));
        let body = json!({ "token": waitpoint["token"], "payload": { "approved": true } });
        self.server.call("POST", &path, None, Some(body)).await
    }

    /// The execution of a node, by the fixed id of its flow.
    async fn node(&self, flow: u32, name: &str) -> String {
        let graph = self.server.get(&format!("/v1/flows/{}/graph", fixed(flow))).await;
        let nodes = graph["nodes"].as_array().expect("nodes");
        text(&nodes.iter().find(|node| node["name"] == name).expect("the node is there")["execution"])
    }
}

/// Runs each case on a copy of every fixture, opened in this way.
macro_rules! on_every_store {
    ($(mod $store:ident;)* cases $cases:tt) => {
        $(mod $store { on_every_store! { @cases $store $cases } })*
    };
    (@cases $store:ident { $($case:ident, $options:ident;)* }) => {
        $(#[tokio::test]
        async fn $case() {
            for fixture in super::all() {
                super::$case(super::Opened::$store(&fixture, super::$options()).await).await;
            }
        })*
    };
}

on_every_store! {
    mod sqlite;
    mod sqlite_later;
    mod postgres;
    cases {
        a_submission_with_a_stored_key_or_id_returns_the_existing_execution, quiet;
        a_report_that_is_repeated_with_its_fence_is_answered_again, quiet;
        a_stored_lease_is_good_until_it_lapses, quiet;
        a_token_verifies_under_its_key_and_delivers_once, quiet;
        what_was_spent_counts_on_in_its_period, quiet;
        every_kind_of_work_in_the_outbox_is_done, running;
        leases_of_the_past_lapse_and_their_executions_are_claimed_again, running;
        what_a_gate_holds_goes_on_when_the_gate_opens, running;
        what_is_suspended_goes_on_with_what_it_waits_for, running;
        a_blocked_node_runs_after_its_upstream, running;
    }
}

async fn a_submission_with_a_stored_key_or_id_returns_the_existing_execution(opened: Opened) {
    let (status, answer) = opened.submit_again(json!({})).await;
    assert_eq!((status, &answer["duplicate"]), (200, &json!(true)), "{answer}");
    assert_eq!(answer["execution"]["id"], fixed(1));
    let (status, answer) = opened.submit_again(json!({ "priority": 8 })).await;
    assert_eq!((status, &answer["code"]), (409, &json!("idempotency_mismatch")));

    // By id alone, and by a key that stands for whichever execution is active.
    let waiting = json!({ "kind": "work", "lane": "waiting", "retention_ms": FOR_EVER_MS });
    let first = with(
        waiting.clone(),
        json!({ "id": fixed(401), "capabilities": ["rare"], "tags": { "kept": "waiting" } }),
    );
    let second = with(waiting, json!({ "priority": 3, "unique_while_active": "only-one" }));
    for (body, number) in [(first, 401), (second, 402)] {
        let (status, answer) = opened.server.call("POST", "/v1/executions", None, Some(body)).await;
        assert_eq!((status, &answer["execution"]["id"]), (200, &json!(fixed(number))), "{answer}");
    }

    // A flow by its id: its key stands for it for a day only.
    let flow = with(
        json!({ "id": fixed(201), "retention_ms": FOR_EVER_MS, "defaults": { "kind": "work", "lane": "joined", "retention_ms": FOR_EVER_MS } }),
        opened.notes.of("idempotent_flow").clone(),
    );
    let (status, answer) = opened.server.call("POST", "/v1/flows", None, Some(flow)).await;
    assert_eq!((status, &answer["flow"]["id"]), (200, &json!(fixed(201))), "{answer}");
    assert_eq!(answer["executions"].as_object().map(|nodes| nodes.len()), Some(8));
    opened.server.stop().await;
}

async fn a_report_that_is_repeated_with_its_fence_is_answered_again(opened: Opened) {
    let repeated = opened.notes.of("repeated_report").clone();
    let before = opened.server.execution(&fixed(1)).await;
    let result = opened.report(repeated.clone()).await;
    assert_eq!((&result["ok"], &result["state"]), (&json!(true), &json!("completed")), "{result}");
    assert_eq!(opened.server.execution(&fixed(1)).await, before, "a repeat changes nothing");
    let other = with(repeated, json!({ "op_id": "another", "result": "another" }));
    assert!(opened.report(other).await["error"].is_object());
    opened.server.stop().await;
}

async fn a_stored_lease_is_good_until_it_lapses(opened: Opened) {
    // Nobody has taken these leases away yet, so a late report of their holder is accepted.
    let claim = opened.notes.of("live_lease").clone();
    let result = opened.report(op("complete", &claim, json!({ "result": "late" }))).await;
    assert_eq!(result["state"], "completed", "{result}");
    assert_eq!(opened.server.execution(&fixed(420)).await["result"], "late");
    // Once a lease has lapsed, its holder is refused.
    let claim = opened.notes.of("holder_of_key").clone();
    until("the leases lapse", async || {
        opened.server.engine.tick("lease_expiry").await.expect("the tick runs");
        opened.server.execution(&fixed(410)).await["state"] != "active"
    })
    .await;
    let result = opened.report(op("complete", &claim, json!({}))).await;
    assert_eq!(result["error"]["code"], "stale_lease", "{result}");
    opened.server.stop().await;
}

async fn a_token_verifies_under_its_key_and_delivers_once(opened: Opened) {
    for (name, number) in [("graced_waitpoint", 432), ("signing_waitpoint", 433)] {
        let (status, answer) = opened.deliver(name).await;
        assert_eq!((status, &answer["effect"]), (200, &json!("resumed")), "{name}: {answer}");
        assert_eq!(opened.server.execution(&fixed(number)).await["state"], "waiting");
        let again = opened.deliver(name).await;
        assert_eq!((again.0, &again.1["effect"]), (200, &json!("resumed")), "a repeat is answered alike");
    }
    let (status, answer) = opened.deliver("used_waitpoint").await;
    assert_eq!((status, &answer["effect"]), (200, &json!("counted")), "as it was answered before: {answer}");
    for name in ["expired_waitpoint", "revoked_waitpoint", "kept_secret_waitpoint"] {
        let (status, answer) = opened.deliver(name).await;
        assert!(status >= 400, "{name}: {status} {answer}");
    }
    opened.server.stop().await;
}

async fn what_was_spent_counts_on_in_its_period(opened: Opened) {
    let before = opened.server.get("/v1/budgets/month").await;
    assert_eq!((&before["usage"], &before["period"]), (&json!({ "tokens": 9 }), &json!(1)));
    let more = json!({ "usage": { "tokens": 1 }, "dedup_key": "new" });
    for duplicate in [false, true] {
        let answer = opened.server.done("POST", "/v1/budgets/month/usage", more.clone()).await;
        assert_eq!(
            (&answer["duplicate"], &answer["budget"]["usage"]),
            (&json!(duplicate), &json!({ "tokens": 10 }))
        );
    }
    opened.server.stop().await;
}

async fn every_kind_of_work_in_the_outbox_is_done(opened: Opened) {
    let server = &opened.server;
    // Edges: the downstream is told.
    server.until_state(&opened.node(440, "down").await, "waiting").await;
    // Siblings: the loser of the race is cancelled.
    server.until_state(&opened.node(443, "slow").await, "cancelled").await;
    // Children: the child of the parent that failed is cancelled.
    server.until_state(&opened.node(447, "child").await, "cancelled").await;
    // Flow: the members that had not started are cancelled, and the flow ends.
    for name in ["a", "b"] {
        server.until_state(&opened.node(448, name).await, "cancelled").await;
    }
    let flow = format!("/v1/flows/{}", fixed(448));
    until("the flow ends", async || server.get(&flow).await["state"] == "cancelled").await;
    // Parent: the parent goes on after the end of its child.
    server.until_state(&fixed(451), "waiting").await;
    let overview = server.engine.store().overview().await.expect("the overview is read");
    assert!(overview.outbox.is_empty(), "{:?}", overview.outbox);
    opened.server.stop().await;
}

async fn leases_of_the_past_lapse_and_their_executions_are_claimed_again(opened: Opened) {
    let server = &opened.server;
    let seen = server.until_state(&fixed(420), "waiting").await;
    assert_eq!((&seen["interruptions"], &seen["attempts"]), (&json!(1), &json!(1)));
    let body = json!({ "worker": "later", "lanes": ["leased"], "max": 1, "wait_ms": 20_000 });
    let answer = server.done("POST", "/v1/workers/later-1/claim", body).await;
    let claim = &answer["claims"][0];
    assert_eq!((&claim["execution"]["id"], &claim["attempt"]), (&json!(fixed(420)), &json!(1)), "{answer}");
    assert_eq!(claim["steps"], json!({ "first": 1 }), "its steps are carried");
    let done = server
        .done("POST", "/v1/workers/later-1/report", json!({ "ops": [op("complete", claim, json!({}))] }))
        .await;
    assert_eq!(done["results"][0]["state"], "completed");
    // One that was asked to cancel is not claimed again.
    server.until_state(&fixed(421), "cancelled").await;
    opened.server.stop().await;
}

async fn what_a_gate_holds_goes_on_when_the_gate_opens(opened: Opened) {
    let server = &opened.server;
    // The slot of the key and what was reserved of the budget are given back when their holders lapse; whichever of the two is
    // claimed first then holds the other.
    for (lane, numbers) in [("held-by-key", [410, 411]), ("held-by-budget", [413, 414])] {
        let mut left = numbers.to_vec();
        while !left.is_empty() {
            let body = json!({ "worker": "later", "lanes": [lane], "max": 1, "wait_ms": 20_000 });
            let claim = server.done("POST", "/v1/workers/later-1/claim", body).await["claims"][0].clone();
            left.retain(|number| claim["execution"]["id"] != fixed(*number));
            let ops = json!({ "ops": [op("complete", &claim, json!({}))] });
            server.done("POST", "/v1/workers/later-1/report", ops).await;
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
        server.done("PUT", &format!("/v1/{gate}"), body).await;
        server.until_state(&fixed(number), state).await;
    }
    // The line of a fairness key moves up.
    for number in [415, 416, 417] {
        let body = json!({ "worker": "later", "lanes": ["held-by-fairness"], "max": 1, "wait_ms": 20_000 });
        let claim = server.done("POST", "/v1/workers/later-1/claim", body).await["claims"][0].clone();
        assert_eq!(claim["execution"]["id"], fixed(number));
    }
    opened.server.stop().await;
}

async fn what_is_suspended_goes_on_with_what_it_waits_for(opened: Opened) {
    let server = &opened.server;
    let signal = |number: u32| format!("/v1/executions/{}/signals", fixed(number));
    // Of the nested condition one of two votes has come: the second source decides. The same key is the same signal.
    let first = json!({ "name": "vote", "source": "ada", "payload": 1, "idempotency_key": "ada" });
    assert_eq!(server.done("POST", &signal(430), first).await["duplicate"], true);
    let second = json!({ "name": "vote", "source": "bob", "payload": 2 });
    assert_eq!(server.done("POST", &signal(430), second).await["effect"], "resumed");
    // A wait of a step is recorded when it ends.
    assert_eq!(server.done("POST", &signal(431), json!({ "name": "answer" })).await["effect"], "resumed");
    let steps = server.get(&format!("/v1/executions/{}/steps", fixed(431))).await;
    assert_eq!(
        (&steps["items"][1]["name"], &steps["items"][1]["state"]),
        (&json!("answer"), &json!("recorded"))
    );
    // What came before counts: a time for one, the end of a child for the other.
    for number in [112, 113] {
        assert_eq!(
            server.done("POST", &signal(number), json!({ "name": "rest" })).await["effect"],
            "resumed"
        );
    }
    let delayed = server.execution(&fixed(403)).await;
    assert_eq!((&delayed["state"], &delayed["delayed_until_at"]), (&json!("delayed"), &json!(FAR)));
    opened.server.stop().await;
}

async fn a_blocked_node_runs_after_its_upstream(opened: Opened) {
    let server = &opened.server;
    for name in ["up", "down"] {
        let body = json!({ "worker": "later", "lanes": ["blocked"], "max": 1, "wait_ms": 20_000 });
        let claim = server.done("POST", "/v1/workers/later-1/claim", body).await["claims"][0].clone();
        assert_eq!(claim["execution"]["node"], name, "{claim}");
        let ops = json!({ "ops": [op("complete", &claim, json!({ "result": name }))] });
        server.done("POST", "/v1/workers/later-1/report", ops).await;
    }
    let result = server.get(&format!("/v1/flows/{}/result?wait_ms=20000", fixed(405))).await;
    assert_eq!(result["state"], "completed", "{result}");
    opened.server.stop().await;
}
