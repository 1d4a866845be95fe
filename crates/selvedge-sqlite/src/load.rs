//! Loads the rows that a decision needs. There is one writer, so no locks are needed.

use crate::candidates::candidates;
use crate::connection::failure::not_understood;
use crate::read::flows::member_ids;
use crate::{row, sql};
use rusqlite::{Connection, OptionalExtension, params};
use selvedge_core::outbox::OutboxName;
use selvedge_core::rows::{KeyName, Members, Needs, Rows};
use selvedge_core::{ExecutionId, FlowId, Name, NamespaceId, Session, SessionId, Timestamp};
use selvedge_store::columns::{self, RelativeColumns};

/// A size that no payload reaches: it is read whole.
const WHOLE: usize = i64::MAX as usize;

/// Loads everything that `needs` names.
pub fn load(connection: &Connection, needs: &Needs, now: Timestamp) -> rusqlite::Result<Rows> {
    let mut rows = Rows { now, ..Rows::default() };
    nodes(connection, needs.nodes.keys(), &mut rows)?;
    members(connection, &needs.queries.members, &mut rows)?;
    executions(connection, needs.executions.returned(), &mut rows)?;
    keys(connection, needs.keys.keys(), &mut rows)?;
    outbox(connection, needs.outbox.keys(), &mut rows)?;
    rows.flows = crate::read::flows::fetch(connection, needs.flows.keys())?;
    candidates(connection, needs, &mut rows)?;
    crate::gates::load(connection, needs, &mut rows)?;
    inputs(connection, needs.inputs.keys(), needs.inline_inputs(), &mut rows)?;
    inputs(connection, needs.whole_inputs.keys(), WHOLE, &mut rows)?;
    relatives(connection, needs.relatives.keys(), needs.inline_relatives(), &mut rows)?;
    relatives(connection, needs.whole_relatives.keys(), WHOLE, &mut rows)?;
    for name in needs.streams.keys().chain(needs.summaries.keys()) {
        rows.streams.extend(crate::streams::read(connection, *name)?);
    }
    crate::record::load(connection, needs, &mut rows)?;
    crate::api_keys::load(connection, needs, &mut rows)?;
    crate::bulk_jobs::load(connection, needs, &mut rows)?;
    crate::webhooks::load(connection, needs, &mut rows)?;
    crate::schedules::load(connection, needs, &mut rows)?;
    sessions(connection, needs.sessions.keys(), &mut rows)?;
    for (namespace, instance) in &needs.queries.instances {
        instance_of(connection, *namespace, instance, &mut rows)?;
    }
    if let Some(after) = needs.queries.classes_after {
        rows.found.classes = crate::read::names::classes_after(connection, after)?;
    }
    Ok(rows)
}

fn nodes<'a>(
    connection: &Connection,
    names: impl Iterator<Item = &'a (FlowId, Name)>,
    rows: &mut Rows,
) -> rusqlite::Result<()> {
    for (flow, name) in names {
        let found = connection
            .prepare_cached(&sql::NODES_FIND)?
            .query_row(params![flow.0.as_bytes(), name.as_str()], |found| row::uuid(found, 0))
            .optional()?;
        rows.nodes.extend(found.map(|id| (*flow, name.clone(), ExecutionId(id))));
    }
    Ok(())
}

fn members(connection: &Connection, pages: &[Members], rows: &mut Rows) -> rusqlite::Result<()> {
    for page in pages {
        let ids = member_ids(connection, *page)?;
        executions(connection, ids.iter(), rows)?;
        rows.found.members.push((*page, ids));
    }
    Ok(())
}

fn executions<'a>(
    connection: &Connection,
    ids: impl Iterator<Item = &'a ExecutionId>,
    rows: &mut Rows,
) -> rusqlite::Result<()> {
    let mut ids = ids.peekable();
    if ids.peek().is_none() {
        return Ok(());
    }
    let mut statement = connection.prepare_cached(&sql::EXECUTIONS_READ)?;
    for id in ids {
        match statement.query_row([id.0.as_bytes()], row::execution).optional()? {
            Some(Ok(execution)) => rows.executions.push(execution),
            Some(Err(unreadable)) => rows.unreadable.push(unreadable),
            None => {}
        }
    }
    Ok(())
}

