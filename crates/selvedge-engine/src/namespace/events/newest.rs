//! The newest events of the log, at a bounded cost.
//!
//! A page from a time has to read everything since then, which on a busy server is more than a person can look at. This looks
//! at the newest entries instead, and at more of them while few events match and little time has passed.

use super::{EventFilter, EventPage, From};
use crate::Error;
use crate::namespace::Namespace;
use crate::notify::Position;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The number of entries that are looked at first, and at the most. Each look takes four times as many.
const ENTRIES: (i64, i64) = (4, 4096);
/// The most pages that one look reads, so that it ends although the log grows.
const PAGES_MAX: usize = 100;

impl Namespace {
    /// Returns the newest events that match, at most `limit`, oldest first, and the cursor to continue from. After `looking` it
    /// begins no further look at older entries; the last one takes up to four times as long.
    pub async fn newest_events(
        &self,
        filter: &EventFilter,
        limit: usize,
        looking: Duration,
    ) -> Result<EventPage, Error> {
        let begun = Instant::now();
        let newest = self.newest_entry().await?;
        let mut span = ENTRIES.0;
        loop {
            let page = self.events_behind(filter, newest - span, limit).await?;
            let is_all = newest <= span || span >= ENTRIES.1;
            if page.items.len() >= limit || is_all || begun.elapsed() >= looking {
                return Ok(page);
            }
            span *= 4;
        }
    }

    /// Returns the last `limit` events that match behind an entry.
    async fn events_behind(
        &self,
        filter: &EventFilter,
        entry: i64,
        limit: usize,
    ) -> Result<EventPage, Error> {
        let mut from = match entry {
            ..=0 => From::Beginning,
            entry => From::Cursor(self.position_at(entry).await?.encode()),
        };
        let mut kept = VecDeque::new();
        let mut next = None;
        for _ in 0..PAGES_MAX {
            let page = self.events(filter, from, limit).await?;
            kept.extend(page.items);
            kept.drain(..kept.len().saturating_sub(limit));
            next = page.next.or(next);
            match (&next, page.at_end) {
                (Some(cursor), false) => from = From::Cursor(cursor.clone()),
                _ => return Ok(EventPage { items: kept.into(), next, at_end: true }),
            }
        }
        Ok(EventPage { items: kept.into(), next, at_end: false })
    }

    /// Returns the position behind the first entry that has at least this number.
    async fn position_at(&self, entry: i64) -> Result<Position, Error> {
        let page = self.inner().store.log_after(entry - 1, 1).await?;
        let found = page.entries.into_iter().next().map(|entry| self.inner().tail.entries().read(entry));
        Ok(found.map_or(Position::BEGINNING, |entry| Position::after(entry.number, entry.check)))
    }
}
