//! Claims: a worker gets waiting executions under new leases, in claim order.

use super::CallKey;
use super::carried::carried_bytes;
pub use super::carried::{Claimed, RELATIVES_BYTES, TakenSignal, needs_carried};
use super::gates::{hold, lanes_open_at, move_up, refusal, take};
use super::report::Fence;
use super::worker::{PutBack, PutBackReason};
use crate::execution::Slots;
use crate::fact::{self, Fact, LeaseRef};
use crate::gate::draws::{fairness_line_of, lane_gate};
use crate::gate::{Gate, GateName};
use crate::name::{KEY_LIMIT, NAME_LIMIT};
use crate::rows::{Candidates, Needs};
use crate::rule::{Phase, Profile, Rule};
use crate::session::SessionDetail;
use crate::submission::check_capabilities;
use crate::{
    ClaimScope, ClassId, ExecutionId, Lease, Name, NamespaceId, Refusal, Session, SessionId, State,
    Timestamp, Work,
};
use serde::{Deserialize, Serialize};

/// Minimum time to live of a lease, in milliseconds.
pub const TTL_MIN_MS: i64 = 500;
/// Maximum time to live of a lease, in milliseconds.
pub const TTL_MAX_MS: i64 = 3_600_000;
/// Maximum number of executions in one claim.
pub const CLAIM_MAX: u32 = 1000;
/// Size of all payloads of a claim, in bytes, at which the claim takes no more executions. It takes at least one.
pub const CLAIM_BYTES: usize = 16 * 1024 * 1024;
/// Maximum number of lanes or kinds that a worker may name.
const NAMES_MAX: usize = 1000;

/// A claim as a worker sent it, not yet checked.
#[derive(Clone, Debug)]
pub struct ClaimDraft {
    pub worker: String,
    /// The worker's instance.
    pub instance: String,
    /// The lanes to claim from.
    pub lanes: Vec<String>,
    /// The kinds that the worker runs; none means any.
    pub kinds: Option<Vec<String>>,
    /// The capabilities of the worker.
    pub capabilities: Vec<String>,
    /// Maximum number of executions to claim.
    pub max: u32,
    /// Time to live of the leases, in milliseconds.
    pub lease_ttl_ms: i64,
    /// The incarnation of the instance: text that is new for each start of its process. Default: none.
    pub incarnation: Option<String>,
}

impl ClaimDraft {
    /// Checks every field. The refusal names the first invalid one.
    pub fn check(self, namespace: NamespaceId, call_key: Option<CallKey>) -> Result<Claim, Refusal> {
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
        if let Some(call_key) = &call_key {
            Name::parse("/headers/idempotency-key", &call_key.key, KEY_LIMIT)?;
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
            incarnation: check_incarnation(self.incarnation.as_deref())?,
            max: self.max,
            ttl_ms: self.lease_ttl_ms,
            call_key,
            across: Vec::new(),
            handed_only: false,
            life: None,
        })
    }
}

/// Checks the incarnation that a call names, if it names one.
pub fn check_incarnation(incarnation: Option<&str>) -> Result<Option<Name>, Refusal> {
    incarnation.map(|incarnation| Name::parse("/incarnation", incarnation, NAME_LIMIT)).transpose()
}

/// Parses a list of lanes or kinds.
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

/// Claims up to `max` executions.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The namespace, lanes, kinds and capabilities of the worker.
    pub scope: ClaimScope,
    pub worker: Name,
    /// The worker's instance.
    pub instance: Name,
    /// The incarnation of the instance, if the call names one.
    pub incarnation: Option<Name>,
    /// Maximum number of executions to claim.
    pub max: u32,
    /// Time to live of the leases, in milliseconds.
    pub ttl_ms: i64,
    /// The caller's idempotency key for this call, if any.
    pub call_key: Option<CallKey>,
    /// The namespaces of a call that asks several of them by turns, in an order that every such call has. Its idempotency key
    /// is kept in the first, so that only one namespace can answer it. Empty for a call in one namespace.
    pub across: Vec<NamespaceId>,
    /// The claim takes only executions that its own transaction makes waiting, and searches for none in the store.
    pub handed_only: bool,
    /// The life of the session in which a waiting claim asked first. The claim gets nothing in a later life, so a worker
    /// that has departed gets nothing by a claim that it made before. None for the first ask, which begins an ended
    /// session again.
    pub life: Option<u32>,
}

