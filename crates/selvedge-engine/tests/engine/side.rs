//! One engine and its default namespace, with short words for what tests do again and again.
#![allow(dead_code)]

use selvedge_engine::core::history::Attempt;
use selvedge_engine::core::rules::claim::{ClaimDraft, Claimed};
use selvedge_engine::core::rules::operator::Action;
use selvedge_engine::core::rules::report::{Fence, Op, Reported};
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::{Draft, Execution, ExecutionId, FailureClass, Name, Refusal};
use selvedge_engine::store::{Store, Stored};
use selvedge_engine::{ClaimWait, Engine, Error, Heartbeaten, Namespace, Options, Tally};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// An engine and its default namespace.
#[derive(Clone)]
pub struct Side {
    /// The engine.
    pub engine: Engine,
    /// The namespace.
    pub namespace: Namespace,
}

/// An engine that does only what it is asked to: no reconcilers by themselves, no news, no poll.
pub fn quiet() -> Options {
    Options {
        reconcilers: false,
        notifications: false,
        poll: Duration::from_secs(24 * 3600),
        grace: Duration::from_secs(5),
        ..Options::default()
    }
}

/// A claim of a worker on the lane `default`.
pub fn claim_of(instance: &str, max: u32) -> ClaimDraft {
    ClaimDraft {
        worker: "worker".into(),
        instance: instance.into(),
        lanes: vec!["default".into()],
        kinds: None,
        capabilities: vec![],
        max,
        lease_ttl_ms: 30_000,
    }
}

/// The claim, waiting so long.
pub fn waiting(claim: ClaimDraft, wait: Duration) -> ClaimWait {
    ClaimWait { claim, wait, operation: None }
}

/// The fence of a claimed execution.
pub fn fence(claimed: &Claimed) -> Fence {
    Fence::of(&claimed.execution).expect("a claimed execution is leased")
}

/// The ids of claimed executions, in claim order.
pub fn ids(claimed: &[Claimed]) -> Vec<ExecutionId> {
    claimed.iter().map(|one| one.execution.id).collect()
}

/// Done, with a result.
pub fn done() -> Op {
    Op::Complete { result: "\"done\"".into() }
}

/// Failed for a while.
pub fn failed() -> Op {
    Op::Fail { message: "it broke".into(), class: FailureClass::Transient, retry_after_ms: None }
}

/// Who acts.
pub fn operator() -> Name {
    Name::trusted("operator")
}

impl Side {
    /// An engine on this store.
    pub async fn new(store: Arc<dyn Store>, options: Options) -> Side {
        let engine = Engine::start(store, options).await.expect("the engine starts");
        let namespace = engine.namespace("default").await.expect("the namespace is there");
        Side { engine, namespace }
    }

    /// Submits one.
    pub async fn submit(&self, draft: Draft) -> ExecutionId {
        let submitted = self.namespace.submit(draft).await.expect("it is accepted");
        submitted.execution.id
    }

    /// Submits many at once.
    pub async fn submit_many(&self, drafts: Vec<Draft>) -> Vec<ExecutionId> {
        let drafts = drafts.into_iter().map(Ok).collect();
        let submitted = self.namespace.submit_many(drafts, None).await;
        let submitted = submitted.expect("they are submitted").into_iter();
        submitted.map(|one| one.expect("it is accepted").execution.id).collect()
    }

    /// Claims what is there.
    pub async fn claim(&self, instance: &str, max: u32) -> Vec<Claimed> {
        self.claim_as(claim_of(instance, max)).await
    }

    /// Claims what is there.
    pub async fn claim_as(&self, claim: ClaimDraft) -> Vec<Claimed> {
        let claimed = self.namespace.claim(waiting(claim, Duration::ZERO)).await;
        claimed.expect("the claim is answered")
    }

    /// Claims one that is there.
    pub async fn claim_one(&self, instance: &str) -> Claimed {
        let mut claimed = self.claim(instance, 1).await;
        claimed.pop().expect("there is work")
    }

