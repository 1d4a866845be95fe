//! A test fixture: one server, which is an engine with its default namespace, and shorthands for the calls that tests
//! repeat.
#![allow(dead_code)]

use selvedge_engine::core::history::Attempt;
use selvedge_engine::core::rules::claim::{ClaimDraft, Claimed};
use selvedge_engine::core::rules::operator::Action;
use selvedge_engine::core::rules::report::{Fence, Op, Reported};
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::{Draft, Execution, ExecutionId, FailureClass, Name, Refusal};
use selvedge_engine::store::{Store, Stored};
use selvedge_engine::{ClaimWait, Engine, Error, HeartbeatResult, Namespace, Options, Tally};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// A server: an engine and its default namespace.
#[derive(Clone)]
pub struct TestServer {
    /// The engine.
    pub engine: Engine,
    /// The namespace.
    pub namespace: Namespace,
}

/// Options of a server that does nothing by itself: no background reconcilers, no notifications, no poll within a day.
pub fn passive_options() -> Options {
    Options {
        reconcilers: false,
        notifications: false,
        poll: Duration::from_secs(24 * 3600),
        grace: Duration::from_secs(5),
        ..Options::default()
    }
}

/// A claim on the lane `default`, with leases of 30 seconds.
pub fn claim_of(instance: &str, max: u32) -> ClaimDraft {
    ClaimDraft {
        worker: "worker".into(),
        instance: instance.into(),
        lanes: vec!["default".into()],
        kinds: None,
        capabilities: vec![],
        max,
        lease_ttl_ms: 30_000,
        incarnation: None,
    }
}

/// The claim, with the time that it waits.
pub fn claim_wait(claim: ClaimDraft, wait: Duration) -> ClaimWait {
    ClaimWait { claim, wait, call_key: None }
}

/// Returns the fence of a claimed execution.
pub fn fence(claimed: &Claimed) -> Fence {
    Fence::of(&claimed.execution).expect("a claimed execution has a lease")
}

/// Returns the ids of claimed executions, in claim order.
pub fn ids(claimed: &[Claimed]) -> Vec<ExecutionId> {
    claimed.iter().map(|one| one.execution.id).collect()
}

/// A completion with the result `"done"`.
pub fn complete_op() -> Op {
    Op::Complete { result: "\"done\"".into() }
}

/// A transient failure.
pub fn fail_op() -> Op {
    Op::Fail { message: "it broke".into(), class: FailureClass::Transient, retry_after_ms: None }
}

/// The actor of operator calls.
pub fn operator() -> Name {
    Name::trusted("operator")
}

impl TestServer {
    /// Starts an engine on this store.
    pub async fn new(store: Arc<dyn Store>, options: Options) -> TestServer {
        let engine = Engine::start(store, options).await.expect("the engine starts");
        let namespace = engine.namespace("default").await.expect("the namespace is created");
        TestServer { engine, namespace }
    }

    /// Submits one execution.
    pub async fn submit(&self, draft: Draft) -> ExecutionId {
        let submitted = self.namespace.submit(draft).await.expect("the submission is accepted");
        submitted.execution.id
    }

    /// Submits many executions in one call.
    pub async fn submit_many(&self, drafts: Vec<Draft>) -> Vec<ExecutionId> {
        let drafts = drafts.into_iter().map(Ok).collect();
        let submitted = self.namespace.submit_many(drafts, None).await;
        let submitted = submitted.expect("the submissions are answered").into_iter();
        submitted.map(|submitted| submitted.expect("the submission is accepted").execution.id).collect()
    }

    /// Claims up to `max` executions without waiting.
    pub async fn claim(&self, instance: &str, max: u32) -> Vec<Claimed> {
        self.claim_as(claim_of(instance, max)).await
    }

    /// Runs this claim without waiting.
    pub async fn claim_as(&self, claim: ClaimDraft) -> Vec<Claimed> {
        let claimed = self.namespace.claim(claim_wait(claim, Duration::ZERO)).await;
        claimed.expect("the claim is answered")
    }

    /// Claims one execution; fails if none is claimable.
    pub async fn claim_one(&self, instance: &str) -> Claimed {
        let mut claimed = self.claim(instance, 1).await;
        claimed.pop().expect("an execution is claimable")
    }

