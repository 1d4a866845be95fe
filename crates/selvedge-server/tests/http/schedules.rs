//! Schedules: saved, patched, listed, fired, run at once, and their next times and last runs.

use crate::support::{Server, text_of, within};
use selvedge_core::Timestamp;
use selvedge_engine::Options;
use selvedge_memory::Clock;
use serde_json::{Value, json};

const MINUTE_MS: i64 = 60_000;
/// 2027-01-15T08:00:00Z, a Friday.
const START_MS: i64 = 1_800_000_000_000;

/// Starts a server without reconcilers whose clock stands still.
async fn server() -> (Server, Clock) {
    let clock = Clock::manual(Timestamp::from_millis(START_MS));
    let options = Options { reconcilers: false, ..Options::default() };
    (Server::start_with(options, clock.clone()).await, clock)
}

fn every_minute() -> Value {
    json!({ "interval_ms": MINUTE_MS, "submit": { "execution": { "kind": "k" } } })
}

/// Lets the reconciler run once. Returns the number of schedules that it fired.
async fn tick(server: &Server) -> u64 {
    server.engine.tick("schedule").await.expect("the tick succeeds").done
}

async fn runs(server: &Server, name: &str) -> Vec<Value> {
    server.read(&format!("schedules/{name}/runs")).await["items"].as_array().expect("is a list").clone()
}

#[tokio::test]
async fn a_schedule_is_created_replaced_shown_listed_and_deleted() {
    let (server, _clock) = server().await;
    let body = json!({
        "cron": "30 6 * * mon-fri", "time_zone": "Europe/Berlin",
        "submit": { "execution": { "kind": "report", "input": { "a": 1.5 } } },
        "overlap": "skip", "catch_up": "one", "jitter_ms": 1000, "paused": false,
    });
    let created = server.put("/v1/schedules/daily", body).await;
    let expected = json!({
        "name": "daily", "cron": "30 6 * * mon-fri", "time_zone": "Europe/Berlin", "interval_ms": null,
        "submit": { "execution": { "kind": "report", "input": { "a": 1.5 } } },
        "overlap": "skip", "catch_up": "one", "jitter_ms": 1000, "paused": false,
        "next_at": "2027-01-18T05:30:00.000Z", "last_scheduled_at": null,
        "queued": 0, "fired": 0, "skipped": 0, "refused": 0, "version": 1,
        "created_at": "2027-01-15T08:00:00.000Z",
    });
    assert_eq!((created.status, created.json()), (201, expected.clone()));
    assert_eq!(server.read("schedules/daily").await, expected);
    let replaced = server.put("/v1/schedules/daily", every_minute()).await;
    assert_eq!((replaced.status, &replaced.json()["cron"]), (200, &json!(null)));
    assert_eq!(replaced.json()["next_at"], "2027-01-15T08:01:00.000Z");
    server.configure("schedules/b", every_minute()).await;
    let first = server.read("schedules?limit=1").await;
    assert_eq!(first["items"][0]["name"], "b");
    let cursor = text_of(&first["next_cursor"]);
    let second = server.read(&format!("schedules?limit=1&cursor={cursor}")).await;
    assert_eq!((&second["items"][0]["name"], &second["next_cursor"]), (&json!("daily"), &json!(null)));
    let removed = server.delete("/v1/schedules/daily").await;
    assert_eq!((removed.status, removed.json()), (200, json!({ "name": "daily", "removed": true })));
    assert_eq!(server.get("/v1/schedules/daily").await.problem(), (404, "not_found".into(), "".into()));
    assert_eq!(server.delete("/v1/schedules/daily").await.problem(), (404, "not_found".into(), "".into()));
}

