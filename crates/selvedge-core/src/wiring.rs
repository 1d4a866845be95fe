//! How an execution is wired into its flow: whom it waits for, who waits for it, and what it spawned.
//!
//! An edge is known at both of its ends: the downstream lists its upstreams, and the upstream lists its downstreams with
//! the place of the edge in their lists. So a completion knows what it moves without a search, and whoever holds the lock
//! on an execution holds its list of edges still.

use crate::join::EdgeCondition;
use crate::{ExecutionId, Name, Timestamp, submission::When};
use serde::{Deserialize, Serialize};

/// An edge, as its downstream knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Upstream {
    /// Whom it waits for.
    pub execution: ExecutionId,
    /// When the edge holds.
    pub when: EdgeCondition,
}

/// An edge, as its upstream knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Downstream {
    /// Who waits for it.
    pub execution: ExecutionId,
    /// The place of the edge among the downstream's upstreams.
    pub edge: u32,
}

/// An execution that was spawned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Child {
    /// Which.
    pub execution: ExecutionId,
    /// Whether it lives on when its parent does not succeed.
    pub detached: bool,
}

/// All edges of one execution, and its children. Grows, never shrinks.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Wiring {
    /// Whom it waits for.
    pub upstreams: Vec<Upstream>,
    /// Who waits for it.
    pub downstreams: Vec<Downstream>,
    /// What it spawned.
    pub children: Vec<Child>,
}

impl Wiring {
    /// The bytes that a store keeps.
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_stdvec(self).unwrap_or_default()
    }

    /// From the bytes that a store kept.
    pub fn decode(bytes: &[u8]) -> Result<Self, postcard::Error> {
        postcard::from_bytes(bytes)
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.upstreams.is_empty() && self.downstreams.is_empty() && self.children.is_empty()
    }

    /// Whether it has children that end with it unless it succeeds.
    pub fn has_attached_children(&self) -> bool {
        self.children.iter().any(|child| !child.detached)
    }
}

/// What was settled about a node when it was added to its flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Its name, unique in its flow.
    pub name: Name,
    /// How many nodes come before it on the longest way to it, counted when it was added.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub depth: u32,
    /// Who spawned it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ExecutionId>,
    /// Not before: counted from the moment it would otherwise be ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<When>,
    /// The deadline of its flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow_deadline_at: Option<Timestamp>,
}

fn is_zero(value: &u32) -> bool {
    *value == 0
}
