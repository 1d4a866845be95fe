//! Pages of the event log, as public events.

mod newest;
mod positions;

use crate::Error;
use crate::namespace::Namespace;
use crate::namespace::executions::ReadHistory;
use crate::notify::{BACKLOG_BYTES, Backlog, ENTRIES_PER_READ, Position, Step};
use selvedge_core::fact::EVENT_TYPES;
use selvedge_core::log::{Cursor, Event, Mark, UNREADABLE, check};
use selvedge_core::{Execution, ExecutionId, FlowId, Name, NamespaceId, Timestamp};
use selvedge_store::{Entries, LogLimit};
use serde_json::{Value, json};
use std::collections::VecDeque;

/// The maximum time by which two consecutive entries may be out of order, in milliseconds.
const OUT_OF_ORDER_MS: i64 = 60_000;
/// The maximum number of entries scanned per page, so that a filter without matches still returns soon.
const SCAN_MAX: u32 = 20_000;
/// The total size of the facts at which a page ends, in bytes. The text of an event is a few times as long.
const PAGE_BYTES: usize = 1024 * 1024;

/// Selects events. All conditions that are set must match. Default: every event.
#[derive(Clone, Debug, Default)]
pub struct EventFilter {
    /// Only events of these types. Empty: all types.
    pub types: Vec<String>,
    /// Only events of this execution.
    pub execution: Option<ExecutionId>,
    /// Only events of this flow.
    pub flow: Option<FlowId>,
    /// Only events of executions with this tag.
    pub tag: Option<(String, String)>,
}

/// The start of a page or of a subscription.
#[derive(Clone, Debug)]
pub enum From {
    /// After this cursor.
    Cursor(String),
    /// At the oldest event in the log.
    Beginning,
    /// At the first event with this time or a later one.
    Time(Timestamp),
    /// After the newest event in the log.
    Now,
}

/// An event as callers see it.
#[derive(Clone, Debug, PartialEq)]
pub struct PublicEvent {
    /// The cursor of the event: its position in the log.
    pub cursor: String,
    /// The event type.
    pub kind: &'static str,
    /// The time of the transaction.
    pub at: Timestamp,
    pub namespace: Name,
    /// The execution, if the event concerns one.
    pub execution: Option<ExecutionId>,
    /// The flow, if the event concerns one.
    pub flow: Option<FlowId>,
    /// The version of the row after the change.
    pub version: Option<u32>,
    /// The actor who requested the change.
    pub actor: Option<Name>,
    /// Fields that depend on the type. Fields whose names end in `_at` are times in milliseconds.
    pub data: Value,
}

#[derive(Clone, Debug)]
pub struct EventPage {
    /// The events, oldest first.
    pub items: Vec<PublicEvent>,
    /// The cursor to continue from, after every event that this page scanned. None if the log is empty.
    pub next: Option<String>,
    /// True if the page reached the current end of the log.
    pub at_end: bool,
}

impl EventFilter {
    /// Selects the ends of executions.
    pub fn completions() -> Self {
        let ends = ["completed", "failed", "cancelled", "expired", "skipped"];
        EventFilter { types: ends.map(|end| format!("execution.{end}")).into(), ..EventFilter::default() }
    }

    /// Selects the events of leases.
    pub fn leases() -> Self {
        let all = EVENT_TYPES.iter().filter(|kind| kind.starts_with("lease."));
        EventFilter { types: all.map(|kind| (*kind).to_owned()).collect(), ..EventFilter::default() }
    }

    /// Reports whether an event matches, except for its type.
    fn matches(&self, event: &Event) -> bool {
        let flow = event.flow.or(event.execution.map(|id| FlowId(id.0)));
        self.execution.is_none_or(|wanted| event.execution == Some(wanted))
            && self.flow.is_none_or(|wanted| flow == Some(wanted))
            && self.tag.as_ref().is_none_or(|(name, value)| event.tags.get(name) == Some(value))
    }

    fn matches_type(&self, kind: &str) -> bool {
        self.types.is_empty() || self.types.iter().any(|wanted| wanted == kind)
    }
}

