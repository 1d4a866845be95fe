//! Logs as JSON, with the ids of requests.

use crate::support::{Place, Server, Sqlite, command};
use serde_json::Value;
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
