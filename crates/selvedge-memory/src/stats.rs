//! Statistics: minute rollups, and the depths of lanes.

use crate::tables::Tables;
use selvedge_core::flow::FlowState;
use selvedge_core::rollup::{Rollup, RollupKey, RollupQuery, RollupRow};
use selvedge_core::state::StateName;
use selvedge_core::{ClassId, NamespaceId, State, Timestamp};
use selvedge_store::Depth;
use std::collections::HashMap;

impl Tables {
    pub fn save_rollups(&mut self, rows: &[RollupRow]) {
        for row in rows {
            self.rollups.insert((row.namespace, row.key.clone()), row.rollup.clone());
        }
    }

    pub fn rollups(&self, query: &RollupQuery, limit: u32) -> Vec<RollupRow> {
        let row = |((namespace, key), rollup): (&(NamespaceId, RollupKey), &Rollup)| RollupRow {
            namespace: *namespace,
            key: key.clone(),
            rollup: rollup.clone(),
        };
        self.rollups.iter().map(row).filter(|row| query.matches(row)).take(limit as usize).collect()
    }

    pub fn delete_old_rollups(&mut self, before: Timestamp, limit: u32) -> u64 {
        let old = self.rollups.keys().filter(|(_, key)| key.minute_at < before);
        let old: Vec<(NamespaceId, RollupKey)> = old.take(limit as usize).cloned().collect();
        old.iter().for_each(|key| drop(self.rollups.remove(key)));
        old.len() as u64
    }

    /// Counts the live executions of a namespace by class or pool and by state. Looks at all of them.
    pub fn depths(&self, namespace: NamespaceId, ranges: &[ClassId], bound: u64) -> Vec<Depth> {
        let mut depths: HashMap<(ClassId, StateName), Depth> = HashMap::new();
        let rows = self.executions.values().map(|record| &record.execution);
        for row in rows.filter(|row| row.namespace == namespace && row.state.outcome().is_none()) {
            let range = self.ranges_of(row.class).last().unwrap_or(row.class);
            let since = match &row.state {
                State::Waiting if !ranges.contains(&range) => continue,
                State::Waiting => row.ready_order,
                State::Active(lease) => lease.claimed_at,
                State::WaitingDependencies
                | State::Delayed { .. }
                | State::Held(_)
                | State::Suspended(_)
                | State::Terminal(_) => row.submitted_at,
            };
            let state = row.state.name();
            let depth =
                depths.entry((range, state)).or_insert(Depth { range, state, count: 0, oldest_at: since });
            depth.count = (depth.count + 1).min(bound);
            depth.oldest_at = depth.oldest_at.min(since);
        }
        depths.into_values().collect()
    }

    pub fn count_flows(&self, namespace: NamespaceId, state: FlowState, bound: u64) -> u64 {
        let flows = self.flows.values().filter(|flow| flow.namespace == namespace && flow.state == state);
        (flows.count() as u64).min(bound)
    }
}
