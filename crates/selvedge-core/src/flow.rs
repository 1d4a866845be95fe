//! A flow: executions wired together, and how it stands as a whole.
//!
//! How many of its members are in which state is kept with the flow, one addition per transaction, so that reading it costs
//! the same for ten members and for ten thousand. A flow has ended when no member is live; how it ended is settled by
//! [`SettleFlow`](crate::rules::flow::SettleFlow) right after.

use crate::state::StateName;
use crate::{Execution, FlowId, Name, NamespaceId, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::AddAssign;

/// How many members of a flow are in each state, or by how many that changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Counts([i32; StateName::ALL.len()]);

impl Counts {
    /// How many are in this state.
    pub fn of(&self, state: StateName) -> i32 {
        self.0[state as usize]
    }

    /// Counts more, or fewer, in this state.
    pub fn add(&mut self, state: StateName, more: i32) {
        self.0[state as usize] += more;
    }

    /// All members.
    pub fn total(&self) -> i32 {
        self.0.iter().sum()
    }

    /// Those that have not ended.
    pub fn live(&self) -> i32 {
        StateName::ALL.iter().filter(|state| state.outcome().is_none()).map(|state| self.of(*state)).sum()
    }

    /// Whether nothing is counted, or nothing changes.
    pub fn is_zero(&self) -> bool {
        *self == Counts::default()
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        for (mine, more) in self.0.iter_mut().zip(other.0) {
            *mine += more;
        }
    }
}

/// The state of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub enum FlowState {
    /// A member is live, or how it ended is not settled yet.
    #[default]
    Running,
    /// It ended, and whatever failed was made up for.
    Completed,
    /// It ended, and a member failed or expired that nothing made up for.
    Failed,
    /// It ended after its cancel was asked for.
    Cancelled,
}

impl FlowState {
    /// Every state.
    pub const ALL: [FlowState; 4] = [Self::Running, Self::Completed, Self::Failed, Self::Cancelled];

    /// Its word in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// The state with this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }

    /// The number a store keeps. Stable for ever.
    pub fn code(self) -> i16 {
        match self {
            Self::Running => 0,
            Self::Completed => 1,
            Self::Failed => 2,
            Self::Cancelled => 3,
        }
    }

    /// The state with this number.
    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.code() == code)
    }
}

/// Which members a cancel of the flow ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum CancelMode {
    /// All that have not ended.
    #[default]
    All,
    /// Those that have not started.
    Pending,
}

impl CancelMode {
    /// Its word in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Pending => "pending",
        }
    }

    /// The mode with this word.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::All, Self::Pending].into_iter().find(|mode| mode.as_str() == word)
    }
}

/// A cancel that was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowCancel {
    /// Which members.
    pub mode: CancelMode,
    /// Who asked.
    pub actor: Name,
    /// Why.
    pub reason: Option<String>,
    /// Whether members are still to be cancelled.
    pub draining: bool,
}

/// What was settled when the flow was submitted.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FlowSpec {
    /// Longest it may live.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_at: Option<Timestamp>,
    /// How long it and its members stay after its end.
    pub retention_ms: i64,
    /// Its idempotency key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<Name>,
    /// Until when it stays in any case: a key stands for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept_until: Option<Timestamp>,
    /// Digest of what was submitted.
    pub digest: u64,
}

/// What changes and is rarely there.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FlowDetail {
    /// A cancel that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancel: Option<FlowCancel>,
    /// Whether its deletion has begun: nothing may be added or run again.
    #[serde(skip_serializing_if = "is_false")]
    pub deleting: bool,
}

fn is_false(value: &bool) -> bool {
    !*value
}

/// A flow's row.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// Its id.
    pub id: FlowId,
    /// Its namespace.
    pub namespace: NamespaceId,
    /// When it was submitted.
    pub submitted_at: Timestamp,
    /// Its name.
    pub name: Option<Name>,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// What was settled at submission.
    pub spec: FlowSpec,
    /// Grows with every change, those of its counts included.
    pub version: u32,
    /// Its state.
    pub state: FlowState,
    /// When its end was settled.
    pub ended_at: Option<Timestamp>,
    /// What is rarely there.
    pub detail: FlowDetail,
    /// How many members are in which state.
    pub counts: Counts,
}

impl Flow {
    /// The flow that an execution is which was submitted alone: it has its id, its tags and its time. Nothing is counted yet.
    pub fn alone(row: &Execution) -> Flow {
        Flow {
            id: row.flow(),
            namespace: row.namespace,
            submitted_at: row.submitted_at,
            name: None,
            tags: row.tags.clone(),
            spec: FlowSpec {
                retention_ms: row.spec.policy.retention_ms,
                kept_until: row.key_until(),
                ..FlowSpec::default()
            },
            version: 1,
            state: FlowState::Running,
            ended_at: None,
            detail: FlowDetail::default(),
            counts: Counts::default(),
        }
    }

    /// Whether no member is live: it has ended, settled or not.
    pub fn has_ended(&self) -> bool {
        self.state != FlowState::Running || self.counts.live() == 0
    }

    /// Whether its end is still to be settled.
    pub fn is_unsettled(&self) -> bool {
        self.state == FlowState::Running && self.counts.live() == 0
    }

    /// When it may be deleted.
    pub fn delete_at(&self) -> Option<Timestamp> {
        let kept = self.ended_at?.plus_ms(self.spec.retention_ms);
        Some(self.spec.kept_until.map_or(kept, |until| until.max(kept)))
    }
}

/// Which flows a list shows. Every part that is given must match.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowFilter {
    /// Of this namespace.
    pub namespace: NamespaceId,
    /// In one of these states; empty for any.
    pub states: Vec<FlowState>,
    /// With this name.
    pub name: Option<Name>,
    /// With this tag, `name:value`.
    pub tag: Option<String>,
    /// Submitted at or after.
    pub submitted_after: Option<Timestamp>,
    /// Submitted before.
    pub submitted_before: Option<Timestamp>,
}

impl FlowFilter {
    /// All flows of a namespace.
    pub fn all(namespace: NamespaceId) -> Self {
        FlowFilter {
            namespace,
            states: Vec::new(),
            name: None,
            tag: None,
            submitted_after: None,
            submitted_before: None,
        }
    }
}

/// A place in a list of flows: newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowListPosition {
    /// When it was submitted.
    pub submitted_at: Timestamp,
    /// Which.
    pub id: FlowId,
}
