//! A server that is killed while schedules fire neither loses nor doubles a time.

use crate::support::{Place, Server, claim, get, on_each_store, start_call};
use serde_json::{Value, json};
use std::collections::BTreeSet;

on_each_store!(a_killed_server_neither_loses_nor_doubles_a_time_of_a_schedule);

fn a_killed_server_neither_loses_nor_doubles_a_time_of_a_schedule(place: &impl Place) {
    let mut server = Server::start(place);
    for number in 0..10 {
        let body = json!({
            "interval_ms": 1000, "catch_up": "all",
            "submit": { "execution": { "kind": "k", "input": number } },
        });
        let path = format!("{}/v1/schedules/s{number}", server.url);
        let (status, _) = start_call("PUT", &path, Some(&body)).response();
        assert_eq!(status, 201);
    }
    let fired = |url: &str| -> u64 {
        let (_, page) = get(&format!("{url}/v1/schedules"));
        let items = page["items"].as_array().expect("is a list").clone();
        items.iter().map(|one| one["fired"].as_u64().expect("is a count")).sum()
    };
    for round in 1..=3 {
        // Killed in the middle of a second in which all of them fire.
        while fired(&server.url) < round * 12 {}
        server.kill();
        server = Server::start(place);
    }
    while fired(&server.url) < 50 {}
    for number in 0..10 {
        let path = format!("{}/v1/schedules/s{number}", server.url);
        assert_eq!(start_call("PATCH", &path, Some(&json!({ "paused": true }))).response().0, 200);
    }
    let total = fired(&server.url);
    let mut claimed: Vec<Value> = Vec::new();
    loop {
        let more = claim(&server.url, "w", 1000, 0);
        if more.is_empty() {
            break;
        }
        claimed.extend(more);
    }
    let times: BTreeSet<(String, String)> = claimed
        .iter()
        .map(|one| (one["execution"]["schedule"].to_string(), one["execution"]["scheduled_at"].to_string()))
        .collect();
    assert_eq!((claimed.len() as u64, times.len() as u64), (total, total), "one execution for each time");
    for number in 0..10 {
        let (_, page) = get(&format!("{}/v1/schedules/s{number}/runs", server.url));
        let mut runs: Vec<String> = page["items"]
            .as_array()
            .expect("is a list")
            .iter()
            .map(|run| run["scheduled_at"].as_str().expect("is a time").to_owned())
            .collect();
        runs.sort();
        let milliseconds: BTreeSet<&str> = runs.iter().map(|at| &at[at.len() - 4..]).collect();
        assert_eq!(milliseconds.len(), 1, "all are whole intervals: {runs:?}");
        let seconds: Vec<i64> = runs.iter().map(|at| second_of_hour(at)).collect();
        let no_gap = seconds.windows(2).all(|two| (two[1] - two[0]).rem_euclid(3600) == 1);
        assert!(no_gap, "no time is lost: {runs:?}");
    }
}

/// Returns the seconds since the full hour of an RFC 3339 time.
fn second_of_hour(at: &str) -> i64 {
    let number = |range: std::ops::Range<usize>| at[range].parse::<i64>().expect("is a number");
    number(14..16) * 60 + number(17..19)
}