    /// Claims one execution with a lease of half a second.
    pub async fn claim_with_short_lease(&self, instance: &str) -> Claimed {
        let brief = ClaimDraft { lease_ttl_ms: 500, ..claim_of(instance, 1) };
        self.claim_as(brief).await.pop().expect("an execution is claimable")
    }

    /// Claims in the background, waiting for a minute. Returns once `waiters` claims wait.
    pub async fn claim_waiting(&self, claim: ClaimDraft, waiters: usize) -> BackgroundClaim {
        let namespace = self.namespace.clone();
        let background = tokio::spawn(async move {
            let claimed = namespace.claim(claim_wait(claim, Duration::from_secs(60))).await;
            claimed.expect("the claim is answered")
        });
        self.wait_for_waiting_claims(waiters).await;
        background
    }

    /// Waits until exactly `count` claims wait.
    pub async fn wait_for_waiting_claims(&self, count: usize) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.engine.activity().1 != count {
            let waiting = self.engine.activity().1;
            assert!(Instant::now() < deadline, "{waiting} claims wait, not {count}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Sends one report.
    pub async fn report(&self, fence: Fence, op: Op) -> Result<Reported, Refusal> {
        let reported = self.namespace.report(vec![Ok((fence, None, op))], None).await;
        reported.expect("the report is answered").0.remove(0)
    }

    /// Completes an execution.
    pub async fn complete(&self, fence: Fence) -> Result<Reported, Refusal> {
        self.report(fence, complete_op()).await
    }

    /// Sends a heartbeat that does not wait.
    pub async fn heartbeat(&self, instance: &str, leases: &[Fence]) -> HeartbeatResult {
        let beat = self.namespace.heartbeat(instance, None, leases.to_vec(), Duration::ZERO).await;
        beat.expect("the heartbeat is answered")
    }

    /// Applies an action as an operator.
    pub async fn operate(&self, id: ExecutionId, action: Action) -> Result<Execution, Refusal> {
        match self.namespace.operate(id, action, None, &operator()).await {
            Ok(row) => Ok(row),
            Err(Error::Refused(refusal)) => Err(refusal),
            Err(other) => panic!("the action is answered: {other}"),
        }
    }

    /// Cancels an execution without a grace period.
    pub async fn cancel(&self, id: ExecutionId) -> Result<Execution, Refusal> {
        let cancel = Action::Cancel { reason: None, grace_ms: 0 };
        self.operate(id, cancel).await
    }

    /// Runs one tick of a reconciler.
    pub async fn tick(&self, reconciler: &str) -> Tally {
        self.engine.tick(reconciler).await.expect("the tick runs")
    }

    /// Returns the totals of a reconciler.
    pub fn tally(&self, reconciler: &str) -> Tally {
        let tallies = self.engine.reconcilers();
        let found = tallies.into_iter().find(|(name, _)| *name == reconciler);
        found.expect("the reconciler exists").1
    }

    /// Reads an execution with its payloads.
    pub async fn stored(&self, id: ExecutionId) -> Stored {
        self.namespace.get(id).await.expect("the execution exists").stored
    }

    /// Reads the row of an execution.
    pub async fn row(&self, id: ExecutionId) -> Execution {
        self.stored(id).await.execution
    }

    /// Reads the state of an execution.
    pub async fn state(&self, id: ExecutionId) -> StateName {
        self.row(id).await.state.name()
    }

    /// Reports whether an execution no longer exists.
    pub async fn is_deleted(&self, id: ExecutionId) -> bool {
        match self.namespace.get(id).await {
            Ok(_) => false,
            Err(Error::Refused(Refusal::NotFound { .. })) => true,
            Err(other) => panic!("the execution can be read: {other}"),
        }
    }

    /// Reads the types of an execution's own events, oldest first.
    pub async fn events(&self, id: ExecutionId) -> Vec<&'static str> {
        let events = self.namespace.execution_events(id).await;
        let events = events.expect("the events are read").into_iter();
        events.map(|event| event.kind).collect()
    }

    /// Reads the outcome of each attempt of an execution; none for one that has not ended.
    pub async fn attempts(&self, id: ExecutionId) -> Vec<Option<&'static str>> {
        let attempts: Vec<Attempt> = self.namespace.attempts(id).await.expect("the attempts are read");
        attempts.into_iter().map(|attempt| attempt.outcome).collect()
    }
}

/// A claim that runs in the background.
pub type BackgroundClaim = JoinHandle<Vec<Claimed>>;
