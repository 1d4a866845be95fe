//! Reads of the keys that sign waitpoint tokens.

use crate::Error;
use async_trait::async_trait;
use selvedge_core::token::TokenKey;

#[async_trait]
pub trait TokenKeyReads: Send + Sync {
    /// Returns the keys that sign waitpoint tokens, by id.
    async fn token_keys(&self) -> Result<Vec<TokenKey>, Error>;
}
