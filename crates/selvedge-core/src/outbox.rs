//! The outbox: what a commit leaves to be done. A row leaves it in the transaction that does the last of its work, so a
//! crash at any point loses nothing; and every work in it looks at how things stand when it is done, so doing it twice
//! changes nothing.

use crate::{NamespaceId, Timestamp};
use std::collections::BTreeMap;
use uuid::Uuid;

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OutboxKind {
    /// Bring the edges from an execution up to date with it: it has ended, or was opened again.
    Edges,
    /// Cancel the unfinished upstreams of an execution whose group is satisfied.
    Siblings,
    /// Cancel the children of an execution that did not succeed.
    Children,
    /// Cancel the members of a flow.
    Flow,
    /// Tell an execution that children of it have ended.
    Parent,
}

impl OutboxKind {
    /// Every kind.
    pub const ALL: [OutboxKind; 5] = [Self::Edges, Self::Siblings, Self::Children, Self::Flow, Self::Parent];

    /// The number a store keeps. Stable for ever.
    pub fn code(self) -> i16 {
        match self {
            Self::Edges => 1,
            Self::Siblings => 2,
            Self::Children => 3,
            Self::Flow => 4,
            Self::Parent => 5,
        }
    }

    /// The kind with this number.
    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

/// Names a row of the outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutboxName {
    /// The execution it is about; the flow, for [`OutboxKind::Flow`].
    pub id: Uuid,
    /// What is to be done.
    pub kind: OutboxKind,
}

/// A row of the outbox.
#[derive(Clone, Debug, PartialEq)]
pub struct OutboxRow {
    /// Its name.
    pub name: OutboxName,
    /// Since when.
    pub at: Timestamp,
    /// How much of it is done: what is wide is done in chunks.
    pub position: u32,
    /// The namespace, for the filters of reconcilers.
    pub namespace: NamespaceId,
    /// The tags, for the filters of reconcilers.
    pub tags: BTreeMap<String, String>,
}
