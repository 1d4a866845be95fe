//! A killed server loses nothing; a server that receives SIGTERM or SIGINT drains.

use crate::support::{
    Place, Server, claim, claim_body, complete, get, on_each_store, result, start_call, state, submit, text,
};
use serde_json::json;

on_each_store!(
    nothing_is_lost_when_the_server_is_killed,
    a_server_drains_and_exits_with_zero_on_sigterm_and_sigint,
    an_idle_server_uses_at_most_60_mib_of_memory,
);

fn nothing_is_lost_when_the_server_is_killed(place: &impl Place) {
    let server = Server::start(place);
    let submission = |n: u32| json!({"kind": "k", "input": n, "tags": {"n": n.to_string()}});
    let finished = submit(&server.url, submission(0));
    let first = claim(&server.url, "w-1", 1, 0).remove(0);
    complete(&server.url, "w-1", &first, json!("before"));
    let active = submit(&server.url, submission(1));
    let active_claim = claim(&server.url, "w-1", 1, 0).remove(0);
    assert_eq!(text(&active_claim["execution"]["id"]), active);
    let waiting: Vec<String> = (2..20).map(|n| submit(&server.url, submission(n))).collect();
    server.kill();

    let server = Server::start(place);
    let url = &server.url;
    let (status, ended) = result(url, &finished);
    assert_eq!((status, &ended["result"]), (200, &json!("before")));
    assert_eq!(state(url, &active), "active");
    let completed = complete(url, "w-1", &active_claim, json!("after"));
    assert_eq!(completed["ok"], true, "the fence is still valid: {completed}");
    let again = complete(url, "w-1", &active_claim, json!("after"));
    assert_eq!(again, completed, "a repeated request gets the same response");
    assert_eq!(result(url, &active).1["result"], "after");
    for (n, id) in (2..).zip(&waiting) {
        let (status, execution) = get(&format!("{url}/v1/executions/{id}"));
        assert_eq!(status, 200, "{id} still exists");
        assert_eq!(execution["input"], n);
        assert_eq!(execution["tags"]["n"], n.to_string());
    }
    let claimed = claim(url, "w-2", 100, 0);
    let claimed: Vec<String> = claimed.iter().map(|claim| text(&claim["execution"]["id"])).collect();
    assert_eq!(claimed, waiting, "each is claimed once, in the order of submission");
}

fn a_server_drains_and_exits_with_zero_on_sigterm_and_sigint(place: &impl Place) {
    for signal in ["TERM", "INT"] {
        let mut server = Server::start(place);
        let url = server.url.clone();
        let instance = format!("w-{signal}");
        let claim_url = format!("{url}/v1/workers/{instance}/claim");
        let mut body = claim_body(1, 60_000);
        body["kinds"] = json!(["no execution of this kind"]);
        let waiting = start_call("POST", &claim_url, Some(&body));
        // The worker is listed as soon as its claim has registered it; from then on the claim waits.
        while !get(&format!("{url}/v1/workers")).1.to_string().contains(&instance) {}
        let id = submit(&url, json!({"kind": "k"}));
        server.signal(signal);
        let (status, printed) = server.wait_for_exit();
        assert_eq!(status.code(), Some(0), "{signal}");
        assert_eq!(printed, "", "the ready line is the only output");
        let (status, response) = waiting.response();
        assert_eq!((status, &response["claims"]), (200, &json!([])), "waiting requests are answered");

        let server = Server::start(place);
        assert_eq!(state(&server.url, &id), "waiting");
        server.kill();
    }
}

fn an_idle_server_uses_at_most_60_mib_of_memory(place: &impl Place) {
    let server = Server::start(place);
    let (ready, _) = get(&format!("{}/readyz", server.url));
    assert_eq!(ready, 200);
    let path = format!("/proc/{}/status", server.pid());
    let status = std::fs::read_to_string(path).expect("Linux has /proc/PID/status");
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let resident = resident.and_then(|line| line.trim().strip_suffix(" kB"));
    let resident: u64 = resident.expect("VmRSS is given in kB").trim().parse().expect("VmRSS is a number");
    assert!(resident <= 60 * 1024, "{resident} kB");
}
