//! Entries of the log as readers pass them on: unpacked, or known to be unreadable.
//!
//! An entry is unreadable if its bytes are damaged, or if a newer version wrote it. It must not block the entries behind it,
//! so readers pass it and publish one event in its place. Nothing is known of its namespaces, so all of them get that event.

use crate::locking::lock;
use selvedge_core::Timestamp;
use selvedge_core::log::{Cursor, Event, Mark, Unreadable, check, unpack};
use selvedge_store::Entry;
use std::collections::BTreeSet;
use std::sync::Mutex;

/// The maximum number of unreadable entries that are remembered, so that each is counted and logged once.
const REMEMBERED: usize = 10_000;

/// Unpacks entries and counts the unreadable ones.
#[derive(Default)]
pub struct EntryReader(Mutex<UnreadableEntries>);

#[derive(Default)]
struct UnreadableEntries {
    count: u64,
    numbers: BTreeSet<i64>,
}

/// An entry of the log.
pub struct ReadEntry {
    /// The entry's number.
    pub number: i64,
    /// The check of the entry's body.
    pub check: u32,
    /// The time of the transaction; of an unreadable entry, the time at which it was appended.
    pub at: Timestamp,
    /// The facts; none if the entry is unreadable.
    pub events: Option<Vec<Event>>,
}

impl EntryReader {
    /// Unpacks an entry.
    pub fn read(&self, entry: Entry) -> ReadEntry {
        let Entry { number, at, body } = entry;
        let check = check(&body);
        match unpack(&body) {
            Ok(events) => {
                let at = events.first().map_or(at, |event| event.at);
                ReadEntry { number, check, at, events: Some(events) }
            }
            Err(error) => {
                self.count_unreadable(number, &error);
                ReadEntry { number, check, at, events: None }
            }
        }
    }

    /// Counts and logs an unreadable entry, once.
    pub fn count_unreadable(&self, number: i64, error: &Unreadable) {
        let mut unreadable = lock(&self.0);
        if unreadable.numbers.insert(number) {
            unreadable.count += 1;
            tracing::error!(entry = number, %error, "an entry of the log is unreadable; its readers pass it");
        }
        if unreadable.numbers.len() > REMEMBERED {
            unreadable.numbers.pop_first();
        }
    }

    /// Returns the number of unreadable entries that were read.
    pub fn unreadable(&self) -> u64 {
        lock(&self.0).count
    }
}

/// A position in the log, with the mark of its entry where it is known.
#[derive(Clone, Copy, Debug)]
pub struct Position {
    pub cursor: Cursor,
    /// The mark of the cursor's entry. None for a cursor of an earlier version, and for an entry that is no longer in the
    /// log.
    pub mark: Option<Mark>,
}

impl Position {
    /// The position before every event.
    pub const BEGINNING: Position = Position { cursor: Cursor::BEGINNING, mark: None };

    /// Returns the position after every event of an entry with this number and check.
    pub fn after(number: i64, check: u32) -> Position {
        Position { cursor: Cursor::end_of(number), mark: Some(Mark { check, is_last: true }) }
    }

    /// Returns the position after an entry that is no longer in the log.
    pub fn after_dropped(entry: i64) -> Position {
        Position { cursor: Cursor::end_of(entry), mark: None }
    }

    /// Moves the position to a later one. Does nothing if it already is behind that.
    pub fn pass(&mut self, later: Position) {
        if later.cursor > self.cursor {
            *self = later;
        }
    }

    /// Encodes the position as a public cursor.
    pub fn encode(self) -> String {
        self.cursor.encode(self.mark)
    }
}