impl Namespace {
    /// Returns a page of at most `limit` events. It is shorter if the events are large.
    pub async fn events(&self, filter: &EventFilter, from: From, limit: usize) -> Result<EventPage, Error> {
        let now = matches!(from, From::Now);
        let (mut after, since) = self.resolve_start(from).await?;
        if now {
            return Ok(EventPage { items: Vec::new(), next: Some(after.encode()), at_end: true });
        }
        let selection = EventSelection { namespace: self.id(), name: self.name(), filter, since };
        let (mut items, mut item_bytes) = (Vec::new(), 0);
        let mut scanned = 0;
        let mut events = VecDeque::new();
        loop {
            let mut page = self.read_log_from(after).await?;
            let before = after.cursor;
            while let Step::Passed(size) =
                page.backlog.step(&selection, self.inner().tail.entries(), &mut after, &mut events)
            {
                item_bytes += if events.is_empty() { 0 } else { size };
                for event in events.drain(..) {
                    let cursor = event.cursor.clone();
                    items.push(event);
                    if items.len() == limit {
                        return Ok(EventPage { items, next: Some(cursor), at_end: false });
                    }
                }
                if item_bytes >= PAGE_BYTES {
                    return Ok(EventPage { items, next: Some(after.encode()), at_end: false });
                }
            }
            scanned += page.entries;
            let at_end = !page.backlog.more || after.cursor == before;
            if at_end || scanned >= SCAN_MAX {
                let next = (after.cursor != Cursor::BEGINNING).then(|| after.encode());
                return Ok(EventPage { items, next, at_end });
            }
        }
    }

    /// Returns the position to start from, and the time before which events are left out.
    pub(crate) async fn resolve_start(&self, from: From) -> Result<(Position, Option<Timestamp>), Error> {
        match from {
            From::Cursor(text) => {
                let (cursor, mark) = Cursor::decode(&text).ok_or(Error::InvalidCursor)?;
                let position = Position { cursor, mark };
                let page = self.inner().store.log_after(before_entry(cursor), 1).await?;
                check_position(&page, position)?;
                Ok((position, None))
            }
            From::Beginning => Ok((Position::BEGINNING, None)),
            From::Time(time) => Ok((self.position_before(time).await?, Some(time))),
            From::Now => Ok((self.inner().tail.end_of_log().await?, None)),
        }
    }

    /// Reads the log behind a position, starting with the cursor's own entry: the reader may have stopped in the middle
    /// of it.
    pub(crate) async fn read_log_from(&self, after: Position) -> Result<LogPage, Error> {
        let limit = LogLimit { entries: ENTRIES_PER_READ, bytes: BACKLOG_BYTES as u32 };
        let page = self.inner().store.log_page(before_entry(after.cursor), limit).await?;
        check_position(&page, after)?;
        let (newest_dropped, entries) = (newest_dropped(page.oldest), page.entries.len() as u32);
        let backlog = Backlog::new(page, after, self.id(), self.inner().tail.entries());
        Ok(LogPage { backlog, entries, newest_dropped })
    }

    /// Returns a position before every event with this time or a later one, by bisection. Entries of concurrent
    /// transactions may be out of order by the duration of a transaction, so the position is a little earlier.
    async fn position_before(&self, time: Timestamp) -> Result<Position, Error> {
        let store = &self.inner().store;
        let time = time.minus_ms(OUT_OF_ORDER_MS);
        // Before the first entry of the log nothing is missing, even if older entries were dropped.
        let mut position = Position::BEGINNING;
        let (mut before, mut end) = (0, self.newest_entry().await?);
        while before < end {
            let middle = before + (end - before) / 2;
            let page = store.log_after(middle, 1).await?;
            let entry = page.entries.into_iter().next().map(|entry| self.inner().tail.entries().read(entry));
            match entry {
                Some(entry) if entry.at < time => {
                    before = entry.number;
                    position = Position::after(entry.number, entry.check);
                }
                Some(_) | None => end = middle,
            }
        }
        Ok(position)
    }

    /// Returns the number of the newest entry whose predecessors are all final.
    pub(in crate::namespace) async fn newest_entry(&self) -> Result<i64, Error> {
        Ok(self.inner().store.log_after(i64::MAX - 1, 1).await?.upto)
    }

    /// Returns the public events of an execution's own history.
    pub async fn execution_events(&self, id: ExecutionId) -> Result<Vec<PublicEvent>, Error> {
        let (row, history) = self.read_history(id).await?;
        Ok(self.public_history(&row, &history))
    }

    /// Returns the public events of a history, with the cursors of the history itself. One event stands for the lines that
    /// are missing at a gap.
    pub(in crate::namespace) fn public_history(
        &self,
        row: &Execution,
        history: &ReadHistory,
    ) -> Vec<PublicEvent> {
        let mut events = Vec::new();
        for line in &history.lines {
            for (index, (kind, data)) in line.fact.public_events().into_iter().enumerate() {
                events.push(PublicEvent {
                    cursor: format!("{:08x}{index:02x}", line.version),
                    kind,
                    at: line.at,
                    namespace: self.name().clone(),
                    execution: Some(row.id),
                    flow: Some(row.flow()),
                    version: Some(line.version),
                    actor: line.actor.clone(),
                    data,
                });
            }
        }
        events.extend(history.gaps.iter().map(|gap| PublicEvent {
            cursor: format!("{:08x}ff", gap.after),
            kind: UNREADABLE,
            at: gap.at,
            namespace: self.name().clone(),
            execution: Some(row.id),
            flow: Some(row.flow()),
            version: None,
            actor: None,
            data: json!({}),
        }));
        events.sort_by(|one, other| one.cursor.cmp(&other.cursor));
        events
    }
}

