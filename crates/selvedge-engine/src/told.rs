//! What heartbeats have told: a worker that is asked to cancel or to drain is told at once, but only once, so that a worker
//! that goes on sending long heartbeats meanwhile does not spin.
//!
//! Bounded, and only of this process: being told twice costs nothing.

use selvedge_core::SessionId;
use selvedge_core::rules::heartbeat::Beat;
use selvedge_core::rules::report::Fence;
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// How much is remembered at most.
const CAPACITY: usize = 20_000;

/// What has been told.
#[derive(Default)]
pub struct Told(Mutex<HashSet<(SessionId, Option<Fence>)>>);

impl Told {
    /// Whether a beat holds something that its worker has not been told yet; it counts as told from now on. A lost lease
    /// is always news.
    pub fn is_news(&self, instance: SessionId, beat: &Beat) -> bool {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() >= CAPACITY {
            told.clear();
        }
        let mut news = !beat.lost.is_empty();
        for fence in &beat.cancel_requested {
            news |= told.insert((instance, Some(*fence)));
        }
        if beat.drain {
            news |= told.insert((instance, None));
        }
        news
    }
}
