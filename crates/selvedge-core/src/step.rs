//! Durable steps: what a handler has done once and for all, and what it waits for by name.
//!
//! A step of a handler is recorded with its result; a later attempt finds it and does not do it again. A wait of a handler
//! is a step too: it is open from the first suspension for it, and recorded by the transaction that ends it.

use crate::suspension::ResumedBy;
use crate::{ExecutionId, Name, Timestamp};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// How many steps an execution may have.
pub const STEPS_MAX: u32 = 10_000;
/// How many bytes the results of steps and the payloads of signals of an execution may have together: each claim carries
/// them.
pub const RECORD_LIMIT: u64 = 16 * 1024 * 1024;

/// What a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub enum StepKind {
    /// Something that was done.
    #[default]
    Step,
    /// A time that was waited for.
    Sleep,
    /// Signals that were waited for.
    Wait,
    /// Children that were spawned.
    Spawn,
    /// Children whose end was waited for.
    Join,
    /// Branches of which the first was taken.
    Race,
}

impl StepKind {
    /// Every kind.
    pub const ALL: [StepKind; 6] = [Self::Step, Self::Sleep, Self::Wait, Self::Spawn, Self::Join, Self::Race];

    /// Its word in the API.
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

    /// The kind with this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }

    /// The number a store keeps. Stable for ever.
    pub fn code(self) -> i16 {
        self as i16
    }

    /// The kind with this number.
    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

/// A step of an execution.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Whose.
    pub execution: ExecutionId,
    /// Its place in the order in which steps were begun, from 1.
    pub number: u32,
    /// Its name, unique in its execution.
    pub name: Name,
    /// What it is.
    pub kind: StepKind,
    /// The attempt that recorded it, or began to wait for it.
    pub attempt: u32,
    /// When it began.
    pub started_at: Timestamp,
    /// When it was recorded; none while it is waited for.
    pub recorded_at: Option<Timestamp>,
    /// Its result, JSON; of a wait, [`WaitResult`].
    pub result: Option<Bytes>,
}

/// The result of a step that was waited for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitResult {
    /// What ended the wait.
    pub resumed_by: ResumedBy,
    /// The numbers of the signals that it took.
    pub signals: Vec<u32>,
}

impl WaitResult {
    /// As the result of a step.
    pub fn encode(&self) -> Bytes {
        serde_json::to_vec(self).unwrap_or_default().into()
    }

    /// From the result of a step.
    pub fn decode(bytes: &[u8]) -> Option<WaitResult> {
        serde_json::from_slice(bytes).ok()
    }
}
