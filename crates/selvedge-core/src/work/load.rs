//! Loading the rows of a kind into its table. Rows that the transaction has changed stay as they are.

use crate::rows::KeyRow;
use crate::stream::Stream;
use crate::table::{Kind, Table};
use crate::{Execution, Signal};

/// Adds rows, as most kinds do: a row that is loaded again replaces the earlier one.
pub(crate) fn all<R: Kind>(table: &mut Table<R>, rows: Vec<R>) {
    for row in rows {
        table.load(row);
    }
}

pub(crate) fn executions(table: &mut Table<Execution>, rows: Vec<Execution>) {
    for row in rows {
        execution(table, row);
    }
}

/// Adds an execution.
pub(super) fn execution(table: &mut Table<Execution>, row: Execution) {
    let bare = !row.detail.record.is_carried();
    if let Some(entry) = table.load(row) {
        entry.extra.bare = bare;
    }
}

/// Adds keys that are not loaded yet. Keys are not locked: the save compares the stored key with the one that was read
/// first.
pub(crate) fn first(table: &mut Table<KeyRow>, rows: Vec<KeyRow>) {
    for row in rows {
        if !table.contains(&row.name) {
            table.load(row);
        }
    }
}

/// Adds streams. A stream that was read with its summary document replaces one that was read without.
pub(crate) fn streams(table: &mut Table<Stream>, rows: Vec<Stream>) {
    for row in rows {
        if row.summary.is_some() || !table.contains(&row.name) {
            table.load(row);
        }
    }
}

/// Adds signals. A known signal only gets the payload that it lacks.
pub(crate) fn signals(table: &mut Table<Signal>, rows: Vec<Signal>) {
    for row in rows {
        match table.entry_mut(&row.key()) {
            Some(known) if known.row.payload.is_none() => known.row.payload = row.payload,
            Some(_) => {}
            None => drop(table.load(row)),
        }
    }
}
