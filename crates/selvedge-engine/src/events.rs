//! Pages of the event log, as public events.

use crate::{Error, Namespace};
use selvedge_core::log::{Cursor, Event, unpack};
use selvedge_core::{ExecutionId, FlowId, Name, Timestamp};
use serde_json::Value;

/// How many entries are read at a time.
const ENTRIES: u32 = 256;
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
        let store = &self.inner().store;
        let (mut after, since) = match from {
            From::Cursor(text) => (Cursor::decode(&text).ok_or(Error::InvalidCursor)?, None),
            From::Beginning => (Cursor::BEGINNING, None),
            From::Time(time) => (self.before_time(time).await?, Some(time)),
            From::Now => {
                let newest = self.newest().await?;
                let next = Cursor { entry: newest, fact: u32::MAX, event: u16::MAX };
                return Ok(EventPage { items: Vec::new(), next: Some(next.encode()), at_end: true });
            }
        };
        let mut items = Vec::new();
        let mut scanned = 0;
        loop {
            // The cursor's own entry is read again: the page may have ended inside it.
            let page = store.log_after(after.entry.saturating_sub(1).max(0), ENTRIES).await?;
            if page.oldest > after.entry && after != Cursor::BEGINNING {
                return Err(Error::CursorExpired);
            }
            let fetched = page.entries.len();
            let mut advanced = false;
            for entry in page.entries {
                let events = unpack(&entry.body).map_err(|error| {
                    selvedge_store::Error::Failed(format!("log entry {}: {error}", entry.number))
                })?;
                for (fact, event) in events.iter().enumerate() {
                    let ours = event.namespace == self.id()
                        && filter.passes(event)
                        && since.is_none_or(|since| event.at >= since);
                    let told = if ours { event.fact.tell() } else { Vec::new() };
                    for (index, (kind, data)) in told.into_iter().enumerate() {
                        let cursor =
                            Cursor { entry: entry.number, fact: fact as u32, event: index as u16 + 1 };
                        if cursor <= after || !filter.passes_type(kind) {
                            continue;
                        }
                        items.push(public(cursor, kind, data, event, self.name()));
                        if items.len() == limit {
                            return Ok(EventPage { items, next: Some(cursor.encode()), at_end: false });
                        }
                    }
                }
                let end = Cursor { entry: entry.number, fact: u32::MAX, event: u16::MAX };
                advanced |= end > after;
                after = after.max(end);
            }
            scanned += fetched as u32;
            let at_end = fetched < ENTRIES as usize || !advanced;
            if at_end || scanned >= SCAN_MAX {
                let next = (after != Cursor::BEGINNING).then(|| after.encode());
                return Ok(EventPage { items, next, at_end });
            }
        }
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
        Ok(Cursor { entry: before, fact: u32::MAX, event: u16::MAX })
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
