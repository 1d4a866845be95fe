//! Executions, with their payloads, their pages of history and their tags.
//!
//! - `reads`: reads outside of transactions; `list`: lists and counts;
//! - `candidates`: the waiting executions that a claim can take.

mod candidates;
pub mod list;
mod reads;

use crate::kinds::{Kind, Saving};
use crate::row;
use crate::sql::{self, columns, statements};
use rusqlite::{Connection, OptionalExtension, Row, Statement, ToSql, params};
use selvedge_core::rows::{Inserted, ResultChange, TagEntry, Updated};
use selvedge_core::{Changes, Execution, ExecutionId, Needs, Rows};
use selvedge_store::columns as stored;
use selvedge_store::columns::{Fixed, Moving, RelativeColumns};
use uuid::Uuid;

pub(crate) const KIND: Kind = Kind {
    columns: &[("fixed", fixed::LIST), ("moving", moving::LIST), ("input_bytes", INPUT_BYTES)],
    statements: STATEMENTS,
    load,
    save,
    ..Kind::EMPTY
};

statements! {
    EXECUTIONS_COUNT_ACTIVE = "executions/count_active";
    EXECUTIONS_COUNT_AHEAD = "executions/count_ahead";
    EXECUTIONS_COUNT_POOLED = "executions/count_pooled";
    EXECUTIONS_COUNT_WAITING = "executions/count_waiting";
    EXECUTIONS_DELETE = "executions/delete";
    EXECUTIONS_FETCH = "executions/fetch";
    EXECUTIONS_FIND_CANDIDATES = "executions/find_candidates";
    EXECUTIONS_FIND_NEXT_DUE = "executions/find_next_due";
    EXECUTIONS_FIND_PASSING = "executions/find_passing";
    EXECUTIONS_FIND_POOLED = "executions/find_pooled";
    EXECUTIONS_INSERT = "executions/insert";
    EXECUTIONS_LIST = "executions/list";
    EXECUTIONS_LIST_BY_FLOW = "executions/list_by_flow";
    EXECUTIONS_LIST_BY_STATE = "executions/list_by_state";
    EXECUTIONS_LIST_BY_TAG = "executions/list_by_tag";
    EXECUTIONS_LIST_DUE = "executions/list_due";
    EXECUTIONS_LIST_LONE = "executions/list_lone";
    EXECUTIONS_LIST_NEWEST = "executions/list_newest";
    EXECUTIONS_MEASURE_LIVE = "executions/measure_live";
    EXECUTIONS_MEASURE_POOLED = "executions/measure_pooled";
    EXECUTIONS_MEASURE_WAITING = "executions/measure_waiting";
    EXECUTIONS_READ = "executions/read";
    EXECUTIONS_READ_CANDIDATE = "executions/read_candidate";
    EXECUTIONS_READ_HEAD = "executions/read_head";
    EXECUTIONS_READ_INPUTS = "executions/read_inputs";
    EXECUTIONS_READ_RELATIVES = "executions/read_relatives";
    EXECUTIONS_READ_SIZES = "executions/read_sizes";
    EXECUTIONS_REWIRE = "executions/rewire";
    EXECUTIONS_UPDATE = "executions/update";
    EXECUTIONS_UPDATE_INPUT = "executions/update_input";
    HISTORY_PAGES_DELETE = "history_pages/delete";
    HISTORY_PAGES_INSERT = "history_pages/insert";
    HISTORY_PAGES_LIST = "history_pages/list";
    INPUTS_DELETE = "inputs/delete";
    INPUTS_INSERT = "inputs/insert";
    LEASES_LIST_EXPIRED = "leases/list_expired";
    TAGS_DELETE = "tags/delete";
    TAGS_INSERT = "tags/insert";
}

// An execution is stored as these columns, the moving ones, and the wiring.
columns! {
    fixed of columns: &Fixed as Fixed {
        id = columns.id.as_bytes(),
        partition = columns.partition,
        namespace = columns.namespace,
        class = columns.class,
        flow = columns.flow.as_ref().map(Uuid::as_bytes),
        submitted_at = columns.submitted_at,
        spec = columns.spec,
    }
}

columns! {
    moving of columns: &Moving as Moving {
        version = columns.version,
        state = columns.state,
        claim_priority = columns.claim_priority,
        ready_order = columns.ready_order,
        epoch = columns.epoch,
        due_kind = columns.due_kind,
        due_at = columns.due_at,
        session = columns.session,
        lease_id = columns.lease_id.as_ref().map(Uuid::as_bytes),
        until_at = columns.until_at,
        started_at = columns.started_at,
        ended_at = columns.ended_at,
        tags = columns.tags,
        detail = columns.detail,
        history = columns.history,
        joined = columns.joined,
        suspension = columns.suspension,
        held_by = columns.held_by,
        gate = columns.gate,
    }
}

