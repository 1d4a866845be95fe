//! The lease cache: rows of the leases that this process granted, so that the worker's report needs no read.
//!
//! A cached row may be out of date. It is saved only if the store still has its version; otherwise the transaction
//! begins again with the row read from the store. The cache is bounded; a miss costs one read.
//!
//! If the store has lost commits, it may have another change with the version of a cached row. So all rows belong to one
//! lineage of the store (see [`Transactions::lineage`](selvedge_store::Transactions::lineage)), and are dropped when it changes.

use crate::locking::lock;
use selvedge_core::{ClassId, Execution, ExecutionId, FlowId};
use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The maximum number of cached rows, and of rows known to be unreadable.
const CAPACITY: usize = 20_000;
/// The maximum history of a cached row, in bytes. Rows with a longer one are not cached.
const HISTORY_LIMIT: usize = 2048;

/// Cached rows, and the ids of unreadable rows, so that each of those is logged once.
#[derive(Default)]
pub struct LeaseCache {
    rows: Mutex<Rows>,
    unreadable: Mutex<HashSet<ExecutionId>>,
    hits: AtomicU64,
}

/// The cached rows of one lineage of the store.
#[derive(Default)]
struct Rows {
    lineage: u64,
    by_id: HashMap<ExecutionId, Execution>,
}

impl Rows {
    /// Drops the rows of earlier histories.
    fn drop_earlier(&mut self, lineage: u64) {
        if self.lineage < lineage {
            self.by_id.clear();
            self.lineage = lineage;
        }
    }
}

impl LeaseCache {
    /// Takes a row out of the cache, if it is of this lineage of the store or a later one. If the transaction changes the
    /// row and it stays active, the commit adds it again.
    pub fn take(&self, id: ExecutionId, lineage: u64) -> Option<Execution> {
        let mut cached = lock(&self.rows);
        cached.drop_earlier(lineage);
        let row = cached.by_id.remove(&id)?;
        self.hits.fetch_add(1, Ordering::Relaxed);
        Some(row)
    }

    /// Returns how many rows were taken out.
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// The flow of a cached row.
    pub fn flow_of(&self, id: ExecutionId) -> Option<FlowId> {
        lock(&self.rows).by_id.get(&id)?.flow
    }

    /// The class of a cached row.
    pub fn class_of(&self, id: ExecutionId) -> Option<ClassId> {
        Some(lock(&self.rows).by_id.get(&id)?.class)
    }

    /// Adds rows after their commit, which began in this lineage of the store. If they exceed the capacity, the cache is
    /// cleared first.
    pub fn add(&self, rows: Vec<Execution>, lineage: u64) {
        if rows.is_empty() {
            return;
        }
        let mut cached = lock(&self.rows);
        cached.drop_earlier(lineage);
        if cached.lineage > lineage {
            return;
        }
        let cached = &mut cached.by_id;
        if cached.len() + rows.len() > CAPACITY {
            cached.clear();
        }
        let short = rows.into_iter().filter(|row| row.history.as_bytes().len() <= HISTORY_LIMIT);
        cached.extend(short.map(|row| (row.id, row)));
    }

    /// Marks a row as unreadable. Returns true if it was not marked before.
    pub fn is_newly_unreadable(&self, id: ExecutionId) -> bool {
        let mut unreadable = lock(&self.unreadable);
        if unreadable.len() >= CAPACITY {
            unreadable.clear();
        }
        unreadable.insert(id)
    }
}
