//! The keys that this server has looked up recently, so that a request reads nothing from the store.
//!
//! An entry is believed for [`LIFE`]. Half-way through it is looked up again, in the background, by the request that notices
//! it: a key in constant use never waits for the store. A revocation through this server ends the entry at once; other
//! servers notice it within [`LIFE`]. Each connection remembers its last key, so that a hit takes no shared lock.

use super::principal::Principal;
use super::{KeyDigest, KeyId};
use axum::http::HeaderValue;
use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// The time for which a looked-up key is believed.
pub const LIFE: Duration = Duration::from_secs(5);
/// The age at which a key in use is looked up again.
const REFRESH_AFTER: Duration = Duration::from_millis(2500);
/// The time between two records of the use of a key.
const USE_INTERVAL: Duration = Duration::from_secs(60);
/// The maximum number of keys in the cache. Beyond it all are forgotten and looked up again.
const KEYS_MAX: usize = 10_000;

/// A key that was found in the store.
pub struct CachedKey {
    /// The holder of the key.
    pub principal: Principal,
    pub digest: KeyDigest,
    /// The time until which the entry is believed, and at which it is to be refreshed, in milliseconds of [`Keys`].
    believed_until: AtomicU64,
    refresh_at: AtomicU64,
    /// True while a request looks the key up again.
    refreshing: AtomicBool,
    /// The time at which the next use is recorded.
    record_use_at: AtomicU64,
    /// The current second, in the upper 32 bits, and the number of requests in it.
    requests: AtomicU64,
}

/// A lookup of a key that has begun: what is found counts from this moment.
#[derive(Clone, Copy)]
pub struct LookupStart {
    at: u64,
    revocations: u64,
}

/// The cache of keys.
pub struct Keys {
    began: Instant,
    entries: RwLock<HashMap<KeyDigest, Arc<CachedKey>>>,
    /// The number of revocations through this server.
    revocations: AtomicU64,
    /// Keys whose use is not recorded yet.
    used: Mutex<BTreeSet<KeyId>>,
}

impl CachedKey {
    /// Makes the entry believed no more, also by the connections that remember it.
    fn end(&self) {
        self.believed_until.store(0, Ordering::Release);
    }
}

impl Keys {
    /// Returns an empty cache.
    pub fn new() -> Keys {
        Keys {
            began: Instant::now(),
            entries: RwLock::default(),
            revocations: AtomicU64::new(0),
            used: Mutex::default(),
        }
    }

    fn now(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    /// Returns the entry of a key that is still believed.
    pub fn get(&self, digest: &KeyDigest) -> Option<Arc<CachedKey>> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        entries.get(digest).filter(|entry| self.is_believed(entry)).cloned()
    }

    /// Reports whether an entry is still believed.
    pub fn is_believed(&self, entry: &CachedKey) -> bool {
        self.now() < entry.believed_until.load(Ordering::Acquire)
    }

    /// Reports whether the caller should look the key of this entry up again. Tells only one caller so.
    pub fn should_refresh(&self, entry: &CachedKey) -> bool {
        self.now() >= entry.refresh_at.load(Ordering::Relaxed)
            && !entry.refreshing.swap(true, Ordering::AcqRel)
    }

    /// Begins a lookup: call it before reading the store, and pass the result to [`Keys::keep`].
    pub fn begin_lookup(&self) -> LookupStart {
        LookupStart { at: self.now(), revocations: self.revocations.load(Ordering::Acquire) }
    }

    /// Keeps a key that was looked up since `start`, for at most `left`, the time until it expires. Where the same principal
    /// is known already, its entry is renewed. Returns none if a key was revoked meanwhile: it may be this one, so the caller
    /// looks it up again.
    pub fn keep(
        &self,
        digest: KeyDigest,
        principal: Principal,
        left: Option<Duration>,
        start: LookupStart,
    ) -> Option<Arc<CachedKey>> {
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        // Compared under the lock that `forget` takes after it has counted its revocation.
        if self.revocations.load(Ordering::Acquire) != start.revocations {
            return None;
        }
        if entries.len() >= KEYS_MAX && !entries.contains_key(&digest) {
            entries.drain().for_each(|(_, entry)| entry.end());
        }
        let known = entries.get(&digest).filter(|entry| entry.principal.is_same(&principal)).cloned();
        let entry = known.unwrap_or_else(|| {
            let entry = Arc::new(CachedKey {
                principal,
                digest,
                believed_until: AtomicU64::new(0),
                refresh_at: AtomicU64::new(0),
                refreshing: AtomicBool::new(false),
                record_use_at: AtomicU64::new(0),
                requests: AtomicU64::new(0),
            });
            // Connections may remember the entry that this one replaces.
            if let Some(replaced) = entries.insert(digest, entry.clone()) {
                replaced.end();
            }
            entry
        });
        let life = left.map_or(LIFE, |left| left.min(LIFE));
        entry.refresh_at.store(start.at + REFRESH_AFTER.as_millis() as u64, Ordering::Relaxed);
        entry.believed_until.store(start.at + life.as_millis() as u64, Ordering::Release);
        entry.refreshing.store(false, Ordering::Release);
        Some(entry)
    }

    /// Ends the refresh of an entry that could not be looked up again: another request may try.
    pub fn end_refresh(&self, entry: &CachedKey) {
        entry.refreshing.store(false, Ordering::Release);
    }