fn inputs<'a>(
    connection: &Connection,
    ids: impl Iterator<Item = &'a ExecutionId>,
    limit: usize,
    rows: &mut Rows,
) -> rusqlite::Result<()> {
    for id in ids {
        let input = connection
            .prepare_cached(&sql::EXECUTIONS_READ_INPUTS)?
            .query_row(params![id.0.as_bytes(), limit as i64], |found| {
                Ok(row::sized_payload(found, 0, limit))
            })
            .optional()?;
        match input {
            Some(Ok(input)) => rows.inputs.push((*id, input)),
            Some(Err(error)) => rows.unreadable.push((*id, format!("column input: {error}"))),
            None => {}
        }
    }
    Ok(())
}

fn relatives<'a>(
    connection: &Connection,
    ids: impl Iterator<Item = &'a ExecutionId>,
    limit: usize,
    rows: &mut Rows,
) -> rusqlite::Result<()> {
    for id in ids {
        let relative = connection
            .prepare_cached(&sql::EXECUTIONS_READ_RELATIVES)?
            .query_row(params![id.0.as_bytes(), limit as i64], |found| {
                let (spec, detail): (Option<String>, Option<String>) = (found.get(0)?, found.get(3)?);
                let columns = RelativeColumns {
                    id: id.0,
                    spec: spec.as_deref(),
                    state: found.get(1)?,
                    bytes: found.get::<_, i64>(2)? as usize,
                    detail: detail.as_deref(),
                    result: row::optional_bytes(found, 4)?,
                };
                Ok(columns::relative(columns, limit))
            })
            .optional()?;
        match relative {
            Some(Ok(relative)) => rows.relatives.push(relative),
            Some(Err(error)) => rows.unreadable.push((*id, error)),
            None => {}
        }
    }
    Ok(())
}

fn outbox<'a>(
    connection: &Connection,
    names: impl Iterator<Item = &'a OutboxName>,
    rows: &mut Rows,
) -> rusqlite::Result<()> {
    for name in names {
        let found = connection
            .prepare_cached(&sql::OUTBOX_READ)?
            .query_row(params![name.id.as_bytes(), name.kind.code()], |found| {
                let tags = row::tags(found, 5)?.map_err(|why| {
                    not_understood(&format!("row {} of the outbox cannot be read: {why}", name.id))
                })?;
                row::outbox(found, tags)
            })
            .optional()?;
        rows.outbox.extend(found);
    }
    Ok(())
}

fn keys<'a>(
    connection: &Connection,
    names: impl Iterator<Item = &'a KeyName>,
    rows: &mut Rows,
) -> rusqlite::Result<()> {
    let mut names = names.peekable();
    if names.peek().is_none() {
        return Ok(());
    }
    let mut statement = connection.prepare_cached(&sql::KEYS_READ)?;
    for name in names {
        let key = statement
            .query_row(params![name.namespace.0, name.scope.code(), name.key.as_str()], |found| {
                row::key(found, name)
            })
            .optional()?;
        rows.keys.extend(key);
    }
    Ok(())
}

fn sessions<'a>(
    connection: &Connection,
    ids: impl Iterator<Item = &'a SessionId>,
    rows: &mut Rows,
) -> rusqlite::Result<()> {
    for id in ids {
        let session =
            connection.prepare_cached(&sql::SESSIONS_READ)?.query_row([id.0], row::session).optional()?;
        rows.sessions.extend(session);
    }
    Ok(())
}

/// Loads the sessions of an instance, and their leases.
fn instance_of(
    connection: &Connection,
    namespace: NamespaceId,
    instance: &Name,
    rows: &mut Rows,
) -> rusqlite::Result<()> {
    let found: Vec<Session> = connection
        .prepare_cached(&sql::SESSIONS_LIST_BY_INSTANCE)?
        .query_map(params![namespace.0, instance.as_str()], row::session)?
        .collect::<rusqlite::Result<_>>()?;
    let mut statement = connection.prepare_cached(&sql::LEASES_LIST)?;
    for session in &found {
        for lease in statement.query_map([session.id.0], |found| row::lease(found, session))? {
            match lease? {
                Ok(lease) => rows.found.leases.push(lease),
                Err(unreadable) => rows.unreadable.push(unreadable),
            }
        }
    }
    rows.sessions.extend(found);
    Ok(())
}
