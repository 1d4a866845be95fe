//! Executions, with their tags and the pages of their history: their columns, how a transaction saves them, and how it loads
//! them: by id, as candidates of claims, their inputs, and what a claim carries of others.

mod list;
mod reads;

pub use list::below;

use super::records::Unreadable;
use crate::bounds::{self, Bounds};
use crate::connection::Parameters;
use crate::kinds::{Asking, Loading, Saving, ignore, only_locks};
use crate::sql::{Micros, array, column, columns, sized_payload, some_payload, statements};
use selvedge_core::execution::AGEING_MS;
use selvedge_core::filter::ListPosition;
use selvedge_core::gate::GateName;
use selvedge_core::rows::{
    Candidates, Changes, PASSED_MAX, Queries, ResultChange, StoredRelative, TagEntry, mention,
};
use selvedge_core::table::Access;
use selvedge_core::{ClassId, Execution, ExecutionId, Needs, Rows};
use selvedge_store::columns::{self as stored, Fixed, Moving, RelativeColumns};
use selvedge_store::{COUNT_SCAN_MAX, Error};
use std::collections::{HashMap, HashSet};
use tokio_postgres::Row;
use uuid::Uuid;

statements! {
    with {
        bound: bounds::start_of_search(),
        ageing: format!("interval '{AGEING_MS} milliseconds'"),
        columns: columns(),
        count_scan: COUNT_SCAN_MAX,
        fixed: fixed::list(),
        fixed_types: fixed::types(1),
        listed: listed::list_of("executions"),
        moving: moving::list(),
        moving_types_from_3: moving::types(3),
        moving_types_from_10: moving::types(10),
        passed_max: PASSED_MAX,
    }
    COUNT_ACTIVE = "executions/count_active";
    COUNT_AHEAD = "executions/count_ahead";
    COUNT_BY_LANE = "executions/count_by_lane";
    COUNT_BY_STATE = "executions/count_by_state";
    COUNT_WAITING = "executions/count_waiting";
    DELETE = "executions/delete";
    FETCH = "executions/fetch";
    HISTORY_PAGES_DELETE = "history_pages/delete";
    HISTORY_PAGES_INSERT = "history_pages/insert";
    HISTORY_PAGES_LIST = "history_pages/list";
    INSERT = "executions/insert";
    LEASES_LIST_EXPIRED = "leases/list_expired";
    LIST = "executions/list";
    LIST_ACTIVE = "executions/list_active";
    LIST_BY_FLOW = "executions/list_by_flow";
    LIST_BY_STATE = "executions/list_by_state";
    LIST_BY_TAG = "executions/list_by_tag";
    LIST_DUE = "executions/list_due";
    LIST_LONE = "executions/list_lone";
    LIST_NEWEST = "executions/list_newest";
    LIST_WAITING = "executions/list_waiting";
    LOCK = "executions/lock";
    LOCK_AVAILABLE = "executions/lock_available";
    LOCK_CACHED = "executions/lock_cached";
    LOCK_CANDIDATES = "executions/lock_candidates";
    LOCK_PASSING = "executions/lock_passing";
    MEASURE_LIVE = "executions/measure_live";
    MEASURE_WAITING = "executions/measure_waiting";
    READ = "executions/read";
    READ_HEAD = "executions/read_head";
    READ_INPUTS = "executions/read_inputs";
    READ_RELATIVES = "executions/read_relatives";
    READ_SIZES = "executions/read_sizes";
    REWIRE = "executions/rewire";
    TAGS_DELETE = "tags/delete";
    TAGS_INSERT = "tags/insert";
    UPDATE = "executions/update";
    UPDATE_INPUT = "executions/update_input";
}

columns! {
    fixed<'a> of row: Fixed as Fixed {
        id: Uuid = row.id,
        submitted_at: Micros = Micros(row.submitted_at),
        namespace: i32 = row.namespace,
        class: i32 = row.class,
        partition: i16 = row.partition,
        flow: Option<Uuid> = row.flow,
        spec: Option<String> = row.spec,
        wiring: Option<Vec<u8>> = row.wiring,
    }
}

// The columns that a transition may change. The gate and the rank at it are only written, behind the others: a row names its
// gate in `held_by` and in `suspension`.
columns! {
    moving<'a> of row: Moving as Moving {
        version: i32 = row.version,
        epoch: i32 = row.epoch,
        state: i16 = row.state,
        claim_priority: i16 = row.claim_priority,
        due_kind: Option<i16> = row.due_kind,
        ready_order: Micros = Micros(row.ready_order),
        due_at: Option<Micros> = row.due_at.map(Micros),
        session: Option<i64> = row.session,
        until_at: Option<Micros> = row.until_at.map(Micros),
        started_at: Option<Micros> = row.started_at.map(Micros),
        ended_at: Option<Micros> = row.ended_at.map(Micros),
        lease_id: Option<Uuid> = row.lease_id,
        tags: Option<String> = row.tags,
        detail: Option<String> = row.detail,
        history: Vec<u8> = row.history,
        joined: Option<Vec<u8>> = row.joined,
        suspension: Option<Vec<u8>> = row.suspension,
        held_by: Option<Vec<u8>> = row.held_by,
    }
}

// The columns that the scan of a list returns.
columns! {
    listed {
        id,
        submitted_at,
        class,
        state,
        ended_at,
    }
}

