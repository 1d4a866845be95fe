//! Saves the changes of flows, of the names of their nodes, and of the outbox.

use crate::connection::failure::not_understood;
use crate::{row, sql};
use rusqlite::{Connection, OptionalExtension, Row, params};
use selvedge_core::filter::tag_text;
use selvedge_core::flow::Counts;
use selvedge_core::outbox::{OutboxName, OutboxRow};
use selvedge_core::rows::{Changes, NodeEntry};
use selvedge_core::{Flow, FlowId, Name, NamespaceId, Timestamp};
use selvedge_store::columns::{self, FlowColumns};
use std::collections::BTreeMap;

/// Saves all changes of flows. Returns the flows that are running without a live member now, or the first guard that
/// failed.
pub fn save_flows(
    connection: &Connection,
    changes: &Changes,
    now: Timestamp,
) -> rusqlite::Result<Result<Vec<FlowId>, String>> {
    for (id, version) in &changes.flows.deleted {
        if !delete(connection, *id, *version)? {
            return Ok(Err(format!("flow {id} has moved")));
        }
    }
    for flow in &changes.flows.inserted {
        if !insert(connection, flow)? {
            return Ok(Err(format!("flow {} exists", flow.id)));
        }
    }
    for (flow, version) in &changes.flows.updated {
        if !update(connection, flow, *version, now)? {
            return Ok(Err(format!("flow {} has moved", flow.id)));
        }
    }
    remove_nodes(connection, &changes.nodes.removed)?;
    if let Some(taken) = add_nodes(connection, &changes.nodes.written)? {
        return Ok(Err(format!("flow {} has a node {:?}", taken.flow, taken.name.as_str())));
    }
    remove_outbox(connection, &changes.outbox.removed)?;
    put_outbox(connection, &changes.outbox.written)?;
    count(connection, &changes.unread.flow_counts, now).map(Ok)
}

/// Inserts a flow. Returns false if its id is taken.
fn insert(connection: &Connection, flow: &Flow) -> rusqlite::Result<bool> {
    let columns = FlowColumns::of(flow);
    let [
        waiting_dependencies,
        waiting,
        delayed,
        active,
        suspended,
        held,
        completed,
        failed,
        cancelled,
        expired,
        skipped,
    ] = columns.counts;
    let added = connection.prepare_cached(&sql::FLOWS_INSERT)?.execute(params![
        columns.id.as_bytes(),
        columns.namespace,
        columns.submitted_at,
        columns.name,
        columns.tags,
        columns.spec,
        columns.version,
        columns.state,
        columns.ended_at,
        columns.detail,
        waiting_dependencies,
        waiting,
        delayed,
        active,
        suspended,
        held,
        completed,
        failed,
        cancelled,
        expired,
        skipped,
        columns.delete_at,
    ])?;
    Tagged::of(flow).index(connection, &sql::FLOW_TAGS_INSERT, &flow.tags)?;
    Ok(added > 0)
}

/// Updates a flow. Returns false if it does not have this version.
fn update(connection: &Connection, flow: &Flow, version: u32, now: Timestamp) -> rusqlite::Result<bool> {
    let before = connection
        .prepare_cached(&sql::FLOWS_READ_TAGS)?
        .query_row(params![flow.id.0.as_bytes(), version], |found| readable_tags(found, 0, flow.id))
        .optional()?;
    let Some(before) = before else { return Ok(false) };
    let columns = FlowColumns::of(flow);
    connection.prepare_cached(&sql::FLOWS_UPDATE)?.execute(params![
        columns.id.as_bytes(),
        version,
        columns.name,
        columns.tags,
        columns.spec,
        columns.version,
        columns.state,
        columns.ended_at,
        columns.detail,
        columns.delete_at,
        now.micros(),
    ])?;
    if before != flow.tags {
        let tagged = Tagged::of(flow);
        tagged.index(connection, &sql::FLOW_TAGS_DELETE, &before)?;
        tagged.index(connection, &sql::FLOW_TAGS_INSERT, &flow.tags)?;
    }
    Ok(true)
}

