//! Rules by hand, and the real ones that the tests use most.

use super::table::{CLASS, NAMESPACE, class, id, name};
use bytes::Bytes;
use selvedge_core::rule::{Envelope, Phase, Profile, Task, Touch};
use selvedge_core::rules::claim::Claim;
use selvedge_core::rules::report::{Fence, Op, Report};
use selvedge_core::rules::signal::{Deliver, SignalDraft, SignalSender};
use selvedge_core::rules::submit::{Submit, SubmitItem};
use selvedge_core::{ClaimScope, Draft, Execution, ExecutionId, Fact, Needs, Rule, Work};

/// A rule in the form in which a batch holds it.
pub fn task(rule: impl Rule) -> Box<dyn Task> {
    Box::new(Envelope::new(rule))
}

type Asks = Box<dyn Fn(&Work, &mut Needs) + Send>;
type Decides = Box<dyn Fn(&mut Work) + Send>;

/// A rule made of closures. Default: an operator's rule that decides nothing.
pub struct ByHand {
    profile: Profile,
    asks: Asks,
    decides: Decides,
}

impl ByHand {
    /// A rule that asks for these rows, given those that are loaded.
    pub fn asking(asks: impl Fn(&Work, &mut Needs) + Send + 'static) -> ByHand {
        ByHand { profile: Profile::weighing(1), asks: Box::new(asks), decides: Box::new(|_| {}) }
    }

    /// The same rule, and this is its decision.
    pub fn deciding(self, decides: impl Fn(&mut Work) + Send + 'static) -> ByHand {
        ByHand { decides: Box::new(decides), ..self }
    }

    /// The same rule, and its profile says that it locks executions which it learns of from loaded rows.
    pub fn locking_later_executions(mut self) -> ByHand {
        self.profile.locks.later_executions = true;
        self
    }

    /// The same rule, and its profile says that it touches this execution.
    pub fn touching(mut self, touch: Touch) -> ByHand {
        self.profile.executions.push(touch);
        self
    }
}

impl Rule for ByHand {
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

/// The phases, in their order.
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

/// The place of the claims among the phases.
pub const CLAIMS: usize = 11;

/// A rule by hand in the phase at this place.
pub struct InPhase<const PLACE: usize>(pub ByHand);

impl<const PLACE: usize> Rule for InPhase<PLACE> {
    type Reply = ();
    const PHASE: Phase = PHASES[PLACE];

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
    let fact = Fact::Tagged { set: Default::default(), remove: Vec::new() };
    work.apply(id, fact, None, |_| {});
}

/// A report of the worker that holds an execution.
pub fn report(row: &Execution, op: Op) -> Report {
    Report { namespace: NAMESPACE, fence: Fence::of(row).expect("it is leased"), op_id: None, op }
}

/// The completion of an execution by the worker that holds it.
pub fn complete(row: &Execution) -> Report {
    report(row, Op::Complete { result: Bytes::from_static(b"1") })
}

/// A claim of this worker's instance for up to so many executions.
pub fn claim(instance: &str, max: u32) -> Claim {
    let lanes = vec![class().lane];
    Claim {
        scope: ClaimScope { namespace: NAMESPACE, lanes, kinds: None, capabilities: Default::default() },
        worker: name("claimer"),
        instance: name(instance),
        max,
        ttl_ms: 60_000,
        call_key: None,
        handed_only: false,
    }
}

/// The delivery of a signal.
pub fn signal(id: ExecutionId) -> Deliver {
    let draft = SignalDraft { name: Some("a".into()), payload: Bytes::from_static(b"1"), key: None };
    draft
        .check(id, SignalSender::Caller { namespace: NAMESPACE, source: name("somebody") })
        .expect("it is valid")
}

/// The submission of one execution, under an id that the engine minted.
pub fn submit(number: u128) -> Submit {
    let item = SubmitItem { submission: Draft::new("kind").check(), class: CLASS, id: id(number) };
    Submit { namespace: NAMESPACE, items: vec![item], call_key: None, repeated: false }
}
