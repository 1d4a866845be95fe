//! Durable steps: named parts of a handler whose results survive the attempt.
//!
//! A step is recorded with its result; a later attempt finds it and does not repeat it. A wait of a handler is a step
//! too: it is open from the first suspension for it, and recorded by the transaction that ends the wait.

use crate::suspension::ResumedBy;
use crate::{ExecutionId, Name, Timestamp};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// The most steps of one execution.
pub const STEPS_MAX: u32 = 10_000;
/// The largest total size of the step results and signal payloads of one execution, in bytes. Each claim carries all of
/// them.
pub const RECORD_LIMIT: u64 = 16 * 1024 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub enum StepKind {
    /// Work that was done.
    #[default]
    Step,
    /// A wait for a time.
    Sleep,
    /// A wait for signals.
    Wait,
    /// The spawning of children.
    Spawn,
    /// A wait for the end of children.
    Join,
    /// A race between branches, of which the first to finish was taken.
    Race,
}

impl StepKind {
    pub const ALL: [StepKind; 6] = [Self::Step, Self::Sleep, Self::Wait, Self::Spawn, Self::Join, Self::Race];

    /// Returns the name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Sleep => "sleep",
            Self::Wait => "wait",
            Self::Spawn => "spawn",
            Self::Join => "join",
            Self::Race => "race",
        }
    }

    /// Returns the kind with this name.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }

    /// Returns the number under which stores keep this kind. Never changes.
    pub fn code(self) -> i16 {
        self as i16
    }

    /// Returns the kind with this number.
    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

/// A step of an execution.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub execution: ExecutionId,
    /// The position in the order in which steps were begun, from 1.
    pub number: u32,
    /// The name, unique in its execution.
    pub name: Name,
    pub kind: StepKind,
    /// The index of the attempt that recorded it or began to wait for it.
    pub attempt: u32,
    /// The time at which it began.
    pub started_at: Timestamp,
    /// The time at which it was recorded; none while the wait is open.
    pub recorded_at: Option<Timestamp>,
    /// The result as JSON; for a wait, a [`WaitResult`].
    pub result: Option<Bytes>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitResult {
    /// The reason why the wait ended.
    pub resumed_by: ResumedBy,
    /// The numbers of the signals that the wait took.
    pub signals: Vec<u32>,
}

impl WaitResult {
    /// Encodes it as the result of a step.
    pub fn encode(&self) -> Bytes {
        serde_json::to_vec(self).expect("the result of a wait always serialises").into()
    }

    /// Decodes the result of a step; none if the step is not a wait.
    pub fn decode(bytes: &[u8]) -> Option<WaitResult> {
        serde_json::from_slice(bytes).ok()
    }
}
