//! The part of the log that a reader has read and not yet delivered.
//!
//! An unpacked entry needs several times the memory of its body, and a reader may be slow. So a reader that is behind keeps
//! entries packed, at most [`BACKLOG_BYTES`] of them, and unpacks one fact at a time. Of a larger entry it keeps a part, and
//! reads the entry again when it has delivered that. A reader that follows the tail keeps nothing: it looks at a segment that
//! the tail owns, and reads the log again if the tail has dropped the segment.

use super::entries::{EntryReader, Position};
use super::tail::EntryRun;
use crate::PublicEvent;
use crate::namespace::{EventSelection, FactPlace};
use bytes::Bytes;
use selvedge_core::NamespaceId;
use selvedge_core::log::{Cursor, Mark, PackedFacts, Unreadable, check, last_event, last_of_fact};
use selvedge_store::{Entries, Entry};
use std::collections::VecDeque;
use std::sync::Weak;

/// The maximum size of the entries that a reader keeps, in bytes. A single fact may be larger.
pub const BACKLOG_BYTES: usize = 64 * 1024;

/// Packed entries of the log behind a position.
pub struct Backlog {
    /// Entries that were not begun.
    entries: VecDeque<Entry>,
    begun: Option<BegunEntry>,
    /// True if more of the log can be read at once, when this is delivered.
    pub more: bool,
}

/// An entry of which some facts were delivered.
struct BegunEntry {
    number: i64,
    check: u32,
    /// The position of the last event of the reader's namespace.
    last: Option<Cursor>,
    facts: PackedFacts,
    /// The facts that follow.
    rest: Bytes,
    /// True if the rest ends before the entry does.
    is_cut: bool,
}

/// The result of one step of a reader. Selected events are added to its queue.
pub enum Step {
    /// A fact or an entry was passed; its body has this size.
    Passed(usize),
    /// Everything was delivered.
    End,
}

impl Backlog {
    /// Keeps what the page has behind a position.
    pub fn new(page: Entries, after: Position, namespace: NamespaceId, reader: &EntryReader) -> Backlog {
        let mut backlog = Backlog { entries: VecDeque::new(), begun: None, more: page.is_full };
        let mut bytes = 0;
        for entry in page.entries {
            if Cursor::end_of(entry.number) <= after.cursor {
                continue;
            }
            let is_large = entry.body.len() > BACKLOG_BYTES;
            if bytes == 0 && is_large {
                // Begun at once, so that the rest of its body is dropped. An unreadable one is passed by the next step.
                if !backlog.begin(entry.clone(), after.cursor, namespace, reader) {
                    backlog.entries.push_back(entry);
                }
                backlog.more = true;
                break;
            }
            bytes += entry.body.len();
            if bytes > BACKLOG_BYTES {
                backlog.more = true;
                break;
            }
            backlog.entries.push_back(entry);
        }
        backlog
    }

    /// Passes the next fact.
    pub fn step(
        &mut self,
        selection: &EventSelection<'_>,
        reader: &EntryReader,
        after: &mut Position,
        events: &mut VecDeque<PublicEvent>,
    ) -> Step {
        if self.begun.is_none() {
            let Some(entry) = self.entries.pop_front() else { return Step::End };
            let (number, at, size, check) = (entry.number, entry.at, entry.body.len(), check(&entry.body));
            if !self.begin(entry, after.cursor, selection.namespace, reader) {
                events.extend(selection.unreadable(number, check, at, after.cursor));
                after.pass(Position::after(number, check));
                return Step::Passed(size);
            }
        }
        let Some(entry) = &mut self.begun else { return Step::End };
        let size = entry.rest.len();
        let fact = entry.facts.next();
        let mut rest = &entry.rest[..];
        // The entry was decoded when it was begun, so no fact fails now.
        match entry.facts.take(&mut rest).ok().flatten() {
            Some(event) => {
                let (number, check, last) = (entry.number, entry.check, entry.last);
                let place = FactPlace { entry: number, check, last, fact };
                events.extend(selection.of_fact(place, &event, after.cursor));
                let cursor = Cursor::end_of_fact(number, fact);
                let is_last = last.is_none_or(|last| last <= cursor);
                after.pass(Position { cursor, mark: Some(Mark { check, is_last }) });
                let left = rest.len();
                entry.rest = entry.rest.slice(size - left..);
                Step::Passed(size - left)
            }
            None => {
                if !entry.is_cut {
                    after.pass(Position::after(entry.number, entry.check));
                }
                self.begun = None;
                Step::Passed(0)
            }
        }
    }

