//! Hooks for the conformance suite: they run rules with the lease cache and the waiting claims of an engine.

use crate::commit::{CommitTask, WakeUp};
use crate::{Engine, Error};
use selvedge_core::rule::{Phase, Profile, Task};
use selvedge_core::rules::claim::{Claim, Claims};
use selvedge_core::rules::worker::PutBack;
use selvedge_core::{Needs, Refusal, Work};
use selvedge_store::Transaction;

/// A task whose reply the conformance suite collects itself, so nothing is delivered.
struct SuiteTask(Box<dyn Task>);

impl Task for SuiteTask {
    fn phase(&self) -> Phase {
        self.0.phase()
    }
    fn profile(&self) -> &Profile {
        self.0.profile()
    }
    fn needs(&self, work: &Work, needs: &mut Needs) {
        self.0.needs(work, needs);
    }
    fn decide(&mut self, work: &mut Work) {
        self.0.decide(work);
    }
    fn carry(&mut self, work: &Work, needs: &mut Needs) {
        self.0.carry(work, needs);
    }
    fn reset(&mut self) {
        self.0.reset();
    }
    fn is_decided(&self) -> bool {
        self.0.is_decided()
    }
}

impl CommitTask for SuiteTask {
    fn deliver(self: Box<Self>) -> Vec<PutBack> {
        Vec::new()
    }
    fn fail(self: Box<Self>, _error: Error) {}
}

impl Engine {
    /// Runs tasks in one transaction that bypasses the queue. Deferred tasks run in transactions of their own after it.
    #[doc(hidden)]
    pub async fn transact(&self, tasks: Vec<Box<dyn Task>>) -> Result<Transaction, Error> {
        // The supervisor does this every second, but the suite runs without it.
        if self.inner.store.overview().await?.lanes {
            self.inner.registry.expect_lanes();
        }
        // The suite interns classes in the store directly.
        self.inner.registry.refresh_classes().await?;
        let tasks = tasks.into_iter().map(|task| Box::new(SuiteTask(task)) as Box<dyn CommitTask>).collect();
        Ok(self.inner.committer.transact_unqueued(tasks).await?)
    }

    /// Returns how many rows were taken from the lease cache.
    #[doc(hidden)]
    pub fn cache_hits(&self) -> u64 {
        self.inner.committer.cache_hits()
    }

    /// Registers a claim for handover. The returned function deregisters it and returns its reply, if a transaction
    /// took it along in between.
    #[doc(hidden)]
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
