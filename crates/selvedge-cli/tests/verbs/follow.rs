//! Commands that follow something go on when their server restarts at the same address.

use crate::cli::Cli;
use crate::support::{Place, Server, Sqlite, command};
use crate::worker::{claim_one, report};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::{Child, ChildStdout, Command};

/// A command whose output is read line by line.
struct Follower {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Follower {
    fn start(cli: &Cli, arguments: &[&str]) -> Follower {
        let mut child = cli.start(arguments);
        let stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        Follower { child, stdout }
    }

    /// Returns the next line; empty at the end.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("the output is text");
        line.trim_end().to_owned()
    }

    /// Waits for the end. Returns the exit code and standard error.
    fn end(mut self) -> (Option<i32>, String) {
        let mut errors = String::new();
        self.child.stderr.take().expect("it is piped").read_to_string(&mut errors).expect("it is text");
        (self.child.wait().expect("it exits").code(), errors)
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the address of a free port that the system gives to nobody who asks for any port.
fn free_address() -> String {
    loop {
        let address = format!("127.0.0.1:{}", 20_000 + uuid::Uuid::new_v4().as_u128() % 12_000);
        if TcpListener::bind(&address).is_ok() {
            return address;
        }
    }
}

fn serve_at(place: &Sqlite, address: &str) -> Server {
    let mut serve = command();
    serve.args(["serve", "--store", &place.store()]);
    Server::spawn_at(serve, address)
}

/// Starts a server at an address where it can be started again.
fn serve() -> (Sqlite, Server, Cli) {
    let place = Sqlite::new();
    let server = serve_at(&place, &free_address());
    let cli = Cli::new(&server.url);
    (place, server, cli)
}

/// Kills the server and starts another one with the same store at the same address.
fn restart(server: Server, place: &Sqlite) -> Server {
    let url = server.url.clone();
    server.kill();
    serve_at(place, url.strip_prefix("http://").expect("the URL has the scheme http"))
}

/// Reports whether a server has answered a request of a route.
fn has_answered(server: &Server, route: &str) -> bool {
    let metrics = Command::new("curl").args(["--silent", &format!("{}/metrics", server.url)]).output();
    let metrics = String::from_utf8(metrics.expect("curl starts").stdout).expect("metrics are text");
    metrics.lines().any(|line| {
        line.starts_with("selvedge_http_requests_total") && line.contains(&format!("\"{route}\""))
    })
}

#[test]
fn events_with_follow_miss_nothing_when_the_server_restarts() {
    let (place, server, cli) = serve();
    let before = cli.succeed(&["submit", "k"]);
    let mut events = Follower::start(
        &cli,
        &["events", "--follow", "--from", "beginning", "--types", "execution.submitted", "--json"],
    );
    let mut next = || -> String {
        let event: Value = serde_json::from_str(&events.line()).expect("a line is JSON");
        event["execution"].as_str().expect("it names an execution").to_owned()
    };
    assert_eq!(next(), before);
    let server = restart(server, &place);
    let after = cli.succeed(&["submit", "k"]);
    assert_eq!(next(), after, "nothing is missed and nothing repeated");
    let _server = restart(server, &place);
    let last = cli.succeed(&["submit", "k"]);
    assert_eq!(next(), last);
}

#[test]
fn events_with_follow_begin_where_they_were_started_although_the_server_restarts_before_the_first() {
    let (place, server, cli) = serve();
    cli.succeed(&["submit", "k"]);
    let mut events = Follower::start(&cli, &["events", "--follow", "--types", "execution.submitted"]);
    // The request for the position, which is made once.
    while !has_answered(&server, "/v1/events") {}
    let address = server.url.strip_prefix("http://").expect("the URL has the scheme http").to_owned();
    server.kill();
    // Submitted at another address, while nobody listens at this one.
    let elsewhere = Server::start(&place);
    let id = Cli::new(&elsewhere.url).succeed(&["submit", "k"]);
    elsewhere.kill();
    let _server = serve_at(&place, &address);
    assert!(events.line().contains(&id));
}

#[test]
fn logs_with_follow_go_on_with_later_attempts_and_when_the_server_restarts() {
    let (place, server, cli) = serve();
    let id = cli.succeed(&[
        "submit",
        "k",
        "--fields",
        r#"{"retry": {"backoff": {"type": "fixed", "delay_ms": 0}}}"#,
    ]);
    let claim = claim_one(&server.url);
    report(&server.url, &claim, json!({"op": "frame", "kind": "stdout", "data": "one\n"}));
    let mut logs = Follower::start(&cli, &["logs", &id, "--follow"]);
    assert_eq!(logs.line(), "one");
    let server = restart(server, &place);
    report(&server.url, &claim, json!({"op": "frame", "kind": "stdout", "data": "two\n"}));
    assert_eq!(logs.line(), "two");
    report(&server.url, &claim, json!({"op": "fail", "message": "no ink", "class": "transient"}));
    let server = restart(server, &place);
    let claim = claim_one(&server.url);
    report(&server.url, &claim, json!({"op": "frame", "kind": "stdout", "data": "three\n"}));
    assert_eq!(logs.line(), "three");
    report(&server.url, &claim, json!({"op": "complete"}));
    assert_eq!(logs.line(), "");
    let (code, _) = logs.end();
    assert_eq!(code, Some(0));
}

#[test]
fn wait_and_watch_survive_a_restart() {
    let (place, server, cli) = serve();
    let id = cli.succeed(&["submit", "k"]);
    let mut watch = Follower::start(&cli, &["watch", &id]);
    assert_eq!(watch.line(), "waiting");
    let mut wait = cli.start(&["wait", &id]);
    // Its first request, which must succeed, was answered.
    while !has_answered(&server, "/v1/executions/{id}/result") {}
    let server = restart(server, &place);
    report(&server.url, &claim_one(&server.url), json!({"op": "complete", "result": 7}));
    let mut result = String::new();
    wait.stdout.take().expect("it is piped").read_to_string(&mut result).expect("it is text");
    assert_eq!((result.as_str(), wait.wait().expect("it exits").code()), ("7\n", Some(0)));
    let states: Vec<String> =
        std::iter::from_fn(|| Some(watch.line()).filter(|line| !line.is_empty())).collect();
    assert_eq!(states.last().map(String::as_str), Some("completed"), "{states:?}");
    assert_eq!(watch.end().0, Some(0));
}

#[test]
fn an_interruption_is_told_to_people_once() {
    let (place, server, cli) = serve();
    cli.succeed(&["submit", "k"]);
    let mut events = Follower::start(&cli, &["events", "--follow", "--from", "beginning"]);
    events.line();
    let address = server.url.strip_prefix("http://").expect("the URL has the scheme http").to_owned();
    server.kill();
    let mut told = String::new();
    let mut errors = BufReader::new(events.child.stderr.take().expect("it is piped"));
    errors.read_line(&mut told).expect("it is text");
    assert!(told.contains("cannot reach the server") && told.contains("resuming"), "{told}");
    let _server = serve_at(&place, &address);
    let id = cli.succeed(&["submit", "k"]);
    assert!(events.line().contains(&id));
}