    /// Claims one that is there, for half a second.
    pub async fn claim_briefly(&self, instance: &str) -> Claimed {
        let brief = ClaimDraft { lease_ttl_ms: 500, ..claim_of(instance, 1) };
        self.claim_as(brief).await.pop().expect("there is work")
    }

    /// Claims in the background, waiting long; returns once so many claims wait.
    pub async fn claim_waiting(&self, claim: ClaimDraft, waiters: usize) -> Waiter {
        let namespace = self.namespace.clone();
        let waiter = tokio::spawn(async move {
            let claimed = namespace.claim(waiting(claim, Duration::from_secs(60))).await;
            claimed.expect("the claim is answered")
        });
        self.has_waiters(waiters).await;
        waiter
    }

    /// Waits until so many claims wait.
    pub async fn has_waiters(&self, count: usize) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.engine.activity().1 != count {
            let waiting = self.engine.activity().1;
            assert!(Instant::now() < deadline, "{waiting} claims wait, not {count}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Reports.
    pub async fn report(&self, fence: Fence, op: Op) -> Result<Reported, Refusal> {
        let reported = self.namespace.report(vec![Ok((fence, None, op))], None).await;
        reported.expect("the report is answered").0.remove(0)
    }

    /// Completes.
    pub async fn complete(&self, fence: Fence) -> Result<Reported, Refusal> {
        self.report(fence, done()).await
    }

    /// A heartbeat that does not wait.
    pub async fn beat(&self, instance: &str, leases: &[Fence]) -> Heartbeaten {
        let beat = self.namespace.heartbeat(instance, leases.to_vec(), Duration::ZERO).await;
        beat.expect("the heartbeat is answered")
    }

    /// Acts as an operator.
    pub async fn operate(&self, id: ExecutionId, action: Action) -> Result<Execution, Refusal> {
        match self.namespace.operate(id, action, None, &operator()).await {
            Ok(row) => Ok(row),
            Err(Error::Refused(refusal)) => Err(refusal),
            Err(other) => panic!("the action is answered: {other}"),
        }
    }

    /// Cancels at once.
    pub async fn cancel(&self, id: ExecutionId) -> Result<Execution, Refusal> {
        let cancel = Action::Cancel { reason: None, grace_ms: 0 };
        self.operate(id, cancel).await
    }

    /// One tick of a reconciler.
    pub async fn tick(&self, reconciler: &str) -> Tally {
        self.engine.tick(reconciler).await.expect("the tick runs")
    }

    /// What a reconciler has done so far.
    pub fn tally(&self, reconciler: &str) -> Tally {
        let tallies = self.engine.reconcilers();
        let found = tallies.into_iter().find(|(name, _)| *name == reconciler);
        found.expect("there is such a reconciler").1
    }

    /// An execution as reads show it.
    pub async fn stored(&self, id: ExecutionId) -> Stored {
        self.namespace.get(id).await.expect("it is there").stored
    }

    /// The row of an execution.
    pub async fn row(&self, id: ExecutionId) -> Execution {
        self.stored(id).await.execution
    }

    /// The state of an execution.
    pub async fn state(&self, id: ExecutionId) -> StateName {
        self.row(id).await.state.name()
    }

    /// Whether an execution is gone.
    pub async fn is_gone(&self, id: ExecutionId) -> bool {
        match self.namespace.get(id).await {
            Ok(_) => false,
            Err(Error::Refused(Refusal::NotFound { .. })) => true,
            Err(other) => panic!("it can be read: {other}"),
        }
    }

    /// The types of an execution's own events, oldest first.
    pub async fn events(&self, id: ExecutionId) -> Vec<&'static str> {
        let events = self.namespace.execution_events(id).await;
        let events = events.expect("its events are read").into_iter();
        events.map(|event| event.kind).collect()
    }

    /// Its attempts: the word for how each ended.
    pub async fn attempts(&self, id: ExecutionId) -> Vec<Option<&'static str>> {
        let attempts: Vec<Attempt> = self.namespace.attempts(id).await.expect("its attempts are read");
        attempts.into_iter().map(|attempt| attempt.outcome).collect()
    }
}

/// A claim that waits in the background.
pub type Waiter = JoinHandle<Vec<Claimed>>;
