//! A running server, which is killed when the test that started it ends.

use super::Place;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};

/// Returns a command of the binary without the environment variables that would configure it.
pub fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
    for (name, _) in std::env::vars_os() {
        let configures = name.to_string_lossy().starts_with("SELVEDGE_");
        if configures || name == "RUST_LOG" {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null());
    command
}

/// A running server.
pub struct Server {
    /// The URL of the API.
    pub url: String,
    /// The line that the server printed when it was ready.
    pub ready_line: String,
    child: Child,
    stdout: BufReader<ChildStdout>,
    stderr: BufReader<ChildStderr>,
}

impl Server {
    /// Starts `selvedge serve` with the store of `place` on a free port.
    pub fn start(place: &impl Place) -> Server {
        let mut serve = command();
        serve.args(["serve", "--store", &place.store()]);
        Server::spawn(serve)
    }

    /// Starts `command` on a free port and waits until the server is ready.
    pub fn spawn(command: Command) -> Server {
        Server::spawn_at(command, "127.0.0.1:0")
    }

    /// Starts `command` at this address and waits until the server is ready.
    pub fn spawn_at(mut command: Command, address: &str) -> Server {
        let mut child = command
            .args(["--listen", address])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("standard output is piped"));
        let mut stderr = BufReader::new(child.stderr.take().expect("standard error is piped"));
        let mut ready_line = String::new();
        stdout.read_line(&mut ready_line).expect("standard output can be read");
        if ready_line.is_empty() {
            let mut log = String::new();
            let _ = stderr.read_to_string(&mut log);
            panic!("the server did not start: {log}");
        }
        let ready_line = ready_line.trim_end().to_owned();
        let start = ready_line.find("http").expect("the ready line has a URL");
        let url = ready_line[start..].split([' ', '"']).next().unwrap_or_default();
        Server { url: url.to_owned(), ready_line, child, stdout, stderr }
    }

    /// Returns the id of the server's process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Reads lines of standard output up to one that contains `end`.
    pub fn lines_until(&mut self, end: &str) -> Vec<String> {
        lines_until(&mut self.stdout, end)
    }

    /// Waits for a log line that contains `text`.
    pub fn wait_for_log(&mut self, text: &str) {
        lines_until(&mut self.stderr, text);
    }

    /// Sends the process a signal.
    pub fn signal(&self, signal: &str) {
        let kill = format!("kill -{signal} {}", self.child.id());
        let sent = Command::new("sh").args(["-c", &kill]).status();
        assert!(sent.expect("sh starts").success(), "{kill}");
    }

    /// Waits until the process exits. Returns its status and the standard output since it was ready.
    pub fn wait_for_exit(&mut self) -> (ExitStatus, String) {
        let mut printed = String::new();
        self.stdout.read_to_string(&mut printed).expect("standard output can be read");
        (self.child.wait().expect("the process exits"), printed)
    }

    /// Sends SIGTERM and waits until the process exits. Returns the rest of its log.
    pub fn stop_and_read_log(mut self) -> String {
        self.signal("TERM");
        let mut log = String::new();
        self.stderr.read_to_string(&mut log).expect("standard error can be read");
        self.child.wait().expect("the process exits");
        log
    }

    /// Kills the process with SIGKILL.
    pub fn kill(mut self) {
        self.child.kill().expect("the process runs");
        self.child.wait().expect("the process exits");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines_until(from: &mut impl BufRead, end: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for line in from.lines() {
        let line = line.expect("output can be read");
        let found = line.contains(end);
        lines.push(line);
        if found {
            return lines;
        }
    }
    panic!("{end:?} is not in {lines:?}");
}
