//! A bulk job continues after its server was killed, and does nothing twice.

use crate::support::{Place, Server, get, on_each_store, post, text};
use serde_json::{Value, json};

on_each_store!(a_bulk_job_survives_two_kills_and_meets_every_execution_once);

const EXECUTIONS: u64 = 3000;

fn a_bulk_job_survives_two_kills_and_meets_every_execution_once(place: &impl Place) {
    let mut server = Server::start(place);
    let batch: Vec<Value> = (0..1000).map(|_| json!({"kind": "k", "lane": "old"})).collect();
    for _ in 0..EXECUTIONS / 1000 {
        let (status, reply) =
            post(&format!("{}/v1/executions/batch", server.url), &json!({"executions": batch}));
        assert_eq!(status, 200, "{reply}");
    }
    let body = json!({"action": {"type": "tags", "set": {"met": "yes"}}, "filter": {"lane": "old"}});
    let (status, job) = post(&format!("{}/v1/bulk-jobs", server.url), &body);
    assert_eq!(status, 201, "{job}");
    let path = format!("/v1/bulk-jobs/{}", text(&job["id"]));
    for part in [EXECUTIONS / 10, EXECUTIONS / 2] {
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
    assert_eq!(counts, [Some(EXECUTIONS), Some(EXECUTIONS), Some(0), Some(0)], "{job}");
    let (mut tagged, mut cursor) = (0, String::new());
    loop {
        let (_, page) = get(&format!("{}/v1/executions?tag=met:yes&limit=500{cursor}", server.url));
        let items = page["items"].as_array().expect("items is a list");
        assert!(items.iter().all(|item| item["version"] == 2), "each was changed once");
        tagged += items.len() as u64;
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(tagged, EXECUTIONS);
}
