//! The state of an execution: one sum type, each state carrying only what that state can have.
//!
//! Whatever else people want to see (public state, outcome, who holds it) is derived from it and never stored beside it.

use crate::gate::GateName;
use crate::{LeaseId, Name, SessionId, Suspension, Timestamp};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// How an execution ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A worker completed it.
    #[serde(alias = "success")]
    Completed,
    /// Its last attempt failed.
    Failed,
    /// Somebody cancelled it.
    Cancelled,
    /// Its time ran out, or infrastructure took it away too often.
    Expired,
    /// Its place in a flow could no longer be reached.
    Skipped,
}

impl Outcome {
    /// Every outcome.
    pub const ALL: [Outcome; 5] =
        [Self::Completed, Self::Failed, Self::Cancelled, Self::Expired, Self::Skipped];

    /// Its word in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
            Self::Skipped => "skipped",
        }
    }

    /// The outcome with this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.as_str() == word)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The state of an execution.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// Waits for its upstreams. The join records which of them have ended.
    WaitingDependencies,
    /// Waits for a worker: it may be claimed.
    Waiting,
    /// Not before this time.
    Delayed {
        /// When it becomes ready.
        until: Timestamp,
    },
    /// A worker holds it.
    Active(Lease),
    /// It could be claimed, and this gate refuses it.
    Held(Arc<GateName>),
    /// Nobody holds it, and it waits for what its suspension says.
    Suspended(Arc<Suspension>),
    /// It has ended.
    Terminal(Outcome),
}

/// A live lease. Its epoch is the execution's.
#[derive(Clone, Debug, PartialEq)]
pub struct Lease {
    /// The lease.
    pub id: LeaseId,
    /// The session that renews it.
    pub session: SessionId,
    /// The worker that claimed it.
    pub worker: Name,
    /// The worker's instance.
    pub instance: Name,
    /// When it was claimed.
    pub claimed_at: Timestamp,
    /// Its time to live.
    pub ttl_ms: i64,
}

impl Lease {
    /// The end of its own first term.
    pub fn first_term(&self) -> Timestamp {
        self.claimed_at.plus_ms(self.ttl_ms)
    }
}

/// A state without what it carries: what the transition table and the stores' indexes speak of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum StateName {
    /// See [`State::WaitingDependencies`].
    WaitingDependencies,
    /// See [`State::Waiting`].
    Waiting,
    /// See [`State::Delayed`].
    Delayed,
    /// See [`State::Active`].
    Active,
    /// See [`State::Suspended`].
    Suspended,
    /// See [`State::Held`].
    Held,
    /// Ended as completed.
    Completed,
    /// Ended as failed.
    Failed,
    /// Ended as cancelled.
    Cancelled,
    /// Ended as expired.
    Expired,
    /// Ended as skipped.
    Skipped,
}

impl StateName {
    /// Every state, in the order of their declaration.
    pub const ALL: [StateName; 11] = [
        Self::WaitingDependencies,
        Self::Waiting,
        Self::Delayed,
        Self::Active,
        Self::Suspended,
        Self::Held,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
        Self::Expired,
        Self::Skipped,
    ];

    /// The number a store keeps. Stable for ever; 6 to 9 are left for states that wait.
    pub fn code(self) -> i16 {
        match self {
            Self::Waiting => 0,
            Self::Delayed => 1,
            Self::Active => 2,
            Self::WaitingDependencies => 3,
            Self::Suspended => 4,
            Self::Held => 5,
            Self::Completed => 10,
            Self::Failed => 11,
            Self::Cancelled => 12,
            Self::Expired => 13,
            Self::Skipped => 14,
        }
    }

    /// The state with this number.
    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|name| name.code() == code)
    }

    /// The outcome, if this state is terminal.
    pub fn outcome(self) -> Option<Outcome> {
        match self {
            Self::WaitingDependencies
            | Self::Waiting
            | Self::Delayed
            | Self::Active
            | Self::Suspended
            | Self::Held => None,
            Self::Completed => Some(Outcome::Completed),
            Self::Failed => Some(Outcome::Failed),
            Self::Cancelled => Some(Outcome::Cancelled),
            Self::Expired => Some(Outcome::Expired),
            Self::Skipped => Some(Outcome::Skipped),
        }
    }

    /// The public word: what API, CLI and pages call this state.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::WaitingDependencies => "waiting_dependencies",
            Self::Waiting => "waiting",
            Self::Delayed => "delayed",
            Self::Active => "active",
            Self::Suspended => "suspended",
            Self::Held => "held",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
            Self::Skipped => "skipped",
        }
    }

    /// The state with this public word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|name| name.as_str() == word)
    }
}

impl State {
    /// Which state this is.
    pub fn name(&self) -> StateName {
        match self {
            State::WaitingDependencies => StateName::WaitingDependencies,
            State::Waiting => StateName::Waiting,
            State::Delayed { .. } => StateName::Delayed,
            State::Active(_) => StateName::Active,
            State::Suspended(_) => StateName::Suspended,
            State::Held(_) => StateName::Held,
            State::Terminal(Outcome::Completed) => StateName::Completed,
            State::Terminal(Outcome::Failed) => StateName::Failed,
            State::Terminal(Outcome::Cancelled) => StateName::Cancelled,
            State::Terminal(Outcome::Expired) => StateName::Expired,
            State::Terminal(Outcome::Skipped) => StateName::Skipped,
        }
    }

    /// The lease, if somebody holds one.
    pub fn lease(&self) -> Option<&Lease> {
        match self {
            State::Active(lease) => Some(lease),
            State::WaitingDependencies
            | State::Waiting
            | State::Delayed { .. }
            | State::Suspended(_)
            | State::Held(_)
            | State::Terminal(_) => None,
        }
    }

    /// What it waits for, if it is suspended.
    pub fn suspension(&self) -> Option<&Arc<Suspension>> {
        match self {
            State::Suspended(suspension) => Some(suspension),
            State::WaitingDependencies
            | State::Waiting
            | State::Delayed { .. }
            | State::Active(_)
            | State::Held(_)
            | State::Terminal(_) => None,
        }
    }

    /// The gate whose opening lets it go on, if it is held or was suspended by one.
    pub fn gate(&self) -> Option<&GateName> {
        match self {
            State::Held(gate) => Some(gate),
            State::Suspended(suspension) => suspension.gate(),
            State::WaitingDependencies
            | State::Waiting
            | State::Delayed { .. }
            | State::Active(_)
            | State::Terminal(_) => None,
        }
    }

    /// The outcome, if it has ended.
    pub fn outcome(&self) -> Option<Outcome> {
        self.name().outcome()
    }
}
