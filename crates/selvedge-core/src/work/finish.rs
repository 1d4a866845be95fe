//! What a transaction changed, for the store to save.

use super::Work;
use crate::ExecutionId;
use crate::outbox::OutboxKind;
use crate::rows::{Changes, Inserted, ResultChange, Updated};
use std::collections::HashSet;

impl Work {
    /// Everything that changed, in the order in which it is saved. Whom this transaction has ended or opened again without
    /// telling its downstreams goes to the outbox: this is the one place, whatever ended it.
    pub fn finish(mut self) -> Changes {
        for id in std::mem::take(&mut self.turned) {
            let waits = self
                .executions
                .get(&id)
                .is_some_and(|entry| !entry.deleted && !entry.row.wiring().downstreams.is_empty());
            if waits {
                self.leave(OutboxKind::Edges, id);
            }
        }
        let mut changes = Changes::default();
        self.finish_flows(&mut changes);
        std::mem::take(&mut self.records).finish(&mut changes);
        std::mem::take(&mut self.gates).finish(&mut changes);
        // Sorted before they are unpacked: rows are large.
        let mut entries: Vec<_> = self.executions.into_iter().collect();
        entries.sort_unstable_by_key(|(id, _)| *id);
        for (id, entry) in entries {
            let entry = *entry;
            let changed = entry.stored != Some(entry.row.version);
            match (entry.stored, entry.deleted) {
                (Some(version), true) => changes.deleted.push((id, version)),
                (None, true) => {}
                (None, false) => changes.inserted.push(Inserted {
                    execution: entry.row,
                    input: entry.input.unwrap_or_default(),
                    result: match entry.result {
                        ResultChange::Set(result) => Some(result),
                        ResultChange::Keep | ResultChange::Clear => None,
                    },
                }),
                (Some(expected_version), false) if changed => {
                    changes.updated.push(Updated {
                        execution: entry.row,
                        expected_version,
                        result: entry.result,
                        rewired: entry.rewired,
                    });
                }
                (Some(_), false) => {}
            }
        }
        let deleted: HashSet<ExecutionId> = changes.deleted.iter().map(|(id, _)| *id).collect();
        changes.deleted.extend(self.replaced);
        changes.deleted.sort_unstable();
        changes.pages = self.pages;
        changes.pages.retain(|page| !deleted.contains(&page.execution));
        changes.signals_added.retain(|signal| !deleted.contains(&signal.execution));
        changes.signals_taken.retain(|(execution, ..)| !deleted.contains(execution));
        changes.steps.retain(|step| !deleted.contains(&step.execution));
        changes.waitpoints.retain(|waitpoint| !deleted.contains(&waitpoint.execution));
        changes.tags_removed = self.tags_removed.into_iter().collect();
        changes.tags_added = self.tags_added.into_iter().collect();
        changes.keys_removed = self.keys_removed;
        changes.keys_removed.sort();
        let mut keys = self.keys;
        changes.keys_added = self.keys_added.iter().filter_map(|name| keys.remove(name)).collect();
        changes.keys_added.sort_by(|a, b| a.name.cmp(&b.name));
        let mut sessions = self.sessions;
        changes.sessions = self.sessions_written.iter().filter_map(|id| sessions.remove(id)).collect();
        changes.sessions_removed = self.sessions_removed.into_iter().collect();
        changes.events = self.events;
        changes
    }

    fn finish_flows(&mut self, changes: &mut Changes) {
        let mut counted = std::mem::take(&mut self.counted);
        for (id, mut entry) in std::mem::take(&mut self.flows) {
            match (entry.stored, entry.deleted) {
                (Some(version), true) => {
                    counted.remove(&id);
                    changes.flows_deleted.push((id, version));
                }
                (None, true) => {}
                (None, false) => {
                    entry.row.counts += counted.remove(&id).unwrap_or_default();
                    changes.flows_inserted.push(entry.row);
                }
                (Some(version), false) if entry.row.version != version => {
                    changes.flows_updated.push((entry.row, version));
                }
                (Some(_), false) => {}
            }
        }
        changes.flows_inserted.sort_unstable_by_key(|flow| flow.id);
        changes.flows_updated.sort_unstable_by_key(|(flow, _)| flow.id);
        changes.flows_deleted.sort_unstable();
        changes.counted = counted.into_iter().filter(|(_, more)| !more.is_zero()).collect();
        changes.nodes_added = std::mem::take(&mut self.nodes_added).into_iter().collect();
        changes.nodes_removed = std::mem::take(&mut self.nodes_removed).into_iter().collect();
        changes.outbox_put = std::mem::take(&mut self.outbox_put).into_values().collect();
        changes.outbox_removed = std::mem::take(&mut self.outbox_removed).into_iter().collect();
        let written = std::mem::take(&mut self.streams_written);
        changes.streams = written.iter().filter_map(|name| self.streams.remove(name)).collect();
        changes.frames = std::mem::take(&mut self.frames);
        changes.frames_dropped = std::mem::take(&mut self.frames_dropped).into_iter().collect();
    }
}
