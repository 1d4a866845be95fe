//! Rows of the leases that this process handed out, remembered so that the report that comes back needs no read.
//!
//! A remembered row may be out of date: it is saved only if the store still has its version, else the command is decided
//! again with the row read anew. Bounded; forgetting costs a read and nothing else.

use selvedge_core::{ClassId, Execution, ExecutionId, FlowId};
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

/// How many rows are remembered at most.
const CAPACITY: usize = 20_000;
/// A row with a longer history is not remembered.
const HISTORY_LIMIT: usize = 2048;

/// Remembered rows, and which rows are known to be damaged, so that each is complained of once.
#[derive(Default)]
pub struct Memory {
    rows: Mutex<HashMap<ExecutionId, Execution>>,
    damaged: Mutex<HashSet<ExecutionId>>,
}

impl Memory {
    /// Takes a row out: whoever changes it puts the new one back.
    pub fn take(&self, id: ExecutionId) -> Option<Execution> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner).remove(&id)
    }

    /// The flow of a remembered row.
    pub fn flow_of(&self, id: ExecutionId) -> Option<FlowId> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner).get(&id)?.flow
    }

    /// The class of a remembered row.
    pub fn class_of(&self, id: ExecutionId) -> Option<ClassId> {
        Some(self.rows.lock().unwrap_or_else(PoisonError::into_inner).get(&id)?.class)
    }

    /// Remembers rows after their commit.
    pub fn remember(&self, rows: Vec<Execution>) {
        if rows.is_empty() {
            return;
        }
        let mut known = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() + rows.len() > CAPACITY {
            known.clear();
        }
        let short = rows.into_iter().filter(|row| row.history.as_bytes().len() <= HISTORY_LIMIT);
        known.extend(short.map(|row| (row.id, row)));
    }

    /// Whether nobody has complained of this row yet; from now on somebody has.
    pub fn is_newly_damaged(&self, id: ExecutionId) -> bool {
        let mut damaged = self.damaged.lock().unwrap_or_else(PoisonError::into_inner);
        if damaged.len() >= CAPACITY {
            damaged.clear();
        }
        damaged.insert(id)
    }
}
