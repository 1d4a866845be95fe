//! The life of a worker: drain, deletion, new incarnations, cancel requests, and what its heartbeats tell it.

use crate::support::{Server, fence, op, op_with, within};
use selvedge_engine::Options;
use selvedge_engine::core::Timestamp;
use selvedge_memory::Clock;
use serde_json::{Value, json};

/// Returns a claim of one execution that waits longer than any test.
fn waiting_claim() -> Value {
    json!({ "worker": "w", "lanes": ["default"], "max": 1, "wait_ms": 60_000 })
}

/// Returns a claim of one execution by an incarnation.
fn claim_of(incarnation: &str) -> Value {
    json!({ "worker": "w", "lanes": ["default"], "max": 1, "incarnation": incarnation })
}

/// Returns the entry of an instance in the list of workers.
async fn listed(server: &Server, instance: &str) -> Value {
    let workers = server.read("workers").await;
    let items = workers["items"].as_array().expect("items is an array");
    items.iter().find(|worker| worker["instance"] == instance).cloned().unwrap_or_default()
}

fn superseded() -> (u16, String, String) {
    (409, "superseded".into(), String::new())
}

#[tokio::test]
async fn a_waiting_claim_of_a_worker_that_is_asked_to_drain_ends_at_once_and_gets_nothing() {
    let server = Server::start().await;
    let drain = async {
        server.wait_for_claims(1).await;
        server.post("/v1/workers/i/drain", json!({})).await
    };
    let claim = server.post("/v1/workers/i/claim", waiting_claim());
    let (claim, drained) = within(async { tokio::join!(claim, drain) }).await;
    assert_eq!(drained.status, 200);
    assert_eq!((&claim.json()["claims"], &claim.json()["drain"]), (&json!([]), &json!(true)));
    let id = server.submit(json!({ "kind": "k" })).await;
    let claim = server.post("/v1/workers/i/claim", waiting_claim()).await.json();
    assert_eq!((&claim["claims"], &claim["drain"]), (&json!([]), &json!(true)));
    let report = server.post("/v1/workers/i/report", json!({ "ops": [], "claim": waiting_claim() })).await;
    assert_eq!((&report.json()["claims"], &report.json()["drain"]), (&json!([]), &json!(true)));
    assert_eq!(server.execution(&id).await["state"], "waiting");
    let other = server.post("/v1/workers/other/claim", waiting_claim()).await.json();
    assert_eq!((&other["claims"][0]["execution"]["id"], &other["drain"]), (&json!(id), &json!(false)));
}

#[tokio::test]
async fn a_waiting_claim_of_a_deleted_worker_ends_at_once_and_a_later_one_registers_it_again() {
    let server = Server::start().await;
    let delete = async {
        server.wait_for_claims(1).await;
        server.delete("/v1/workers/i").await
    };
    let claim = server.post("/v1/workers/i/claim", waiting_claim());
    let (claim, deleted) = within(async { tokio::join!(claim, delete) }).await;
    assert_eq!(deleted.status, 200);
    assert_eq!((&claim.json()["claims"], &claim.json()["drain"]), (&json!([]), &json!(false)));
    let dead = listed(&server, "i").await;
    assert_eq!((&dead["live"], &dead["ended_reason"]), (&json!(false), &json!("deleted")));
    assert!(dead["ended_at"].is_string());
    assert_eq!(server.post("/v1/workers/i/drain", json!({})).await.problem().1, "not_found");

    let id = server.submit(json!({ "kind": "k" })).await;
    assert_eq!(listed(&server, "i").await["live"], false, "a submission does not revive it");
    assert_eq!(server.claim("i", 1).await[0]["execution"]["id"], json!(id));
    let live = listed(&server, "i").await;
    assert_eq!((&live["live"], &live["ended_reason"]), (&json!(true), &json!(null)));
}

#[tokio::test]
async fn a_dead_worker_stays_listed_for_a_quarter_of_an_hour_with_the_reason_of_its_end() {
    let clock = Clock::manual(Timestamp::from_millis(1_700_000_000_000));
    let options = Options { reconcilers: false, ..Options::default() };
    let server = Server::start_with(options, clock.clone()).await;
    server.claim("silent", 1).await;
    clock.advance_ms(59_999);
    assert_eq!(listed(&server, "silent").await["live"], json!(true), "within twice its lease of 30 s");
    clock.advance_ms(2);
    let silent = listed(&server, "silent").await;
    assert_eq!((&silent["live"], &silent["ended_reason"]), (&json!(false), &json!("expired")));
    clock.advance_ms(899_000);
    assert!(listed(&server, "silent").await.is_object());
    clock.advance_ms(2_000);
    assert_eq!(listed(&server, "silent").await, Value::Null);
}

