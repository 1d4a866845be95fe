//! Keys: idempotency keys and keys of operations.

use crate::MemoryStore;
use crate::kinds::{Kind, Saving, Tables};
use async_trait::async_trait;
use selvedge_core::Changes;
use selvedge_core::rows::{KeyName, KeyRow, KeySubject};
use selvedge_store::{Error, KeyStore};

pub(crate) const KIND: Kind = Kind {
    load: |tables, needs, rows| {
        rows.keys = needs.keys.keys().filter_map(|name| tables.keys.get(name).cloned()).collect();
    },
    guards_hold,
    save,
    delete_rest: |tables, namespace| {
        tables.expiring.retain(|(_, name)| name.namespace != namespace);
        tables.keys.extract_if(|name, _| name.namespace == namespace).count()
    },
    ..Kind::EMPTY
};

/// Reports whether a removal applies to a key. One that names a subject applies only to a key of that subject.
fn is_removed(tables: &Tables, name: &KeyName, only_of: Option<KeySubject>) -> bool {
    tables.keys.get(name).is_some_and(|key| only_of.is_none() || key.subject == only_of)
}

fn guards_hold(tables: &Tables, changes: &Changes) -> bool {
    changes.keys.written.iter().all(|added| {
        let mut removed = changes.keys.removed.iter();
        !tables.keys.contains_key(&added.name)
            || removed.any(|(name, only_of)| *name == added.name && is_removed(tables, name, *only_of))
    })
}

fn save(tables: &mut Tables, changes: &mut Changes, _: &mut Saving) {
    for (name, only_of) in &changes.keys.removed {
        if is_removed(tables, name, *only_of) {
            remove(tables, name);
        }
    }
    for key in std::mem::take(&mut changes.keys.written) {
        let KeyRow { name, expires_at, .. } = &key;
        tables.expiring.extend(expires_at.map(|at| (at, name.clone())));
        tables.keys.insert(name.clone(), key);
    }
}

fn remove(tables: &mut Tables, name: &KeyName) {
    if let Some(at) = tables.keys.remove(name).and_then(|key| key.expires_at) {
        tables.expiring.remove(&(at, name.clone()));
    }
}

#[async_trait]
impl KeyStore for MemoryStore {
    async fn delete_expired_keys(&self, limit: u32) -> Result<u64, Error> {
        self.change("delete_expired_keys", |tables, now| {
            let expired = tables.expiring.iter().take_while(|(at, _)| *at <= now).take(limit as usize);
            let expired: Vec<KeyName> = expired.map(|(_, name)| name.clone()).collect();
            expired.iter().for_each(|name| remove(tables, name));
            expired.len() as u64
        })
        .await
    }
}
