//! Claims in one namespace, which may wait for work.

use crate::Error;
use crate::commit::{WakeUp, instance_key};
use crate::namespace::{Namespace, WAIT_MAX};
use selvedge_core::rules::CallKey;
use selvedge_core::rules::claim::{Claim, ClaimDraft, Claimed, Claims, Nothing};
use selvedge_core::rules::worker::{BeginIncarnation, PutBackReason};
use std::time::Duration;
use tokio::time::Instant;

/// A claim with the time that it may wait for work.
#[derive(Clone, Debug)]
pub struct ClaimWait {
    pub claim: ClaimDraft,
    /// The maximum time to wait if there is no work.
    pub wait: Duration,
    /// The caller's idempotency key for this call.
    pub call_key: Option<CallKey>,
}

/// The answer to a claim.
#[derive(Clone, Debug, Default)]
pub struct ClaimResult {
    /// The claimed executions, in claim order.
    pub claimed: Vec<Claimed>,
    /// True if the worker is asked to drain: it gets nothing more.
    pub drain: bool,
    /// True if a call with the same idempotency key was answered before.
    pub duplicate: bool,
}

/// The next step of a claim after it asked the store.
enum Next {
    Return(ClaimResult),
    WaitUntil(Instant),
    /// The worker drains: return, and do not repeat the request too soon.
    ReturnDraining,
    /// Register the claim's incarnation and ask again.
    BeginIncarnation,
}

/// Returns the time after which a waiting claim renews its session: the time to live of its leases. The worker counts as live for
/// twice as long.
pub(in crate::namespace) fn renewal(claim: &Claim) -> Duration {
    Duration::from_millis(claim.ttl_ms.max(1) as u64)
}

impl Namespace {
    /// Claims executions, and waits for work if there is none.
    pub async fn claim(&self, wanted: ClaimWait) -> Result<Vec<Claimed>, Error> {
        Ok(self.claim_as_worker(wanted).await?.claimed)
    }

    /// Claims executions like [`Namespace::claim`], and says whether the worker is asked to drain. A waiting claim returns
    /// at once when its worker is asked to drain, departs or is superseded, on any server of the store.
    pub async fn claim_as_worker(&self, wanted: ClaimWait) -> Result<ClaimResult, Error> {
        let claim = wanted.claim.check(self.id, wanted.call_key)?;
        let asked = std::time::Instant::now();
        let deadline = Instant::now() + wanted.wait.min(WAIT_MAX);
        let result = self.claim_until(claim, deadline).await?;
        self.inner().metrics.claimed(&result.claimed, asked, &self.inner().registry);
        Ok(result)
    }

