//! The lease cache: rows of the leases that this process handed out, so that the report which comes back needs no read.
//!
//! A cached row may be out of date: it is saved only if the store still has its version, else the rule is decided again with
//! the row read anew. Bounded; a miss costs a read and nothing else.

use selvedge_core::{ClassId, Execution, ExecutionId, FlowId};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The most rows that are cached.
const CAPACITY: usize = 20_000;
/// A row with a longer history, in bytes, is not cached.
const HISTORY_LIMIT: usize = 2048;

/// Cached rows, and the rows known to be damaged, so that each is reported once.
#[derive(Default)]
pub struct LeaseCache {
    rows: Mutex<HashMap<ExecutionId, Execution>>,
    damaged: Mutex<HashSet<ExecutionId>>,
    hits: AtomicU64,
}

impl LeaseCache {
    /// Takes a row out. The transaction that changes it puts the new one back.
    pub fn take(&self, id: ExecutionId) -> Option<Execution> {
        let row = self.rows.lock().unwrap_or_else(PoisonError::into_inner).remove(&id)?;
        self.hits.fetch_add(1, Ordering::Relaxed);
        Some(row)
    }

    /// How many rows were taken out.
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// The flow of a cached row.
    pub fn flow_of(&self, id: ExecutionId) -> Option<FlowId> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner).get(&id)?.flow
    }

    /// The class of a cached row.
    pub fn class_of(&self, id: ExecutionId) -> Option<ClassId> {
        Some(self.rows.lock().unwrap_or_else(PoisonError::into_inner).get(&id)?.class)
    }

    /// Adds rows after their commit.
    pub fn add(&self, rows: Vec<Execution>) {
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

    /// Whether this row was not reported as damaged before. Marks it as reported.
    pub fn is_newly_damaged(&self, id: ExecutionId) -> bool {
        let mut damaged = self.damaged.lock().unwrap_or_else(PoisonError::into_inner);
        if damaged.len() >= CAPACITY {
            damaged.clear();
        }
        damaged.insert(id)
    }
}