#[tokio::test]
async fn wrong_schedules_are_refused_with_the_field_named() {
    let (server, _clock) = server().await;
    let submit = json!({ "execution": { "kind": "k" } });
    for (body, pointer) in [
        (json!({ "submit": submit }), "/cron"),
        (json!({ "cron": "* * * *", "submit": submit }), "/cron"),
        (json!({ "cron": "0 0 30 2 *", "submit": submit }), "/cron"),
        (json!({ "cron": "* * * * *", "time_zone": "Mars/Olympus", "submit": submit }), "/time_zone"),
        (json!({ "cron": "* * * * *", "interval_ms": 1000, "submit": submit }), "/interval_ms"),
        (json!({ "interval_ms": 1000, "time_zone": "UTC", "submit": submit }), "/time_zone"),
        (json!({ "interval_ms": 999, "submit": submit }), "/interval_ms"),
        (json!({ "interval_ms": 1000 }), "/submit"),
        (json!({ "interval_ms": 1000, "submit": {} }), "/submit"),
        (json!({ "interval_ms": 1000, "submit": { "execution": { "kind": "" } } }), "/submit/execution/kind"),
        (
            json!({ "interval_ms": 1000, "submit": { "execution": { "kind": "k", "idempotency_key": "x" } } }),
            "/submit/execution/idempotency_key",
        ),
        (
            json!({ "interval_ms": 1000, "submit": { "flow": { "nodes": [{ "name": "", "kind": "k" }] } } }),
            "/submit/flow/nodes/0/name",
        ),
        (json!({ "interval_ms": 1000, "submit": submit, "overlap": "maybe" }), "/overlap"),
        (json!({ "interval_ms": 1000, "submit": submit, "catch_up": "two" }), "/catch_up"),
        (json!({ "interval_ms": 1000, "submit": submit, "jitter_ms": -1 }), "/jitter_ms"),
    ] {
        let (status, code, at) = server.put("/v1/schedules/s", body.clone()).await.problem();
        assert_eq!((status, code.as_str(), at.as_str()), (422, "invalid_field", pointer), "{body}");
    }
    let unknown = json!({ "interval_ms": 1000, "submit": submit, "every": 5 });
    let refused = server.put("/v1/schedules/s", unknown).await.problem();
    assert_eq!(refused, (422, "unknown_field".into(), "/every".into()));
    assert_eq!(server.get("/v1/schedules/s").await.status, 404);
}

