//! Signals, steps and waitpoints of executions, the keys of tokens, and API keys.

use selvedge_core::api_key::{ApiKey, ApiKeyId, KeyDigest};
use selvedge_core::bulk_job::{BulkJob, BulkJobId};
use selvedge_core::step::Step;
use selvedge_core::token::{TokenKey, TokenKeyId};
use selvedge_core::waitpoint::{WaitpointFilter, WaitpointPosition};
use selvedge_core::{
    Changes, ExecutionId, NamespaceId, Needs, Rows, Signal, Timestamp, Waitpoint, WaitpointId,
};
use selvedge_store::ReconcilerScope;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;

/// The tables of signals, steps, waitpoints and token keys.
#[derive(Debug, Default)]
pub struct Records {
    signals: BTreeMap<(ExecutionId, u32), Signal>,
    steps: BTreeMap<(ExecutionId, u32), Step>,
    waitpoints: BTreeMap<(ExecutionId, u32), Waitpoint>,
    waitpoint_ids: HashMap<WaitpointId, (ExecutionId, u32)>,
    pub token_keys: BTreeMap<TokenKeyId, TokenKey>,
    pub api_keys: BTreeMap<ApiKeyId, ApiKey>,
    pub bulk_jobs: BTreeMap<BulkJobId, BulkJob>,
    pub secret: Option<Vec<u8>>,
}

fn all(of: ExecutionId) -> RangeInclusive<(ExecutionId, u32)> {
    (of, 0)..=(of, u32::MAX)
}

/// Returns rows of an execution with numbers greater than `after`.
fn after<T: Clone>(
    table: &BTreeMap<(ExecutionId, u32), T>,
    of: ExecutionId,
    after: u32,
    limit: u32,
) -> Vec<T> {
    let rows = table.range((of, after.saturating_add(1))..=(of, u32::MAX));
    rows.take(limit as usize).map(|(_, row)| row.clone()).collect()
}

fn delete_all<T>(table: &mut BTreeMap<(ExecutionId, u32), T>, of: ExecutionId) {
    let names: Vec<_> = table.range(all(of)).map(|(name, _)| *name).collect();
    names.iter().for_each(|name| drop(table.remove(name)));
}

impl Records {
    /// Loads the signals, steps, waitpoints and token keys that `needs` names.
    pub fn load(&self, needs: &Needs, rows: &mut Rows) {
        for id in &needs.queries.records {
            rows.found.records.push(*id);
            rows.signals.extend(self.signals.range(all(*id)).map(|(_, signal)| signal.clone()));
            rows.steps.extend(self.steps.range(all(*id)).map(|(_, step)| step.clone()));
        }
        let without_payload = |signal: &Signal| Signal { payload: None, ..signal.clone() };
        for id in &needs.queries.untaken {
            let signals = self.signals.range(all(*id)).map(|(_, signal)| signal);
            rows.signals.extend(signals.filter(|signal| signal.taken.is_none()).map(without_payload));
        }
        for (id, key) in &needs.queries.signal_keys {
            let mut signals = self.signals.range(all(*id)).map(|(_, signal)| signal);
            rows.signals.extend(signals.find(|signal| signal.key.as_ref() == Some(key)).map(without_payload));
        }
        for (id, name) in needs.steps.keys() {
            let mut steps = self.steps.range(all(*id)).map(|(_, step)| step);
            rows.steps.extend(steps.find(|step| step.name == *name).cloned());
        }
        for id in &needs.queries.waitpoints {
            rows.waitpoints.extend(self.waitpoints.range(all(*id)).map(|(_, waitpoint)| waitpoint.clone()));
        }
        if needs.queries.token_keys {
            rows.token_keys.extend(self.token_keys.values());
        }
        let api_keys = needs.api_keys.keys().filter_map(|id| self.api_keys.get(id));
        rows.api_keys.extend(api_keys.cloned());
        let bulk_jobs = needs.bulk_jobs.keys().filter_map(|id| self.bulk_jobs.get(id));
        rows.bulk_jobs.extend(bulk_jobs.cloned());
    }