    /// Begins an entry with the first fact behind a position. Returns false if the entry is unreadable.
    fn begin(&mut self, entry: Entry, after: Cursor, namespace: NamespaceId, reader: &EntryReader) -> bool {
        let number = entry.number;
        match BegunEntry::new(&entry, after, namespace) {
            Ok(begun) => {
                self.begun = Some(begun);
                true
            }
            Err(error) => {
                reader.count_unreadable(number, &error);
                false
            }
        }
    }
}

impl BegunEntry {
    fn new(entry: &Entry, after: Cursor, namespace: NamespaceId) -> Result<BegunEntry, Unreadable> {
        let number = entry.number;
        // A position at the end of a fact continues with the next one, others may be within their fact.
        let first = match after {
            Cursor { entry, fact, event: u16::MAX } if entry == number => fact.saturating_add(1),
            Cursor { entry, fact, .. } if entry == number => fact,
            Cursor { .. } => 0,
        };
        let size = entry.body.len();
        let (mut facts, mut rest) = PackedFacts::begin(&entry.body)?;
        let mut begin = (facts, size - rest.len());
        let mut end = size;
        let mut last = None;
        loop {
            let (place, offset) = (facts, size - rest.len());
            if place.next() <= first {
                begin = (place, offset);
            }
            let Some(event) = facts.take(&mut rest)? else { break };
            last = last_of_fact(number, place.next(), &event, namespace).or(last);
            let is_reached = place.next() >= first && size - rest.len() - begin.1 >= BACKLOG_BYTES;
            if is_reached && end == size {
                end = size - rest.len();
            }
        }
        let (facts, from) = begin;
        let is_cut = end < size;
        let rest = entry.body.slice(from..end);
        // A slice would keep the whole body.
        let rest = if rest.len() < size / 2 { Bytes::copy_from_slice(&rest) } else { rest };
        Ok(BegunEntry { number, check: check(&entry.body), last, facts, rest, is_cut })
    }
}

/// The place of a reader in a run of entries that the tail has unpacked.
pub struct RunReader {
    run: Weak<EntryRun>,
    entry: usize,
    fact: usize,
    /// The position of the last event of the reader's namespace in the entry; none until the entry is begun.
    last: Option<Option<Cursor>>,
}

impl RunReader {
    /// Begins with the first entry.
    pub fn new(run: Weak<EntryRun>) -> RunReader {
        RunReader { run, entry: 0, fact: 0, last: None }
    }

    /// Passes facts until one has a selected event. Returns false if the tail has dropped the run.
    pub fn read(
        &mut self,
        selection: &EventSelection<'_>,
        after: &mut Position,
        events: &mut VecDeque<PublicEvent>,
    ) -> Option<Step> {
        let run = self.run.upgrade()?;
        while events.is_empty() {
            let Some(entry) = run.entries.get(self.entry) else { return Some(Step::End) };
            let (number, check) = (entry.number, entry.check);
            let facts = match &entry.events {
                Some(facts) if Cursor::end_of(number) > after.cursor => facts.as_slice(),
                None if Cursor::end_of(number) > after.cursor => {
                    events.extend(selection.unreadable(number, check, entry.at, after.cursor));
                    &[]
                }
                Some(_) | None => &[],
            };
            let Some(event) = facts.get(self.fact) else {
                after.pass(Position::after(number, check));
                *self = RunReader { run: self.run.clone(), entry: self.entry + 1, fact: 0, last: None };
                continue;
            };
            let last = *self.last.get_or_insert_with(|| last_event(number, facts, selection.namespace));
            let fact = self.fact as u32;
            events.extend(selection.of_fact(
                FactPlace { entry: number, check, last, fact },
                event,
                after.cursor,
            ));
            let cursor = Cursor::end_of_fact(number, fact);
            let is_last = last.is_none_or(|last| last <= cursor);
            after.pass(Position { cursor, mark: Some(Mark { check, is_last }) });
            self.fact += 1;
        }
        Some(Step::Passed(0))
    }
}
