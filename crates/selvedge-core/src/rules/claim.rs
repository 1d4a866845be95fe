//! Claims: ready executions go to a worker under new leases, in order.

use super::Operation;
use super::gates::hold::hold;
use super::gates::lines;
use super::gates::take::{lanes_open_at, refusal, take};
use super::report::Fence;
use super::worker::{PutBack, PutBackReason};
use crate::execution::Slots;
use crate::fact::{Fact, LeaseRef};
use crate::gate::draws::{fairness_line_of, lane_gate};
use crate::gate::{Gate, GateName};
use crate::name::{KEY_LIMIT, NAME_LIMIT};
use crate::rows::{Candidates, Needs, Relative};
use crate::rule::{Phase, Profile, Rule};
use crate::session::SEEN_EVERY_MS;
use crate::signal::{ENGINE, Effect, Signal, TIMEOUT};
use crate::step::{Step, StepKind, Waited};
use crate::submission::check_capabilities;
use crate::suspension::ResumedBy;
use crate::{
    ClaimScope, ClassId, Execution, ExecutionId, Lease, Name, NamespaceId, Refusal, Session, SessionId,
    State, Work,
};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The shortest time to live of a lease.
pub const TTL_MIN_MS: i64 = 500;
/// The longest time to live of a lease.
pub const TTL_MAX_MS: i64 = 3_600_000;
/// The most executions one claim may take.
pub const CLAIM_MAX: u32 = 1000;
/// A claim takes no more when its inputs are this large together.
const CLAIM_BYTES: usize = 32 * 1024 * 1024;
/// The most lanes or kinds a worker may name.
const NAMES_MAX: usize = 1000;

/// A claim as a worker asked for it, not yet checked.
#[derive(Clone, Debug)]
pub struct ClaimDraft {
    /// The worker.
    pub worker: String,
    /// The worker's instance.
    pub instance: String,
    /// Its lanes.
    pub lanes: Vec<String>,
    /// Its kinds; none means any.
    pub kinds: Option<Vec<String>>,
    /// What it is capable of.
    pub capabilities: Vec<String>,
    /// How many it takes at most.
    pub max: u32,
    /// The time to live of the leases.
    pub lease_ttl_ms: i64,
}

impl ClaimDraft {
    /// Checks every field; the first wrong one is named.
    pub fn check(self, namespace: NamespaceId, operation: Option<Operation>) -> Result<Claim, Refusal> {
        if !(TTL_MIN_MS..=TTL_MAX_MS).contains(&self.lease_ttl_ms) {
            let given = self.lease_ttl_ms;
            let detail = format!("is {given}; it must lie between {TTL_MIN_MS} and {TTL_MAX_MS}");
            return Err(Refusal::field("/lease_ttl_ms", detail));
        }
        if !(1..=CLAIM_MAX).contains(&self.max) {
            let detail = format!("is {}; it must lie between 1 and {CLAIM_MAX}", self.max);
            return Err(Refusal::field("/max", detail));
        }
        if self.lanes.is_empty() {
            return Err(Refusal::field("/lanes", "is empty; name the lanes to claim from"));
        }
        if let Some(operation) = &operation {
            Name::parse("/headers/idempotency-key", &operation.key, KEY_LIMIT)?;
        }
        Ok(Claim {
            scope: ClaimScope {
                namespace,
                lanes: names("/lanes", &self.lanes)?,
                kinds: self.kinds.as_ref().map(|kinds| names("/kinds", kinds)).transpose()?,
                capabilities: check_capabilities("/capabilities", &self.capabilities)?,
            },
            worker: Name::parse("/worker", &self.worker, NAME_LIMIT)?,
            instance: Name::parse("/instance", &self.instance, NAME_LIMIT)?,
            max: self.max,
            ttl_ms: self.lease_ttl_ms,
            operation,
            handed_only: false,
        })
    }
}

fn names(pointer: &str, words: &[String]) -> Result<Vec<Name>, Refusal> {
    if words.len() > NAMES_MAX {
        return Err(Refusal::field(
            pointer,
            format!("has {} entries; at most {NAMES_MAX} are allowed", words.len()),
        ));
    }
    let parse =
        |(index, word): (usize, &String)| Name::parse(&format!("{pointer}/{index}"), word, NAME_LIMIT);
    words.iter().enumerate().map(parse).collect()
}

