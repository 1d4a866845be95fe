//! Resources that operators configure: lanes, quotas, budgets, schedules, webhooks, keys, namespaces, and the inbox.

use crate::cli::{Cli, serve};
use crate::snapshot::Snapshot;
use crate::support::{Postgres, Server};

#[test]
fn lanes() {
    let (_place, _server, cli) = serve();
    let mut snapshot = Snapshot::new(&cli, "lanes");
    snapshot.show(&["lanes"]);
    snapshot.run(&["lanes", "set", "images"]);
    snapshot.run(&["lanes", "set", "images", "--concurrency", "4", "--rate", "100/m", "--weight", "3"]);
    snapshot.run(&["lanes", "set", "images", "--rate", "none", "--json"]);
    snapshot.show(&["lanes", "get", "images"]);
    snapshot.show(&["lanes"]);
    let id = cli.succeed(&["submit", "k", "--lane", "images"]);
    snapshot.run(&["lanes", "pause", "images"]);
    snapshot.run(&["explain", &id]);
    snapshot.run(&["lanes", "list"]);
    snapshot.run(&["lanes", "resume", "images", "--json"]);
    snapshot.run(&["lanes", "set", "images", "--state", "draining"]);
    snapshot.run(&["lanes", "delete", "images"]);
    snapshot.run(&["lanes", "delete", "images", "--yes"]);
    snapshot.check();
}

#[test]
fn quotas_and_budgets() {
    let (_place, _server, cli) = serve();
    let mut snapshot = Snapshot::new(&cli, "gates");
    snapshot.show(&["quotas"]);
    snapshot.run(&["quotas", "set", "model", "--rate", "60/1m", "--concurrency", "8"]);
    snapshot.show(&["quotas", "get", "model"]);
    snapshot.show(&["quotas"]);
    snapshot.run(&["quotas", "delete", "model", "-y"]);
    snapshot.run(&["quotas", "delete", "model", "-y"]);
    snapshot.show(&["budgets"]);
    snapshot.run(&[
        "budgets",
        "set",
        "tokens",
        "--hard",
        "tokens=1000",
        "--soft",
        "tokens=800",
        "--hard",
        "euro=1.50",
        "--scope",
        "namespace",
        "--period",
        "1d",
        "--on-hard",
        "suspend",
    ]);
    snapshot.run(&["budgets", "use", "tokens", "tokens=1200", "euro=0.25", "--dedup-key", "call-1"]);
    snapshot.run(&["budgets", "use", "tokens", "tokens=1200", "euro=0.25", "--dedup-key", "call-1"]);
    snapshot.show(&["budgets", "get", "tokens"]);
    snapshot.show(&["budgets"]);
    let id = cli.succeed(&["submit", "ask", "--budget", "tokens"]);
    snapshot.run(&["explain", &id]);
    snapshot.run(&["budgets", "reset", "tokens"]);
    snapshot.run(&["budgets", "reset", "tokens", "--yes"]);
    snapshot.run(&["budgets", "delete", "tokens", "--yes"]);
    snapshot.check();
}

