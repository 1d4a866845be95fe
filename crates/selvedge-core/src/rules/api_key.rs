//! Creates and revokes API keys, and removes deleted namespaces from them. The secret itself never enters a rule: the row has its digest, the event has neither.

use super::keyed::Repeatable;
use crate::api_key::{ApiKey, ApiKeyId};
use crate::fact::{self, Fact};
use crate::rows::Needs;
use crate::rule::{Phase, Profile, Rule};
use crate::{Name, NamespaceId, Refusal, Timestamp, Work};

#[derive(Clone, Debug)]
pub struct CreateApiKey {
    /// The namespace in whose event log the creation is recorded.
    pub namespace: NamespaceId,
    /// The key; the time of its creation is set by the rule.
    pub key: ApiKey,
    pub actor: Name,
}

impl Rule for CreateApiKey {
    type Reply = Result<ApiKey, Refusal>;
    const PHASE: Phase = Phase::Operators;

    fn profile(&self) -> Profile {
        Profile::weighing(1)
    }

    fn needs(&self, _work: &Work, _needs: &mut Needs) {}

    /// Adds the key. Refuses one that has expired already.
    fn decide(&self, work: &mut Work) -> Self::Reply {
        let now = work.now();
        if self.key.expires_at.is_some_and(|at| at <= now) {
            return Err(Refusal::field("/expires_at", "must be in the future"));
        }
        let key = ApiKey { created_at: now, ..self.key.clone() };
        let fact = Fact::ApiKeyCreated(fact::ApiKeyCreated {
            key: key.id,
            name: key.name.clone(),
            role: key.role.as_str().into(),
            namespaces: key.namespaces.clone(),
            expires_at: key.expires_at,
        });
        work.put(key.clone());
        work.emit(self.namespace, fact, Some(self.actor.clone()));
        Ok(key)
    }
}

impl Repeatable for CreateApiKey {
    type Done = ApiKey;
    type Answer = (ApiKeyId, Timestamp);

    fn namespace(&self) -> NamespaceId {
        self.namespace
    }

    fn answer(done: &ApiKey) -> (ApiKeyId, Timestamp) {
        (done.id, done.created_at)
    }

    /// Returns the key that the first call created. Its digest is that of the secret which this call generated and must
    /// discard.
    fn repeat(&self, (id, created_at): (ApiKeyId, Timestamp), _work: &Work) -> Result<ApiKey, Refusal> {
        Ok(ApiKey { id, created_at, ..self.key.clone() })
    }
}

/// Revokes a key. One that was revoked before stays as it is.
#[derive(Clone, Debug)]
pub struct RevokeApiKey {
    /// The namespace in whose event log the revocation is recorded.
    pub namespace: NamespaceId,
    pub id: ApiKeyId,
    /// The namespaces of an administrator who has only some: keys of others are not found. None for all.
    pub within: Option<Vec<Name>>,
    pub actor: Name,
}

impl Rule for RevokeApiKey {
    type Reply = Result<ApiKey, Refusal>;
    const PHASE: Phase = Phase::Operators;

    fn profile(&self) -> Profile {
        Profile::weighing(1)
    }

    fn needs(&self, _work: &Work, needs: &mut Needs) {
        needs.api_keys.lock([self.id]);
    }

    fn decide(&self, work: &mut Work) -> Self::Reply {
        let visible = |key: &&ApiKey| self.within.as_ref().is_none_or(|within| key.is_within(within));
        let Some(key) = work.row::<ApiKey>(&self.id).filter(visible).cloned() else {
            return Err(Refusal::NotFound { what: "key".into(), id: self.id.to_string() });
        };
        if key.revoked_at.is_some() {
            return Ok(key);
        }
        let key = ApiKey { revoked_at: Some(work.now()), ..key };
        let fact = Fact::ApiKeyRevoked(fact::ApiKeyRevoked { key: key.id, name: key.name.clone() });
        work.put(key.clone());
        work.emit(self.namespace, fact, Some(self.actor.clone()));
        Ok(key)
    }
}

/// Removes a deleted namespace from a key. A key that has no other is revoked.
#[derive(Clone, Debug)]
pub struct RemoveNamespaceFromKey {
    /// The namespace in whose event log a revocation is recorded.
    pub namespace: NamespaceId,
    pub id: ApiKeyId,
    /// The name of the deleted namespace.
    pub name: Name,
    /// A key that was created after this time is left alone: it is of a later namespace with the same name.
    pub created_by: Timestamp,
    /// The administrator who deleted the namespace.
    pub actor: Option<Name>,
}

impl Rule for RemoveNamespaceFromKey {
    /// True if the key was changed.
    type Reply = bool;
    const PHASE: Phase = Phase::Operators;

    fn profile(&self) -> Profile {
        Profile::weighing(1)
    }

    fn needs(&self, _work: &Work, needs: &mut Needs) {
        needs.api_keys.lock([self.id]);
    }

    fn decide(&self, work: &mut Work) -> bool {
        let loses = |key: &&ApiKey| key.loses(&self.name, self.created_by);
        let Some(mut key) = work.row::<ApiKey>(&self.id).filter(loses).cloned() else { return false };
        if key.namespaces.len() > 1 {
            key.namespaces.retain(|name| *name != self.name);
            work.put(key);
            return true;
        }
        key.revoked_at = Some(work.now());
        let fact = Fact::ApiKeyRevoked(fact::ApiKeyRevoked { key: key.id, name: key.name.clone() });
        work.put(key);
        work.emit(self.namespace, fact, self.actor.clone());
        true
    }
}
