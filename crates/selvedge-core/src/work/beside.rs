//! Keys and sessions of one transaction.

use super::Work;
use crate::rows::{HeldLease, KeyName, KeyRow};
use crate::{Name, NamespaceId, Session, SessionId};

impl Work {
    /// Returns a key, if it exists.
    pub fn key(&self, name: &KeyName) -> Option<&KeyRow> {
        self.row(name)
    }

    /// Returns a session, if it exists.
    pub fn session(&self, id: SessionId) -> Option<&Session> {
        self.row(&id)
    }

    /// Writes a key. An existing key is replaced; the save checks that it still refers to the execution that was read.
    pub fn put_key(&mut self, row: KeyRow) {
        if let Some(before) = self.tables.keys.entry(&row.name).filter(|entry| entry.is_unchanged()) {
            self.keys_removed.push((row.name.clone(), before.row.subject));
        }
        self.tables.keys.put(row);
    }

    /// Reports whether the sessions of an instance were requested, whether any was found or not.
    pub fn has_requested_instance(&self, namespace: NamespaceId, instance: &Name) -> bool {
        self.requested.instances.contains(&(namespace, instance.clone()))
    }

    /// Returns the sessions of an instance, in id order.
    pub fn sessions_of(&self, namespace: NamespaceId, instance: &Name) -> Vec<Session> {
        let of_instance =
            |session: &&Session| session.namespace() == namespace && session.instance == *instance;
        let mut sessions: Vec<Session> = self.tables.sessions.rows().filter(of_instance).cloned().collect();
        sessions.sort_by_key(|session| session.id);
        sessions
    }

    /// Writes a session that replaces the stored row instead of being merged with it. The caller has locked the row.
    pub fn reset_session(&mut self, session: Session) {
        let id = session.id;
        self.tables.sessions.put(session);
        if let Some(entry) = self.tables.sessions.entry_mut(&id) {
            entry.extra.reset = true;
        }
    }

    /// Returns the loaded leases of a session.
    pub fn leases_of(&self, session: SessionId) -> impl Iterator<Item = &HeldLease> {
        self.leases.iter().filter(move |lease| lease.session == session)
    }
}
