//! The output on a pseudo-terminal, which `script` provides: colours, widths and questions.

use crate::cli::{Cli, Ended, serve};
use crate::snapshot::{Snapshot, quoted};
use crate::worker::fail_one;
use std::io::Write;
use std::process::{Command, Stdio};

/// Runs a command on a terminal of this width, on which somebody types `input`. Standard error is part of the output.
fn on_terminal(
    cli: &Cli,
    columns: u32,
    input: &str,
    variables: &[(&str, &str)],
    arguments: &[&str],
) -> Ended {
    let words: Vec<String> =
        arguments.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect();
    let binary = env!("CARGO_BIN_EXE_selvedge");
    let line = format!("stty cols {columns} rows 40; exec {binary} {}", words.join(" "));
    let mut script = Command::new("script");
    // The command of the library removes the settings of the test run itself.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("SELVEDGE_")) {
        script.env_remove(name);
    }
    cli.prepare(&mut script);
    script.env("SHELL", "/bin/sh").env("TERM", "xterm").envs(variables.iter().copied());
    script.args(["--quiet", "--return", "--command", &line, "/dev/null"]);
    let mut script = script
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("script starts");
    let mut keyboard = script.stdin.take().expect("standard input is piped");
    keyboard.write_all(input.as_bytes()).expect("the input is sent");
    let output = script.wait_with_output().expect("script exits");
    drop(keyboard);
    let mut ended = Ended::from(output);
    ended.stdout = ended.stdout.replace("\r\n", "\n");
    ended
}

#[test]
fn a_terminal_has_colours_unless_they_are_switched_off() {
    let (_place, server, cli) = serve();
    cli.succeed(&["submit", "print"]);
    fail_one(&server.url, "out of paper");
    cli.succeed(&["submit", "greet"]);
    let mut snapshot = Snapshot::new(&cli, "terminal");
    let show =
        |variables: &[(&str, &str)], arguments: &[&str]| on_terminal(&cli, 120, "", variables, arguments);
    for (variables, arguments) in [
        (&[][..], &["list"][..]),
        (&[("NO_COLOR", "1")], &["list"]),
        (&[("NO_COLOR", "")], &["list"]),
        (&[], &["list", "--color", "never"]),
        (&[("NO_COLOR", "1")], &["list", "--color", "always"]),
        (&[], &["lanes"]),
    ] {
        let variables_text: String =
            variables.iter().map(|(name, value)| format!("({name}={value}) ")).collect();
        snapshot.add(&format!("{variables_text}{}", quoted(arguments)), &show(variables, arguments));
    }
    snapshot.run(&["list", "--color", "always"]);
    snapshot.check();
    assert!(!show(&[], &["list", "--json"]).stdout.contains('\x1b'), "JSON has no colours");
}

#[test]
fn tables_are_cut_to_the_width_of_the_terminal() {
    let (_place, server, cli) = serve();
    let id = cli.succeed(&["submit", "print"]);
    fail_one(&server.url, &"out of paper ".repeat(20));
    let lines = |columns: u32| -> Vec<String> {
        let ended = on_terminal(&cli, columns, "", &[("NO_COLOR", "1")], &["list"]);
        ended.stdout.lines().map(str::to_owned).collect()
    };
    for columns in [40, 80, 140] {
        let lines = lines(columns);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert_eq!(lines[1].chars().count(), columns as usize, "{}", lines[1]);
        assert!(lines[1].starts_with(&id) && lines[1].ends_with('…'), "{}", lines[1]);
    }
    let piped = cli.succeed(&["list"]);
    assert!(
        piped.contains(&"out of paper ".repeat(20).trim_end().to_owned()),
        "a pipe gets everything: {piped}"
    );
}

#[test]
fn destructive_verbs_ask_on_a_terminal_and_do_nothing_without_consent() {
    let (_place, _server, cli) = serve();
    cli.succeed(&["submit", "k"]);
    cli.succeed(&["submit", "k"]);
    let cancel = ["cancel", "--kind", "k"];
    let question = "2 executions will be cancelled. Continue? [y/N]";
    for answer in ["n\n", "\n", "nonsense\n", "\u{4}"] {
        let ended = on_terminal(&cli, 120, answer, &[], &cancel);
        assert_eq!(ended.code, 1, "{answer:?}: {ended:?}");
        assert!(ended.stdout.contains(question) && ended.stdout.contains("nothing was changed"), "{ended:?}");
    }
    assert_eq!(cli.json(&["list", "--state", "waiting"]).len(), 2);
    let ended = on_terminal(&cli, 120, "", &[], &["cancel", "--kind", "k", "--dry-run"]);
    assert!(ended.code == 0 && !ended.stdout.contains("[y/N]"), "{ended:?}");
    let ended = on_terminal(&cli, 120, "y\n", &[], &cancel);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.stdout.contains(question) && ended.stdout.contains("2 matched, 2 cancelled"), "{ended:?}");
    assert!(cli.json(&["list", "--state", "waiting"]).is_empty());
}

#[test]
fn every_destructive_verb_asks_and_names_yes_where_it_cannot() {
    let (_place, _server, cli) = serve();
    cli.succeed(&["submit", "k"]);
    cli.succeed(&["lanes", "set", "l", "--concurrency", "1"]);
    cli.succeed(&["quotas", "set", "q", "--concurrency", "1"]);
    cli.succeed(&["budgets", "set", "b", "--hard", "tokens=1"]);
    cli.succeed(&["schedules", "set", "s", "--every", "1h", "--kind", "k"]);
    cli.succeed(&["webhooks", "set", "w", "--url", "https://example.org/", "--types", "*"]);
    cli.succeed(&["namespaces", "set", "n"]);
    cli.succeed(&["profile", "set", "p", "--server", "http://127.0.0.1:1"]);
    let key = {
        cli.succeed(&["keys", "create", "k", "--role", "reader"]);
        cli.json(&["keys"])[0]["id"].as_str().expect("an id is text").to_owned()
    };
    let commands: [&[&str]; 10] = [
        &["cancel", "--all"],
        &["lanes", "delete", "l"],
        &["quotas", "delete", "q"],
        &["budgets", "delete", "b"],
        &["budgets", "reset", "b"],
        &["schedules", "delete", "s"],
        &["webhooks", "delete", "w"],
        &["namespaces", "delete", "n"],
        &["keys", "revoke", &key],
        &["profile", "delete", "p"],
    ];
    for arguments in commands {
        let (code, line) = cli.fail(arguments);
        assert_eq!(code, 2, "{line}");
        assert!(line.ends_with("There is no terminal to ask at: repeat the command with --yes"), "{line}");
        let ended = on_terminal(&cli, 120, "n\n", &[], arguments);
        assert_eq!(ended.code, 1, "{arguments:?}: {ended:?}");
        assert!(ended.stdout.contains("Continue? [y/N]"), "{arguments:?}: {ended:?}");
    }
    let elsewhere = ["lanes", "delete", "l", "--server", "https://selvedge.invalid"];
    assert!(
        cli.fail(&elsewhere).1.contains("The server is https://selvedge.invalid."),
        "it is named before it is asked"
    );
    // Nothing happened, so each can still be done.
    for arguments in commands.iter().rev() {
        cli.succeed(&[arguments, &["--yes"][..]].concat());
    }
}
