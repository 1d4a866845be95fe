//! Heartbeats: one long-polling call at a time, so that a lost lease or a requested cancellation is noticed at once.
//!
//! A call names the leases that were held when it began. A newer lease is named by the next call, which replaces the
//! outstanding one a moment after the claim. Work shorter than that moment costs no heartbeat at all, and no lease
//! stays unnamed long enough for the engine to treat its claim as lost. Replacing a call loses nothing, because the
//! next answer repeats the same information.

use super::leases::Leases;
use super::link::Link;
use super::protocol::HeartbeatAnswer;
use crate::Error;
use selvedge_core::rules::report::Fence;
use std::collections::HashSet;
use std::future::{Future, pending};
use std::pin::Pin;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Longest time until a new lease is named by a heartbeat.
const NEW_LEASE_DELAY: Duration = Duration::from_millis(250);
/// Longest interval between calls while the engine answers every call at once.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Stands for "no call is scheduled".
const NEVER: Duration = Duration::from_secs(24 * 3600);

/// The heartbeats of a worker.
pub struct Heartbeat {
    link: Link,
    ttl: Duration,
    /// The time of the next call. An outstanding call is replaced only if it does not name all leases.
    next_at: Instant,
    /// True while calls do not wait, because the engine answers every call at once while a drain or a cancellation is
    /// requested.
    polling: bool,
    call: Option<Call>,
}

struct Call {
    answer: Pin<Box<dyn Future<Output = Result<HeartbeatAnswer, Error>> + Send>>,
    named: HashSet<Fence>,
}

impl Heartbeat {
    /// Creates the heartbeats of an instance whose leases have this time to live.
    pub fn new(link: Link, ttl: Duration) -> Self {
        Heartbeat { link, ttl, next_at: Instant::now(), polling: false, call: None }
    }

    /// Schedules a call that names a new lease.
    pub fn schedule_for_new_lease(&mut self) {
        self.next_at = self.next_at.min(Instant::now() + NEW_LEASE_DELAY.min(self.ttl / 6));
    }

    /// Sends heartbeats until one is answered. Cancel safe: the outstanding call continues with the next call of this
    /// method.
    pub async fn answer(&mut self, leases: &Leases) -> Result<HeartbeatAnswer, Error> {
        loop {
            tokio::select! {
                answer = answered(&mut self.call) => {
                    self.call = None;
                    return answer;
                }
                () = sleep_until(self.next_at) => self.begin(leases),
            }
        }
    }

    /// Schedules the next call after an answer: a long-polling call at once, or with `polling` a short call after an
    /// interval.
    pub fn schedule_next(&mut self, polling: bool) {
        self.polling = polling;
        let delay = if polling { POLL_INTERVAL.min(self.ttl / 6) } else { Duration::ZERO };
        self.next_at = Instant::now() + delay;
    }

    fn begin(&mut self, leases: &Leases) {
        self.next_at = Instant::now() + NEVER;
        let named: HashSet<Fence> = leases.to_renew().collect();
        if self.call.as_ref().is_some_and(|call| named.is_subset(&call.named)) {
            return;
        }
        let wait = if self.polling { Duration::ZERO } else { self.ttl / 3 };
        let (link, fences) = (self.link.clone(), named.iter().copied().collect());
        let answer = Box::pin(async move { link.heartbeat(fences, wait).await });
        self.call = Some(Call { answer, named });
    }
}

async fn answered(call: &mut Option<Call>) -> Result<HeartbeatAnswer, Error> {
    match call {
        Some(call) => call.answer.as_mut().await,
        None => pending().await,
    }
}
