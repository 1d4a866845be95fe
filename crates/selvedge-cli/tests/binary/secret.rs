//! The root secret of tokens: where it may come from, and that it is never shown.

use crate::support::{
    Directory, Place, Server, Sqlite, claim, command, on_each_store, post, result, submit, text,
};
use serde_json::{Value, json};
use std::process::Command;

on_each_store!(
    a_token_is_accepted_by_every_server_with_the_secret_that_signed_it_and_by_no_other,
    without_a_secret_the_store_keeps_one_and_the_log_says_so,
);

const SECRET: &str = "a secret of the test";
const OTHER: &str = "another secret of it";

/// `selvedge serve` on this place, with these variables.
fn serve(place: &impl Place, variables: &[(&str, &str)]) -> Command {
    let mut serve = command();
    serve.args(["serve", "--store", &place.store()]).envs(variables.iter().copied());
    serve
}

/// Makes an execution wait for `go`; gives the waitpoint through which it may come.
fn waitpoint(url: &str) -> Value {
    submit(url, json!({"kind": "k"}));
    let claim = claim(url, "w", 1, 0).remove(0);
    let op = json!({
        "op": "suspend", "execution": claim["execution"]["id"], "attempt": claim["attempt"],
        "lease_id": claim["lease"]["id"], "epoch": claim["lease"]["epoch"],
        "condition": {"signal": "go"}, "waitpoints": ["go"],
    });
    let (status, answer) = post(&format!("{url}/v1/workers/w/report"), &json!({"ops": [op]}));
    assert_eq!(status, 200, "{answer}");
    answer["results"][0]["waitpoints"][0].clone()
}

/// Delivers through a waitpoint; gives status and answer.
fn deliver(url: &str, waitpoint: &Value) -> (u16, Value) {
    let path = format!("{url}/v1/waitpoints/{}/signal", text(&waitpoint["id"]));
    post(&path, &json!({"token": waitpoint["token"]}))
}

fn a_token_is_accepted_by_every_server_with_the_secret_that_signed_it_and_by_no_other(place: &impl Place) {
    let directory = Directory::new();
    let file = directory.path().join("secret");
    std::fs::write(&file, format!("{SECRET}\n")).expect("the file is written");
    let file = file.to_str().expect("a path");

    let mut server = Server::spawn(serve(place, &[("SELVEDGE_SECRET", SECRET)]));
    server.logs("the secret of SELVEDGE_SECRET");
    let made = waitpoint(&server.url);
    server.kill();

    let mut server = Server::spawn(serve(place, &[("SELVEDGE_SECRET", OTHER)]));
    server.logs("signed under another secret");
    let (status, refused) = deliver(&server.url, &made);
    assert_eq!((status, &refused["code"]), (401, &json!("invalid_token")), "{refused}");
    server.kill();

    // The same from a file, named by a flag and by a variable.
    let mut by_flag = serve(place, &[]);
    by_flag.args(["--secret-file", file]);
    let mut server = Server::spawn(by_flag);
    server.logs(&format!("the secret of the secret file {file}"));
    let (status, delivered) = deliver(&server.url, &made);
    assert_eq!((status, &delivered["effect"]), (200, &json!("resumed")), "{delivered}");
    server.kill();
    let server = Server::spawn(serve(place, &[("SELVEDGE_SECRET_FILE", file)]));
    assert_eq!(deliver(&server.url, &made), (200, delivered));
}

fn without_a_secret_the_store_keeps_one_and_the_log_says_so(place: &impl Place) {
    let mut server = Server::spawn(serve(place, &[]));
    server.logs("a secret that the store keeps; set SELVEDGE_SECRET or SELVEDGE_SECRET_FILE");
    let made = waitpoint(&server.url);
    server.kill();
    let server = Server::start(place);
    assert_eq!(deliver(&server.url, &made).0, 200);
}

#[test]
fn a_secret_that_is_given_twice_or_too_short_or_not_there_is_refused_in_one_line() {
    let directory = Directory::new();
    let short = directory.path().join("short");
    std::fs::write(&short, "0123456789abcde\n").expect("the file is written");
    let short = short.to_str().expect("a path");
    let missing = directory.path().join("missing");
    let missing = missing.to_str().expect("a path");
    for (variables, code, said) in [
        (vec![("SELVEDGE_SECRET", SECRET), ("SELVEDGE_SECRET_FILE", short)], 2, "both given; keep one"),
        (vec![("SELVEDGE_SECRET", "0123456789abcde")], 2, "SELVEDGE_SECRET is 15 bytes long"),
        (vec![("SELVEDGE_SECRET", "")], 2, "at least 16 random bytes"),
        (vec![("SELVEDGE_SECRET_FILE", short)], 2, "is 15 bytes long"),
        (vec![("SELVEDGE_SECRET_FILE", missing)], 1, "cannot read the secret file"),
    ] {
        for subcommand in ["serve", "dev"] {
            let place = Sqlite::new();
            let mut refused = command();
            refused.args([subcommand, "--store", &place.store(), "--listen", "127.0.0.1:0"]);
            let output = refused.envs(variables.iter().copied()).output().expect("it starts");
            let told = String::from_utf8(output.stderr).expect("messages are text");
            assert_eq!(output.status.code(), Some(code), "{told}");
            assert!(told.contains(said) && told.lines().count() == 1, "{told}");
            assert!(output.stdout.is_empty() && !told.contains(SECRET) && !told.contains("abcde"), "{told}");
        }
    }
}

#[test]
fn the_secret_shows_up_neither_in_the_log_nor_in_the_commands_that_are_run() {
    let place = Sqlite::new();
    let mut dev = command();
    dev.args(["dev", "--store", &place.store(), "--allow-shell", "--json", "--log", "warn,selvedge=trace"]);
    dev.env("SELVEDGE_SECRET", SECRET);
    let server = Server::spawn(dev);
    let id =
        submit(&server.url, json!({"kind": "shell", "input": {"command": "echo [$SELVEDGE_SECRET]; env"}}));
    let stdout = text(&result(&server.url, &id).1["result"]["stdout"]);
    assert!(stdout.starts_with("[]\n") && !stdout.contains(SECRET), "{stdout}");
    let log = server.log_to_the_end();
    assert!(log.contains("the secret of SELVEDGE_SECRET") && !log.contains(SECRET), "{log}");
}
