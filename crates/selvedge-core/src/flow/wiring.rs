//! The wiring of an execution in its flow: its upstreams, its downstreams and its children.
//!
//! An edge is stored at both of its ends: the downstream lists its upstreams, and the upstream lists its downstreams
//! with the index of the edge in their lists. So a completion finds its downstreams without a search, and the lock on
//! an execution covers its list of edges.

use crate::join::EdgeCondition;
use crate::{ExecutionId, Name, Timestamp, submission::When};
use serde::{Deserialize, Serialize};

/// An edge, as its downstream stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Upstream {
    pub execution: ExecutionId,
    /// The condition under which the edge holds.
    pub when: EdgeCondition,
}

/// An edge, as its upstream stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Downstream {
    pub execution: ExecutionId,
    /// The index of the edge among the downstream's upstreams.
    pub edge: u32,
}

/// A spawned child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Child {
    pub execution: ExecutionId,
    /// True if the child continues when its parent ends with an outcome other than completed.
    pub detached: bool,
}

/// All edges of one execution, and its children. Entries are only added.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Wiring {
    /// The edges into the execution.
    pub upstreams: Vec<Upstream>,
    /// The edges from the execution.
    pub downstreams: Vec<Downstream>,
    /// The children that it spawned.
    pub children: Vec<Child>,
}

impl Wiring {
    /// Encodes the wiring for a store.
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("a wiring always serialises")
    }

    /// Decodes the bytes of a store.
    pub fn decode(bytes: &[u8]) -> Result<Self, postcard::Error> {
        crate::stored::decode(bytes)
    }

    /// Reports whether there are neither edges nor children.
    pub fn is_empty(&self) -> bool {
        self.upstreams.is_empty() && self.downstreams.is_empty() && self.children.is_empty()
    }

    /// Reports whether it has children that are cancelled unless it completes.
    pub fn has_attached_children(&self) -> bool {
        self.children.iter().any(|child| !child.detached)
    }
}

/// A node of a flow, fixed when it is added.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// The name, unique in its flow.
    pub name: Name,
    /// The length of the longest path to the node when it was added.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub depth: u32,
    /// The execution that spawned it, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ExecutionId>,
    /// True if its end is enqueued for its parent only if the parent awaits it. False for children that an earlier version
    /// has spawned: their ends are always enqueued.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tells_if_awaited: bool,
    /// A delay, counted from the time at which the node could otherwise be claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<When>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow_deadline_at: Option<Timestamp>,
}

fn is_zero(value: &u32) -> bool {
    *value == 0
}
