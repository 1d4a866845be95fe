//! Flows, the names of their nodes, and the outbox. Only this file changes their indexes.

use crate::tables::{Record, Tables, remove_member};
use selvedge_core::execution::ROOT;
use selvedge_core::filter::{ListPosition, tag_text};
use selvedge_core::flow::{Counts, FlowFilter, FlowListPosition};
use selvedge_core::outbox::{OutboxKind, OutboxName, OutboxRow};
use selvedge_core::rows::{Members, NodeEntry, Relative, StoredRelative};
use selvedge_core::{Changes, Execution, ExecutionId, Flow, FlowId, Name, Needs, Rows, Timestamp};
use selvedge_store::{DueFlow, FlowDue, ReconcilerScope, merge};
use std::ops::Bound::{Excluded, Unbounded};
use uuid::Uuid;

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

impl Tables {
    fn put_flow(&mut self, flow: Flow) {
        if let Some((kind, at)) = due(&flow) {
            self.due_flows.entry(kind).or_default().insert((at, flow.id));
        }
        self.listed_flows.entry(flow.namespace).or_default().insert(place(&flow));
        self.flows.insert(flow.id, flow);
    }

    fn take_flow(&mut self, id: FlowId) -> Option<Flow> {
        let flow = self.flows.remove(&id)?;
        if let Some((kind, at)) = due(&flow) {
            remove_member(&mut self.due_flows, &kind, &(at, id));
        }
        remove_member(&mut self.listed_flows, &flow.namespace, &place(&flow));
        Some(flow)
    }

    /// Adds to the counts of a flow. Returns true if the flow is left without a live member.
    fn add_counts(&mut self, id: FlowId, more: Counts) -> bool {
        let Some(mut flow) = self.take_flow(id) else { return false };
        let emptied = merge::count(&mut flow, more);
        self.put_flow(flow);
        emptied
    }

    /// Returns true if the guards of flows and nodes hold.
    pub fn flow_guards_hold(&self, changes: &Changes) -> bool {
        let version = |id: FlowId| self.flows.get(&id).map(|flow| flow.version);
        let updated = changes.flows.updated.iter().map(|(flow, expected)| (flow.id, *expected));
        let named = |entry: &NodeEntry| self.nodes.contains_key(&(entry.flow, entry.name.clone()));
        changes.flows.inserted.iter().all(|flow| version(flow.id).is_none())
            && updated
                .chain(changes.flows.deleted.iter().copied())
                .all(|(id, expected)| version(id) == Some(expected))
            && !changes.nodes.written.iter().any(named)
    }

    /// Saves flows, nodes and outbox rows. Returns the flows that are left without a live member.
    pub fn save_flows(&mut self, changes: &Changes) -> Vec<FlowId> {
        for (id, _) in &changes.flows.deleted {
            self.take_flow(*id);
        }
        changes.flows.inserted.iter().for_each(|flow| self.put_flow(flow.clone()));
        for (flow, _) in &changes.flows.updated {
            let counts = self.take_flow(flow.id).map(|stored| stored.counts).unwrap_or_default();
            self.put_flow(Flow { counts, ..flow.clone() });
        }
        for name in &changes.nodes.removed {
            if let Some(id) = self.nodes.remove(name)
                && let Some(members) = self.members.get_mut(&name.0)
            {
                members.retain(|place| place.id != id);
            }
        }
        for NodeEntry { flow, name, submitted_at, execution } in changes.nodes.written.clone() {
            self.nodes.insert((flow, name), execution);
            self.members.entry(flow).or_default().insert(ListPosition { submitted_at, id: execution });
        }
        for name in &changes.outbox.removed {
            self.take_outbox(*name);
        }
        for row in &changes.outbox.written {
            self.take_outbox(row.name);
            self.outbox_by_age.entry(row.name.kind).or_default().insert((row.at, row.name.id));
            self.outbox.insert(row.name, row.clone());
        }
        let counted = changes.unread.flow_counts.iter();
        counted.filter_map(|(id, more)| self.add_counts(*id, *more).then_some(*id)).collect()
    }

    fn take_outbox(&mut self, name: OutboxName) {
        if let Some(row) = self.outbox.remove(&name) {
            remove_member(&mut self.outbox_by_age, &name.kind, &(row.at, name.id));
        }
    }

