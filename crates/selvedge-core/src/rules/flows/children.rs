//! Waiting for children: a suspended parent awaits the end of one child at a time.
//!
//! Invariant: while a parent is suspended until its children have ended, its outbox row of kind `Parent` exists, or one of
//! its live children is awaited and enqueues that row when it ends. So the end of any other child costs nothing, and no end
//! is missed: the suspension enqueues the row, and its dispatch looks for a live child with the parent and the outbox row
//! locked. It marks the child that it finds, with that child locked, and deletes the row; if there is none, the parent
//! resumes.
//!
//! Children are looked at in an order that is unrelated to the order in which they end. So about half of the live children
//! have ended when the awaited one has, and a parent of n children looks only about log n times, at about 2 n rows in total.

use super::join::CHUNK;
use crate::fact::{self, Fact};
use crate::rows::Needs;
use crate::{Execution, ExecutionId, Refusal, Work};
use xxhash_rust::xxh3::xxh3_64;

/// The number of children that are read first. Each further read doubles the number that was looked at.
const FIRST_LOOK: usize = 16;

/// The result of looking for a child that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    /// These children must be read first.
    Unread(Vec<ExecutionId>),
    /// This child has not ended.
    Live(ExecutionId),
    /// The children before this position in the order have ended, and there are more.
    EndedBefore(u32),
    /// All children have ended.
    Ended,
}

/// Returns the attached children of an execution, in the order in which they are looked at.
fn look_order(row: &Execution) -> Vec<ExecutionId> {
    let attached = row.wiring().children.iter().filter(|child| !child.detached);
    let mut order: Vec<ExecutionId> = attached.map(|child| child.execution).collect();
    order.sort_by_cached_key(|id| look_key(*id));
    order
}

/// Returns the key by which children are looked at: a hash, so that the order is unrelated to that of their ends.
pub fn look_key(child: ExecutionId) -> (u64, ExecutionId) {
    (xxh3_64(child.0.as_bytes()), child)
}

/// Looks for a live child from a position in the order on, among at most `limit` children. A child that does not exist any
/// more has ended. Refuses if a child cannot be read: it is then unknown whether it has ended.
pub fn look(row: &Execution, from: u32, limit: usize, work: &Work) -> Result<Look, Refusal> {
    let order = look_order(row);
    let from = (from as usize).min(order.len());
    let until = from.saturating_add(limit).min(order.len());
    for (looked_at, id) in order[from..until].iter().enumerate() {
        if !work.is_loaded(*id) && !work.was_requested(*id) {
            let unread = &order[from + looked_at..until];
            return Ok(Look::Unread(unread[..unread.len().min(looked_at.max(FIRST_LOOK))].to_vec()));
        }
        if work.find(*id)?.is_some_and(|child| child.state.outcome().is_none()) {
            return Ok(Look::Live(*id));
        }
    }
    Ok(if until < order.len() { Look::EndedBefore(until as u32) } else { Look::Ended })
}

/// Needs the children that a suspension until they have ended looks at.
pub fn needs_to_suspend(row: &Execution, work: &Work, needs: &mut Needs) {
    if let Ok(Look::Unread(children)) = look(row, 0, usize::MAX, work) {
        needs.executions.read(children);
    }
}

/// Needs the children that the dispatch for a suspended parent looks at, from a position on, and then the lock on a live one
/// that is not awaited yet. The parent and its outbox row are locked before the children are read. The child is locked only
/// if it is free: a transaction that ends it may wait for the outbox row.
pub fn needs_to_await(row: &Execution, from: u32, work: &Work, needs: &mut Needs) {
    match look(row, from, CHUNK, work) {
        Ok(Look::Unread(children)) => needs.executions.read(children),
        Ok(Look::Live(child)) if !tells(child, work) => needs.executions.lock_if_free([child]),
        Ok(Look::Live(_) | Look::EndedBefore(_) | Look::Ended) | Err(_) => {}
    }
}

/// Awaits the end of a live child. Returns false if another transaction has locked it.
pub fn await_end(child: ExecutionId, work: &mut Work) -> bool {
    if tells(child, work) {
        return true;
    }
    let is_locked = work.is_locked_if_free(child);
    if is_locked {
        work.apply(child, Fact::EndAwaited(fact::EndAwaited {}), None, |row| row.detail.end_awaited = true);
    }
    is_locked
}

/// Reports whether the end of a child will be enqueued for its parent.
fn tells(child: ExecutionId, work: &Work) -> bool {
    let always = |row: &Execution| row.spec.node.as_ref().is_some_and(|node| !node.tells_if_awaited);
    work.find(child).ok().flatten().is_some_and(|row| row.detail.end_awaited || always(row))
}
