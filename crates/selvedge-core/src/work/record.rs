//! What is recorded beside the executions of one transaction: signals, steps, waitpoints, and the keys of tokens.
//!
//! Whatever changes here changes a row through [`Work::apply`] too, so the execution's version tells that it did.

use super::Work;
use crate::rows::Rows;
use crate::token::{TokenKey, TokenKeyId};
use crate::waitpoint::WaitpointState;
use crate::{Changes, ExecutionId, Name, Signal, Step, Timestamp, Waitpoint, WaitpointId};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// What is recorded beside executions.
#[derive(Debug, Default)]
pub(super) struct Records {
    whole: HashSet<ExecutionId>,
    signals: BTreeMap<(ExecutionId, u32), Signal>,
    signals_added: BTreeSet<(ExecutionId, u32)>,
    signals_taken: BTreeMap<(ExecutionId, u32), u32>,
    steps: BTreeMap<(ExecutionId, Name), Step>,
    steps_written: BTreeSet<(ExecutionId, u32, Name)>,
    waitpoints: BTreeMap<(ExecutionId, u32), Waitpoint>,
    waitpoints_written: BTreeSet<(ExecutionId, u32)>,
    keys: BTreeMap<TokenKeyId, TokenKey>,
    keys_written: BTreeSet<TokenKeyId>,
    keys_removed: BTreeSet<TokenKeyId>,
}

impl Records {
    /// Takes in what the store found. What this transaction has changed stays as it is.
    pub fn load(&mut self, rows: &mut Rows) {
        self.whole.extend(std::mem::take(&mut rows.recorded));
        for mut signal in std::mem::take(&mut rows.signals) {
            let name = (signal.execution, signal.number);
            // It may have been taken before it was loaded: a claim of the same transaction loads what it carries later.
            signal.taken = self.signals_taken.get(&name).copied().or(signal.taken);
            let known = self.signals.get_mut(&name);
            match known {
                Some(known) if known.payload.is_none() => known.payload = signal.payload,
                Some(_) => {}
                None => drop(self.signals.insert(name, signal)),
            }
        }
        for step in std::mem::take(&mut rows.steps) {
            self.steps.entry((step.execution, step.name.clone())).or_insert(step);
        }
        for waitpoint in std::mem::take(&mut rows.waitpoints) {
            self.waitpoints.entry((waitpoint.execution, waitpoint.number)).or_insert(waitpoint);
        }
        for key in std::mem::take(&mut rows.token_keys) {
            self.keys.entry(key.id).or_insert(key);
        }
    }

    /// Forgets what is recorded of an execution that is deleted: one that is given its id in the same transaction begins anew.
    pub fn forget(&mut self, id: ExecutionId) {
        self.whole.remove(&id);
        self.signals.retain(|(of, _), _| *of != id);
        self.signals_added.retain(|(of, _)| *of != id);
        self.signals_taken.retain(|(of, _), _| *of != id);
        self.steps.retain(|(of, _), _| *of != id);
        self.steps_written.retain(|(of, ..)| *of != id);
        self.waitpoints.retain(|(of, _), _| *of != id);
        self.waitpoints_written.retain(|(of, _)| *of != id);
    }

    /// What to save.
    pub fn finish(mut self, changes: &mut Changes) {
        changes.signals_added =
            self.signals_added.iter().filter_map(|name| self.signals.remove(name)).collect();
        let taken = self.signals_taken.into_iter();
        changes.signals_taken = taken.map(|((execution, number), by)| (execution, number, by)).collect();
        let steps = self.steps_written.into_iter();
        changes.steps =
            steps.filter_map(|(execution, _, name)| self.steps.remove(&(execution, name))).collect();
        let waitpoints = self.waitpoints_written.iter();
        changes.waitpoints = waitpoints.filter_map(|name| self.waitpoints.remove(name)).collect();
        changes.token_keys = self.keys_written.iter().filter_map(|id| self.keys.remove(id)).collect();
        changes.token_keys_removed = self.keys_removed.into_iter().collect();
    }
}

