//! Finds the waiting executions that a claim can take, in claim order.
//!
//! Each class is an ordered range of one index. The ranges are scanned one after another, each only until it can contain
//! no earlier execution than those found, so the cost grows with the limit of the claim and not with the number of
//! waiting executions.

use super::{
    COUNT, EXECUTIONS_FIND_CANDIDATES, EXECUTIONS_FIND_PASSING, EXECUTIONS_FIND_POOLED,
    EXECUTIONS_READ_CANDIDATE, decode,
};
use crate::row;
use rusqlite::{Connection, OptionalExtension, Statement};
use selvedge_core::rows::{Candidates, Needs, PASSED_MAX, Rows, mention};
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

/// Loads the candidates of every request, each once, with their small inputs.
pub fn load(connection: &Connection, needs: &Needs, rows: &mut Rows) -> rusqlite::Result<()> {
    if needs.queries.candidates.is_empty() {
        return Ok(());
    }
    let mut passed: HashSet<ExecutionId> = needs.queries.except.iter().copied().collect();
    let mut found: BTreeSet<Head> = BTreeSet::new();
    for ask in &needs.queries.candidates {
        find(connection, (needs, ask), &mut passed, &mut found, rows)?;
    }
    if !needs.queries.refusing.is_empty() {
        let mentions: Vec<String> = needs.queries.refusing.iter().map(mention).collect();
        let mut statement = connection.prepare_cached(&EXECUTIONS_READ_CANDIDATE)?;
        for ask in &needs.queries.candidates {
            for head in passing(connection, ask, &mentions, &passed)? {
                if !found.contains(&head) && read(&mut statement, head, needs.inline_inputs(), rows)? {
                    found.insert(head);
                }
            }
        }
    }
    rows.found.candidates.extend(found.iter().map(|head| head.id));
    Ok(())
}

/// Finds the candidates of one request and loads those that are not in `found` yet. Unreadable rows are skipped and
/// replaced by the next ones.
fn find(
    connection: &Connection,
    (needs, ask): (&Needs, &Candidates),
    passed: &mut HashSet<ExecutionId>,
    found: &mut BTreeSet<Head>,
    rows: &mut Rows,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(&EXECUTIONS_READ_CANDIDATE)?;
    let inline_inputs = needs.inline_inputs();
    loop {
        let mut all_readable = true;
        for head in first(connection, &ask.classes, ask.limit as usize, passed)? {
            if found.contains(&head) {
                continue;
            }
            match read(&mut statement, head, inline_inputs, rows)? {
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
    let mut of_class = connection.prepare_cached(&EXECUTIONS_FIND_CANDIDATES)?;
    let mut of_pool = connection.prepare_cached(&EXECUTIONS_FIND_POOLED)?;
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

/// Returns the first waiting executions of a request whose specification has none of these texts.
fn passing(
    connection: &Connection,
    ask: &Candidates,
    mentions: &[String],
    passed: &HashSet<ExecutionId>,
) -> rusqlite::Result<Vec<Head>> {
    let mut statement = connection.prepare_cached(&EXECUTIONS_FIND_PASSING)?;
    let mut heads: Vec<Head> = Vec::new();
    for class in &ask.classes {
        let mut range = statement.query([i64::from(class.0), i64::from(PASSED_MAX)])?;
        let mut of_class = 0;
        while of_class < ask.limit
            && let Some(row) = range.next()?
        {
            let spec: Option<String> = row.get(3)?;
            let id = ExecutionId(Uuid::from_bytes(row.get(1)?));
            let names_one = spec.is_some_and(|spec| mentions.iter().any(|mention| spec.contains(mention)));
            if !names_one && !passed.contains(&id) {
                heads.push(Head { rank: row.get(0)?, id, place: row.get(2)? });
                of_class += 1;
            }
        }
    }
    heads.sort_unstable();
    heads.truncate(ask.limit as usize);
    Ok(heads)
}

/// Loads one candidate, with its input up to a size. Reports whether it was readable.
fn read(
    statement: &mut Statement<'_>,
    head: Head,
    inline_inputs: usize,
    rows: &mut Rows,
) -> rusqlite::Result<bool> {
    let read = statement
        .query_row([head.place, inline_inputs as i64], |found| {
            let input = row::sized_payload(found, COUNT, inline_inputs);
            Ok((decode(found)?, input))
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
