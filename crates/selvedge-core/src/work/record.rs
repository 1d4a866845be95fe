//! The signals, steps, waitpoints, token keys, API keys, bulk jobs and rows of the inbox of one transaction.
//!
//! Every change to a record comes with a change of its execution through [`Work::apply`], which raises the execution's
//! version.

use super::Work;
use crate::api_key::{ApiKey, ApiKeyId};
use crate::bulk_job::{BulkJob, BulkJobId};
use crate::inbox::{InboxNumber, InboxRow};
use crate::table::{Entries, Table};
use crate::token::{TokenKey, TokenKeyId};
use crate::waitpoint::WaitpointState;
use crate::{Changes, ExecutionId, Name, Signal, Step, Timestamp, Waitpoint, WaitpointId};
use std::collections::{BTreeMap, HashSet};

/// The signals, steps and waitpoints of executions, the token keys, the API keys, the bulk jobs, and the rows of the
/// inbox.
#[derive(Debug)]
pub(super) struct Records {
    /// Executions whose steps and signals are all loaded.
    whole: HashSet<ExecutionId>,
    signals: Table<Signal>,
    /// The number of the suspension that takes each signal. The signals need not be loaded.
    signals_taken: BTreeMap<(ExecutionId, u32), u32>,
    steps: Table<Step>,
    waitpoints: Table<Waitpoint>,
    token_keys: Table<TokenKey>,
    api_keys: Table<ApiKey>,
    bulk_jobs: Table<BulkJob>,
    inbox: Table<InboxRow>,
}

impl Default for Records {
    fn default() -> Self {
        Records {
            whole: HashSet::new(),
            signals: Table::ordered(),
            signals_taken: BTreeMap::new(),
            steps: Table::ordered(),
            waitpoints: Table::ordered(),
            token_keys: Table::ordered(),
            api_keys: Table::default(),
            bulk_jobs: Table::default(),
            inbox: Table::default(),
        }
    }
}

impl Records {
    /// Adds loaded rows. Rows that this transaction has changed stay as they are.
    pub fn load(
        &mut self,
        signals: Vec<Signal>,
        steps: Vec<Step>,
        waitpoints: Vec<Waitpoint>,
        token_keys: Vec<TokenKey>,
        whole: Vec<ExecutionId>,
    ) {
        self.whole.extend(whole);
        for mut signal in signals {
            let key = (signal.execution, signal.number);
            // A claim loads the record after a suspension of the same transaction may have taken signals.
            signal.taken = self.signals_taken.get(&key).copied().or(signal.taken);
            match self.signals.entry_mut(&key) {
                Some(known) if known.row.payload.is_none() => known.row.payload = signal.payload,
                Some(_) => {}
                None => {
                    self.signals.load(signal);
                }
            }
        }
        for step in steps {
            self.steps.load(step);
        }
        for waitpoint in waitpoints {
            self.waitpoints.load(waitpoint);
        }
        for key in token_keys {
            self.token_keys.load(key);
        }
    }

    /// Adds loaded API keys.
    pub fn load_api_keys(&mut self, keys: Vec<ApiKey>) {
        for key in keys {
            self.api_keys.load(key);
        }
    }

    /// Adds loaded bulk jobs.
    pub fn load_bulk_jobs(&mut self, bulk_jobs: Vec<BulkJob>) {
        for job in bulk_jobs {
            self.bulk_jobs.load(job);
        }
    }

    /// Adds loaded rows of the inbox.
    pub fn load_inbox(&mut self, rows: Vec<InboxRow>) {
        for row in rows {
            self.inbox.load(row);
        }
    }

    /// Drops the record of a deleted execution: an execution that is inserted with the same id in this transaction
    /// starts without one.
    pub fn forget(&mut self, id: ExecutionId) {
        self.whole.remove(&id);
        self.signals.forget(|signal| signal.execution == id);
        self.signals_taken.retain(|(execution, _), _| *execution != id);
        self.steps.forget(|step| step.execution == id);
        self.waitpoints.forget(|waitpoint| waitpoint.execution == id);
    }

    /// Adds the writes to the changes of the transaction.
    pub fn finish(self, changes: &mut Changes) {
        changes.signals = self.signals.into_written();
        let taken = self.signals_taken.into_iter();
        changes.unread.signals_taken =
            taken.map(|((execution, number), by)| (execution, number, by)).collect();
        changes.steps = self.steps.into_written();
        changes.steps.sort_by_key(|step| (step.execution, step.number));
        changes.waitpoints = self.waitpoints.into_written();
        let Entries { written, removed } = self.token_keys.into_entries();
        changes.token_keys = Entries { written, removed };
        changes.api_keys = self.api_keys.into_written();
        changes.bulk_jobs = self.bulk_jobs.into_entries();
        changes.inbox = self.inbox.into_entries();
    }
}

