//! Flows and the names of their nodes. Only this file changes their indexes.

use crate::MemoryStore;
use crate::kinds::{Kind, Saving, Tables, remove_member};
use async_trait::async_trait;
use selvedge_core::filter::{ListPosition, tag_text};
use selvedge_core::flow::{Counts, FlowFilter, FlowListPosition, FlowState};
use selvedge_core::rows::{Members, NodeEntry};
use selvedge_core::{
    Changes, Execution, ExecutionId, Flow, FlowId, Name, NamespaceId, Needs, Rows, Timestamp,
};
use selvedge_store::{DueFlow, Error, FlowDue, FlowReads, ReconcilerScope, merge};
use std::ops::Bound::{Excluded, Unbounded};

pub(crate) const KIND: Kind = Kind { load, guards_hold, save, ..Kind::EMPTY };

/// Returns the action that a flow needs, and since when. Settling is due since the flow's submission.
fn due(flow: &Flow) -> Option<(FlowDue, Timestamp)> {
    match flow.is_unsettled() {
        true => Some((FlowDue::Settle, flow.submitted_at)),
        false => flow.delete_at().map(|at| (FlowDue::Delete, at)),
    }
}

fn place(flow: &Flow) -> FlowListPosition {
    FlowListPosition { submitted_at: flow.submitted_at, id: flow.id }
}

fn put(tables: &mut Tables, flow: Flow) {
    if let Some((kind, at)) = due(&flow) {
        tables.due_flows.entry(kind).or_default().insert((at, flow.id));
    }
    tables.listed_flows.entry(flow.namespace).or_default().insert(place(&flow));
    tables.flows.insert(flow.id, flow);
}

fn take(tables: &mut Tables, id: FlowId) -> Option<Flow> {
    let flow = tables.flows.remove(&id)?;
    if let Some((kind, at)) = due(&flow) {
        remove_member(&mut tables.due_flows, &kind, &(at, id));
    }
    remove_member(&mut tables.listed_flows, &flow.namespace, &place(&flow));
    Some(flow)
}

/// Adds to the counts of a flow. Returns true if the flow is left without a live member.
fn add_counts(tables: &mut Tables, id: FlowId, more: Counts) -> bool {
    let Some(mut flow) = take(tables, id) else { return false };
    let emptied = merge::count(&mut flow, more);
    put(tables, flow);
    emptied
}

fn load(tables: &Tables, needs: &Needs, rows: &mut Rows) {
    rows.flows = needs.flows.keys().filter_map(|id| tables.flows.get(id).cloned()).collect();
    let found = |(flow, name): &(FlowId, Name)| {
        let id = tables.nodes.get(&(*flow, name.clone()))?;
        Some((*flow, name.clone(), *id))
    };
    rows.nodes = needs.nodes.keys().filter_map(found).collect();
    let pages = needs.queries.members.iter();
    rows.found.members = pages.map(|page| (*page, member_ids(tables, *page))).collect();
}

/// Returns true if the guards of flows and nodes hold.
fn guards_hold(tables: &Tables, changes: &Changes) -> bool {
    let version = |id: FlowId| tables.flows.get(&id).map(|flow| flow.version);
    let updated = changes.flows.updated.iter().map(|(flow, expected)| (flow.id, *expected));
    let named = |entry: &NodeEntry| tables.nodes.contains_key(&(entry.flow, entry.name.clone()));
    changes.flows.inserted.iter().all(|flow| version(flow.id).is_none())
        && updated
            .chain(changes.flows.deleted.iter().copied())
            .all(|(id, expected)| version(id) == Some(expected))
        && !changes.nodes.written.iter().any(named)
}

