//! What heartbeats have told: a worker that is asked to cancel or to drain is told at once, and told again with every
//! heartbeat until it has done so, but no sooner than a second later, so that a worker that goes on sending long heartbeats
//! meanwhile does not spin.
//!
//! Bounded, and only of this process: being told once more costs nothing.

use selvedge_core::SessionId;
use selvedge_core::rules::heartbeat::Beat;
use selvedge_core::rules::report::Fence;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How much is remembered at most.
const CAPACITY: usize = 20_000;
/// How soon the same is told again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// What has been told, and when.
#[derive(Default)]
pub struct Told(Mutex<HashMap<(SessionId, Option<Fence>), Instant>>);

impl Told {
    /// How long an answer with something to tell should be held back; none where there is nothing to tell.
    pub fn hold_back(&self, instance: SessionId, beat: &Beat) -> Option<Duration> {
        if !beat.lost.is_empty() {
            return Some(Duration::ZERO);
        }
        let now = Instant::now();
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() >= CAPACITY {
            told.retain(|_, at| now.duration_since(*at) < AGAIN_AFTER);
        }
        let drain = beat.drain.then_some(None);
        let items = beat.cancel_requested.iter().map(|fence| Some(*fence)).chain(drain);
        let mut pause: Option<Duration> = None;
        for item in items {
            let last = told.get(&(instance, item));
            let left = last.map_or(Duration::ZERO, |at| AGAIN_AFTER.saturating_sub(now.duration_since(*at)));
            if left.is_zero() {
                told.insert((instance, item), now);
            }
            pause = Some(pause.map_or(left, |pause| pause.min(left)));
        }
        pause
    }
}