/// The stored answer of a claim with an idempotency key: the claimed executions with their epochs.
#[derive(Debug, Serialize, Deserialize)]
struct Answer(Vec<(ExecutionId, u32)>);

/// The reply to a claim.
#[derive(Clone, Debug)]
pub struct Claims {
    /// The claimed executions, in claim order.
    pub claimed: Vec<Claimed>,
    /// The reason why nothing was claimed; none if something was.
    pub nothing: Option<Nothing>,
    /// True if the worker is asked to drain.
    pub drain: bool,
    /// True if a call with the same idempotency key was answered before.
    pub duplicate: bool,
    /// The life of the session, for [`Claim::life`]; none if the claim has not registered its worker.
    pub life: Option<u32>,
}

/// The reason why a claim got nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nothing {
    /// No execution that the worker may claim is waiting.
    Ready,
    /// A lane that has used up its rate has room again after this time, in milliseconds.
    OpensInMs(i64),
    /// The worker is draining: it gets nothing, whatever is waiting.
    Draining,
    /// The worker has departed or was superseded while the claim waited.
    Ended,
    /// The claim names an incarnation that has not registered: [`BeginIncarnation`](super::worker::BeginIncarnation)
    /// decides whether it may.
    NewIncarnation,
    /// A call with the same idempotency key was answered before, and its leases have ended.
    Answered,
}

impl Rule for Claim {
    type Reply = Result<Claims, Refusal>;
    const PHASE: Phase = Phase::Claims;

    fn profile(&self) -> Profile {
        Profile {
            claims: Some(self.scope.clone()),
            finds: if self.handed_only { 0 } else { self.max as usize },
            // The number of executions claimed is not known yet. Most claims that ask for many get few.
            ..Profile::weighing(self.max.min(32) as usize / 4 + 1)
        }
    }

    /// Reads the session, locks the lanes, and locks waiting executions, and reads the sizes of what a claim carries. For a
    /// call with an idempotency key that was made before, reads the executions it got.
    fn needs(&self, work: &Work, needs: &mut Needs) {
        let namespace = self.scope.namespace;
        needs.sessions.read([self.session()]);
        needs.lanes.lock(self.scope.lanes.iter().map(|lane| lane_gate(namespace, lane).id()));
        let key_namespace = self.key_namespace();
        needs.keys.read(self.call_key.as_ref().map(|call_key| call_key.key_name(key_namespace)));
        let classes = work.covered(&self.scope);
        for id in work.waiting(&classes).chain(work.held_in_lines(&classes)) {
            needs_carried(id, work, needs);
        }
        if !self.handed_only && !classes.is_empty() {
            self.needs_candidates(classes, work, needs);
        }
        let stored = self.call_key.as_ref().map(|call_key| call_key.stored(key_namespace, work));
        let Some(Ok(Some(Answer(claimed)))) = stored else { return };
        for (id, _) in claimed {
            if !work.is_loaded(id) {
                needs.executions.read([id]);
            }
            needs_carried(id, work, needs);
        }
    }

    /// Leases executions to the worker.
    fn decide(&self, work: &mut Work) -> Self::Reply {
        let session = work.session(self.session());
        let drain = session.is_some_and(|session| session.draining);
        let nothing =
            |nothing| Claims { claimed: vec![], nothing: Some(nothing), drain, duplicate: false, life: None };
        if self.is_unregistered(session) {
            return Ok(nothing(Nothing::NewIncarnation));
        }
        if self.has_ended(session) {
            return Ok(nothing(Nothing::Ended));
        }
        let duplicate = match &self.call_key {
            Some(call_key) => call_key.stored::<Answer>(self.key_namespace(), work)?.is_some(),
            None => false,
        };
        let claimed = self.claim(&work.covered(&self.scope), work)?;
        let nothing = claimed.is_empty().then(|| self.reason_for_nothing(duplicate, work));
        let live = work.session(self.session()).filter(|session| !session.has_ended());
        Ok(Claims { nothing, claimed, drain, duplicate, life: live.map(|session| session.life) })
    }

    /// Adds the payloads of the claimed executions.
    fn carry(&self, reply: &mut Self::Reply, work: &Work, needs: &mut Needs) {
        if let Ok(claims) = reply {
            claims.claimed.iter_mut().for_each(|one| one.carry(work, needs));
        }
    }

