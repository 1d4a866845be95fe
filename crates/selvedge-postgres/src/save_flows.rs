//! The part of a save about flows: their rows, their tags, the names of their nodes, and the outbox.

use crate::connection::pipeline::Parameters;
use crate::row::Micros;
use crate::save::{Saving, column};
use crate::sql;
use selvedge_core::filter::tag_text;
use selvedge_core::flow::Counts;
use selvedge_core::outbox::OutboxRow;
use selvedge_core::rows::{Changes, NodeEntry};
use selvedge_core::{Flow, FlowId};
use selvedge_store::columns::{COUNTED, FlowColumns};

/// An entry of the index of flows by tag.
struct FlowTag<'a> {
    flow: &'a Flow,
    tag: String,
}

/// The changes of flows and the outbox, as columns.
pub struct FlowRows<'a> {
    inserted: Vec<(FlowColumns, i32)>,
    tags: Vec<FlowTag<'a>>,
    updated: Vec<(FlowColumns, i32)>,
    outbox: Vec<(&'a OutboxRow, Option<String>)>,
}

impl<'a> FlowRows<'a> {
    /// Converts changes to columns.
    pub fn of(changes: &'a Changes) -> Self {
        let inserted = changes.flows.inserted.iter();
        let tags = inserted.clone().flat_map(|flow| {
            flow.tags.iter().map(move |(name, value)| FlowTag { flow, tag: tag_text(name, value) })
        });
        let updated = changes.flows.updated.iter();
        let text = |row: &OutboxRow| {
            (!row.tags.is_empty()).then(|| serde_json::to_string(&row.tags).expect("tags always serialise"))
        };
        FlowRows {
            tags: tags.collect(),
            inserted: inserted.map(|flow| (FlowColumns::of(flow), flow.counts.live())).collect(),
            updated: updated.map(|(flow, expected)| (FlowColumns::of(flow), *expected as i32)).collect(),
            outbox: changes.outbox.written.iter().map(|row| (row, text(row))).collect(),
        }
    }

    /// Adds all statements about flows except that for counts.
    pub fn save(&'a self, changes: &'a Changes, saving: &mut Saving<'a>) {
        saving.rows(&changes.nodes.removed, &sql::NODES_DELETE, |nodes| {
            vec![column(nodes, |(flow, _)| flow.0), column(nodes, |(_, name)| name.as_str())]
        });
        saving.rows(&changes.nodes.written, &sql::NODES_INSERT, nodes);
        saving.rows(&changes.outbox.removed, &sql::OUTBOX_DELETE, |names| {
            vec![column(names, |name| name.id), column(names, |name| name.kind.code())]
        });
        saving.rows(&self.outbox, &sql::OUTBOX_UPSERT, outbox);
        saving.rows(&changes.flows.deleted, &sql::FLOW_TAGS_DELETE, |flows| {
            vec![column(flows, |(id, _)| id.0)]
        });
        saving.rows(&changes.flows.deleted, &sql::FLOWS_DELETE, |flows| {
            vec![column(flows, |(id, _)| id.0), column(flows, |(_, version)| *version as i32)]
        });
        saving.rows(&self.inserted, &sql::FLOWS_INSERT, insert);
        saving.rows(&self.tags, &sql::FLOW_TAGS_INSERT, |tags| {
            vec![
                column(tags, |tag| tag.flow.namespace.0),
                column(tags, |tag| tag.tag.as_str()),
                column(tags, |tag| Micros::from(tag.flow.submitted_at)),
                column(tags, |tag| tag.flow.id.0),
            ]
        });
        saving.rows(&self.updated, &sql::FLOWS_UPDATE, update);
    }
}

/// Returns the parameters of `flows/add_counts`, in id order.
pub fn counted(added: &[(FlowId, Counts)]) -> Parameters<'_> {
    let mut parameters: Parameters<'_> = vec![column(added, |(id, _)| id.0)];
    parameters.extend(COUNTED.map(|(_, state)| column(added, move |(_, more)| more.of(state))));
    parameters.push(column(added, |(_, more)| more.live()));
    parameters
}

fn insert(rows: &[(FlowColumns, i32)]) -> Parameters<'_> {
    let mut parameters: Parameters<'_> = vec![
        column(rows, |(flow, _)| flow.id),
        column(rows, |(flow, _)| Micros(flow.submitted_at)),
        column(rows, |(flow, _)| flow.namespace),
        column(rows, |(flow, _)| flow.name.as_deref()),
        column(rows, |(flow, _)| flow.tags.as_deref()),
        column(rows, |(flow, _)| flow.spec.as_str()),
        column(rows, |(flow, _)| flow.version),
        column(rows, |(flow, _)| flow.state),
        column(rows, |(flow, _)| flow.ended_at.map(Micros)),
        column(rows, |(flow, _)| flow.delete_at.map(Micros)),
        column(rows, |(flow, _)| flow.detail.as_deref()),
    ];
    parameters.extend((0..COUNTED.len()).map(|index| column(rows, move |(flow, _)| flow.counts[index])));
    parameters.push(column(rows, |(_, live)| *live));
    parameters
}

fn update(rows: &[(FlowColumns, i32)]) -> Parameters<'_> {
    vec![
        column(rows, |(flow, _)| flow.id),
        column(rows, |(_, expected)| *expected),
        column(rows, |(flow, _)| flow.name.as_deref()),
        column(rows, |(flow, _)| flow.tags.as_deref()),
        column(rows, |(flow, _)| flow.spec.as_str()),
        column(rows, |(flow, _)| flow.version),
        column(rows, |(flow, _)| flow.state),
        column(rows, |(flow, _)| flow.ended_at.map(Micros)),
        column(rows, |(flow, _)| flow.delete_at.map(Micros)),
        column(rows, |(flow, _)| flow.detail.as_deref()),
    ]
}

fn nodes(entries: &[NodeEntry]) -> Parameters<'_> {
    vec![
        column(entries, |entry| entry.flow.0),
        column(entries, |entry| entry.name.as_str()),
        column(entries, |entry| Micros::from(entry.submitted_at)),
        column(entries, |entry| entry.execution.0),
    ]
}

fn outbox<'a>(rows: &'a [(&'a OutboxRow, Option<String>)]) -> Parameters<'a> {
    vec![
        column(rows, |(row, _)| row.name.id),
        column(rows, |(row, _)| row.name.kind.code()),
        column(rows, |(row, _)| Micros::from(row.at)),
        column(rows, |(row, _)| row.position as i32),
        column(rows, |(row, _)| row.namespace.0),
        column(rows, |(_, tags)| tags.as_deref()),
    ]
}
