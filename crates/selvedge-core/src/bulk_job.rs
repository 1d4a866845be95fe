//! Bulk jobs: an action on all executions that match a filter, however many there are.
//!
//! A job walks the list of the executions that match, from the newest that existed at its start to the oldest, and acts on a
//! chunk of them in each transaction. The same transaction moves the job's position and counts, so a crash repeats nothing
//! and skips nothing. The order of the list never changes, and what is submitted later lies before the position: each
//! execution is met at most once.

use crate::filter::{Filter, ListPosition};
use crate::rules::operator::Action;
use crate::submission::When;
use crate::{ExecutionId, Name, NamespaceId, Refusal, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use uuid::Uuid;

/// The maximum number of refused executions that a job remembers.
pub const REFUSED_MAX: usize = 100;
/// The time for which an ended job is kept, in milliseconds: 7 days.
pub const KEPT_MS: i64 = 7 * 24 * 3_600_000;
/// The time without progress after which another server continues a job, in milliseconds.
pub const TAKEOVER_MS: i64 = 5_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BulkJobId(pub Uuid);

impl fmt::Display for BulkJobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The action of a job. Stored as JSON: variants and fields are never renamed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum BulkJobAction {
    Cancel {
        /// The operator's reason.
        reason: Option<String>,
        /// The time that workers have to clean up, in milliseconds.
        grace_ms: i64,
    },
    Replay,
    Priority {
        /// The new priority.
        priority: i64,
    },
    Reschedule {
        /// The new earliest start.
        until: Timestamp,
    },
    Tags {
        /// The tags to set.
        set: BTreeMap<String, String>,
        /// The names of the tags to remove.
        remove: Vec<String>,
    },
    /// Delete a namespace with everything in it.
    DeleteNamespace {
        /// The name of the namespace.
        name: Name,
    },
}

impl BulkJobAction {
    /// Returns the stored form of an action; a delay counts from `now`. Refuses actions on one execution alone.
    pub fn of(action: &Action, now: Timestamp) -> Result<BulkJobAction, Refusal> {
        Ok(match action {
            Action::Cancel { reason, grace_ms } => {
                BulkJobAction::Cancel { reason: reason.clone(), grace_ms: *grace_ms }
            }
            Action::Replay => BulkJobAction::Replay,
            Action::Prioritise { priority } => BulkJobAction::Priority { priority: *priority },
            Action::Reschedule { until } => BulkJobAction::Reschedule { until: until.at(now) },
            Action::Tag { set, remove } => BulkJobAction::Tags { set: set.clone(), remove: remove.clone() },
            Action::Revoke { .. }
            | Action::Resume
            | Action::RevokeWaitpoint { .. }
            | Action::ReissueWaitpoint(_) => {
                return Err(Refusal::field("/action", "is not an action on many executions"));
            }
        })
    }

    /// Returns the action on each execution; none for the deletion of a namespace.
    pub fn action(&self) -> Option<Action> {
        Some(match self.clone() {
            BulkJobAction::Cancel { reason, grace_ms } => Action::Cancel { reason, grace_ms },
            BulkJobAction::Replay => Action::Replay,
            BulkJobAction::Priority { priority } => Action::Prioritise { priority },
            BulkJobAction::Reschedule { until } => Action::Reschedule { until: When::At(until) },
            BulkJobAction::Tags { set, remove } => Action::Tag { set, remove },
            BulkJobAction::DeleteNamespace { .. } => return None,
        })
    }

    /// Returns the name of the action.
    pub fn as_str(&self) -> &'static str {
        match self {
            BulkJobAction::Cancel { .. } => "cancel",
            BulkJobAction::Replay => "replay",
            BulkJobAction::Priority { .. } => "priority",
            BulkJobAction::Reschedule { .. } => "reschedule",
            BulkJobAction::Tags { .. } => "tags",
            BulkJobAction::DeleteNamespace { .. } => "delete_namespace",
        }
    }
}

/// The immutable part of a job. Stored as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BulkJobSpec {
    pub action: BulkJobAction,
    /// The filter, with the classes of its lane and kind as of the start of the job.
    pub filter: Filter,
    /// The filter as the caller wrote it.
    pub asked: BTreeMap<String, serde_json::Value>,
    pub actor: Name,
}

/// The progress of a job. Stored as JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BulkJobProgress {
    /// The number of chunks that were done.
    pub chunks: u64,
    /// The place in the list after which the next chunk begins; none at the beginning.
    pub position: Option<ListPosition>,
    /// The number of executions that the action changed.
    pub changed: u64,
    /// The number of executions that already were as the action leaves them, or were gone.
    pub unchanged: u64,
    /// The number of executions that refused the action.
    pub refused: u64,
    /// The first executions that refused the action, each with the code of its refusal.
    pub refusals: Vec<(ExecutionId, String)>,
}

impl BulkJobProgress {
    /// Returns the number of executions that the job has met.
    pub fn matched(&self) -> u64 {
        self.changed + self.unchanged + self.refused
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BulkJobState {
    /// It has executions left to meet.
    Running,
    /// It has met all of them.
    Completed,
    /// An operator stopped it.
    Stopped,
}

impl BulkJobState {
    pub const ALL: [BulkJobState; 3] =
        [BulkJobState::Running, BulkJobState::Completed, BulkJobState::Stopped];

    /// Returns the name in requests, responses and rows.
    pub fn as_str(self) -> &'static str {
        match self {
            BulkJobState::Running => "running",
            BulkJobState::Completed => "completed",
            BulkJobState::Stopped => "stopped",
        }
    }

    /// Returns the state with this name.
    pub fn parse(word: &str) -> Option<BulkJobState> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct BulkJob {
    /// The id: a UUID of version 7, ordered by the time of creation.
    pub id: BulkJobId,
    pub namespace: NamespaceId,
    pub state: BulkJobState,
    /// The time of its creation.
    pub created_at: Timestamp,
    /// The time of its end.
    pub ended_at: Option<Timestamp>,
    /// While it runs, the time from which any server may continue it. Once it has ended, the time at which it is deleted.
    pub due_at: Timestamp,
    pub spec: BulkJobSpec,
    pub progress: BulkJobProgress,
}

impl BulkJob {
    /// Ends the job at a time.
    pub fn end(&mut self, state: BulkJobState, now: Timestamp) {
        self.state = state;
        self.ended_at = Some(now);
        self.due_at = now.plus_ms(KEPT_MS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_action_becomes_the_same_action_and_a_delay_counts_from_the_start() {
        let now = Timestamp::from_micros(5_000_000);
        let tags = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
        let actions = [
            Action::Cancel { reason: Some("why".into()), grace_ms: 5 },
            Action::Replay,
            Action::Prioritise { priority: -3 },
            Action::Reschedule { until: When::At(now) },
            Action::Tag { set: tags, remove: vec!["c".into()] },
        ];
        for action in actions {
            let stored = BulkJobAction::of(&action, now).expect("is for many");
            let text = serde_json::to_string(&stored).expect("it serialises");
            assert!(text.contains(stored.as_str()), "{text}");
            let read: BulkJobAction = serde_json::from_str(&text).expect("it is read again");
            assert_eq!(read.action(), Some(action));
        }
        let delayed = BulkJobAction::of(&Action::Reschedule { until: When::AfterMs(7) }, now);
        assert_eq!(delayed, Ok(BulkJobAction::Reschedule { until: now.plus_ms(7) }));
        assert!(BulkJobAction::of(&Action::Resume, now).is_err());
    }
}
