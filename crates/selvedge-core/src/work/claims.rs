//! The view of claims on a transaction: the loaded waiting executions, and the rows that a claim carries.

use super::Work;
use crate::execution::ClaimOrder;
use crate::rows::{Payload, Relative, ResultChange, StoredRelative};
use crate::table::Entry;
use crate::{ClaimScope, ClassId, Classes, Execution, ExecutionId, Name, Outcome, State};
use std::collections::{BTreeSet, HashMap};

/// Waiting executions in claim order, by their class and, where it has one, by its pool.
#[derive(Debug, Default)]
pub(super) struct Ready {
    by_class: HashMap<ClassId, BTreeSet<ClaimOrder>>,
    by_pool: HashMap<ClassId, BTreeSet<ClaimOrder>>,
}

impl Ready {
    pub(super) fn insert(&mut self, classes: &Classes, class: ClassId, order: ClaimOrder) {
        self.by_class.entry(class).or_default().insert(order);
        if let Some(pool) = classes.pool_of(class) {
            self.by_pool.entry(pool).or_default().insert(order);
        }
    }

    /// Removes an execution. Reports whether it was there.
    pub(super) fn remove(&mut self, classes: &Classes, class: ClassId, order: ClaimOrder) -> bool {
        let pool = || classes.pool_of(class);
        if !self.by_pool.is_empty()
            && let Some(pooled) = pool().and_then(|pool| self.by_pool.get_mut(&pool))
        {
            pooled.remove(&order);
        }
        self.by_class.get_mut(&class).is_some_and(|set| set.remove(&order))
    }

    /// Iterates over all executions, in no particular order.
    pub(super) fn all(&self) -> impl Iterator<Item = &ClaimOrder> {
        self.by_class.values().flatten()
    }

    /// Returns the executions of a class or pool.
    fn of(&self, range: &ClassId) -> Option<&BTreeSet<ClaimOrder>> {
        self.by_class.get(range).or_else(|| self.by_pool.get(range))
    }
}

impl Work {
    /// Returns the loaded executions that belong to flows.
    pub fn members_of_flows(&self) -> impl Iterator<Item = &Execution> {
        self.tables.executions.rows().filter(|row| row.flow.is_some())
    }

    /// Returns the classes and pools that a worker with this scope may claim from, in id order.
    pub fn covered(&self, scope: &ClaimScope) -> Vec<ClassId> {
        self.classes.covered(scope)
    }

    /// Returns the classes and pools in whose ranges claims find executions of a class.
    pub(super) fn ranges_of(&self, class: ClassId) -> impl Iterator<Item = ClassId> + use<> {
        [Some(class), self.classes.pool_of(class)].into_iter().flatten()
    }

    /// Reports whether a claim on these classes and pools, in id order, may take executions of a class.
    pub(crate) fn is_in_range(&self, class: ClassId, ranges: &[ClassId]) -> bool {
        self.ranges_of(class).any(|range| ranges.binary_search(&range).is_ok())
    }

    /// Iterates over the loaded waiting executions of these classes and pools, in claim order within each class.
    pub fn waiting(&self, classes: &[ClassId]) -> impl Iterator<Item = ExecutionId> {
        classes.iter().filter_map(|class| self.ready.of(class)).flatten().map(|(_, id)| *id)
    }

    /// Returns the first execution, in claim order, that a claim on these classes can take. Skips executions of which the
    /// size of what the claim carries is not known.
    pub fn next_claimable(&self, classes: &[ClassId]) -> Option<ExecutionId> {
        classes
            .iter()
            .filter_map(|class| self.ready.of(class))
            .filter_map(|set| {
                set.iter().find(|(_, id)| {
                    self.tables.executions.entry(id).is_some_and(|entry| self.is_claimable(entry))
                })
            })
            .min()
            .map(|(_, id)| *id)
    }

    /// Reports whether the sizes of the payloads that a claim carries are known and all gates were requested. The row
    /// itself has the size of its steps and signals.
    fn is_claimable(&self, entry: &Entry<Execution>) -> bool {
        let wiring = entry.row.wiring();
        let upstreams = wiring.upstreams.iter().map(|upstream| upstream.execution);
        let children = wiring.children.iter().map(|child| child.execution);
        entry.extra.input.is_some()
            && !self.unreadable.contains_key(&entry.row.id)
            && self.has_requested_gates_of(&entry.row)
            && upstreams.chain(children).all(|id| self.has_end_of(id))
    }

