//! Servers that are killed lose nothing; servers that are told to stop, drain.

use crate::support::{
    Place, Server, calling, claim, claim_of, complete, get, on_each_store, result, state, submit, text,
};
use serde_json::json;

on_each_store!(
    nothing_is_lost_when_the_server_is_killed,
    a_server_that_is_told_to_stop_drains_and_exits_with_zero,
    an_idle_server_needs_little_memory,
);

fn nothing_is_lost_when_the_server_is_killed(place: &impl Place) {
    let server = Server::start(place);
    let submission = |n: u32| json!({"kind": "k", "input": n, "tags": {"n": n.to_string()}});
    let finished = submit(&server.url, submission(0));
    let first = claim(&server.url, "w-1", 1, 0).remove(0);
    complete(&server.url, "w-1", &first, json!("before"));
    let leased = submit(&server.url, submission(1));
    let held = claim(&server.url, "w-1", 1, 0).remove(0);
    assert_eq!(text(&held["execution"]["id"]), leased);
    let waiting: Vec<String> = (2..20).map(|n| submit(&server.url, submission(n))).collect();
    server.kill();

    let server = Server::start(place);
    let url = &server.url;
    let (status, ended) = result(url, &finished);
    assert_eq!((status, &ended["result"]), (200, &json!("before")));
    assert_eq!(state(url, &leased), "active");
    let late = complete(url, "w-1", &held, json!("after"));
    assert_eq!(late["ok"], true, "its fence still holds: {late}");
    let again = complete(url, "w-1", &held, json!("after"));
    assert_eq!(again, late, "the same call gets the same answer");
    assert_eq!(result(url, &leased).1["result"], "after");
    for (n, id) in (2..).zip(&waiting) {
        let (status, execution) = get(&format!("{url}/v1/executions/{id}"));
        assert_eq!(status, 200, "{id} is there");
        assert_eq!(execution["input"], n);
        assert_eq!(execution["tags"]["n"], n.to_string());
    }
    let claimed = claim(url, "w-2", 100, 0);
    let claimed: Vec<String> = claimed.iter().map(|one| text(&one["execution"]["id"])).collect();
    assert_eq!(claimed, waiting, "each once, in the order of their submission");
}

fn a_server_that_is_told_to_stop_drains_and_exits_with_zero(place: &impl Place) {
    for signal in ["TERM", "INT"] {
        let mut server = Server::start(place);
        let url = server.url.clone();
        let instance = format!("w-{signal}");
        let claim_url = format!("{url}/v1/workers/{instance}/claim");
        let mut body = claim_of(1, 60_000);
        body["kinds"] = json!(["nothing of this kind"]);
        let waiting = calling("POST", &claim_url, Some(&body));
        // A worker is known from its first call on: then this one waits.
        while !get(&format!("{url}/v1/workers")).1.to_string().contains(&instance) {}
        let id = submit(&url, json!({"kind": "k"}));
        server.signal(signal);
        let (status, printed) = server.ended();
        assert_eq!(status.code(), Some(0), "{signal}");
        assert_eq!(printed, "", "the ready line is all it prints");
        let (status, answer) = waiting.answer();
        assert_eq!((status, &answer["claims"]), (200, &json!([])), "calls that wait are answered");

        let server = Server::start(place);
        assert_eq!(state(&server.url, &id), "waiting");
        server.kill();
    }
}

fn an_idle_server_needs_little_memory(place: &impl Place) {
    let server = Server::start(place);
    let (ready, _) = get(&format!("{}/readyz", server.url));
    assert_eq!(ready, 200);
    let path = format!("/proc/{}/status", server.pid());
    let status = std::fs::read_to_string(path).expect("Linux tells");
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let resident = resident.and_then(|line| line.trim().strip_suffix(" kB"));
    let resident: u64 = resident.expect("it is there").trim().parse().expect("a number");
    assert!(resident <= 60 * 1024, "{resident} kB");
}
