//! Saves the changes of a decision: prepared statements, row by row, in the writer's transaction.

use crate::row::to_json;
use crate::save_flow::save_flows;
use crate::{api_keys, bulk_jobs, gates, record, schedules, sql, streams, webhooks};
use rusqlite::{Connection, params};
use selvedge_core::rows::{
    Changes, HistoryPage, Inserted, KeyName, KeyRow, KeySubject, ResultChange, TagEntry, Updated,
};
use selvedge_core::{ExecutionId, FlowId, Session, SessionId, Timestamp, log};
use selvedge_store::columns::{self, Fixed, Moving};

/// The longest input that is stored in its execution's row, in bytes. Longer ones are stored separately, so that changes
/// of the row do not rewrite them.
pub const INPUT_IN_ROW: usize = 512;

/// The outcome of a save.
#[derive(Debug, PartialEq)]
pub enum Saved {
    /// All changes are saved.
    All {
        /// The number of the log entry, if there were events.
        entry: Option<i64>,
        /// Flows that are running without a live member now.
        emptied: Vec<FlowId>,
    },
    /// A guard failed, which this text names. Some changes are made and must be rolled back.
    Refused(String),
}

/// Saves all changes, or stops at the first guard that fails.
pub fn save(connection: &Connection, changes: &Changes, now: Timestamp) -> rusqlite::Result<Saved> {
    if let Some(id) = update(connection, &changes.executions.updated)? {
        return Ok(Saved::Refused(format!("execution {id} has moved")));
    }
    if let Some(id) = delete(connection, &changes.executions.deleted)? {
        return Ok(Saved::Refused(format!("execution {id} has moved")));
    }
    if let Some(id) = insert(connection, &changes.executions.inserted)? {
        return Ok(Saved::Refused(format!("execution {id} exists")));
    }
    remove_keys(connection, &changes.keys.removed)?;
    if let Some(name) = add_keys(connection, &changes.keys.written)? {
        return Ok(Saved::Refused(format!("key {:?} is taken", name.key.as_str())));
    }
    add_pages(connection, &changes.history_pages)?;
    streams::save(connection, changes)?;
    record::save(connection, changes)?;
    api_keys::save(connection, changes)?;
    bulk_jobs::save(connection, changes)?;
    if let Some(guard) = webhooks::save(connection, changes)? {
        return Ok(Saved::Refused(guard));
    }
    index_tags(connection, &sql::TAGS_DELETE, &changes.tags.removed)?;
    index_tags(connection, &sql::TAGS_INSERT, &changes.tags.written)?;
    remove_sessions(connection, &changes.sessions.removed)?;
    write_sessions(connection, &changes.sessions.written)?;
    let emptied = match save_flows(connection, changes, now)? {
        Ok(emptied) => emptied,
        Err(guard) => return Ok(Saved::Refused(guard)),
    };
    if let Some(guard) = schedules::save(connection, changes)? {
        return Ok(Saved::Refused(guard));
    }
    if let Some(guard) = gates::save(connection, changes, now)? {
        return Ok(Saved::Refused(guard));
    }
    let entry = append(connection, changes, now)?;
    Ok(Saved::All { entry, emptied })
}

