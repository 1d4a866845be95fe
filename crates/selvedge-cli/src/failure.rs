//! Why a command failed: one line that says what to do, and the exit code that goes with it.

use selvedge::{Address, Error};
use std::fmt;
use std::process::ExitCode;

/// A command that failed.
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// The command line is wrong.
    Usage(String),
    /// Something else is.
    Failed(String),
}

impl Failure {
    /// 2 for the command line, 1 for the rest.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Failure::Usage(_) => ExitCode::from(2),
            Failure::Failed(_) => ExitCode::from(1),
        }
    }

    /// The store at `address` did not open.
    pub fn of_store(address: &Address, error: &Error) -> Failure {
        let what_to_do = match error {
            Error::Store(selvedge::store::Error::Unavailable(_)) => {
                "; check the address, and that the store may be reached from here"
            }
            _ => "",
        };
        Failure::Failed(format!("cannot open the store {address}: {error}{what_to_do}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Failure::Usage(message) | Failure::Failed(message)) = self;
        let lines: Vec<&str> = message.lines().map(str::trim).collect();
        f.write_str(&lines.join(" "))
    }
}
