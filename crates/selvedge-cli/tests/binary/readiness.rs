//! `/readyz` says whether writes succeed: while they fail it is 503, and 200 again after that.

use crate::support::{Place, Postgres, Server, Sqlite, command, get, post, start_call, submit};
use rusqlite::Connection;
use serde_json::{Value, json};
use std::process::Command;

fn readiness(server: &Server) -> (u16, Value) {
    get(&format!("{}/readyz", server.url))
}

/// Asserts that the server is not ready, and stays so without any other request.
fn check_not_ready(server: &Server) {
    for _ in 0..2 {
        let (status, problem) = readiness(server);
        assert_eq!((status, &problem["code"]), (503, &json!("store_unavailable")), "{problem}");
    }
}

fn wait_until_ready(server: &Server) {
    while readiness(server).0 != 200 {}
    submit(&server.url, json!({"kind": "k"}));
}

#[test]
fn a_server_on_a_full_disk_is_not_ready_until_there_is_room_again() {
    let place = Sqlite::new();
    // A limit on the size of files, which needs no rights: without the signal, writes beyond it fail as on a full disk.
    let mut limited = Command::new("sh");
    let binary = env!("CARGO_BIN_EXE_selvedge");
    let script = r#"trap '' XFSZ; exec prlimit --fsize=2000000:unlimited "$0" "$@""#;
    limited.args(["-c", script, binary, "serve", "--store", &place.store()]);
    let server = Server::spawn(limited);
    assert_eq!(readiness(&server).0, 200);
    let large = json!({"kind": "k", "input": "x".repeat(100_000)});
    while post(&format!("{}/v1/executions", server.url), &large).0 == 201 {}
    check_not_ready(&server);
    let pid = server.pid().to_string();
    let lifted = Command::new("prlimit").args(["--pid", &pid, "--fsize=unlimited"]).status();
    assert!(lifted.expect("prlimit starts").success());
    wait_until_ready(&server);
}

#[test]
fn a_server_whose_file_another_program_has_locked_is_not_ready() {
    let place = Sqlite::new();
    let server = Server::start(&place);
    assert_eq!(readiness(&server).0, 200);
    let other = Connection::open(place.database()).expect("the file opens");
    other.execute_batch("begin immediate").expect("the file is locked");
    // The result of the last write is believed for a second.
    while readiness(&server).0 == 200 {}
    other.execute_batch("rollback").expect("the file is unlocked");
    wait_until_ready(&server);
}

#[test]
fn a_server_of_a_read_only_database_is_not_ready() {
    let place = Postgres::new();
    let server = Server::start(&place);
    assert_eq!(readiness(&server).0, 200);
    place.set_read_only(true);
    while readiness(&server).0 == 200 {}
    check_not_ready(&server);
    place.set_read_only(false);
    wait_until_ready(&server);
}

#[test]
fn a_server_counts_the_namespaces_whose_background_work_no_server_does() {
    let place = Postgres::new();
    let mut restricted = command();
    restricted.args(["serve", "--store", &place.store(), "--reconciler-namespace", "default"]);
    let restricted = Server::spawn(restricted);
    let uncovered = || {
        let (status, ready) = readiness(&restricted);
        assert_eq!(status, 200, "{ready}");
        ready["uncovered_namespaces"].as_u64().expect("they can be read")
    };
    assert_eq!(uncovered(), 0);
    let other = format!("{}/v1/admin/namespaces/other", restricted.url);
    assert_eq!(start_call("PUT", &other, Some(&json!({}))).response().0, 201);
    while uncovered() != 1 {}
    let everything = Server::start(&place);
    assert_eq!(readiness(&everything).1["uncovered_namespaces"], 0);
    while uncovered() != 0 {}
    everything.kill();
    while uncovered() != 1 {}
    let log = restricted.stop_and_read_log();
    assert!(log.contains("no server does the background work") && log.contains("other"), "{log}");
}
