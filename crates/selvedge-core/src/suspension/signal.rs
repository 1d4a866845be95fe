//! Signals: messages to an execution from callers, waitpoints and other executions. A signal is kept until a wait takes
//! it.

use crate::waitpoint::WaitpointId;
use crate::{ExecutionId, Name, Timestamp};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// The largest payload of a signal, in bytes.
pub const SIGNAL_LIMIT: usize = 256 * 1024;
/// The most signals of one execution.
pub const SIGNALS_MAX: u32 = 10_000;
/// The name of the signal that a claim carries after a wait timed out.
pub const TIMEOUT: &str = "timeout";
/// The source of the timeout signal.
pub const ENGINE: &str = "selvedge";

/// The effect of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// The signal is kept for a later wait.
    Buffered,
    /// A wait received the signal, and the execution remains suspended.
    Counted,
    /// The signal resumed the execution.
    Resumed,
}

impl Effect {
    pub const ALL: [Effect; 3] = [Self::Buffered, Self::Counted, Self::Resumed];

    /// Returns the name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Buffered => "buffered",
            Self::Counted => "counted",
            Self::Resumed => "resumed",
        }
    }

    /// Returns the number under which stores keep this effect. Never changes.
    pub fn code(self) -> i16 {
        self as i16
    }

    /// Returns the effect with this number.
    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|effect| effect.code() == code)
    }
}

/// A delivered signal.
#[derive(Clone, Debug, PartialEq)]
pub struct Signal {
    /// The execution that received it.
    pub execution: ExecutionId,
    /// The position in the order of delivery, from 1.
    pub number: u32,
    pub name: Name,
    pub source: Name,
    /// The id and name of the waitpoint through which it was delivered, if it was.
    pub waitpoint: Option<(WaitpointId, Name)>,
    /// The sender's idempotency key.
    pub key: Option<Name>,
    /// The digest of name, source and payload.
    pub digest: u64,
    /// The time of delivery.
    pub at: Timestamp,
    /// The effect of the delivery.
    pub effect: Effect,
    /// The number of the suspension that took it; none if no wait has taken it.
    pub taken: Option<u32>,
    /// The payload: JSON, kept byte for byte. None if it was not loaded.
    pub payload: Option<Bytes>,
}