/// Deletes a flow. Returns false if it does not have this version.
fn delete(connection: &Connection, flow: FlowId, version: u32) -> rusqlite::Result<bool> {
    let deleted = connection
        .prepare_cached(&sql::FLOWS_DELETE)?
        .query_row(params![flow.0.as_bytes(), version], |found| {
            let (namespace, submitted_at) = (NamespaceId(found.get(0)?), row::time(found, 1)?);
            Ok((Tagged { namespace, submitted_at, flow }, readable_tags(found, 2, flow)?))
        })
        .optional()?;
    let Some((tagged, tags)) = deleted else { return Ok(false) };
    tagged.index(connection, &sql::FLOW_TAGS_DELETE, &tags)?;
    Ok(true)
}

fn readable_tags(found: &Row<'_>, column: usize, flow: FlowId) -> rusqlite::Result<BTreeMap<String, String>> {
    row::tags(found, column)?.map_err(|why| not_understood(&format!("flow {flow} cannot be read: {why}")))
}

/// The key of a flow in the index of tags.
struct Tagged {
    namespace: NamespaceId,
    submitted_at: Timestamp,
    flow: FlowId,
}

impl Tagged {
    fn of(flow: &Flow) -> Tagged {
        Tagged { namespace: flow.namespace, submitted_at: flow.submitted_at, flow: flow.id }
    }

    /// Runs a statement for the entry of each tag.
    fn index(
        &self,
        connection: &Connection,
        statement: &str,
        tags: &BTreeMap<String, String>,
    ) -> rusqlite::Result<()> {
        for (name, value) in tags {
            connection.prepare_cached(statement)?.execute(params![
                self.namespace.0,
                tag_text(name, value),
                self.submitted_at.micros(),
                self.flow.0.as_bytes(),
            ])?;
        }
        Ok(())
    }
}

fn remove_nodes(connection: &Connection, names: &[(FlowId, Name)]) -> rusqlite::Result<()> {
    for (flow, name) in names {
        connection.prepare_cached(&sql::NODES_DELETE)?.execute(params![flow.0.as_bytes(), name.as_str()])?;
    }
    Ok(())
}

/// Inserts nodes. Returns one whose name is taken.
fn add_nodes<'a>(
    connection: &Connection,
    entries: &'a [NodeEntry],
) -> rusqlite::Result<Option<&'a NodeEntry>> {
    for entry in entries {
        let added = connection.prepare_cached(&sql::NODES_INSERT)?.execute(params![
            entry.flow.0.as_bytes(),
            entry.name.as_str(),
            entry.submitted_at.micros(),
            entry.execution.0.as_bytes(),
        ])?;
        if added == 0 {
            return Ok(Some(entry));
        }
    }
    Ok(None)
}

fn remove_outbox(connection: &Connection, names: &[OutboxName]) -> rusqlite::Result<()> {
    for name in names {
        connection
            .prepare_cached(&sql::OUTBOX_DELETE)?
            .execute(params![name.id.as_bytes(), name.kind.code()])?;
    }
    Ok(())
}

fn put_outbox(connection: &Connection, rows: &[OutboxRow]) -> rusqlite::Result<()> {
    for row in rows {
        let tags = (!row.tags.is_empty()).then(|| row::to_json(&row.tags)).transpose()?;
        connection.prepare_cached(&sql::OUTBOX_UPSERT)?.execute(params![
            row.name.id.as_bytes(),
            row.name.kind.code(),
            row.at.micros(),
            row.position,
            row.namespace.0,
            tags,
        ])?;
    }
    Ok(())
}

/// Adds to the counts of flows. Returns the flows that are running without a live member now.
fn count(
    connection: &Connection,
    counted: &[(FlowId, Counts)],
    now: Timestamp,
) -> rusqlite::Result<Vec<FlowId>> {
    let mut emptied = Vec::new();
    for (flow, more) in counted {
        let [
            waiting_dependencies,
            waiting,
            delayed,
            active,
            suspended,
            held,
            completed,
            failed,
            cancelled,
            expired,
            skipped,
        ] = columns::counts(more);
        let unsettled = connection
            .prepare_cached(&sql::FLOWS_ADD_COUNTS)?
            .query_row(
                params![
                    flow.0.as_bytes(),
                    waiting_dependencies,
                    waiting,
                    delayed,
                    active,
                    suspended,
                    held,
                    completed,
                    failed,
                    cancelled,
                    expired,
                    skipped,
                    more.live(),
                    now.micros(),
                ],
                |found| found.get(0),
            )
            .optional()?;
        if unsettled == Some(true) {
            emptied.push(*flow);
        }
    }
    Ok(emptied)
}