    /// Puts back all leases: a worker that disconnected does not know of them.
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
    /// Returns the session of the leases.
    pub fn session(&self) -> SessionId {
        SessionId::of(self.scope.namespace, &self.instance, self.ttl_ms)
    }

    /// Returns the namespace in which the idempotency key is kept.
    fn key_namespace(&self) -> NamespaceId {
        self.across.first().copied().unwrap_or(self.scope.namespace)
    }

    /// Reports whether the lanes of the worker are loaded.
    pub fn knows_lanes(&self, work: &Work) -> bool {
        self.scope
            .lanes
            .iter()
            .all(|lane| work.has_requested_gate(lane_gate(self.scope.namespace, lane).id()))
    }

    /// Asks for waiting executions in the store: as many as the lanes have room for, once the lanes are loaded.
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

    /// Repeats the stored answer of an earlier call with the same key, or claims executions.
    fn claim(&self, classes: &[ClassId], work: &mut Work) -> Result<Vec<Claimed>, Refusal> {
        let Some(call_key) = &self.call_key else { return Ok(self.take_executions(classes, work)) };
        if let Some(Answer(earlier)) = call_key.stored(self.key_namespace(), work)? {
            let held = earlier.into_iter().filter_map(|(id, epoch)| self.still_held(id, epoch, work));
            let mut bytes = 0;
            let fits = |one: &Claimed| {
                let fits = bytes < CLAIM_BYTES;
                bytes += carried_bytes(&one.execution, work);
                fits
            };
            return Ok(held.take_while(fits).collect());
        }
        let claimed = self.take_executions(classes, work);
        if !claimed.is_empty() {
            let answer = Answer(claimed.iter().map(|one| (one.execution.id, one.execution.epoch)).collect());
            call_key.store(self.key_namespace(), &answer, work);
        }
        Ok(claimed)
    }

    /// Returns the reason why the claim got nothing.
    fn reason_for_nothing(&self, duplicate: bool, work: &Work) -> Nothing {
        if self.is_draining(work) {
            return Nothing::Draining;
        }
        if duplicate {
            return Nothing::Answered;
        }
        match lanes_open_at(self.scope.namespace, &self.scope.lanes, work) {
            Some(at) => Nothing::OpensInMs(at.ms_since(work.now())),
            None => Nothing::Ready,
        }
    }

    /// Reports whether the worker is draining: from the request to drain until the worker has departed.
    fn is_draining(&self, work: &Work) -> bool {
        work.session(self.session()).is_some_and(|session| session.draining)
    }

    /// Reports whether the claim names an incarnation that the session does not have.
    fn is_unregistered(&self, session: Option<&Session>) -> bool {
        let registered = session.and_then(|session| session.detail.incarnation.as_ref());
        self.incarnation.is_some() && registered != self.incarnation.as_ref()
    }

    /// Reports whether the life of the session in which the claim began to wait is over.
    fn has_ended(&self, session: Option<&Session>) -> bool {
        let (Some(life), Some(session)) = (self.life, session) else { return false };
        session.life != life || session.has_ended()
    }

    /// Returns an execution of an earlier answer if it is still active under the same epoch.
    fn still_held(&self, id: ExecutionId, epoch: u32, work: &Work) -> Option<Claimed> {
        let row = work.find(id).ok()??;
        let is_own = row.namespace == self.scope.namespace || self.across.contains(&row.namespace);
        (is_own && row.epoch == epoch && row.state.lease().is_some()).then(|| Claimed::new(row.clone()))
    }

    /// Leases executions of these classes, in the order of the lanes' fair share, and holds those that a gate refuses.
    fn take_executions(&self, classes: &[ClassId], work: &mut Work) -> Vec<Claimed> {
        let session = work.session(self.session()).cloned();
        // Unless its lanes are loaded, a claim could exceed their limits.
        if self.is_draining(work) || !self.knows_lanes(work) {
            return Vec::new();
        }
        self.update_session(session, work);
        let mut lanes = Lanes::of(&self.scope, classes, work);
        let mut claimed: Vec<Claimed> = Vec::new();
        let mut bytes = 0;
        while claimed.len() < self.max as usize && bytes < CLAIM_BYTES {
            let Some((id, lane)) = lanes.next(work) else { break };
            let Ok(Some(row)) = work.find(id) else { break };
            if lane.is_none() && row.spec.required_gates.is_empty() {
                // Fast path for the most frequent case: no gate to pass, and no copy of the row.
                bytes += carried_bytes(row, work);
                claimed.push(self.lease(id, Slots::default(), work));
                continue;
            }
            let row = row.clone();
            if let Some((gate, shut)) = refusal(&row, work) {
                hold(work, id, gate, &shut);
                work.mark_passed_over(row.class);
                if let Some(line) = fairness_line_of(&row) {
                    move_up(work, &line);
                }
                continue;
            }
            let slots = take(&row, lane.as_ref(), work);
            bytes += carried_bytes(&row, work);
            claimed.push(self.lease(id, slots, work));
            if let Some(line) = fairness_line_of(&row) {
                move_up(work, &line);
            }
        }
        claimed
    }