/// Returns the list of the columns of an execution.
pub fn columns() -> String {
    format!("{}, {}", fixed::list(), moving::list())
}

/// The number of columns of an execution: the index of the first column behind them.
pub const COLUMN_COUNT: usize = fixed::COUNT + moving::COUNT;

/// Reads the execution in a row that begins with its columns.
fn decode_or_name(row: &Row) -> Result<Execution, Unreadable> {
    let id: Uuid = row.get(fixed::AT.id);
    fixed::read(row, 0)
        // The gate is known from its name.
        .and_then(|fixed| Ok((fixed, moving::read(row, fixed::COUNT)?)))
        .and_then(|(fixed, moving)| stored::execution(fixed, moving))
        .map_err(|detail| (ExecutionId(id), detail))
}

/// Reads the execution in a row that begins with its columns. The error names it.
pub fn decode(row: &Row) -> Result<Execution, Error> {
    decode_or_name(row)
        .map_err(|(id, detail)| Error::Failed(format!("execution {id} cannot be read: {detail}")))
}

/// Deletes executions with the pages of their history.
pub fn delete(saving: &mut Saving<'_>) {
    let deleted = &saving.changes.executions.deleted;
    saving.rows(deleted, &DELETE, |rows| {
        vec![array(rows, |(id, _)| id.0), array(rows, |(_, version)| *version as i32)]
    });
    saving.rows(deleted, &HISTORY_PAGES_DELETE, |rows| vec![array(rows, |(id, _)| id.0)]);
}

/// Saves new and changed executions with new pages of their history.
pub fn save(saving: &mut Saving<'_>) {
    let (changes, lineage) = (saving.changes, saving.lineage);
    saving.rows(&changes.executions.inserted, &INSERT, |rows| {
        let mut parameters = fixed::arrays(rows.iter().map(|row| Fixed::of(&row.execution)));
        parameters.push(column(rows, |row| row.input.as_ref()));
        parameters.extend(moving_columns(rows.iter().map(|row| &row.execution)));
        parameters.push(column(rows, |row| row.result.as_deref()));
        parameters.push(array(rows, |row| lineage.pool_of(row.execution.class).map(|pool| pool.0)));
        parameters
    });
    saving.rows(&changes.executions.updated, &UPDATE, |rows| {
        let mut parameters: Parameters<'_> =
            vec![array(rows, |row| row.execution.id.0), array(rows, |row| row.expected_version as i32)];
        parameters.extend(moving_columns(rows.iter().map(|row| &row.execution)));
        parameters.push(column(rows, |row| match &row.result {
            ResultChange::Set(result) => Some(result.as_ref()),
            ResultChange::Keep | ResultChange::Clear => None,
        }));
        parameters.push(array(rows, |row| row.result == ResultChange::Keep));
        parameters
    });
    save_rewired(changes, saving);
    saving.rows(&changes.history_pages, &HISTORY_PAGES_INSERT, |pages| {
        vec![
            array(pages, |page| page.execution.0),
            array(pages, |page| page.page as i32),
            column(pages, |page| page.lines.as_slice()),
        ]
    });
}

/// Returns the columns that a transition may change, with the gate and the rank at it.
fn moving_columns<'a>(rows: impl Iterator<Item = &'a Execution>) -> Parameters<'a> {
    let rows: Vec<Moving> = rows.map(Moving::of).collect();
    let gates = array(&rows, |row| row.gate);
    let ranks = array(&rows, Moving::gate_rank);
    let mut parameters = moving::arrays(rows);
    parameters.extend([gates, ranks]);
    parameters
}

/// Saves the flow and the wiring of executions whose flow grew, and replaced inputs.
fn save_rewired<'a>(changes: &'a Changes, saving: &mut Saving<'a>) {
    let rewired = changes.executions.updated.iter().filter(|row| row.rewired);
    let rewired: Vec<Fixed> = rewired.map(|row| Fixed::of(&row.execution)).collect();
    if !rewired.is_empty() {
        let parameters = vec![
            array(&rewired, |row| row.id),
            array(&rewired, |row| row.flow),
            array(&rewired, |row| row.wiring.clone()),
        ];
        saving.add(&REWIRE, parameters, ignore);
    }
    let replaced = changes.executions.updated.iter();
    let replaced = replaced.filter_map(|row| Some((row.execution.id.0, row.input.as_deref()?)));
    let (ids, inputs): (Vec<Uuid>, Vec<&[u8]>) = replaced.unzip();
    if !ids.is_empty() {
        saving.add(&UPDATE_INPUT, vec![Box::new(ids), Box::new(inputs)], ignore);
    }
}

/// Saves the index of executions by tag.
pub fn save_tags(saving: &mut Saving<'_>) {
    let tags = &saving.changes.tags;
    saving.rows(&tags.removed, &TAGS_DELETE, tag_columns);
    saving.rows(&tags.written, &TAGS_INSERT, tag_columns);
}

fn tag_columns(entries: &[TagEntry]) -> Parameters<'_> {
    vec![
        column(entries, |entry| entry.namespace.0),
        column(entries, |entry| entry.tag.as_str()),
        column(entries, |entry| Micros::from(entry.submitted_at)),
        column(entries, |entry| entry.execution.0),
    ]
}

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
