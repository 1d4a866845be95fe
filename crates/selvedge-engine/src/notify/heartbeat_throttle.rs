//! The heartbeat throttle: spaces out repeated requests to cancel or to drain.
//!
//! A heartbeat or a claim that waits returns at once when its worker is asked to drain, and a heartbeat also when its worker
//! is asked to cancel a lease. Until the worker complies, every later call repeats the request, but not sooner than a second
//! after the last time. Without that pause a worker that sends one long call after the other would spin.
//!
//! The memory is bounded and local to this process: repeating a request too soon is harmless.

use crate::locking::lock;
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
        let drain = beat.drain.then_some(None);
        self.delay_requests(instance, beat.cancel_requested.iter().map(|fence| Some(*fence)).chain(drain))
    }

    /// Returns how long to delay the reply to a claim of a worker that is asked to drain.
    pub fn delay_drain(&self, instance: SessionId) -> Duration {
        self.delay_requests(instance, [None].into_iter()).unwrap_or_default()
    }

    fn delay_requests(
        &self,
        instance: SessionId,
        requests: impl Iterator<Item = Option<Fence>>,
    ) -> Option<Duration> {
        let now = Instant::now();
        let mut sent = lock(&self.0);
        if sent.len() >= CAPACITY {
            sent.retain(|_, at| now.duration_since(*at) < REPEAT_AFTER);
        }
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
