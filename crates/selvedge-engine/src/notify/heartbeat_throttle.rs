//! The heartbeat throttle: spaces out repeated requests to cancel or to drain.
//!
//! A heartbeat that waits returns at once when its worker is asked to cancel a lease or to drain. Until the worker
//! complies, every later heartbeat repeats the request, but not sooner than a second after the last time. Without that
//! pause a worker that sends one long heartbeat after the other would spin.
//!
//! The memory is bounded and local to this process: repeating a request too soon is harmless.

use crate::sync::lock;
use selvedge_core::SessionId;
use selvedge_core::rules::heartbeat::HeartbeatReply;
use selvedge_core::rules::report::Fence;
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The number of requests at which expired entries are removed.
const CAPACITY: usize = 20_000;
/// The minimum time between two repeats of the same request.
const REPEAT_AFTER: Duration = Duration::from_secs(1);

/// The time at which each request was last sent: to an instance, for a lease (cancel) or for none (drain).
#[derive(Default)]
pub struct HeartbeatThrottle(Mutex<HashMap<(SessionId, Option<Fence>), Instant>>);

impl HeartbeatThrottle {
    /// Returns how long to delay a reply that carries a request or a lost lease. None if the reply carries neither.
    pub fn delay(&self, instance: SessionId, beat: &HeartbeatReply) -> Option<Duration> {
        if !beat.lost.is_empty() {
            return Some(Duration::ZERO);
        }
        let now = Instant::now();
        let mut sent = lock(&self.0);
        if sent.len() >= CAPACITY {
            sent.retain(|_, at| now.duration_since(*at) < REPEAT_AFTER);
        }
        let drain = beat.drain.then_some(None);
        let requests = beat.cancel_requested.iter().map(|fence| Some(*fence)).chain(drain);
        let mut delay: Option<Duration> = None;
        for request in requests {
            let last = sent.get(&(instance, request));
            let left = last.map_or(Duration::ZERO, |at| REPEAT_AFTER.saturating_sub(now.duration_since(*at)));
            if left.is_zero() {
                sent.insert((instance, request), now);
            }
            delay = Some(delay.map_or(left, |delay| delay.min(left)));
        }
        delay
    }
}
