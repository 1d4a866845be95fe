//! The ready executions that the claims of a transaction look for in the store, and the search behind the first of them when
//! some cannot be read or are refused by gates.

use crate::rows::{Candidates, Needs, Queries, Rows};
use crate::rules::gates::take::refusal;
use crate::{ClassId, ExecutionId, Work};
use std::collections::HashSet;

/// The most executions that a claim asks for beyond those it wants, because other claims take from the same classes.
const SHARE_LIMIT: u32 = 256;
/// The most searches of one transaction behind its first candidates.
const SEARCHES: u32 = 16;
/// The most candidates that such a search asks for.
const SEARCH_LIMIT: u32 = 500;

/// The candidates of one transaction.
#[derive(Debug, Default)]
pub struct Search {
    asked: Vec<Candidates>,
    classes: HashSet<ClassId>,
    found: HashSet<ExecutionId>,
    unreadable: Vec<ExecutionId>,
    passed: usize,
    refused: usize,
    searches: u32,
}

impl Search {
    /// Drops the classes that were asked for before, and shares the rest out among the claims.
    pub fn only_new(&mut self, candidates: &mut Vec<Candidates>) {
        for asked in candidates.iter_mut() {
            asked.classes.retain(|class| !self.classes.contains(class));
        }
        candidates.retain(|asked| !asked.classes.is_empty());
        share_out(candidates);
        self.classes.extend(candidates.iter().flat_map(|asked| asked.classes.iter().copied()));
        self.asked.extend(candidates.iter().cloned());
    }

    /// Records the result of a load. Returns the candidates that came too late for their gates to be loaded with them.
    pub fn record(&mut self, rows: &Rows) -> Vec<ExecutionId> {
        for (execution, _) in &rows.unreadable {
            if !self.unreadable.contains(execution) {
                self.unreadable.push(*execution);
            }
        }
        self.found.extend(&rows.found.candidates);
        if !rows.found.held.is_empty() {
            let loaded: HashSet<ExecutionId> = rows.executions.iter().map(|row| row.id).collect();
            self.found
                .extend(rows.found.held.iter().flat_map(|(_, held)| held).filter(|id| loaded.contains(id)));
        }
        if self.searches > 0 { rows.found.candidates.clone() } else { Vec::new() }
    }

    /// Every candidate and held execution that was found, and so is locked.
    pub fn found(&self) -> &HashSet<ExecutionId> {
        &self.found
    }

    /// Searches behind candidates that cannot be read, and behind those that gates refuse where the claims, which want so many,
    /// would go short. Goes further each time. The refused ones are held by this transaction and hide nothing from the next.
    pub fn further(&mut self, wanted: usize, work: &Work) -> Option<Needs> {
        if self.asked.is_empty() {
            return None;
        }
        if self.passed < self.unreadable.len() {
            self.passed = self.unreadable.len();
            return self.ask_further(self.unreadable.clone());
        }
        if wanted == 0 {
            return None;
        }
        let mut classes: Vec<ClassId> = self.classes.iter().copied().collect();
        classes.sort_unstable();
        let ready: Vec<ExecutionId> = work.waiting(&classes).collect();
        let refused = |id: &&ExecutionId| {
            let row = work.find(**id).ok().flatten();
            row.is_some_and(|row| work.has_requested_gates_of(row) && refusal(row, work).is_some())
        };
        let refused = ready.iter().filter(refused).count();
        let enough = ready.len() - refused >= wanted || refused >= SEARCH_LIMIT as usize;
        if refused == self.refused || enough {
            return None;
        }
        self.refused = refused;
        self.ask_further(self.found.iter().chain(&self.unreadable).copied().collect())
    }

    fn ask_further(&mut self, except: Vec<ExecutionId>) -> Option<Needs> {
        if self.searches == SEARCHES {
            return None;
        }
        self.searches += 1;
        for asked in &mut self.asked {
            asked.limit = asked.limit.max((asked.limit * 2).min(SEARCH_LIMIT));
        }
        let queries = Queries { candidates: self.asked.clone(), except, ..Queries::default() };
        Some(Needs { queries, ..Needs::default() })
    }
}

/// Claims whose classes overlap take from each other, so each asks for as many as all of them want together.
fn share_out(candidates: &mut [Candidates]) {
    if candidates.len() < 2 {
        return;
    }
    let overlap =
        |a: &Candidates, b: &Candidates| a.classes.iter().any(|id| b.classes.binary_search(id).is_ok());
    let wanted = |one: &Candidates| {
        candidates.iter().filter(|other| overlap(one, other)).map(|other| other.limit).sum::<u32>()
    };
    let limits: Vec<u32> = candidates.iter().map(|one| wanted(one).min(one.limit + SHARE_LIMIT)).collect();
    candidates.iter_mut().zip(limits).for_each(|(one, limit)| one.limit = limit);
}