fn save(tables: &mut Tables, changes: &mut Changes, saving: &mut Saving) {
    for (id, _) in &changes.flows.deleted {
        take(tables, *id);
    }
    changes.flows.inserted.iter().for_each(|flow| put(tables, flow.clone()));
    for (flow, _) in &changes.flows.updated {
        let counts = take(tables, flow.id).map(|stored| stored.counts).unwrap_or_default();
        put(tables, Flow { counts, ..flow.clone() });
    }
    for name in &changes.nodes.removed {
        if let Some(id) = tables.nodes.remove(name)
            && let Some(members) = tables.members.get_mut(&name.0)
        {
            members.retain(|place| place.id != id);
        }
    }
    for NodeEntry { flow, name, submitted_at, execution } in changes.nodes.written.clone() {
        tables.nodes.insert((flow, name), execution);
        tables.members.entry(flow).or_default().insert(ListPosition { submitted_at, id: execution });
    }
    for (id, more) in &changes.unread.flow_counts {
        if add_counts(tables, *id, *more) {
            saving.emptied.push(*id);
        }
    }
}

fn member_ids(tables: &Tables, page: Members) -> Vec<ExecutionId> {
    let members = tables.members.get(&page.flow).into_iter().flatten();
    members.skip(page.skip as usize).take(page.limit as usize).map(|place| place.id).collect()
}

fn matches(filter: &FlowFilter, flow: &Flow) -> bool {
    let tagged = |tag: &String| flow.tags.iter().any(|(name, value)| tag_text(name, value) == *tag);
    (filter.states.is_empty() || filter.states.contains(&flow.state))
        && filter.name.as_ref().is_none_or(|name| flow.name.as_ref() == Some(name))
        && filter.tag.as_ref().is_none_or(tagged)
        && filter.submitted_after.is_none_or(|from| flow.submitted_at >= from)
        && filter.submitted_before.is_none_or(|until| flow.submitted_at < until)
}

#[async_trait]
impl FlowReads for MemoryStore {
    async fn fetch_flows(&self, ids: &[FlowId]) -> Result<Vec<Flow>, Error> {
        self.read("fetch_flows", |tables, _| {
            ids.iter().filter_map(|id| tables.flows.get(id).cloned()).collect()
        })
        .await
    }

    async fn list_flows(
        &self,
        filter: &FlowFilter,
        after: Option<FlowListPosition>,
        limit: u32,
    ) -> Result<Vec<Flow>, Error> {
        self.read("list_flows", |tables, _| {
            let before = after.map_or(Unbounded, Excluded);
            let listed = tables.listed_flows.get(&filter.namespace).into_iter();
            listed
                .flat_map(|places| places.range((Unbounded, before)).rev())
                .filter_map(|place| tables.flows.get(&place.id))
                .filter(|flow| matches(filter, flow))
                .take(limit as usize)
                .cloned()
                .collect()
        })
        .await
    }

    async fn count_flows(&self, namespace: NamespaceId, state: FlowState, bound: u64) -> Result<u64, Error> {
        self.read("count_flows", |tables, _| {
            let flows =
                tables.flows.values().filter(|flow| flow.namespace == namespace && flow.state == state);
            (flows.count() as u64).min(bound)
        })
        .await
    }

    async fn members(&self, page: Members) -> Result<Vec<Execution>, Error> {
        self.read("members", |tables, _| {
            let records = member_ids(tables, page).into_iter().filter_map(|id| tables.executions.get(&id));
            records.map(|record| record.execution.clone()).collect()
        })
        .await
    }

    async fn due_flows(
        &self,
        scope: &ReconcilerScope,
        kind: FlowDue,
        after: Option<(Timestamp, FlowId)>,
        limit: u32,
    ) -> Result<Vec<DueFlow>, Error> {
        self.read("due_flows", |tables, now| {
            let from = after.map_or(Unbounded, Excluded);
            let due = tables.due_flows.get(&kind).into_iter();
            due.flat_map(|set| set.range((from, Unbounded)))
                .take_while(|(at, _)| *at <= now)
                .filter_map(|(due_at, id)| {
                    let Flow { namespace, tags, .. } = tables.flows.get(id)?;
                    Some(DueFlow { flow: *id, due_at: *due_at, namespace: *namespace, tags: tags.clone() })
                })
                .filter(|flow| scope.covers(flow.namespace, &flow.tags))
                .take(limit as usize)
                .collect()
        })
        .await
    }
}
