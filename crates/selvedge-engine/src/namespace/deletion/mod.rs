//! Deletes a namespace.
//!
//! The namespace is marked first, and its job is started after that. A server that crashes in between leaves a namespace that takes
//! no calls and has no job; deleting it again starts the job.

mod emptying;

pub use emptying::empty;

use crate::Error;
use crate::namespace::Namespace;
use selvedge_core::bulk_job::{BulkJob, BulkJobId};
use selvedge_core::rules::bulk_job::StartDeletion;
use selvedge_core::{Name, Refusal};
use selvedge_store::{Deletion, NamespaceSettings};
use uuid::Uuid;

/// The time within which every server of the store notices that a namespace is deleted, in milliseconds.
pub const MARK_NOTICED_MS: i64 = 35_000;

impl Namespace {
    /// Reports whether the namespace was deleted or is being deleted. Other servers learn it within half a minute.
    pub async fn is_deleted(&self) -> Result<bool, Error> {
        Ok(self.known_settings().await?.deletion.is_some())
    }

    /// Refuses a namespace that is being deleted, or was deleted meanwhile.
    pub(in crate::namespace) async fn refuse_deletion(&self) -> Result<(), Error> {
        let detail = match self.settings().await?.deletion {
            None => return Ok(()),
            Some(Deletion::Running(job)) => {
                format!("has {:?}, which bulk job {job} deletes; wait until it has ended", self.name())
            }
            Some(Deletion::Done) => format!("has {:?}, which was just deleted; try again", self.name()),
        };
        Err(Refusal::field("/namespaces", detail).into())
    }

    /// Deletes `target` with everything in it, as a bulk job of this namespace. A repeated call returns the same job, and continues
    /// one that was stopped.
    pub async fn delete_namespace(&self, target: &Namespace, actor: &Name) -> Result<BulkJob, Error> {
        let mut settings = target.settings().await?;
        if settings.deletion.is_none() {
            let deletion = Some(Deletion::Running(BulkJobId(Uuid::now_v7())));
            // Another server may have marked it first; then its job is the one.
            settings = target.set_settings(NamespaceSettings { deletion, ..settings }).await?;
        }
        let Some(Deletion::Running(id)) = settings.deletion else {
            let (what, id) = ("namespace".into(), target.name().to_string());
            return Err(Refusal::NotFound { what, id }.into());
        };
        let (name, actor) = (target.name().clone(), actor.clone());
        self.run(StartDeletion { id, namespace: self.id(), target: target.id(), name, actor }).await
    }
}
