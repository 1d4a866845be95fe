//! Executions as a transaction loads them: by id, as candidates of claims, their inputs, and what a claim carries of others.

use super::{
    COLUMN_COUNT, LOCK, LOCK_AVAILABLE, LOCK_CACHED, LOCK_CANDIDATES, LOCK_PASSING, READ, READ_INPUTS,
    READ_RELATIVES, decode_or_name, fixed,
};
use crate::bounds::Bounds;
use crate::connection::Parameters;
use crate::kinds::{Asking, Loading, only_locks};
use crate::sql::{Micros, array, sized_payload, some_payload};
use selvedge_core::filter::ListPosition;
use selvedge_core::gate::GateName;
use selvedge_core::rows::{Candidates, Queries, StoredRelative, mention};
use selvedge_core::table::Access;
use selvedge_core::{ClassId, ExecutionId, Needs, Rows};
use selvedge_store::Error;
use selvedge_store::columns::{self as stored, RelativeColumns};
use std::collections::{HashMap, HashSet};
use tokio_postgres::Row;

/// A size that no payload reaches: it is read whole.
const WHOLE: usize = usize::MAX;

fn ids(ids: &[ExecutionId]) -> Parameters<'static> {
    vec![array(ids, |id| id.0)]
}

/// Returns ids, and a size up to which payloads are read.
fn ids_within(some: &[ExecutionId], limit: usize) -> Parameters<'static> {
    let mut parameters = ids(some);
    parameters.push(Box::new(i32::try_from(limit).unwrap_or(i32::MAX)));
    parameters
}

pub fn lock(asking: &mut Asking<'_>) {
    let executions = &asking.needs.executions;
    let (mut locked, cached) = (executions.with(Access::Lock), executions.with(Access::Cached));
    if locked.is_empty() {
        asking.about(&cached, &LOCK_CACHED, ids, only_locks);
    } else {
        // All by one statement, which locks in id order.
        locked.extend(cached);
        asking.about(&locked, &LOCK, ids, gather);
    }
    let free = executions.with(Access::LockIfFree);
    asking.about(&free, &LOCK_AVAILABLE, ids, move |answer, loading| {
        let locked: HashSet<ExecutionId> = answer.iter().map(|row| place(row).id).collect();
        let asked = executions.iter(Access::LockIfFree);
        loading.rows.skipped.extend(asked.filter(|id| !locked.contains(id)));
        gather(answer, loading)
    });
}

pub fn lock_candidates(asking: &mut Asking<'_>) {
    let (queries, bounds, inline) = (&asking.needs.queries, asking.bounds, asking.needs.inline_inputs());
    asking.about(
        &queries.candidates,
        &LOCK_CANDIDATES,
        |wanted| candidates(wanted, &queries.except, bounds, inline),
        gather_candidates,
    );
    if !queries.refusing.is_empty() {
        asking.about(
            &queries.candidates,
            &LOCK_PASSING,
            |wanted| passing(wanted, queries, bounds, inline),
            gather_candidates,
        );
    }
}

/// Reads executions without locks, and inputs and relatives.
pub fn read(asking: &mut Asking<'_>) {
    let needs = asking.needs;
    asking.read(&needs.executions, &READ, ids, gather);
    for (inputs, limit) in [(&needs.inputs, needs.inline_inputs()), (&needs.whole_inputs, WHOLE)] {
        asking.read(
            inputs,
            &READ_INPUTS,
            |some| ids_within(some, limit),
            |answer, loading| {
                let input = |row: &Row| (ExecutionId(row.get(0)), sized_payload(row, 1));
                loading.rows.inputs.extend(answer.iter().map(input));
                Ok(())
            },
        );
    }
    for (relatives, limit) in [(&needs.relatives, needs.inline_relatives()), (&needs.whole_relatives, WHOLE)]
    {
        let parameters = |some: &[ExecutionId]| ids_within(some, limit);
        asking.read(relatives, &READ_RELATIVES, parameters, move |answer, loading| {
            for row in answer {
                match relative(row, limit) {
                    Ok(relative) => loading.rows.relatives.push(relative),
                    Err(unreadable) => loading.rows.unreadable.push(unreadable),
                }
            }
            Ok(())
        });
    }
}

