//! Pages of the event log, as public events.

use super::Namespace;
use crate::Error;
use crate::notify::ENTRIES_PER_READ;
use selvedge_core::fact::EVENT_TYPES;
use selvedge_core::history::HistoryLine;
use selvedge_core::log::{Cursor, Event, unpack};
use selvedge_core::{Execution, ExecutionId, FlowId, Name, NamespaceId, Timestamp};
use serde_json::Value;

/// The maximum time by which two consecutive entries may be out of order, in milliseconds.
const OUT_OF_ORDER_MS: i64 = 60_000;
/// The maximum number of entries scanned per page, so that a filter without matches still returns soon.
const SCAN_MAX: u32 = 20_000;

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
    /// The namespace.
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

/// A page of events.
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
    /// Returns a page of at most `limit` events.
    pub async fn events(&self, filter: &EventFilter, from: From, limit: usize) -> Result<EventPage, Error> {
        let now = matches!(from, From::Now);
        let (mut after, since) = self.resolve_start(from).await?;
        if now {
            return Ok(EventPage { items: Vec::new(), next: Some(after.encode()), at_end: true });
        }
        let selection = EventSelection { namespace: self.id(), filter, since };
        let mut items = Vec::new();
        let mut scanned = 0;
        loop {
            let page = self.entries_from(after).await?;
            let fetched = page.entries.len();
            let mut advanced = false;
            for (number, events) in page.entries {
                for event in selection.public_events(number, &events, after, self.name()) {
                    let cursor = event.cursor.clone();
                    items.push(event);
                    if items.len() == limit {
                        return Ok(EventPage { items, next: Some(cursor), at_end: false });
                    }
                }
                advanced |= end_of(number) > after;
                after = after.max(end_of(number));
            }
            scanned += fetched as u32;
            let at_end = fetched < ENTRIES_PER_READ as usize || !advanced;
            if at_end || scanned >= SCAN_MAX {
                let next = (after != Cursor::BEGINNING).then(|| after.encode());
                return Ok(EventPage { items, next, at_end });
            }
        }
    }

    /// Returns the cursor to start from, and the time before which events are left out.
    pub(crate) async fn resolve_start(&self, from: From) -> Result<(Cursor, Option<Timestamp>), Error> {
        match from {
            From::Cursor(text) => {
                let cursor = Cursor::decode(&text).ok_or(Error::InvalidCursor)?;
                let page = self.inner().store.log_after(before_entry(cursor), 1).await?;
                check_not_expired(page.oldest, cursor)?;
                Ok((cursor, None))
            }
            From::Beginning => Ok((Cursor::BEGINNING, None)),
            From::Time(time) => Ok((self.cursor_before(time).await?, Some(time))),
            From::Now => Ok((end_of(self.newest_entry().await?), None)),
        }
    }

    /// Reads entries starting with the cursor's own entry: the reader may have stopped in the middle of it.
    pub(crate) async fn entries_from(&self, after: Cursor) -> Result<UnpackedPage, Error> {
        let page = self.inner().store.log_after(before_entry(after), ENTRIES_PER_READ).await?;
        check_not_expired(page.oldest, after)?;
        let unpacked = |entry: selvedge_store::Entry| match unpack(&entry.body) {
            Ok(events) => Ok((entry.number, events)),
            Err(error) => {
                let detail = format!("log entry {}: {error}", entry.number);
                Err(selvedge_store::Error::Failed(detail).into())
            }
        };
        let entries = page.entries.into_iter().map(unpacked).collect::<Result<_, Error>>()?;
        Ok(UnpackedPage { entries, newest_dropped: (page.oldest - 1).max(0) })
    }

    /// Returns a cursor before every event with this time or a later one, by bisection. Entries of concurrent
    /// transactions may be out of order by the duration of a transaction, so the cursor is placed a little earlier.
    async fn cursor_before(&self, time: Timestamp) -> Result<Cursor, Error> {
        let store = &self.inner().store;
        let time = time.minus_ms(OUT_OF_ORDER_MS);
        let (mut before, mut end) = (0, self.newest_entry().await?);
        while before < end {
            let middle = before + (end - before) / 2;
            let page = store.log_after(middle, 1).await?;
            let entry = page.entries.first();
            // An unreadable entry counts as not earlier: the cursor then lies before it.
            let at = entry.and_then(|entry| Some((entry.number, unpack(&entry.body).ok()?.first()?.at)));
            match at {
                Some((number, at)) if at < time => before = number,
                Some(_) | None => end = middle,
            }
        }
        // Before the first entry of the log nothing is missing, even if older entries were dropped.
        Ok(if before == 0 { Cursor::BEGINNING } else { end_of(before) })
    }

    /// Returns the number of the newest entry whose predecessors are all final.
    async fn newest_entry(&self) -> Result<i64, Error> {
        Ok(self.inner().store.log_after(i64::MAX - 1, 1).await?.upto)
    }

    /// Returns the public events of an execution's own history.
    pub async fn execution_events(&self, id: ExecutionId) -> Result<Vec<PublicEvent>, Error> {
        let (view, lines) = self.history(id).await?;
        Ok(self.public_history(&view.stored.execution, &lines))
    }

    /// Returns the public events of history lines, with the cursors of the history itself.
    pub(super) fn public_history(&self, row: &Execution, lines: &[HistoryLine]) -> Vec<PublicEvent> {
        let mut events = Vec::new();
        for line in lines {
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
        events
    }
}

