//! Bulk jobs: one action on any number of executions, done in the background.

use crate::actions::BulkAction;
use crate::fields::Fields;
use crate::filter::ExecutionFilter;
use crate::paging::{IdCursor, Page, Paging};
use crate::schema::{any, map};
use crate::tags::BULK_JOBS;
use crate::values::{Duplicate, Word};
use crate::{Answer, Code, Operation, Refusal};
use selvedge_core::bulk_job::{self, BulkJobId, BulkJobState, REFUSED_MAX};
use selvedge_core::{ExecutionId, Name, Permission, Timestamp};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Start a bulk job
///
/// Acts on all executions that match and exist when it begins, in the background.
#[derive(Clone, Debug, PartialEq, Operation)]
#[api(post = "/v1/bulk-jobs", tag = BULK_JOBS, permission = Permission::Operate, repeatable, answer = StartedBulkJob)]
#[api(answers(201 = "The job.", 200 = "The job of an earlier call with the same key."))]
#[api(example = json!({ "action": { "type": "cancel" }, "filter": { "lane": "old" } }))]
#[api(needs_one_of("all", "filter"), check = StartBulkJob::check)]
pub struct StartBulkJob {
    pub action: BulkAction,
    /// The filters of the list of executions. At least one must be given.
    pub filter: Option<ExecutionFilter>,
    /// True for every execution of the namespace.
    pub all: Option<bool>,
}

impl StartBulkJob {
    fn check(&self, fields: &Fields<'_>) -> Result<(), Refusal> {
        match (&self.filter, self.all.unwrap_or(false)) {
            (None, false) => Err(fields.refuse("filter", "is missing; give filter or all: true")),
            (Some(_), true) => {
                Err(fields.refuse("all", "cannot be combined with filter; give only one of them"))
            }
            (Some(_), false) | (None, true) => Ok(()),
        }
    }
}

/// List bulk jobs, newest first
///
/// A job is kept for 7 days after its end.
#[derive(Clone, Debug, Default, PartialEq, Operation)]
#[api(get = "/v1/bulk-jobs", tag = BULK_JOBS, permission = Permission::Read, answer = Page<BulkJob>)]
#[api(answers(200 = "A page of the list."))]
pub struct ListBulkJobs {
    pub page: Paging<IdCursor<BulkJobId>>,
}

/// Show the progress of a bulk job
#[derive(Clone, Debug, PartialEq, Operation)]
#[api(get = "/v1/bulk-jobs/{id}", tag = BULK_JOBS, permission = Permission::Read, answer = BulkJob)]
#[api(answers(200 = "The job."))]
pub struct GetBulkJob {
    pub id: BulkJobId,
}

/// Stop a bulk job
///
/// What it has done stays done. A job that has ended stays as it is. The deletion of a namespace cannot be stopped.
#[derive(Clone, Debug, PartialEq, Operation)]
#[api(delete = "/v1/bulk-jobs/{id}", tag = BULK_JOBS, permission = Permission::Operate, answer = BulkJob)]
#[api(answers(200 = "The job."), also(Code::WrongState))]
pub struct StopBulkJob {
    pub id: BulkJobId,
}

#[derive(Clone, Debug, PartialEq, Answer)]
pub struct StartedBulkJob {
    #[api(flatten)]
    pub job: BulkJob,
    #[api(flatten)]
    pub duplicate: Duplicate,
}

#[derive(Clone, Debug, PartialEq, Answer)]
pub struct BulkJob {
    pub id: BulkJobId,
    pub state: Word<BulkJobState>,
    /// The action as it was given; a delay has become a time.
    #[api(schema = map(any()))]
    pub action: BulkJobAction,
    /// The filter as it was given; empty for all: true.
    pub filter: BTreeMap<String, Value>,
    pub actor: Name,
    /// The executions met so far.
    pub matched: u64,
    /// Those that the action changed.
    pub done: u64,
    /// Those that needed no change.
    pub unchanged: u64,
    /// Those that refused the action.
    pub refused_count: u64,
    #[api(about = format!("The first {REFUSED_MAX} executions that refused the action."))]
    pub refused: Vec<RefusedExecution>,
    /// The time of submission of the execution met last.
    pub position_at: Option<Timestamp>,
    pub created_at: Timestamp,
    pub ended_at: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Answer)]
pub struct RefusedExecution {
    pub id: ExecutionId,
    pub code: String,
}

/// The action of a job.
#[derive(Clone, Debug, PartialEq, Answer)]
#[api(tag = "type")]
pub enum BulkJobAction {
    Cancel(CancelMany),
    Replay,
    Priority(PrioritiseMany),
    Reschedule(RescheduleMany),
    Tags(TagMany),
    DeleteNamespace(NamespaceDeletion),
    /// An action of a later version, by its name.
    #[api(other)]
    Other(String),
}

#[derive(Clone, Debug, PartialEq, Answer)]
pub struct CancelMany {
    pub reason: Option<String>,
    pub grace_ms: i64,
}

#[derive(Clone, Debug, PartialEq, Answer)]
pub struct PrioritiseMany {
    pub priority: i64,
}

#[derive(Clone, Debug, PartialEq, Answer)]
pub struct RescheduleMany {
    pub until_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Answer)]
pub struct TagMany {
    pub set: BTreeMap<String, Value>,
    pub remove: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Answer)]
pub struct NamespaceDeletion {
    pub namespace: Name,
}

impl From<&bulk_job::BulkJob> for BulkJob {
    fn from(job: &bulk_job::BulkJob) -> BulkJob {
        let bulk_job::BulkJob { spec, progress, .. } = job;
        let refused = progress.refusals.iter();
        BulkJob {
            id: job.id,
            state: job.state.into(),
            action: (&spec.action).into(),
            filter: spec.asked.clone(),
            actor: spec.actor.clone(),
            matched: progress.matched(),
            done: progress.changed,
            unchanged: progress.unchanged,
            refused_count: progress.refused,
            refused: refused.map(|(id, code)| RefusedExecution { id: *id, code: code.clone() }).collect(),
            position_at: progress.position.map(|position| position.submitted_at),
            created_at: job.created_at,
            ended_at: job.ended_at,
        }
    }
}

impl From<&bulk_job::BulkJobAction> for BulkJobAction {
    fn from(action: &bulk_job::BulkJobAction) -> BulkJobAction {
        use bulk_job::BulkJobAction as Stored;
        match action.clone() {
            Stored::Cancel { reason, grace_ms } => BulkJobAction::Cancel(CancelMany { reason, grace_ms }),
            Stored::Replay => BulkJobAction::Replay,
            Stored::Priority { priority } => BulkJobAction::Priority(PrioritiseMany { priority }),
            Stored::Reschedule { until } => BulkJobAction::Reschedule(RescheduleMany { until_at: until }),
            Stored::Tags { set, remove } => {
                let set = set.into_iter().map(|(name, value)| (name, value.into())).collect();
                BulkJobAction::Tags(TagMany { set, remove })
            }
            Stored::DeleteNamespace { name } => {
                BulkJobAction::DeleteNamespace(NamespaceDeletion { namespace: name })
            }
        }
    }
}
