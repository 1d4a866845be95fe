//! Helpers: drafts, rules and calls that many tests use.

use super::test_store::{NAMESPACE, TestStore, name};
use bytes::Bytes;
use selvedge_core::rules::report::{Op, Reported};
use selvedge_core::rules::signal::{Deliver, Delivered, SignalDraft, SignalSender};
use selvedge_core::rules::step::StepDraft;
use selvedge_core::rules::suspend::Suspend;
use selvedge_core::rules::waitpoint::WaitpointDraft;
use selvedge_core::step::{StepKind, WaitResult};
use selvedge_core::suspension::{Condition, OnTimeout, WaitDraft};
use selvedge_core::token::Secret;
use selvedge_core::{ExecutionId, Refusal, Waitpoint};
use std::sync::{Arc, LazyLock};

/// Returns the root secret.
pub fn secret() -> Arc<Secret> {
    static SECRET: LazyLock<Arc<Secret>> =
        LazyLock::new(|| Arc::new(Secret::new(vec![7; 32]).expect("is long enough")));
    SECRET.clone()
}

/// Returns a condition that waits for a signal.
pub fn signal(text: &str) -> Condition {
    Condition::signal(name(text))
}

/// Returns a wait without a step and without a timeout.
pub fn wait(condition: Condition) -> WaitDraft {
    WaitDraft::new(condition)
}

/// Returns a wait that is recorded as a step.
pub fn step_wait(step: &str, condition: Condition) -> WaitDraft {
    WaitDraft { step: Some((name(step), StepKind::Wait)), ..wait(condition) }
}

/// Adds a timeout to a wait.
pub fn at_most(ms: i64, then: OnTimeout, wait: WaitDraft) -> WaitDraft {
    WaitDraft { timeout_ms: Some(ms), on_timeout: then, ..wait }
}

/// Returns a report that suspends until one of these waits ends.
pub fn suspend(waits: Vec<WaitDraft>) -> Op {
    suspend_with(waits, vec![])
}

/// Returns a report that suspends and creates waitpoints.
pub fn suspend_with(waits: Vec<WaitDraft>, waitpoints: Vec<WaitpointDraft>) -> Op {
    Op::Suspend(Box::new(Suspend {
        waits,
        waitpoints,
        fingerprint: secret().fingerprint(),
        default_timeout_ms: None,
    }))
}

/// Returns a waitpoint that expires after this time, if one is given.
pub fn waitpoint_draft(text: &str, expires_ms: Option<i64>) -> WaitpointDraft {
    WaitpointDraft { expires_ms, ..WaitpointDraft::new(name(text)) }
}

/// Returns a report that records a step.
pub fn done(text: &str, result: &'static str) -> Op {
    let result = Bytes::from_static(result.as_bytes());
    Op::Step(StepDraft { name: name(text), kind: StepKind::Step, result, duration_ms: 0 })
}

/// Returns the delivery of a signal from the source `somebody`.
pub fn signal_command(id: ExecutionId, text: &str) -> Deliver {
    signal_from(id, text, "somebody")
}

/// Returns the delivery of a signal from `source`.
pub fn signal_from(id: ExecutionId, text: &str, source: &str) -> Deliver {
    let draft = SignalDraft { name: Some(text.into()), payload: Bytes::from_static(b"1"), key: None };
    let sender = SignalSender::Caller { namespace: NAMESPACE, source: name(source) };
    draft.check(id, sender).expect("it is valid")
}

/// Returns the delivery of a signal through a waitpoint, with its token.
pub fn token_command(waitpoint: &Waitpoint, text: Option<&str>) -> Deliver {
    let draft = SignalDraft { name: text.map(str::to_owned), payload: Bytes::from_static(b"2"), key: None };
    let sender = SignalSender::TokenHolder {
        waitpoint: waitpoint.id,
        token: secret().sign(waitpoint),
        secret: secret(),
    };
    draft.check(waitpoint.execution, sender).expect("it is valid")
}

impl TestStore {
    /// Suspends an execution until one of these waits ends.
    pub fn suspend(&mut self, id: ExecutionId, waits: Vec<WaitDraft>) -> Reported {
        self.report(id, suspend(waits)).expect("it is accepted")
    }

    /// Submits an execution, claims it and suspends it.
    pub fn suspended(&mut self, waits: Vec<WaitDraft>) -> ExecutionId {
        let id = self.active();
        self.suspend(id, waits);
        id
    }

    /// Delivers a signal, which must be accepted.
    pub fn signal(&mut self, id: ExecutionId, text: &str) -> Delivered {
        self.try_signal(id, text).expect("it is accepted")
    }

    /// Delivers several signals, one after the other.
    pub fn signal_all(&mut self, id: ExecutionId, texts: &[&str]) {
        for text in texts {
            self.signal(id, text);
        }
    }

    /// Delivers a signal, which may be refused.
    pub fn try_signal(&mut self, id: ExecutionId, text: &str) -> Result<Delivered, Refusal> {
        self.run(&signal_command(id, text))
    }

    /// Creates a waitpoint.
    pub fn waitpoint(&mut self, id: ExecutionId, draft: WaitpointDraft) -> Waitpoint {
        let op = Op::Waitpoint { draft, fingerprint: secret().fingerprint() };
        self.report(id, op).expect("it is accepted").waitpoints.remove(0)
    }

    /// Delivers a signal through a waitpoint.
    pub fn deliver(&mut self, waitpoint: &Waitpoint) -> Result<Delivered, Refusal> {
        self.run(&token_command(waitpoint, None))
    }

    /// Returns the result of a wait; none while the wait is open.
    pub fn wait_result(&self, id: ExecutionId, step: &str) -> Option<WaitResult> {
        let step = self.step(id, step);
        assert_eq!(step.recorded_at.is_some(), step.result.is_some());
        step.result.as_ref().map(|result| WaitResult::decode(result).expect("it is the result of a wait"))
    }
}
