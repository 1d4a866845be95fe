//! The tables of commands and flags in `docs/cli.md`, generated from the command line itself.

use crate::Arguments;
use clap::{Arg, Command, CommandFactory};
use std::fmt::Write;

/// The lines around the generated part of the page.
const MARKS: [&str; 2] =
    ["<!-- commands: SELVEDGE_REGENERATE=1 cargo test -p selvedge-cli reference -->", "<!-- end -->"];
/// The headings of flags that many commands share, each with a table of its own.
const SHARED: [&str; 3] = ["Filter", "Server", "Output"];
/// The commands whose flags another page has.
const ELSEWHERE: [(&str, &str); 3] = [
    ("serve", "[Configuration](configuration.md)"),
    ("dev", "[Configuration](configuration.md)"),
    ("bench", "[Benchmarks](benchmarks.md#options)"),
];

/// Returns a flag or an argument as one writes it.
fn usage(argument: &Arg) -> String {
    let several = argument.get_num_args().is_some_and(|count| count.max_values() > 1);
    let value = argument.get_value_names().map_or("", |names| names[0].as_str());
    let value = if several { format!("{value}…") } else { value.to_owned() };
    let takes_value = argument.get_action().takes_values();
    match argument.get_long() {
        Some(long) if takes_value => format!("--{long} {value}"),
        Some(long) => format!("--{long}"),
        None if argument.is_required_set() => value,
        None => format!("[{value}]"),
    }
}

/// Returns the arguments of a command that are its own, in their order.
fn own(command: &Command) -> impl Iterator<Item = &Arg> {
    let is_shared = |argument: &Arg| argument.get_help_heading().is_some_and(|name| SHARED.contains(&name));
    command.get_arguments().filter(move |argument| {
        !argument.is_hide_set()
            && !is_shared(argument)
            && !["help", "version", "log"].contains(&argument.get_id().as_str())
    })
}

/// Adds the row of a command, and those of its commands.
fn add_rows(command: &Command, words: &str, rows: &mut String) {
    for command in
        command.get_subcommands().filter(|command| command.get_name() != "help" && !command.is_hide_set())
    {
        let words = format!("{words}{}", command.get_name());
        let places: String = own(command)
            .filter(|one| one.get_long().is_none())
            .map(|one| format!(" {}", usage(one)))
            .collect();
        let mut flags: Vec<String> = own(command)
            .filter(|one| one.get_long().is_some())
            .map(|one| format!("`{}`", usage(one)))
            .collect();
        if let Some((_, page)) = ELSEWHERE.iter().find(|(command, _)| *command == words) {
            flags = vec![(*page).into()];
        }
        if command.get_arguments().any(|argument| argument.get_help_heading() == Some("Filter")) {
            flags.push("[filters](#filters)".into());
        }
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(rows, "| `{words}{places}` | {about} | {} |", flags.join(", "));
        add_rows(command, &format!("{words} "), rows);
    }
}

/// Returns the table of the flags under a heading. All commands that have one of them have all.
fn shared(command: &Command, heading: &str) -> String {
    let mut rows = String::new();
    let arguments = command.get_arguments().filter(|argument| argument.get_help_heading() == Some(heading));
    for argument in arguments {
        let variable =
            argument.get_env().map_or(String::new(), |name| format!(" or `{}`", name.to_string_lossy()));
        let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(rows, "| `{}`{variable} | {help} |", usage(argument));
    }
    format!("| flag | meaning |\n| --- | --- |\n{rows}")
}

/// Returns the generated part of the page.
fn generated() -> String {
    let mut command = Arguments::command();
    command.build();
    let mut rows = String::new();
    add_rows(&command, "", &mut rows);
    let cancel = command.find_subcommand("cancel").expect("there is a command cancel");
    let [filters, server, output] = SHARED.map(|heading| shared(cancel, heading));
    format!(
        "| command | purpose | flags |\n| --- | --- | --- |\n{rows}\n### Flags of every command that talks to a server\n\n{server}\n\
         ### Flags of output\n\n{output}\n### Filters\n\n{filters}"
    )
}

#[test]
fn the_page_of_the_command_line_has_every_command_and_flag() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli.md");
    let page = std::fs::read_to_string(path).expect("the page is read");
    let [begin, end] = MARKS;
    let (before, rest) = page.split_once(begin).expect("the page has the table");
    let (_, after) = rest.split_once(end).expect("the table has an end");
    let expected = format!("{before}{begin}\n\n{}\n{end}{after}", generated());
    if std::env::var_os("SELVEDGE_REGENERATE").is_some() {
        std::fs::write(path, &expected).expect("the page is written");
    } else {
        assert_eq!(page, expected, "run SELVEDGE_REGENERATE=1 cargo test -p selvedge-cli reference");
    }
}

/// A flag under a shared heading must mean the same in every command, because the page describes it once.
#[test]
fn shared_flags_are_the_same_in_every_command() {
    fn check(command: &Command, expected: &Command) {
        for argument in command.get_arguments() {
            let Some(heading) = argument.get_help_heading().filter(|name| SHARED.contains(name)) else {
                continue;
            };
            // Filters select the targets of an action; --all is one of them that a list does not need.
            let same = expected.get_arguments().find(|one| one.get_id() == argument.get_id());
            let same = same.unwrap_or_else(|| {
                panic!("{} has {} under {heading}", command.get_name(), argument.get_id())
            });
            assert_eq!(usage(argument), usage(same), "{}", command.get_name());
            assert_eq!(
                argument.get_help().map(ToString::to_string),
                same.get_help().map(ToString::to_string)
            );
        }
        command.get_subcommands().for_each(|command| check(command, expected));
    }
    let mut command = Arguments::command();
    command.build();
    let expected = command.find_subcommand("cancel").expect("there is a command cancel").clone();
    let talks = |command: &&Command| !ELSEWHERE.iter().any(|(name, _)| *name == command.get_name());
    command.get_subcommands().filter(talks).for_each(|command| check(command, &expected));
}
