//! `selvedge doctor` against real stores and servers: each fault is found with its remedy, and the exit code follows.

use crate::support::{Directory, Place, Postgres, Server, Sqlite, command};
use serde_json::Value;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

const ADMIN: &str = "admin-key-0123456789abcdef";
/// The longest time that a test waits; nothing here takes as long.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Returns a command without profiles.
fn selvedge(directory: &Directory) -> Command {
    let mut command = command();
    command.env("XDG_CONFIG_HOME", directory.path());
    command
}

/// Returns the exit code, the findings and standard error of a doctor.
fn findings(mut doctor: Command) -> (Option<i32>, Vec<Value>, String) {
    let Output { status, stdout, stderr } = doctor.arg("--json").output().expect("the binary starts");
    let lines = String::from_utf8(stdout).expect("the output is text");
    let findings = lines.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect();
    (status.code(), findings, String::from_utf8_lossy(&stderr).into_owned())
}

/// Reports whether a finding has a check, a level, and texts in its message and remedy.
fn has(findings: &[Value], check: &str, level: &str, message: &str, remedy: &str) -> bool {
    findings.iter().any(|finding| {
        finding["check"] == check
            && finding["level"] == level
            && finding["message"].as_str().is_some_and(|text| text.contains(message))
            && finding["remedy"].as_str().unwrap_or_default().contains(remedy)
    })
}

#[test]
fn faults_of_a_server_are_found_with_their_remedies() {
    let (directory, place) = (Directory::new(), Postgres::new());
    let mut serve = command();
    serve.env("SELVEDGE_ADMIN_KEY", ADMIN).args([
        "serve",
        "--store",
        &place.store(),
        "--webhook-allow-private",
    ]);
    // A failed delivery is given up by its second attempt.
    serve.args(["--webhook-retry-for", "1s", "--webhook-pause-after", "1s"]);
    let server = Server::spawn(serve);
    let run = |arguments: &[&str]| {
        let mut command = selvedge(&directory);
        command.env("SELVEDGE_SERVER", &server.url).env("SELVEDGE_KEY", ADMIN).args(arguments);
        let output = command.output().expect("the binary starts");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("the output is text").trim().to_owned()
    };
    let doctor = |key: &str| {
        let mut doctor = selvedge(&directory);
        doctor.env("SELVEDGE_KEY", key).args(["doctor", "--server", &server.url]);
        doctor
    };
    let (code, sound, errors) = findings(doctor(ADMIN));
    assert_eq!(code, Some(0), "{errors}");
    assert!(sound.iter().all(|finding| finding["level"] == "ok"), "{sound:?}");

    run(&["submit", "k", "--lane", "stuck"]);
    run(&["submit", "k", "--lane", "resting"]);
    run(&["lanes", "pause", "resting"]);
    let reader = run(&["keys", "create", "soon", "--role", "reader", "--for", "default", "--expires", "3d"]);
    run(&["keys", "create", "later", "--role", "reader", "--expires", "90d"]);
    run(&["webhooks", "set", "broken", "--url", "http://127.0.0.1:1/hook", "--types", "execution.submitted"]);
    run(&["submit", "k", "--lane", "resting"]);
    place.run("select selvedge.submit('k', lane => 'mail', quotas => array['none'], notify => true)");
    let expected = [
        ("lanes", "1 executions wait in the lane stuck, and no live worker", "start a worker"),
        ("lanes", "2 executions wait in the lane resting, which is paused", "selvedge lanes resume resting"),
        ("keys", "the key \"soon\" of the role reader expires in 2d 23h", "--role reader --for default"),
        ("webhooks", "1 deliveries of the webhook broken were given up", "webhooks replay broken"),
        ("inbox", "1 submissions from SQL were refused", "selvedge inbox retry"),
    ];
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let (code, found, errors) = findings(doctor(ADMIN));
        assert_eq!(code, Some(0), "warnings are no errors: {errors}");
        let missing: Vec<_> = expected
            .iter()
            .filter(|(check, message, remedy)| !has(&found, check, "warning", message, remedy))
            .collect();
        if missing.is_empty() {
            assert!(!has(&found, "keys", "warning", "later", ""), "{found:?}");
            break;
        }
        assert!(Instant::now() < deadline, "{missing:?} is not in {found:#?}");
    }
    let (code, found, _) = findings(doctor(&reader));
    assert_eq!(code, Some(0));
    assert!(has(&found, "keys", "notice", "only a key of the role admin may", "role admin"), "{found:?}");
    let (code, found, errors) = findings(doctor("no-such-key-0123456789"));
    assert_eq!(code, Some(1), "{errors}");
    assert!(has(&found, "key", "error", "", "SELVEDGE_KEY"), "{found:?}");
    assert!(!found.iter().any(|finding| finding["check"] == "lanes"), "nothing else can be asked: {found:?}");
}

