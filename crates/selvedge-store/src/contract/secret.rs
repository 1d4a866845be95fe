//! The root secret.

use crate::{Error, RootSecret};
use async_trait::async_trait;

#[async_trait]
pub trait SecretStore: Send + Sync {
    /// Returns the root secret that the store keeps, or one made from `new` if there is none, which is durable before this
    /// returns. All callers, also concurrent ones, get the same secret.
    async fn root_secret(&self, new: &[u8]) -> Result<RootSecret, Error>;
}
