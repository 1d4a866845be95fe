//! Which bulk jobs a caller may know of.

use super::Caller;
use selvedge_core::Permission;
use selvedge_core::bulk_job::{BulkJob, BulkJobAction};

impl Caller {
    /// Reports whether the caller may know of a bulk job. The deletion of a namespace is shown to its administrators only, because it
    /// names a namespace that other callers may not know.
    pub fn sees(&self, job: &BulkJob) -> bool {
        match &job.spec.action {
            BulkJobAction::DeleteNamespace { name } => {
                self.may(Permission::Administer) && self.check_namespace(name).is_ok()
            }
            BulkJobAction::Cancel { .. }
            | BulkJobAction::Replay
            | BulkJobAction::Priority { .. }
            | BulkJobAction::Reschedule { .. }
            | BulkJobAction::Tags { .. } => true,
        }
    }
}
