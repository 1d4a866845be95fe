//! What waits on Postgres, and who wakes it: short words for suspensions, signals, waitpoints with their tokens, and steps.

use super::test_server::{TestServer, fence, ids, operator};
use super::until;
use bytes::Bytes;
use selvedge_conformance::Harness;
use selvedge_engine::Error;
use selvedge_engine::core::rules::claim::Claimed;
use selvedge_engine::core::rules::operator::Action;
use selvedge_engine::core::rules::report::{Fence, Op, Reported};
use selvedge_engine::core::rules::signal::{Delivered, SignalDraft};
use selvedge_engine::core::rules::step::StepDraft;
use selvedge_engine::core::rules::waitpoint::WaitpointDraft;
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::step::{Step, StepKind};
use selvedge_engine::core::suspension::{Condition, OnTimeout, WaitDraft};
use selvedge_engine::core::{
    Draft, DueKind, Execution, ExecutionId, Name, Refusal, Signal, Waitpoint, WaitpointId,
};

/// More of anything than an execution of a test has.
const ALL: u32 = 100_000;

/// A name.
pub fn name(text: &str) -> Name {
    Name::trusted(text)
}

/// The wait for a signal.
pub fn on(signal: &str) -> WaitDraft {
    WaitDraft::new(Condition::signal(name(signal)))
}

/// The wait for all of these signals.
pub fn on_all(signals: &[&str]) -> WaitDraft {
    let each = signals.iter().map(|signal| Condition::signal(name(signal)));
    WaitDraft::new(Condition::All(each.collect()))
}

/// The wait, for so long at most.
pub fn at_most(ms: i64, on_timeout: OnTimeout, wait: WaitDraft) -> WaitDraft {
    WaitDraft { timeout_ms: Some(ms), on_timeout, ..wait }
}

/// The wait, recorded as this step.
pub fn known_as(step: &str, wait: WaitDraft) -> WaitDraft {
    WaitDraft { step: Some((name(step), StepKind::Wait)), ..wait }
}

/// A signal that says its own name.
pub fn said(signal: &str) -> SignalDraft {
    SignalDraft { name: Some(signal.into()), payload: format!("\"{signal}\"").into(), key: None }
}

/// A waitpoint that takes a delivery for so long at most.
pub fn brief_waitpoint(called: &str, expires_ms: i64) -> WaitpointDraft {
    WaitpointDraft { expires_ms: Some(expires_ms), ..WaitpointDraft::new(name(called)) }
}

/// The report that records a step.
pub fn step(called: &str, result: &str) -> Op {
    let (name, result) = (name(called), Bytes::copy_from_slice(result.as_bytes()));
    Op::Step(StepDraft { name, kind: StepKind::Step, result, duration_ms: 0 })
}

/// The names of the signals that a claim carries.
pub fn carried(claimed: &Claimed) -> Vec<&str> {
    claimed.signals.iter().map(|signal| signal.name.as_str()).collect()
}

/// The answer to a call that the store did not fail.
pub fn answered<T>(answer: Result<T, Error>) -> Result<T, Refusal> {
    match answer {
        Ok(answer) => Ok(answer),
        Err(Error::Refused(refusal)) => Err(refusal),
        Err(other) => panic!("the call is answered: {other}"),
    }
}

impl TestServer {
    /// Submits one and claims it.
    pub async fn leased(&self) -> (ExecutionId, Fence) {
        self.leased_of(Draft::new("kind")).await
    }

    /// Submits this and claims it.
    pub async fn leased_of(&self, draft: Draft) -> (ExecutionId, Fence) {
        let id = self.submit(draft).await;
        let claimed = self.claim_again(id).await;
        (id, fence(&claimed))
    }

    /// Claims this execution, which must be the only one that is ready.
    pub async fn claim_again(&self, id: ExecutionId) -> Claimed {
        let mut claimed = self.claim("one", 2).await;
        assert_eq!(ids(&claimed), [id]);
        claimed.remove(0)
    }

    /// Suspends until this wait ends.
    pub async fn suspend(&self, fence: Fence, wait: WaitDraft) -> Result<Reported, Refusal> {
        self.report(fence, self.namespace.suspend(vec![wait], vec![])).await
    }

