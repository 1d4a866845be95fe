//! Reads of the outbox.

use crate::{Error, ReconcilerScope};
use async_trait::async_trait;
use selvedge_core::Timestamp;
use selvedge_core::outbox::{OutboxKind, OutboxRow};
use uuid::Uuid;

#[async_trait]
pub trait OutboxReads: Send + Sync {
    /// Returns a page of the outbox rows of a kind in a scope that are at least `stale_ms` milliseconds old, oldest first.
    async fn outbox(
        &self,
        scope: &ReconcilerScope,
        kind: OutboxKind,
        stale_ms: i64,
        after: Option<(Timestamp, Uuid)>,
        limit: u32,
    ) -> Result<Vec<OutboxRow>, Error>;
}
