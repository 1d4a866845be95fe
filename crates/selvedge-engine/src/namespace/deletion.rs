//! Deletes a namespace, and creates a deleted one again.

use super::Namespace;
use crate::Error;
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

    /// Creates a deleted namespace again. Refuses one that is being deleted.
    pub(super) async fn create_again(&self) -> Result<(), Error> {
        match self.settings().await?.deletion {
            None => Ok(()),
            Some(Deletion::Done) => self.set_settings(NamespaceSettings::default()).await,
            Some(Deletion::Running(job)) => {
                let detail =
                    format!("has {:?}, which bulk job {job} deletes; wait until it has ended", self.name());
                Err(Refusal::field("/namespaces", detail).into())
            }
        }
    }

    /// Deletes `target` with everything in it, as a bulk job of this namespace. A repeated call returns the same job.
    pub async fn delete_namespace(&self, target: &Namespace, actor: &Name) -> Result<BulkJob, Error> {
        let settings = target.settings().await?;
        let id = match settings.deletion {
            Some(Deletion::Done) => {
                let (what, id) = ("namespace".into(), target.name().to_string());
                return Err(Refusal::NotFound { what, id }.into());
            }
            Some(Deletion::Running(id)) => id,
            None => {
                let id = BulkJobId(Uuid::now_v7());
                let deletion = Some(Deletion::Running(id));
                target.set_settings(NamespaceSettings { deletion, ..settings }).await?;
                id
            }
        };
        let (name, actor) = (target.name().clone(), actor.clone());
        self.run(StartDeletion { id, namespace: self.id(), target: target.id(), name, actor }).await
    }
}
