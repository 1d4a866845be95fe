//! Heartbeats: one long-polling call at a time, so that a lost lease or a wish to cancel arrives at once.
//!
//! A call names the leases that were held when it began. A newer lease is named by the next call, which replaces the one
//! under way a moment after the claim: work shorter than that moment costs no heartbeat at all, and no lease stays
//! unnamed long enough to be taken for one whose claim was never heard of. Replacing a call loses nothing, because the
//! next one is told the same again.

use super::leases::Leases;
use crate::{Error, Namespace};
use selvedge_core::rules::report::Fence;
use selvedge_engine::Heartbeaten;
use std::collections::HashSet;
use std::future::{Future, pending};
use std::pin::Pin;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// How long a new lease waits to be named, at most.
const NAMED_WITHIN: Duration = Duration::from_millis(250);
/// How often the engine is asked while it cannot keep a call waiting, at least.
const PACE: Duration = Duration::from_secs(1);
/// Later than anything.
const LATER: Duration = Duration::from_secs(24 * 3600);

/// The heartbeats of a worker.
pub struct Heartbeat {
    namespace: Namespace,
    instance: String,
    ttl: Duration,
    /// When the next call begins; if one is under way, only for leases that it did not name.
    at: Instant,
    /// Whether calls do not wait: the engine answers every one at once while something is asked for.
    paced: bool,
    call: Option<Call>,
}

struct Call {
    answer: Pin<Box<dyn Future<Output = Result<Heartbeaten, Error>> + Send>>,
    named: HashSet<Fence>,
}

impl Heartbeat {
    /// The heartbeats of an instance whose leases live this long.
    pub fn new(namespace: Namespace, instance: String, ttl: Duration) -> Self {
        Heartbeat { namespace, instance, ttl, at: Instant::now(), paced: false, call: None }
    }

    /// There is a new lease.
    pub fn name_soon(&mut self) {
        self.at = self.at.min(Instant::now() + NAMED_WITHIN.min(self.ttl / 6));
    }

    /// Beats until there is something to tell. May be dropped and asked again at any time.
    pub async fn answer(&mut self, leases: &Leases) -> Result<Heartbeaten, Error> {
        loop {
            tokio::select! {
                answer = answered(&mut self.call) => {
                    self.call = None;
                    return answer;
                }
                () = sleep_until(self.at) => self.begin(leases),
            }
        }
    }

    /// Goes on after an answer: with a call that waits, or where that is no use, at a pace.
    pub fn go_on(&mut self, paced: bool) {
        self.paced = paced;
        let pause = if paced { PACE.min(self.ttl / 6) } else { Duration::ZERO };
        self.at = Instant::now() + pause;
    }

    fn begin(&mut self, leases: &Leases) {
        self.at = Instant::now() + LATER;
        let named: HashSet<Fence> = leases.to_renew().collect();
        if self.call.as_ref().is_some_and(|call| named.is_subset(&call.named)) {
            return;
        }
        let wait = if self.paced { Duration::ZERO } else { self.ttl / 3 };
        let (namespace, instance) = (self.namespace.clone(), self.instance.clone());
        let fences = named.iter().copied().collect();
        let answer = Box::pin(async move { namespace.heartbeat(&instance, fences, wait).await });
        self.call = Some(Call { answer, named });
    }
}

async fn answered(call: &mut Option<Call>) -> Result<Heartbeaten, Error> {
    match call {
        Some(call) => call.answer.as_mut().await,
        None => pending().await,
    }
}
