//! API keys: creation, revocation, lists, and the lookup by the digest of the key that a caller sent.

use super::{KeyedCalls, Namespace};
use crate::commit::Committer;
use crate::{Engine, Error};
use selvedge_core::api_key::{ApiKey, ApiKeyId, KeyDigest, KeyText, RANDOM_BYTES, check_namespaces};
use selvedge_core::name::{EVERY_NAMESPACE, NAME_LIMIT};
use selvedge_core::rules::api_key::{CreateApiKey, RemoveNamespaceFromKey, RevokeApiKey};
use selvedge_core::rules::keyed::Answered;
use selvedge_core::web_session::SessionKey;
use selvedge_core::{Name, NamespaceId, Role, Timestamp};
use selvedge_store::{SecretPlace, Store, is_retired};
use std::sync::Arc;
use uuid::Uuid;

/// The number of keys that are read at once.
const PAGE: u32 = 500;

/// An API key that is to be created.
#[derive(Clone, Debug)]
pub struct ApiKeyDraft {
    pub name: String,
    pub role: Role,
    /// The namespaces; `*` alone for every namespace.
    pub namespaces: Vec<String>,
    /// The time from which the key is refused. Default: none.
    pub expires_at: Option<Timestamp>,
}

/// A created key: its row, and the key itself unless the call was a repeat.
pub type CreatedApiKey = (ApiKey, Option<KeyText>);

impl KeyedCalls<'_> {
    /// Creates an API key. Its namespaces are created if they do not exist or were deleted. The key itself is in the answer of the first
    /// call only: it is not kept.
    pub async fn create_api_key(
        &self,
        draft: ApiKeyDraft,
        actor: &Name,
    ) -> Result<Answered<CreatedApiKey>, Error> {
        let name = Name::parse("/name", &draft.name, NAME_LIMIT)?;
        let namespaces = check_namespaces(draft.role, &draft.namespaces)?;
        let mut handles = Vec::new();
        for namespace in namespaces.iter().filter(|name| name.as_str() != EVERY_NAMESPACE) {
            let handle = self.namespace.engine().namespace(namespace).await?;
            handle.refuse_deletion().await?;
            handles.push(handle);
        }
        let mut random = [0; RANDOM_BYTES];
        getrandom::fill(&mut random)
            .map_err(|error| selvedge_store::Error::Failed(format!("no random bytes: {error}")))?;
        let text = KeyText::new(random);
        let key = ApiKey {
            id: ApiKeyId(Uuid::now_v7()),
            digest: text.digest(),
            name,
            role: draft.role,
            namespaces,
            created_at: Timestamp::default(),
            expires_at: draft.expires_at,
            last_used_at: None,
            revoked_at: None,
        };
        let (namespace, actor) = (self.namespace.id(), actor.clone());
        let create = CreateApiKey { namespace, key, actor: actor.clone() };
        let Answered { done, duplicate } = self.run(create).await?;
        // A deletion that began meanwhile may have looked at the keys before this one was there.
        for handle in handles {
            if let Err(refused) = handle.refuse_deletion().await {
                self.namespace.revoke_api_key(done.id, None, &actor).await?;
                return Err(refused);
            }
        }
        Ok(Answered { done: (done, (!duplicate).then_some(text)), duplicate })
    }
}

impl Namespace {
    /// Revokes an API key, and returns it. `within` limits the call to keys of these namespaces.
    pub async fn revoke_api_key(
        &self,
        id: ApiKeyId,
        within: Option<Vec<Name>>,
        actor: &Name,
    ) -> Result<ApiKey, Error> {
        let (namespace, actor) = (self.id(), actor.clone());
        Ok(self.run(RevokeApiKey { namespace, id, within, actor }).await??)
    }
}

impl Engine {
    /// Returns the API key with this digest, and the store's time.
    pub async fn find_api_key(&self, digest: &KeyDigest) -> Result<Option<(ApiKey, Timestamp)>, Error> {
        Ok(self.inner.store.api_key(digest).await?)
    }

    /// Returns a page of the API keys, newest first.
    pub async fn api_keys(&self, after: Option<ApiKeyId>, limit: u32) -> Result<Vec<ApiKey>, Error> {
        Ok(self.inner.store.api_keys(after, limit).await?)
    }

    /// Reports whether there is an API key that was not revoked, expired or not.
    pub async fn has_api_keys(&self) -> Result<bool, Error> {
        let mut after = None;
        loop {
            let keys = self.api_keys(after, PAGE).await?;
            if keys.iter().any(|key| key.revoked_at.is_none()) {
                return Ok(true);
            }
            match keys.last() {
                Some(last) if keys.len() == PAGE as usize => after = Some(last.id),
                Some(_) | None => return Ok(false),
            }
        }
    }

    /// Records that API keys were used.
    pub async fn record_use_of_api_keys(&self, ids: &[ApiKeyId]) -> Result<(), Error> {
        Ok(self.inner.store.touch_api_keys(ids).await?)
    }

    /// Returns the key of sessions of the web pages, derived from the root secret and a secret of the servers that no store has.
    /// None if there is no such secret and the store contains the root secret: then a copy of the store would be enough to
    /// make sessions.
    pub fn session_key(&self, of_servers: Option<&[u8]>) -> Option<SessionKey> {
        match (of_servers, self.secret_place()) {
            (None, Some(SecretPlace::Store)) => None,
            (more, _) => Some(self.inner.secret.session_key(more.unwrap_or_default())),
        }
    }

    /// Returns all namespaces in the order of their names, also those that were deleted and not created again.
    pub async fn list_namespaces(&self) -> Result<Vec<Namespace>, Error> {
        let mut names = self.inner.store.namespaces().await?;
        names.retain(|(_, name)| !is_retired(name));
        names.sort_by(|(_, a), (_, b)| a.cmp(b));
        Ok(names.into_iter().map(|(id, name)| Namespace::new(self.clone(), id, name)).collect())
    }
}

/// The API keys that lose a namespace.
pub(crate) struct KeysOf<'a> {
    /// The name of the namespace.
    pub name: &'a Name,
    /// The time until which they were created.
    pub created_by: Timestamp,
    /// The namespace in whose event log revocations are recorded.
    pub log: NamespaceId,
    /// The administrator who deleted the namespace.
    pub actor: Option<&'a Name>,
}

impl KeysOf<'_> {
    /// Removes the namespace from these keys, and revokes those that have no other. Returns how many keys were changed.
    pub async fn remove(&self, store: &dyn Store, committer: &Arc<Committer>) -> Result<u64, Error> {
        let (mut changed, mut after) = (0, None);
        loop {
            let keys = store.api_keys(after, PAGE).await?;
            let rule = |id| RemoveNamespaceFromKey {
                namespace: self.log,
                id,
                name: self.name.clone(),
                created_by: self.created_by,
                actor: self.actor.cloned(),
            };
            let affected = keys.iter().filter(|key| key.loses(self.name, self.created_by));
            let removed = committer.run_all(affected.map(|key| rule(key.id))).await?;
            changed += removed.into_iter().map(u64::from).sum::<u64>();
            match keys.last() {
                Some(last) if keys.len() == PAGE as usize => after = Some(last.id),
                Some(_) | None => return Ok(changed),
            }
        }
    }
}
