//! A check of the events that a reader of the log received, and readers that are wrong on purpose.

use super::{PlainConnection, Sandbox};
use selvedge_engine::PublicEvent;
use selvedge_engine::core::ExecutionId;
use selvedge_engine::core::log::{Cursor, Mark, check, last_event, unpack};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use tokio_postgres::Row;

/// An event as a reader received it.
#[derive(Clone, Debug, PartialEq)]
pub struct SeenEvent {
    /// The position of the event in the log.
    pub cursor: String,
    /// The type of the event.
    pub kind: &'static str,
    /// The execution that the event is about.
    pub execution: Option<ExecutionId>,
    /// The version of the execution after the change.
    pub version: Option<u32>,
}

impl From<&PublicEvent> for SeenEvent {
    fn from(event: &PublicEvent) -> SeenEvent {
        let PublicEvent { cursor, kind, execution, version, .. } = event;
        SeenEvent { cursor: cursor.clone(), kind, execution: *execution, version: *version }
    }
}

/// A fault in the events that a reader received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// An event of the log was not received.
    Missing,
    /// An event was received again.
    Duplicate,
    /// An event was received that is not in the log.
    RolledBack,
    /// Events were received in another order than that of the log.
    OutOfOrder,
    /// The versions of an execution do not rise one by one.
    VersionGap,
}

/// Counts the faults in the events that a reader received, given the whole log.
pub fn faults_of(seen: &[SeenEvent], log: &[SeenEvent]) -> BTreeMap<Fault, usize> {
    let mut found = BTreeMap::new();
    let mut count = |fault, times| {
        if times > 0 {
            *found.entry(fault).or_insert(0) += times;
        }
    };
    let known: HashMap<&str, &SeenEvent> = log.iter().map(|event| (event.cursor.as_str(), event)).collect();
    let received: BTreeSet<&str> = seen.iter().map(|event| event.cursor.as_str()).collect();
    count(Fault::Missing, known.keys().filter(|cursor| !received.contains(*cursor)).count());
    count(Fault::Duplicate, seen.len() - received.len());
    count(
        Fault::RolledBack,
        seen.iter().filter(|event| known.get(event.cursor.as_str()) != Some(event)).count(),
    );
    count(Fault::OutOfOrder, seen.windows(2).filter(|pair| pair[0].cursor > pair[1].cursor).count());
    let mut versions: HashMap<ExecutionId, u32> = HashMap::new();
    for (execution, version) in seen.iter().filter_map(|event| event.execution.zip(event.version)) {
        let before = versions.insert(execution, version).unwrap_or(0);
        count(Fault::VersionGap, usize::from(version != before && version != before + 1));
    }
    found
}

/// Returns the public events of an entry, without any code of the engine's readers.
fn public_events(row: &Row) -> Vec<SeenEvent> {
    let (entry, body): (i64, Vec<u8>) = (row.get(0), row.get(1));
    let events = unpack(&body).expect("the entry is readable");
    let mut seen = Vec::new();
    for (fact, event) in events.iter().enumerate() {
        for (index, (kind, _)) in event.fact.public_events().into_iter().enumerate() {
            let cursor = Cursor { entry, fact: fact as u32, event: index as u16 + 1 };
            let is_last = last_event(entry, &events, event.namespace) == Some(cursor);
            let cursor = cursor.encode(Some(Mark { check: check(&body), is_last }));
            seen.push(SeenEvent { cursor, kind, execution: event.execution, version: event.version });
        }
    }
    seen
}

/// Reads the whole log from its table.
pub async fn log(plain: &PlainConnection) -> Vec<SeenEvent> {
    let rows = plain.query("select number, body from log order by number", &[]).await;
    rows.expect("the log is read").iter().flat_map(public_events).collect()
}

/// A wrong way to read the log.
#[derive(Clone, Copy, Debug)]
pub enum FaultyReading {
    /// Continues after the highest number that it has read.
    ByNumberAlone,
    /// Reads the entries of transactions that are older than every open one, in the order of transactions.
    BelowXmin,
}

/// A reader that is wrong on purpose, with its position.
pub struct FaultyReader {
    reading: FaultyReading,
    plain: PlainConnection,
    after: (i64, i64),
}

impl FaultyReader {
    /// Returns a reader at the beginning of the log.
    pub async fn new(reading: FaultyReading, sandbox: &Sandbox) -> FaultyReader {
        FaultyReader { reading, plain: sandbox.plain().await, after: (0, 0) }
    }

    /// Reads the events after its position.
    pub async fn read(&mut self) -> Vec<SeenEvent> {
        let text = match self.reading {
            FaultyReading::ByNumberAlone => {
                "select number, body, 0::bigint from log where number > $2 and $1::bigint = 0 order by number"
            }
            FaultyReading::BelowXmin => {
                "select number, body, xmin::text::bigint as written_by
                 from log
                 where (xmin::text::bigint, number) > ($1::bigint, $2::bigint)
                   and xmin::text::bigint < pg_snapshot_xmin(pg_current_snapshot())::text::bigint
                 order by written_by, number"
            }
        };
        let rows = self.plain.query(text, &[&self.after.0, &self.after.1]).await.expect("the log is read");
        if let Some(last) = rows.last() {
            self.after = (last.get(2), last.get(0));
        }
        rows.iter().flat_map(public_events).collect()
    }
}