    /// Saves the signals, steps, waitpoints and token keys of `changes`.
    pub fn save(&mut self, changes: &mut Changes) {
        for (id, _) in &changes.executions.deleted {
            delete_all(&mut self.signals, *id);
            delete_all(&mut self.steps, *id);
            self.waitpoints.range(all(*id)).for_each(|(_, waitpoint)| {
                self.waitpoint_ids.remove(&waitpoint.id);
            });
            delete_all(&mut self.waitpoints, *id);
        }
        for signal in std::mem::take(&mut changes.signals) {
            self.signals.insert((signal.execution, signal.number), signal);
        }
        for (execution, number, by) in std::mem::take(&mut changes.unread.signals_taken) {
            if let Some(signal) = self.signals.get_mut(&(execution, number)) {
                signal.taken = Some(by);
            }
        }
        for step in std::mem::take(&mut changes.steps) {
            self.steps.insert((step.execution, step.number), step);
        }
        for waitpoint in std::mem::take(&mut changes.waitpoints) {
            let name = (waitpoint.execution, waitpoint.number);
            self.waitpoint_ids.insert(waitpoint.id, name);
            self.waitpoints.insert(name, waitpoint);
        }
        self.token_keys.extend(changes.token_keys.written.iter().map(|key| (key.id, *key)));
        self.token_keys.retain(|id, _| !changes.token_keys.removed.contains(id));
        for key in std::mem::take(&mut changes.api_keys) {
            let known = self.api_keys.entry(key.id).or_insert_with(|| key.clone());
            (known.revoked_at, known.namespaces) = (key.revoked_at, key.namespaces);
        }
        for job in std::mem::take(&mut changes.bulk_jobs.written) {
            self.bulk_jobs.insert(job.id, job);
        }
        self.bulk_jobs.retain(|id, _| !changes.bulk_jobs.removed.contains(id));
    }

    pub fn signals_after(&self, of: ExecutionId, number: u32, limit: u32) -> Vec<Signal> {
        after(&self.signals, of, number, limit)
    }

    pub fn steps_after(&self, of: ExecutionId, number: u32, limit: u32) -> Vec<Step> {
        after(&self.steps, of, number, limit)
    }

    pub fn waitpoints_after(&self, of: ExecutionId, number: u32, limit: u32) -> Vec<Waitpoint> {
        after(&self.waitpoints, of, number, limit)
    }

    /// Returns a page of the waitpoints that match, newest first.
    pub fn list_waitpoints(
        &self,
        filter: &WaitpointFilter,
        after: Option<WaitpointPosition>,
        limit: u32,
    ) -> Vec<Waitpoint> {
        let matching = self.waitpoints.values().filter(|waitpoint| filter.selects(waitpoint));
        let mut found: Vec<&Waitpoint> =
            matching.filter(|waitpoint| after.is_none_or(|after| waitpoint.position() < after)).collect();
        found.sort_unstable_by_key(|waitpoint| Reverse(waitpoint.position()));
        found.into_iter().take(limit as usize).cloned().collect()
    }

    /// Returns the API key with this digest.
    pub fn api_key(&self, digest: &KeyDigest) -> Option<ApiKey> {
        self.api_keys.values().find(|key| key.digest == *digest).cloned()
    }

    /// Returns a page of the API keys, newest first.
    pub fn list_api_keys(&self, after: Option<ApiKeyId>, limit: u32) -> Vec<ApiKey> {
        let older = self.api_keys.values().rev().filter(|key| after.is_none_or(|after| key.id < after));
        older.take(limit as usize).cloned().collect()
    }

    /// Returns a page of the bulk jobs of a namespace, newest first.
    pub fn list_bulk_jobs(
        &self,
        namespace: NamespaceId,
        after: Option<BulkJobId>,
        limit: u32,
    ) -> Vec<BulkJob> {
        let older = self.bulk_jobs.values().rev().filter(|job| after.is_none_or(|after| job.id < after));
        older.filter(|job| job.namespace == namespace).take(limit as usize).cloned().collect()
    }

    /// Returns the bulk jobs that are due, earliest first.
    pub fn due_bulk_jobs(&self, scope: &ReconcilerScope, limit: u32, now: Timestamp) -> Vec<BulkJob> {
        let due = self.bulk_jobs.values().filter(|job| job.due_at <= now);
        let mut due: Vec<&BulkJob> = due.filter(|job| scope.covers_namespace(job.namespace)).collect();
        due.sort_unstable_by_key(|job| (job.due_at, job.id));
        due.into_iter().take(limit as usize).cloned().collect()
    }

    /// Records a use of API keys.
    pub fn touch_api_keys(&mut self, ids: &[ApiKeyId], now: Timestamp) {
        for id in ids {
            if let Some(key) = self.api_keys.get_mut(id) {
                key.last_used_at = key.last_used_at.max(Some(now));
            }
        }
    }

    pub fn waitpoint(&self, id: WaitpointId) -> Option<Waitpoint> {
        self.waitpoint_ids.get(&id).and_then(|name| self.waitpoints.get(name)).cloned()
    }
}
