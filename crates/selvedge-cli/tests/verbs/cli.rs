//! The command line of a test: the binary with a server and a configuration directory of its own.

use crate::support::{Directory, Server, Sqlite, command};
use serde_json::Value;
use std::process::{Child, Command, Output, Stdio};

/// The environment of the commands of a test.
pub struct Cli {
    server: String,
    config: Directory,
}

/// A command that has ended.
#[derive(Debug)]
pub struct Ended {
    /// The exit code.
    pub code: i32,
    /// The standard output.
    pub stdout: String,
    /// The standard error.
    pub stderr: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Ended {
        Ended {
            code: output.status.code().expect("no signal ended it"),
            stdout: String::from_utf8(output.stdout).expect("standard output is text"),
            stderr: String::from_utf8(output.stderr).expect("standard error is text"),
        }
    }
}

impl Cli {
    /// Returns the command line of a user whose server this is, without profiles.
    pub fn new(server: &str) -> Cli {
        Cli { server: server.to_owned(), config: Directory::new() }
    }

    /// Returns the directory of the user's configuration files.
    pub fn config(&self) -> &std::path::Path {
        self.config.path()
    }

    /// Sets the environment of the user.
    pub fn prepare(&self, command: &mut Command) {
        command.env("XDG_CONFIG_HOME", self.config.path()).env_remove("NO_COLOR");
        if !self.server.is_empty() {
            command.env("SELVEDGE_SERVER", &self.server);
        }
    }

    /// Returns a command that is not started yet.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = command();
        self.prepare(&mut command);
        command.args(arguments);
        command
    }

    /// Runs a command to its end.
    pub fn run(&self, arguments: &[&str]) -> Ended {
        self.command(arguments).output().expect("the binary starts").into()
    }

    /// Runs a command that must succeed. Returns its standard output without the last line break.
    pub fn succeed(&self, arguments: &[&str]) -> String {
        let ended = self.run(arguments);
        assert_eq!(ended.code, 0, "{arguments:?}: {ended:?}");
        ended.stdout.trim_end().to_owned()
    }

    /// Runs a command with `--json` that must succeed. Returns the objects on its lines.
    pub fn json(&self, arguments: &[&str]) -> Vec<Value> {
        let printed = self.succeed(&[arguments, &["--json"]].concat());
        let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        printed.lines().map(parse).collect()
    }

    /// Runs a command that must fail. Asserts that it prints one line on standard error. Returns the exit code and the line.
    pub fn fail(&self, arguments: &[&str]) -> (i32, String) {
        let ended = self.run(arguments);
        assert_ne!(ended.code, 0, "{arguments:?}: {ended:?}");
        let lines: Vec<&str> = ended.stderr.lines().collect();
        assert!(matches!(lines[..], [line] if line.starts_with("selvedge: ")), "{arguments:?}: {ended:?}");
        (ended.code, lines[0].to_owned())
    }

    /// Starts a command whose standard output is read by the test.
    pub fn start(&self, arguments: &[&str]) -> Child {
        let mut command = self.command(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts")
    }
}

/// Starts `selvedge serve` with a SQLite file, and returns a command line for it.
pub fn serve() -> (Sqlite, Server, Cli) {
    let place = Sqlite::new();
    let server = Server::start(&place);
    let cli = Cli::new(&server.url);
    (place, server, cli)
}

/// Starts `selvedge dev` in memory, and returns a command line for it.
pub fn dev() -> (Server, Cli) {
    let mut dev = command();
    dev.args(["dev", "--store", "memory:"]);
    let server = Server::spawn(dev);
    let cli = Cli::new(&server.url);
    (server, cli)
}
