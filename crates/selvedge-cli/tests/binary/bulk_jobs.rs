//! A bulk job continues after its server was killed, and does nothing twice.

use crate::support::{Place, Server, get, on_each_store, post, text};
use serde_json::{Value, json};

on_each_store!(
    a_bulk_job_survives_two_kills_and_meets_every_execution_once,
    slow_a_bulk_cancel_of_a_hundred_thousand_survives_two_kills,
);

fn a_bulk_job_survives_two_kills_and_meets_every_execution_once(place: &impl Place) {
    survives_two_kills(place, 3000, json!({"type": "tags", "set": {"met": "yes"}}), "tag=met:yes");
}

fn slow_a_bulk_cancel_of_a_hundred_thousand_survives_two_kills(place: &impl Place) {
    survives_two_kills(place, 100_000, json!({"type": "cancel", "reason": "old"}), "state=cancelled");
}

/// Runs an action on many executions, kills the server twice meanwhile, and checks that it has changed each once. `changed` is
/// the condition of a list that has the changed ones.
fn survives_two_kills(place: &impl Place, executions: u64, action: Value, changed: &str) {
    let mut server = Server::start(place);
    let batch: Vec<Value> = (0..1000).map(|_| json!({"kind": "k", "lane": "old"})).collect();
    for _ in 0..executions / 1000 {
        let (status, reply) =
            post(&format!("{}/v1/executions/batch", server.url), &json!({"executions": batch}));
        assert_eq!(status, 200, "{reply}");
    }
    let body = json!({"action": action, "filter": {"lane": "old"}});
    let (status, job) = post(&format!("{}/v1/bulk-jobs", server.url), &body);
    assert_eq!(status, 201, "{job}");
    let path = format!("/v1/bulk-jobs/{}", text(&job["id"]));
    for part in [executions / 10, executions / 2] {
        // Killed between two chunks, or in one.
        while get(&format!("{}{path}", server.url)).1["matched"].as_u64() < Some(part) {}
        server.kill();
        server = Server::start(place);
    }
    let job = loop {
        let (status, job) = get(&format!("{}{path}", server.url));
        assert_eq!(status, 200, "{job}");
        if job["state"] != "running" {
            break job;
        }
    };
    let counts = ["matched", "done", "unchanged", "refused_count"].map(|name| job[name].as_u64());
    assert_eq!(counts, [Some(executions), Some(executions), Some(0), Some(0)], "{job}");
    let (mut found, mut cursor) = (0, String::new());
    loop {
        let (_, page) = get(&format!("{}/v1/executions?{changed}&limit=500{cursor}", server.url));
        let items = page["items"].as_array().expect("items is a list");
        assert!(items.iter().all(|item| item["version"] == 2), "each was changed once");
        found += items.len() as u64;
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(found, executions);
}
