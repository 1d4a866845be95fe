//! A flow: executions connected by edges, and their state as a whole.
//!
//! The number of members in each state is kept in the flow's row and updated once per transaction, so reading it costs
//! the same for ten members and for ten thousand. A flow has ended when none of its members is live; right after that,
//! [`SettleFlow`](crate::rules::flows::whole::SettleFlow) decides its final state.

pub mod critical_path;
pub mod graph;
pub mod join;
pub mod outbox;
pub mod outcome;
pub mod past;
pub mod plan;
pub mod wiring;

use crate::schedule::Scheduled;
use crate::state::StateName;
use crate::{Execution, FlowId, Name, NamespaceId, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::AddAssign;

/// The number of members in each state, or the change of these numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Counts([i32; StateName::ALL.len()]);

impl Counts {
    /// Returns the number of members in this state.
    pub fn of(&self, state: StateName) -> i32 {
        self.0[state as usize]
    }

    /// Adds to the number of members in this state; a negative number subtracts.
    pub fn add(&mut self, state: StateName, change: i32) {
        self.0[state as usize] += change;
    }

    /// Returns the number of all members.
    pub fn total(&self) -> i32 {
        self.0.iter().sum()
    }

    /// Returns the number of members that have not ended.
    pub fn live(&self) -> i32 {
        StateName::ALL.iter().filter(|state| state.outcome().is_none()).map(|state| self.of(*state)).sum()
    }

    /// Reports whether every number is zero.
    pub fn is_zero(&self) -> bool {
        *self == Counts::default()
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        for (count, change) in self.0.iter_mut().zip(other.0) {
            *count += change;
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub enum FlowState {
    /// A member is live, or the final state is not decided yet.
    #[default]
    Running,
    /// It ended, and no member [failed](outcome::has_failed) without being [handled](outcome::handling).
    Completed,
    /// It ended, and a member failed that nothing handled.
    Failed,
    /// It was cancelled and has ended.
    Cancelled,
}

impl FlowState {
    pub const ALL: [FlowState; 4] = [Self::Running, Self::Completed, Self::Failed, Self::Cancelled];

    /// Returns the name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Returns the state with this name.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }

    /// Returns the number under which stores keep this state. Never changes.
    pub fn code(self) -> i16 {
        match self {
            Self::Running => 0,
            Self::Completed => 1,
            Self::Failed => 2,
            Self::Cancelled => 3,
        }
    }

    /// Returns the state with this number.
    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.code() == code)
    }
}

/// The members that the cancellation of a flow ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum CancelMode {
    /// All members that have not ended.
    #[default]
    All,
    /// The members that have not started.
    Pending,
}

impl CancelMode {
    /// Returns the name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Pending => "pending",
        }
    }

    /// Returns the mode with this name.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::All, Self::Pending].into_iter().find(|mode| mode.as_str() == word)
    }
}

/// The cancellation of a flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowCancel {
    /// The members to cancel.
    pub mode: CancelMode,
    /// The operator who cancelled the flow.
    pub actor: Name,
    /// The operator's reason.
    pub reason: Option<String>,
    /// True while members remain to be cancelled.
    pub draining: bool,
}

impl FlowCancel {
    /// Returns the reason for which the cancellation ends a member.
    pub fn member_reason(&self) -> String {
        self.reason.clone().unwrap_or_else(|| "its flow was cancelled".into())
    }
}

/// The part of a flow that is fixed at submission.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FlowSpec {
    /// The time at which the members that have not ended expire.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_at: Option<Timestamp>,
    /// The time for which the flow and its members are kept after its end, in milliseconds.
    pub retention_ms: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<Name>,
    /// The end of the window in which the idempotency key returns this flow. The flow is kept at least until then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept_until: Option<Timestamp>,
    /// The digest of the submission.
    pub digest: u64,
    /// The schedule and the time that submitted it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduled: Option<Scheduled>,
}

/// Changing fields that most flows leave at their defaults.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FlowDetail {
    /// The cancellation, if the flow was cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancel: Option<FlowCancel>,
    /// True if an operator cancelled a member or asked its worker to cancel it: such a member may make the flow fail.
    #[serde(skip_serializing_if = "is_false")]
    pub member_cancelled: bool,
    /// True once deletion has begun: nothing may be added or replayed.
    #[serde(skip_serializing_if = "is_false")]
    pub deleting: bool,
}

fn is_false(value: &bool) -> bool {
    !*value
}

/// The row of a flow.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    pub id: FlowId,
    /// The namespace that owns it.
    pub namespace: NamespaceId,
    /// The time of submission.
    pub submitted_at: Timestamp,
    pub name: Option<Name>,
    /// The tags, by name.
    pub tags: BTreeMap<String, String>,
    /// The specification, fixed at submission.
    pub spec: FlowSpec,
    /// The version of the row. Every change raises it, changes of the counts included.
    pub version: u32,
    pub state: FlowState,
    /// The time at which the final state was decided.
    pub ended_at: Option<Timestamp>,
    /// Fields that most flows leave at their defaults.
    pub detail: FlowDetail,
    /// The number of members in each state.
    pub counts: Counts,
}

impl Flow {
    /// Creates the flow of an execution that was submitted alone and now spawns others. It takes over the execution's
    /// id, tags and time of submission. Its counts are zero.
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

    /// Reports whether no member is live, whether or not the final state is decided.
    pub fn has_ended(&self) -> bool {
        self.state != FlowState::Running || self.counts.live() == 0
    }

    /// Reports whether it has ended and its final state is not decided yet.
    pub fn is_unsettled(&self) -> bool {
        self.state == FlowState::Running && self.counts.live() == 0
    }

    /// Returns the time at which it may be deleted.
    pub fn delete_at(&self) -> Option<Timestamp> {
        let kept = self.ended_at?.plus_ms(self.spec.retention_ms);
        Some(self.spec.kept_until.map_or(kept, |until| until.max(kept)))
    }
}

/// Selects flows. All given conditions must match.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowFilter {
    pub namespace: NamespaceId,
    /// The states; empty means all.
    pub states: Vec<FlowState>,
    pub name: Option<Name>,
    /// A tag, written `name:value`.
    pub tag: Option<String>,
    /// The earliest time of submission, inclusive.
    pub submitted_after: Option<Timestamp>,
    /// The latest time of submission, exclusive.
    pub submitted_before: Option<Timestamp>,
}

impl FlowFilter {
    /// Selects all flows of a namespace.
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

/// The position of a flow in a list: newest first, then by descending id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowListPosition {
    /// The time of submission.
    pub submitted_at: Timestamp,
    pub id: FlowId,
}
