//! The projection of the event log: events and attempts as rows that SQL can read.
//!
//! One server at a time follows the log and writes the rows of some entries together with its position. The position is a
//! guard: a page that does not continue it changes nothing. So no event is missing and none is there twice, whichever
//! server writes, and whenever one dies.

use selvedge_core::fact::{Failure, LeaseRef};
use selvedge_core::{ExecutionId, FlowId, Name, NamespaceId, Timestamp};
use uuid::Uuid;

/// The rows of consecutive entries of the log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProjectionPage {
    /// The position that the page continues: the number of the last entry before it.
    pub after: i64,
    /// The number of its last entry.
    pub upto: i64,
    /// The events, in the order of the log.
    pub events: Vec<ProjectedEvent>,
    /// The attempts that began or ended, at most once each.
    pub attempts: Vec<ProjectedAttempt>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ProjectedEvent {
    /// The cursor. Cursors have the order of the log, as text.
    pub cursor: String,
    pub kind: &'static str,
    pub at: Timestamp,
    /// The namespace; none for an event that concerns the log itself.
    pub namespace: Option<NamespaceId>,
    /// The execution, if the event concerns one.
    pub execution: Option<ExecutionId>,
    /// The flow, if the event concerns one.
    pub flow: Option<FlowId>,
    /// The version of the row after the change.
    pub version: Option<u32>,
    /// The actor who requested the change.
    pub actor: Option<Name>,
    /// The fields that depend on the type, as a JSON object whose texts have no U+0000.
    pub data: String,
}

/// The changes of an attempt. At least one of start and end is there.
#[derive(Clone, Debug, PartialEq)]
pub struct ProjectedAttempt {
    pub execution: ExecutionId,
    pub attempt: u32,
    pub namespace: NamespaceId,
    /// The start, if the attempt began in the page. Without it, the row exists or is not created.
    pub start: Option<ProjectedStart>,
    /// The end, if the attempt ended in the page.
    pub end: Option<ProjectedEnd>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ProjectedStart {
    /// The lease under which it runs.
    pub lease: LeaseRef,
    pub at: Timestamp,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ProjectedEnd {
    pub at: Timestamp,
    /// The public name of the outcome.
    pub outcome: &'static str,
    /// The reported error, if it failed. Its message has no U+0000, which the text of Postgres cannot have.
    pub error: Option<Failure>,
}

/// The right to write the projection, for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProjectionLease {
    pub owner: Uuid,
    /// The time for which the lease is taken, in milliseconds.
    pub ttl_ms: i64,
}
