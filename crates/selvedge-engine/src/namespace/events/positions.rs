//! The history of one execution as a list of events, with the cursors of the log for all events that the log still has.
//!
//! A row is written before its transaction's entry of the log is numbered, so the history does not know the positions of
//! its lines. They are searched by time: entries are in the order of their times, except for concurrent transactions. A
//! line is found near the place that a bisection returns, and later lines of the execution come after it.

use crate::Error;
use crate::namespace::{Namespace, PublicEvent};
use crate::notify::ReadEntry;
use selvedge_core::history::HistoryLine;
use selvedge_core::log::{Cursor, Event, Mark, check, last_event, unpack};
use selvedge_core::{ExecutionId, Timestamp};
use selvedge_store::LogLimit;
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

/// The maximum time by which two entries may be out of order, in milliseconds.
const OUT_OF_ORDER_MS: i64 = 60_000;
/// The numbers of entries around the found place that are searched, one after the other. Only entries of concurrent
/// transactions are out of order, so the first is nearly always enough.
const AROUND: [i64; 3] = [100, 2_000, 20_000];
/// The number of entries per read.
const ENTRIES_PER_READ: u32 = 500;
/// The size of the entries per read, in bytes.
const BYTES_PER_READ: u32 = 256 * 1024;
/// The longest time that a line waits for the log: an entry is readable once all entries before it are.
const LOG_WAIT: Duration = Duration::from_secs(1);
/// The pause between two searches for a line that is newer than the log.
const LOG_PAUSE: Duration = Duration::from_millis(10);
/// The number of digits of a cursor of the history itself: 8 for the version, 2 for the event of that version.
const OWN_DIGITS: usize = 10;

/// The place of a fact in the log.
#[derive(Clone, Copy)]
struct Place {
    entry: i64,
    fact: u32,
    /// The check of the entry.
    check: u32,
    /// The last event of the namespace in the entry.
    last: Option<Cursor>,
}

impl Namespace {
    /// Returns a page of an execution's own history, oldest first, and the cursor of the next page. The events have the
    /// cursors of the log while the log has them, else cursors of this list. `after` may be either.
    pub async fn history_page(
        &self,
        id: ExecutionId,
        after: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<PublicEvent>, Option<String>), Error> {
        let (row, history) = self.read_history(id).await?;
        let mut events = self.public_history(&row, &history);
        let mut lines = history.lines;
        if let Some(after) = after {
            let after = self.own_cursor(id, after).await?;
            events.retain(|event| event.cursor > after);
        }
        let more = events.len() > limit;
        events.truncate(limit);
        let next = events.last().map(|event| event.cursor.clone()).filter(|_| more);
        lines.retain(|line| events.iter().any(|event| event.version == Some(line.version)));
        let places = self.find_lines(id, &lines).await?;
        for event in &mut events {
            let index = u16::from_str_radix(&event.cursor[OWN_DIGITS - 2..], 16).unwrap_or_default();
            let place = event.version.and_then(|version| places.get(&version)).copied();
            if let Some(Place { entry, fact, check, last }) = place {
                let cursor = Cursor { entry, fact, event: index + 1 };
                event.cursor = cursor.encode(Some(Mark { check, is_last: last == Some(cursor) }));
            }
        }
        Ok((events, next))
    }