    /// Reports whether the outcome of an execution, or that it has none, is known, with the result or its size if it
    /// completed.
    pub fn has_end_of(&self, id: ExecutionId) -> bool {
        let known = |entry: &Entry<Execution>| {
            entry.row.state.outcome() != Some(Outcome::Completed) || entry.extra.result != ResultChange::Keep
        };
        self.relatives.contains_key(&id)
            || self.unreadable.contains_key(&id)
            || self.tables.executions.entry(&id).is_some_and(known)
    }

    /// Returns the input of an execution, or its size, if it is loaded.
    pub fn input(&self, id: ExecutionId) -> Option<&Payload> {
        self.tables.executions.entry(&id)?.extra.input.as_ref()
    }

    /// Returns the node name, outcome and result of an upstream or a child: as changed by this transaction, otherwise
    /// as stored.
    pub fn relative(&self, id: ExecutionId) -> Option<StoredRelative> {
        let loaded = self.relatives.get(&id);
        let entry = self.tables.executions.entry(&id);
        let Some(entry) = entry.filter(|entry| !entry.is_unchanged() || loaded.is_none()) else {
            return loaded.cloned();
        };
        let outcome = entry.row.state.outcome();
        let kept = loaded.filter(|_| entry.extra.result == ResultChange::Keep);
        let relative = Relative {
            execution: id,
            name: Name::trusted(entry.row.node()?),
            outcome,
            error: entry.row.detail.error.clone().filter(|_| outcome.is_some()),
            result: match &entry.extra.result {
                ResultChange::Set(result) => Some(result.clone()),
                ResultChange::Clear => None,
                ResultChange::Keep => kept.and_then(|kept| kept.relative.result.clone()),
            },
            left_out: false,
        };
        let whole = StoredRelative::whole(relative);
        Some(match kept.filter(|kept| kept.relative.left_out) {
            Some(kept) => StoredRelative { bytes: kept.bytes, ..whole }.within(0),
            None => whole,
        })
    }

    /// Returns the size of the result and the error of an upstream or a child, in bytes; 0 if it is not loaded.
    pub fn relative_bytes(&self, id: ExecutionId) -> usize {
        let unchanged = |entry: &Entry<Execution>| entry.is_unchanged();
        match self.relatives.get(&id) {
            Some(loaded) if self.tables.executions.entry(&id).is_none_or(unchanged) => loaded.bytes,
            Some(_) | None => self.relative(id).map_or(0, |relative| relative.bytes),
        }
    }

    /// Returns the number of upstreams and children that are loaded.
    pub fn relative_count(&self) -> usize {
        self.relatives.len()
    }

    /// Returns the classes of the executions that became waiting in this transaction and whose gates were requested,
    /// one entry for each execution.
    pub fn newly_waiting_classes(&self) -> Vec<ClassId> {
        let ids = self.ready.all().map(|(_, id)| id);
        let changed =
            ids.filter_map(|id| self.tables.executions.entry(id)).filter(|entry| !entry.is_unchanged());
        let admissible = changed.filter(|entry| self.has_requested_gates_of(&entry.row));
        admissible.map(|entry| entry.row.class).collect()
    }

    /// Returns the classes of the loaded executions that have not ended.
    pub fn live_classes(&self) -> BTreeSet<ClassId> {
        self.tables
            .executions
            .rows()
            .filter(|row| row.state.outcome().is_none())
            .map(|row| row.class)
            .collect()
    }

    /// Returns the classes for which waiting claims must be woken up after the commit, in id order: those of loaded
    /// executions that are waiting when the transaction ends, because a concurrent claim has skipped their locked rows;
    /// and those of executions that were held when a claim reached them, because the claim may not have seen the
    /// executions behind them.
    pub fn classes_left_waiting(&self) -> Vec<ClassId> {
        let waiting = self.tables.executions.rows().filter(|row| row.state == State::Waiting);
        let mut classes: Vec<ClassId> = waiting.map(|row| row.class).chain(self.passed_over()).collect();
        classes.sort_unstable();
        classes.dedup();
        classes
    }
}

/// Reports whether a cause makes an execution waiting, rather than changing one that already is.
pub(super) fn becomes_waiting(cause: crate::transition::Cause) -> bool {
    use crate::transition::Cause;
    !matches!(
        cause,
        Cause::Tag
            | Cause::Prioritise
            | Cause::UpstreamChange
            | Cause::Wire
            | Cause::Signal
            | Cause::Waitpoint
            | Cause::Await
    )
}
