//! Reads of the inbox of SQL submissions, and the deletion of old refused rows.

use crate::{Error, InboxCounts, Transactions};
use async_trait::async_trait;
use selvedge_core::Name;
use selvedge_core::inbox::{InboxEntry, InboxNumber};
use std::future::ready;

#[async_trait]
pub trait InboxStore: Transactions {
    /// Returns a page of the rows of the inbox that wait to be taken in: by transaction, then by number. `after` is the last
    /// row of the previous page. With a namespace: only its rows. A page ends at `limit` rows or 8 MiB, and has at least one
    /// row if there is one. Stores without SQL submission have no inbox.
    async fn pending_inbox(
        &self,
        _namespace: Option<&Name>,
        _after: Option<(u64, InboxNumber)>,
        _limit: u32,
    ) -> Result<Vec<InboxEntry>, Error> {
        self.meter().measure("pending_inbox", ready(Ok(Vec::new()))).await
    }
    /// Returns a page of the refused rows of a namespace, newest first, with empty bodies. `after` is the last number of the previous page.
    async fn refused_inbox(
        &self,
        _namespace: &Name,
        _after: Option<InboxNumber>,
        _limit: u32,
    ) -> Result<Vec<InboxEntry>, Error> {
        self.meter().measure("refused_inbox", ready(Ok(Vec::new()))).await
    }
    /// Counts the rows of the inbox, each kind up to `bound`. With a namespace: only its rows.
    async fn count_inbox(&self, _namespace: Option<&Name>, _bound: u64) -> Result<InboxCounts, Error> {
        self.meter().measure("count_inbox", ready(Ok(InboxCounts::default()))).await
    }
    /// Deletes up to `limit` rows that were refused longer than [`REFUSED_KEPT_MS`](selvedge_core::inbox::REFUSED_KEPT_MS)
    /// ago. Returns how many.
    async fn delete_old_inbox(&self, _limit: u32) -> Result<u64, Error> {
        self.meter().measure("delete_old_inbox", ready(Ok(0))).await
    }
}
