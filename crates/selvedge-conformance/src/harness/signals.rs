//! Helpers for suspensions, signals, waitpoints with their tokens, and steps.

use super::{Harness, fence};
use bytes::Bytes;
use selvedge_core::rules::claim::Claimed;
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::report::{Op, Reported};
use selvedge_core::rules::signal::{Deliver, Delivered, SignalDraft, SignalSender};
use selvedge_core::rules::step::StepDraft;
use selvedge_core::rules::suspend::Suspend;
use selvedge_core::rules::timer::{Timer, TimerReply};
use selvedge_core::rules::waitpoint::{RotateTokenKeys, WaitpointDraft};
use selvedge_core::signal::Effect;
use selvedge_core::state::StateName;
use selvedge_core::step::{Step, StepKind};
use selvedge_core::suspension::{Condition, Distinct, OnTimeout, WaitDraft};
use selvedge_core::token::{Secret, TokenKey};
use selvedge_core::{Draft, DueKind, Execution, ExecutionId, Name, Refusal, Signal, State, Waitpoint};
use std::sync::Arc;

/// More rows than any execution of a case has.
const ALL: u32 = 100_000;

/// Returns a valid name.
pub fn name(text: &str) -> Name {
    Name::trusted(text)
}

/// Returns valid names.
pub fn names(texts: &[&str]) -> Vec<Name> {
    texts.iter().map(|text| name(text)).collect()
}

/// Returns the condition that waits for a signal.
pub fn on_signal(signal: &str) -> Condition {
    Condition::signal(name(signal))
}

/// Returns the condition that waits for `n` distinct signals.
pub fn on_count(n: u32, of: &[&str], distinct: Distinct) -> Condition {
    Condition::count(n, names(of), distinct)
}

/// Returns a wait that is recorded as a step.
pub fn recorded_wait(step: &str, condition: Condition) -> WaitDraft {
    WaitDraft { step: Some((name(step), StepKind::Wait)), ..WaitDraft::new(condition) }
}

/// Returns a wait with a timeout.
pub fn with_timeout(ms: i64, on_timeout: OnTimeout, condition: Condition) -> WaitDraft {
    WaitDraft { timeout_ms: Some(ms), on_timeout, ..WaitDraft::new(condition) }
}

/// Returns a root secret. Cases use number 1; other numbers give other secrets.
pub fn secret(number: u8) -> Arc<Secret> {
    Arc::new(Secret::new(vec![number; 32]).expect("it is long enough"))
}

/// Returns the report that suspends.
pub fn suspend(waits: Vec<WaitDraft>, waitpoints: Vec<WaitpointDraft>) -> Op {
    Op::Suspend(Box::new(Suspend {
        waits,
        waitpoints,
        fingerprint: secret(1).fingerprint(),
        default_timeout_ms: None,
    }))
}

/// Returns the report that creates a waitpoint.
pub fn create_waitpoint(draft: WaitpointDraft) -> Op {
    Op::Waitpoint { draft, fingerprint: secret(1).fingerprint() }
}

/// Returns the report that records a step.
pub fn step(called: &str, result: &str) -> Op {
    let (name, result) = (name(called), Bytes::copy_from_slice(result.as_bytes()));
    Op::Step(StepDraft { name, kind: StepKind::Step, result, duration_ms: 0 })
}

/// Returns a signal with the payload of [`payload_of`].
pub fn signal(name: &str) -> SignalDraft {
    SignalDraft { name: Some(name.into()), payload: payload_of(name), key: None }
}

/// Returns the payload of a signal of this name.
pub fn payload_of(name: &str) -> Bytes {
    format!("\"{name} came\"").into()
}

/// Returns the names of the signals that a claim carries.
pub fn signal_names(claimed: &Claimed) -> Vec<&str> {
    claimed.signals.iter().map(|signal| signal.name.as_str()).collect()
}

/// Returns the names and results of the steps that a claim carries.
pub fn known_steps(claimed: &Claimed) -> Vec<(&str, &str)> {
    claimed.steps.iter().map(|step| (step.name.as_str(), result_of(step))).collect()
}

/// Returns the result of a recorded step.
pub fn result_of(step: &Step) -> &str {
    let result = step.result.as_deref().expect("it is recorded");
    std::str::from_utf8(result).expect("a result is text")
}

impl Harness {
    /// Suspends a claimed execution until one of these waits ends.
    pub async fn suspend(&self, claimed: &Claimed, waits: Vec<WaitDraft>) -> Reported {
        self.report(fence(claimed), suspend(waits, vec![])).await.expect("it is suspended")
    }

    /// Submits an execution, claims it and suspends it on this condition, which does not hold yet.
    pub async fn suspended(&self, condition: Condition) -> Claimed {
        self.suspended_for(vec![WaitDraft::new(condition)]).await
    }

