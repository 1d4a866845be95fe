//! A server that is killed between the claim and the report takes nothing with it: slots and reservations are given back once the
//! lease has lapsed.

use crate::support::{Place, Server, calling, claim_of, complete, get, on_each_store, post, submit, text};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

on_each_store!(what_was_taken_for_a_claim_is_given_back_although_the_server_was_killed);

/// How long leases live here, and how much later what was taken for them is given back at the latest.
const TTL_MS: u64 = 1000;
const BOUND: Duration = Duration::from_secs(5);

fn put(url: &str, body: Value) {
    let (status, answer) = calling("PUT", url, Some(&body)).answer();
    assert_eq!(status, 201, "{answer}");
}

/// Claims one, waiting for it if there is none.
fn claim_briefly(url: &str, instance: &str) -> Value {
    let mut body = claim_of(1, 30_000);
    body["lease_ttl_ms"] = json!(TTL_MS);
    let (status, mut answer) = post(&format!("{url}/v1/workers/{instance}/claim"), &body);
    assert_eq!(status, 200, "{answer}");
    answer["claims"].get_mut(0).expect("one is claimed").take()
}

/// What is used and reserved of the budget, and how many slots of the lane and the quota are taken.
fn taken(url: &str) -> Value {
    let read = |what: &str| get(&format!("{url}/v1/{what}")).1;
    let budget = read("budgets/month");
    json!([
        budget["usage"],
        budget["reserved"],
        read("lanes/default")["active"],
        read("quotas/few")["active"]
    ])
}

fn what_was_taken_for_a_claim_is_given_back_although_the_server_was_killed(place: &impl Place) {
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
    let first = claim_briefly(url, "w-1");
    let lease = &first["lease"];
    let usage = json!({"ops": [{
        "op": "usage", "execution": first["execution"]["id"], "attempt": first["attempt"], "lease_id": lease["id"],
        "epoch": lease["epoch"], "budget": "month", "usage": {"tokens": 10},
    }]});
    let (status, reported) = post(&format!("{url}/v1/workers/w-1/report"), &usage);
    assert_eq!((status, &reported["results"][0]["ok"]), (200, &json!(true)), "{reported}");
    assert_eq!(taken(url), json!([{"tokens": 10}, {"tokens": 60}, 1, 1]));
    server.kill();
    let killed = Instant::now();

    let server = Server::start(place);
    let url = &server.url;
    let next = claim_briefly(url, "w-2");
    let after = killed.elapsed();
    assert!(after < Duration::from_millis(TTL_MS) + BOUND, "given back after {after:?}");
    assert!(both.contains(&text(&next["execution"]["id"])));
    assert_eq!(
        taken(url),
        json!([{"tokens": 10}, {"tokens": 60}, 1, 1]),
        "what was spent stays spent, the rest is taken anew"
    );
    let done = complete(url, "w-2", &next, json!("done"));
    assert_eq!(done["ok"], true, "{done}");
    assert_eq!(taken(url), json!([{"tokens": 10}, {}, 0, 0]), "everything is given back");
}
