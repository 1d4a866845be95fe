//! Two versions side by side on one database, as during an upgrade without downtime: the server of an earlier commit, which
//! `scripts/old-server` names and builds, and the current one.

use crate::support::{Place, Postgres, Server, claim, command, complete, get, post, state, submit, text};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::process::Command;

/// Starts the old server.
fn start_old(binary: &str, place: &Postgres) -> Server {
    let mut serve = Command::new(binary);
    command().get_envs().filter(|(_, value)| value.is_none()).for_each(|(name, _)| {
        serve.env_remove(name);
    });
    serve.args(["serve", "--store", &place.store()]);
    Server::spawn(serve)
}

/// Returns the types and subjects of all events.
fn events(server: &Server) -> Vec<(Value, Value, Value)> {
    let (status, page) = get(&format!("{}/v1/events?limit=500", server.url));
    assert_eq!(status, 200, "{page}");
    let items = page["items"].as_array().expect("items is an array").iter();
    items.map(|event| (event["type"].clone(), event["execution"].clone(), event["version"].clone())).collect()
}

/// Claims from one server and reports to the other until nothing is left. Returns the number of completions.
fn work(claims: &Server, reports: &Server) -> usize {
    let mut completed = 0;
    loop {
        let claimed = claim(&claims.url, "i", 3, 200);
        if claimed.is_empty() {
            return completed;
        }
        for claimed in claimed {
            let done = complete(&reports.url, "i", &claimed, json!({"done": true}));
            assert_eq!(done["ok"], true, "{done}");
            completed += 1;
        }
    }
}

#[test]
fn the_server_of_an_earlier_version_and_the_current_one_work_on_one_database() {
    let binary = std::env::var("SELVEDGE_OLD_SERVER").expect(
        "SELVEDGE_OLD_SERVER is not set: run ./scripts/test, which builds the server of an earlier version",
    );
    if binary.is_empty() {
        eprintln!("not checked: the commit of the earlier version is not in this checkout");
        return;
    }
    let place = Postgres::new();
    let old = start_old(&binary, &place);
    let before: Vec<String> = (0..3).map(|_| submit(&old.url, json!({"kind": "k"}))).collect();
    let held = claim(&old.url, "i", 1, 0).remove(0);
    // The current server opens the store, with its migrations, while the old one runs.
    let new = Server::start(&place);
    assert_eq!(complete(&new.url, "i", &held, json!(null))["ok"], true, "a lease of the old server is valid");

    let flow = json!({
        "nodes": [{"name": "a", "kind": "k"}, {"name": "b", "kind": "k"}, {"name": "c", "kind": "k"}],
        "edges": [{"from": "a", "to": "c"}, {"from": "b", "to": "c"}],
    });
    let mut flows = Vec::new();
    for (one, other, lane) in [(&old, &new, "a"), (&new, &old, "b")] {
        let (status, submitted) = post(&format!("{}/v1/flows", one.url), &flow);
        assert_eq!(status, 201, "{submitted}");
        flows.push(text(&submitted["flow"]["id"]));
        submit(&one.url, json!({"kind": "k", "delay_ms": 100, "tags": {"a": "b"}}));
        let suspended = submit(&one.url, json!({"kind": "s", "lane": lane}));
        let body = json!({"worker": "w", "lanes": [lane], "max": 1});
        let (_, claimed) = post(&format!("{}/v1/workers/i/claim", other.url), &body);
        let claimed = &claimed["claims"][0];
        let suspend = json!({
            "op": "suspend", "condition": {"signal": "go"}, "waitpoints": ["go"], "execution": suspended,
            "attempt": claimed["attempt"], "lease_id": claimed["lease"]["id"], "epoch": claimed["lease"]["epoch"],
        });
        let report = post(&format!("{}/v1/workers/i/report", one.url), &json!({"ops": [suspend]})).1;
        let waitpoint = &report["results"][0]["waitpoints"][0];
        assert!(waitpoint.is_object(), "{report} after {claimed}");
        let signal = json!({"token": waitpoint["token"], "payload": 1});
        let path = format!("/v1/waitpoints/{}/signal", text(&waitpoint["id"]));
        assert_eq!(post(&format!("{}{path}", other.url), &signal).0, 200);
        assert_eq!(state(&one.url, &suspended), "waiting");
    }
    let mut completed = 1;
    while get(&format!("{}/v1/executions?lane=default&state=completed&limit=500", new.url)).1["items"]
        .as_array()
        .is_some_and(|items| items.len() < before.len() + 2 * (3 + 1))
    {
        completed += work(&old, &new) + work(&new, &old);
    }
    assert_eq!(completed, before.len() + 2 * (3 + 1));
    for (server, flow) in [(&old, &flows[1]), (&new, &flows[0])] {
        let (_, flow) = get(&format!("{}/v1/flows/{flow}", server.url));
        assert_eq!(flow["state"], "completed", "{flow}");
    }
    let (of_old, of_new) = (events(&old), events(&new));
    assert_eq!(of_old, of_new, "both servers have the same log");
    let types: BTreeSet<&str> = of_new.iter().filter_map(|(name, ..)| name.as_str()).collect();
    assert!(!types.contains("log.unreadable"), "{types:?}");
    old.kill();
    submit(&new.url, json!({"kind": "k"}));
    assert_eq!(work(&new, &new), 1);
}
