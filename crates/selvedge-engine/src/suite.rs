//! Hooks for the conformance suite: it runs rules with the real lease cache and the real waiting claims of an engine.

use crate::task::Post;
use crate::waiting_claims::Wake;
use crate::{Engine, Error};
use selvedge_core::rule::{Phase, Profile, Task};
use selvedge_core::rules::claim::{Claim, Claims};
use selvedge_core::rules::worker::PutBack;
use selvedge_core::{Needs, Refusal, Work};
use selvedge_store::Transaction;

/// A task whose poster collects the reply by itself.
struct Collected(Box<dyn Task>);

impl Task for Collected {
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
    fn reset(&mut self) {
        self.0.reset();
    }
    fn is_decided(&self) -> bool {
        self.0.is_decided()
    }
}

impl Post for Collected {
    fn deliver(self: Box<Self>) -> Vec<PutBack> {
        Vec::new()
    }
    fn fail(self: Box<Self>, _error: Error) {}
}

impl Engine {
    /// Runs tasks in one transaction beside the queue. What was deferred runs in a transaction of its own after it.
    #[doc(hidden)]
    pub async fn transact(&self, tasks: Vec<Box<dyn Task>>) -> Result<Transaction, Error> {
        // The supervisor, which the suite switches off, does this every second.
        if self.inner.store.overview().await?.lanes {
            self.inner.registry.expect_lanes();
        }
        // The suite interns classes beside the engine.
        self.inner.registry.refresh().await?;
        let posts = tasks.into_iter().map(|task| Box::new(Collected(task)) as Box<dyn Post>).collect();
        Ok(self.inner.committer.transact_beside(posts).await?)
    }

    /// How many rows of the lease cache served a transaction.
    #[doc(hidden)]
    pub fn cache_hits(&self) -> u64 {
        self.inner.committer.cache_hits()
    }

    /// Lets a claim wait for the next transaction. The result gives its reply, if that transaction took it along.
    #[doc(hidden)]
    pub fn wait_for_hand_off(
        &self,
        claim: &Claim,
    ) -> impl FnOnce() -> Option<Result<Claims, Refusal>> + Send + 'static {
        let (engine, seen) = (self.clone(), self.inner.waiting.seen(claim));
        let place = self.inner.waiting.wait(claim, seen).map(|place| place.detach());
        move || {
            let (id, mut wake) = place?;
            engine.inner.waiting.give_up(id);
            match wake.try_recv() {
                Ok(Wake::Handed(mut reply)) => reply.try_recv().ok().and_then(Result::ok),
                Ok(Wake::Ask) | Err(_) => None,
            }
        }
    }
}