    /// Submits an execution, claims it and suspends it on these waits, none of which has ended yet.
    pub async fn suspended_for(&self, waits: Vec<WaitDraft>) -> Claimed {
        let claimed = self.leased(Draft::new("kind")).await;
        assert_eq!(self.suspend(&claimed, waits).await.state, StateName::Suspended);
        claimed
    }

    /// Returns the command that sends a signal as this source.
    pub fn signal_command(&self, id: ExecutionId, draft: SignalDraft, source: &str) -> Deliver {
        let way = SignalSender::Caller { namespace: self.namespace, source: name(source) };
        draft.check(id, way).expect("a signal of a case is valid")
    }

    /// Sends a signal and returns the reply, which may be a refusal.
    pub async fn try_signal(&self, id: ExecutionId, draft: SignalDraft) -> Result<Delivered, Refusal> {
        self.run(self.signal_command(id, draft, "caller")).await
    }

    /// Sends a signal of this name and returns its effect.
    pub async fn signal(&self, id: ExecutionId, name: &str) -> Effect {
        let delivered = self.try_signal(id, signal(name)).await.expect("it is delivered");
        assert!(!delivered.duplicate);
        delivered.effect
    }

    /// Returns the command that delivers a signal through a waitpoint with a token.
    pub fn deliver_command(&self, waitpoint: &Waitpoint, token: &str, draft: SignalDraft) -> Deliver {
        let way =
            SignalSender::TokenHolder { waitpoint: waitpoint.id, token: token.to_owned(), secret: secret(1) };
        draft.check(waitpoint.execution, way).expect("a signal of a case is valid")
    }

    /// Delivers a signal through a waitpoint with its token, under the waitpoint's name.
    pub async fn deliver(&self, waitpoint: &Waitpoint) -> Result<Delivered, Refusal> {
        let draft = SignalDraft { name: None, ..signal(&waitpoint.name) };
        self.run(self.deliver_command(waitpoint, &secret(1).sign(waitpoint), draft)).await
    }

    /// Creates a waitpoint of a claimed execution.
    pub async fn waitpoint(&self, claimed: &Claimed, draft: WaitpointDraft) -> Waitpoint {
        let created = self.report(fence(claimed), create_waitpoint(draft)).await.expect("it is created");
        assert_eq!((created.state, created.waitpoints.len()), (StateName::Active, 1));
        created.waitpoints[0].clone()
    }

    /// Records a step of a claimed execution.
    pub async fn step(&self, claimed: &Claimed, called: &str, result: &str) {
        self.report(fence(claimed), step(called, result)).await.expect("it is recorded");
    }

    /// Rotates the key that signs tokens.
    pub async fn rotate(&self, grace_ms: i64) -> TokenKey {
        let (namespace, fingerprint) = (self.namespace, secret(1).fingerprint());
        let rotate = RotateTokenKeys { namespace, grace_ms, fingerprint, actor: name("operator") };
        self.run(rotate).await.expect("it is rotated")
    }

    /// Resumes an execution as an operator and returns its new row.
    pub async fn resume(&self, id: ExecutionId) -> Execution {
        self.operate(id, Action::Resume).await.expect("it is resumed")
    }

    /// Applies the due action of this kind to an execution.
    pub async fn due(&self, id: ExecutionId, kind: DueKind) {
        assert_eq!(self.tick(id, Timer::Due(kind)).await, TimerReply::Fired, "{kind:?}");
    }

    /// Claims this execution, which must be the only waiting one.
    pub async fn claim_again(&self, id: ExecutionId) -> Claimed {
        let mut claimed = self.claim(2).await;
        assert_eq!(claimed.len(), 1, "exactly one is waiting");
        assert_eq!(claimed[0].execution.id, id);
        claimed.remove(0)
    }

    /// Returns the state of an execution.
    pub async fn state(&self, id: ExecutionId) -> StateName {
        self.row(id).await.state.name()
    }

    /// Returns the waits of a suspended execution.
    pub async fn waits(&self, id: ExecutionId) -> Vec<selvedge_core::suspension::Wait> {
        match self.row(id).await.state {
            State::Suspended(suspension) => suspension.waits.clone(),
            other => panic!("it is {other:?} and not suspended"),
        }
    }

    /// Returns all signals of an execution.
    pub async fn signals(&self, of: ExecutionId) -> Vec<Signal> {
        self.store.signals(of, 0, ALL).await.expect("signals are read")
    }

    /// Returns all steps of an execution.
    pub async fn steps(&self, of: ExecutionId) -> Vec<Step> {
        self.store.steps(of, 0, ALL).await.expect("steps are read")
    }

    /// Returns all waitpoints of an execution.
    pub async fn waitpoints(&self, of: ExecutionId) -> Vec<Waitpoint> {
        self.store.waitpoints(of, 0, ALL).await.expect("waitpoints are read")
    }
}
