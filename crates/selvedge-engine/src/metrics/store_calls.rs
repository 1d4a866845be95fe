//! Counts and times the calls of a store.

use super::histogram::Slots;
use selvedge_store::CallObserver;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// More than the number of different calls of a store.
const CALLS_MAX: usize = 256;

/// The counters of all calls of a store, by name.
#[derive(Debug)]
pub struct StoreCalls(Slots<CallCounts>);

/// The counters of one call.
#[derive(Debug, Default)]
pub struct CallCounts {
    pub calls: AtomicU64,
    /// Calls that failed.
    pub errors: AtomicU64,
    /// The time that the calls took, in microseconds.
    pub micros: AtomicU64,
}

impl Default for StoreCalls {
    fn default() -> Self {
        StoreCalls(Slots::new(CALLS_MAX))
    }
}

impl StoreCalls {
    /// Returns the calls that were made, by name.
    pub fn read(&self) -> Vec<(&str, &CallCounts)> {
        let mut calls: Vec<(&str, &CallCounts)> =
            self.0.read().0.into_iter().map(|(name, _, counts)| (name, counts)).collect();
        calls.sort_by_key(|(name, _)| *name);
        calls
    }
}

impl CallObserver for StoreCalls {
    fn observe(&self, call: &'static str, took: Duration, failed: bool) {
        let counts = self.0.get(call, "");
        counts.calls.fetch_add(1, Relaxed);
        counts.micros.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Relaxed);
        if failed {
            counts.errors.fetch_add(1, Relaxed);
        }
    }
}
