//! The deletion of expired keys of operations.

use crate::Error;
use async_trait::async_trait;

#[async_trait]
pub trait KeyStore: Send + Sync {
    /// Deletes up to `limit` expired keys of operations, skipping locked ones, and returns how many were deleted.
    async fn delete_expired_keys(&self, limit: u32) -> Result<u64, Error>;
}