/// A page of the log with unpacked entries.
pub(crate) struct UnpackedPage {
    /// The entries, in order.
    pub entries: Vec<(i64, Vec<Event>)>,
    /// The highest number that was dropped from the log; zero if none was.
    pub newest_dropped: i64,
}

/// Returns the cursor after the last event of an entry.
pub(crate) fn end_of(entry: i64) -> Cursor {
    Cursor { entry, fact: u32::MAX, event: u16::MAX }
}

/// Returns the number before the cursor's entry.
fn before_entry(cursor: Cursor) -> i64 {
    cursor.entry.saturating_sub(1).max(0)
}

/// Refuses a cursor if entries after its own were dropped from the log.
fn check_not_expired(oldest: i64, cursor: Cursor) -> Result<(), Error> {
    let missing = cursor != Cursor::BEGINNING && oldest > cursor.entry + 1;
    if missing { Err(Error::CursorExpired) } else { Ok(()) }
}

/// The events that a reader gets.
pub(crate) struct EventSelection<'a> {
    /// Only events of this namespace.
    pub namespace: NamespaceId,
    /// Only events that match.
    pub filter: &'a EventFilter,
    /// Only events with this time or a later one.
    pub since: Option<Timestamp>,
}

impl EventSelection<'_> {
    /// Returns the selected public events of an entry that come after a cursor.
    pub fn public_events(
        &self,
        number: i64,
        events: &[Event],
        after: Cursor,
        namespace: &Name,
    ) -> Vec<PublicEvent> {
        let mut selected = Vec::new();
        for (fact, event) in events.iter().enumerate() {
            let matches = event.namespace == self.namespace
                && self.filter.matches(event)
                && self.since.is_none_or(|since| event.at >= since);
            if !matches {
                continue;
            }
            for (index, (kind, data)) in event.fact.public_events().into_iter().enumerate() {
                let cursor = Cursor { entry: number, fact: fact as u32, event: index as u16 + 1 };
                if cursor > after && self.filter.matches_type(kind) {
                    selected.push(public_event(cursor, kind, data, event, namespace));
                }
            }
        }
        selected
    }
}

fn public_event(
    cursor: Cursor,
    kind: &'static str,
    data: Value,
    event: &Event,
    namespace: &Name,
) -> PublicEvent {
    PublicEvent {
        cursor: cursor.encode(),
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
