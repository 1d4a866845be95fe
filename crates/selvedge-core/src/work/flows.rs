//! The flows, node names, outbox rows and streams of one transaction.

use super::Work;
use crate::fact::{self, Fact};
use crate::flow::{Counts, FlowState};
use crate::log::Event;
use crate::outbox::{OutboxKind, OutboxName, OutboxRow};
use crate::rows::{KeyName, KeyScope, KeySubject, Members};
use crate::stream::{Frame, Stream, StreamName};
use crate::{ExecutionId, Flow, FlowId, Name, NamespaceId, Refusal};
use std::collections::BTreeSet;

impl Work {
    /// Returns a flow of a namespace. A flow that is being deleted is not found.
    pub fn flow(&self, namespace: NamespaceId, id: FlowId) -> Result<&Flow, Refusal> {
        let flow = self.find_flow(id).filter(|flow| flow.namespace == namespace && !flow.detail.deleting);
        flow.ok_or_else(|| Refusal::NotFound { what: "flow".into(), id: id.to_string() })
    }

    /// Returns a flow of any namespace, if it exists.
    pub fn find_flow(&self, id: FlowId) -> Option<&Flow> {
        self.tables.flows.get(&id)
    }

    /// Returns the counts of a flow as this transaction leaves them.
    pub fn counts(&self, flow: &Flow) -> Counts {
        let mut counts = flow.counts;
        counts += self.flow_counts.get(&flow.id).copied().unwrap_or_default();
        counts
    }

    /// Inserts a flow. `fact` is its first event, `actor` the caller who submitted it.
    pub fn insert_flow(&mut self, flow: Flow, fact: Fact, actor: Option<Name>) {
        let id = flow.id;
        self.tables.flows.insert(flow, ());
        self.record_flow(id, fact, actor);
    }

    /// Changes a flow: `edit` changes the row, `fact` is the event, if there is one, and `actor` asked for the change.
    ///
    /// # Panics
    /// If the flow is not loaded, which is a defect of the rule.
    pub fn apply_flow(
        &mut self,
        id: FlowId,
        fact: Option<Fact>,
        actor: Option<Name>,
        edit: impl FnOnce(&mut Flow),
    ) {
        let row = &mut self.tables.flows.change(&id).expect("a rule changes flows that it has loaded").row;
        edit(row);
        row.version += 1;
        if let Some(fact) = fact {
            self.record_flow(id, fact, actor);
        }
    }

    /// Makes an ended flow running again, because a member reopens. The flow must be loaded.
    pub fn reopen_flow(&mut self, id: FlowId, execution: ExecutionId, actor: Option<Name>) {
        if self.tables.flows.get(&id).is_some_and(|flow| flow.state != FlowState::Running) {
            self.apply_flow(id, Some(Fact::FlowReopened(fact::FlowReopened { execution })), actor, |flow| {
                flow.state = FlowState::Running;
                flow.ended_at = None;
            });
        }
    }

    /// Deletes a flow whose members are deleted.
    pub fn delete_flow(&mut self, id: FlowId) {
        let Some(row) = self.tables.flows.delete(&id) else { return };
        if let Some(key) = &row.spec.idempotency_key {
            let name = KeyName { namespace: row.namespace, scope: KeyScope::Flow, key: key.clone() };
            self.keys_removed.push((name, Some(KeySubject::Flow(id))));
        }
    }

    /// Emits an event about a flow.
    pub fn record_flow(&mut self, id: FlowId, fact: Fact, actor: Option<Name>) {
        let Some(row) = self.tables.flows.entry(&id).map(|entry| &entry.row) else { return };
        self.events.push(Event {
            at: self.now,
            namespace: row.namespace,
            execution: None,
            flow: Some(id),
            version: None,
            actor,
            tags: row.tags.clone(),
            fact,
        });
    }

    /// Returns the execution of a node of a flow, if it is loaded.
    pub fn node(&self, flow: FlowId, name: &Name) -> Option<ExecutionId> {
        self.nodes.get(&(flow, name.clone())).copied()
    }

    /// Reports whether a page of members is loaded.
    pub fn has_members(&self, asked: &Members) -> bool {
        self.members.contains_key(asked)
    }

    /// Returns a loaded page of members, in order.
    pub fn members(&self, asked: &Members) -> &[ExecutionId] {
        self.members.get(asked).map_or(&[], Vec::as_slice)
    }

    /// Returns an outbox row, if it exists.
    pub fn outbox(&self, name: OutboxName) -> Option<&OutboxRow> {
        self.row(&name)
    }

    /// Writes an outbox row.
    pub fn put_outbox(&mut self, row: OutboxRow) {
        self.put(row);
    }

    /// Deletes an outbox row whose work is done.
    pub fn remove_outbox(&mut self, name: OutboxName) {
        self.remove::<OutboxRow>(&name);
    }

    /// Enqueues work about an execution, to be done after the commit, from position 0.
    pub fn enqueue(&mut self, kind: OutboxKind, id: ExecutionId) {
        let Some(row) = self.tables.executions.entry(&id).map(|entry| &entry.row) else { return };
        let (at, namespace, tags) = (self.now, row.namespace, row.tags.clone());
        self.put(OutboxRow { name: OutboxName { id: id.0, kind }, at, position: 0, namespace, tags });
    }

    /// Enqueues an update of the parent of an execution: the parent may be suspended until its children have ended.
    pub(super) fn enqueue_parent(&mut self, id: ExecutionId) {
        let Some(row) = self.tables.executions.entry(&id).map(|entry| &entry.row) else { return };
        let Some(parent) = row.spec.node.as_ref().and_then(|node| node.parent) else { return };
        let name = OutboxName { id: parent.0, kind: OutboxKind::Parent };
        let (at, namespace, tags) = (self.now, row.namespace, row.tags.clone());
        self.put(OutboxRow { name, at, position: 0, namespace, tags });
    }

    /// Returns a stream. Default: an empty one.
    pub fn stream(&self, name: StreamName) -> Stream {
        self.tables.streams.get(&name).cloned().unwrap_or_else(|| Stream::new(name))
    }

    /// Appends a frame.
    pub fn add_frame(&mut self, frame: Frame) {
        self.frames.push(frame);
    }

    /// Deletes the best-effort frames of a stream with numbers smaller than `before`.
    pub fn drop_frames(&mut self, stream: StreamName, before: u32) {
        self.frames_dropped.insert(stream, before);
    }

    /// Returns the executions that ended or reopened in this transaction and whose downstreams have not been updated
    /// yet.
    pub fn unpropagated(&self) -> Vec<ExecutionId> {
        self.unpropagated.iter().copied().collect()
    }

    /// Returns the downstreams of the executions that ended or reopened in this transaction and have not been
    /// propagated yet.
    pub fn unpropagated_downstreams(&self) -> BTreeSet<ExecutionId> {
        let ended = self.unpropagated.iter().filter_map(|id| self.tables.executions.entry(id));
        ended.flat_map(|entry| entry.row.wiring().downstreams.iter().map(|one| one.execution)).collect()
    }

    /// Records that the downstreams of an execution were updated.
    pub fn mark_propagated(&mut self, id: ExecutionId) {
        self.unpropagated.remove(&id);
    }
}
