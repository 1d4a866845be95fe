//! The changes of a transaction, for the store to save.

use super::Work;
use crate::ExecutionId;
use crate::flow::Counts;
use crate::outbox::OutboxKind;
use crate::rows::{Changes, Inserted, Payload, ResultChange, UnreadWrites, Updated};
use crate::table::{Entries, Guarded, Table};
use crate::{Execution, Flow, FlowId, Session, SessionId};
use std::collections::{BTreeMap, HashSet};

impl Work {
    /// Returns all changes. Enqueues, in the outbox, the executions that ended or reopened and whose downstreams were
    /// not updated. This is the only place that does so, whatever ended them.
    pub fn finish(mut self) -> Changes {
        for id in std::mem::take(&mut self.unpropagated) {
            if self.executions.get(&id).is_some_and(|row| !row.wiring().downstreams.is_empty()) {
                self.enqueue(OutboxKind::Edges, id);
            }
        }
        let mut executions = executions(self.executions);
        let deleted: HashSet<ExecutionId> = executions.deleted.iter().map(|(id, _)| *id).collect();
        executions.deleted.extend(self.replaced);
        executions.deleted.sort_unstable();
        let (flows, flow_counts) = flows(self.flows, self.flow_counts);
        self.keys_removed.sort();
        let mut changes = Changes {
            executions,
            history_pages: self.history_pages,
            tags: Entries {
                written: self.tags.added.into_iter().collect(),
                removed: self.tags.removed.into_iter().collect(),
            },
            keys: Entries { written: self.keys.into_written(), removed: self.keys_removed },
            sessions: sessions(self.sessions),
            flows,
            nodes: Entries {
                written: self.nodes_added.into_iter().collect(),
                removed: self.nodes_removed.into_iter().collect(),
            },
            outbox: self.outbox.into_entries(),
            streams: self.streams.into_written(),
            frames: self.frames,
            unread: UnreadWrites {
                flow_counts,
                frames_dropped: self.frames_dropped.into_iter().collect(),
                ..UnreadWrites::default()
            },
            schedules: self.schedules.into_guarded(),
            events: self.events,
            ..Changes::default()
        };
        self.records.finish(&mut changes);
        self.webhooks.finish(&mut changes);
        self.gates.finish(&mut changes);
        changes.history_pages.retain(|page| !deleted.contains(&page.execution));
        changes.signals.retain(|signal| !deleted.contains(&signal.execution));
        changes.steps.retain(|step| !deleted.contains(&step.execution));
        changes.waitpoints.retain(|waitpoint| !deleted.contains(&waitpoint.execution));
        changes.unread.signals_taken.retain(|(execution, ..)| !deleted.contains(execution));
        changes
    }
}

/// Returns the writes of executions.
fn executions(table: Table<Execution>) -> Guarded<Inserted, Updated, ExecutionId> {
    let mut writes = Guarded::default();
    for (id, entry) in table.into_changed() {
        let deleted = entry.is_deleted();
        match (entry.stored(), deleted) {
            (Some(version), true) => writes.deleted.push((id, version)),
            (None, true) => {}
            (None, false) => writes.inserted.push(Inserted {
                execution: entry.row,
                input: entry.extra.input.as_ref().and_then(Payload::whole).cloned().unwrap_or_default(),
                result: match entry.extra.result {
                    ResultChange::Set(result) => Some(result),
                    ResultChange::Keep | ResultChange::Clear => None,
                },
            }),
            (Some(expected_version), false) => writes.updated.push(Updated {
                execution: entry.row,
                expected_version,
                input: entry
                    .extra
                    .input
                    .filter(|_| entry.extra.replaces_input)
                    .and_then(|input| input.whole().cloned()),
                result: entry.extra.result,
                rewired: entry.extra.rewired,
            }),
        }
    }
    writes
}

type FlowWrites = Guarded<Flow, (Flow, u32), FlowId>;

/// Returns the writes of flows, and the additions to counts. A new flow is inserted with its counts; other counts are
/// added by the store.
fn flows(table: Table<Flow>, mut counts: BTreeMap<FlowId, Counts>) -> (FlowWrites, Vec<(FlowId, Counts)>) {
    let mut writes = table.into_guarded();
    for flow in &mut writes.inserted {
        flow.counts += counts.remove(&flow.id).unwrap_or_default();
    }
    for (id, _) in &writes.deleted {
        counts.remove(id);
    }
    (writes, counts.into_iter().filter(|(_, more)| !more.is_zero()).collect())
}

/// Returns the writes of sessions. A session that replaces its stored row is both removed and written.
fn sessions(table: Table<Session>) -> Entries<Session, SessionId> {
    let mut writes = Entries::default();
    for (id, entry) in table.into_changed() {
        if entry.is_deleted() || entry.extra.reset {
            writes.removed.push(id);
        }
        if !entry.is_deleted() {
            writes.written.push(entry.row);
        }
    }
    writes
}