#[tokio::test]
async fn a_time_submits_an_execution_that_carries_it() {
    let (server, clock) = server().await;
    let body = r#"{"interval_ms": 60000, "submit": {"execution": {"kind": "k", "input": {"a" : 1.50}}}}"#;
    let json = [("content-type", "application/json")];
    assert_eq!(server.send("PUT", "/v1/schedules/s", &json, body.into()).await.status, 201);
    assert_eq!(tick(&server).await, 0);
    clock.advance_ms(MINUTE_MS);
    assert_eq!(tick(&server).await, 1);
    let claim = server.claim("i", 5).await.remove(0);
    assert_eq!(claim["execution"]["schedule"], "s");
    assert_eq!(claim["execution"]["scheduled_at"], "2027-01-15T08:01:00.000Z");
    let id = text_of(&claim["execution"]["id"]);
    let stored = server.get(&format!("/v1/executions/{id}")).await.text();
    assert!(stored.contains(r#""input":{"a" : 1.50}"#), "{stored}");
    let run = &runs(&server, "s").await[0];
    let expected = json!({
        "scheduled_at": "2027-01-15T08:01:00.000Z", "decided_at": "2027-01-15T08:01:00.000Z", "manual": false,
        "result": "started", "execution": id, "flow": null, "state": "active", "outcome": null, "error": null,
    });
    assert_eq!(*run, expected);
    server.complete("i", &claim, json!(1)).await;
    assert_eq!(runs(&server, "s").await[0]["outcome"], "completed");
    let events = server.read("events?types=schedule.fired,operator.schedule_saved").await;
    assert_eq!(events["items"][0]["data"], json!({ "schedule": "s", "paused": false }));
    let fired = &events["items"][1];
    let data = json!({ "schedule": "s", "scheduled_at": "2027-01-15T08:01:00.000Z", "manual": false });
    assert_eq!(
        (&fired["execution"], &fired["data"], &fired["actor"]),
        (&json!(id), &data, &json!("schedule"))
    );
    let plain = server.submit(json!({ "kind": "k" })).await;
    assert!(server.execution(&plain).await.get("schedule").is_none());
    let metrics = server.get("/metrics").await.text();
    assert!(metrics.contains("selvedge_schedule_runs_total{result=\"fired\"} 1"), "{metrics}");
    assert!(metrics.contains("selvedge_schedule_lag_seconds_count 1"));
}

#[tokio::test]
async fn a_time_submits_a_flow_that_carries_it() {
    let (server, clock) = server().await;
    let flow = json!({
        "name": "nightly",
        "nodes": [{ "name": "a", "kind": "k" }, { "name": "b", "kind": "k" }],
        "edges": [{ "from": "a", "to": "b" }],
    });
    let body = json!({ "interval_ms": MINUTE_MS, "submit": { "flow": flow }, "overlap": "queue" });
    server.configure("schedules/s", body).await;
    clock.advance_ms(MINUTE_MS);
    assert_eq!(tick(&server).await, 1);
    let run = runs(&server, "s").await.remove(0);
    let id = text_of(&run["flow"]);
    let shown = server.flow(&id).await;
    assert_eq!((&shown["schedule"], &shown["name"]), (&json!("s"), &json!("nightly")));
    assert_eq!(shown["scheduled_at"], "2027-01-15T08:01:00.000Z");
    // The next time waits for the end of the flow.
    clock.advance_ms(MINUTE_MS);
    tick(&server).await;
    assert_eq!(server.read("schedules/s").await["queued"], 1);
    for _ in 0..2 {
        let claim = server.claim_one("i").await;
        assert_eq!(claim["execution"]["schedule"], "s");
        server.complete("i", &claim, json!(null)).await;
    }
    assert_eq!(server.flow_result(&id).await["outcome"], "completed");
    within(async {
        // The end of the flow makes the schedule due at once.
        while tick(&server).await == 0 || server.read("schedules/s").await["queued"] != 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(server.read("schedules/s").await["fired"], 2);
    assert_eq!(server.claim("i", 5).await.len(), 1);
}

#[tokio::test]
async fn a_patch_pauses_resumes_and_changes_what_it_names() {
    let (server, clock) = server().await;
    let body =
        r#"{"cron": "0 9 * * *", "submit": {"execution": {"kind": "k", "input": {"a" : 1.50, "b": 2}}}}"#;
    let json = [("content-type", "application/json")];
    assert_eq!(server.send("PUT", "/v1/schedules/s", &json, body.into()).await.status, 201);
    let paused = server.patch("/v1/schedules/s", json!({ "paused": true })).await;
    assert_eq!((paused.status, &paused.json()["next_at"]), (200, &json!(null)));
    assert!(paused.text().contains(r#"{"a" : 1.50, "b": 2}"#), "{}", paused.text());
    clock.advance_ms(26 * 60 * MINUTE_MS);
    assert_eq!(tick(&server).await, 0);
    let resumed = server.patch("/v1/schedules/s", json!({ "paused": false })).await.json();
    assert_eq!(resumed["next_at"], "2027-01-17T09:00:00.000Z", "what it missed while paused is passed");
    let zoned = server.patch("/v1/schedules/s", json!({ "time_zone": "Asia/Tokyo", "jitter_ms": 5 })).await;
    assert_eq!(zoned.json()["next_at"], "2027-01-17T00:00:00.000Z");
    let input = json!({ "submit": { "execution": { "input": { "b": null, "c": [1] } } } });
    let changed = server.patch("/v1/schedules/s", input).await;
    let submit = json!({ "execution": { "kind": "k", "input": { "a": 1.5, "c": [1] } } });
    assert_eq!((changed.status, &changed.json()["submit"]), (200, &submit));
    let interval = json!({ "cron": null, "time_zone": null, "interval_ms": 5000 });
    assert_eq!(server.patch("/v1/schedules/s", interval).await.json()["interval_ms"], 5000);
    let wrong = server.patch("/v1/schedules/s", json!({ "cron": "* * * * *" })).await.problem();
    assert_eq!(wrong, (422, "invalid_field".into(), "/interval_ms".into()));
    let unknown = server.patch("/v1/schedules/none", json!({ "paused": true })).await.problem();
    assert_eq!(unknown, (404, "not_found".into(), "".into()));
}

#[tokio::test]
async fn a_run_at_once_is_repeated_by_its_key() {
    let (server, _clock) = server().await;
    let body = json!({ "cron": "0 0 1 1 *", "paused": true, "submit": { "execution": { "kind": "k" } } });
    server.configure("schedules/s", body).await;
    let keyed = [("content-type", "application/json"), ("idempotency-key", "once")];
    let first = server.send("POST", "/v1/schedules/s/run", &keyed, b"{}".to_vec()).await;
    assert_eq!((first.status, &first.json()["duplicate"]), (201, &json!(false)));
    let execution = first.json()["execution"].clone();
    assert_eq!((&execution["schedule"], &execution["state"]), (&json!("s"), &json!("waiting")));
    let again = server.send("POST", "/v1/schedules/s/run", &keyed, b"{}".to_vec()).await;
    assert_eq!((again.status, &again.json()["duplicate"]), (200, &json!(true)));
    assert_eq!(again.json()["execution"]["id"], execution["id"]);
    assert_eq!(server.claim("i", 9).await.len(), 1);
    assert_eq!(runs(&server, "s").await[0]["manual"], true);
    let unknown = server.post("/v1/schedules/none/run", json!({})).await.problem();
    assert_eq!(unknown, (404, "not_found".into(), "".into()));
    let flow = json!({ "nodes": [{ "name": "a", "kind": "k" }] });
    server.configure("schedules/f", json!({ "interval_ms": 1000, "submit": { "flow": flow } })).await;
    let started = server.post("/v1/schedules/f/run", json!({})).await;
    assert_eq!((started.status, &started.json()["flow"]["schedule"]), (201, &json!("f")));
}

#[tokio::test]
async fn a_refused_run_names_its_problem_and_the_schedule_goes_on() {
    let (server, clock) = server().await;
    let execution = json!({ "kind": "k", "budgets": ["none"] });
    server
        .configure("schedules/s", json!({ "interval_ms": MINUTE_MS, "submit": { "execution": execution } }))
        .await;
    let at_once = server.post("/v1/schedules/s/run", json!({})).await.problem();
    assert_eq!((at_once.0, at_once.1.as_str()), (422, "unknown_budget"));
    clock.advance_ms(MINUTE_MS);
    assert_eq!(tick(&server).await, 1);
    let run = runs(&server, "s").await.remove(0);
    assert_eq!((&run["result"], &run["error"]["code"]), (&json!("refused"), &json!("unknown_budget")));
    server.configure("budgets/none", json!({ "limits": { "tokens": { "hard": 5 } } })).await;
    clock.advance_ms(MINUTE_MS);
    assert_eq!(tick(&server).await, 1);
    let shown = server.read("schedules/s").await;
    assert_eq!((&shown["fired"], &shown["refused"]), (&json!(1), &json!(1)));
    let event = server.read("events?types=schedule.refused").await["items"][0].clone();
    assert_eq!((&event["data"]["schedule"], &event["data"]["code"]), (&json!("s"), &json!("unknown_budget")));
}

#[tokio::test]
async fn a_skipped_time_has_an_event() {
    let (server, clock) = server().await;
    let mut body = every_minute();
    body["overlap"] = json!("skip");
    server.configure("schedules/s", body).await;
    for _ in 0..2 {
        clock.advance_ms(MINUTE_MS);
        assert_eq!(tick(&server).await, 1);
    }
    let shown = server.read("schedules/s").await;
    assert_eq!((&shown["fired"], &shown["skipped"]), (&json!(1), &json!(1)));
    let run = runs(&server, "s").await.remove(0);
    assert_eq!((&run["result"], &run["execution"]), (&json!("skipped"), &json!(null)));
    let event = server.read("events?types=schedule.skipped").await["items"][0].clone();
    assert_eq!(event["data"], json!({ "schedule": "s", "scheduled_at": "2027-01-15T08:02:00.000Z" }));
    let deleted = server.delete("/v1/schedules/s").await;
    assert_eq!(deleted.status, 200);
    let events = server.read("events?types=operator.schedule_deleted").await;
    assert_eq!(events["items"][0]["data"]["schedule"], "s");
}

#[tokio::test]
async fn the_next_times_are_those_of_the_zone() {
    let (server, _clock) = server().await;
    let body = json!({
        "cron": "30 2 28 3 *", "time_zone": "Europe/Berlin", "submit": { "execution": { "kind": "k" } },
        "paused": true,
    });
    server.configure("schedules/s", body).await;
    let next = server.read("schedules/s/next?count=2").await;
    let times = [
        json!({ "scheduled_at": "2027-03-28T01:00:00.000Z" }),
        json!({ "scheduled_at": "2028-03-28T00:30:00.000Z" }),
    ];
    assert_eq!(
        (next["items"].as_array().expect("is a list").as_slice(), &next["next_cursor"]),
        (&times[..], &json!(null))
    );
    assert_eq!(server.read("schedules/s/next").await["items"].as_array().map(Vec::len), Some(10));
    for wrong in ["0", "1001", "x"] {
        let refused = server.get(&format!("/v1/schedules/s/next?count={wrong}")).await.problem();
        assert_eq!(refused, (422, "invalid_field".into(), "/query/count".into()));
    }
    assert_eq!(server.get("/v1/schedules/none/next").await.status, 404);
    assert_eq!(server.get("/v1/schedules/none/runs").await.status, 404);
}

#[tokio::test]
async fn a_running_server_fires_by_itself_and_starts_queued_runs_when_the_run_before_ends() {
    let server = Server::start_with(Options::default(), Clock::system()).await;
    let mut body = every_minute();
    (body["interval_ms"], body["overlap"]) = (json!(1000), json!("queue"));
    server.configure("schedules/s", body).await;
    let first = server.claim_one("i").await;
    within(async {
        while server.read("schedules/s").await["queued"] == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(server.claim("i", 5).await.is_empty(), "it waits for the end of the first");
    server.complete("i", &first, json!(null)).await;
    let second = server.claim_one("i").await;
    assert!(second["execution"]["scheduled_at"].as_str() > first["execution"]["scheduled_at"].as_str());
}
