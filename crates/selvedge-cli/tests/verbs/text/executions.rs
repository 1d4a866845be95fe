//! `submit`, `list`, `get`, `wait`, `watch`, `explain`, `logs`, `events`, `signal`.

use crate::cli::serve;
use crate::snapshot::Snapshot;
use crate::worker::{claim_one, complete_one, fail_one, report};
use serde_json::json;

#[test]
fn submissions() {
    let (_place, _server, cli) = serve();
    let mut snapshot = Snapshot::new(&cli, "submissions");
    snapshot.show(&["list"]);
    snapshot.run(&["submit", "greet"]);
    let id = "0197f3c8-2b1e-7c4e-9d0a-1f2e3d4c5b6a";
    snapshot.run(&["submit", "greet", r#"{"b": 1, "a": 1.50}"#, "--id", id]);
    snapshot.run(&["submit", "greet", r#"{"b": 1, "a": 1.50}"#, "--id", id]);
    let fields = r#"{"concurrency": {"key": "customer-7", "limit": 2}, "retry": {"backoff": {"type": "fixed", "delay_ms": 5}}}"#;
    snapshot.run(&[
        "submit",
        "resize",
        "[1]",
        "--lane",
        "images",
        "--idempotency-key",
        "k-1",
        "--unique-while-active",
        "u-1",
        "--priority",
        "-5",
        "--tag",
        "team=web",
        "--tag",
        "env=test",
        "--capability",
        "gpu",
        "--fairness-key",
        "customer-7",
        "--delay",
        "1h",
        "--max-retries",
        "2",
        "--attempt-timeout",
        "30s",
        "--deadline",
        "2h",
        "--fields",
        fields,
        "--json",
    ]);
    let id = cli.json(&["list", "--kind", "resize"])[0]["id"].as_str().map(str::to_owned);
    snapshot.show(&["get", &id.expect("an id is text")]);
    snapshot.show(&["list", "--lane", "images", "--tag", "team=web", "--state", "delayed"]);
    snapshot.run(&["list", "--limit", "1"]);
    snapshot.run(&["list", "--kind", "none"]);
    snapshot.check();
}

#[test]
fn the_input_keeps_its_bytes_and_comes_from_the_command_line_a_file_or_standard_input() {
    let (place, _server, cli) = serve();
    let text = "{\"z\": 1.0, \"a\": [1e3, \"é\"]}";
    let file = place.path("input.json");
    std::fs::write(&file, format!("{text}\n")).expect("the file is written");
    let at_file = format!("@{}", file.display());
    let mut ids = vec![cli.succeed(&["submit", "k", text]), cli.succeed(&["submit", "k", &at_file])];
    let mut submit = cli.command(&["submit", "k", "-"]);
    let input = std::fs::File::open(&file).expect("the file is opened");
    let output = submit.stdin(input).output().expect("the binary starts");
    ids.push(String::from_utf8(output.stdout).expect("an id is text").trim_end().to_owned());
    for id in ids {
        let printed = cli.succeed(&["get", &id, "--json"]);
        assert!(printed.contains(&format!("\"input\":{text}")), "{printed}");
    }
}

#[test]
fn the_life_of_an_execution() {
    let (_place, server, cli) = serve();
    let mut snapshot = Snapshot::new(&cli, "life");
    let id = cli.succeed(&[
        "submit",
        "greet",
        r#"{"name": "Ada"}"#,
        "--fields",
        r#"{"retry": {"backoff": {"type": "fixed", "delay_ms": 0}}}"#,
    ]);
    snapshot.show(&["explain", &id]);
    let claim = claim_one(&server.url);
    report(&server.url, &claim, json!({"op": "frame", "kind": "stdout", "data": "one\ntwo\n"}));
    report(&server.url, &claim, json!({"op": "frame", "kind": "stderr", "data": "careful\n"}));
    report(&server.url, &claim, json!({"op": "frame", "kind": "event", "data": {"rows": 3}}));
    report(&server.url, &claim, json!({"op": "progress", "percent": 40, "message": "half"}));
    report(&server.url, &claim, json!({"op": "step", "name": "measure", "result": 3}));
    snapshot.run(&["get", &id]);
    snapshot.show(&["logs", &id]);
    snapshot.run(&["logs", &id, "--times"]);
    snapshot.run(&["list", "--state", "active"]);
    report(&server.url, &claim, json!({"op": "fail", "message": "no ink", "class": "transient"}));
    let claim = claim_one(&server.url);
    let wait = json!({"op": "suspend", "condition": {"signal": "go"}, "step": "approval"});
    report(&server.url, &claim, wait);
    snapshot.show(&["explain", &id]);
    snapshot.run(&["get", &id]);
    snapshot.run(&["signal", &id, "later", "[1]", "--idempotency-key", "once"]);
    snapshot.run(&["signal", &id, "later", "[1]", "--idempotency-key", "once"]);
    snapshot.run(&["signal", &id, "go", r#"{"ok": true}"#, "--source", "ann", "--json"]);
    complete_one(&server.url);
    snapshot.show(&["get", &id]);
    snapshot.show(&["wait", &id]);
    snapshot.show(&["watch", &id]);
    snapshot.show(&["logs", &id]);
    snapshot.run(&["logs", &id, "--attempt", "0", "--follow"]);
    snapshot.run(&["explain", &id]);
    snapshot.run(&["events", "--execution", &id]);
    snapshot.run(&["events", "--types", "execution.submitted,execution.completed", "--limit", "5", "--json"]);
    snapshot.run(&["events", "--from", "now"]);
    snapshot.check();
}

#[test]
fn an_execution_that_failed() {
    let (_place, server, cli) = serve();
    let mut snapshot = Snapshot::new(&cli, "failed");
    let id = cli.succeed(&["submit", "print"]);
    fail_one(&server.url, "out of paper\nplease refill");
    snapshot.run(&["list", "--state", "failed"]);
    snapshot.show(&["explain", &id]);
    snapshot.show(&["wait", &id]);
    snapshot.run(&["watch", &id]);
    snapshot.run(&["get", &id]);
    snapshot.check();
}