pub(crate) struct LogPage {
    /// The entries behind the position.
    pub backlog: Backlog,
    /// The number of entries that were read.
    pub entries: u32,
    /// The highest number that was dropped from the log; zero if none was.
    pub newest_dropped: i64,
}

/// Returns the number before the cursor's entry.
fn before_entry(cursor: Cursor) -> i64 {
    cursor.entry.saturating_sub(1).max(0)
}

/// Returns the highest number that was dropped from the log, given the oldest one that is kept; zero if none was.
fn newest_dropped(oldest: i64) -> i64 {
    (oldest - 1).max(0)
}

/// Refuses a position that the log cannot continue from. `page` begins with the entry of the position, if the log has it.
///
/// A position has expired if events after it were dropped. It is unknown if its entry has another check or does not exist:
/// an entry is never removed from the middle of the log, so the position comes from another history. A position without a
/// mark is only known to be beyond the end.
fn check_position(page: &Entries, position: Position) -> Result<(), Error> {
    let Position { cursor, mark } = position;
    let dropped = newest_dropped(page.oldest);
    if cursor == Cursor::BEGINNING || (cursor.entry == 0 && dropped == 0) {
        return Ok(());
    }
    if cursor.entry <= dropped {
        let is_passed = cursor == Cursor::end_of(cursor.entry) || mark.is_some_and(|mark| mark.is_last);
        return if cursor.entry == dropped && is_passed { Ok(()) } else { Err(Error::CursorExpired) };
    }
    let known = match (page.entries.first(), mark) {
        (Some(found), Some(mark)) => found.number == cursor.entry && check(&found.body) == mark.check,
        (Some(_), None) => true,
        (None, _) => false,
    };
    if known { Ok(()) } else { Err(Error::CursorUnknown) }
}

/// The events that a reader gets.
pub(crate) struct EventSelection<'a> {
    /// Only events of this namespace.
    pub namespace: NamespaceId,
    /// The name of the namespace.
    pub name: &'a Name,
    /// Only events that match.
    pub filter: &'a EventFilter,
    /// Only events with this time or a later one.
    pub since: Option<Timestamp>,
}

/// The place of a fact in the log.
#[derive(Clone, Copy)]
pub(crate) struct FactPlace {
    /// The number of the entry.
    pub entry: i64,
    /// The check of the entry.
    pub check: u32,
    /// The position of the last event of the namespace in the entry.
    pub last: Option<Cursor>,
    /// The index of the fact in the entry.
    pub fact: u32,
}

impl EventSelection<'_> {
    /// Returns the selected public events of a fact that come after a cursor.
    pub fn of_fact(&self, place: FactPlace, event: &Event, after: Cursor) -> Vec<PublicEvent> {
        let FactPlace { entry, check, last, fact } = place;
        let matches = event.namespace == self.namespace
            && after < Cursor::end_of_fact(entry, fact)
            && self.filter.matches(event)
            && self.since.is_none_or(|since| event.at >= since);
        if !matches {
            return Vec::new();
        }
        let mut selected = Vec::new();
        for (index, (kind, data)) in event.fact.public_events().into_iter().enumerate() {
            let cursor = Cursor { entry, fact, event: index as u16 + 1 };
            if cursor > after && self.filter.matches_type(kind) {
                let position = Position { cursor, mark: Some(Mark { check, is_last: last == Some(cursor) }) };
                selected.push(public_event(position, kind, data, event, self.name));
            }
        }
        selected
    }

    /// Returns the event that stands for an unreadable entry. It may hide events of any execution, flow and tag, so these
    /// conditions do not exclude it. A list of types does, unless it names the type.
    pub fn unreadable(&self, entry: i64, check: u32, at: Timestamp, after: Cursor) -> Option<PublicEvent> {
        let cursor = Cursor::unreadable(entry);
        let is_selected = cursor > after
            && self.filter.matches_type(UNREADABLE)
            && self.since.is_none_or(|since| at >= since);
        is_selected.then(|| PublicEvent {
            cursor: cursor.encode(Some(Mark { check, is_last: true })),
            kind: UNREADABLE,
            at,
            namespace: self.name.clone(),
            execution: None,
            flow: None,
            version: None,
            actor: None,
            data: json!({}),
        })
    }
}

fn public_event(
    position: Position,
    kind: &'static str,
    data: Value,
    event: &Event,
    namespace: &Name,
) -> PublicEvent {
    PublicEvent {
        cursor: position.encode(),
        kind,
        at: event.at,
        namespace: namespace.clone(),
        execution: event.execution,
        flow: event.flow.or(event.execution.map(|id| FlowId(id.0))),
        version: event.version,
        actor: event.actor.clone(),
        data,
    }
}