/// The place of the wiring.
const WIRING: usize = fixed::COUNT + moving::COUNT;
/// The number of columns of an execution: the place of the first one behind them.
const COUNT: usize = WIRING + 1;

/// The size of the input of an execution, in bytes. Does not read the input.
const INPUT_BYTES: &str =
    "ifnull(length(input), (select length(body) from inputs where inputs.execution = executions.id))";

/// The longest input that is stored in its execution's row, in bytes. Longer ones are stored separately, so that changes
/// of the row do not rewrite them.
const INPUT_IN_ROW: usize = 512;

/// A size that no payload reaches: it is read whole.
const WHOLE: usize = i64::MAX as usize;

/// Reads an execution. The inner error is the id of an unreadable one and the reason.
pub fn decode(found: &Row<'_>) -> rusqlite::Result<Result<Execution, (ExecutionId, String)>> {
    let id = row::uuid(found, fixed::AT.id)?;
    let columns = || {
        let wiring = |fixed| Ok(Fixed { wiring: found.get(WIRING)?, ..fixed });
        let fixed = fixed::read(found, 0).and_then(wiring)?;
        Ok((fixed, moving::read(found, fixed::COUNT)?))
    };
    let read = columns()
        .map_err(|error: rusqlite::Error| error.to_string())
        .and_then(|(fixed, moving)| stored::execution(fixed, moving));
    Ok(read.map_err(|why| (ExecutionId(id), why)))
}

fn load(connection: &Connection, needs: &Needs, rows: &mut Rows) -> rusqlite::Result<()> {
    load_each(connection, needs.executions.returned(), rows)?;
    candidates::load(connection, needs, rows)?;
    load_inputs(connection, needs.inputs.keys(), needs.inline_inputs(), rows)?;
    load_inputs(connection, needs.whole_inputs.keys(), WHOLE, rows)?;
    load_relatives(connection, needs.relatives.keys(), needs.inline_relatives(), rows)?;
    load_relatives(connection, needs.whole_relatives.keys(), WHOLE, rows)
}

pub fn load_each<'a>(
    connection: &Connection,
    ids: impl Iterator<Item = &'a ExecutionId>,
    rows: &mut Rows,
) -> rusqlite::Result<()> {
    let mut ids = ids.peekable();
    if ids.peek().is_some() {
        let mut read = connection.prepare_cached(&EXECUTIONS_READ)?;
        ids.try_for_each(|id| load_one(&mut read, *id, rows).map(drop))?;
    }
    Ok(())
}

/// Loads an execution with [`EXECUTIONS_READ`]. Returns whether there is a readable one.
pub fn load_one(read: &mut Statement<'_>, id: ExecutionId, rows: &mut Rows) -> rusqlite::Result<bool> {
    match read.query_row([id.0.as_bytes()], decode).optional()? {
        Some(Ok(execution)) => {
            rows.executions.push(execution);
            return Ok(true);
        }
        Some(Err(unreadable)) => rows.unreadable.push(unreadable),
        None => {}
    }
    Ok(false)
}

fn load_inputs<'a>(
    connection: &Connection,
    ids: impl Iterator<Item = &'a ExecutionId>,
    limit: usize,
    rows: &mut Rows,
) -> rusqlite::Result<()> {
    for id in ids {
        let parameters = params![id.0.as_bytes(), limit as i64];
        let read = |found: &Row<'_>| Ok(row::sized_payload(found, 0, limit));
        match sql::row(connection, &EXECUTIONS_READ_INPUTS, parameters, read)? {
            Some(Ok(input)) => rows.inputs.push((*id, input)),
            Some(Err(error)) => rows.unreadable.push((*id, format!("column input: {error}"))),
            None => {}
        }
    }
    Ok(())
}

fn load_relatives<'a>(
    connection: &Connection,
    ids: impl Iterator<Item = &'a ExecutionId>,
    limit: usize,
    rows: &mut Rows,
) -> rusqlite::Result<()> {
    for id in ids {
        let read = |found: &Row<'_>| {
            let (spec, detail): (Option<String>, Option<String>) = (found.get(0)?, found.get(3)?);
            let columns = RelativeColumns {
                id: id.0,
                spec: spec.as_deref(),
                state: found.get(1)?,
                bytes: found.get::<_, i64>(2)? as usize,
                detail: detail.as_deref(),
                result: row::optional_bytes(found, 4)?,
            };
            Ok(stored::relative(columns, limit))
        };
        let parameters = params![id.0.as_bytes(), limit as i64];
        match sql::row(connection, &EXECUTIONS_READ_RELATIVES, parameters, read)? {
            Some(Ok(relative)) => rows.relatives.push(relative),
            Some(Err(error)) => rows.unreadable.push((*id, error)),
            None => {}
        }
    }
    Ok(())
}

