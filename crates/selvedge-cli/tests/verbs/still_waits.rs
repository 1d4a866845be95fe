//! While an execution does not start, `wait` and `submit --wait` say why on standard error, and nowhere else.

use crate::cli::{Ended, serve};
use crate::worker::complete_one;
use std::io::{BufRead, BufReader, Read};

#[test]
fn wait_says_by_itself_that_nobody_serves_the_kind_and_each_new_reason_once() {
    let (_place, server, cli) = serve();
    let id = cli.succeed(&["submit", "k"]);
    let mut wait = cli.start(&["wait", &id]);
    let mut told = BufReader::new(wait.stderr.take().expect("it is piped"));
    let mut next = || {
        let mut line = String::new();
        told.read_line(&mut line).expect("it is text");
        line
    };
    let nobody = next();
    assert!(nobody.starts_with(&format!("selvedge: {id} still waits. No live worker")), "{nobody}");
    assert!(
        nobody.ends_with("; start one that does; `selvedge workers` lists those that live.\n"),
        "{nobody}"
    );
    cli.succeed(&["lanes", "pause", "default"]);
    assert_eq!(
        next(),
        format!(
            "selvedge: {id} still waits. Lane default is paused; `selvedge lanes resume default` may help.\n"
        )
    );
    cli.succeed(&["lanes", "resume", "default"]);
    complete_one(&server.url);
    let mut rest = String::new();
    told.read_to_string(&mut rest).expect("it is text");
    let ended = Ended::from(wait.wait_with_output().expect("it exits"));
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "\"done\"\n"));
    assert!(!rest.contains("paused"), "{rest}");
}

#[test]
fn submit_with_wait_says_why_and_keeps_its_exit_code_and_json_stays_silent() {
    let (_place, _server, cli) = serve();
    let started = [&["--wait", "--timeout", "4s"][..], &["--wait", "--timeout", "4s", "--json"]]
        .map(|flags| cli.start(&[&["submit", "nobody"], flags].concat()));
    let [told, json] = started.map(|child| Ended::from(child.wait_with_output().expect("it exits")));
    assert_eq!((told.code, told.stdout.as_str()), (14, ""), "{told:?}");
    let lines: Vec<&str> = told.stderr.lines().collect();
    assert!(matches!(lines[..], [first, _] if first.contains(" still waits. No live worker")), "{told:?}");
    assert!(lines[1].contains("has not ended in time"), "{told:?}");
    assert_eq!((json.code, json.stdout.as_str(), json.stderr.lines().count()), (14, "", 1), "{json:?}");
}
