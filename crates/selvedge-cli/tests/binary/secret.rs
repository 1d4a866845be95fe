//! The root secret of waitpoint tokens: its sources, and that it is never shown.

use crate::support::{
    Directory, Place, Server, Sqlite, claim, command, on_each_store, post, result, submit, text,
};
use serde_json::{Value, json};
use std::process::Command;

on_each_store!(
    a_token_is_accepted_by_every_server_with_the_secret_that_signed_it_and_by_no_other,
    without_a_secret_the_store_keeps_one_and_the_log_says_so,
);

const SECRET: &str = "the secret of the test";
const OTHER_SECRET: &str = "a different secret of it";

/// Returns the command `selvedge serve` for the store of `place`, with these environment variables.
fn serve(place: &impl Place, variables: &[(&str, &str)]) -> Command {
    let mut serve = command();
    serve.args(["serve", "--store", &place.store()]).envs(variables.iter().copied());
    serve
}

/// Suspends an execution until the signal `go`. Returns its waitpoint with the token.
fn create_waitpoint(url: &str) -> Value {
    submit(url, json!({"kind": "k"}));
    let claim = claim(url, "w", 1, 0).remove(0);
    let op = json!({
        "op": "suspend", "execution": claim["execution"]["id"], "attempt": claim["attempt"],
        "lease_id": claim["lease"]["id"], "epoch": claim["lease"]["epoch"],
        "condition": {"signal": "go"}, "waitpoints": ["go"],
    });
    let (status, response) = post(&format!("{url}/v1/workers/w/report"), &json!({"ops": [op]}));
    assert_eq!(status, 200, "{response}");
    response["results"][0]["waitpoints"][0].clone()
}

/// Delivers a signal through a waitpoint. Returns status and response.
fn deliver(url: &str, waitpoint: &Value) -> (u16, Value) {
    let path = format!("{url}/v1/waitpoints/{}/signal", text(&waitpoint["id"]));
    post(&path, &json!({"token": waitpoint["token"]}))
}

fn a_token_is_accepted_by_every_server_with_the_secret_that_signed_it_and_by_no_other(place: &impl Place) {
    let directory = Directory::new();
    let file = directory.path().join("secret");
    std::fs::write(&file, format!("{SECRET}\n")).expect("the file is written");
    let file = file.to_str().expect("the path is UTF-8");

    let mut server = Server::spawn(serve(place, &[("SELVEDGE_SECRET", SECRET)]));
    server.wait_for_log("the secret from SELVEDGE_SECRET");
    let waitpoint = create_waitpoint(&server.url);
    server.kill();

    let mut server = Server::spawn(serve(place, &[("SELVEDGE_SECRET", OTHER_SECRET)]));
    server.wait_for_log("another secret");
    let (status, refused) = deliver(&server.url, &waitpoint);
    assert_eq!((status, &refused["code"]), (401, &json!("invalid_token")), "{refused}");
    server.kill();

    // The same secret from a file, given by a flag and by a variable.
    let mut by_flag = serve(place, &[]);
    by_flag.args(["--secret-file", file]);
    let mut server = Server::spawn(by_flag);
    server.wait_for_log(&format!("the secret from the secret file {file}"));
    let (status, delivered) = deliver(&server.url, &waitpoint);
    assert_eq!((status, &delivered["effect"]), (200, &json!("resumed")), "{delivered}");
    server.kill();
    let server = Server::spawn(serve(place, &[("SELVEDGE_SECRET_FILE", file)]));
    let mut repeated = delivered;
    repeated["duplicate"] = json!(true);
    assert_eq!(deliver(&server.url, &waitpoint), (200, repeated));
}

fn without_a_secret_the_store_keeps_one_and_the_log_says_so(place: &impl Place) {
    let mut server = Server::spawn(serve(place, &[]));
    server.wait_for_log(match place.store().starts_with("sqlite:") {
        true => "the secret in ",
        false => "a secret that the store keeps; set SELVEDGE_SECRET or SELVEDGE_SECRET_FILE",
    });
    let waitpoint = create_waitpoint(&server.url);
    server.kill();
    let server = Server::start(place);
    assert_eq!(deliver(&server.url, &waitpoint).0, 200);
}

#[test]
fn a_secret_that_is_given_twice_or_too_short_or_missing_is_refused_in_one_line() {
    let directory = Directory::new();
    let short = directory.path().join("short");
    std::fs::write(&short, "0123456789abcde\n").expect("the file is written");
    let short = short.to_str().expect("the path is UTF-8");
    let missing = directory.path().join("missing");
    let missing = missing.to_str().expect("the path is UTF-8");
    for (variables, code, expected) in [
        (vec![("SELVEDGE_SECRET", SECRET), ("SELVEDGE_SECRET_FILE", short)], 2, "both given; keep only one"),
        (vec![("SELVEDGE_SECRET", "0123456789abcde")], 2, "SELVEDGE_SECRET has 15 bytes"),
        (vec![("SELVEDGE_SECRET", "")], 2, "at least 16 random bytes"),
        (vec![("SELVEDGE_SECRET_FILE", short)], 2, "has 15 bytes"),
        (vec![("SELVEDGE_SECRET_FILE", missing)], 1, "cannot read the secret file"),
    ] {
        for subcommand in ["serve", "dev"] {
            let place = Sqlite::new();
            let mut refused = command();
            refused.args([subcommand, "--store", &place.store(), "--listen", "127.0.0.1:0"]);
            let output = refused.envs(variables.iter().copied()).output().expect("the binary starts");
            let message = String::from_utf8(output.stderr).expect("messages are text");
            assert_eq!(output.status.code(), Some(code), "{message}");
            assert!(message.contains(expected) && message.lines().count() == 1, "{message}");
            assert!(output.stdout.is_empty(), "{message}");
            assert!(!message.contains(SECRET) && !message.contains("abcde"), "{message}");
        }
    }
}

#[test]
fn the_secret_is_neither_in_the_log_nor_in_the_environment_of_commands() {
    let place = Sqlite::new();
    let mut dev = command();
    dev.args(["dev", "--store", &place.store(), "--allow-shell", "--json", "--log", "warn,selvedge=trace"]);
    dev.env("SELVEDGE_SECRET", SECRET);
    let server = Server::spawn(dev);
    let id = submit(
        &server.url,
        json!({"kind": "demo.shell", "input": {"command": "echo [$SELVEDGE_SECRET]; env"}}),
    );
    let stdout = text(&result(&server.url, &id).1["result"]["stdout"]);
    assert!(stdout.starts_with("[]\n") && !stdout.contains(SECRET), "{stdout}");
    let log = server.stop_and_read_log();
    assert!(log.contains("the secret from SELVEDGE_SECRET") && !log.contains(SECRET), "{log}");
}
