//! The filter of execution lists and bulk actions, and positions in a list.

use crate::state::StateName;
use crate::{ClassId, ExecutionId, FlowId, NamespaceId, Timestamp};

/// Selects executions. All given conditions must match.
#[derive(Clone, Debug, PartialEq)]
pub struct Filter {
    /// The namespace.
    pub namespace: NamespaceId,
    /// The classes; none means all. The engine derives them from lane and kind.
    pub classes: Option<Vec<ClassId>>,
    /// The states; empty means all.
    pub states: Vec<StateName>,
    /// The flow.
    pub flow: Option<FlowId>,
    /// A tag, written `name:value`.
    pub tag: Option<String>,
    /// The earliest time of submission, inclusive.
    pub submitted_after: Option<Timestamp>,
    /// The latest time of submission, exclusive.
    pub submitted_before: Option<Timestamp>,
}

impl Filter {
    /// Selects all executions of a namespace.
    pub fn all(namespace: NamespaceId) -> Self {
        Filter {
            namespace,
            classes: None,
            states: Vec::new(),
            flow: None,
            tag: None,
            submitted_after: None,
            submitted_before: None,
        }
    }
}

/// The position of an execution in a list: newest first, then by descending id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListPosition {
    /// The time of submission.
    pub submitted_at: Timestamp,
    /// The execution's id.
    pub id: ExecutionId,
}

/// Returns the form of a tag in indexes and filters.
pub fn tag_text(name: &str, value: &str) -> String {
    format!("{name}:{value}")
}
