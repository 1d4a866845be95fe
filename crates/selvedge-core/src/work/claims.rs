//! What the claims of one transaction see of it: the ready executions at hand, and what they carry.

use super::Work;
use crate::rows::ResultChange;
use crate::table::Entry;
use crate::{ClassId, Execution, ExecutionId, Outcome, State};
use std::collections::BTreeSet;

impl Work {
    /// The ready executions of these classes that are at hand.
    pub fn ready(&self, classes: &[ClassId]) -> impl Iterator<Item = ExecutionId> {
        classes.iter().filter_map(|class| self.ready.get(class)).flatten().map(|(_, id)| *id)
    }

    /// The next execution that a claim on these classes takes, in order. Only those whose input is here can be handed out.
    pub fn next_ready(&self, classes: &[ClassId]) -> Option<ExecutionId> {
        classes
            .iter()
            .filter_map(|class| self.ready.get(class))
            .filter_map(|set| {
                set.iter()
                    .find(|(_, id)| self.executions.entry(id).is_some_and(|entry| self.can_hand_out(entry)))
            })
            .min()
            .map(|(_, id)| *id)
    }

    /// Whether everything that a claim carries is here: the input, how the upstreams and children ended, and the record.
    fn can_hand_out(&self, entry: &Entry<Execution>) -> bool {
        let wiring = entry.row.wiring();
        let upstreams = wiring.upstreams.iter().map(|upstream| upstream.execution);
        let children = wiring.children.iter().map(|child| child.execution);
        entry.extra.input.is_some()
            && self.has_whole_record(entry.row.id)
            && self.has_requested_gates_of(&entry.row)
            && upstreams.chain(children).all(|id| self.has_end_of(id))
    }

    /// Whether it is known how an execution stands and, where it has ended, with which result.
    pub fn has_end_of(&self, id: ExecutionId) -> bool {
        let known = |entry: &Entry<Execution>| {
            entry.row.state.outcome() != Some(Outcome::Completed) || entry.extra.result != ResultChange::Keep
        };
        self.relatives.contains_key(&id)
            || self.unreadable.contains_key(&id)
            || self.executions.entry(&id).is_some_and(known)
    }

    /// The classes of the executions that this transaction has made ready and may hand out, one entry for each.
    pub fn made_ready(&self) -> Vec<ClassId> {
        let ids = self.ready.values().flatten().map(|(_, id)| id);
        let made = ids.filter_map(|id| self.executions.entry(id)).filter(|entry| !entry.is_unchanged());
        let made = made.filter(|entry| self.has_requested_gates_of(&entry.row));
        made.map(|entry| entry.row.class).collect()
    }

    /// The classes of the loaded executions that have not ended.
    pub fn live_classes(&self) -> BTreeSet<ClassId> {
        self.executions.rows().filter(|row| row.state.outcome().is_none()).map(|row| row.class).collect()
    }

    /// The classes of which something that this transaction had in hand is ready when it ends. Made ready by it or not: a
    /// claim that came meanwhile has passed over what was locked, and must look again. Also those of which its claims came
    /// across something that was held: they have not seen what is behind it.
    pub fn left_ready(&self) -> Vec<ClassId> {
        let left = self.executions.rows().filter(|row| row.state == State::Waiting);
        let mut classes: Vec<ClassId> = left.map(|row| row.class).chain(self.passed_over()).collect();
        classes.sort_unstable();
        classes.dedup();
        classes
    }
}