/// Claim up to `max` executions.
#[derive(Clone, Debug)]
pub struct Claim {
    /// What the worker can run.
    pub scope: ClaimScope,
    /// The worker.
    pub worker: Name,
    /// The worker's instance.
    pub instance: Name,
    /// How many at most.
    pub max: u32,
    /// The time to live of the leases.
    pub ttl_ms: i64,
    /// The caller's key for this call.
    pub operation: Option<Operation>,
    /// Whether it takes only executions that its own transaction makes ready, and looks for none in the store.
    pub handed_only: bool,
}

/// A claimed execution.
#[derive(Clone, Debug)]
pub struct Claimed {
    /// The execution, leased.
    pub execution: Execution,
    /// Its input.
    pub input: Bytes,
    /// How its upstreams stand, in the order of its edges.
    pub upstreams: Vec<Relative>,
    /// How its children stand, in the order in which they were spawned.
    pub children: Vec<Relative>,
    /// The signals by which its newest suspension ended, in the order of their delivery.
    pub signals: Vec<Signal>,
    /// Its recorded steps, in the order in which they were begun. The result of a wait carries the signals that it took.
    pub steps: Vec<Step>,
}

/// The stored answer of a keyed claim: which executions under which epochs.
#[derive(Debug, Serialize, Deserialize)]
struct Answer(Vec<(ExecutionId, u32)>);

/// The reply to a claim.
#[derive(Clone, Debug)]
pub struct Claims {
    /// The executions it got, in claim order.
    pub claimed: Vec<Claimed>,
    /// Why it got none; none if it got some.
    pub nothing: Option<Nothing>,
}

/// Why a claim got nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nothing {
    /// Nothing that the worker may take is ready.
    Ready,
    /// A lane that has used up its rate has room again in so many milliseconds.
    OpensInMs(i64),
    /// The worker drains: it gets nothing, however much becomes ready.
    Draining,
    /// The same keyed call was answered before, and its leases are over.
    Answered,
}

impl Rule for Claim {
    type Reply = Result<Claims, Refusal>;
    const PHASE: Phase = Phase::Claims;

    fn profile(&self) -> Profile {
        Profile {
            claims: Some(self.scope.clone()),
            finds: if self.handed_only { 0 } else { self.max as usize },
            // How many it takes is not known: most claims that ask for many get few.
            ..Profile::weighing(self.max.min(32) as usize / 4 + 1)
        }
    }

    /// The session, the lanes, ready executions and everything they carry. For a keyed call made before, the executions it got.
    fn needs(&self, work: &Work, needs: &mut Needs) {
        let namespace = self.scope.namespace;
        needs.sessions.read([self.session()]);
        needs.lanes.lock(self.scope.lanes.iter().map(|lane| lane_gate(namespace, lane).id()));
        needs.keys.read(self.operation.as_ref().map(|operation| operation.key_name(namespace)));
        let classes = work.covered(&self.scope);
        for id in work.waiting(&classes).chain(work.held_in_lines(&classes)) {
            needs_carried(id, work, needs);
        }
        if !self.handed_only && !classes.is_empty() {
            self.needs_candidates(classes, work, needs);
        }
        let stored = self.operation.as_ref().map(|operation| operation.stored(namespace, work));
        let Some(Ok(Some(Answer(claimed)))) = stored else { return };
        for (id, _) in claimed {
            if !work.is_loaded(id) {
                needs.executions.read([id]);
            }
            needs_carried(id, work, needs);
        }
    }

    /// Leases what the worker gets.
    fn decide(&self, work: &mut Work) -> Self::Reply {
        let claimed = self.claim(&work.covered(&self.scope), work)?;
        let nothing = claimed.is_empty().then(|| self.nothing(work));
        Ok(Claims { claimed, nothing })
    }

    /// A claimer that left never learns of its leases.
    fn undelivered(reply: Self::Reply) -> Vec<PutBack> {
        let claimed = reply.map(|claims| claims.claimed).unwrap_or_default();
        let put_back = |one: &Claimed| {
            let fence = Fence::of(&one.execution)?;
            Some(PutBack { namespace: one.execution.namespace, fence, why: PutBackReason::Orphaned })
        };
        claimed.iter().filter_map(put_back).collect()
    }
}

impl Claim {
    /// The session of its leases.
    pub fn session(&self) -> SessionId {
        SessionId::of(self.scope.namespace, &self.instance, self.ttl_ms)
    }

    /// Whether the lanes of the worker are loaded.
    pub fn knows_lanes(&self, work: &Work) -> bool {
        self.scope
            .lanes
            .iter()
            .all(|lane| work.has_requested_gate(lane_gate(self.scope.namespace, lane).id()))
    }

