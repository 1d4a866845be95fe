//! Keys and sessions, which stand beside the executions of one transaction.

use super::Work;
use crate::rows::{HeldLease, KeyName, KeyRow};
use crate::{Name, NamespaceId, Session, SessionId};

impl Work {
    /// A key, as it stands now.
    pub fn key(&self, name: &KeyName) -> Option<&KeyRow> {
        self.keys.get(name)
    }

    /// Makes a key stand for something new. What it stood for before must still be what was seen: else somebody else has
    /// made it stand for something new meanwhile, and the save fails its guard.
    pub fn put_key(&mut self, row: KeyRow) {
        let name = row.name.clone();
        if let Some(before) = self.keys.insert(name.clone(), row)
            && !self.keys_added.contains(&name)
        {
            self.keys_removed.push((name.clone(), before.execution));
        }
        self.keys_added.insert(name);
    }

    /// A session, if it exists.
    pub fn session(&self, id: SessionId) -> Option<&Session> {
        let gone = self.sessions_removed.contains(&id) && !self.sessions_written.contains(&id);
        self.sessions.get(&id).filter(|_| !gone)
    }

    /// Whether the sessions of an instance were asked for, found or not.
    pub fn knows_instance(&self, namespace: NamespaceId, instance: &Name) -> bool {
        self.asked_instances.contains(&(namespace, instance.clone()))
    }

    /// The sessions of an instance, in id order.
    pub fn sessions_of(&self, namespace: NamespaceId, instance: &Name) -> Vec<Session> {
        let mut sessions: Vec<Session> = self
            .sessions
            .values()
            .filter(|session| session.namespace() == namespace && session.instance == *instance)
            .cloned()
            .collect();
        sessions.sort_by_key(|session| session.id);
        sessions
    }

    /// Writes a session.
    pub fn put_session(&mut self, session: Session) {
        self.sessions_written.insert(session.id);
        self.sessions.insert(session.id, session);
    }

    /// Writes a session as if it were new, without merging it with what was there. The caller has locked it.
    pub fn reset_session(&mut self, session: Session) {
        self.sessions_removed.insert(session.id);
        self.sessions_written.insert(session.id);
        self.sessions.insert(session.id, session);
    }

    /// Forgets a session.
    pub fn remove_session(&mut self, id: SessionId) {
        self.sessions_written.remove(&id);
        self.sessions_removed.insert(id);
    }

    /// The leases of a session that were loaded.
    pub fn leases_of(&self, session: SessionId) -> impl Iterator<Item = &HeldLease> {
        self.leases.iter().filter(move |lease| lease.session == session)
    }
}
