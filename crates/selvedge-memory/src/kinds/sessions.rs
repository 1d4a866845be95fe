//! Sessions of workers, with their leases.

use crate::MemoryStore;
use crate::kinds::{Kind, Saving, Tables, remove_member};
use async_trait::async_trait;
use selvedge_core::rows::HeldLease;
use selvedge_core::{Changes, Execution, NamespaceId, Needs, Rows, Session, SessionId};
use selvedge_store::{Error, SessionReads, merge};
use std::collections::BTreeSet;

pub(crate) const KIND: Kind = Kind {
    load,
    save,
    delete_rest: |tables, namespace| {
        tables.sessions.extract_if(|_, session| session.namespace() == namespace).count()
    },
    ..Kind::EMPTY
};

fn load(tables: &Tables, needs: &Needs, rows: &mut Rows) {
    let of_instances: Vec<&Session> = needs
        .queries
        .instances
        .iter()
        .filter_map(|instance| tables.instances.get(instance))
        .flatten()
        .filter_map(|id| tables.sessions.get(id))
        .collect();
    let by_id = needs.sessions.keys();
    let ids: BTreeSet<_> = by_id.copied().chain(of_instances.iter().map(|session| session.id)).collect();
    rows.found.leases =
        of_instances.into_iter().flat_map(|session| leased_by(tables, session.id)).filter_map(held).collect();
    rows.sessions = ids.iter().filter_map(|id| tables.sessions.get(id).cloned()).collect();
}

fn held(row: &Execution) -> Option<HeldLease> {
    let lease = row.state.lease()?;
    Some(HeldLease {
        execution: row.id,
        session: lease.session,
        lease_id: lease.id,
        epoch: row.epoch,
        claimed_at: lease.claimed_at,
        cancel_requested: row.detail.cancel.is_some(),
    })
}

/// Returns the executions leased under a session, in id order.
fn leased_by(tables: &Tables, session: SessionId) -> impl Iterator<Item = &Execution> {
    let ids = tables.leases.get(&session).into_iter().flatten();
    ids.filter_map(|id| tables.executions.get(id)).map(|record| &record.execution)
}

fn save(tables: &mut Tables, changes: &mut Changes, _: &mut Saving) {
    for id in &changes.sessions.removed {
        take(tables, *id);
    }
    for session in std::mem::take(&mut changes.sessions.written) {
        let stored = take(tables, session.id);
        put(tables, merge::session(stored, session));
    }
}

/// Inserts a session into the table and its index.
fn put(tables: &mut Tables, session: Session) {
    tables.instances.entry((session.namespace(), session.instance.clone())).or_default().insert(session.id);
    tables.sessions.insert(session.id, session);
}

/// Removes a session from the table and its index.
fn take(tables: &mut Tables, id: SessionId) -> Option<Session> {
    let session = tables.sessions.remove(&id)?;
    remove_member(&mut tables.instances, &(session.namespace(), session.instance.clone()), &id);
    Some(session)
}

#[async_trait]
impl SessionReads for MemoryStore {
    async fn sessions(&self, namespace: Option<NamespaceId>) -> Result<Vec<Session>, Error> {
        self.read("sessions", |tables, _| {
            let mut sessions: Vec<Session> = tables
                .sessions
                .values()
                .filter(|session| namespace.is_none_or(|of| session.namespace() == of))
                .cloned()
                .collect();
            sessions.sort_by_key(|session| session.id);
            sessions
        })
        .await
    }

    async fn unseen_sessions(&self, unseen_ms: i64, limit: u32) -> Result<Vec<SessionId>, Error> {
        self.read("unseen_sessions", |tables, now| {
            let before = now.minus_ms(unseen_ms);
            let mut unseen: Vec<SessionId> = tables
                .sessions
                .values()
                .filter(|session| session.seen_at < before && !tables.leases.contains_key(&session.id))
                .map(|session| session.id)
                .collect();
            unseen.sort_unstable();
            unseen.truncate(limit as usize);
            unseen
        })
        .await
    }
}