    /// Submits one, claims it, and suspends it until this wait ends, which it does not yet.
    pub async fn suspended(&self, wait: WaitDraft) -> ExecutionId {
        let (id, lease) = self.leased().await;
        let reported = self.suspend(lease, wait).await.expect("it holds the lease");
        assert_eq!(reported.state, StateName::Suspended);
        id
    }

    /// Submits one, claims it, and suspends it until somebody delivers through this waitpoint.
    pub async fn suspended_at(&self, waitpoint: WaitpointDraft) -> Waitpoint {
        let (_, lease) = self.leased().await;
        self.suspend_at(lease, waitpoint).await.waitpoints.remove(0)
    }

    /// Suspends until somebody delivers through this waitpoint.
    pub async fn suspend_at(&self, fence: Fence, waitpoint: WaitpointDraft) -> Reported {
        let op = self.namespace.suspend(vec![on(&waitpoint.name)], vec![waitpoint]);
        let reported = self.report(fence, op).await.expect("it holds the lease");
        assert_eq!((reported.state, reported.waitpoints.len()), (StateName::Suspended, 1));
        reported
    }

    /// Sends a signal of this name.
    pub async fn send(&self, id: ExecutionId, signal: &str) -> Result<Delivered, Refusal> {
        self.send_draft(id, said(signal)).await
    }

    /// Sends a signal.
    pub async fn send_draft(&self, id: ExecutionId, draft: SignalDraft) -> Result<Delivered, Refusal> {
        answered(self.namespace.signal(id, draft, &name("sender")).await)
    }

    /// Delivers through a waitpoint, with its token.
    pub async fn deliver(&self, waitpoint: &Waitpoint) -> Result<Delivered, Refusal> {
        let draft = SignalDraft { name: None, ..said(&waitpoint.name) };
        let token = self.namespace.token(waitpoint);
        answered(self.engine.deliver(waitpoint.id, &token, draft).await)
    }

    /// Revokes the token of a waitpoint.
    pub async fn revoke_token(&self, id: WaitpointId) -> Waitpoint {
        self.namespace.revoke_waitpoint(id, &operator()).await.expect("it is there")
    }

    /// An operator lets it go on.
    pub async fn resume(&self, id: ExecutionId) -> Result<Execution, Refusal> {
        self.operate(id, Action::Resume).await
    }

    /// All signals of an execution.
    pub async fn signals(&self, id: ExecutionId) -> Vec<Signal> {
        self.namespace.signals(id, 0, ALL).await.expect("its signals are read")
    }

    /// All steps of an execution.
    pub async fn steps(&self, id: ExecutionId) -> Vec<Step> {
        self.namespace.steps(id, 0, ALL).await.expect("its steps are read")
    }

    /// All waitpoints of an execution.
    pub async fn waitpoints(&self, id: ExecutionId) -> Vec<Waitpoint> {
        self.namespace.waitpoints(id, 0, ALL).await.expect("its waitpoints are read")
    }

    /// How often this happened to an execution, as the log tells it.
    pub async fn times(&self, id: ExecutionId, event: &str) -> usize {
        let log = Harness::new(self.engine.store().clone()).await.log().await;
        let of_execution = log.iter().flat_map(|(_, events)| events).filter(|one| one.execution == Some(id));
        let told = of_execution.flat_map(|one| one.fact.public_events());
        told.filter(|(kind, _)| *kind == event).count()
    }

    /// Waits until something of this kind is due.
    pub async fn is_due(&self, id: ExecutionId, kind: DueKind) {
        until(&format!("{kind:?} is due"), async || {
            let due = self.engine.store().due(kind, None, ALL).await.expect("what is due is read");
            due.iter().any(|row| row.execution == id)
        })
        .await;
    }

    /// Waits until the lease of an execution has lapsed.
    pub async fn has_lapsed(&self, id: ExecutionId) {
        until("the lease has lapsed", async || {
            let lapsed = self.engine.store().lapsed(None, ALL).await.expect("leases are read");
            lapsed.iter().any(|row| row.execution == id)
        })
        .await;
    }
}