    /// Writes the session if this is its first claim, if the session had ended, if the worker or its scope has changed,
    /// or if it was last seen too long ago.
    fn update_session(&self, known: Option<Session>, work: &mut Work) {
        let now = work.now();
        let fresh = known.as_ref().is_some_and(|session| {
            session.scope == self.scope
                && session.worker == self.worker
                && session.was_just_seen(now)
                && !session.has_ended()
        });
        if !fresh {
            work.put(self.seen_session(known, now));
        }
    }

    /// Returns the session as this claim leaves it. A session that has ended begins again.
    pub(super) fn seen_session(&self, known: Option<Session>, now: Timestamp) -> Session {
        let session = known.map(|session| session.begun_again(now)).unwrap_or_else(|| Session {
            id: self.session(),
            worker: self.worker.clone(),
            instance: self.instance.clone(),
            ttl_ms: self.ttl_ms,
            scope: self.scope.clone(),
            registered_at: now,
            seen_at: now,
            renewed_at: None,
            draining: false,
            life: 0,
            detail: SessionDetail { incarnation: self.incarnation.clone(), ..SessionDetail::default() },
        });
        Session { worker: self.worker.clone(), scope: self.scope.clone(), seen_at: now, ..session }
    }

    /// Leases a waiting execution to the worker.
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
        let row = work.find(id).ok().flatten().expect("a claimable execution is loaded");
        let fact = Fact::Claimed(fact::Claimed {
            lease: LeaseRef {
                id: lease.id,
                epoch: row.epoch + 1,
                worker: self.worker.clone(),
                instance: self.instance.clone(),
            },
            ttl_ms: self.ttl_ms,
            after: row.detail.interrupted.clone(),
        });
        work.apply(id, fact, None, |row| {
            row.state = State::Active(lease);
            row.epoch += 1;
            row.detail.interrupted = None;
            row.detail.progress = None;
            row.started_at = row.started_at.or(Some(now));
            row.detail.slots = slots;
        });
        Claimed::new(work.find(id).ok().flatten().expect("the execution was leased just now").clone())
    }
}

/// The lanes of a claim with their fair shares.
struct Lanes(Vec<LaneShare>);

/// A configured lane, or all lanes that are not configured together.
struct LaneShare {
    /// The lane's gate; none if the lanes are not configured.
    gate: Option<GateName>,
    classes: Vec<ClassId>,
    weight: u32,
}

impl Lanes {
    /// Groups the classes by lane. Lanes that are not configured form one share, in claim order; each configured lane
    /// is a share of its own.
    fn of(scope: &ClaimScope, classes: &[ClassId], work: &Work) -> Lanes {
        let mut shares: Vec<LaneShare> = Vec::new();
        let mut unconfigured = LaneShare { gate: None, classes: Vec::new(), weight: 1 };
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
                None => unconfigured.classes.push(*class),
                Some(index) => {
                    let (name, gate) = &configured[index];
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
        if !unconfigured.classes.is_empty() {
            shares.push(unconfigured);
        }
        Lanes(shares)
    }

    /// Returns the next execution, from the lane whose turn it is, and that lane if it has limits and so counts its
    /// starts.
    fn next(&mut self, work: &mut Work) -> Option<(ExecutionId, Option<GateName>)> {
        let lane = |share: &LaneShare| share.gate.as_ref().map(GateName::id);
        self.0.sort_by_key(|share| work.shares().virtual_time(&lane(share)));
        for share in &self.0 {
            let gate = share.gate.as_ref().map(|name| work.gate(name));
            let config = gate.as_ref().and_then(|gate| gate.config.clone()).unwrap_or_default();
            if gate.is_some_and(|gate| gate.refuses(&config, None, None, work.now()).is_some()) {
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
