//! Counts the pages that browsers load, so that a program can tell whether somebody looks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A counter of loaded pages. A page that is open loads itself again at least every 10 seconds. Clones share the counter.
#[derive(Clone, Debug, Default)]
pub struct PageViews(Arc<AtomicU64>);

impl PageViews {
    /// Returns the number of pages so far.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Counts a page.
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}
