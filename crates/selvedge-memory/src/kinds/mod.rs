//! The kinds of rows: one file for each noun of the contract, with its part of loading and saving, and its reads.

mod api_keys;
mod bulk_jobs;
mod candidates;
mod classes;
mod due;
mod executions;
mod flows;
mod gates;
mod inbox;
mod keys;
mod log;
mod namespaces;
mod outbox;
mod projection;
mod rollups;
mod schedules;
mod secret;
mod sessions;
mod signals;
mod steps;
mod streams;
mod token_keys;
mod waitpoints;
mod webhooks;

pub use gates::EntryName;

use crate::tables::Tables;
use selvedge_core::{Changes, ExecutionId, FlowId, Needs, Rows, Timestamp};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// A noun's part of the store.
pub(crate) struct Kind {
    /// Loads the rows that a decision needs. Under the mutex every row is free, so locking, locking if free and reading are
    /// the same.
    pub load: fn(&Tables, &Needs, &mut Rows),
    /// Reports whether the guards of a save hold.
    pub guards_hold: fn(&Tables, &Changes) -> bool,
    /// Saves the changes of a decision, and may take them.
    pub save: fn(&mut Tables, &mut Changes, &mut Saving),
}

/// A save under way.
pub(crate) struct Saving {
    /// The time of the transaction.
    pub now: Timestamp,
    /// The number of the log entry, if there were events.
    pub entry: Option<i64>,
    /// Flows that are running without a live member now.
    pub emptied: Vec<FlowId>,
}

impl Kind {
    /// A noun that is neither loaded nor saved.
    const EMPTY: Kind = Kind { load: |_, _, _| (), guards_hold: |_, _| true, save: |_, _, _| () };
}

/// All kinds that take part in transactions, in the order in which they are loaded and saved. Executions are loaded behind the
/// kinds that find executions.
pub(crate) static KINDS: &[Kind] = &[
    api_keys::KIND,
    bulk_jobs::KIND,
    webhooks::KIND,
    schedules::KIND,
    candidates::KIND,
    flows::KIND,
    gates::KIND,
    executions::KIND,
    outbox::KIND,
    keys::KIND,
    streams::KIND,
    signals::KIND,
    steps::KIND,
    waitpoints::KIND,
    token_keys::KIND,
    sessions::KIND,
    classes::KIND,
    log::KIND,
];

/// Rows of executions, by the execution and their number.
pub type Numbered<T> = BTreeMap<(ExecutionId, u32), T>;

/// The names of all rows of an execution.
fn all(of: ExecutionId) -> RangeInclusive<(ExecutionId, u32)> {
    (of, 0)..=(of, u32::MAX)
}

/// Returns rows of an execution with numbers greater than `after`.
fn after<T: Clone>(table: &Numbered<T>, of: ExecutionId, after: u32, limit: u32) -> Vec<T> {
    let rows = table.range((of, after.saturating_add(1))..=(of, u32::MAX));
    rows.take(limit as usize).map(|(_, row)| row.clone()).collect()
}

/// Deletes all rows of the deleted executions.
fn delete_deleted<T>(table: &mut Numbered<T>, changes: &Changes) {
    for (id, _) in &changes.executions.deleted {
        let names: Vec<_> = table.range(all(*id)).map(|(name, _)| *name).collect();
        names.iter().for_each(|name| drop(table.remove(name)));
    }
}
