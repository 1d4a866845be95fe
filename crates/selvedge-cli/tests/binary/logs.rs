//! Logs as JSON, with the ids of requests, and logs that cannot be written.

use crate::support::{Place, Server, Sqlite, command, get, post};
use serde_json::{Value, json};
use std::process::Command;

#[test]
fn json_logs_have_one_object_per_line_and_the_id_of_the_request() {
    let place = Sqlite::new();
    let mut serve = command();
    serve.args(["serve", "--store", &place.store(), "--log", "json,info,selvedge_server::request=trace"]);
    let server = Server::spawn(serve);
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--max-time", "90", "--header", "x-request-id: call-7"]);
    let output = curl.arg(format!("{}/v1/lanes?secret=planted", server.url)).output().expect("curl runs");
    assert!(output.status.success());
    let log = server.stop_and_read_log();
    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    let line = lines.iter().find(|line| line["message"] == "a response is ready");
    let line = line.unwrap_or_else(|| panic!("no line is about the request:\n{log}"));
    assert_eq!(line["span"]["id"], "call-7", "{line}");
    assert_eq!(
        (&line["span"]["method"], &line["span"]["path"]),
        (&"GET".into(), &"/v1/lanes".into()),
        "{line}"
    );
    assert!(line["status"].is_number() && line["level"] == "TRACE", "{line}");
    assert!(lines.iter().any(|line| line["message"] == "stopped"), "{log}");
    assert!(!log.contains("planted"), "the query of a request is not logged");
}

#[test]
fn a_server_works_while_its_log_cannot_be_written() {
    let place = Sqlite::new();
    let mut serve = Command::new("sh");
    // Every write to this device fails as on a full disk.
    serve.args(["-c", r#"exec "$0" "$@" 2>/dev/full"#]).arg(command().get_program());
    serve.args(["serve", "--store", &place.store(), "--log", "trace"]);
    let server = Server::spawn(serve);
    for number in 0..3 {
        let (status, answer) =
            post(&format!("{}/v1/executions", server.url), &json!({ "kind": "k", "input": number }));
        assert_eq!(status, 201, "{answer}");
        let id = answer["execution"]["id"].as_str().expect("an id").to_owned();
        let (status, execution) = get(&format!("{}/v1/executions/{id}", server.url));
        assert_eq!((status, &execution["input"]), (200, &json!(number)), "{execution}");
    }
}
