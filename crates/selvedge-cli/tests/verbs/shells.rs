//! Output that is generated from the command line: completions, manual pages, and the help of every command.

use crate::cli::Cli;
use crate::support::Directory;
use std::process::{Command, Stdio};

/// Returns every command with the words that call it, and its help. The program itself has no words.
fn every_command(cli: &Cli) -> Vec<(Vec<String>, String)> {
    let mut open: Vec<Vec<String>> = vec![Vec::new()];
    let mut found = Vec::new();
    while let Some(words) = open.pop() {
        let mut arguments: Vec<&str> = words.iter().map(String::as_str).collect();
        arguments.push("--help");
        let help = cli.succeed(&arguments);
        let (_, listed) = help.split_once("\nCommands:\n").unwrap_or_default();
        for line in listed.lines().take_while(|line| !line.is_empty()) {
            // Descriptions that go on in the next line are indented further than names.
            let name = line.strip_prefix("  ").and_then(|rest| rest.split(' ').next()).unwrap_or_default();
            if !name.is_empty() && name != "help" {
                open.push([&words[..], &[name.to_owned()]].concat());
            }
        }
        found.push((words, help));
    }
    found
}

#[test]
fn the_help_of_every_command_has_an_example_that_calls_it() {
    let cli = Cli::new("");
    let commands = every_command(&cli);
    assert!(commands.len() > 80, "the commands are found: {}", commands.len());
    for (words, help) in commands {
        let call = format!("  selvedge {}", words.join(" "));
        let (_, examples) =
            help.split_once("Example").unwrap_or_else(|| panic!("{words:?} has no example:\n{help}"));
        assert!(examples.contains(call.trim_end()), "no example of {words:?} calls it:\n{help}");
        let first = help.lines().next().expect("help has a line");
        assert!(!first.is_empty() && !first.ends_with('.'), "{words:?}: {first}");
    }
}

#[test]
fn there_is_a_manual_page_for_every_command() {
    let (cli, directory) = (Cli::new(""), Directory::new());
    cli.succeed(&["man", directory.path().to_str().expect("the path is text")]);
    for (words, _) in every_command(&cli) {
        let name = [&["selvedge".to_owned()], &words[..]].concat().join("-");
        let page = std::fs::read_to_string(directory.path().join(format!("{name}.1")));
        let page = page.unwrap_or_else(|error| panic!("{name}.1: {error}"));
        assert!(page.contains(".SH NAME") && page.contains("Example"), "{name}.1: {page}");
    }
    let (code, line) = cli.fail(&["man", "/no/such/directory"]);
    assert_eq!(code, 1);
    assert!(line.contains("/no/such/directory"), "{line}");
}

/// Runs a script with a shell. Returns its standard output.
fn run(shell: &str, flags: &[&str], script: &str) -> String {
    let mut command = Command::new(shell);
    let output = command.args(flags).arg(script).stdin(Stdio::null()).output().expect("the shell starts");
    assert!(output.status.success() && output.stderr.is_empty(), "{shell}: {output:?}");
    String::from_utf8(output.stdout).expect("the output is text")
}

#[test]
fn bash_completes_verbs_commands_and_flags() {
    let cli = Cli::new("");
    let directory = Directory::new();
    let file = directory.path().join("selvedge.bash");
    std::fs::write(&file, cli.succeed(&["completions", "bash"])).expect("the file is written");
    let file = file.to_str().expect("the path is text");
    run("bash", &["-n"], file);
    let complete = |words: &[&str]| {
        let (last, line) = (words.len() - 1, words.join(" "));
        let script = format!(
            "source {file}; COMP_WORDS=({line}{}); COMP_CWORD={last}; COMP_LINE='{line}'; COMP_POINT=${{#COMP_LINE}}; \
             _selvedge selvedge '{}' '{}'; echo \"${{COMPREPLY[*]}}\"",
            if words[last].is_empty() { " ''" } else { "" },
            words[last],
            words[last - 1],
        );
        run("bash", &["--norc", "-c"], &script).trim_end().to_owned()
    };
    assert_eq!(complete(&["selvedge", "fl"]), "flow");
    assert_eq!(complete(&["selvedge", "flow", "gr"]), "graph");
    assert_eq!(complete(&["selvedge", "submit", "--idem"]), "--idempotency-key");
    let all = complete(&["selvedge", ""]);
    assert!(all.contains("submit") && all.contains("events"), "{all}");
}

#[test]
fn other_shells_accept_their_completions() {
    let cli = Cli::new("");
    let directory = Directory::new();
    for (shell, flags) in [("zsh", &["-n"][..]), ("fish", &["--no-execute"])] {
        let script = cli.succeed(&["completions", shell]);
        assert!(script.contains("idempotency-key") && script.contains("graph"), "{shell}");
        let file = directory.path().join(shell);
        std::fs::write(&file, script).expect("the file is written");
        // Where the shell is not installed, the script is only written.
        if Command::new(shell).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok() {
            run(shell, flags, file.to_str().expect("the path is text"));
        }
    }
    let ended = cli.run(&["completions", "tcsh"]);
    assert_eq!(ended.code, 2);
    assert!(ended.stderr.contains("bash"), "{ended:?}");
}
