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
    /// The object of the command does not exist: exit code 3.
    NotFound(String),
    /// The key is missing, invalid, or may not do this: exit code 4.
    NotPermitted(String),
    /// The execution or flow that the command waited for did not complete: exit codes 10 to 14.
    Ended {
        end: End,
        /// The line on standard error.
        message: String,
    },
    /// The reader of standard output has closed it: exit code 0, without a line.
    OutputClosed,
}

/// An end other than completion of an execution or a flow that a command waited for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum End {
    /// It failed: exit code 10.
    Failed,
    /// It was cancelled: exit code 11.
    Cancelled,
    /// It expired: exit code 12.
    Expired,
    /// It was skipped: exit code 13.
    Skipped,
    /// It has not ended within the time that the command waited: exit code 14.
    TimedOut,
}

impl End {
    /// Returns the end with this outcome, or none if it is completion.
    pub fn of_outcome(outcome: &str) -> Option<End> {
        match outcome {
            "completed" => None,
            "cancelled" => Some(End::Cancelled),
            "expired" => Some(End::Expired),
            "skipped" => Some(End::Skipped),
            _ => Some(End::Failed),
        }
    }
}

impl Failure {
    /// Returns the exit code.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Failure::OutputClosed => 0,
            Failure::Failed(_) => 1,
            Failure::Usage(_) => 2,
            Failure::NotFound(_) => 3,
            Failure::NotPermitted(_) => 4,
            Failure::Ended { end, .. } => match end {
                End::Failed => 10,
                End::Cancelled => 11,
                End::Expired => 12,
                End::Skipped => 13,
                End::TimedOut => 14,
            },
        })
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
        let message = match self {
            Failure::Usage(message)
            | Failure::Failed(message)
            | Failure::NotFound(message)
            | Failure::NotPermitted(message)
            | Failure::Ended { message, .. } => message.as_str(),
            Failure::OutputClosed => "standard output is closed",
        };
        let lines: Vec<&str> = message.lines().map(str::trim).collect();
        f.write_str(&lines.join(" "))
    }
}
