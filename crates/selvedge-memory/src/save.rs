//! Saves the changes of a decision, all or nothing: the guards are checked before anything changes.

use crate::tables::{Record, Tables};
use selvedge_core::log::pack;
use selvedge_core::rows::{Inserted, KeyName, KeySubject, ResultChange, Updated};
use selvedge_core::{Changes, ExecutionId, FlowId, Timestamp};
use selvedge_store::merge;

impl Tables {
    /// Saves `changes`. Returns the number of the log entry, if one was written, and the flows that are left without a
    /// live member; none if a guard failed and nothing was changed.
    pub fn save(&mut self, mut changes: Changes, now: Timestamp) -> Option<(Option<i64>, Vec<FlowId>)> {
        if !self.guards_hold(&changes)
            || !self.flow_guards_hold(&changes)
            || !self.gates.guards_hold(&changes)
            || !self.webhooks.guards_hold(&changes)
            || !self.schedules.guards_hold(&changes)
        {
            return None;
        }
        if changes.is_empty() {
            return Some((None, Vec::new()));
        }
        let emptied = self.save_flows(&changes);
        self.records.save(&mut changes);
        self.gates.save(&changes, now);
        self.webhooks.save(&changes);
        self.schedules.save(&changes);
        self.save_executions(
            &changes.executions.deleted,
            changes.executions.inserted,
            changes.executions.updated,
        );
        for (id, _) in &changes.executions.deleted {
            self.take_pages(*id);
            self.take_streams(*id);
        }
        self.save_streams(changes.streams, changes.frames, &changes.unread.frames_dropped);
        for page in changes.history_pages {
            self.pages.insert((page.execution, page.page), page.lines);
        }
        changes.tags.removed.into_iter().for_each(|tag| self.take_tag(tag));
        changes.tags.written.into_iter().for_each(|tag| self.put_tag(tag));
        for (name, only_of) in &changes.keys.removed {
            if self.key_is_removed(name, *only_of) {
                self.take_key(name);
            }
        }
        changes.keys.written.into_iter().for_each(|key| self.put_key(key));
        for id in changes.sessions.removed {
            self.take_session(id);
        }
        for session in changes.sessions.written {
            let stored = self.take_session(session.id);
            self.put_session(merge::session(stored, session));
        }
        self.commits += 1;
        let entry = (!changes.events.is_empty()).then(|| {
            let at = changes.events.first().map(|event| event.at).unwrap_or_default();
            self.log.push_back((at, pack(&changes.events).into()));
            self.newest_entry()
        });
        Some((entry, emptied))
    }

    /// Returns true if no inserted execution or key exists and every updated or deleted execution has its expected
    /// version.
    fn guards_hold(&self, changes: &Changes) -> bool {
        let version = |id: ExecutionId| self.executions.get(&id).map(|record| record.execution.version);
        let goes = |id: ExecutionId| changes.executions.deleted.iter().any(|(gone, _)| *gone == id);
        let inserted = &changes.executions.inserted;
        let updated = changes.executions.updated.iter().map(|row| (row.execution.id, row.expected_version));
        inserted.iter().all(|row| version(row.execution.id).is_none() || goes(row.execution.id))
            && updated
                .chain(changes.executions.deleted.iter().copied())
                .all(|(id, expected)| version(id) == Some(expected))
            && changes.keys.written.iter().all(|added| {
                let mut removed = changes.keys.removed.iter();
                !self.keys.contains_key(&added.name)
                    || removed
                        .any(|(name, only_of)| *name == added.name && self.key_is_removed(name, *only_of))
            })
    }

    /// Returns true if a removal applies to a key. One that names an execution applies only to a key of that execution.
    fn key_is_removed(&self, name: &KeyName, only_of: Option<KeySubject>) -> bool {
        self.keys.get(name).is_some_and(|key| only_of.is_none() || key.subject == only_of)
    }

    fn save_executions(
        &mut self,
        deleted: &[(ExecutionId, u32)],
        inserted: Vec<Inserted>,
        updated: Vec<Updated>,
    ) {
        for (id, _) in deleted {
            self.take(*id);
        }
        for row in inserted {
            self.put(Record { execution: row.execution, input: row.input, result: row.result });
        }
        for row in updated {
            let Some(before) = self.take(row.execution.id) else {
                continue;
            };
            self.put(Record {
                execution: row.execution,
                input: row.input.unwrap_or(before.input),
                result: match row.result {
                    ResultChange::Keep => before.result,
                    ResultChange::Set(result) => Some(result),
                    ResultChange::Clear => None,
                },
            });
        }
    }
}
