//! Reads of the sessions of workers.

use crate::Error;
use async_trait::async_trait;
use selvedge_core::{NamespaceId, Session, SessionId};

#[async_trait]
pub trait SessionReads: Send + Sync {
    /// Returns the sessions of a namespace, or of all namespaces, by id.
    async fn sessions(&self, namespace: Option<NamespaceId>) -> Result<Vec<Session>, Error>;
    /// Returns up to `limit` sessions without leases that were last seen more than `unseen_ms` milliseconds ago.
    async fn unseen_sessions(&self, unseen_ms: i64, limit: u32) -> Result<Vec<SessionId>, Error>;
}
