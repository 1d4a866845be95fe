//! The state of an execution: one enum, in which each state carries only the data that belongs to it.
//!
//! Everything else about the state (its public name, the outcome, the holder of the lease) is derived from it and never
//! stored beside it.

use crate::gate::GateName;
use crate::{LeaseId, Name, SessionId, Suspension, Timestamp};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// The outcome of an execution that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A worker completed the execution.
    #[serde(alias = "success")]
    Completed,
    /// The last attempt failed, or a wait timed out with the action `fail`.
    Failed,
    /// The execution was cancelled.
    Cancelled,
    /// The execution ran out of time or of interruptions.
    Expired,
    /// The edge group of its node could no longer be satisfied.
    Skipped,
}

impl Outcome {
    pub const ALL: [Outcome; 5] =
        [Self::Completed, Self::Failed, Self::Cancelled, Self::Expired, Self::Skipped];

    /// Returns the name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
            Self::Skipped => "skipped",
        }
    }

    /// Returns the outcome with this name.
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
    /// The execution waits for its upstreams. Its join records which of them have ended.
    WaitingDependencies,
    /// The execution waits for a worker: it may be claimed.
    Waiting,
    /// The execution may not be claimed before a time.
    Delayed {
        /// The time at which it becomes `Waiting`.
        until: Timestamp,
    },
    /// A worker holds a lease on the execution.
    Active(Lease),
    /// The execution would be `Waiting`, but this gate refused it and holds it.
    Held(Arc<GateName>),
    /// The execution has no lease and waits until its suspension is fulfilled.
    Suspended(Arc<Suspension>),
    /// The execution has ended.
    Terminal(Outcome),
}

/// The current lease of an active execution. Its epoch is the execution's epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct Lease {
    pub id: LeaseId,
    /// The session that renews it.
    pub session: SessionId,
    /// The worker that claimed it.
    pub worker: Name,
    /// The worker's instance.
    pub instance: Name,
    /// The time of the claim.
    pub claimed_at: Timestamp,
    /// The time to live, in milliseconds.
    pub ttl_ms: i64,
}

impl Lease {
    /// Returns the end of the first term: the time at which the lease expires unless its session is renewed.
    pub fn first_term(&self) -> Timestamp {
        self.claimed_at.plus_ms(self.ttl_ms)
    }
}

/// A state without its data, as the transition table and the indexes of stores use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum StateName {
    WaitingDependencies,
    Waiting,
    Delayed,
    Active,
    Suspended,
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
    /// All states, in the order of their declaration.
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

    /// Returns the number under which stores keep this state. Never changes. 6 to 9 are reserved for states that are
    /// not terminal.
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

    /// Returns the state with this number.
    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|name| name.code() == code)
    }

    /// Returns the outcome, if the state is terminal.
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

    /// Returns the public name, as the API, the command line and the pages show it.
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

    /// Returns the state with this public name.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|name| name.as_str() == word)
    }
}

impl State {
    /// Returns the state without its data.
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

    /// Returns the lease, if the execution is active.
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

    /// Returns the suspension, if the execution is suspended.
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

    /// Returns the gate that releases the execution, if a gate holds it or it is suspended until a gate admits it.
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

    /// Returns the outcome, if the execution has ended.
    pub fn outcome(&self) -> Option<Outcome> {
        self.name().outcome()
    }
}
