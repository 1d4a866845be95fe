//! Pages of the event log, as public events.

use crate::tail::ENTRIES;
use crate::{Error, Namespace};
use selvedge_core::fact::EVENT_TYPES;
use selvedge_core::log::{Cursor, Event, unpack};
use selvedge_core::{ExecutionId, FlowId, Name, NamespaceId, Timestamp};
use serde_json::Value;

/// How far the times of entries may be out of order.
const OUT_OF_ORDER_MS: i64 = 60_000;
/// How many entries one page looks through at most, so that a filter that matches nothing still answers soon.
const SCAN_MAX: u32 = 20_000;

/// Which events.
#[derive(Clone, Debug, Default)]
pub struct EventFilter {
    /// Of these types; empty means any.
    pub types: Vec<String>,
    /// About this execution.
    pub execution: Option<ExecutionId>,
    /// Of this flow.
    pub flow: Option<FlowId>,
    /// With this tag.
    pub tag: Option<(String, String)>,
}

/// Where a page starts.
#[derive(Clone, Debug)]
pub enum From {
    /// After this cursor.
    Cursor(String),
    /// At the oldest event that is kept.
    Beginning,
    /// At the first event of this time or later.
    Time(Timestamp),
    /// Nothing before now.
    Now,
}

/// An event as callers see it.
#[derive(Clone, Debug, PartialEq)]
pub struct PublicEvent {
    /// Its place in the log.
    pub cursor: String,
    /// Its type.
    pub kind: &'static str,
    /// When.
    pub at: Timestamp,
    /// Whose.
    pub namespace: Name,
    /// About which execution.
    pub execution: Option<ExecutionId>,
    /// Of which flow.
    pub flow: Option<FlowId>,
    /// The version the change made.
    pub version: Option<u32>,
    /// Who asked for it.
    pub actor: Option<Name>,
    /// More about it; times in it are milliseconds in fields whose names end in `_at`.
    pub data: Value,
}

/// A page of events.
#[derive(Clone, Debug)]
pub struct EventPage {
    /// The events, oldest first.
    pub items: Vec<PublicEvent>,
    /// Where to go on: after everything that this page looked at. None when the log ends here and held nothing.
    pub next: Option<String>,
    /// Whether the log ended here for now.
    pub at_end: bool,
}

impl EventFilter {
    /// How executions end.
    pub fn completions() -> Self {
        let ends = ["succeeded", "failed", "cancelled", "expired", "skipped"];
        EventFilter { types: ends.map(|end| format!("execution.{end}")).into(), ..EventFilter::default() }
    }

    /// What happens to leases.
    pub fn leases() -> Self {
        let all = EVENT_TYPES.iter().filter(|kind| kind.starts_with("lease."));
        EventFilter { types: all.map(|kind| (*kind).to_owned()).collect(), ..EventFilter::default() }
    }

    /// Whether an event passes, its type aside.
    fn passes(&self, event: &Event) -> bool {
        let flow = event.flow.or(event.execution.map(|id| FlowId(id.0)));
        self.execution.is_none_or(|wanted| event.execution == Some(wanted))
            && self.flow.is_none_or(|wanted| flow == Some(wanted))
            && self.tag.as_ref().is_none_or(|(name, value)| event.tags.get(name) == Some(value))
    }

    fn passes_type(&self, kind: &str) -> bool {
        self.types.is_empty() || self.types.iter().any(|wanted| wanted == kind)
    }
}

