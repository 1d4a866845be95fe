//! API keys: the administrator's key of the environment, the keys of the store with their holders, and the record of their use.

use super::cache::CachedKey;
use super::principal::{Principal, Scope};
use super::{Auth, Caller};
use crate::AppState;
pub use selvedge_core::api_key::{ApiKey, ApiKeyId as KeyId, KeyDigest, KeyText};
use selvedge_engine::{Engine, Error};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The shortest administrator's key, in characters.
const ADMIN_KEY_MIN: usize = 16;
/// A domain string: it separates the secret of sessions from the digest of the key.
const ADMIN_SESSIONS: &str = "selvedge web sessions of the administrator's key v1\n";
/// The time for which uses of keys are collected before they are recorded.
const USE_DELAY: Duration = Duration::from_secs(1);

/// The administrator's key of the environment. It is never stored; `Debug` hides it.
#[derive(Clone)]
pub struct AdminKey {
    digest: KeyDigest,
    /// The part of the key of sessions that no store has.
    pub(super) of_sessions: [u8; 32],
}

impl fmt::Debug for AdminKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AdminKey(..)")
    }
}

impl AdminKey {
    /// Returns the key with this text, of at least 16 characters. The error says what is wrong, and not the text.
    pub fn new(text: &str) -> Result<AdminKey, String> {
        if text.chars().count() < ADMIN_KEY_MIN {
            return Err(format!("is shorter than {ADMIN_KEY_MIN} characters; use a long random text"));
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("must have ASCII letters, digits and punctuation only, and no spaces".into());
        }
        // Not its digest, which a cookie or a log of another program may have.
        let of_sessions = KeyDigest::of(&format!("{ADMIN_SESSIONS}{text}")).0;
        Ok(AdminKey { digest: KeyDigest::of(text), of_sessions })
    }
}

impl Auth {
    /// Returns the entry of the administrator's key, if it has this digest. The store is not asked.
    pub(super) fn admin_entry(&self, digest: KeyDigest) -> Option<Arc<CachedKey>> {
        self.options.admin_key.as_ref().filter(|admin| admin.digest.matches(&digest))?;
        loop {
            let start = self.keys.begin_lookup();
            let kept = self.keys.keep(digest, Principal::administrator(), None, start);
            if kept.is_some() {
                return kept;
            }
        }
    }

    /// Looks a key up in the store. None if it is unknown, revoked or expired.
    pub(super) async fn look_up(
        &self,
        digest: KeyDigest,
        engine: &Engine,
    ) -> Result<Option<Arc<CachedKey>>, Error> {
        if let Some(entry) = self.admin_entry(digest) {
            return Ok(Some(entry));
        }
        loop {
            let start = self.keys.begin_lookup();
            let found = engine.find_api_key(&digest).await?;
            let valid = found.filter(|(key, now)| key.is_valid_at(*now));
            let Some((key, now)) = valid else { return Ok(None) };
            let principal = Principal::of(&key, engine).await?;
            let left =
                key.expires_at.map(|at| Duration::from_micros((at.micros() - now.micros()).max(0) as u64));
            let kept = self.keys.keep(digest, principal, left, start);
            if kept.is_some() {
                return Ok(kept);
            }
        }
    }

    /// Looks a key up again and forgets it if it is not valid any more.
    pub(super) async fn refresh(&self, entry: &CachedKey, engine: &Engine) {
        match self.look_up(entry.digest, engine).await {
            Ok(Some(_)) => {}
            Ok(None) => self.keys.forget(&entry.digest),
            Err(error) => {
                tracing::debug!(%error, "an API key could not be looked up again");
                self.keys.end_refresh(entry);
            }
        }
    }
}

impl Caller {
    /// Refuses a revoked key from now on.
    pub fn forget_key(&self, key: &ApiKey) {
        self.state.auth.keys.forget(&key.digest);
    }
}

impl Principal {
    /// Returns the holder of a stored key.
    pub async fn of(key: &ApiKey, engine: &Engine) -> Result<Principal, Error> {
        let (mut members, mut missing) = (Vec::new(), Vec::new());
        let names = key.namespaces.iter().filter(|_| !key.is_of_every_namespace());
        for name in names {
            match engine.known_namespace(name).await? {
                Some(found) => members.push(found.with_actor(key.name.clone())),
                None => missing.push(name.clone()),
            }
        }
        let scope = match &members[..] {
            _ if key.is_of_every_namespace() => Scope::Every,
            [only] if missing.is_empty() => Scope::One(only.clone()),
            several => {
                let mut weighted = Vec::with_capacity(several.len());
                for member in several {
                    let settings = member.settings().await?;
                    match settings.deletion {
                        None => weighted.push((member.clone(), settings.weight.unwrap_or(1))),
                        Some(_) => missing.push(member.name().clone()),
                    }
                }
                Scope::Several(Arc::new(engine.namespaces(weighted)))
            }
        };
        Ok(Principal { id: Some(key.id), name: key.name.clone(), role: key.role, scope, missing })
    }
}

/// Takes note of a request with a key: looks the key up again if it is time to, and records the use.
pub fn note_use(entry: &Arc<CachedKey>, state: &AppState) {
    if state.auth.keys.should_refresh(entry) {
        let (state, entry) = (state.clone(), entry.clone());
        tokio::spawn(async move { state.auth.refresh(&entry, &state.engine).await });
    }
    if state.auth.keys.note_use(entry) {
        let state = state.clone();
        tokio::spawn(async move {
            tokio::time::sleep(USE_DELAY).await;
            let used = state.auth.keys.take_used();
            if let Err(error) = state.engine.record_use_of_api_keys(&used).await {
                tracing::debug!(%error, "the use of API keys was not recorded");
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::AuthOptions;

    #[test]
    fn an_administrators_key_is_long_and_hidden() {
        let key = AdminKey::new("0123456789abcdef").expect("16 characters are enough");
        assert!(!format!("{key:?}").contains("0123456789abcdef"));
        assert!(AdminKey::new("0123456789abcde").is_err());
        assert!(AdminKey::new("0123456789 abcdef").is_err());
        let options = AuthOptions { admin_key: Some(key), ..AuthOptions::default() };
        assert!(options.is_on() && !AuthOptions::default().is_on());
    }
}