    /// Ready executions in the store: as many as the lanes have room for, once these are loaded.
    fn needs_candidates(&self, classes: Vec<ClassId>, work: &Work, needs: &mut Needs) {
        let mut add = |classes: Vec<ClassId>, limit: u32| match needs
            .queries
            .candidates
            .iter_mut()
            .find(|asked| asked.classes == classes)
        {
            Some(asked) => asked.limit += limit,
            None => needs.queries.candidates.push(Candidates { classes, limit }),
        };
        if !work.expects_lanes() {
            return add(classes, self.max);
        }
        if !self.knows_lanes(work) {
            return;
        }
        for share in Lanes::of(&self.scope, &classes, work).0 {
            let gate = share.gate.as_ref().map(|name| work.gate(name));
            let room = gate.and_then(|gate| gate.room(gate.config.as_ref()?, work.now()));
            let limit = room.map_or(self.max, |room| room.min(self.max));
            if limit > 0 {
                add(share.classes, limit);
            }
        }
    }

    fn claim(&self, classes: &[ClassId], work: &mut Work) -> Result<Vec<Claimed>, Refusal> {
        let Some(operation) = &self.operation else { return Ok(self.take(classes, work)) };
        if let Some(Answer(made)) = operation.stored(self.scope.namespace, work)? {
            return Ok(made.into_iter().filter_map(|(id, epoch)| self.still_held(id, epoch, work)).collect());
        }
        let claimed = self.take(classes, work);
        if !claimed.is_empty() {
            let answer = Answer(claimed.iter().map(|one| (one.execution.id, one.execution.epoch)).collect());
            operation.store(self.scope.namespace, &answer, work);
        }
        Ok(claimed)
    }

    /// Why it got nothing.
    fn nothing(&self, work: &Work) -> Nothing {
        let stored = self.operation.as_ref().map(|one| one.stored::<Answer>(self.scope.namespace, work));
        if self.drains(work) {
            return Nothing::Draining;
        }
        if matches!(stored, Some(Ok(Some(_)))) {
            return Nothing::Answered;
        }
        match lanes_open_at(self.scope.namespace, &self.scope.lanes, work) {
            Some(at) => Nothing::OpensInMs(at.ms_since(work.now())),
            None => Nothing::Ready,
        }
    }

    /// Whether its worker drains: from the moment it was asked to until it has said that it has gone.
    fn drains(&self, work: &Work) -> bool {
        work.session(self.session()).is_some_and(|session| session.draining)
    }

    fn still_held(&self, id: ExecutionId, epoch: u32, work: &Work) -> Option<Claimed> {
        let row = work.execution(self.scope.namespace, id).ok()?;
        (row.epoch == epoch && row.state.lease().is_some()).then(|| claimed(row, work))
    }

    fn take(&self, classes: &[ClassId], work: &mut Work) -> Vec<Claimed> {
        let known = work.session(self.session()).cloned();
        // Without its lanes at hand a claim could pass their limits.
        if self.drains(work) || !self.knows_lanes(work) {
            return Vec::new();
        }
        self.see(known, work);
        let mut lanes = Lanes::of(&self.scope, classes, work);
        let mut claimed: Vec<Claimed> = Vec::new();
        let mut bytes = 0;
        while claimed.len() < self.max as usize && bytes < CLAIM_BYTES {
            let Some((id, lane)) = lanes.next(work) else { break };
            let Ok(Some(row)) = work.find(id) else { break };
            if lane.is_none() && row.spec.draws.is_empty() {
                // The most frequent case: it goes through no gate, and its row is not copied.
                let one = self.lease(id, Slots::default(), work);
                bytes += one.bytes();
                claimed.push(one);
                continue;
            }
            let row = row.clone();
            if let Some((gate, shut)) = refusal(&row, work) {
                hold(work, id, gate, &shut);
                work.mark_passed_over(row.class);
                if let Some(line) = fairness_line_of(&row) {
                    lines::move_up(work, &line);
                }
                continue;
            }
            let slots = take(&row, lane.as_ref(), work);
            let one = self.lease(id, slots, work);
            bytes += one.bytes();
            claimed.push(one);
            if let Some(line) = fairness_line_of(&row) {
                lines::move_up(work, &line);
            }
        }
        claimed
    }

