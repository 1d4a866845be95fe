//! The search for candidates: the waiting executions that the claims of a transaction look for in the store. Goes on
//! behind the first candidates if some are unreadable or refused by gates.

use crate::rows::{Candidates, Needs, Queries, Rows};
use crate::rules::gates::refusal;
use crate::{ClassId, ExecutionId, Work};
use std::collections::HashSet;

/// Maximum number of executions that a claim asks for beyond those it wants, because other claims take from the same
/// classes.
const SHARE_LIMIT: u32 = 256;
/// Maximum number of searches behind the first candidates in one transaction.
const SEARCHES: u32 = 16;
/// Maximum number of candidates that such a search asks for.
const SEARCH_LIMIT: u32 = 500;

/// The search for candidates in one transaction.
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
    /// Returns a search that goes on behind these unreadable executions.
    pub fn behind(unreadable: impl Iterator<Item = ExecutionId>) -> Search {
        Search { unreadable: unreadable.collect(), ..Search::default() }
    }

    /// Drops the classes that were requested before, and raises the limits of claims that share classes.
    pub fn only_new(&mut self, candidates: &mut Vec<Candidates>, work: &Work) {
        for asked in candidates.iter_mut() {
            asked.classes.retain(|class| !self.classes.contains(class));
        }
        candidates.retain(|asked| !asked.classes.is_empty());
        raise_shared_limits(candidates, work);
        self.classes.extend(candidates.iter().flat_map(|asked| asked.classes.iter().copied()));
        self.asked.extend(candidates.iter().cloned());
    }

    /// Records the result of a load. Returns the candidates of a repeated search: their gates may have been loaded
    /// before them.
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

    /// Returns every candidate and held execution that was found. All of them are locked.
    pub fn found(&self) -> &HashSet<ExecutionId> {
        &self.found
    }

    /// Returns a search behind unreadable candidates, or behind candidates that gates refuse if fewer than `wanted`
    /// remain. Each search asks for more. Refused candidates are held by this transaction, so they do not hide others
    /// from the next one.
    pub fn further(&mut self, wanted: usize, work: &Work) -> Option<Needs> {
        if self.asked.is_empty() {
            return None;
        }
        if self.passed < self.unreadable.len() {
            self.passed = self.unreadable.len();
            return self.search_behind(self.unreadable.clone());
        }
        if wanted == 0 {
            return None;
        }
        let mut classes: Vec<ClassId> = self.classes.iter().copied().collect();
        classes.sort_unstable();
        let waiting: HashSet<ExecutionId> = work.waiting(&classes).collect();
        let is_refused = |id: &&ExecutionId| {
            let row = work.find(**id).ok().flatten();
            row.is_some_and(|row| work.has_requested_gates_of(row) && refusal(row, work).is_some())
        };
        let refused = waiting.iter().filter(is_refused).count();
        let enough = waiting.len() - refused >= wanted || refused >= SEARCH_LIMIT as usize;
        if refused == self.refused || enough {
            return None;
        }
        self.refused = refused;
        self.search_behind(self.found.iter().chain(&self.unreadable).copied().collect())
    }

    /// Repeats the search with larger limits and without the executions in `except`; none once the limit of searches is
    /// reached.
    fn search_behind(&mut self, except: Vec<ExecutionId>) -> Option<Needs> {
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

/// Raises the limits of claims whose classes overlap: they compete for the same executions, so each asks for as many as
/// all of them want together.
fn raise_shared_limits(candidates: &mut [Candidates], work: &Work) {
    if candidates.len() < 2 {
        return;
    }
    let contains =
        |a: &Candidates, b: &Candidates| a.classes.iter().any(|class| work.is_in_range(*class, &b.classes));
    let overlap = |a: &Candidates, b: &Candidates| contains(a, b) || contains(b, a);
    let wanted = |one: &Candidates| {
        candidates.iter().filter(|other| overlap(one, other)).map(|other| other.limit).sum::<u32>()
    };
    let limits: Vec<u32> = candidates.iter().map(|one| wanted(one).min(one.limit + SHARE_LIMIT)).collect();
    candidates.iter_mut().zip(limits).for_each(|(one, limit)| one.limit = limit);
}