impl Namespace {
    /// A page of at most `limit` events.
    pub async fn events(&self, filter: &EventFilter, from: From, limit: usize) -> Result<EventPage, Error> {
        let now = matches!(from, From::Now);
        let (mut after, since) = self.start(from).await?;
        if now {
            return Ok(EventPage { items: Vec::new(), next: Some(after.encode()), at_end: true });
        }
        let scope = EventSelection { namespace: self.id(), filter, since };
        let mut items = Vec::new();
        let mut scanned = 0;
        loop {
            let page = self.entries_at(after).await?;
            let fetched = page.entries.len();
            let mut advanced = false;
            for (number, events) in page.entries {
                for event in scope.told(number, &events, after, self.name()) {
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
            let at_end = fetched < ENTRIES as usize || !advanced;
            if at_end || scanned >= SCAN_MAX {
                let next = (after != Cursor::BEGINNING).then(|| after.encode());
                return Ok(EventPage { items, next, at_end });
            }
        }
    }

    /// The place to start from, and the time before which nothing is wanted.
    pub(crate) async fn start(&self, from: From) -> Result<(Cursor, Option<Timestamp>), Error> {
        match from {
            From::Cursor(text) => {
                let cursor = Cursor::decode(&text).ok_or(Error::InvalidCursor)?;
                self.check_kept(cursor).await?;
                Ok((cursor, None))
            }
            From::Beginning => Ok((Cursor::BEGINNING, None)),
            From::Time(time) => Ok((self.before_time(time).await?, Some(time))),
            From::Now => Ok((end_of(self.newest().await?), None)),
        }
    }

    /// Refuses a cursor whose successors may have left the log.
    async fn check_kept(&self, cursor: Cursor) -> Result<(), Error> {
        let page = self.inner().store.log_after(cursor.entry.saturating_sub(1).max(0), 1).await?;
        expired(page.oldest, cursor)
    }

    /// The entries from the cursor's own on: the reader may have stopped inside it.
    pub(crate) async fn entries_at(&self, after: Cursor) -> Result<Unpacked, Error> {
        let page = self.inner().store.log_after(after.entry.saturating_sub(1).max(0), ENTRIES).await?;
        expired(page.oldest, after)?;
        let unpacked = |entry: selvedge_store::Entry| match unpack(&entry.body) {
            Ok(events) => Ok((entry.number, events)),
            Err(error) => {
                let detail = format!("log entry {}: {error}", entry.number);
                Err(selvedge_store::Error::Failed(detail).into())
            }
        };
        let entries = page.entries.into_iter().map(unpacked).collect::<Result<_, Error>>()?;
        Ok(Unpacked { entries, dropped: (page.oldest - 1).max(0) })
    }

    /// A cursor before every event of this time or later, found by bisection. Times of entries that were written side by
    /// side may be out of order by as long as a transaction takes, so it lies a little earlier.
    async fn before_time(&self, time: Timestamp) -> Result<Cursor, Error> {
        let store = &self.inner().store;
        let time = time.minus_ms(OUT_OF_ORDER_MS);
        let (mut before, mut end) = (0, self.newest().await?);
        while before < end {
            let middle = before + (end - before) / 2;
            let page = store.log_after(middle, 1).await?;
            let entry = page.entries.first();
            let at = entry.and_then(|entry| Some((entry.number, unpack(&entry.body).ok()?.first()?.at)));
            match at {
                Some((number, at)) if at < time => before = number,
                Some(_) | None => end = middle,
            }
        }
        // Before the first entry nothing is missing, also where that one was not the first of all.
        Ok(if before == 0 { Cursor::BEGINNING } else { end_of(before) })
    }

    /// The newest settled number of the log.
    async fn newest(&self) -> Result<i64, Error> {
        Ok(self.inner().store.log_after(i64::MAX - 1, 1).await?.upto)
    }

    /// The public events of an execution's own history.
    pub async fn execution_events(&self, id: ExecutionId) -> Result<Vec<PublicEvent>, Error> {
        let (view, lines) = self.history(id).await?;
        let row = &view.stored.execution;
        let mut events = Vec::new();
        for line in lines {
            for (index, (kind, data)) in line.fact.tell().into_iter().enumerate() {
                events.push(PublicEvent {
                    cursor: format!("{:08x}{index:02x}", line.version),
                    kind,
                    at: line.at,
                    namespace: self.name().clone(),
                    execution: Some(id),
                    flow: Some(row.flow()),
                    version: Some(line.version),
                    actor: line.actor.clone(),
                    data,
                });
            }
        }
        Ok(events)
    }
}

/// Entries of the log with their facts.
pub(crate) struct Unpacked {
    /// The entries, in order.
    pub entries: Vec<(i64, Vec<Event>)>,
    /// The newest number that has left the log; zero if none has.
    pub dropped: i64,
}

/// After everything of an entry.
pub(crate) fn end_of(entry: i64) -> Cursor {
    Cursor { entry, fact: u32::MAX, event: u16::MAX }
}

fn expired(oldest: i64, cursor: Cursor) -> Result<(), Error> {
    // After the last entry that was dropped nothing is missing.
    let missing = cursor != Cursor::BEGINNING && oldest > cursor.entry + 1;
    if missing { Err(Error::CursorExpired) } else { Ok(()) }
}

/// Whose events, and which of them.
pub(crate) struct EventSelection<'a> {
    /// Of this namespace.
    pub namespace: NamespaceId,
    /// Those that pass.
    pub filter: &'a EventFilter,
    /// Of this time or later.
    pub since: Option<Timestamp>,
}

impl EventSelection<'_> {
    /// The public events of an entry that come after a cursor.
    pub fn told(&self, number: i64, events: &[Event], after: Cursor, namespace: &Name) -> Vec<PublicEvent> {
        let mut told = Vec::new();
        for (fact, event) in events.iter().enumerate() {
            let ours = event.namespace == self.namespace
                && self.filter.passes(event)
                && self.since.is_none_or(|since| event.at >= since);
            if !ours {
                continue;
            }
            for (index, (kind, data)) in event.fact.tell().into_iter().enumerate() {
                let cursor = Cursor { entry: number, fact: fact as u32, event: index as u16 + 1 };
                if cursor > after && self.filter.passes_type(kind) {
                    told.push(public(cursor, kind, data, event, namespace));
                }
            }
        }
        told
    }
}

fn public(cursor: Cursor, kind: &'static str, data: Value, event: &Event, namespace: &Name) -> PublicEvent {
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
