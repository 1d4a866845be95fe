//! What lists ask for: one filter for listing and for bulk actions.

use crate::state::StateName;
use crate::{ClassId, ExecutionId, FlowId, NamespaceId, Timestamp};

/// Which executions. Every part that is given must match.
#[derive(Clone, Debug, PartialEq)]
pub struct Filter {
    /// Of this namespace.
    pub namespace: NamespaceId,
    /// Of these classes; none means any. The engine derives it from lane and kind.
    pub classes: Option<Vec<ClassId>>,
    /// In one of these states; empty means any.
    pub states: Vec<StateName>,
    /// Of this flow.
    pub flow: Option<FlowId>,
    /// With this tag, written `name:value`.
    pub tag: Option<String>,
    /// Submitted at or after.
    pub submitted_after: Option<Timestamp>,
    /// Submitted before.
    pub submitted_before: Option<Timestamp>,
}

impl Filter {
    /// Everything of a namespace.
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

/// The place of an execution in a list: newest first, then by id downwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListPosition {
    /// When it was submitted.
    pub submitted_at: Timestamp,
    /// Its id.
    pub id: ExecutionId,
}

/// How a tag is written in indexes and filters.
pub fn tag_text(name: &str, value: &str) -> String {
    format!("{name}:{value}")
}