    /// Keeps the session's row: made by the first claim, refreshed now and then, changed when the worker's scope does.
    fn see(&self, known: Option<Session>, work: &mut Work) {
        let now = work.now();
        let fresh = known.as_ref().is_some_and(|session| {
            session.scope == self.scope
                && session.worker == self.worker
                && session.seen_at.plus_ms(SEEN_EVERY_MS) > now
        });
        if !fresh {
            work.put_session(Session {
                id: self.session(),
                worker: self.worker.clone(),
                instance: self.instance.clone(),
                ttl_ms: self.ttl_ms,
                scope: self.scope.clone(),
                registered_at: known.as_ref().map_or(now, |session| session.registered_at),
                seen_at: now,
                renewed_at: known.as_ref().and_then(|session| session.renewed_at),
                draining: false,
            });
        }
    }

    fn lease(&self, id: ExecutionId, slots: Slots, work: &mut Work) -> Claimed {
        let now = work.now();
        let lease = Lease {
            id: work.entropy().lease_id(),
            session: self.session(),
            worker: self.worker.clone(),
            instance: self.instance.clone(),
            claimed_at: now,
            ttl_ms: self.ttl_ms,
        };
        let row = work.find(id).ok().flatten().expect("a ready execution is here");
        let fact = Fact::Claimed {
            lease: LeaseRef {
                id: lease.id,
                epoch: row.epoch + 1,
                worker: self.worker.clone(),
                instance: self.instance.clone(),
            },
            ttl_ms: self.ttl_ms,
            after: row.detail.interrupted.clone(),
        };
        work.apply(id, fact, None, |row| {
            row.state = State::Active(lease);
            row.epoch += 1;
            row.detail.interrupted = None;
            row.detail.progress = None;
            row.started_at = row.started_at.or(Some(now));
            row.detail.slots = slots;
        });
        claimed(work.find(id).ok().flatten().expect("it was leased just now"), work)
    }
}

/// The lanes of a claim that give something out, and their shares.
struct Lanes(Vec<LaneShare>);

struct LaneShare {
    /// The lane, where it counts what goes through it.
    gate: Option<GateName>,
    classes: Vec<ClassId>,
    weight: u32,
}

impl Lanes {
    /// Lanes that have no weight are one share together, in the order of their executions; those that count what goes
    /// through them are asked each on its own.
    fn of(scope: &ClaimScope, classes: &[ClassId], work: &Work) -> Lanes {
        let mut shares: Vec<LaneShare> = Vec::new();
        let mut rest = LaneShare { gate: None, classes: Vec::new(), weight: 1 };
        let mut configured: Vec<(Name, Gate)> = Vec::new();
        for lane in &scope.lanes {
            let gate = work.gate(&lane_gate(scope.namespace, lane));
            if gate.config.is_some() && configured.iter().all(|(known, _)| known != lane) {
                configured.push((lane.clone(), gate.into_owned()));
            }
        }
        for class in classes {
            let lane = work.lane_of(*class);
            match lane.and_then(|lane| configured.iter().position(|(known, _)| known == lane)) {
                None => rest.classes.push(*class),
                Some(place) => {
                    let (name, gate) = &configured[place];
                    let name = lane_gate(scope.namespace, name);
                    let config = gate.config.clone().unwrap_or_default();
                    match shares.iter_mut().find(|share| share.gate.as_ref() == Some(&name)) {
                        Some(share) => share.classes.push(*class),
                        None => shares.push(LaneShare {
                            gate: Some(name),
                            classes: vec![*class],
                            weight: config.weight.unwrap_or(1),
                        }),
                    }
                }
            }
        }
        if !rest.classes.is_empty() {
            shares.push(rest);
        }
        Lanes(shares)
    }

    /// The next execution, of the lane whose turn it is, and the lane where it counts what goes through it.
    fn next(&mut self, work: &mut Work) -> Option<(ExecutionId, Option<GateName>)> {
        let lane = |share: &LaneShare| share.gate.as_ref().map(GateName::id);
        self.0.sort_by_key(|share| work.shares().virtual_time(&lane(share)));
        for share in &self.0 {
            let gate = share.gate.as_ref().map(|name| work.gate(name));
            let config = gate.as_ref().and_then(|gate| gate.config.clone()).unwrap_or_default();
            if gate.is_some_and(|gate| gate.refuses(&config, None, work.now()).is_some()) {
                continue;
            }
            if let Some(id) = work.next_claimable(&share.classes) {
                work.serve_lane(lane(share), share.weight);
                return Some((id, share.gate.clone().filter(|_| config.limits_starts())));
            }
        }
        None
    }
}

