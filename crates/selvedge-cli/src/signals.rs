//! The signals that stop this process: SIGTERM and SIGINT.

use crate::failure::Failure;
use std::fmt;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Receives the signals that stop this process.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

/// A received signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    Terminate,
    Interrupt,
}

impl Signals {
    /// Installs the handlers. From now on the signals no longer end the process by themselves.
    pub fn listen() -> Result<Signals, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|error| Failure::Failed(format!("cannot listen to signals: {error}")))
        };
        Ok(Signals {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) -> Stop {
        tokio::select! {
            _ = self.terminate.recv() => Stop::Terminate,
            _ = self.interrupt.recv() => Stop::Interrupt,
        }
    }

    /// Makes the next signal exit the process at once, with the exit code that shells use for that signal.
    pub fn exit_on_next(mut self) {
        tokio::spawn(async move {
            let stop = self.next().await;
            tracing::warn!("{stop} again: this process exits at once");
            std::process::exit(match stop {
                Stop::Terminate => 143,
                Stop::Interrupt => 130,
            });
        });
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stop::Terminate => "SIGTERM",
            Stop::Interrupt => "SIGINT",
        })
    }
}
