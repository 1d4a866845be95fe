//! Every cause of a reason: how a scene gets it, and in which situations it can hold.

use crate::scene::{LEASE, Scene, Situation, error, execution, lease, member, now};
use selvedge_core::amount::Amount;
use selvedge_core::execution::{CancelRequest, Slots};
use selvedge_core::explain::Code;
use selvedge_core::explain::ReferenceKind::{
    self, Budget, ConcurrencyKey, Execution, FairnessKey, Lane, Lease, Quota,
};
use selvedge_core::gate::{Adoption, Amounts, Config, Gate, GateKind, LaneState, Limit, Rate};
use selvedge_core::{Name, Outcome, State};
use std::sync::Arc;

use Situation::{
    Active, BackingOff, Cancelled, Completed, Delayed, Expired, Failed, HeldByOpenGate, InLine, Skipped,
    Suspended, Waiting, WaitingForQuiet, WaitingForUpstreams,
};

/// A cause of a reason.
pub struct Cause {
    pub name: &'static str,
    /// The code of its reason.
    pub code: Code,
    /// The subject of its reason; none if it is not compared.
    pub reference: Option<(ReferenceKind, &'static str)>,
    /// The code of another reason that the cause brings with it.
    pub brings: Option<Code>,
    /// The situations in which it can hold.
    pub situations: &'static [Situation],
    /// Brings the cause into a scene.
    pub set: fn(&mut Scene),
}

/// An execution that neither runs nor has ended.
const LATER: &[Situation] =
    &[Waiting, WaitingForUpstreams, Delayed, WaitingForQuiet, BackingOff, InLine, HeldByOpenGate, Suspended];
/// An execution that could be claimed, if no gate refused it.
const CLAIMABLE: &[Situation] = &[Waiting, InLine, HeldByOpenGate];
/// An execution that has not started.
const UNSTARTED: &[Situation] =
    &[Waiting, WaitingForUpstreams, Delayed, WaitingForQuiet, BackingOff, InLine, HeldByOpenGate];
/// An execution that has not ended.
const LIVE: &[Situation] = &[
    Waiting,
    WaitingForUpstreams,
    Delayed,
    WaitingForQuiet,
    BackingOff,
    InLine,
    HeldByOpenGate,
    Suspended,
    Active,
];
const ENDED: &[Situation] = &[Completed, Failed, Cancelled, Expired, Skipped];

const NUMBER_3: &str = "00000000-0000-0000-0000-000000000003";
const NUMBER_4: &str = "00000000-0000-0000-0000-000000000004";
const NUMBER_5: &str = "00000000-0000-0000-0000-000000000005";

/// Returns a cause that its situations already have.
const fn of_situation(
    name: &'static str,
    code: Code,
    situations: &'static [Situation],
    reference: Option<(ReferenceKind, &'static str)>,
) -> Cause {
    Cause { name, code, reference, brings: None, situations, set: |_| {} }
}

/// Returns a cause whose reason has a subject.
const fn about(
    name: &'static str,
    code: Code,
    situations: &'static [Situation],
    reference: (ReferenceKind, &'static str),
    set: fn(&mut Scene),
) -> Cause {
    Cause { name, code, reference: Some(reference), brings: None, situations, set }
}

/// Returns a cause whose reason has no subject.
const fn plain(
    name: &'static str,
    code: Code,
    situations: &'static [Situation],
    set: fn(&mut Scene),
) -> Cause {
    Cause { name, code, reference: None, brings: None, situations, set }
}

fn config(gate: &mut Gate) -> &mut Config {
    gate.config.get_or_insert_default()
}

fn tokens(amount: u32) -> Amounts {
    [("tokens".to_owned(), Amount::whole(amount))].into()
}

/// Makes the execution draw on a budget of ten tokens.
fn budget<'a>(scene: &'a mut Scene, name: &str, reserve: Amounts) -> &'a mut Gate {
    scene.required_gates().budgets.push((Name::trusted(name), reserve));
    let gate = scene.gate(GateKind::Budget, name);
    let limit = Limit { hard: Some(Amount::whole(10)), soft: None };
    config(gate).limits = [("tokens".to_owned(), limit)].into();
    gate
}

/// Makes the only slot of the execution's concurrency key taken.
fn fill_key(scene: &mut Scene) {
    scene.required_gates().concurrency = Some((Name::trusted("customer"), 1));
    scene.gate(GateKind::Key, "customer").active = 1;
}

/// Uses up the starts of a gate.
fn use_starts(gate: &mut Gate) {
    let rate = Rate { count: 1, window_ms: 60_000 };
    config(gate).rate = Some(rate);
    gate.state.starts.start(rate, now());
}

/// All causes.
pub const CAUSES: &[Cause] = &[
    of_situation("an undecided group", Code::WaitingForUpstreams, &[WaitingForUpstreams], None),
    about("an open upstream", Code::UpstreamOpen, &[WaitingForUpstreams], (Execution, NUMBER_3), |scene| {
        scene.upstreams = vec![member(3, "fetch", State::Waiting)];
    }),
    of_situation("a delay", Code::Delayed, &[Delayed], None),
    of_situation("a debounce", Code::Debounced, &[WaitingForQuiet], None),
    of_situation("a back-off", Code::Backoff, &[BackingOff], None),
    of_situation("a wait", Code::Suspended, &[Suspended], None),
    plain("the timeout of a wait", Code::SuspensionTimeout, &[Suspended], |scene| {
        if let State::Suspended(suspension) = &mut scene.row.state {
            Arc::make_mut(suspension).waits[0].timeout_at = Some(now().plus_ms(7_000));
        }
    }),
    of_situation("a line", Code::FairnessTurn, &[InLine], Some((FairnessKey, "tenant"))),
    about("the head of a line", Code::LineHead, &[InLine], (Execution, NUMBER_4), |scene| {
        scene.head = Some(execution(4, State::Waiting));
    }),
    of_situation("a gate with room", Code::GateOpen, &[HeldByOpenGate], Some((Quota, "open"))),
    about("a paused lane", Code::LanePaused, LATER, (Lane, "default"), |scene| {
        config(scene.lane()).state = LaneState::Paused;
    }),
    about("a lane that counts", Code::LaneCounting, LATER, (Lane, "default"), |scene| {
        scene.lane().state.adoption = Some(Adoption::Counting);
    }),
    about("a full lane", Code::ConcurrencyLimit, LATER, (Lane, "default"), |scene| {
        config(scene.lane()).concurrency = Some(1);
        scene.lane().active = 1;
    }),
    about("a lane without starts", Code::RateLimit, LATER, (Lane, "default"), |scene| {
        use_starts(scene.lane())
    }),
    about("a full key", Code::ConcurrencyLimit, LATER, (ConcurrencyKey, "customer"), fill_key),
    about("a full quota", Code::ConcurrencyLimit, LATER, (Quota, "slots"), |scene| {
        scene.required_gates().quotas.push(Name::trusted("slots"));
        config(scene.gate(GateKind::Quota, "slots")).concurrency = Some(0);
    }),
    about("a quota without starts", Code::RateLimit, LATER, (Quota, "starts"), |scene| {
        scene.required_gates().quotas.push(Name::trusted("starts"));
        use_starts(scene.gate(GateKind::Quota, "starts"));
    }),
    about("a used-up budget", Code::BudgetLimit, LATER, (Budget, "used"), |scene| {
        let gate = budget(scene, "used", Amounts::new());
        gate.state.used = tokens(10);
        gate.state.resets_at = Some(now().plus_ms(9_000));
    }),
    about("a reserved budget", Code::BudgetLimit, LATER, (Budget, "reserved"), |scene| {
        budget(scene, "reserved", tokens(1)).state.reserved = tokens(10);
    }),
    about("a reserve above the limit", Code::ReserveExceedsLimit, LATER, (Budget, "small"), |scene| {
        budget(scene, "small", tokens(11));
    }),
    Cause {
        name: "the holder of a key",
        code: Code::Holder,
        reference: Some((Execution, NUMBER_5)),
        brings: Some(Code::ConcurrencyLimit),
        situations: CLAIMABLE,
        set: |scene| {
            fill_key(scene);
            let mut holder = execution(5, State::Active(lease()));
            holder.spec = scene.row.spec.clone();
            holder.detail.slots = Slots { drawn: true, ..Slots::default() };
            scene.running = vec![holder];
        },
    },
    about("no worker in the lane", Code::NoWorkerInLane, LATER, (Lane, "default"), |scene| {
        scene.sessions[0].scope.lanes = vec![Name::trusted("other")];
    }),
    about("no worker of the kind", Code::NoWorkerOfKind, LATER, (Lane, "default"), |scene| {
        scene.sessions[0].scope.kinds = Some(vec![Name::trusted("other")]);
    }),
    about("no capable worker", Code::NoCapableWorker, LATER, (Lane, "default"), |scene| {
        scene.sessions[0].scope.capabilities.clear();
    }),
    about("draining workers", Code::WorkersDraining, LATER, (Lane, "default"), |scene| {
        scene.sessions[0].draining = true;
    }),
    of_situation("no free worker", Code::WaitingForWorker, &[Waiting], Some((Lane, "default"))),
    of_situation("a lease", Code::Active, &[Active], Some((Lease, LEASE))),
    plain("a cancel request", Code::CancelRequested, &[Active], |scene| {
        let until = now().plus_ms(1_000);
        scene.row.detail.cancel = Some(CancelRequest { actor: None, reason: None, until });
    }),
    plain("an attempt timeout", Code::AttemptTimeout, &[Active], |scene| {
        scene.spec().policy.attempt_timeout_ms = Some(2_000);
    }),
    plain("dead workers", Code::WorkersDied, LIVE, |scene| scene.row.detail.interruptions = 2),
    plain("a deadline", Code::Deadline, LIVE, |scene| scene.spec().policy.deadline_ms = Some(3_000)),
    plain("a start-by", Code::StartBy, UNSTARTED, |scene| scene.spec().policy.start_by_ms = Some(4_000)),
    of_situation("an end", Code::Ended, ENDED, None),
    of_situation("an error", Code::Failed, &[Failed], None),
    of_situation("a cancellation", Code::Cancelled, &[Cancelled], None),
    of_situation("a passed limit", Code::Expired, &[Expired], None),
    of_situation("an impossible group", Code::Skipped, &[Skipped], None),
    about("a failed upstream", Code::UpstreamEnded, &[Skipped], (Execution, NUMBER_3), |scene| {
        let mut upstream = member(3, "fetch", State::Terminal(Outcome::Failed));
        upstream.detail.error = Some(error("no route"));
        scene.upstreams = vec![upstream];
    }),
    about("a chain of skips", Code::SkipOrigin, &[Skipped], (Execution, NUMBER_4), |scene| {
        scene.origin = Some(member(4, "login", State::Terminal(Outcome::Failed)));
    }),
];
