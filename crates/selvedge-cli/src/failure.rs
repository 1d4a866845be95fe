//! The failure of a command: one line that says what to do, and an exit code.

use selvedge::{Address, Error};
use std::fmt;
use std::process::ExitCode;

/// A command that failed.
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// The command line or the environment is invalid: exit code 2.
    Usage(String),
    /// The command was valid but failed: exit code 1.
    Failed(String),
}

impl Failure {
    /// Returns the exit code.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Failure::Usage(_) => ExitCode::from(2),
            Failure::Failed(_) => ExitCode::from(1),
        }
    }

    /// Returns the failure to open the store at `address`.
    pub fn of_store(address: &Address, error: &Error) -> Failure {
        let advice = match error {
            Error::Unavailable(_) => "; check the address, and that the store is reachable from here",
            _ => "",
        };
        Failure::Failed(format!("cannot open the store {address}: {error}{advice}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Failure::Usage(message) | Failure::Failed(message)) = self;
        let lines: Vec<&str> = message.lines().map(str::trim).collect();
        f.write_str(&lines.join(" "))
    }
}