fn save(connection: &Connection, changes: &Changes, _: &mut Saving) -> rusqlite::Result<Option<String>> {
    if let Some(id) = update(connection, &changes.executions.updated)? {
        return Ok(Some(format!("execution {id} has moved")));
    }
    for (id, version) in &changes.executions.deleted {
        if sql::execute(connection, &EXECUTIONS_DELETE, params![id.0.as_bytes(), version])? == 0 {
            return Ok(Some(format!("execution {id} has moved")));
        }
        sql::execute(connection, &INPUTS_DELETE, [id.0.as_bytes()])?;
        sql::execute(connection, &HISTORY_PAGES_DELETE, [id.0.as_bytes()])?;
    }
    if let Some(id) = insert(connection, &changes.executions.inserted)? {
        return Ok(Some(format!("execution {id} exists")));
    }
    for page in &changes.history_pages {
        let parameters = params![page.execution.0.as_bytes(), page.page, page.lines];
        sql::execute(connection, &HISTORY_PAGES_INSERT, parameters)?;
    }
    index(connection, &TAGS_DELETE, &changes.tags.removed)?;
    index(connection, &TAGS_INSERT, &changes.tags.written)?;
    Ok(None)
}

/// Inserts executions. Returns the id of one that exists already.
fn insert(connection: &Connection, inserted: &[Inserted]) -> rusqlite::Result<Option<ExecutionId>> {
    if inserted.is_empty() {
        return Ok(None);
    }
    let mut statement = connection.prepare_cached(&EXECUTIONS_INSERT)?;
    for Inserted { execution, input, result, .. } in inserted {
        let (fixed, moving) = (Fixed::of(execution), Moving::of(execution));
        let apart = input.len() > INPUT_IN_ROW;
        let in_row = (!apart).then_some(&input[..]);
        let added = fixed::with(&fixed, |first| {
            moving::with(&moving, |second| {
                let rest: &[&dyn ToSql] = &[&fixed.wiring, &in_row, &result.as_deref()];
                statement.execute(sql::joined(&[first, second, rest]))
            })
        })?;
        if added == 0 {
            return Ok(Some(execution.id));
        }
        if apart {
            sql::execute(connection, &INPUTS_INSERT, params![fixed.id.as_bytes(), &input[..]])?;
        }
    }
    Ok(None)
}

/// Updates executions. Returns the id of one that does not have its expected version.
fn update(connection: &Connection, updated: &[Updated]) -> rusqlite::Result<Option<ExecutionId>> {
    if updated.is_empty() {
        return Ok(None);
    }
    let mut statement = connection.prepare_cached(&EXECUTIONS_UPDATE)?;
    for updated in updated {
        let id = updated.execution.id.0.as_bytes();
        let (result_changes, result) = match &updated.result {
            ResultChange::Keep => (false, None),
            ResultChange::Set(result) => (true, Some(&result[..])),
            ResultChange::Clear => (true, None),
        };
        let changed = moving::with(&Moving::of(&updated.execution), |values| {
            let guard: &[&dyn ToSql] = &[id, &updated.expected_version];
            statement.execute(sql::joined(&[guard, values, &[&result_changes, &result]]))
        })?;
        if changed == 0 {
            return Ok(Some(updated.execution.id));
        }
        if updated.rewired {
            let Fixed { partition, flow, wiring, .. } = Fixed::of(&updated.execution);
            let flow = flow.as_ref().map(Uuid::as_bytes);
            sql::execute(connection, &EXECUTIONS_REWIRE, params![id, partition, flow, wiring])?;
        }
        if let Some(input) = &updated.input {
            replace_input(connection, updated.execution.id, input)?;
        }
    }
    Ok(None)
}

fn replace_input(connection: &Connection, id: ExecutionId, input: &[u8]) -> rusqlite::Result<()> {
    let apart = input.len() > INPUT_IN_ROW;
    let in_row = (!apart).then_some(input);
    sql::execute(connection, &EXECUTIONS_UPDATE_INPUT, params![id.0.as_bytes(), in_row])?;
    sql::execute(connection, &INPUTS_DELETE, [id.0.as_bytes()])?;
    if apart {
        sql::execute(connection, &INPUTS_INSERT, params![id.0.as_bytes(), input])?;
    }
    Ok(())
}

/// Runs a statement for entries of the tag index.
fn index(connection: &Connection, statement: &str, entries: &[TagEntry]) -> rusqlite::Result<()> {
    if entries.is_empty() {
        return Ok(());
    }
    let mut statement = connection.prepare_cached(statement)?;
    for TagEntry { namespace, tag, submitted_at, execution } in entries {
        statement.execute(params![namespace.0, tag, submitted_at.micros(), execution.0.as_bytes()])?;
    }
    Ok(())
}