impl Claimed {
    /// How much its payloads weigh together.
    fn bytes(&self) -> usize {
        let relatives = self.upstreams.iter().chain(&self.children);
        let results = relatives.filter_map(|one| one.result.as_ref()).map(Bytes::len);
        let steps = self.steps.iter().filter_map(|step| step.result.as_ref()).map(Bytes::len);
        let signals = self.signals.iter().filter_map(|signal| signal.payload.as_ref()).map(Bytes::len);
        self.input.len() + results.chain(steps).chain(signals).sum::<usize>()
    }
}

/// What a claim carries of an execution that is leased.
fn claimed(row: &Execution, work: &Work) -> Claimed {
    let wiring = row.wiring();
    let upstreams = wiring.upstreams.iter().filter_map(|one| work.relative(one.execution));
    let children = wiring.children.iter().filter_map(|one| work.relative(one.execution));
    Claimed {
        execution: row.clone(),
        input: work.input(row.id).cloned().unwrap_or_default(),
        upstreams: upstreams.collect(),
        children: children.collect(),
        signals: resumed_by(row, work),
        steps: recorded(row, work),
    }
}

/// The signals by which the newest suspension ended, and the one that says that it waited for too long.
fn resumed_by(row: &Execution, work: &Work) -> Vec<Signal> {
    let record = &row.detail.record;
    let Some(by) = record.resumed_by else { return Vec::new() };
    let taken = work.signals(row.id).filter(|signal| signal.taken == Some(record.suspensions));
    let mut signals: Vec<Signal> = taken.cloned().collect();
    if by == ResumedBy::Timeout {
        signals.push(Signal {
            execution: row.id,
            number: 0,
            name: Name::trusted(TIMEOUT),
            source: Name::trusted(ENGINE),
            waitpoint: None,
            key: None,
            digest: 0,
            at: row.ready_order,
            effect: Effect::Resumed,
            taken: Some(record.suspensions),
            payload: Some(Bytes::from_static(b"null")),
        });
    }
    signals
}

fn recorded(row: &Execution, work: &Work) -> Vec<Step> {
    if row.detail.record.steps == 0 {
        return Vec::new();
    }
    let steps = work.steps(row.id).into_iter().filter(|step| step.recorded_at.is_some());
    steps.map(|step| with_signals(step, work)).collect()
}

/// A step; the result of a wait with the signals that it took.
fn with_signals(step: &Step, work: &Work) -> Step {
    let waited = match step.kind {
        StepKind::Wait | StepKind::Sleep | StepKind::Join => step.result.as_deref().and_then(Waited::decode),
        StepKind::Step | StepKind::Spawn | StepKind::Race => None,
    };
    let Some(waited) = waited else { return step.clone() };
    let taken =
        work.signals(step.execution).filter(|signal| waited.signals.binary_search(&signal.number).is_ok());
    #[derive(Serialize)]
    struct Told<'a> {
        resumed_by: ResumedBy,
        signals: Vec<TakenSignal<'a>>,
    }
    let told = Told { resumed_by: waited.resumed_by, signals: taken.map(TakenSignal::of).collect() };
    Step { result: Some(serde_json::to_vec(&told).unwrap_or_default().into()), ..step.clone() }
}

/// A signal as a claim carries it.
#[derive(Serialize)]
pub struct TakenSignal<'a> {
    name: &'a Name,
    payload: &'a RawValue,
    source: &'a Name,
    waitpoint: Option<&'a Name>,
}

impl<'a> TakenSignal<'a> {
    /// What a claim carries of a signal.
    pub fn of(signal: &'a Signal) -> Self {
        let payload = signal.payload.as_deref().unwrap_or(b"null");
        TakenSignal {
            name: &signal.name,
            payload: serde_json::from_slice(payload).unwrap_or(RawValue::NULL),
            source: &signal.source,
            waitpoint: signal.waitpoint.as_ref().map(|(_, name)| name),
        }
    }
}

/// The rows without which an execution cannot be handed out: its input, the ends of its upstreams and children, its steps and
/// signals.
pub fn needs_carried(id: ExecutionId, work: &Work, needs: &mut Needs) {
    if work.input(id).is_none() {
        needs.inputs.read([id]);
    }
    let Ok(Some(row)) = work.find(id) else { return };
    let wiring = row.wiring();
    let upstreams = wiring.upstreams.iter().map(|one| one.execution);
    let children = wiring.children.iter().map(|one| one.execution);
    needs.relatives.read(upstreams.chain(children).filter(|id| !work.has_end_of(*id)));
    if row.detail.record.is_carried() && !work.has_whole_record(id) {
        needs.queries.records.push(id);
    }
}
