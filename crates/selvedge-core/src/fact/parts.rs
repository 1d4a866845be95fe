//! The parts that several facts share. Stored with postcard, like the facts themselves.

use crate::join::Edge;
use crate::state::StateName;
use crate::{ExecutionId, FailureClass, LeaseId, Name, Outcome, Timestamp};
use serde::{Deserialize, Serialize};

/// A lease and its worker, as lease events carry them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeaseRef {
    pub id: LeaseId,
    pub epoch: u32,
    /// The worker that claimed it.
    pub worker: Name,
    pub instance: Name,
}

impl LeaseRef {
    /// Returns the index of the attempt that ran under the lease.
    pub fn attempt(&self) -> u32 {
        self.epoch - 1
    }
}

/// An error of an attempt, reported by a worker or by the engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    pub message: String,
    /// The class, which decides about retries.
    pub class: FailureClass,
}

/// The state that follows a change.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Next {
    /// The execution waits for a worker.
    Waiting,
    /// The execution is delayed until this time.
    Delayed(Timestamp),
    /// The execution ended with this outcome.
    Terminal(Outcome),
    /// The execution is suspended.
    Suspended,
}

impl Next {
    pub(crate) fn state(self) -> StateName {
        match self {
            Next::Waiting => StateName::Waiting,
            Next::Delayed(_) => StateName::Delayed,
            Next::Suspended => StateName::Suspended,
            Next::Terminal(Outcome::Completed) => StateName::Completed,
            Next::Terminal(Outcome::Failed) => StateName::Failed,
            Next::Terminal(Outcome::Cancelled) => StateName::Cancelled,
            Next::Terminal(Outcome::Expired) => StateName::Expired,
            Next::Terminal(Outcome::Skipped) => StateName::Skipped,
        }
    }
}

/// A partial fulfilment of a suspension that does not yet resume the execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SuspensionNotice {
    /// A time was reached.
    Time,
    /// An operator resumed the parts that wait for an operator.
    Operator,
    /// The children ended.
    Children,
    /// The wait with this index timed out and was escalated; it continues to wait.
    Escalated(u32),
    /// The gate admits the execution again.
    Gate,
}

/// An edge after a change of its upstream.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct EdgeUpdate {
    pub upstream: ExecutionId,
    /// The edge's new resolution.
    pub edge: Edge,
}

/// A lease renewed by a heartbeat.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RenewedLease {
    pub execution: ExecutionId,
    pub id: LeaseId,
    pub epoch: u32,
}
