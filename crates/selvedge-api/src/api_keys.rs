//! API keys. A key itself is in one answer only: that of the call which created it.

use crate::paging::{IdCursor, Page, Paging};
use crate::schema::{Schema, list_of_at_most, name};
use crate::tags::ADMINISTRATION;
use crate::values::{Duplicate, Word};
use crate::{Answer, Code, Operation};
use selvedge_core::api_key::{self, ApiKeyId, NAMESPACES_MAX};
use selvedge_core::{Name, Permission, Role, Timestamp};
use serde_json::json;

/// Create an API key
#[derive(Clone, Debug, PartialEq, Operation)]
#[api(post = "/v1/admin/keys", tag = ADMINISTRATION, permission = Permission::Administer, repeatable)]
#[api(answer = CreatedApiKey, also(Code::NotFound))]
#[api(answers(201 = "The new key.", 200 = "The request repeats an earlier one."))]
#[api(example = json!({ "name": "mailer", "role": "worker", "namespaces": ["default"] }))]
pub struct CreateKey {
    /// The name of the key, which is the actor of what it does.
    pub name: Name,
    pub role: Role,
    /// The namespaces of the key; * for all of them.
    #[api(schema = Schema(list_of_at_most(NAMESPACES_MAX, name()).0.with("minItems", 1)))]
    pub namespaces: Vec<String>,
    pub expires_at: Option<Timestamp>,
}

/// List API keys, newest first
///
/// Revoked ones are included.
#[derive(Clone, Debug, Default, PartialEq, Operation)]
#[api(get = "/v1/admin/keys", tag = ADMINISTRATION, permission = Permission::Administer)]
#[api(answer = Page<ApiKey>, answers(200 = "A page of the list."))]
pub struct ListKeys {
    pub page: Paging<IdCursor<ApiKeyId>>,
}

/// Revoke an API key
///
/// This server refuses it at once, others within seconds.
#[derive(Clone, Debug, PartialEq, Operation)]
#[api(delete = "/v1/admin/keys/{id}", tag = ADMINISTRATION, permission = Permission::Administer)]
#[api(answer = ApiKey, answers(200 = "The revoked key."))]
pub struct RevokeKey {
    pub id: ApiKeyId,
}

/// A key, without its text.
#[derive(Clone, Debug, PartialEq, Answer)]
pub struct ApiKey {
    pub id: ApiKeyId,
    pub name: String,
    pub role: Word<Role>,
    pub namespaces: Vec<String>,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub last_used_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
}

#[derive(Clone, PartialEq, Answer)]
pub struct CreatedApiKey {
    #[api(flatten)]
    pub created: ApiKey,
    /// The key, this once; null if the request repeats an earlier one.
    pub key: Option<String>,
    #[api(flatten)]
    pub duplicate: Duplicate,
}

impl From<&api_key::ApiKey> for ApiKey {
    fn from(key: &api_key::ApiKey) -> ApiKey {
        ApiKey {
            id: key.id,
            name: key.name.to_string(),
            role: key.role.into(),
            namespaces: key.namespaces.iter().map(Name::to_string).collect(),
            created_at: key.created_at,
            expires_at: key.expires_at,
            last_used_at: key.last_used_at,
            revoked_at: key.revoked_at,
        }
    }
}