    /// Loads the flows, nodes, members, outbox rows and relatives that `needs` names.
    pub fn load_flows(&self, needs: &Needs, rows: &mut Rows) {
        let flows = needs.flows.keys();
        rows.flows = flows.filter_map(|id| self.flows.get(id).cloned()).collect();
        let found = |(flow, name): &(FlowId, Name)| {
            let id = self.nodes.get(&(*flow, name.clone()))?;
            Some((*flow, name.clone(), *id))
        };
        rows.nodes = needs.nodes.keys().filter_map(found).collect();
        rows.found.members =
            needs.queries.members.iter().map(|page| (*page, self.member_ids(*page))).collect();
        rows.outbox = needs.outbox.keys().filter_map(|name| self.outbox.get(name).cloned()).collect();
        let limit = needs.inline_relatives();
        let relatives = needs.relatives.keys().map(|id| (id, limit));
        let whole = needs.whole_relatives.keys().map(|id| (id, usize::MAX));
        rows.relatives = relatives
            .chain(whole)
            .filter_map(|(id, limit)| Some(StoredRelative::whole(self.relative(*id)?).within(limit)))
            .collect();
    }

    fn relative(&self, id: ExecutionId) -> Option<Relative> {
        let Record { execution, result, .. } = self.executions.get(&id)?;
        let outcome = execution.state.outcome();
        let name = Name::trusted(execution.node().unwrap_or(ROOT));
        let error = execution.detail.error.clone().filter(|_| outcome.is_some());
        Some(Relative { execution: id, name, outcome, error, result: result.clone(), left_out: false })
    }

    pub fn member_ids(&self, page: Members) -> Vec<ExecutionId> {
        let members = self.members.get(&page.flow).into_iter().flatten();
        members.skip(page.skip as usize).take(page.limit as usize).map(|place| place.id).collect()
    }

    pub fn members_of(&self, page: Members) -> Vec<Execution> {
        let ids = self.member_ids(page).into_iter();
        ids.filter_map(|id| self.executions.get(&id)).map(|record| record.execution.clone()).collect()
    }

    pub fn fetch_flows(&self, ids: &[FlowId]) -> Vec<Flow> {
        ids.iter().filter_map(|id| self.flows.get(id).cloned()).collect()
    }

    pub fn list_flows(&self, filter: &FlowFilter, after: Option<FlowListPosition>, limit: u32) -> Vec<Flow> {
        let before = after.map_or(Unbounded, Excluded);
        let listed = self.listed_flows.get(&filter.namespace).into_iter();
        listed
            .flat_map(|places| places.range((Unbounded, before)).rev())
            .filter_map(|place| self.flows.get(&place.id))
            .filter(|flow| matches(filter, flow))
            .take(limit as usize)
            .cloned()
            .collect()
    }

    pub fn due_flows(
        &self,
        scope: &ReconcilerScope,
        kind: FlowDue,
        after: Option<(Timestamp, FlowId)>,
        limit: u32,
        now: Timestamp,
    ) -> Vec<DueFlow> {
        let from = after.map_or(Unbounded, Excluded);
        let due = self.due_flows.get(&kind).into_iter();
        due.flat_map(|set| set.range((from, Unbounded)))
            .take_while(|(at, _)| *at <= now)
            .filter_map(|(due_at, id)| {
                let Flow { namespace, tags, .. } = self.flows.get(id)?;
                Some(DueFlow { flow: *id, due_at: *due_at, namespace: *namespace, tags: tags.clone() })
            })
            .filter(|flow| scope.covers(flow.namespace, &flow.tags))
            .take(limit as usize)
            .collect()
    }

    pub fn outbox_before(
        &self,
        scope: &ReconcilerScope,
        kind: OutboxKind,
        before: Timestamp,
        after: Option<(Timestamp, Uuid)>,
        limit: u32,
    ) -> Vec<OutboxRow> {
        let from = after.map_or(Unbounded, Excluded);
        let rows = self.outbox_by_age.get(&kind).into_iter();
        rows.flat_map(|set| set.range((from, Unbounded)))
            .take_while(|(at, _)| *at <= before)
            .filter_map(|(_, id)| self.outbox.get(&OutboxName { id: *id, kind }))
            .filter(|row| scope.covers(row.namespace, &row.tags))
            .take(limit as usize)
            .cloned()
            .collect()
    }
}

fn matches(filter: &FlowFilter, flow: &Flow) -> bool {
    let tagged = |tag: &String| flow.tags.iter().any(|(name, value)| tag_text(name, value) == *tag);
    (filter.states.is_empty() || filter.states.contains(&flow.state))
        && filter.name.as_ref().is_none_or(|name| flow.name.as_ref() == Some(name))
        && filter.tag.as_ref().is_none_or(tagged)
        && filter.submitted_after.is_none_or(|from| flow.submitted_at >= from)
        && filter.submitted_before.is_none_or(|until| flow.submitted_at < until)
}