impl Work {
    /// Reports whether all steps and signals of an execution are known: it had none, or they were loaded.
    pub fn has_whole_record(&self, id: ExecutionId) -> bool {
        self.records.whole.contains(&id) || self.executions.entry(&id).is_some_and(|entry| entry.extra.bare)
    }

    /// Returns the loaded signals of an execution, in the order of their delivery.
    pub fn signals(&self, of: ExecutionId) -> impl Iterator<Item = &Signal> {
        self.records.signals.range((of, 0)..=(of, u32::MAX))
    }

    /// Returns a signal by the key that its sender chose, if it is loaded.
    pub fn keyed_signal(&self, of: ExecutionId, key: &Name) -> Option<&Signal> {
        self.signals(of).find(|signal| signal.key.as_ref() == Some(key))
    }

    /// Adds a signal.
    pub fn add_signal(&mut self, signal: Signal) {
        self.records.signals.put(signal);
    }

    /// Records that a suspension takes a signal, loaded or not.
    pub fn take_signal(&mut self, of: ExecutionId, number: u32, suspension: u32) {
        // Does not mark the row as written: the store marks the signal as taken without reading it.
        if let Some(entry) = self.records.signals.entry_mut(&(of, number)) {
            entry.row.taken = Some(suspension);
        }
        self.records.signals_taken.insert((of, number), suspension);
    }

    /// Returns a step by its name, if it is loaded.
    pub fn step(&self, of: ExecutionId, name: &Name) -> Option<&Step> {
        self.records.steps.get(&(of, name.clone()))
    }

    /// Returns the loaded steps of an execution, in the order in which they began.
    pub fn steps(&self, of: ExecutionId) -> Vec<&Step> {
        let from = self.records.steps.range((of, Name::trusted(""))..);
        let mut steps: Vec<&Step> = from.take_while(|step| step.execution == of).collect();
        steps.sort_unstable_by_key(|step| step.number);
        steps
    }

    /// Writes a step.
    pub fn put_step(&mut self, step: Step) {
        self.records.steps.put(step);
    }

    /// Returns the loaded waitpoints of an execution, in the order of their creation.
    pub fn waitpoints(&self, of: ExecutionId) -> impl DoubleEndedIterator<Item = &Waitpoint> {
        self.records.waitpoints.range((of, 0)..=(of, u32::MAX))
    }

    /// Returns a waitpoint of an execution, if it is loaded.
    pub fn waitpoint(&self, of: ExecutionId, id: WaitpointId) -> Option<&Waitpoint> {
        self.waitpoints(of).find(|waitpoint| waitpoint.id == id)
    }

    /// Writes a waitpoint.
    pub fn put_waitpoint(&mut self, waitpoint: Waitpoint) {
        self.records.waitpoints.put(waitpoint);
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
        self.records.token_keys.range(..)
    }

    /// Writes a token key.
    pub fn put_token_key(&mut self, key: TokenKey) {
        self.records.token_keys.put(key);
    }

    /// Returns an API key, if it is loaded.
    pub fn api_key(&self, id: ApiKeyId) -> Option<&ApiKey> {
        self.records.api_keys.get(&id)
    }

    /// Writes an API key.
    pub fn put_api_key(&mut self, key: ApiKey) {
        self.records.api_keys.put(key);
    }

    /// Returns a bulk job, if it is loaded.
    pub fn bulk_job(&self, id: BulkJobId) -> Option<&BulkJob> {
        self.records.bulk_jobs.get(&id)
    }

    /// Writes a bulk job.
    pub fn put_bulk_job(&mut self, job: BulkJob) {
        self.records.bulk_jobs.put(job);
    }

    /// Deletes a bulk job.
    pub fn remove_bulk_job(&mut self, id: BulkJobId) {
        self.records.bulk_jobs.delete(&id);
    }

    /// Returns a row of the inbox, if it is loaded.
    pub fn inbox_row(&self, number: InboxNumber) -> Option<&InboxRow> {
        self.records.inbox.get(&number)
    }

    /// Writes a row of the inbox.
    pub fn put_inbox_row(&mut self, row: InboxRow) {
        self.records.inbox.put(row);
    }

    /// Deletes a row of the inbox.
    pub fn remove_inbox_row(&mut self, number: InboxNumber) {
        self.records.inbox.delete(&number);
    }

    /// Deletes a token key.
    pub fn remove_token_key(&mut self, id: TokenKeyId) {
        self.records.token_keys.delete(&id);
    }
}
