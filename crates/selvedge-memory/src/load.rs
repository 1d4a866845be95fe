//! Loads the rows that a decision needs. Under the mutex every row is free, so locking, locking if free and reading are
//! the same.

use crate::tables::Tables;
use selvedge_core::gate::GateName;
use selvedge_core::rows::{Candidates, HeldLease, PASSED_MAX, Payload};
use selvedge_core::{Execution, ExecutionId, Needs, Rows, Session, Timestamp};
use std::collections::{BTreeSet, HashSet};

impl Tables {
    /// Loads the rows that `needs` names.
    pub fn load(&self, needs: &Needs, now: Timestamp) -> Rows {
        let mut rows = Rows { now, ..Rows::default() };
        self.load_candidates(needs, &mut rows);
        self.load_flows(needs, &mut rows);
        let held = self.gates.load(needs, &mut rows);
        self.load_executions(needs, &held, &mut rows);
        self.load_sessions(needs, &mut rows);
        let inputs = rows.found.candidates.iter().chain(needs.inputs.keys());
        let inputs: BTreeSet<ExecutionId> = inputs.copied().collect();
        let limit = needs.inline_inputs();
        let inputs = inputs.into_iter().map(|id| (id, limit));
        let whole = needs.whole_inputs.keys().map(|id| (*id, usize::MAX));
        rows.inputs = inputs
            .chain(whole)
            .filter_map(|(id, limit)| Some((id, Payload::within(limit, &self.executions.get(&id)?.input))))
            .collect();
        let streams = needs.streams.keys().chain(needs.summaries.keys());
        rows.streams = streams.filter_map(|name| self.streams.get(name).cloned()).collect();
        self.records.load(needs, &mut rows);
        self.webhooks.load(needs, &mut rows);
        self.schedules.load(needs, &mut rows);
        rows.keys = needs.keys.keys().filter_map(|name| self.keys.get(name).cloned()).collect();
        rows.found.classes =
            needs.queries.classes_after.map(|after| self.classes_after(after)).unwrap_or_default();
        rows
    }

    fn load_executions(&self, needs: &Needs, held: &[ExecutionId], rows: &mut Rows) {
        let members = rows.found.members.iter().flat_map(|(_, ids)| ids);
        let ids: BTreeSet<ExecutionId> = needs
            .executions
            .returned()
            .chain(&rows.found.candidates)
            .chain(members)
            .chain(held)
            .copied()
            .collect();
        rows.executions = ids
            .iter()
            .filter_map(|id| self.executions.get(id))
            .map(|record| record.execution.clone())
            .collect();
    }

    /// Loads candidates. Those of several claims are distinct, so no claim stays empty because another was offered the
    /// same rows.
    fn load_candidates(&self, needs: &Needs, rows: &mut Rows) {
        let mut skipped: HashSet<ExecutionId> = needs.queries.except.iter().copied().collect();
        for asked in &needs.queries.candidates {
            for id in self.candidates(asked, &skipped) {
                skipped.insert(id);
                rows.found.candidates.push(id);
            }
        }
        for asked in &needs.queries.candidates {
            for id in self.passing(asked, &needs.queries.refusing, &skipped) {
                skipped.insert(id);
                rows.found.candidates.push(id);
            }
        }
    }

    /// Returns the first waiting executions of the requested classes that name none of these gates; none without gates.
    fn passing(
        &self,
        asked: &Candidates,
        refusing: &[GateName],
        skipped: &HashSet<ExecutionId>,
    ) -> Vec<ExecutionId> {
        if refusing.is_empty() {
            return Vec::new();
        }
        let names = |id: &ExecutionId| {
            let row = self.executions.get(id).map(|record| &record.execution);
            row.is_some_and(|row| refusing.iter().any(|gate| row.spec.required_gates.names(&gate.name)))
        };
        let of_class = asked.classes.iter().filter_map(|class| self.claimable.get(class));
        let first = of_class.flat_map(|claimable| claimable.iter().take(PASSED_MAX as usize));
        let mut passing: Vec<_> =
            first.filter(|(_, id)| !skipped.contains(id) && !names(id)).copied().collect();
        passing.sort_unstable();
        passing.into_iter().take(asked.limit as usize).map(|(_, id)| id).collect()
    }

    /// Returns the first waiting executions of the requested classes, in claim order.
    fn candidates(&self, asked: &Candidates, skipped: &HashSet<ExecutionId>) -> Vec<ExecutionId> {
        let limit = asked.limit as usize;
        let classes: BTreeSet<_> = asked.classes.iter().collect();
        let of_class = classes.into_iter().filter_map(|class| self.claimable.get(class));
        let mut first: Vec<_> = of_class
            .flat_map(|claimable| claimable.iter().filter(|(_, id)| !skipped.contains(id)).take(limit))
            .collect();
        first.sort_unstable();
        first.into_iter().take(limit).map(|(_, id)| *id).collect()
    }

    fn load_sessions(&self, needs: &Needs, rows: &mut Rows) {
        let of_instances: Vec<&Session> = needs
            .queries
            .instances
            .iter()
            .filter_map(|instance| self.instances.get(instance))
            .flatten()
            .filter_map(|id| self.sessions.get(id))
            .collect();
        let by_id = needs.sessions.keys();
        let ids: BTreeSet<_> = by_id.copied().chain(of_instances.iter().map(|session| session.id)).collect();
        rows.found.leases = of_instances
            .into_iter()
            .flat_map(|session| self.leased_by(session.id))
            .filter_map(held)
            .collect();
        rows.sessions = ids.iter().filter_map(|id| self.sessions.get(id).cloned()).collect();
    }
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