/// Reads the position in a list of the execution in a row that begins with its columns.
pub fn place(row: &Row) -> ListPosition {
    let submitted_at: Micros = row.get(fixed::AT.submitted_at);
    ListPosition { submitted_at: submitted_at.time(), id: ExecutionId(row.get(fixed::AT.id)) }
}

/// Reads the relative in a row of `executions/read_relatives`. The error names an unreadable execution and the reason.
/// `limit` is the size up to which it was read.
fn relative(row: &Row, limit: usize) -> Result<StoredRelative, (ExecutionId, String)> {
    let columns = RelativeColumns {
        id: row.get(0),
        spec: row.get(1),
        state: row.get(2),
        bytes: row.get::<_, i32>(3) as usize,
        detail: row.get(4),
        result: some_payload(row, 5),
    };
    let id = ExecutionId(columns.id);
    stored::relative(columns, limit).map_err(|error| (id, error))
}

fn gather(answer: &[Row], loading: &mut Loading) -> Result<(), Error> {
    for row in answer {
        gather_execution(row, &mut loading.rows);
    }
    Ok(())
}

/// Adds an execution to the rows. Returns its id, or none if it is unreadable.
pub fn gather_execution(answer: &Row, rows: &mut Rows) -> Option<ExecutionId> {
    match decode_or_name(answer) {
        Ok(execution) => {
            let id = execution.id;
            rows.executions.push(execution);
            Some(id)
        }
        Err(unreadable) => {
            rows.unreadable.push(unreadable);
            None
        }
    }
}

fn gather_candidates(answer: &[Row], loading: &mut Loading) -> Result<(), Error> {
    let rows = &mut loading.rows;
    for row in answer {
        if let Some(id) = gather_execution(row, rows) {
            rows.found.candidates.push(id);
            rows.inputs.push((id, sized_payload(row, COLUMN_COUNT)));
        }
    }
    Ok(())
}

/// Orders the candidates of several statements as claims do, and notes the executions whose records are complete.
pub fn finish(needs: &Needs, rows: &mut Rows) {
    let candidates = &mut rows.found.candidates;
    if candidates.len() > 1 {
        let place: HashMap<_, _> = rows.executions.iter().map(|row| (row.id, row.claim_order())).collect();
        candidates.sort_by_key(|id| place.get(id).copied());
        candidates.dedup();
    }
    let damaged: HashSet<ExecutionId> = rows.unreadable.iter().map(|(id, _)| *id).collect();
    rows.found.records.extend(needs.queries.records.iter().filter(|id| !damaged.contains(id)));
}

/// Returns the parameters of the search for candidates of all claims, each class from its bound on, with inputs up to this
/// size.
fn candidates(
    wanted: &[Candidates],
    except: &[ExecutionId],
    bounds: &Bounds,
    inline_inputs: usize,
) -> Parameters<'static> {
    let all: Vec<ClassId> = wanted.iter().flat_map(|one| one.classes.iter().copied()).collect();
    let passed = bounds.of(&all);
    let each = wanted.iter().zip(1_i32..);
    let each = each.flat_map(|(one, ask)| one.classes.iter().map(move |class| (class.0, ask, one.limit)));
    let (mut classes, mut asks, mut limits) = (Vec::new(), Vec::new(), Vec::new());
    for (class, ask, limit) in each {
        classes.push(class);
        asks.push(ask);
        limits.push(i64::from(limit));
    }
    let mut parameters: Parameters<'static> = vec![
        Box::new(classes),
        Box::new(passed.keys),
        Box::new(passed.revisions),
        Box::new(passed.bounds),
        Box::new(asks),
        Box::new(limits),
    ];
    parameters.extend(ids_within(except, inline_inputs));
    parameters
}

/// Returns the parameters of the search for executions that name no refusing gate.
fn passing(
    wanted: &[Candidates],
    queries: &Queries,
    bounds: &Bounds,
    inline_inputs: usize,
) -> Parameters<'static> {
    let mut parameters = candidates(wanted, &queries.except, bounds, inline_inputs);
    let pattern = |gate: &GateName| {
        let escaped = mention(gate).replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
        format!("%{escaped}%")
    };
    parameters.push(Box::new(queries.refusing.iter().map(pattern).collect::<Vec<String>>()));
    parameters
}