    async fn claim_until(&self, mut claim: Claim, deadline: Instant) -> Result<ClaimResult, Error> {
        let waiting = &self.inner().waiting;
        let renewal = renewal(&claim);
        let mut watermark = waiting.watermark(&claim);
        // The claim of the report before this one may have asked already. A claim that does not wait always asks.
        if Instant::now() < deadline {
            claim.life = waiting.take_still_empty(&claim, watermark);
        }
        let mut asks = claim.life.is_none();
        let mut woken = false;
        loop {
            let mut until = deadline;
            if asks {
                watermark = waiting.watermark(&claim);
                let claims = match self.run(claim.clone()).await {
                    Err(Error::Closed) if woken => return Ok(ClaimResult::default()),
                    claims => claims??,
                };
                claim.life = claim.life.or(claims.life);
                match self.after_asking(&claim, claims, deadline, woken) {
                    Next::Return(result) => return Ok(result),
                    Next::ReturnDraining => {
                        match woken {
                            true => self.pass_wake_up_on(&claim),
                            false => self.delay_drain(&claim, deadline).await,
                        }
                        return Ok(ClaimResult { drain: true, ..ClaimResult::default() });
                    }
                    Next::BeginIncarnation => {
                        let begun = self.begin_incarnation(&claim).await;
                        if begun.is_err() && woken {
                            self.pass_wake_up_on(&claim);
                        }
                        begun?;
                        continue;
                    }
                    Next::WaitUntil(at) => until = at,
                }
            }
            asks = true;
            // Asking again renews the session, so that the worker counts as live while it waits.
            until = until.min(Instant::now() + renewal);
            let Some(mut registration) = waiting.register(&claim, watermark) else {
                continue;
            };
            woken = true;
            let wake_up = match tokio::time::timeout_at(until, &mut registration.wake_up).await {
                Ok(Ok(wake_up)) => Some(wake_up),
                Ok(Err(_closed)) => return Ok(ClaimResult::default()),
                Err(_elapsed) => registration.cancel(),
            };
            match wake_up {
                None if until < deadline => {}
                None => return Ok(ClaimResult::default()),
                Some(WakeUp::Ask) => {}
                Some(WakeUp::HandedOver(reply)) => {
                    // A closed channel means that the transaction failed: the claim asks the store itself.
                    let Ok(claims) = reply.await else { continue };
                    let claimed = claims??.claimed;
                    if !claimed.is_empty() {
                        return Ok(ClaimResult { claimed, ..ClaimResult::default() });
                    }
                }
            }
        }
    }

    fn after_asking(&self, claim: &Claim, claims: Claims, deadline: Instant, woken: bool) -> Next {
        let Claims { claimed, nothing, drain, duplicate, .. } = claims;
        let until = match nothing {
            Some(Nothing::Draining) => return Next::ReturnDraining,
            Some(Nothing::NewIncarnation) => return Next::BeginIncarnation,
            Some(Nothing::Answered | Nothing::Ended) => {
                if woken {
                    self.pass_wake_up_on(claim);
                }
                return Next::Return(ClaimResult { claimed, drain, duplicate });
            }
            Some(Nothing::OpensInMs(ms)) => {
                deadline.min(Instant::now() + Duration::from_millis(ms.max(1) as u64))
            }
            Some(Nothing::Ready) | None => deadline,
        };
        if claimed.is_empty() && Instant::now() < deadline {
            return Next::WaitUntil(until);
        }
        if woken && claimed.len() == claim.max as usize {
            // More executions may be claimable than this claim could take.
            self.pass_wake_up_on(claim);
        }
        Next::Return(ClaimResult { claimed, drain, duplicate })
    }

    /// Wakes the next waiting claim of each class: this one was woken and leaves executions that the others may take.
    pub(in crate::namespace) fn pass_wake_up_on(&self, claim: &Claim) {
        self.inner().waiting.wake(&self.inner().registry.covered(&claim.scope));
    }

    /// Registers the incarnation that a claim names, and puts the leases of its predecessor back. Refuses a superseded
    /// one.
    pub(in crate::namespace) async fn begin_incarnation(&self, claim: &Claim) -> Result<(), Error> {
        let leases = self.run(BeginIncarnation { claim: claim.clone() }).await??;
        // A crash before this leaves leases on their first term: they expire when it ends.
        self.put_back(&leases, PutBackReason::WorkerDeparted).await?;
        Ok(())
    }

    /// Delays the reply to a claim of a draining worker, unless that was not told recently. A change of the instance ends
    /// the delay, and so does a shutdown.
    pub(in crate::namespace) async fn delay_drain(&self, claim: &Claim, deadline: Instant) {
        let key = instance_key(self.id, &claim.instance);
        let waiter = self.inner().waiters.register_instance(key);
        let woken = waiter.woken();
        let delay = self.inner().heartbeat_throttle.delay_drain(key);
        // A shutdown wakes all waiters after it has closed the committer, so a waiter created before this check is
        // woken.
        if !self.inner().committer.is_closed() {
            let _ = tokio::time::timeout_at(deadline.min(Instant::now() + delay), woken).await;
        }
    }
}
