//! Short forms for suspensions, signals, waitpoints with their tokens, and steps.

use super::server::{Server, fence, ids, operator};
use super::wait_until;
use bytes::Bytes;
use selvedge_conformance::Harness;
use selvedge_engine::Error;
use selvedge_engine::ReconcilerScope;
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

/// A limit that no test reaches.
const ALL: u32 = 100_000;

/// Returns a name.
pub fn name(text: &str) -> Name {
    Name::trusted(text)
}

/// Returns a wait for a signal.
pub fn for_signal(signal: &str) -> WaitDraft {
    WaitDraft::new(Condition::signal(name(signal)))
}

/// Returns a wait for all of these signals.
pub fn for_signals(signals: &[&str]) -> WaitDraft {
    let each = signals.iter().map(|signal| Condition::signal(name(signal)));
    WaitDraft::new(Condition::All(each.collect()))
}

/// Adds a timeout to a wait.
pub fn with_timeout(ms: i64, on_timeout: OnTimeout, wait: WaitDraft) -> WaitDraft {
    WaitDraft { timeout_ms: Some(ms), on_timeout, ..wait }
}

/// Makes a wait be recorded as a step of this name.
pub fn recorded_as(step: &str, wait: WaitDraft) -> WaitDraft {
    WaitDraft { step: Some((name(step), StepKind::Wait)), ..wait }
}

/// Returns a signal whose payload is its own name.
pub fn signal_draft(signal: &str) -> SignalDraft {
    SignalDraft { name: Some(signal.into()), payload: format!("\"{signal}\"").into(), key: None }
}

/// Returns a waitpoint that expires.
pub fn brief_waitpoint(text: &str, expires_ms: i64) -> WaitpointDraft {
    WaitpointDraft { expires_ms: Some(expires_ms), ..WaitpointDraft::new(name(text)) }
}

/// Returns the report that records a step.
pub fn step(text: &str, result: &str) -> Op {
    let (name, result) = (name(text), Bytes::copy_from_slice(result.as_bytes()));
    Op::Step(StepDraft { name, kind: StepKind::Step, result, duration_ms: 0 })
}

/// Returns the names of the signals that a claim carries.
pub fn carried_signals(claimed: &Claimed) -> Vec<&str> {
    claimed.signals.iter().map(|signal| signal.name.as_str()).collect()
}

/// Returns the answer or the refusal of a call. Panics if the store failed.
pub fn answered<T>(answer: Result<T, Error>) -> Result<T, Refusal> {
    match answer {
        Ok(answer) => Ok(answer),
        Err(Error::Refused(refusal)) => Err(refusal),
        Err(other) => panic!("the call is answered: {other}"),
    }
}

impl Server {
    /// Submits an execution and claims it.
    pub async fn leased(&self) -> (ExecutionId, Fence) {
        self.leased_of(Draft::new("kind")).await
    }

    /// Submits a draft and claims it.
    pub async fn leased_of(&self, draft: Draft) -> (ExecutionId, Fence) {
        let id = self.submit(draft).await;
        let claimed = self.claim_again(id).await;
        (id, fence(&claimed))
    }

    /// Claims this execution, which must be the only waiting one.
    pub async fn claim_again(&self, id: ExecutionId) -> Claimed {
        let mut claimed = self.claim("one", 2).await;
        assert_eq!(ids(&claimed), [id]);
        claimed.remove(0)
    }

    /// Suspends an execution for this wait.
    pub async fn suspend(&self, fence: Fence, wait: WaitDraft) -> Result<Reported, Refusal> {
        self.report(fence, self.namespace.suspend(vec![wait], vec![])).await
    }

    /// Submits an execution, claims it, and suspends it for this wait, which is not satisfied yet.
    pub async fn suspended(&self, wait: WaitDraft) -> ExecutionId {
        let (id, lease) = self.leased().await;
        let reported = self.suspend(lease, wait).await.expect("the lease is held");
        assert_eq!(reported.state, StateName::Suspended);
        id
    }

