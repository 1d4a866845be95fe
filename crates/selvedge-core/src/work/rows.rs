//! The rows of one transaction that are neither executions, flows nor gates: keys, sessions, webhooks, and the signals,
//! steps, waitpoints and token keys of executions.
//!
//! Every change to a record of an execution comes with a change of its execution through [`Work::apply`], which raises the
//! execution's version. A delivery of a webhook is written without being read, under the lock of its webhook.

use super::Work;
use crate::rows::{HeldLease, KeyName, KeyRow};
use crate::token::TokenKey;
use crate::waitpoint::WaitpointState;
use crate::webhook::{Delivery, DeliveryId, Webhook, WebhookId};
use crate::{
    Changes, ExecutionId, Name, NamespaceId, Rows, Session, SessionId, Signal, Step, Timestamp, Waitpoint,
    WaitpointId,
};
use std::collections::{BTreeMap, BTreeSet, HashSet};

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

/// Deliveries that are deleted without being read.
#[derive(Debug, Default)]
pub(super) struct Webhooks {
    removed: BTreeSet<WebhookId>,
    pruned: BTreeMap<WebhookId, u64>,
}

impl Webhooks {
    /// Adds the writes to the changes of the transaction.
    pub fn finish(self, changes: &mut Changes) {
        changes.unread.webhooks_removed = self.removed.into_iter().collect();
        changes.unread.deliveries_pruned = self.pruned.into_iter().collect();
    }
}

impl Work {
    /// Writes a webhook, with the next version.
    pub fn put_webhook(&mut self, mut webhook: Webhook) {
        let stored = self.tables.webhooks.entry(&webhook.name).and_then(|entry| entry.stored());
        webhook.version = stored.unwrap_or(0) + 1;
        self.tables.webhooks.put(webhook);
    }

    /// Deletes a webhook with its deliveries.
    pub fn remove_webhook(&mut self, webhook: &Webhook) {
        self.tables.webhooks.delete(&webhook.name);
        self.tables.deliveries.forget(|delivery| delivery.webhook == webhook.detail.id);
        self.webhooks.pruned.remove(&webhook.detail.id);
        self.webhooks.removed.insert(webhook.detail.id);
    }

    /// Returns a delivery, if it is loaded.
    pub fn delivery(&self, id: DeliveryId) -> Option<&Delivery> {
        self.tables.deliveries.rows().find(|delivery| delivery.id == id)
    }

    /// Deletes the delivered deliveries of a webhook with smaller numbers than this.
    pub fn prune_deliveries(&mut self, webhook: WebhookId, before: u64) {
        let pruned = self.webhooks.pruned.entry(webhook).or_default();
        *pruned = before.max(*pruned);
    }
}

/// Facts about the records of executions besides their rows.
#[derive(Debug, Default)]
pub(super) struct Records {
    /// Executions whose steps and signals are all loaded.
    whole: HashSet<ExecutionId>,
    /// The number of the suspension that takes each signal. The signals need not be loaded.
    signals_taken: BTreeMap<(ExecutionId, u32), u32>,
}

impl Records {
    /// Marks loaded signals that this transaction has taken: a claim loads the record after a suspension of the same
    /// transaction may have taken signals.
    pub fn load(&mut self, rows: &mut Rows) {
        self.whole.extend(std::mem::take(&mut rows.found.records));
        for signal in &mut rows.signals {
            let taken = self.signals_taken.get(&(signal.execution, signal.number));
            signal.taken = taken.copied().or(signal.taken);
        }
    }

    /// Adds the taken signals to the changes of the transaction.
    pub fn finish(self, changes: &mut Changes) {
        let taken = self.signals_taken.into_iter();
        changes.unread.signals_taken =
            taken.map(|((execution, number), by)| (execution, number, by)).collect();
    }
}

impl Work {
    /// Drops the record of a deleted execution: an execution that is inserted with the same id in this transaction
    /// starts without one.
    pub(super) fn forget_record(&mut self, id: ExecutionId) {
        self.records.whole.remove(&id);
        self.records.signals_taken.retain(|(execution, _), _| *execution != id);
        self.tables.signals.forget(|signal| signal.execution == id);
        self.tables.steps.forget(|step| step.execution == id);
        self.tables.waitpoints.forget(|waitpoint| waitpoint.execution == id);
    }

    /// Reports whether all steps and signals of an execution are known: it had none, or they were loaded.
    pub fn has_whole_record(&self, id: ExecutionId) -> bool {
        self.records.whole.contains(&id)
            || self.tables.executions.entry(&id).is_some_and(|entry| entry.extra.bare)
    }

    /// Returns the loaded signals of an execution, in the order of their delivery.
    pub fn signals(&self, of: ExecutionId) -> impl Iterator<Item = &Signal> {
        self.tables.signals.range((of, 0)..=(of, u32::MAX))
    }

    /// Returns a signal by the key that its sender chose, if it is loaded.
    pub fn keyed_signal(&self, of: ExecutionId, key: &Name) -> Option<&Signal> {
        self.signals(of).find(|signal| signal.key.as_ref() == Some(key))
    }

    /// Records that a suspension takes a signal, loaded or not.
    pub fn take_signal(&mut self, of: ExecutionId, number: u32, suspension: u32) {
        // Does not mark the row as written: the store marks the signal as taken without reading it.
        if let Some(entry) = self.tables.signals.entry_mut(&(of, number)) {
            entry.row.taken = Some(suspension);
        }
        self.records.signals_taken.insert((of, number), suspension);
    }

    /// Returns a step by its name, if it is loaded.
    pub fn step(&self, of: ExecutionId, name: &Name) -> Option<&Step> {
        self.tables.steps.get(&(of, name.clone()))
    }

    /// Returns the loaded steps of an execution, in the order in which they began.
    pub fn steps(&self, of: ExecutionId) -> Vec<&Step> {
        let from = self.tables.steps.range((of, Name::trusted(""))..);
        let mut steps: Vec<&Step> = from.take_while(|step| step.execution == of).collect();
        steps.sort_unstable_by_key(|step| step.number);
        steps
    }

    /// Returns the loaded waitpoints of an execution, in the order of their creation.
    pub fn waitpoints(&self, of: ExecutionId) -> impl DoubleEndedIterator<Item = &Waitpoint> {
        self.tables.waitpoints.range((of, 0)..=(of, u32::MAX))
    }

    /// Returns a waitpoint of an execution, if it is loaded.
    pub fn waitpoint(&self, of: ExecutionId, id: WaitpointId) -> Option<&Waitpoint> {
        self.waitpoints(of).find(|waitpoint| waitpoint.id == id)
    }

    /// Returns the earliest expiry of the open waitpoints of an execution; `changed` replaces the loaded waitpoint with
    /// the same id.
    pub fn next_expiry(&self, of: ExecutionId, changed: Option<&Waitpoint>) -> Option<Timestamp> {
        let others = self.waitpoints(of).filter(|one| changed.is_none_or(|changed| changed.id != one.id));
        let open = others.chain(changed).filter(|one| one.state == WaitpointState::Open);
        open.filter_map(|one| one.expires_at).min()
    }

    /// Iterates over the loaded token keys.
    pub fn token_keys(&self) -> impl Iterator<Item = &TokenKey> {
        self.tables.token_keys.range(..)
    }
}