    /// Forgets a key, because it is not valid any more.
    pub fn forget(&self, digest: &KeyDigest) {
        self.revocations.fetch_add(1, Ordering::AcqRel);
        let removed = self.entries.write().unwrap_or_else(PoisonError::into_inner).remove(digest);
        if let Some(entry) = removed {
            entry.end();
        }
    }

    /// Counts a request of a key. Returns the time until the next second if this one has had `limit` requests.
    pub fn count_request(&self, entry: &CachedKey, limit: u32) -> Option<Duration> {
        let now = self.now();
        let second = (now / 1000) << 32;
        let count = |counted: u64| match counted & !u64::from(u32::MAX) == second {
            true => (counted & u64::from(u32::MAX) < u64::from(limit)).then_some(counted + 1),
            false => Some(second + 1),
        };
        let counted = entry.requests.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count);
        counted.is_err().then(|| Duration::from_millis(1000 - now % 1000))
    }

    /// Notes the use of a key. Returns true if the caller should record the noted uses: at most once a minute for a key.
    pub fn note_use(&self, entry: &CachedKey) -> bool {
        let Some(id) = entry.principal.id else { return false };
        let (now, at) = (self.now(), entry.record_use_at.load(Ordering::Relaxed));
        let next = now + USE_INTERVAL.as_millis() as u64;
        if now < at
            || entry.record_use_at.compare_exchange(at, next, Ordering::AcqRel, Ordering::Relaxed).is_err()
        {
            return false;
        }
        let mut used = self.lock_used();
        used.insert(id);
        // The first one records those that follow it, too.
        used.len() == 1
    }

    /// Takes the uses that are not recorded yet.
    pub fn take_used(&self) -> Vec<KeyId> {
        std::mem::take(&mut *self.lock_used()).into_iter().collect()
    }

    fn lock_used(&self) -> MutexGuard<'_, BTreeSet<KeyId>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection: the address of its peer, and the key of its last request.
pub struct Connection {
    /// The address of the peer.
    pub peer: SocketAddr,
    last: Mutex<Option<(HeaderValue, Arc<CachedKey>)>>,
}

impl Connection {
    /// Returns a new connection.
    pub fn new(peer: SocketAddr) -> Connection {
        Connection { peer, last: Mutex::default() }
    }

    /// Returns the entry of the last request if this one has the same credentials.
    pub fn remembered(&self, credentials: &HeaderValue) -> Option<Arc<CachedKey>> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().filter(|(known, _)| known == credentials).map(|(_, entry)| entry.clone())
    }

    /// Remembers the entry of a request.
    pub fn remember(&self, credentials: &HeaderValue, entry: &Arc<CachedKey>) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some((credentials.clone(), entry.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use selvedge_core::Role;

    fn keep(keys: &Keys, digest: KeyDigest, role: &str) -> Option<Arc<CachedKey>> {
        let mut principal = Principal::administrator();
        principal.role = Role::parse(role).expect("is a role");
        keys.keep(digest, principal, None, keys.begin_lookup())
    }

    #[test]
    fn an_entry_that_is_replaced_or_crowded_out_is_believed_no_more() {
        let keys = Keys::new();
        let digest = KeyDigest::of("key");
        let first = keep(&keys, digest, "admin").expect("nothing was revoked");
        let renewed = keep(&keys, digest, "admin").expect("nothing was revoked");
        assert!(Arc::ptr_eq(&first, &renewed) && keys.is_believed(&first));
        let demoted = keep(&keys, digest, "reader").expect("nothing was revoked");
        assert!(!keys.is_believed(&first) && keys.is_believed(&demoted));
        for number in 0..KEYS_MAX {
            keep(&keys, KeyDigest::of(&number.to_string()), "reader").expect("nothing was revoked");
        }
        assert!(!keys.is_believed(&demoted) && keys.get(&digest).is_none());
    }

    #[test]
    fn an_entry_is_believed_from_the_beginning_of_its_lookup() {
        let mut keys = Keys::new();
        let digest = KeyDigest::of("key");
        let start = keys.begin_lookup();
        // The store answers after 10 s.
        keys.began -= Duration::from_secs(10);
        let entry = keys.keep(digest, Principal::administrator(), None, start).expect("nothing was revoked");
        assert!(!keys.is_believed(&entry) && keys.should_refresh(&entry));
        let start = keys.begin_lookup();
        keys.forget(&KeyDigest::of("another key"));
        assert!(keys.keep(digest, Principal::administrator(), None, start).is_none());
    }

    #[test]
    fn a_key_has_its_number_of_requests_in_each_second() {
        let mut keys = Keys::new();
        let digest = KeyDigest::of("key");
        let entry = keep(&keys, digest, "admin").expect("nothing was revoked");
        let admitted = |keys: &Keys| (0..10).filter(|_| keys.count_request(&entry, 3).is_none()).count();
        // The calls fall into one second or into two.
        assert!([3, 6].contains(&admitted(&keys)));
        keys.began -= Duration::from_secs(5);
        assert!([3, 6].contains(&admitted(&keys)));
        assert!(keys.count_request(&entry, 0).is_none_or(|wait| wait <= Duration::from_secs(1)));
    }
}
