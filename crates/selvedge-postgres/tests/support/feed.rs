//! What must hold of whatever a reader of the log was told, and readers that are wrong on purpose.

use super::{Plain, Sandbox};
use selvedge_engine::PublicEvent;
use selvedge_engine::core::ExecutionId;
use selvedge_engine::core::log::{Cursor, unpack};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use tokio_postgres::Row;

/// What a reader is told of an event.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// Its place in the log.
    pub cursor: String,
    /// Its type.
    pub kind: &'static str,
    /// About which execution.
    pub execution: Option<ExecutionId>,
    /// The version that the change made.
    pub version: Option<u32>,
}

impl From<&PublicEvent> for Told {
    fn from(event: &PublicEvent) -> Told {
        let PublicEvent { cursor, kind, execution, version, .. } = event;
        Told { cursor: cursor.clone(), kind, execution: *execution, version: *version }
    }
}

/// What is wrong with what a reader was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Broken {
    /// An event of the log did not come.
    Missing,
    /// An event came again.
    Twice,
    /// An event came that is not in the log.
    Undone,
    /// Events came in another order than that of the log.
    OutOfOrder,
    /// The versions of an execution do not rise one by one.
    Versions,
}

/// What is wrong with what a reader was told, where this is the log; how often each.
pub fn broken(seen: &[Told], log: &[Told]) -> BTreeMap<Broken, usize> {
    let mut found = BTreeMap::new();
    let mut count = |broken, times| {
        if times > 0 {
            *found.entry(broken).or_insert(0) += times;
        }
    };
    let known: HashMap<&str, &Told> = log.iter().map(|told| (told.cursor.as_str(), told)).collect();
    let came: BTreeSet<&str> = seen.iter().map(|told| told.cursor.as_str()).collect();
    count(Broken::Missing, known.keys().filter(|cursor| !came.contains(*cursor)).count());
    count(Broken::Twice, seen.len() - came.len());
    count(Broken::Undone, seen.iter().filter(|told| known.get(told.cursor.as_str()) != Some(told)).count());
    count(Broken::OutOfOrder, seen.windows(2).filter(|pair| pair[0].cursor > pair[1].cursor).count());
    let mut versions: HashMap<ExecutionId, u32> = HashMap::new();
    for (execution, version) in seen.iter().filter_map(|told| told.execution.zip(told.version)) {
        let before = versions.insert(execution, version).unwrap_or(0);
        count(Broken::Versions, usize::from(version != before && version != before + 1));
    }
    found
}

/// The events of an entry, told without any code of the engine's readers.
fn told(row: &Row) -> Vec<Told> {
    let (entry, body): (i64, Vec<u8>) = (row.get(0), row.get(1));
    let events = unpack(&body).expect("the entry can be read");
    let mut told = Vec::new();
    for (fact, event) in events.iter().enumerate() {
        for (index, (kind, _)) in event.fact.public_events().into_iter().enumerate() {
            let cursor = Cursor { entry, fact: fact as u32, event: index as u16 + 1 }.encode();
            told.push(Told { cursor, kind, execution: event.execution, version: event.version });
        }
    }
    told
}

/// The whole log, as it stands in its table.
pub async fn log(plain: &Plain) -> Vec<Told> {
    let rows = plain.query("select number, body from log order by number", &[]).await;
    rows.expect("the log is read").iter().flat_map(told).collect()
}

/// A reader that is wrong on purpose.
#[derive(Clone, Copy, Debug)]
pub enum Planted {
    /// Goes on after the highest number that it has seen.
    NumberAlone,
    /// Reads what was written by transactions older than any that is open, in the order of transactions.
    BelowXmin,
}

/// Where such a reader stands.
pub struct PlantedReader {
    planted: Planted,
    plain: Plain,
    after: (i64, i64),
}

impl PlantedReader {
    /// At the beginning.
    pub async fn new(planted: Planted, sandbox: &Sandbox) -> PlantedReader {
        PlantedReader { planted, plain: sandbox.plain().await, after: (0, 0) }
    }

    /// What there is for it now.
    pub async fn read(&mut self) -> Vec<Told> {
        let text = match self.planted {
            Planted::NumberAlone => {
                "select number, body, 0::bigint from log where number > $2 and $1::bigint = 0 order by number"
            }
            Planted::BelowXmin => {
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
        rows.iter().flat_map(told).collect()
    }
}