impl Work {
    /// Whether all steps and signals of an execution are here: it had none, or they were loaded.
    pub fn knows_record(&self, id: ExecutionId) -> bool {
        self.records.whole.contains(&id) || self.executions.get(&id).is_some_and(|entry| entry.bare)
    }

    /// The signals of an execution that are here, in the order of their delivery.
    pub fn signals(&self, of: ExecutionId) -> impl Iterator<Item = &Signal> {
        self.records.signals.range((of, 0)..=(of, u32::MAX)).map(|(_, signal)| signal)
    }

    /// A signal by the key of its sender.
    pub fn keyed_signal(&self, of: ExecutionId, key: &Name) -> Option<&Signal> {
        self.signals(of).find(|signal| signal.key.as_ref() == Some(key))
    }

    /// Adds a signal.
    pub fn add_signal(&mut self, signal: Signal) {
        let name = (signal.execution, signal.number);
        self.records.signals_added.insert(name);
        self.records.signals.insert(name, signal);
    }

    /// A suspension takes a signal.
    pub fn take_signal(&mut self, of: ExecutionId, number: u32, suspension: u32) {
        if let Some(signal) = self.records.signals.get_mut(&(of, number)) {
            signal.taken = Some(suspension);
        }
        self.records.signals_taken.insert((of, number), suspension);
    }

    /// A step by its name.
    pub fn step(&self, of: ExecutionId, name: &Name) -> Option<&Step> {
        self.records.steps.get(&(of, name.clone()))
    }

    /// The steps of an execution that are here, in the order in which they were begun.
    pub fn steps(&self, of: ExecutionId) -> Vec<&Step> {
        let from = self.records.steps.range((of, Name::trusted(""))..).map(|(_, step)| step);
        let mut steps: Vec<&Step> = from.take_while(|step| step.execution == of).collect();
        steps.sort_unstable_by_key(|step| step.number);
        steps
    }

    /// Writes a step.
    pub fn put_step(&mut self, step: Step) {
        self.records.steps_written.insert((step.execution, step.number, step.name.clone()));
        self.records.steps.insert((step.execution, step.name.clone()), step);
    }

    /// The waitpoints of an execution that are here, in the order in which they were made.
    pub fn waitpoints(&self, of: ExecutionId) -> impl DoubleEndedIterator<Item = &Waitpoint> {
        self.records.waitpoints.range((of, 0)..=(of, u32::MAX)).map(|(_, waitpoint)| waitpoint)
    }

    /// A waitpoint of an execution.
    pub fn waitpoint(&self, of: ExecutionId, id: WaitpointId) -> Option<&Waitpoint> {
        self.waitpoints(of).find(|waitpoint| waitpoint.id == id)
    }

    /// Writes a waitpoint.
    pub fn put_waitpoint(&mut self, waitpoint: Waitpoint) {
        let name = (waitpoint.execution, waitpoint.number);
        self.records.waitpoints_written.insert(name);
        self.records.waitpoints.insert(name, waitpoint);
    }

    /// When the next open waitpoint of an execution expires, `other` aside, which stands as it is given.
    pub fn next_expiry(&self, of: ExecutionId, other: Option<&Waitpoint>) -> Option<Timestamp> {
        let others = self.waitpoints(of).filter(|one| other.is_none_or(|other| other.id != one.id));
        let open = others.chain(other).filter(|one| one.state == WaitpointState::Open);
        open.filter_map(|one| one.expires_at).min()
    }

    /// The keys of tokens.
    pub fn token_keys(&self) -> impl Iterator<Item = &TokenKey> {
        self.records.keys.values()
    }

    /// Writes a key of tokens.
    pub fn put_token_key(&mut self, key: TokenKey) {
        self.records.keys_written.insert(key.id);
        self.records.keys.insert(key.id, key);
    }

    /// Removes a key of tokens.
    pub fn remove_token_key(&mut self, id: TokenKeyId) {
        self.records.keys_written.remove(&id);
        self.records.keys.remove(&id);
        self.records.keys_removed.insert(id);
    }
}
