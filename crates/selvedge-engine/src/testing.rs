//! Hooks for the conformance suite, in tests only: they run rules with the lease cache and the waiting claims of an engine.

use crate::commit::WakeUp;
use crate::{Engine, Error};
use selvedge_core::Refusal;
use selvedge_core::rules::claim::{Claim, Claims};
use selvedge_store::{BoxedTask, Transaction};

impl Engine {
    /// Runs tasks in one transaction that bypasses the queue. Deferred tasks run in transactions of their own after it.
    pub async fn transact(&self, tasks: Vec<BoxedTask>) -> Result<Transaction, Error> {
        // The supervisor does this every second, but the suite runs without it.
        if self.inner.store.overview().await?.lanes {
            self.inner.registry.expect_lanes();
        }
        // The suite interns classes in the store directly.
        self.inner.registry.refresh_classes().await?;
        Ok(self.inner.committer.transact_unqueued(tasks).await?)
    }

    /// Returns how many rows were taken from the lease cache.
    pub fn cache_hits(&self) -> u64 {
        self.inner.committer.cache_hits()
    }

    /// Registers a claim for handover. The returned function deregisters it and returns its reply, if a transaction
    /// took it along in between.
    pub fn wait_for_handover(
        &self,
        claim: &Claim,
    ) -> impl FnOnce() -> Option<Result<Claims, Refusal>> + Send + 'static {
        let (engine, watermark) = (self.clone(), self.inner.waiting.watermark(claim));
        let registered =
            self.inner.waiting.register(claim, watermark).map(|registration| registration.detach());
        move || {
            let (id, mut wake_up) = registered?;
            engine.inner.waiting.deregister(id);
            match wake_up.try_recv() {
                Ok(WakeUp::HandedOver(mut reply)) => reply.try_recv().ok().and_then(Result::ok),
                Ok(WakeUp::Ask) | Err(_) => None,
            }
        }
    }
}
