//! The outbox: work that a transaction enqueues for later ones. A row is deleted in the transaction that does the last
//! of its work, so a crash at any point loses nothing. The work acts on the current state of its rows, so repeating it
//! changes nothing.

use crate::{NamespaceId, Timestamp};
use std::collections::BTreeMap;
use uuid::Uuid;

/// A kind of enqueued work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OutboxKind {
    /// Update the edges from an execution that ended or reopened.
    Edges,
    /// Cancel the unfinished upstreams of an execution whose group is satisfied.
    Siblings,
    /// Cancel the attached children of an execution that ended with an outcome other than completed.
    Children,
    /// Cancel the members of a cancelled flow.
    Flow,
    /// Update an execution that is suspended until its children have ended: await the end of one, or resume it.
    Parent,
}

impl OutboxKind {
    pub const ALL: [OutboxKind; 5] = [Self::Edges, Self::Siblings, Self::Children, Self::Flow, Self::Parent];

    /// Returns the number under which stores keep this kind. Never changes.
    pub fn code(self) -> i16 {
        match self {
            Self::Edges => 1,
            Self::Siblings => 2,
            Self::Children => 3,
            Self::Flow => 4,
            Self::Parent => 5,
        }
    }

    /// Returns the kind with this number.
    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

/// The key of an outbox row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutboxName {
    /// The id of the execution; of the flow for [`OutboxKind::Flow`].
    pub id: Uuid,
    /// The kind of work.
    pub kind: OutboxKind,
}

#[derive(Clone, Debug, PartialEq)]
pub struct OutboxRow {
    /// The key of the row.
    pub name: OutboxName,
    /// The time at which it was enqueued.
    pub at: Timestamp,
    /// The number of items already processed. Wide work is done in chunks.
    pub position: u32,
    /// The namespace, for the filters of reconcilers.
    pub namespace: NamespaceId,
    /// The tags of the execution or flow, for the filters of reconcilers.
    pub tags: BTreeMap<String, String>,
}
