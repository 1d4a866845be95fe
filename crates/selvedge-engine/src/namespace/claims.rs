//! Claims in one namespace, which may wait for work.

use super::{Namespace, WAIT_MAX};
use crate::Error;
use crate::commit::{WakeUp, instance_key};
use selvedge_core::rules::CallKey;
use selvedge_core::rules::claim::{Claim, ClaimDraft, Claimed, Claims, Nothing};
use std::time::Duration;
use tokio::time::Instant;

/// A claim with the time that it may wait for work.
#[derive(Clone, Debug)]
pub struct ClaimWait {
    /// The claim.
    pub claim: ClaimDraft,
    /// The maximum time to wait if there is no work.
    pub wait: Duration,
    /// The caller's idempotency key for this call.
    pub call_key: Option<CallKey>,
}

/// The next step of a claim after it asked the store.
enum Next {
    Return(Vec<Claimed>),
    WaitUntil(Instant),
    /// The worker drains: wait without being registered for work.
    WaitDraining,
}

impl Namespace {
    /// Claims executions, and waits for work if there is none.
    pub async fn claim(&self, wanted: ClaimWait) -> Result<Vec<Claimed>, Error> {
        let claim = wanted.claim.check(self.id, wanted.call_key)?;
        let deadline = Instant::now() + wanted.wait.min(WAIT_MAX);
        self.claim_until(claim, deadline).await
    }

    async fn claim_until(&self, claim: Claim, deadline: Instant) -> Result<Vec<Claimed>, Error> {
        let waiting = &self.inner().waiting;
        let mut watermark = waiting.watermark(&claim);
        // The claim of the report before this one may have asked already. A claim that does not wait always asks.
        let mut asks = Instant::now() >= deadline || !waiting.take_still_empty(&claim, watermark);
        let mut woken = false;
        loop {
            let mut until = deadline;
            if asks {
                watermark = waiting.watermark(&claim);
                let claims = match self.run(claim.clone()).await {
                    Err(Error::Closed) if woken => return Ok(Vec::new()),
                    claims => claims??,
                };
                match self.after_asking(&claim, claims, deadline, woken) {
                    Next::Return(claimed) => return Ok(claimed),
                    Next::WaitDraining => return self.wait_while_draining(&claim, deadline).await,
                    Next::WaitUntil(at) => until = at,
                }
            }
            asks = true;
            let Some(mut registration) = waiting.register(&claim, watermark) else {
                continue;
            };
            woken = true;
            let wake_up = match tokio::time::timeout_at(until, &mut registration.wake_up).await {
                Ok(Ok(wake_up)) => Some(wake_up),
                Ok(Err(_closed)) => return Ok(Vec::new()),
                Err(_elapsed) => registration.cancel(),
            };
            match wake_up {
                None if until < deadline => {}
                None => return Ok(Vec::new()),
                Some(WakeUp::Ask) => {}
                Some(WakeUp::HandedOver(reply)) => {
                    // A closed channel means that the transaction failed: the claim asks the store itself.
                    let Ok(claims) = reply.await else { continue };
                    let claimed = claims??.claimed;
                    if !claimed.is_empty() {
                        return Ok(claimed);
                    }
                }
            }
        }
    }

    fn after_asking(&self, claim: &Claim, claims: Claims, deadline: Instant, woken: bool) -> Next {
        let until = match claims.nothing {
            Some(Nothing::Draining) => return Next::WaitDraining,
            Some(Nothing::Answered) => return Next::Return(Vec::new()),
            Some(Nothing::OpensInMs(ms)) => {
                deadline.min(Instant::now() + Duration::from_millis(ms.max(1) as u64))
            }
            Some(Nothing::Ready) | None => deadline,
        };
        if claims.claimed.is_empty() && Instant::now() < deadline {
            return Next::WaitUntil(until);
        }
        if woken && claims.claimed.len() == claim.max as usize {
            // More executions may be claimable than this claim could take: wake the next one.
            self.inner().waiting.wake(&self.inner().registry.covered(&claim.scope));
        }
        Next::Return(claims.claimed)
    }

    /// Waits for a change of the instance without being registered for work, which a draining worker must not get.
    pub(super) async fn wait_while_draining(
        &self,
        claim: &Claim,
        deadline: Instant,
    ) -> Result<Vec<Claimed>, Error> {
        let waiter = self.inner().waiters.register_instance(instance_key(self.id, &claim.instance));
        let woken = waiter.woken();
        // A shutdown wakes all waiters after it has closed the committer, so a waiter created before this check is
        // woken.
        if !self.inner().committer.is_closed() {
            let _ = tokio::time::timeout_at(deadline, woken).await;
        }
        Ok(Vec::new())
    }
}