#[tokio::test]
async fn a_new_incarnation_puts_the_leases_of_its_predecessor_back_and_supersedes_it() {
    let server = Server::start().await;
    let id = server.submit(json!({ "kind": "k" })).await;
    let path = "/v1/workers/i/claim";
    let old = server.post(path, claim_of("old")).await.json()["claims"][0].clone();
    assert_eq!(old["execution"]["id"], json!(id));
    assert_eq!(server.post("/v1/workers/i/drain", json!({})).await.status, 200);

    let new = server.post(path, claim_of("new")).await.json();
    assert_eq!(new["drain"], false, "the request to drain was for the predecessor");
    assert_eq!(new["claims"][0]["execution"]["id"], json!(id), "its lease was put back");
    assert_eq!(new["claims"][0]["attempt"], 1);

    assert_eq!(server.post(path, claim_of("old")).await.problem(), superseded());
    let beat = json!({ "leases": [fence(&old)], "incarnation": "old" });
    assert_eq!(server.post("/v1/workers/i/heartbeat", beat).await.problem(), superseded());
    assert_eq!(server.delete("/v1/workers/i?incarnation=old").await.problem(), superseded());
    let report = json!({ "ops": [op("complete", &old)], "claim": claim_of("old") });
    let report = server.post("/v1/workers/i/report", report).await.json();
    assert_eq!(report["results"][0]["error"]["code"], "stale_lease");
    assert_eq!(report["claim_error"]["code"], "superseded");

    let beat = json!({ "leases": [fence(&new["claims"][0]), fence(&old)], "incarnation": "new" });
    let beat = server.post("/v1/workers/i/heartbeat", beat).await.json();
    assert_eq!(beat["renewed"], json!([fence(&new["claims"][0])]));
    assert_eq!(beat["lost"].as_array().map(Vec::len), Some(1), "{beat}");
    let worker = listed(&server, "i").await;
    assert_eq!((&worker["live"], &worker["incarnation"]), (&json!(true), &json!("new")));
    assert_eq!(worker["superseded"][0]["incarnation"], "old");
    let deleted = server.delete("/v1/workers/i?incarnation=new").await.json();
    assert_eq!(deleted["released"], json!([fence(&new["claims"][0])]));
}

#[tokio::test]
async fn a_waiting_claim_of_a_superseded_incarnation_is_refused_at_once() {
    let server = Server::start().await;
    let mut waiting = claim_of("old");
    waiting["wait_ms"] = json!(60_000);
    let newer = async {
        server.wait_for_claims(1).await;
        server.post("/v1/workers/i/heartbeat", json!({ "leases": [], "incarnation": "new" })).await
    };
    let claim = server.post("/v1/workers/i/claim", waiting);
    let (claim, newer) = within(async { tokio::join!(claim, newer) }).await;
    assert_eq!((newer.status, claim.problem()), (200, superseded()));
    let worker = listed(&server, "i").await;
    assert_eq!((&worker["live"], &worker["ended_reason"]), (&json!(false), &json!("superseded")));
}

#[tokio::test]
async fn the_first_heartbeat_of_a_new_incarnation_says_which_leases_are_lost() {
    let server = Server::start().await;
    server.submit(json!({ "kind": "k" })).await;
    let claim = server.post("/v1/workers/i/claim", claim_of("old")).await.json()["claims"][0].clone();
    for incarnation in ["new", "newer"] {
        let beat = json!({ "leases": [fence(&claim)], "incarnation": incarnation });
        let beat = server.post("/v1/workers/i/heartbeat", beat).await.json();
        assert_eq!((&beat["renewed"], &beat["lost"][0]["code"]), (&json!([]), &json!("stale_lease")));
        assert_eq!(beat["lost"][0]["holder"], json!(null));
    }
}

#[tokio::test]
async fn a_worker_acknowledges_a_cancel_request_and_is_refused_without_one() {
    let server = Server::start().await;
    let (id, claim) = server.submit_and_claim().await;
    let cancelled = op_with("cancelled", &claim, json!({ "message": "cleaned up" }));
    let refused = server.report("i", cancelled.clone()).await;
    assert_eq!(
        (&refused["error"]["code"], &refused["error"]["status"]),
        (&json!("wrong_state"), &json!(409))
    );
    let request = json!({ "grace_ms": 3_600_000, "reason": "enough" });
    server.post(&format!("/v1/executions/{id}/cancel"), request).await;
    let expected = json!({ "ok": true, "state": "cancelled" });
    assert_eq!(server.report("i", cancelled.clone()).await, expected);
    assert_eq!(server.report("i", cancelled).await, expected, "a repeated report gets the same result");
    assert_eq!(server.execution(&id).await["outcome"], "cancelled");
    let events = server.list_of(&id, "events").await;
    let last = events.last().expect("there are events");
    assert_eq!((&last["type"], &last["actor"]), (&json!("execution.cancelled"), &json!("admin")));
    assert_eq!(last["data"], json!({ "reason": "enough", "message": "cleaned up" }));
    assert_eq!(server.list_of(&id, "attempts").await[0]["outcome"], "cancelled");
}

