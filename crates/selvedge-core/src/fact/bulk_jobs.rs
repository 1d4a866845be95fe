//! Facts about bulk jobs.

use super::declaration::declare;
use crate::bulk_job::BulkJobId;

declare! {
    /// An operator started a bulk job.
    pub struct BulkJobStarted {
        job: BulkJobId,
        /// The name of its action.
        action: String,
    }
    publishes "operator.bulk_job_started" { "job": job, "action": action };

    /// A bulk job has met all its executions, or was stopped.
    pub struct BulkJobEnded {
        job: BulkJobId,
        /// The name of its state.
        state: String,
        /// The number of executions that it changed.
        changed: u64,
        /// The number of executions that needed no change.
        unchanged: u64,
        /// The number of executions that refused the action.
        refused: u64,
    }
    publishes "operator.bulk_job_ended" {
        "job": job, "state": state, "done": changed, "unchanged": unchanged, "refused": refused
    };
}