    /// Submits an execution, claims it, and suspends it until a delivery through this waitpoint.
    pub async fn suspended_at(&self, waitpoint: WaitpointDraft) -> Waitpoint {
        let (_, lease) = self.leased().await;
        self.suspend_at(lease, waitpoint).await.waitpoints.remove(0)
    }

    /// Suspends an execution until a delivery through this waitpoint.
    pub async fn suspend_at(&self, fence: Fence, waitpoint: WaitpointDraft) -> Reported {
        let op = self.namespace.suspend(vec![for_signal(&waitpoint.name)], vec![waitpoint]);
        let reported = self.report(fence, op).await.expect("the lease is held");
        assert_eq!((reported.state, reported.waitpoints.len()), (StateName::Suspended, 1));
        reported
    }

    /// Sends a signal of this name.
    pub async fn send(&self, id: ExecutionId, signal: &str) -> Result<Delivered, Refusal> {
        self.send_draft(id, signal_draft(signal)).await
    }

    /// Sends a signal.
    pub async fn send_draft(&self, id: ExecutionId, draft: SignalDraft) -> Result<Delivered, Refusal> {
        answered(self.namespace.signal(id, draft, &name("sender")).await)
    }

    /// Delivers through a waitpoint, with its token.
    pub async fn deliver(&self, waitpoint: &Waitpoint) -> Result<Delivered, Refusal> {
        let draft = SignalDraft { name: None, ..signal_draft(&waitpoint.name) };
        let token = self.namespace.token(waitpoint);
        answered(self.engine.deliver(waitpoint.id, &token, draft).await)
    }

    /// Revokes the token of a waitpoint.
    pub async fn revoke_token(&self, id: WaitpointId) -> Waitpoint {
        self.namespace.revoke_waitpoint(id, &operator()).await.expect("it exists")
    }

    /// Resumes an execution as an operator.
    pub async fn resume(&self, id: ExecutionId) -> Result<Execution, Refusal> {
        self.operate(id, Action::Resume).await
    }

    /// Returns all signals of an execution.
    pub async fn signals(&self, id: ExecutionId) -> Vec<Signal> {
        self.namespace.signals(id, 0, ALL).await.expect("the signals are read").items
    }

    /// Returns all steps of an execution.
    pub async fn steps(&self, id: ExecutionId) -> Vec<Step> {
        self.namespace.steps(id, 0, ALL).await.expect("the steps are read").items
    }

    /// Returns all waitpoints of an execution.
    pub async fn waitpoints(&self, id: ExecutionId) -> Vec<Waitpoint> {
        self.namespace.waitpoints(id, 0, ALL).await.expect("the waitpoints are read")
    }

    /// Counts the public events of this type for an execution in the log.
    pub async fn count_events(&self, id: ExecutionId, event: &str) -> usize {
        let log = Harness::new(self.engine.store().clone()).await.log().await;
        let of_execution = log.iter().flat_map(|(_, events)| events).filter(|one| one.execution == Some(id));
        let public = of_execution.flat_map(|one| one.fact.public_events());
        public.filter(|(kind, _)| *kind == event).count()
    }

    /// Waits until an execution is due for this kind.
    pub async fn is_due(&self, id: ExecutionId, kind: DueKind) {
        wait_until(&format!("{kind:?} is due"), async || {
            let due = self
                .engine
                .store()
                .due(&ReconcilerScope::ALL, kind, None, ALL)
                .await
                .expect("due executions are read");
            due.iter().any(|row| row.execution == id)
        })
        .await;
    }

    /// Waits until the lease of an execution has expired.
    pub async fn lease_has_expired(&self, id: ExecutionId) {
        wait_until("the lease has expired", async || {
            let expired = self
                .engine
                .store()
                .expired_leases(&ReconcilerScope::ALL, None, ALL)
                .await
                .expect("the leases are read");
            expired.iter().any(|row| row.execution == id)
        })
        .await;
    }
}
