//! The inbox, as operators see it: what waits to be taken in, and what was refused.

use super::Namespace;
use crate::Error;
use selvedge_core::inbox::{InboxEntry, InboxNumber};
use selvedge_core::rules::inbox::{ChangeInboxRow, InboxChange};
use selvedge_store::InboxCounts;

impl Namespace {
    /// Counts the submissions from SQL that wait to be taken in and those that were refused, each up to `bound`.
    pub async fn inbox_counts(&self, bound: u64) -> Result<InboxCounts, Error> {
        Ok(self.inner().store.count_inbox(Some(self.name()), bound).await?)
    }

    /// Returns a page of the submissions from SQL that were refused, newest first.
    pub async fn refused_inbox(
        &self,
        after: Option<InboxNumber>,
        limit: u32,
    ) -> Result<Vec<InboxEntry>, Error> {
        Ok(self.inner().store.refused_inbox(self.name(), after, limit).await?)
    }

    /// Takes a refused submission in again, or deletes it.
    pub async fn change_inbox_row(&self, number: InboxNumber, change: InboxChange) -> Result<(), Error> {
        let namespace = self.name().clone();
        self.run(ChangeInboxRow { namespace, number, change }).await??;
        if change == InboxChange::Retry {
            self.inner().committer.look_for_due_rows();
        }
        Ok(())
    }
}
