//! Views that are drawn again, in a terminal of `tmux`, whose screen a test can read.

use crate::cli::{Cli, serve};
use crate::support::Directory;
use crate::worker::{claim_one, report};
use serde_json::json;
use std::process::Command;

/// A terminal of 100 columns and 30 lines.
struct Screen {
    directory: Directory,
}

impl Screen {
    /// Starts a command on a screen. Its exit code is shown when it has ended.
    fn start(cli: &Cli, arguments: &[&str]) -> Screen {
        let screen = Screen { directory: Directory::new() };
        let words: Vec<String> = arguments.iter().map(|word| format!("'{word}'")).collect();
        let command =
            format!("{} {}; echo \"exit $?\"; cat", env!("CARGO_BIN_EXE_selvedge"), words.join(" "));
        let mut tmux = screen.tmux();
        cli.prepare(&mut tmux);
        tmux.args(["-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "30", &command]);
        assert!(tmux.status().expect("tmux starts").success());
        screen
    }

    /// Returns a command for the terminal's own server.
    fn tmux(&self) -> Command {
        let mut tmux = Command::new("tmux");
        tmux.arg("-S").arg(self.directory.path().join("socket")).env("SHELL", "/bin/sh").env_remove("TMUX");
        tmux
    }

    /// Waits until the screen has these texts in their order. Returns it.
    fn wait_for(&self, texts: &[&str]) -> String {
        let began = std::time::Instant::now();
        loop {
            let captured = self.tmux().args(["capture-pane", "-p"]).output().expect("tmux starts");
            let screen = String::from_utf8(captured.stdout).expect("a screen is text");
            let mut rest = screen.as_str();
            let found = texts.iter().all(|text| match rest.find(text) {
                Some(at) => {
                    rest = &rest[at + text.len()..];
                    true
                }
                None => false,
            });
            if found {
                return screen.trim_end().to_owned();
            }
            assert!(began.elapsed().as_secs() < 60, "{texts:?} did not appear:\n{screen}");
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // The server of this socket only.
        let _ = self.tmux().arg("kill-server").status();
    }
}

#[test]
fn flow_run_with_watch_draws_the_nodes_as_they_change() {
    let (place, server, cli) = serve();
    let file = place.path("flow.yaml");
    let flow = "name: report\nnodes: [{name: load, kind: k}, {name: print, kind: k}]\nedges: [{from: load, to: print}]";
    std::fs::write(&file, flow).expect("the file is written");
    let screen = Screen::start(&cli, &["flow", "run", file.to_str().expect("the path is text"), "--watch"]);
    screen.wait_for(&[
        "report running",
        "0/2",
        "load",
        "waiting",
        "└ print",
        "waiting_dependencies",
        "load …",
    ]);
    let claim = claim_one(&server.url);
    screen.wait_for(&["load", "active", "print", "waiting_dependencies"]);
    report(&server.url, &claim, json!({"op": "complete"}));
    screen.wait_for(&["1/2", "load", "completed", "print", "waiting", "load ✓"]);
    report(
        &server.url,
        &claim_one(&server.url),
        json!({"op": "fail", "message": "no ink", "class": "permanent"}),
    );
    let last = screen.wait_for(&[
        "report failed",
        "2/2",
        "load",
        "completed",
        "print",
        "failed",
        "ended as failed",
        "exit 10",
    ]);
    assert_eq!(last.matches("report").count(), 1, "each drawing replaces the one before:\n{last}");
}

#[test]
fn watch_draws_an_execution_with_its_timeline() {
    let (_place, server, cli) = serve();
    let id = cli.succeed(&["submit", "greet", "7"]);
    let screen = Screen::start(&cli, &["watch", &id]);
    screen.wait_for(&["greet waiting", &id, "input", "7"]);
    let claim = claim_one(&server.url);
    report(&server.url, &claim, json!({"op": "progress", "percent": 40, "message": "half"}));
    screen.wait_for(&["greet active", "leased by", "w-1", "40 % half", "Timeline", "attempt 0"]);
    report(&server.url, &claim, json!({"op": "complete", "result": 8}));
    let last = screen.wait_for(&["greet completed", "result", "8", "exit 0"]);
    assert_eq!(last.matches("Timeline").count(), 1, "each drawing replaces the one before:\n{last}");
}

#[test]
fn list_with_watch_is_drawn_again() {
    let (_place, _server, cli) = serve();
    let screen = Screen::start(&cli, &["list", "--watch"]);
    screen.wait_for(&["There are no executions."]);
    let id = cli.succeed(&["submit", "k"]);
    let drawn = screen.wait_for(&[&id, "waiting"]);
    assert!(!drawn.contains("There are no executions."), "{drawn}");
}

#[test]
fn a_view_that_is_taller_than_the_terminal_is_cut_and_still_replaced() {
    let (place, server, cli) = serve();
    let file = place.path("flow.yaml");
    let nodes: Vec<String> = (0..40).map(|number| format!("{{name: n{number}, kind: k}}")).collect();
    let flow = format!("name: wide\nnodes: [{}]", nodes.join(", "));
    std::fs::write(&file, flow).expect("the file is written");
    let file = file.to_str().expect("the path is text");
    let screen = Screen::start(&cli, &["flow", "run", file, "--watch"]);
    screen.wait_for(&["wide running", "0/40", "n0", "more lines"]);
    for number in 1..=3 {
        report(&server.url, &claim_one(&server.url), json!({"op": "complete"}));
        let drawn = screen.wait_for(&["wide running", &format!("{number}/40"), "more lines"]);
        assert_eq!(
            drawn.matches("wide running").count(),
            1,
            "each drawing replaces the one before:\n{drawn}"
        );
        assert_eq!(drawn.lines().count(), 29, "a line is left for the cursor:\n{drawn}");
    }
}

#[test]
fn wait_shows_that_it_waits_until_the_result_replaces_it() {
    let (_place, server, cli) = serve();
    let id = cli.succeed(&["submit", "greet"]);
    let screen = Screen::start(&cli, &["wait", &id]);
    screen.wait_for(&[&format!("waiting for {id}")]);
    report(&server.url, &claim_one(&server.url), json!({"op": "complete", "result": {"a": 1}}));
    let last = screen.wait_for(&["exit 0"]);
    assert!(last.contains("{\"a\":1}") && !last.contains("waiting for"), "{last}");
}
