//! Failures of the command line: one line on standard error, and exit code 2 for wrong usage or 1 otherwise.

use crate::support::{Directory, Place, Postgres, Server, Sqlite, command, submit};
use serde_json::json;

/// Runs the binary. Returns its exit code, standard output and standard error.
fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let directory = Directory::new();
    let output = command().args(arguments).current_dir(directory.path()).output();
    let output = output.expect("the binary starts");
    let text = |bytes| String::from_utf8(bytes).expect("output is text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Asserts that the binary exits with `code` and prints one line that contains `text`.
fn check_refusal(arguments: &[&str], code: i32, text: &str) {
    let (actual, stdout, stderr) = run(arguments);
    assert_eq!((actual, stdout.as_str()), (Some(code), ""), "{arguments:?}: {stderr}");
    assert!(stderr.contains(text), "{arguments:?}: {stderr}");
    assert_eq!(stderr.lines().count(), 1, "{arguments:?}: {stderr}");
}

#[test]
fn invalid_arguments_exit_with_two_and_name_valid_ones() {
    check_refusal(&["serve", "--listen", "0.0.0.0:0"], 2, "loopback");
    check_refusal(&["serve", "--listen", "7878"], 2, "IP:PORT");
    check_refusal(&["serve", "--store", "mysql://h/d"], 2, "sqlite:PATH");
    check_refusal(&["serve", "--store", "valkey://h"], 2, "not available yet");
    check_refusal(&["serve", "--log", "selvedge=loud"], 2, "log filter");
    check_refusal(&["serve", "--log-window", "a week"], 2, "for example 90s, 30m, 12h or 7d");
    let (code, _, stderr) = run(&["serve", "--prot", "1"]);
    assert_eq!(code, Some(2), "{stderr}");
}

#[test]
fn an_invalid_environment_variable_is_an_error_that_names_it_and_what_would_be_right() {
    for (variable, value, right) in [
        ("SELVEDGE_POLL", "maybe", "true or false"),
        ("SELVEDGE_JSON", "ja", "true or false"),
        ("SELVEDGE_ALLOW_SHELL", "2", "true or false"),
        ("SELVEDGE_LISTEN", "7878", "IP:PORT"),
        ("SELVEDGE_LOG_WINDOW", "a week", "7d"),
        ("SELVEDGE_STORE", "mysql://h/d", "sqlite:PATH"),
        ("SELVEDGE_LOG", "selvedge=loud", "warn,selvedge=info"),
    ] {
        let directory = Directory::new();
        let output = command().arg("dev").env(variable, value).current_dir(directory.path()).output();
        let output = output.expect("the binary starts");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{variable}={value}: {stderr}");
        assert!(stderr.contains(variable) && stderr.contains(right), "{variable}={value}: {stderr}");
    }
}

#[test]
fn a_port_in_use_is_named_and_the_store_is_closed() {
    let place = Sqlite::new();
    let server = Server::start(&place);
    let listen = server.url.strip_prefix("http://").expect("the URL has the scheme http");
    let other = Sqlite::new();
    let arguments = ["serve", "--store", &other.store(), "--listen", listen];
    check_refusal(&arguments, 1, &format!("{listen}: the port is in use"));
    Server::start(&other);
}

#[test]
fn a_store_that_cannot_be_reached_is_named_without_its_password() {
    // Nothing listens on port 1 of this machine.
    let store = "postgres://ada:secret@127.0.0.1:1/work";
    check_refusal(
        &["serve", "--store", store, "--listen", "127.0.0.1:0"],
        1,
        "cannot open the store postgres://ada:***@127.0.0.1:1/work",
    );
    check_refusal(
        &["serve", "--store", "sqlite:no/such/directory/a.db", "--listen", "127.0.0.1:0"],
        1,
        "no/such/directory",
    );
}

#[test]
fn help_and_version_go_to_standard_output_and_exit_with_zero() {
    let (code, stdout, _) = run(&["--version"]);
    let version = format!("selvedge {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!((code, stdout), (Some(0), version));
    for arguments in [&["--help"][..], &["serve", "--help"], &["dev", "--help"]] {
        let (code, stdout, _) = run(arguments);
        assert_eq!(code, Some(0));
        assert!(stdout.contains("Examples:"), "{stdout}");
    }
}

#[test]
fn a_postgres_database_that_cannot_be_a_store_is_refused_with_the_statement_that_helps() {
    let refused = |store: &str, expected: &[&str]| {
        let output = command().args(["serve", "--listen", "127.0.0.1:0", "--store", store]).output();
        let output = output.expect("the binary starts");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), stderr.lines().count()), (Some(1), 1), "{stderr}");
        for text in expected {
            assert!(stderr.contains(text), "{text}: {stderr}");
        }
        assert!(!stderr.contains("check the address"), "{stderr}");
    };
    let read_only = Postgres::new();
    read_only.set_read_only(true);
    refused(&read_only.store(), &["accepts no writes", "set default_transaction_read_only = off"]);

    let latin = Postgres::with("encoding 'LATIN1' locale 'C' template template0");
    refused(&latin.store(), &["encoding 'UTF8' template template0"]);

    let place = Postgres::new();
    let role = place.create_role();
    refused(&place.store_as(&role), &["authorization ROLE", "grant create on database"]);
    place.run(&format!("create schema selvedge authorization {role}"));
    let mut serve = command();
    serve.args(["serve", "--store", &place.store_as(&role)]);
    submit(&Server::spawn(serve).url, json!({"kind": "k"}));
    place.run(&format!("drop owned by {role}; drop role {role}"));
}

#[test]
fn the_time_limits_of_a_database_do_not_end_a_migration() {
    let place = Postgres::new();
    for setting in ["idle_in_transaction_session_timeout", "statement_timeout"] {
        place.configure(setting, "1");
    }
    submit(&Server::start(&place).url, json!({"kind": "k"}));
}