/// Inserts executions. Returns the id of one that exists already.
fn insert(connection: &Connection, inserted: &[Inserted]) -> rusqlite::Result<Option<ExecutionId>> {
    if inserted.is_empty() {
        return Ok(None);
    }
    let mut row = connection.prepare_cached(&sql::EXECUTIONS_INSERT)?;
    for one in inserted {
        let (fixed, moving) = (Fixed::of(&one.execution), Moving::of(&one.execution));
        let apart = one.input.len() > INPUT_IN_ROW;
        let added = row.execute(params![
            fixed.id.as_bytes(),
            fixed.partition,
            fixed.namespace,
            fixed.class,
            fixed.flow.as_ref().map(|flow| flow.as_bytes()),
            fixed.submitted_at,
            fixed.spec,
            moving.version,
            moving.state,
            moving.claim_priority,
            moving.ready_order,
            moving.epoch,
            moving.due_kind,
            moving.due_at,
            moving.session,
            moving.lease_id.as_ref().map(|lease| lease.as_bytes()),
            moving.until_at,
            moving.started_at,
            moving.ended_at,
            moving.tags,
            moving.detail,
            moving.history,
            moving.joined,
            moving.suspension,
            moving.held_by,
            moving.gate,
            fixed.wiring,
            (!apart).then_some(&one.input[..]),
            one.result.as_deref(),
        ])?;
        if added == 0 {
            return Ok(Some(one.execution.id));
        }
        if apart {
            connection
                .prepare_cached(&sql::INPUTS_INSERT)?
                .execute(params![fixed.id.as_bytes(), &one.input[..]])?;
        }
    }
    Ok(None)
}

/// Updates executions. Returns the id of one that does not have its expected version.
fn update(connection: &Connection, updated: &[Updated]) -> rusqlite::Result<Option<ExecutionId>> {
    if updated.is_empty() {
        return Ok(None);
    }
    let mut row = connection.prepare_cached(&sql::EXECUTIONS_UPDATE)?;
    for one in updated {
        let moving = Moving::of(&one.execution);
        let (result_changes, result) = match &one.result {
            ResultChange::Keep => (false, None),
            ResultChange::Set(result) => (true, Some(&result[..])),
            ResultChange::Clear => (true, None),
        };
        let changed = row.execute(params![
            one.execution.id.0.as_bytes(),
            one.expected_version,
            moving.version,
            moving.state,
            moving.claim_priority,
            moving.ready_order,
            moving.epoch,
            moving.due_kind,
            moving.due_at,
            moving.session,
            moving.lease_id.as_ref().map(|lease| lease.as_bytes()),
            moving.until_at,
            moving.started_at,
            moving.ended_at,
            moving.tags,
            moving.detail,
            moving.history,
            moving.joined,
            moving.suspension,
            moving.held_by,
            moving.gate,
            result_changes,
            result,
        ])?;
        if changed == 0 {
            return Ok(Some(one.execution.id));
        }
        if one.rewired {
            rewire(connection, &Fixed::of(&one.execution))?;
        }
        if let Some(input) = &one.input {
            replace_input(connection, one.execution.id, input)?;
        }
    }
    Ok(None)
}

fn replace_input(connection: &Connection, id: ExecutionId, input: &[u8]) -> rusqlite::Result<()> {
    let apart = input.len() > INPUT_IN_ROW;
    let in_row = (!apart).then_some(input);
    connection.prepare_cached(&sql::EXECUTIONS_UPDATE_INPUT)?.execute(params![id.0.as_bytes(), in_row])?;
    connection.prepare_cached(&sql::INPUTS_DELETE)?.execute([id.0.as_bytes()])?;
    if apart {
        connection.prepare_cached(&sql::INPUTS_INSERT)?.execute(params![id.0.as_bytes(), input])?;
    }
    Ok(())
}

fn rewire(connection: &Connection, fixed: &Fixed) -> rusqlite::Result<()> {
    connection.prepare_cached(&sql::EXECUTIONS_REWIRE)?.execute(params![
        fixed.id.as_bytes(),
        fixed.partition,
        fixed.flow.as_ref().map(|flow| flow.as_bytes()),
        fixed.wiring,
    ])?;
    Ok(())
}

/// Deletes executions with their rows. Returns the id of one that does not have its expected version.
fn delete(connection: &Connection, deleted: &[(ExecutionId, u32)]) -> rusqlite::Result<Option<ExecutionId>> {
    if deleted.is_empty() {
        return Ok(None);
    }
    let mut row = connection.prepare_cached(&sql::EXECUTIONS_DELETE)?;
    let mut input = connection.prepare_cached(&sql::INPUTS_DELETE)?;
    let mut pages = connection.prepare_cached(&sql::HISTORY_PAGES_DELETE)?;
    let mut attempts = connection.prepare_cached(&sql::PROJECTED_ATTEMPTS_DELETE)?;
    for (id, version) in deleted {
        if row.execute(params![id.0.as_bytes(), version])? == 0 {
            return Ok(Some(*id));
        }
        input.execute([id.0.as_bytes()])?;
        pages.execute([id.0.as_bytes()])?;
        attempts.execute([id.0.as_bytes()])?;
        streams::delete(connection, *id)?;
        record::delete(connection, *id)?;
    }
    Ok(None)
}

