//! The kinds of rows: one file for each noun of the contract, with its statements, its columns, its part of loading and
//! saving, and its reads.

pub mod api_keys;
mod bulk_jobs;
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
pub mod secret;
mod sessions;
mod signals;
mod steps;
mod streams;
mod token_keys;
mod waitpoints;
mod webhooks;

use crate::connection::failure::is_not_understood;
use crate::sql::Statement;
use rusqlite::Connection;
use selvedge_core::{Changes, ExecutionId, FlowId, Needs, Rows, Timestamp};
use std::sync::LazyLock;

/// A noun's part of the store.
pub(crate) struct Kind {
    /// Lists of columns, with the placeholders that stand for them in statements.
    pub columns: &'static [(&'static str, &'static str)],
    pub statements: &'static [Statement],
    /// Loads the rows that a decision needs.
    pub load: fn(&Connection, &Needs, &mut Rows) -> rusqlite::Result<()>,
    /// Saves the changes of a decision. Returns the first guard that failed: then some changes are made and must be rolled
    /// back.
    pub save: fn(&Connection, &Changes, &mut Saving) -> rusqlite::Result<Option<String>>,
    /// The name of the kind, and the statement that finds the time at which its first row is due.
    pub due: Option<(&'static str, &'static LazyLock<String>)>,
    /// The statements that delete rows of a namespace without executions and flows, in order.
    pub delete_rest: &'static [&'static LazyLock<String>],
}

pub(crate) struct Saving {
    pub now: Timestamp,
    /// The number of the log entry, if there were events.
    pub entry: Option<i64>,
    /// Flows that are running without a live member now.
    pub emptied: Vec<FlowId>,
}

impl Kind {
    /// A noun without statements, which is neither loaded nor saved, is never due, and stays when its namespace is deleted.
    const EMPTY: Kind = Kind {
        columns: &[],
        statements: &[],
        load: |_, _, _| Ok(()),
        save: |_, _, _| Ok(None),
        due: None,
        delete_rest: &[],
    };
}

/// All kinds, in the order in which they are loaded and saved.
pub(crate) static KINDS: &[Kind] = &[
    api_keys::KIND,
    bulk_jobs::KIND,
    webhooks::KIND,
    schedules::KIND,
    executions::KIND,
    keys::KIND,
    streams::KIND,
    signals::KIND,
    steps::KIND,
    waitpoints::KIND,
    token_keys::KIND,
    sessions::KIND,
    flows::KIND,
    outbox::KIND,
    gates::KIND,
    classes::KIND,
    namespaces::KIND,
    due::KIND,
    rollups::KIND,
    projection::KIND,
    secret::KIND,
    log::KIND,
];

/// Returns the records of an execution. If they are unreadable, adds the execution to the unreadable ones, so that no other
/// is affected, and returns none.
fn readable<T>(
    of: ExecutionId,
    read: rusqlite::Result<Vec<T>>,
    rows: &mut Rows,
) -> rusqlite::Result<Option<Vec<T>>> {
    match read {
        Err(error) if is_not_understood(&error) => {
            rows.unreadable.push((of, error.to_string()));
            Ok(None)
        }
        read => read.map(Some),
    }
}
