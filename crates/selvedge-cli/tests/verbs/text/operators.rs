//! The actions of operators: on one execution and on many, `approvals`, `workers`, `bulk-jobs`.

use crate::cli::serve;
use crate::snapshot::Snapshot;
use crate::worker::{claim_one, complete_one, report};
use serde_json::json;

#[test]
fn actions_on_one_execution() {
    let (_place, server, cli) = serve();
    let mut snapshot = Snapshot::new(&cli, "one");
    let id = cli.succeed(&["submit", "k"]);
    snapshot.run(&["reschedule", &id, "--delay", "1h"]);
    snapshot.run(&["reschedule", &id, "--now", "--json"]);
    snapshot.run(&["priority", "-7", &id]);
    snapshot.run(&["tag", &id, "--set", "team=web", "--remove", "old"]);
    claim_one(&server.url);
    snapshot.run(&["cancel", &id, "--grace", "1h", "--reason", "not needed"]);
    snapshot.run(&["revoke-lease", &id, "--reason", "slow"]);
    snapshot.run(&["cancel", &id]);
    snapshot.run(&["replay", &id, "--dry-run"]);
    snapshot.run(&["replay", &id]);
    let claim = claim_one(&server.url);
    report(&server.url, &claim, json!({"op": "suspend", "condition": {"signal": "go"}}));
    snapshot.run(&["resume", &id]);
    snapshot.run(&["resume", &id]);
    snapshot.check();
}

#[test]
fn actions_on_many_executions() {
    let (_place, server, cli) = serve();
    let mut snapshot = Snapshot::new(&cli, "many");
    let ids: Vec<String> = (0..3).map(|_| cli.succeed(&["submit", "k"])).collect();
    complete_one(&server.url);
    snapshot.run(&["cancel"]);
    snapshot.run(&["cancel", &ids[1], "--all"]);
    snapshot.show(&["cancel", "--kind", "k", "--dry-run"]);
    snapshot.run(&["cancel", "--kind", "k"]);
    let unknown = "0197f3c8-2b1e-7c4e-9d0a-1f2e3d4c5b6a";
    snapshot.run(&["priority", "5", &ids[1], unknown, "--yes"]);
    snapshot.run(&["tag", "--set", "a=b", "--all", "--yes", "--json"]);
    snapshot.run(&["reschedule", "--state", "waiting", "--delay", "1h", "-y"]);
    snapshot.run(&["cancel", &ids[1], &ids[2], "--yes"]);
    snapshot.run(&["cancel", &ids[1], &ids[2], "--yes"]);
    snapshot.run(&["cancel", "--kind", "k", "--yes"]);
    snapshot.run(&["cancel", "--kind", "none", "--yes", "--json"]);
    snapshot.run(&["replay", "--outcome", "cancelled", "--job", "--yes"]);
    snapshot.run(&["replay", &ids[1], &ids[2], "--job", "--yes"]);
    snapshot.show(&["bulk-jobs"]);
    let job = cli.json(&["bulk-jobs"])[0]["id"].as_str().expect("an id is text").to_owned();
    snapshot.show(&["bulk-jobs", "get", &job]);
    snapshot.show(&["bulk-jobs", "watch", &job]);
    snapshot.run(&["bulk-jobs", "stop", &job]);
    snapshot.check();
}

#[test]
fn approvals() {
    let (_place, server, cli) = serve();
    let mut snapshot = Snapshot::new(&cli, "approvals");
    snapshot.show(&["approvals"]);
    cli.succeed(&["submit", "deploy"]);
    let claim = claim_one(&server.url);
    // One after the other, because the list is ordered by time.
    let approve = json!({"op": "waitpoint", "name": "approve", "source": "ann", "prompt": "Deploy?"});
    report(&server.url, &claim, approve);
    report(&server.url, &claim, json!({"op": "waitpoint", "name": "second"}));
    let condition = json!({"count": {"n": 2, "of": ["approve", "second"], "distinct": "signals"}});
    report(&server.url, &claim, json!({"op": "suspend", "condition": condition}));
    snapshot.show(&["approvals"]);
    snapshot.run(&["approvals", "list", "--source", "ann"]);
    let open = cli.json(&["approvals"]);
    let id = |name: &str| {
        let found = open.iter().find(|waitpoint| waitpoint["name"] == name).expect("it is open");
        found["id"].as_str().expect("an id is text").to_owned()
    };
    let reissued = cli.json(&["approvals", "reissue", &id("second"), "--expires", "2h"]);
    assert!(reissued[0]["token"].is_string(), "{reissued:?}");
    snapshot.run(&["approvals", "answer", &id("approve"), r#"{"approved": true}"#]);
    snapshot.run(&["approvals", "answer", &id("second"), "--json"]);
    snapshot.run(&["approvals", "revoke", &id("second")]);
    snapshot.run(&["approvals", "list", "--state", "delivered"]);
    snapshot.check();
}

#[test]
fn workers() {
    let (_place, server, cli) = serve();
    let mut snapshot = Snapshot::new(&cli, "workers");
    snapshot.show(&["workers"]);
    cli.succeed(&["submit", "k"]);
    claim_one(&server.url);
    snapshot.show(&["workers"]);
    snapshot.run(&["workers", "drain", "w-1"]);
    snapshot.run(&["workers", "list"]);
    snapshot.run(&["workers", "delete", "w-1"]);
    snapshot.run(&["workers", "delete", "w-1", "--yes"]);
    snapshot.run(&["workers"]);
    snapshot.check();
}
