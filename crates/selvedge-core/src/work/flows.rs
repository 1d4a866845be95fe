//! Flows, the names of their nodes, the outbox and streams, in the rows of one transaction.

use super::{FlowEntry, Work};
use crate::fact::Fact;
use crate::flow::Counts;
use crate::log::Event;
use crate::outbox::{OutboxKind, OutboxName, OutboxRow};
use crate::rows::{KeyName, KeyScope, Members};
use crate::stream::{Frame, Stream, StreamName};
use crate::{ExecutionId, Flow, FlowId, Name, NamespaceId, Refusal};
use std::collections::BTreeSet;

impl Work {
    /// A flow of this namespace.
    pub fn flow(&self, namespace: NamespaceId, id: FlowId) -> Result<&Flow, Refusal> {
        let known = self.find_flow(id).filter(|flow| flow.namespace == namespace && !flow.detail.deleting);
        known.ok_or_else(|| Refusal::NotFound { what: "flow".into(), id: id.to_string() })
    }

    /// A flow of any namespace, if there is one.
    pub fn find_flow(&self, id: FlowId) -> Option<&Flow> {
        self.flows.get(&id).filter(|entry| !entry.deleted).map(|entry| &entry.row)
    }

    /// The counts of a flow as this transaction leaves them.
    pub fn counts(&self, flow: &Flow) -> Counts {
        let mut counts = flow.counts;
        counts += self.counted.get(&flow.id).copied().unwrap_or_default();
        counts
    }

    /// Brings a new flow into being.
    pub fn insert_flow(&mut self, flow: Flow, fact: Fact) {
        let id = flow.id;
        self.flows.insert(id, FlowEntry { row: flow, stored: None, deleted: false });
        self.record_flow(id, fact, None);
    }

    /// Changes a flow: `edit` makes the row what it becomes, `fact` says what happened, if anything that is told did.
    pub fn apply_flow(
        &mut self,
        id: FlowId,
        fact: Option<Fact>,
        actor: Option<Name>,
        edit: impl FnOnce(&mut Flow),
    ) {
        let entry = self.flows.get_mut(&id).expect("a rule changes flows that it has seen");
        edit(&mut entry.row);
        entry.row.version += 1;
        if let Some(fact) = fact {
            self.record_flow(id, fact, actor);
        }
    }

    /// Deletes a flow. Its members were deleted before.
    pub fn delete_flow(&mut self, id: FlowId) {
        let Some(entry) = self.flows.get_mut(&id) else { return };
        entry.deleted = true;
        if let Some(key) = &entry.row.spec.idempotency_key {
            let name = KeyName { namespace: entry.row.namespace, scope: KeyScope::Flow, key: key.clone() };
            self.keys_removed.push((name, Some(ExecutionId(id.0))));
        }
    }

    /// Records something that happened to a flow and changed nothing in its own row.
    pub fn record_flow(&mut self, id: FlowId, fact: Fact, actor: Option<Name>) {
        let Some(FlowEntry { row, .. }) = self.flows.get(&id) else { return };
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

    /// The execution that has this name in a flow.
    pub fn node(&self, flow: FlowId, name: &Name) -> Option<ExecutionId> {
        self.nodes.get(&(flow, name.clone())).copied()
    }

    /// Whether these members were asked for.
    pub fn knows_members(&self, asked: &Members) -> bool {
        self.members.contains_key(asked)
    }

    /// The members that were asked for, in order.
    pub fn members(&self, asked: &Members) -> &[ExecutionId] {
        self.members.get(asked).map_or(&[], Vec::as_slice)
    }

    /// A row of the outbox, as it stands now.
    pub fn outbox(&self, name: OutboxName) -> Option<&OutboxRow> {
        self.outbox.get(&name)
    }

    /// Writes a row of the outbox.
    pub fn put_outbox(&mut self, row: OutboxRow) {
        self.outbox_removed.remove(&row.name);
        self.outbox.insert(row.name, row.clone());
        self.outbox_put.insert(row.name, row);
    }

    /// Takes a row out of the outbox: its work is done.
    pub fn remove_outbox(&mut self, name: OutboxName) {
        self.outbox_put.remove(&name);
        self.outbox.remove(&name);
        self.outbox_removed.insert(name);
    }

    /// Leaves work about an execution to be done after this commit, from its beginning.
    pub fn leave(&mut self, kind: OutboxKind, id: ExecutionId) {
        let Some(row) = self.executions.get(&id).map(|entry| &entry.row) else { return };
        let (at, namespace, tags) = (self.now, row.namespace, row.tags.clone());
        self.put_outbox(OutboxRow { name: OutboxName { id: id.0, kind }, at, position: 0, namespace, tags });
    }

    /// Whoever spawned an execution that has ended may wait for that.
    pub(super) fn leave_to_parent(&mut self, id: ExecutionId) {
        let Some(row) = self.executions.get(&id).map(|entry| &entry.row) else { return };
        let Some(parent) = row.spec.node.as_ref().and_then(|node| node.parent) else { return };
        let name = OutboxName { id: parent.0, kind: OutboxKind::Parent };
        let (at, namespace, tags) = (self.now, row.namespace, row.tags.clone());
        self.put_outbox(OutboxRow { name, at, position: 0, namespace, tags });
    }

    /// What this transaction leaves to be done.
    pub fn left(&self) -> impl Iterator<Item = &OutboxRow> {
        self.outbox_put.values()
    }

    /// A stream, as it stands now; one without frames where none was found.
    pub fn stream(&self, name: StreamName) -> Stream {
        self.streams.get(&name).cloned().unwrap_or_else(|| Stream::new(name))
    }

    /// Writes a stream.
    pub fn put_stream(&mut self, stream: Stream) {
        self.streams_written.insert(stream.name);
        self.streams.insert(stream.name, stream);
    }

    /// Adds a frame.
    pub fn add_frame(&mut self, frame: Frame) {
        self.frames.push(frame);
    }

    /// Deletes the best-effort frames of a stream with smaller numbers.
    pub fn drop_frames(&mut self, stream: StreamName, before: u32) {
        self.frames_dropped.insert(stream, before);
    }

    /// The streams that this transaction has appended to.
    pub fn streamed(&self) -> impl Iterator<Item = StreamName> {
        self.streams_written.iter().copied()
    }

    /// Whom this transaction has ended or opened again, and has not yet told to their downstreams.
    pub fn turned(&self) -> Vec<ExecutionId> {
        self.turned.iter().copied().collect()
    }

    /// The downstreams of everything that this transaction has ended or opened again.
    pub fn downstreams_of_turned(&self) -> BTreeSet<ExecutionId> {
        let turned = self.turned.iter().filter_map(|id| self.executions.get(id));
        turned.flat_map(|entry| entry.row.wiring().downstreams.iter().map(|one| one.execution)).collect()
    }

    /// The downstreams of an execution were told.
    pub fn told(&mut self, id: ExecutionId) {
        self.turned.remove(&id);
    }
}