#[test]
fn a_store_is_examined_beside_its_server_and_after_it_was_killed() {
    let (directory, place) = (Directory::new(), Sqlite::new());
    let server = Server::start(&place);
    let doctor = |server: Option<&str>| {
        let mut doctor = selvedge(&directory);
        doctor.args(["doctor", "--store", &place.store()]);
        server.iter().for_each(|url| {
            doctor.args(["--server", url]);
        });
        doctor
    };
    let (code, found, errors) = findings(doctor(Some(&server.url)));
    assert_eq!(code, Some(0), "{errors}");
    let owner = format!("process {} serves the file at {}", server.pid(), server.url);
    assert!(has(&found, "owner", "ok", &owner, ""), "{found:?}");
    let subjects: Vec<&str> = found.iter().filter_map(|finding| finding["subject"].as_str()).collect();
    assert!(subjects.first().is_some_and(|first| first.starts_with("store sqlite:")), "{subjects:?}");
    assert_eq!(subjects.last(), Some(&format!("server {}", server.url).as_str()));
    server.kill();
    let (code, found, errors) = findings(doctor(None));
    assert_eq!(code, Some(0), "{errors}");
    assert!(has(&found, "owner", "ok", "ended without closing it", ""), "{found:?}");
    assert!(found.iter().all(|finding| finding["subject"] != "server http://127.0.0.1:7878"), "{found:?}");
    // The file of the killed server is whole.
    assert!(has(&found, "damage", "ok", "", ""), "{found:?}");
    Server::start(&place).kill();
}

#[test]
fn a_postgres_store_is_examined_and_a_password_is_not_shown() {
    let (directory, place) = (Directory::new(), Postgres::new());
    let server = Server::start(&place);
    let mut doctor = selvedge(&directory);
    doctor.args(["doctor", "--store", &place.store_with_password("hidden-password")]);
    let (_, found, _) = findings(doctor);
    for check in
        ["reachable", "clock", "pooler", "tls", "connections", "schema", "indexes", "partitions", "waiting"]
    {
        assert!(has(&found, check, "ok", "", ""), "{check}: {found:#?}");
    }
    assert!(!format!("{found:?}").contains("hidden-password"));
    drop(server);
}

#[test]
fn without_a_server_the_doctor_says_what_to_do() {
    let directory = Directory::new();
    let mut doctor = selvedge(&directory);
    doctor.args(["doctor", "--server", "http://127.0.0.1:1"]);
    let (code, found, errors) = findings(doctor);
    assert_eq!((code, found.len()), (Some(1), 1), "{errors}");
    assert!(has(&found, "reachable", "error", "cannot reach the server", "--store"), "{found:?}");
    let mut doctor = selvedge(&directory);
    doctor.args(["doctor", "--store", "mysql://h/db"]);
    assert_eq!(findings(doctor).0, Some(2), "an address of another kind is a mistake in the command line");
}

#[test]
fn the_text_for_people_is_aligned_and_names_remedies() {
    let (directory, place) = (Directory::new(), Sqlite::new());
    let mut doctor = selvedge(&directory);
    let output = doctor.args(["doctor", "--store", &place.store()]).output().expect("the binary starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "the file does not exist");
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("store sqlite:"), "{text}");
    assert!(lines[1].starts_with("  error    file  "), "{text}");
    assert!(lines[2].trim_start().starts_with("→ "), "{text}");
    assert_eq!(lines.last(), Some(&"1 error"), "{text}");
}
