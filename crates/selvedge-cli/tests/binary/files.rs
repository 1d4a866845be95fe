//! SQLite files that are deleted, replaced or damaged: no acknowledged work is lost, and the server says what is wrong.

use crate::support::{Place, Server, Sqlite, command, get, post, state, submit};
use serde_json::json;

/// Submits until the server refuses. Returns the ids of the executions that it accepted.
fn submit_until_refused(url: &str) -> Vec<String> {
    let mut accepted = Vec::new();
    loop {
        let (status, response) = post(&format!("{url}/v1/executions"), &json!({"kind": "k"}));
        match status {
            201 => accepted.push(response["execution"]["id"].as_str().expect("an id is text").to_owned()),
            503 => return accepted,
            other => panic!("{other}: {response}"),
        }
    }
}

/// Asserts that the server is not ready, for a reason that contains `text`.
fn check_not_ready(server: &Server, text: &str) {
    let (status, problem) = get(&format!("{}/readyz", server.url));
    assert_eq!((status, &problem["code"]), (503, &json!("store_unavailable")), "{problem}");
    assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains(text)), "{problem}");
}

#[test]
fn nothing_acknowledged_is_lost_when_the_write_ahead_log_is_deleted() {
    let place = Sqlite::new();
    let server = Server::start(&place);
    let mut accepted: Vec<String> = (0..20).map(|_| submit(&server.url, json!({"kind": "k"}))).collect();
    std::fs::remove_file(place.path("selvedge.db-wal")).expect("the log is deleted");
    accepted.extend(submit_until_refused(&server.url));
    check_not_ready(&server, "selvedge.db-wal was deleted");
    let (status, _) = post(&format!("{}/v1/executions", server.url), &json!({"kind": "k"}));
    assert_eq!(status, 503, "the refusal lasts");
    server.kill();

    let server = Server::start(&place);
    for id in &accepted {
        assert_eq!(state(&server.url, id), "waiting");
    }
    submit(&server.url, json!({"kind": "k"}));
    assert_eq!(get(&format!("{}/readyz", server.url)).0, 200);
}

#[test]
fn an_idle_server_notices_that_its_write_ahead_log_is_deleted() {
    let place = Sqlite::new();
    let mut server = Server::start(&place);
    let id = submit(&server.url, json!({"kind": "k"}));
    std::fs::remove_file(place.path("selvedge.db-wal")).expect("the log is deleted");
    server.wait_for_log("selvedge.db-wal was deleted");
    server.kill();
    assert_eq!(state(&Server::start(&place).url, &id), "waiting");
}

#[test]
fn a_server_whose_database_is_replaced_writes_nothing_more_and_leaves_the_new_files_alone() {
    let (place, other) = (Sqlite::new(), Sqlite::new());
    let server = Server::start(&other);
    let id = submit(&server.url, json!({"kind": "k"}));
    server.kill();
    let mut server = Server::start(&place);
    submit(&server.url, json!({"kind": "k"}));
    for name in ["selvedge.db", "selvedge.db-wal", "selvedge.db-shm"] {
        std::fs::rename(other.path(name), place.path(name)).expect("the file is replaced");
    }
    submit_until_refused(&server.url);
    check_not_ready(&server, "selvedge.db was deleted or replaced");
    server.signal("TERM");
    server.wait_for_exit();
    assert_eq!(state(&Server::start(&place).url, &id), "waiting");
}

#[test]
fn a_damaged_database_is_refused_with_advice() {
    let place = Sqlite::new();
    let server = Server::start(&place);
    for _ in 0..20 {
        submit(&server.url, json!({"kind": "k", "input": "x".repeat(1000)}));
    }
    server.stop_and_read_log();
    let mut bytes = std::fs::read(place.database()).expect("the file is read");
    let damaged = bytes.len() / 4096 / 2 * 4096;
    bytes[damaged..damaged + 4096].fill(0xa5);
    std::fs::write(place.database(), bytes).expect("the file is written");
    let output = command().args(["serve", "--listen", "127.0.0.1:0", "--store", &place.store()]).output();
    let output = output.expect("the binary starts");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{stderr}");
    assert!(
        stderr.contains("the file is damaged") && stderr.contains("restore it from a backup"),
        "{stderr}"
    );
}
