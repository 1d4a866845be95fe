//! Finds the waiting executions that a claim can take, in claim order.
//!
//! Each class is an ordered range of one index. The ranges are scanned one after another, each only until it can contain
//! no earlier execution than those found, so the cost grows with the limit of the claim and not with the number of
//! waiting executions.

use crate::{row, sql};
use rusqlite::{Connection, OptionalExtension, Statement};
use selvedge_core::rows::{Candidates, Needs, Rows};
use selvedge_core::{ClassId, ExecutionId};
use std::collections::{BTreeSet, BinaryHeap, HashSet};
use uuid::Uuid;

/// A waiting execution: its rank among claims, and its rowid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Head {
    rank: i64,
    id: ExecutionId,
    place: i64,
}

/// Loads the candidates of every request, each once, with their inputs.
pub fn candidates(connection: &Connection, needs: &Needs, rows: &mut Rows) -> rusqlite::Result<()> {
    if needs.queries.candidates.is_empty() {
        return Ok(());
    }
    let mut passed: HashSet<ExecutionId> = needs.queries.except.iter().copied().collect();
    let mut found: BTreeSet<Head> = BTreeSet::new();
    for ask in &needs.queries.candidates {
        find(connection, ask, &mut passed, &mut found, rows)?;
    }
    rows.found.candidates.extend(found.iter().map(|head| head.id));
    Ok(())
}

/// Finds the candidates of one request and loads those that are not in `found` yet. Unreadable rows are skipped and
/// replaced by the next ones.
fn find(
    connection: &Connection,
    ask: &Candidates,
    passed: &mut HashSet<ExecutionId>,
    found: &mut BTreeSet<Head>,
    rows: &mut Rows,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(&sql::EXECUTIONS_READ_CANDIDATE)?;
    loop {
        let mut all_readable = true;
        for head in first(connection, &ask.classes, ask.limit as usize, passed)? {
            if found.contains(&head) {
                continue;
            }
            match read(&mut statement, head, rows)? {
                true => found.insert(head),
                false => {
                    all_readable = false;
                    passed.insert(head.id)
                }
            };
        }
        if all_readable {
            return Ok(());
        }
    }
}

/// Returns the first `limit` waiting executions of these classes, except those in `passed`.
fn first(
    connection: &Connection,
    classes: &[ClassId],
    limit: usize,
    passed: &HashSet<ExecutionId>,
) -> rusqlite::Result<Vec<Head>> {
    let mut of_class = connection.prepare_cached(&sql::EXECUTIONS_FIND_CANDIDATES)?;
    let mut of_pool = connection.prepare_cached(&sql::EXECUTIONS_FIND_POOLED)?;
    let mut heads: BinaryHeap<Head> = BinaryHeap::new();
    for class in classes {
        // A pool has a negative id.
        let statement = if class.0 < 0 { &mut of_pool } else { &mut of_class };
        let mut range = statement.query([class.0])?;
        while let Some(row) = range.next()? {
            let head = Head {
                rank: row.get(0)?,
                id: ExecutionId(Uuid::from_bytes(row.get(1)?)),
                place: row.get(2)?,
            };
            if heads.len() >= limit && heads.peek().is_none_or(|last| *last < head) {
                break;
            }
            if !passed.contains(&head.id) {
                heads.push(head);
            }
            if heads.len() > limit {
                heads.pop();
            }
        }
    }
    Ok(heads.into_sorted_vec())
}

/// Loads one candidate. Reports whether it was readable.
fn read(statement: &mut Statement<'_>, head: Head, rows: &mut Rows) -> rusqlite::Result<bool> {
    let read = statement
        .query_row([head.place], |found| {
            Ok((row::execution(found)?, row::bytes(found, sql::EXECUTION_COLUMN_COUNT)))
        })
        .optional()?;
    match read {
        Some((Ok(execution), Ok(input))) => {
            rows.executions.push(execution);
            rows.inputs.push((head.id, input));
            return Ok(true);
        }
        Some((Ok(_), Err(error))) => rows.unreadable.push((head.id, format!("column input: {error}"))),
        Some((Err(unreadable), _)) => rows.unreadable.push(unreadable),
        None => rows.unreadable.push((head.id, "the index knows it and the table does not".into())),
    }
    Ok(false)
}
