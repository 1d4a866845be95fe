//! Runs a page against a server of its own.

use super::page::{Block, Page, Role};
use crate::support::{Directory, Place, Server, Sqlite, command};
use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

/// The addresses of the server in the documentation.
const ADDRESSES: [&str; 2] = ["127.0.0.1:7878", "localhost:7878"];
/// The first character of the line that the script prints at the fence of a block.
const BEGIN: char = '\u{1e}';

/// The first line of a script: the first failing command ends it and is named with its line. A request that is refused
/// fails, except in a block that expects a problem. The last response is kept in a file. The server of the command line is the
/// one of the test, by the same replacement of its address as in the page.
const PRELUDE: &str = concat!(
    "set -Eeuo pipefail; trap 'echo \"script: line $LINENO: $BASH_COMMAND\" >&2' ERR; ",
    "curl() { command curl $refused --show-error --max-time 90 \"$@\" | tee response || return; }; ",
    "begin() { printf '\\036%s\\n' \"$1\"; if [ $# = 1 ]; then refused=--fail-with-body; else refused=--no-fail; fi; }; ",
    "unset ${!SELVEDGE_@}; export SELVEDGE_SERVER=http://127.0.0.1:7878 XDG_CONFIG_HOME=$PWD"
);

/// Runs the blocks of a page in order. Returns the failure with page, line and output.
pub fn run(page: &Page) -> Result<(), String> {
    if !page.runs() {
        return Ok(());
    }
    let Ended { status, stdout, stderr, response } = run_script(page);
    let outputs = outputs(&stdout);
    if !status.success() {
        let last = outputs.keys().max().and_then(|line| outputs.get(line)).copied().unwrap_or_default();
        let errors = stderr.replace("script: line ", &format!("{}:", page.path));
        return Err(format!(
            "{} failed ({status})\n{errors}\nthe block printed:\n{last}\nthe last response is:\n{response}\n",
            page.path
        ));
    }
    let mut blocks = page.blocks.iter().enumerate();
    blocks.try_for_each(|(index, block)| check(page, block, page.blocks.get(index + 1), &outputs))
}

/// A script that has ended.
struct Ended {
    status: ExitStatus,
    stdout: String,
    stderr: String,
    /// The last response of the server.
    response: String,
}

/// Runs the script of a page in a directory of its own, against a server of its own.
fn run_script(page: &Page) -> Ended {
    let place = Sqlite::new();
    let mut dev = command();
    // The examples of webhooks deliver to this machine.
    dev.args(["dev", "--webhook-allow-private", "--store", &place.store()]);
    let server = Server::spawn(dev);
    let address = server.url.strip_prefix("http://").expect("the URL has the scheme http");
    let directory = Directory::new();
    let path = |name: &str| directory.path().join(name);
    let write = |name: &str, text: &str| {
        let text = ADDRESSES.iter().fold(text.to_owned(), |text, known| text.replace(known, address));
        fs::write(path(name), text).expect("the directory can be written")
    };
    for block in &page.blocks {
        if let Role::File(name) = &block.role {
            write(name, &block.text());
        }
    }
    write("script", &page.script(PRELUDE));
    // Files, not pipes: a process that the script leaves behind would keep a pipe open.
    let create = |name: &str| File::create(path(name)).expect("the directory can be written");
    let mut bash = Command::new("bash");
    bash.arg("script").current_dir(directory.path()).stdin(Stdio::null()).process_group(0);
    let binary = Path::new(env!("CARGO_BIN_EXE_selvedge")).parent().expect("the binary is in a directory");
    let inherited = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::iter::once(binary.to_owned()).chain(std::env::split_paths(&inherited));
    bash.env("PATH", std::env::join_paths(paths).expect("the directories have no colon"));
    let mut bash = bash.stdout(create("stdout")).stderr(create("stderr")).spawn().expect("bash starts");
    let status = bash.wait().expect("bash exits");
    end_group(bash.id());
    // A script without requests has no response.
    let read = |name: &str| String::from_utf8_lossy(&fs::read(path(name)).unwrap_or_default()).into_owned();
    Ended { status, stdout: read("stdout"), stderr: read("stderr"), response: read("response") }
}

/// Ends all processes that a script left behind.
fn end_group(group: u32) {
    let kill = format!("kill -KILL -- -{group}");
    // The group may be empty. The kill of some other shells takes no groups.
    let _ = Command::new("bash").args(["-c", &kill]).stderr(Stdio::null()).status();
}

/// Returns what each block has printed, by the line of its fence.
fn outputs(stdout: &str) -> HashMap<usize, &str> {
    let blocks = stdout.split(BEGIN).skip(1);
    blocks
        .filter_map(|block| block.split_once('\n'))
        .map(|(line, text)| (line.parse().unwrap_or(0), text))
        .collect()
}

/// Checks what a block has printed: the code of the problem that it expects, and the output that follows it in the page.
fn check(
    page: &Page,
    block: &Block,
    next: Option<&Block>,
    outputs: &HashMap<usize, &str>,
) -> Result<(), String> {
    let Role::Run { problem } = &block.role else { return Ok(()) };
    let (path, line) = (&page.path, block.line);
    let printed = outputs.get(&line).copied().unwrap_or_default();
    if let Some(code) = problem.as_ref().filter(|code| !printed.contains(code.as_str())) {
        return Err(format!("{path}:{line}: the problem {code} is not in the output:\n{printed}\n"));
    }
    match next.filter(|next| next.role == Role::Output) {
        Some(next) if !matches(&next.text(), printed) => {
            Err(format!("{path}:{}: the output differs; the block printed:\n{printed}\n", next.line))
        }
        Some(_) | None => Ok(()),
    }
}

/// Reports whether an output is the expected one, without regard to white space. `…` stands for any text.
fn matches(expected: &str, printed: &str) -> bool {
    let compact = |text: &str| text.chars().filter(|one| !one.is_whitespace()).collect::<String>();
    let (expected, printed) = (compact(expected), compact(printed));
    let mut pieces = expected.split('…');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = printed.strip_prefix(first) else { return false };
    let mut last = None;
    for piece in pieces {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
        last = Some(piece);
    }
    // The text after the last … ends the output; a … at the end stands for the rest.
    rest.is_empty() || last == Some("") || last.is_some_and(|piece| rest.ends_with(piece))
}
