//! A server that is killed between claim and report leaks nothing: slots and reservations are given back once the lease
//! has expired.

use crate::support::{
    Place, Server, claim_body, complete, get, on_each_store, post, start_call, submit, text,
};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

on_each_store!(slots_and_reservations_of_a_claim_are_given_back_after_the_server_was_killed);

/// The time to live of leases, in milliseconds.
const TTL_MS: u64 = 1000;
/// The longest time from the expiry of a lease until its slots and reservations are given back.
const RECLAIM_BOUND: Duration = Duration::from_secs(5);

fn put(url: &str, body: Value) {
    let (status, response) = start_call("PUT", url, Some(&body)).response();
    assert_eq!(status, 201, "{response}");
}

/// Waits for an execution and claims it with a short lease.
fn claim_with_short_lease(url: &str, instance: &str) -> Value {
    let mut body = claim_body(1, 30_000);
    body["lease_ttl_ms"] = json!(TTL_MS);
    let (status, mut response) = post(&format!("{url}/v1/workers/{instance}/claim"), &body);
    assert_eq!(status, 200, "{response}");
    response["claims"].get_mut(0).expect("an execution is claimed").take()
}

/// Reads the usage and reservations of the budget, and the taken slots of the lane and the quota.
fn gate_use(url: &str) -> Value {
    let read = |path: &str| get(&format!("{url}/v1/{path}")).1;
    let budget = read("budgets/month");
    json!([
        budget["usage"],
        budget["reserved"],
        read("lanes/default")["active"],
        read("quotas/few")["active"]
    ])
}

fn slots_and_reservations_of_a_claim_are_given_back_after_the_server_was_killed(place: &impl Place) {
    let server = Server::start(place);
    let url = &server.url;
    put(&format!("{url}/v1/budgets/month"), json!({"limits": {"tokens": {"hard": 100}}}));
    put(&format!("{url}/v1/quotas/few"), json!({"concurrency": 1}));
    put(&format!("{url}/v1/lanes/default"), json!({"concurrency": 1}));
    let submission = json!({
        "kind": "k", "budgets": [{"name": "month", "reserve": {"tokens": 60}}], "quotas": ["few"],
        "concurrency": {"key": "tenant", "limit": 1},
    });
    let both = [submit(url, submission.clone()), submit(url, submission)];
    let first = claim_with_short_lease(url, "w-1");
    let lease = &first["lease"];
    let usage = json!({"ops": [{
        "op": "usage", "execution": first["execution"]["id"], "attempt": first["attempt"], "lease_id": lease["id"],
        "epoch": lease["epoch"], "budget": "month", "usage": {"tokens": 10},
    }]});
    let (status, reported) = post(&format!("{url}/v1/workers/w-1/report"), &usage);
    assert_eq!((status, &reported["results"][0]["ok"]), (200, &json!(true)), "{reported}");
    assert_eq!(gate_use(url), json!([{"tokens": 10}, {"tokens": 60}, 1, 1]));
    server.kill();
    let killed = Instant::now();

    let server = Server::start(place);
    let url = &server.url;
    let next = claim_with_short_lease(url, "w-2");
    let after = killed.elapsed();
    assert!(after < Duration::from_millis(TTL_MS) + RECLAIM_BOUND, "given back after {after:?}");
    assert!(both.contains(&text(&next["execution"]["id"])));
    assert_eq!(
        gate_use(url),
        json!([{"tokens": 10}, {"tokens": 60}, 1, 1]),
        "the usage stays; reservation and slots are given back and taken by the next claim"
    );
    let done = complete(url, "w-2", &next, json!("done"));
    assert_eq!(done["ok"], true, "{done}");
    assert_eq!(gate_use(url), json!([{"tokens": 10}, {}, 0, 0]), "everything is given back");
}