#[test]
fn schedules() {
    let (place, _server, cli) = serve();
    let mut snapshot = Snapshot::new(&cli, "schedules");
    snapshot.show(&["schedules"]);
    snapshot.run(&[
        "schedules",
        "set",
        "tick",
        "--every",
        "10m",
        "--kind",
        "echo",
        "--input",
        r#"{"a": 1}"#,
        "--lane",
        "slow",
        "--overlap",
        "skip",
        "--catch-up",
        "one",
        "--jitter",
        "5s",
    ]);
    snapshot.show(&["schedules"]);
    snapshot.run(&[
        "schedules",
        "set",
        "tick",
        "--cron",
        "30 6 * * mon-fri",
        "--time-zone",
        "Europe/Berlin",
        "--json",
    ]);
    snapshot.show(&["schedules", "get", "tick"]);
    snapshot.show(&["schedules", "next", "tick", "--count", "2"]);
    snapshot.show(&["schedules", "runs", "tick"]);
    snapshot.run(&["schedules", "run", "tick"]);
    snapshot.show(&["schedules", "runs", "tick"]);
    snapshot.run(&["schedules", "pause", "tick"]);
    snapshot.run(&["schedules", "list"]);
    snapshot.run(&["schedules", "resume", "tick"]);
    snapshot.run(&["schedules", "set", "tick", "--submission", r#"{"kind": "other"}"#]);
    let flow = place.path("flow.yaml");
    std::fs::write(&flow, "{name: nightly, nodes: [{name: a, kind: k}]}").expect("the file is written");
    cli.succeed(&["schedules", "set", "tick", "--flow", flow.to_str().expect("the path is text")]);
    snapshot.run(&["schedules", "list"]);
    snapshot.run(&["schedules", "run", "tick"]);
    snapshot.run(&["schedules", "set", "tick", "--kind", "echo"]);
    snapshot.run(&["schedules", "delete", "tick", "--yes"]);
    snapshot.check();
}

#[test]
fn webhooks() {
    let (_place, _server, cli) = serve();
    let mut snapshot = Snapshot::new(&cli, "webhooks");
    snapshot.show(&["webhooks"]);
    let types = "execution.failed,flow.failed";
    snapshot.run(&[
        "webhooks",
        "set",
        "alerts",
        "--url",
        "https://example.org/hook",
        "--types",
        types,
        "--tag",
        "team=web",
    ]);
    snapshot.run(&["webhooks", "set", "alerts", "--types", "*", "--json"]);
    snapshot.show(&["webhooks", "get", "alerts"]);
    snapshot.run(&["webhooks", "pause", "alerts"]);
    snapshot.show(&["webhooks"]);
    snapshot.run(&["webhooks", "resume", "alerts"]);
    snapshot.show(&["webhooks", "deliveries", "alerts", "--state", "dead"]);
    snapshot.run(&["webhooks", "replay", "alerts", "0197f3c8-2b1e-7c4e-9d0a-1f2e3d4c5b6a"]);
    snapshot.run(&["webhooks", "rotate-secret", "alerts", "--grace", "1h"]);
    snapshot.run(&["webhooks", "delete", "alerts", "--yes"]);
    snapshot.check();
}

#[test]
fn keys_and_namespaces() {
    let (_place, _server, cli) = serve();
    let mut snapshot = Snapshot::new(&cli, "keys");
    snapshot.show(&["keys"]);
    snapshot.run(&["keys", "create", "ci", "--role", "submitter"]);
    snapshot.run(&[
        "keys",
        "create",
        "images",
        "--role",
        "worker",
        "--for",
        "a",
        "--for",
        "b",
        "--expires",
        "90d",
        "--json",
    ]);
    snapshot.show(&["keys"]);
    let id = cli.json(&["keys"])[0]["id"].as_str().expect("an id is text").to_owned();
    snapshot.run(&["keys", "revoke", &id]);
    snapshot.run(&["keys", "revoke", &id, "--yes"]);
    snapshot.run(&["keys", "list"]);
    snapshot.show(&["namespaces"]);
    snapshot.run(&["namespaces", "set", "shop", "--retention", "30d", "--weight", "2"]);
    snapshot.run(&["namespaces", "set", "shop", "--suspension-timeout", "7d", "--json"]);
    snapshot.show(&["namespaces", "get", "shop"]);
    snapshot.run(&["namespaces", "list"]);
    snapshot.run(&["namespaces", "delete", "shop"]);
    snapshot.run(&["namespaces", "delete", "shop", "--yes"]);
    snapshot.check();
}

#[test]
fn the_inbox_of_submissions_from_sql() {
    let place = Postgres::new();
    let server = Server::start(&place);
    let cli = Cli::new(&server.url);
    let mut snapshot = Snapshot::new(&cli, "inbox");
    snapshot.show(&["inbox"]);
    place.run(
        "select selvedge.submit('k', quotas => array['mail'], notify => true) from generate_series(1, 2)",
    );
    while cli.json(&["inbox"]).len() < 2 {}
    snapshot.show(&["inbox"]);
    cli.succeed(&["quotas", "set", "mail", "--concurrency", "1"]);
    let number = |at: usize| cli.json(&["inbox"])[at]["number"].to_string();
    let (newer, older) = (number(0), number(1));
    snapshot.run(&["inbox", "retry", &newer]);
    snapshot.run(&["inbox", "delete", &older]);
    snapshot.run(&["inbox", "delete", &older, "--yes", "--json"]);
    snapshot.run(&["inbox"]);
    snapshot.check();
}
