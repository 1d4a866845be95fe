//! Signals: what outside parties and other executions tell an execution. Kept until a wait takes them.

use crate::waitpoint::WaitpointId;
use crate::{ExecutionId, Name, Timestamp};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// How many bytes the payload of a signal may have.
pub const SIGNAL_LIMIT: usize = 256 * 1024;
/// How many signals an execution may get.
pub const SIGNALS_MAX: u32 = 10_000;
/// The name of the signal that a claim carries when a wait has waited for too long.
pub const TIMEOUT: &str = "timeout";
/// Who sends that one.
pub const ENGINE: &str = "selvedge";

/// What a delivery did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// It is kept for a wait that is yet to come.
    Buffered,
    /// What waits for it has heard it, and waits for more.
    Counted,
    /// The execution is ready.
    Resumed,
}

impl Effect {
    /// Every effect.
    pub const ALL: [Effect; 3] = [Self::Buffered, Self::Counted, Self::Resumed];

    /// Its word in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Buffered => "buffered",
            Self::Counted => "counted",
            Self::Resumed => "resumed",
        }
    }

    /// The number a store keeps. Stable for ever.
    pub fn code(self) -> i16 {
        self as i16
    }

    /// The effect with this number.
    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|effect| effect.code() == code)
    }
}

/// A signal that was delivered.
#[derive(Clone, Debug, PartialEq)]
pub struct Signal {
    /// To which execution.
    pub execution: ExecutionId,
    /// Its place in the order of delivery, from 1.
    pub number: u32,
    /// Its name.
    pub name: Name,
    /// Who sent it.
    pub source: Name,
    /// The waitpoint through which it came, and its name.
    pub waitpoint: Option<(WaitpointId, Name)>,
    /// The sender's key for it.
    pub key: Option<Name>,
    /// Digest of what was sent.
    pub digest: u64,
    /// When it was delivered.
    pub at: Timestamp,
    /// What the delivery did.
    pub effect: Effect,
    /// The suspension that took it; none while it is kept.
    pub taken: Option<u32>,
    /// JSON, byte for byte; none where it was not asked for.
    pub payload: Option<Bytes>,
}
