//! Test rules, and the real rules that the tests use most.

use super::table::{CLASS, NAMESPACE, class, id, name};
use bytes::Bytes;
use selvedge_core::fact;
use selvedge_core::rule::{Phase, Profile, Queued, Task, Touch};
use selvedge_core::rules::claim::Claim;
use selvedge_core::rules::report::{Fence, Op, Report};
use selvedge_core::rules::signal::{Deliver, SignalDraft, SignalSender};
use selvedge_core::rules::submit::{Submit, SubmitItem};
use selvedge_core::{ClaimScope, Draft, Execution, ExecutionId, Fact, Needs, Rule, Work};
use std::convert::Infallible;

/// A task without a caller.
pub type BoxedTask = Box<dyn Task<Error = Infallible>>;

/// A rule in the form in which a batch holds it.
pub fn task(rule: impl Rule) -> BoxedTask {
    Box::new(Queued::new(rule))
}

type Asks = Box<dyn Fn(&Work, &mut Needs) + Send>;
type Decides = Box<dyn Fn(&mut Work) + Send>;

/// A rule made of closures, in the phase of operators. Default: it decides nothing.
pub struct TestRule {
    profile: Profile,
    asks: Asks,
    decides: Decides,
}

impl TestRule {
    /// Creates a rule with these needs, given the loaded rows.
    pub fn asking(asks: impl Fn(&Work, &mut Needs) + Send + 'static) -> TestRule {
        TestRule { profile: Profile::weighing(1), asks: Box::new(asks), decides: Box::new(|_| {}) }
    }

    /// Sets the decision.
    pub fn deciding(self, decides: impl Fn(&mut Work) + Send + 'static) -> TestRule {
        TestRule { decides: Box::new(decides), ..self }
    }

    /// Declares in the profile that it locks executions that it learns of from loaded rows.
    pub fn locking_later_executions(mut self) -> TestRule {
        self.profile.locks.later_executions = true;
        self
    }

    /// Declares in the profile that it touches this execution.
    pub fn touching(mut self, touch: Touch) -> TestRule {
        self.profile.executions.push(touch);
        self
    }
}

impl Rule for TestRule {
    type Reply = ();
    const PHASE: Phase = Phase::Operators;

    fn profile(&self) -> Profile {
        self.profile.clone()
    }

    fn needs(&self, work: &Work, needs: &mut Needs) {
        (self.asks)(work, needs);
    }

    fn decide(&self, work: &mut Work) {
        (self.decides)(work);
    }
}

/// All phases, in order.
pub const PHASES: [Phase; 12] = [
    Phase::Reports,
    Phase::Timers,
    Phase::PutBacks,
    Phase::Operators,
    Phase::Submissions,
    Phase::Outbox,
    Phase::FlowEnds,
    Phase::Heartbeats,
    Phase::Drains,
    Phase::Departures,
    Phase::Cleanup,
    Phase::Claims,
];

/// The index of the phase of claims.
pub const CLAIMS: usize = 11;

/// A test rule in the phase at this index.
pub struct InPhase<const INDEX: usize>(pub TestRule);

impl<const INDEX: usize> Rule for InPhase<INDEX> {
    type Reply = ();
    const PHASE: Phase = PHASES[INDEX];

    fn profile(&self) -> Profile {
        self.0.profile()
    }

    fn needs(&self, work: &Work, needs: &mut Needs) {
        self.0.needs(work, needs);
    }

    fn decide(&self, work: &mut Work) {
        self.0.decide(work);
    }
}

/// Changes the tags of an execution.
pub fn tag(work: &mut Work, id: ExecutionId) {
    let fact = Fact::Tagged(fact::Tagged { set: Default::default(), remove: Vec::new() });
    work.apply(id, fact, None, |_| {});
}

/// Returns a report of the worker that holds the lease.
pub fn report(row: &Execution, op: Op) -> Report {
    Report { namespace: NAMESPACE, fence: Fence::of(row).expect("it is active"), op_id: None, op }
}

/// Returns the completion of an execution.
pub fn complete(row: &Execution) -> Report {
    report(row, Op::Complete { result: Bytes::from_static(b"1") })
}

/// Returns a claim of this instance for up to `max` executions.
pub fn claim(instance: &str, max: u32) -> Claim {
    let lanes = vec![class().lane];
    Claim {
        scope: ClaimScope { namespace: NAMESPACE, lanes, kinds: None, capabilities: Default::default() },
        worker: name("claimer"),
        instance: name(instance),
        incarnation: None,
        max,
        ttl_ms: 60_000,
        call_key: None,
        across: vec![],
        handed_only: false,
        life: None,
    }
}

/// Returns the delivery of a signal.
pub fn signal(id: ExecutionId) -> Deliver {
    let draft = SignalDraft { name: Some("a".into()), payload: Bytes::from_static(b"1"), key: None };
    draft
        .check(id, SignalSender::Caller { namespace: NAMESPACE, source: name("somebody") })
        .expect("it is valid")
}

/// Returns the submission of one execution, with a generated id.
pub fn submit(number: u128) -> Submit {
    let item = SubmitItem { submission: Draft::new("kind").check(), class: CLASS, id: id(number) };
    Submit { namespace: NAMESPACE, items: vec![item], actor: None, call_key: None, repeated: false }
}
