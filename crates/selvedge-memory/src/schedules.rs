//! Schedules.

use selvedge_core::schedule::{Schedule, ScheduleName};
use selvedge_core::{Changes, Name, NamespaceId, Needs, Rows, Timestamp};
use selvedge_store::ReconcilerScope;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};

/// The table of schedules.
#[derive(Debug, Default)]
pub struct Schedules {
    rows: BTreeMap<ScheduleName, Schedule>,
    due: BTreeSet<(Timestamp, ScheduleName)>,
}

impl Schedules {
    /// Returns a schedule.
    pub fn get(&self, name: &ScheduleName) -> Option<Schedule> {
        self.rows.get(name).cloned()
    }

    /// Loads the schedules that `needs` names.
    pub fn load(&self, needs: &Needs, rows: &mut Rows) {
        rows.schedules.extend(needs.schedules.keys().filter_map(|name| self.get(name)));
    }

    /// Returns true if every written or deleted schedule has its expected version.
    pub fn guards_hold(&self, changes: &Changes) -> bool {
        let version = |name: &ScheduleName| self.rows.get(name).map(|row| row.version);
        changes.schedules.versioned().all(|(row, expected)| version(&row.name) == expected)
            && changes.schedules.deleted.iter().all(|(name, expected)| version(name) == Some(*expected))
    }

    pub fn save(&mut self, changes: &Changes) {
        for (name, _) in &changes.schedules.deleted {
            self.remove(name);
        }
        for row in changes.schedules.written() {
            self.remove(&row.name);
            self.due.extend(row.due_at.map(|at| (at, row.name.clone())));
            self.rows.insert(row.name.clone(), row.clone());
        }
    }

    fn remove(&mut self, name: &ScheduleName) {
        if let Some(at) = self.rows.remove(name).and_then(|row| row.due_at) {
            self.due.remove(&(at, name.clone()));
        }
    }

    pub fn next_due(&self) -> Option<Timestamp> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Returns a page of the due schedules, earliest first.
    pub fn due(
        &self,
        scope: &ReconcilerScope,
        after: Option<(Timestamp, ScheduleName)>,
        limit: u32,
        now: Timestamp,
    ) -> Vec<Schedule> {
        let from = after.map_or(Unbounded, Excluded);
        let due = self.due.range((from, Unbounded)).take_while(|(at, _)| *at <= now);
        due.filter(|(_, name)| scope.covers_namespace(name.namespace))
            .filter_map(|(_, name)| self.get(name))
            .take(limit as usize)
            .collect()
    }

    /// Returns a page of the schedules of a namespace, by name.
    pub fn list(&self, namespace: NamespaceId, after: Option<&Name>, limit: u32) -> Vec<Schedule> {
        let name = after.cloned().unwrap_or_else(|| Name::trusted(""));
        let from = (Excluded(ScheduleName { namespace, name }), Unbounded);
        let rows = self.rows.range(from).map(|(_, row)| row);
        rows.take_while(|row| row.name.namespace == namespace).take(limit as usize).cloned().collect()
    }
}
