//! Short words for what the tests do again and again.

use super::desk::{Desk, NAMESPACE, name};
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

/// The root secret.
pub fn secret() -> Arc<Secret> {
    static SECRET: LazyLock<Arc<Secret>> =
        LazyLock::new(|| Arc::new(Secret::new(vec![7; 32]).expect("is long enough")));
    SECRET.clone()
}

/// A signal of this name.
pub fn signal(text: &str) -> Condition {
    Condition::signal(name(text))
}

/// A wait without a name and without end.
pub fn wait(condition: Condition) -> WaitDraft {
    WaitDraft::new(condition)
}

/// A wait that is recorded as a step.
pub fn step_wait(step: &str, condition: Condition) -> WaitDraft {
    WaitDraft { step: Some((name(step), StepKind::Wait)), ..wait(condition) }
}

/// The same wait, for so long at most.
pub fn at_most(ms: i64, then: OnTimeout, wait: WaitDraft) -> WaitDraft {
    WaitDraft { timeout_ms: Some(ms), on_timeout: then, ..wait }
}

/// Suspends until one of these ends.
pub fn suspend(waits: Vec<WaitDraft>) -> Op {
    suspend_with(waits, vec![])
}

/// Suspends, and makes waitpoints along with it.
pub fn suspend_with(waits: Vec<WaitDraft>, waitpoints: Vec<WaitpointDraft>) -> Op {
    Op::Suspend(Box::new(Suspend { waits, waitpoints, fingerprint: secret().fingerprint() }))
}

/// A waitpoint that expires after so long.
pub fn waitpoint_draft(text: &str, expires_ms: Option<i64>) -> WaitpointDraft {
    WaitpointDraft { expires_ms, ..WaitpointDraft::new(name(text)) }
}

/// A step that was done.
pub fn done(text: &str, result: &'static str) -> Op {
    let result = Bytes::from_static(result.as_bytes());
    Op::Step(StepDraft { name: name(text), kind: StepKind::Step, result, duration_ms: 0 })
}

/// The delivery of a signal by somebody.
pub fn signal_command(id: ExecutionId, text: &str) -> Deliver {
    signal_from(id, text, "somebody")
}

/// The delivery of a signal by `source`.
pub fn signal_from(id: ExecutionId, text: &str, source: &str) -> Deliver {
    let draft = SignalDraft { name: Some(text.into()), payload: Bytes::from_static(b"1"), key: None };
    let way = SignalSender::Caller { namespace: NAMESPACE, source: name(source) };
    draft.check(id, way).expect("it is valid")
}

/// The delivery of a signal through a waitpoint, by its token.
pub fn token_command(waitpoint: &Waitpoint, text: Option<&str>) -> Deliver {
    let draft = SignalDraft { name: text.map(str::to_owned), payload: Bytes::from_static(b"2"), key: None };
    let way = SignalSender::TokenHolder {
        waitpoint: waitpoint.id,
        token: secret().sign(waitpoint),
        secret: secret(),
    };
    draft.check(waitpoint.execution, way).expect("it is valid")
}

impl Desk {
    /// Suspends it until one of these ends.
    pub fn suspend(&mut self, id: ExecutionId, waits: Vec<WaitDraft>) -> Reported {
        self.report(id, suspend(waits)).expect("it is accepted")
    }

    /// Submits one, claims it, and suspends it.
    pub fn suspended(&mut self, waits: Vec<WaitDraft>) -> ExecutionId {
        let id = self.leased();
        self.suspend(id, waits);
        id
    }

    /// Delivers a signal.
    pub fn signal(&mut self, id: ExecutionId, text: &str) -> Delivered {
        self.try_signal(id, text).expect("it is accepted")
    }

    /// Delivers several, one after the other.
    pub fn signal_all(&mut self, id: ExecutionId, texts: &[&str]) {
        for text in texts {
            self.signal(id, text);
        }
    }

    /// Delivers a signal, or is told why not.
    pub fn try_signal(&mut self, id: ExecutionId, text: &str) -> Result<Delivered, Refusal> {
        self.run(&signal_command(id, text))
    }

    /// Makes a waitpoint.
    pub fn waitpoint(&mut self, id: ExecutionId, draft: WaitpointDraft) -> Waitpoint {
        let op = Op::Waitpoint { draft, fingerprint: secret().fingerprint() };
        self.report(id, op).expect("it is accepted").waitpoints.remove(0)
    }

    /// Delivers through a waitpoint.
    pub fn deliver(&mut self, waitpoint: &Waitpoint) -> Result<Delivered, Refusal> {
        self.run(&token_command(waitpoint, None))
    }

    /// What a recorded wait ended with; none while it is waited for.
    pub fn waited(&self, id: ExecutionId, step: &str) -> Option<WaitResult> {
        let step = self.step(id, step);
        assert_eq!(step.recorded_at.is_some(), step.result.is_some());
        step.result.as_ref().map(|result| WaitResult::decode(result).expect("it is the result of a wait"))
    }
}