    /// Returns the cursor of the history itself for one of its cursors or one of the log.
    async fn own_cursor(&self, id: ExecutionId, cursor: &str) -> Result<String, Error> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if cursor.len() == OWN_DIGITS && cursor.bytes().all(is_digit) {
            return Ok(cursor.to_owned());
        }
        let (Cursor { entry, fact, event }, mark) = Cursor::decode(cursor).ok_or(Error::InvalidCursor)?;
        let page = self.inner().store.log_after(entry.saturating_sub(1).max(0), 1).await?;
        if page.oldest > entry {
            return Err(Error::CursorExpired);
        }
        let found = page.entries.first().filter(|found| found.number == entry);
        let Some(found) = found.filter(|found| mark.is_none_or(|mark| mark.check == check(&found.body)))
        else {
            return Err(Error::CursorUnknown);
        };
        let events = unpack(&found.body).unwrap_or_default();
        let of_this = events.get(fact as usize).filter(|event| event.execution == Some(id));
        match (of_this.and_then(|event| event.version), event.checked_sub(1)) {
            (Some(version), Some(index)) => Ok(format!("{version:08x}{index:02x}")),
            (None, _) | (_, None) => Err(Error::InvalidCursor),
        }
    }

    /// Returns the places of lines in the log, by version. Lines that the log no longer has are missing.
    async fn find_lines(&self, id: ExecutionId, lines: &[HistoryLine]) -> Result<HashMap<u32, Place>, Error> {
        let mut found = HashMap::new();
        let deadline = Instant::now() + LOG_WAIT;
        let oldest = self.entry_time(0).await?;
        let may_be_logged =
            |line: &&HistoryLine| oldest.is_none_or(|(_, at)| at <= line.at.plus_ms(OUT_OF_ORDER_MS));
        let mut previous = 0;
        let mut window = Window::default();
        for line in lines.iter().filter(may_be_logged) {
            let place = loop {
                if let Some(place) = window.find(id, line) {
                    break Some(place);
                }
                let newest = self.inner().store.log_after(i64::MAX - 1, 1).await?.upto;
                if let Some(place) = self.search(id, line, (previous, newest), &mut window).await? {
                    break Some(place);
                }
                let is_recent = self.now().await? <= line.at.plus_ms(OUT_OF_ORDER_MS);
                if !is_recent || Instant::now() >= deadline {
                    break None;
                }
                tokio::time::sleep(LOG_PAUSE).await;
            };
            if let Some(place) = place {
                previous = place.entry;
                found.insert(line.version, place);
            }
        }
        Ok(found)
    }

    /// Searches a line among the entries from `first` to `newest`.
    async fn search(
        &self,
        id: ExecutionId,
        line: &HistoryLine,
        (first, newest): (i64, i64),
        window: &mut Window,
    ) -> Result<Option<Place>, Error> {
        let near = self.bisect(line.at, (first.saturating_sub(1), newest)).await?;
        for around in AROUND {
            let (from, until) = ((near - around).max(first - 1).max(0), (near + around).min(newest));
            let mut after = from;
            while after < until {
                *window = self.read_window(after).await?;
                if let Some(place) = window.find(id, line) {
                    return Ok(Some(place));
                }
                match window.entries.last() {
                    Some(last) => after = last.number,
                    None => break,
                }
            }
            if (from, until) == ((first - 1).max(0), newest) {
                break;
            }
        }
        Ok(None)
    }

    /// Returns a number such that entries up to it are earlier than a time, and the next one is not, as far as entries
    /// are in order.
    async fn bisect(&self, time: Timestamp, (mut before, mut end): (i64, i64)) -> Result<i64, Error> {
        before = before.max(0);
        while before < end {
            let middle = before + (end - before) / 2;
            match self.entry_time(middle).await? {
                Some((number, at)) if at < time && number <= end => before = number,
                Some(_) | None => end = middle,
            }
        }
        Ok(before)
    }

    /// Returns the number and time of the first entry after a number.
    async fn entry_time(&self, after: i64) -> Result<Option<(i64, Timestamp)>, Error> {
        let page = self.inner().store.log_after(after.max(0), 1).await?;
        let entry = page.entries.into_iter().next().map(|entry| self.inner().tail.entries().read(entry));
        Ok(entry.map(|entry| (entry.number, entry.at)))
    }

    async fn read_window(&self, after: i64) -> Result<Window, Error> {
        let limit = LogLimit { entries: ENTRIES_PER_READ, bytes: BYTES_PER_READ };
        let page = self.inner().store.log_page(after, limit).await?;
        let reader = self.inner().tail.entries();
        Ok(Window { entries: page.entries.into_iter().map(|entry| reader.read(entry)).collect() })
    }
}

/// Entries of the log that were read together.
#[derive(Default)]
struct Window {
    entries: Vec<ReadEntry>,
}

impl Window {
    fn find(&self, id: ExecutionId, line: &HistoryLine) -> Option<Place> {
        let is_line = |event: &Event| {
            (event.execution, event.version, event.at) == (Some(id), Some(line.version), line.at)
                && event.fact == line.fact
        };
        self.entries.iter().find_map(|entry| {
            // An unreadable entry hides only its own events.
            let events = entry.events.as_ref()?;
            let fact = events.iter().position(is_line)?;
            let last = last_event(entry.number, events, events[fact].namespace);
            Some(Place { entry: entry.number, fact: fact as u32, check: entry.check, last })
        })
    }
}
