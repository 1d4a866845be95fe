//! The waiting executions that a claim can take, in claim order.

use crate::kinds::{Kind, Tables};
use selvedge_core::gate::GateName;
use selvedge_core::rows::{Candidates, PASSED_MAX};
use selvedge_core::{ExecutionId, Needs, Rows};
use std::collections::{BTreeSet, HashSet};

pub(crate) const KIND: Kind = Kind { load, ..Kind::EMPTY };

/// Loads candidates. Those of several claims are distinct, so no claim stays empty because another was offered the
/// same rows.
fn load(tables: &Tables, needs: &Needs, rows: &mut Rows) {
    let mut skipped: HashSet<ExecutionId> = needs.queries.except.iter().copied().collect();
    for asked in &needs.queries.candidates {
        for id in first(tables, asked, &skipped) {
            skipped.insert(id);
            rows.found.candidates.push(id);
        }
    }
    for asked in &needs.queries.candidates {
        for id in passing(tables, asked, &needs.queries.refusing, &skipped) {
            skipped.insert(id);
            rows.found.candidates.push(id);
        }
    }
}

/// Returns the first waiting executions of the requested classes, in claim order.
fn first(tables: &Tables, asked: &Candidates, skipped: &HashSet<ExecutionId>) -> Vec<ExecutionId> {
    let limit = asked.limit as usize;
    let classes: BTreeSet<_> = asked.classes.iter().collect();
    let of_class = classes.into_iter().filter_map(|class| tables.claimable.get(class));
    let mut first: Vec<_> = of_class
        .flat_map(|claimable| claimable.iter().filter(|(_, id)| !skipped.contains(id)).take(limit))
        .collect();
    first.sort_unstable();
    first.into_iter().take(limit).map(|(_, id)| *id).collect()
}

/// Returns the first waiting executions of the requested classes that name none of these gates; none without gates.
fn passing(
    tables: &Tables,
    asked: &Candidates,
    refusing: &[GateName],
    skipped: &HashSet<ExecutionId>,
) -> Vec<ExecutionId> {
    if refusing.is_empty() {
        return Vec::new();
    }
    let names = |id: &ExecutionId| {
        let row = tables.executions.get(id).map(|record| &record.execution);
        row.is_some_and(|row| refusing.iter().any(|gate| row.spec.required_gates.names(&gate.name)))
    };
    let of_class = asked.classes.iter().filter_map(|class| tables.claimable.get(class));
    let first = of_class.flat_map(|claimable| claimable.iter().take(PASSED_MAX as usize));
    let mut passing: Vec<_> = first.filter(|(_, id)| !skipped.contains(id) && !names(id)).copied().collect();
    passing.sort_unstable();
    passing.into_iter().take(asked.limit as usize).map(|(_, id)| id).collect()
}
