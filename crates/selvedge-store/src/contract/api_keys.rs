//! Reads of API keys, and the record of their last use.

use crate::Error;
use async_trait::async_trait;
use selvedge_core::Timestamp;
use selvedge_core::api_key::{ApiKey, ApiKeyId, KeyDigest};

#[async_trait]
pub trait ApiKeyStore: Send + Sync {
    /// Returns the API key with this digest, and the store's time.
    async fn api_key(&self, digest: &KeyDigest) -> Result<Option<(ApiKey, Timestamp)>, Error>;
    /// Returns a page of the API keys, newest first: `after` is the id of the last key of the previous page.
    async fn api_keys(&self, after: Option<ApiKeyId>, limit: u32) -> Result<Vec<ApiKey>, Error>;
    /// Sets the last use of API keys to the store's time; unknown ids are ignored. Changes nothing else.
    async fn touch_api_keys(&self, ids: &[ApiKeyId]) -> Result<(), Error>;
}
