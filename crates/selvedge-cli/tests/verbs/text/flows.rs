//! `flow` with all its commands, and the verbs that take executions and flows.

use crate::cli::serve;
use crate::snapshot::Snapshot;
use crate::worker::{complete_one, fail_one};

const FILE: &str = r#"
name: report
variables: {date: today, count: 2}
nodes:
  - {name: load, kind: read, input: {date: "${date}", count: "${count}", note: "of ${date}, not $${date}"}}
  - {name: left, kind: convert}
  - {name: right, kind: convert}
  - {name: print, kind: print}
  - {name: alert, kind: alert}
edges:
  - {from: load, to: left}
  - {from: load, to: right}
  - {from: left, to: print}
  - {from: right, to: print}
  - {from: print, to: alert, when: failure}
groups:
  - {node: print, policy: {type: any_of}}
"#;

#[test]
fn a_flow_from_its_file_to_its_end() {
    let (place, server, cli) = serve();
    let file = place.path("report.yaml");
    std::fs::write(&file, FILE).expect("the file is written");
    let file = file.to_str().expect("the path is text");
    let mut snapshot = Snapshot::new(&cli, "flow");
    snapshot.show(&["flow", "list"]);
    let run =
        ["flow", "run", file, "--set", "date=2026-03-01", "--set", "count=3", "--idempotency-key", "march"];
    let id = cli.succeed(&run);
    let again = cli.run(&run);
    assert_eq!(
        (again.stdout.trim_end(), again.stderr.as_str()),
        (id.as_str(), "This flow exists already.\n")
    );
    let load = cli.json(&["list", "--kind", "read"])[0]["id"].as_str().expect("an id is text").to_owned();
    let input = &cli.json(&["get", &load])[0]["input"];
    assert_eq!(
        *input,
        serde_json::json!({"date": "2026-03-01", "count": 3, "note": "of 2026-03-01, not ${date}"})
    );
    snapshot.run(&["flow", "graph", &id]);
    snapshot.run(&["flow", "graph", &id, "--format", "dot"]);
    snapshot.run(&["flow", "graph", &id, "--format", "json"]);
    let svg = cli.succeed(&["flow", "graph", &id, "--format", "svg"]);
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>"), "{svg}");
    snapshot.show(&["flow", "explain", &id]);
    // The join takes the first of two, and cancels the other.
    complete_one(&server.url);
    complete_one(&server.url);
    fail_one(&server.url, "out of paper");
    snapshot.show(&["flow", "get", &id]);
    snapshot.show(&["flow", "list", "--name", "report", "--state", "running"]);
    complete_one(&server.url);
    snapshot.show(&["flow", "wait", &id]);
    snapshot.show(&["wait", &id]);
    snapshot.show(&["flow", "watch", &id]);
    snapshot.run(&["watch", &id]);
    snapshot.run(&["get", &id]);
    snapshot.run(&["explain", &id]);
    snapshot.run(&["flow", "list"]);
    snapshot.check();
}

#[test]
fn a_flow_is_cancelled() {
    let (place, _server, cli) = serve();
    let file = place.path("flow.json");
    std::fs::write(&file, r#"{"nodes": [{"name": "a", "kind": "k"}]}"#).expect("the file is written");
    let id = cli.succeed(&["flow", "run", file.to_str().expect("the path is text")]);
    let mut snapshot = Snapshot::new(&cli, "flow-cancel");
    snapshot.run(&["flow", "cancel", &id, "--pending", "--reason", "not needed"]);
    snapshot.run(&["flow", "cancel", &id, "--json"]);
    snapshot.run(&["flow", "wait", &id]);
    snapshot.run(&["flow", "get", &id]);
    snapshot.check();
}
