//! A worker written with nothing but `curl`.

use crate::support::{
    Place, Server, claim_body, complete, get, on_each_store, result, start_call, state, submit, text,
};
use serde_json::json;

on_each_store!(a_worker_can_be_plain_curl);

fn a_worker_can_be_plain_curl(place: &impl Place) {
    let server = Server::start(place);
    let url = &server.url;
    // The claim waits: there is no work yet.
    let waiting = start_call("POST", &format!("{url}/v1/workers/w-1/claim"), Some(&claim_body(1, 60_000)));
    let id = submit(url, json!({"kind": "greet", "input": {"name": "Ada"}}));
    let (status, response) = waiting.response();
    assert_eq!(status, 200, "{response}");
    let claim = &response["claims"][0];
    assert_eq!(text(&claim["execution"]["id"]), id);
    assert_eq!(claim["execution"]["input"], json!({"name": "Ada"}));
    assert_eq!(claim["attempt"], 0);
    assert_eq!(state(url, &id), "active");

    let reported = complete(url, "w-1", claim, json!("Hello, Ada!"));
    assert_eq!(reported["ok"], true, "{reported}");
    assert_eq!(reported["state"], "completed");
    let (status, ended) = result(url, &id);
    assert_eq!((status, &ended["outcome"]), (200, &json!("completed")));
    assert_eq!(ended["result"], "Hello, Ada!");

    let (_, events) = get(&format!("{url}/v1/executions/{id}/events"));
    let events = events["items"].as_array().expect("items is an array");
    let types: Vec<_> = events.iter().filter_map(|event| event["type"].as_str()).collect();
    for expected in ["execution.submitted", "lease.acquired", "execution.completed"] {
        assert!(types.contains(&expected), "{expected} is not in {types:?}");
    }
}
