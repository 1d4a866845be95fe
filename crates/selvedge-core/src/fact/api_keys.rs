//! Facts about API keys.

use super::declaration::declare;
use crate::api_key::ApiKeyId;
use crate::{Name, Timestamp};

declare! {
    /// An administrator created an API key.
    pub struct ApiKeyCreated {
        key: ApiKeyId,
        name: Name,
        role: String,
        /// The namespaces in which the role applies.
        namespaces: Vec<Name>,
        /// The time from which the key is refused, if it expires.
        expires_at: Option<Timestamp>,
    }
    publishes "key.created" { "key": key, "name": name, "role": role, "namespaces": namespaces } with "expires_at" = expires_at;

    /// An administrator revoked an API key.
    pub struct ApiKeyRevoked { key: ApiKeyId, name: Name, }
    publishes "key.revoked" { "key": key, "name": name };
}