#[tokio::test]
async fn a_lease_that_the_worker_ended_itself_is_not_lost() {
    let server = Server::start().await;
    for _ in 0..4 {
        server.submit(json!({ "kind": "k" })).await;
    }
    let claims = server.claim("i", 4).await;
    server.complete("i", &claims[0], json!(1)).await;
    server.fail("i", &claims[1], "broken").await;
    server.report("i", op("release", &claims[2])).await;
    let revoke =
        format!("/v1/executions/{}/revoke-lease", claims[3]["execution"]["id"].as_str().unwrap_or(""));
    server.post(&revoke, json!({})).await;
    let leases: Vec<Value> = claims.iter().map(fence).collect();
    let beat = server.post("/v1/workers/i/heartbeat", json!({ "leases": leases })).await.json();
    let lost = beat["lost"].as_array().expect("lost is an array");
    assert_eq!(lost.len(), 1, "{beat}");
    assert_eq!(lost[0]["execution"], claims[3]["execution"]["id"]);
    assert_eq!(beat["renewed"], json!([]));
}

#[tokio::test]
async fn a_waiting_heartbeat_notices_a_lease_that_was_claimed_meanwhile() {
    let server = Server::start().await;
    let beat = || server.post("/v1/workers/i/heartbeat", json!({ "leases": [], "wait_ms": 60_000 }));
    let with_claim = async |action: &str, body: Value| {
        // The heartbeat waits once its first decision is made.
        let before = server.engine.activity().0;
        within(async {
            while server.engine.activity().0 == before {
                tokio::task::yield_now().await;
            }
        })
        .await;
        let (id, claim) = server.submit_and_claim().await;
        let acted = server.post(&format!("/v1/executions/{id}/{action}"), body).await;
        assert_eq!(acted.status, 200);
        claim
    };
    let request = with_claim("cancel", json!({ "grace_ms": 3_600_000 }));
    let (reply, claim) = within(async { tokio::join!(beat(), request) }).await;
    assert_eq!(reply.json()["cancel_requested"], json!([fence(&claim)]));
    server.report("i", op("cancelled", &claim)).await;

    let loss = with_claim("revoke-lease", json!({}));
    let (reply, claim) = within(async { tokio::join!(beat(), loss) }).await;
    assert_eq!(reply.status, 200);
    let next = json!({ "leases": [fence(&claim)], "wait_ms": 60_000 });
    let next = within(server.post("/v1/workers/i/heartbeat", next)).await.json();
    assert_eq!(next["lost"][0]["execution"], claim["execution"]["id"]);
}

#[tokio::test]
async fn a_late_duplicate_of_an_older_progress_does_not_set_it_back() {
    let server = Server::start().await;
    let (id, claim) = server.submit_and_claim().await;
    let progress = |percent: u32, op_id: &str| {
        op_with("progress", &claim, json!({ "percent": percent, "op_id": op_id }))
    };
    for (percent, op_id, expected) in
        [(10, "first", 10.0), (20, "second", 20.0), (10, "first", 20.0), (10, "third", 10.0)]
    {
        assert_eq!(server.report("i", progress(percent, op_id)).await["state"], "active");
        let shown = server.execution(&id).await["progress"].clone();
        assert_eq!(shown, json!({ "percent": expected, "message": null }), "{op_id}");
    }
}

#[tokio::test]
async fn a_worker_that_died_with_a_short_lease_is_not_live_a_minute_later_and_explain_says_when_it_was_seen()
{
    let clock = Clock::manual(Timestamp::from_millis(1_700_000_000_000));
    let options = Options { reconcilers: false, ..Options::default() };
    let server = Server::start_with(options, clock.clone()).await;
    let claim = json!({ "worker": "w", "lanes": ["default"], "max": 1, "lease_ttl_ms": 3000 });
    server.post("/v1/workers/i/claim", claim).await;
    let id = server.submit(json!({ "kind": "k" })).await;
    let explained = async || server.read(&format!("executions/{id}/explain")).await["reasons"][0].clone();
    assert_eq!(explained().await["code"], "waiting_for_worker");
    clock.advance_ms(60_000);
    assert_eq!(listed(&server, "i").await["live"], json!(false));
    let reason = explained().await;
    assert_eq!(reason["code"], "no_worker_in_lane");
    let message = reason["message"].as_str().unwrap_or_default();
    assert!(message.ends_with("worker i was last seen 60 s ago"), "{message}");
}

#[tokio::test]
async fn a_worker_is_live_while_its_claim_waits_much_longer_than_its_lease() {
    let server = Server::start().await;
    let mut claim = waiting_claim();
    claim["lease_ttl_ms"] = json!(500);
    let watched = async {
        server.wait_for_claims(1).await;
        let registered = listed(&server, "i").await["seen_at"].clone();
        // The claim renews its session twice.
        let mut seen = registered.clone();
        for _ in 0..2 {
            let before = seen.clone();
            while seen == before {
                tokio::task::yield_now().await;
                seen = listed(&server, "i").await["seen_at"].clone();
            }
        }
        assert_eq!(listed(&server, "i").await["live"], json!(true));
        server.post("/v1/workers/i/drain", json!({})).await
    };
    let (_, drained) =
        within(async { tokio::join!(server.post("/v1/workers/i/claim", claim), watched) }).await;
    assert_eq!(drained.status, 200);
}