fn add_pages(connection: &Connection, pages: &[HistoryPage]) -> rusqlite::Result<()> {
    for page in pages {
        connection.prepare_cached(&sql::HISTORY_PAGES_INSERT)?.execute(params![
            page.execution.0.as_bytes(),
            page.page,
            page.lines
        ])?;
    }
    Ok(())
}

fn index_tags(connection: &Connection, statement: &str, entries: &[TagEntry]) -> rusqlite::Result<()> {
    if entries.is_empty() {
        return Ok(());
    }
    let mut statement = connection.prepare_cached(statement)?;
    for entry in entries {
        statement.execute(params![
            entry.namespace.0,
            entry.tag,
            entry.submitted_at.micros(),
            entry.execution.0.as_bytes(),
        ])?;
    }
    Ok(())
}

fn remove_keys(connection: &Connection, keys: &[(KeyName, Option<KeySubject>)]) -> rusqlite::Result<()> {
    for (name, subject) in keys {
        let subject = subject.map(|subject| subject.id().into_bytes());
        connection.prepare_cached(&sql::KEYS_DELETE)?.execute(params![
            name.namespace.0,
            name.scope.code(),
            name.key.as_str(),
            subject
        ])?;
    }
    Ok(())
}

/// Inserts keys. Returns the name of one that is taken.
fn add_keys<'a>(connection: &Connection, keys: &'a [KeyRow]) -> rusqlite::Result<Option<&'a KeyName>> {
    if keys.is_empty() {
        return Ok(None);
    }
    let mut statement = connection.prepare_cached(&sql::KEYS_INSERT)?;
    for key in keys {
        let added = statement.execute(params![
            key.name.namespace.0,
            key.name.scope.code(),
            key.name.key.as_str(),
            key.subject.map(|subject| subject.id().into_bytes()),
            key.digest as i64,
            &key.answer[..],
            key.expires_at.map(Timestamp::micros),
        ])?;
        if added == 0 {
            return Ok(Some(&key.name));
        }
    }
    Ok(None)
}

fn write_sessions(connection: &Connection, sessions: &[Session]) -> rusqlite::Result<()> {
    for session in sessions {
        connection.prepare_cached(&sql::SESSIONS_UPSERT)?.execute(params![
            session.id.0,
            session.scope.namespace.0,
            session.worker.as_str(),
            session.instance.as_str(),
            session.ttl_ms,
            to_json(&session.scope.lanes)?,
            session.scope.kinds.as_ref().map(to_json).transpose()?,
            to_json(&session.scope.capabilities)?,
            session.registered_at.micros(),
            session.seen_at.micros(),
            session.renewed_at.map(Timestamp::micros),
            session.draining,
            session.life,
            columns::session_detail_column(&session.detail),
        ])?;
    }
    Ok(())
}

fn remove_sessions(connection: &Connection, sessions: &[SessionId]) -> rusqlite::Result<()> {
    for session in sessions {
        connection.prepare_cached(&sql::SESSIONS_DELETE)?.execute([session.0])?;
    }
    Ok(())
}

/// Appends one entry with all events to the log.
fn append(connection: &Connection, changes: &Changes, now: Timestamp) -> rusqlite::Result<Option<i64>> {
    if changes.events.is_empty() {
        return Ok(None);
    }
    connection
        .prepare_cached(&sql::LOG_APPEND)?
        .execute(params![now.micros(), log::pack(&changes.events)])?;
    Ok(Some(connection.last_insert_rowid()))
}
