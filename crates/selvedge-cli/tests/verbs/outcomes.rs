//! The exit codes of `wait`, `watch`, `submit --wait` and `flow run` for every outcome.

use crate::cli::{Cli, dev, serve};
use crate::worker::{claim_one, fail_one};
use serde_json::Value;

/// Submits a flow with one node after another, and returns its members by their names and its id.
fn run_flow(cli: &Cli, directory: &std::path::Path, text: &str, flags: &[&str]) -> (i32, String) {
    let file = directory.join("flow.yaml");
    std::fs::write(&file, text).expect("the file is written");
    let file = file.to_str().expect("the path is text");
    let ended = cli.run(&[&["flow", "run", file], flags].concat());
    (ended.code, ended.stdout)
}

#[test]
fn wait_and_watch_exit_with_the_outcome_of_an_execution() {
    let (_server, cli) = dev();
    let failing = ["submit", "demo.fail", r#"{"class": "permanent", "message": "no paper"}"#];
    let expiring = ["submit", "nobody", "--deadline", "1ms"];
    let completed = cli.succeed(&["submit", "demo.echo", "7"]);
    let failed = cli.succeed(&failing);
    let cancelled = cli.succeed(&["submit", "nobody"]);
    cli.succeed(&["cancel", &cancelled]);
    let expired = cli.succeed(&expiring);
    let nodes = "{nodes: [{name: a, kind: demo.echo}, {name: b, kind: demo.echo}], edges: [{from: a, to: b, when: failure}]}";
    let (code, flow) = run_flow(&cli, cli.config(), nodes, &["--wait", "--json"]);
    assert_eq!(code, 0, "{flow}");
    let skipped =
        cli.json(&["list", "--state", "skipped"])[0]["id"].as_str().expect("an id is text").to_owned();
    let open = cli.succeed(&["submit", "nobody"]);

    for (id, outcome, code) in [
        (&completed, "completed", 0),
        (&failed, "failed", 10),
        (&cancelled, "cancelled", 11),
        (&expired, "expired", 12),
        (&skipped, "skipped", 13),
    ] {
        for verb in ["wait", "watch"] {
            let ended = cli.run(&[verb, id, "--json"]);
            assert_eq!(ended.code, code, "{verb} {outcome}: {ended:?}");
            let last: Value =
                serde_json::from_str(ended.stdout.lines().last().expect("it prints a line")).expect("JSON");
            assert_eq!(last["outcome"], outcome);
            let expected = if code == 0 { String::new() } else { format!("{id} ended as {outcome}") };
            assert!(ended.stderr.contains(&expected), "{ended:?}");
            assert_eq!(ended.stderr.lines().count(), usize::from(code != 0), "{ended:?}");
        }
    }
    let (code, line) = cli.fail(&["wait", &open, "--timeout", "10ms"]);
    assert_eq!(code, 14);
    assert!(line.contains(&format!("`selvedge explain {open}` says why")), "{line}");

    assert_eq!(cli.succeed(&["submit", "demo.echo", r#"{"b": 1, "a": 2}"#, "--wait"]), r#"{"b": 1, "a": 2}"#);
    assert_eq!(cli.fail(&[&failing[..], &["--wait"]].concat()).0, 10);
    assert_eq!(cli.fail(&[&expiring[..], &["--wait"]].concat()).0, 12);
    assert_eq!(cli.fail(&["submit", "nobody", "--wait", "--timeout", "10ms"]).0, 14);
}

#[test]
fn flow_run_and_flow_wait_exit_with_the_outcome_of_the_flow() {
    let (server, cli) = dev();
    let directory = cli.config();
    let one = |kind: &str| format!("nodes: [{{name: a, kind: {kind}, input: {{class: permanent}}}}]");
    for flag in ["--wait", "--watch"] {
        assert_eq!(run_flow(&cli, directory, &one("demo.echo"), &[flag]).0, 0);
        assert_eq!(run_flow(&cli, directory, &one("demo.fail"), &[flag]).0, 10);
    }
    let (code, _) = run_flow(&cli, directory, &one("nobody"), &["--wait", "--timeout", "10ms"]);
    assert_eq!(code, 14);
    let (_, id) = run_flow(&cli, directory, &one("nobody"), &[]);
    let id = id.trim_end();
    cli.succeed(&["flow", "cancel", id]);
    for command in [&["flow", "wait", id][..], &["flow", "watch", id], &["wait", id], &["watch", id]] {
        let (code, line) = cli.fail(command);
        assert_eq!(code, 11, "{command:?}");
        assert!(line.contains("ended as cancelled"), "{line}");
    }
    drop(server);
}

#[test]
fn watch_prints_every_change_until_the_end() {
    let (_place, server, cli) = serve();
    let id = cli.succeed(&["submit", "k"]);
    let mut watch = cli.start(&["watch", &id]);
    let mut lines =
        std::io::BufRead::lines(std::io::BufReader::new(watch.stdout.take().expect("it is piped")));
    let mut next = || lines.next().expect("a line follows").expect("it is text");
    assert_eq!(next(), "waiting");
    let claim = claim_one(&server.url);
    assert_eq!(next(), "active");
    let op = serde_json::json!({"op": "fail", "message": "no ink", "class": "permanent"});
    crate::worker::report(&server.url, &claim, op);
    assert_eq!(next(), "failed");
    let output = watch.wait_with_output().expect("it exits");
    assert_eq!(output.status.code(), Some(10));
    let id = cli.succeed(&["submit", "k"]);
    fail_one(&server.url, "again");
    assert_eq!(cli.fail(&["watch", &id]), (10, format!("selvedge: {id} ended as failed: again")));
}
