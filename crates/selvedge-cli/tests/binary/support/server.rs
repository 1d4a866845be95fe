//! A running server: ready when it says so, killed with the test that started it.

use super::Place;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};

/// The binary, deaf to the environment of the test.
pub fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
    for (name, _) in std::env::vars_os() {
        let ours = name.to_string_lossy().starts_with("SELVEDGE_");
        if ours || name == "RUST_LOG" {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null());
    command
}

/// A running server.
pub struct Server {
    /// Where it can be reached.
    pub url: String,
    /// The line it printed when it was ready.
    pub ready: String,
    child: Child,
    stdout: BufReader<ChildStdout>,
    stderr: BufReader<ChildStderr>,
}

impl Server {
    /// `selvedge serve` on the store of `place` and a free port.
    pub fn start(place: &impl Place) -> Server {
        let mut serve = command();
        serve.args(["serve", "--store", &place.store()]);
        Server::spawn(serve)
    }

    /// Starts what `command` says, on a free port, and waits until it is ready.
    pub fn spawn(mut command: Command) -> Server {
        let mut child = command
            .args(["--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("standard output is piped"));
        let mut stderr = BufReader::new(child.stderr.take().expect("standard error is piped"));
        let mut ready = String::new();
        stdout.read_line(&mut ready).expect("standard output can be read");
        if ready.is_empty() {
            let mut log = String::new();
            let _ = stderr.read_to_string(&mut log);
            panic!("the server did not start: {log}");
        }
        let ready = ready.trim_end().to_owned();
        let start = ready.find("http://").expect("the ready line has a URL");
        let url = ready[start..].split([' ', '"']).next().unwrap_or_default();
        Server { url: url.to_owned(), ready, child, stdout, stderr }
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next lines of standard output, up to one that contains `end`.
    pub fn lines_until(&mut self, end: &str) -> Vec<String> {
        lines_until(&mut self.stdout, end)
    }

    /// Waits until its log has a line that contains `text`.
    pub fn logs(&mut self, text: &str) {
        lines_until(&mut self.stderr, text);
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: &str) {
        let kill = format!("kill -{signal} {}", self.child.id());
        let sent = Command::new("sh").args(["-c", &kill]).status();
        assert!(sent.expect("sh starts").success(), "{kill}");
    }

    /// Waits until it ends by itself; gives how, and what it printed after it was ready.
    pub fn ended(&mut self) -> (ExitStatus, String) {
        let mut printed = String::new();
        self.stdout.read_to_string(&mut printed).expect("standard output can be read");
        (self.child.wait().expect("it ends"), printed)
    }

    /// Asks it to end and waits until it has; gives its log from here on.
    pub fn log_to_the_end(mut self) -> String {
        self.signal("TERM");
        let mut log = String::new();
        self.stderr.read_to_string(&mut log).expect("standard error can be read");
        self.child.wait().expect("it ends");
        log
    }

    /// Ends it as a power cut would.
    pub fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
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
