//! The engine as the host of the transaction driver: its interned names, its lease cache, its waiting claims and the
//! gates that refuse, and the effects of a commit on all of these.

use super::lease_cache::LeaseCache;
use super::waiting_claims::WaitingClaims;
use crate::locking::lock;
use crate::metrics::{Metrics, Observations};
use crate::registry::Registry;
use crate::traces::{Span, SpanSink, ended_spans};
use selvedge_core::driver::{Admission, Host, Summary};
use selvedge_core::fact::{self, Fact, Next};
use selvedge_core::flow::FlowState;
use selvedge_core::gate::{GateKind, GateName};
use selvedge_core::history::attempt_end;
use selvedge_core::log::Event;
use selvedge_core::outbox::OutboxRow;
use selvedge_core::schedule::ScheduleName;
use selvedge_core::work::LaneShares;
use selvedge_core::{
    Changes, Class, ClassId, Classes, Execution, ExecutionId, Gate, GateId, NamespaceId, SessionId, State,
    Timestamp,
};
use selvedge_store::{BoxedTask, Notification};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The parts of an engine that a transaction uses.
#[derive(Clone)]
pub struct EngineHost {
    /// Interned names, and this process's knowledge of gates.
    pub registry: Arc<Registry>,
    /// Rows of leases that this process granted.
    pub cache: Arc<LeaseCache>,
    /// Claims that wait for work.
    pub waiting: Arc<WaitingClaims>,
    /// Gates that have lately refused many executions.
    pub refusals: Arc<Refusals>,
    /// Counts what is committed.
    pub metrics: Arc<Metrics>,
    /// Receives the spans of executions and attempts that ended, if they are published.
    pub spans: Option<SpanSink>,
}

impl Host for EngineHost {
    type Task = BoxedTask;
    type Effects = CommitEffects;

    fn effects(&self, changes: &Changes, summary: Summary) -> CommitEffects {
        CommitEffects::of(changes, summary, self)
    }

    fn classes(&self) -> Arc<Classes> {
        self.registry.classes()
    }

    fn learn_classes(&self, classes: Vec<(ClassId, Class)>) {
        self.registry.add(classes);
    }

    fn admission(&self) -> Admission {
        Admission {
            lanes: self.registry.has_lanes(),
            limits: self.registry.has_lane_limits(),
            gates: self.registry.has_gates(),
        }
    }

    fn seed(&self) -> u64 {
        fastrand::u64(..)
    }

    fn take_cached(&self, id: ExecutionId) -> Option<Execution> {
        self.cache.take(id, self.registry.lineage())
    }

    fn take_waiting_claims(
        &self,
        ready: BTreeMap<ClassId, usize>,
        fits: &dyn Fn(&[GateId]) -> bool,
    ) -> Vec<BoxedTask> {
        self.waiting.take_for_handover(ready, fits)
    }

    fn waiting_lanes(&self, classes: &BTreeSet<ClassId>) -> Vec<GateId> {
        self.waiting.lanes(classes)
    }

    fn lane_shares(&self) -> LaneShares {
        self.registry.lane_shares()
    }

    fn refusing_gates(&self, classes: &BTreeSet<ClassId>) -> Vec<GateName> {
        self.refusals.of(classes)
    }

    fn keep_lane_shares(&self, shares: &LaneShares) {
        self.registry.save_lane_shares(shares);
    }

    fn see_gates(&self, gates: &[Gate]) {
        self.registry.learn_gates(gates.iter());
    }

    fn expect_gates(&self) {
        self.registry.expect_gates();
    }

    fn report_unreadable(&self, execution: ExecutionId, detail: &str) {
        if self.cache.is_newly_unreadable(execution) {
            tracing::error!(%execution, detail, "an execution cannot be read; its row is left unchanged");
        }
    }
}

/// Everything the engine does after a batch was committed.
#[derive(Default)]
pub struct CommitEffects {
    /// The notification for waiters here and for other servers.
    pub notification: Notification,
    /// Executions of which an attempt ended, and with it its stream. Only readers of this process are woken: to notify other
    /// servers would cost more than the looks of their readers.
    pub ended_attempts: Vec<ExecutionId>,
    /// Rows of active executions, for the lease cache.
    pub leased: Vec<Execution>,
    /// Outbox rows that the batch wrote.
    pub outbox: Vec<OutboxRow>,
    /// Schedules of which a run ended while times may wait for that.
    pub awaited_schedules: Vec<ScheduleName>,
    /// The earliest time at which a row of the batch is due, and the time of the batch.
    pub next_due: Option<(Timestamp, Timestamp)>,
    /// The changes of the batch that metrics count.
    pub observations: Observations,
    /// The spans that the batch ended, if they are published.
    pub spans: Vec<Span>,
}

impl CommitEffects {
    /// Derives the effects from the changes of a decided batch. The registry learns the gates and gated classes even if
    /// the save fails: both only steer scheduling and locking, and are never taken back.
    pub fn of(changes: &Changes, summary: Summary, host: &EngineHost) -> CommitEffects {
        let registry = &host.registry;
        let observations = Observations::of(changes, &summary);
        let spans = match &host.spans {
            Some(_) => ended_spans(changes, &summary, &registry.classes()),
            None => Vec::new(),
        };
        let rows = || {
            let inserted = changes.executions.inserted.iter().map(|row| &row.execution);
            inserted.chain(changes.executions.updated.iter().map(|row| &row.execution))
        };
        registry.learn_gates(changes.gates.written());
        if registry.has_gates() {
            registry.learn_gated_classes(rows());
            host.refusals.learn(changes.executions.updated.iter().map(|row| &row.execution));
        }
        let mut ready = summary.ready;
        for lane in summary.opened_lanes {
            ready.extend(registry.of(lane.namespace, Some(&lane.name), None));
        }
        // A gate that refused an execution may have kept the claim from the executions behind it.
        let refused =
            changes.executions.updated.iter().map(|row| &row.execution).filter(|row| is_refused(row));
        ready.extend(refused.map(|row| row.class));
        let mut notification =
            Notification { ready, logged: !changes.events.is_empty(), ..Notification::default() };
        notification.streamed = changes.streams.iter().map(|stream| stream.name.execution).collect();
        changes.events.iter().for_each(|event| add_event(&mut notification, event));
        let asked_to_cancel = rows()
            .filter(|row| row.detail.cancel.is_some())
            .filter_map(|row| row.state.lease().map(|lease| instance_key(row.namespace, &lease.instance)));
        notification.sessions.extend(asked_to_cancel);
        // A session that replaces its stored row has ended: its worker departed or was superseded.
        let ended =
            changes.sessions.written.iter().filter(|session| changes.sessions.removed.contains(&session.id));
        notification
            .sessions
            .extend(ended.map(|session| instance_key(session.namespace(), &session.instance)));
        notification.sessions.sort_unstable();
        notification.sessions.dedup();
        let live_due = rows().filter(|row| row.state.outcome().is_none()).filter_map(|row| row.due());
        let gates_due = changes.gates.written().filter_map(|gate| gate.due_at);
        let jobs_due = changes.bulk_jobs.written.iter().map(|job| job.due_at);
        let schedules_due = changes.schedules.written().filter_map(|schedule| schedule.due_at);
        let ended_attempts = changes.events.iter().filter(|event| attempt_end(&event.fact).is_some());
        CommitEffects {
            notification,
            ended_attempts: ended_attempts.filter_map(|event| event.execution).collect(),
            leased: rows().filter(|row| matches!(row.state, State::Active(_))).cloned().collect(),
            outbox: changes.outbox.written.clone(),
            awaited_schedules: awaited_schedules(changes),
            next_due: live_due
                .map(|due| due.at)
                .chain(gates_due)
                .chain(jobs_due)
                .chain(schedules_due)
                .min()
                .map(|at| (at, summary.now)),
            observations,
            spans,
        }
    }
}

/// Returns the schedules of which a run ended while times may wait for that.
fn awaited_schedules(changes: &Changes) -> Vec<ScheduleName> {
    let executions = changes.executions.updated.iter().map(|row| &row.execution);
    // The end of a member is not the end of its flow.
    let executions = executions.filter(|row| row.flow.is_none() && row.state.outcome().is_some());
    let flows = changes.flows.updated.iter().map(|(flow, _)| flow);
    let flows = flows.filter(|flow| flow.state != FlowState::Running);
    executions
        .map(|row| (row.namespace, &row.spec.scheduled))
        .chain(flows.map(|flow| (flow.namespace, &flow.spec.scheduled)))
        .filter_map(|(namespace, scheduled)| {
            let name = scheduled.as_ref().filter(|scheduled| scheduled.is_awaited)?.schedule.clone();
            Some(ScheduleName { namespace, name })
        })
        .collect()
}

/// Reports whether a gate refused the execution. A fairness line does not refuse: it only orders turns.
fn is_refused(row: &Execution) -> bool {
    matches!(&row.state, State::Held(gate) if gate.kind != GateKind::Fair)
}

/// Returns the key under which the heartbeats and claims of an instance wait.
pub fn instance_key(namespace: NamespaceId, instance: &str) -> SessionId {
    SessionId::of(namespace, instance, 0)
}

/// Adds the wake-ups that an event causes: for an end, for a lease that its worker did not end itself, and for a
/// request to drain.
fn add_event(notification: &mut Notification, event: &Event) {
    if let Fact::DrainRequested(fact::DrainRequested { instance }) = &event.fact {
        notification.sessions.push(instance_key(event.namespace, instance));
    }
    if let (Fact::FlowEnded { .. }, Some(flow)) = (&event.fact, event.flow) {
        notification.ended.push(ExecutionId(flow.0));
    }
    let Some(execution) = event.execution else { return };
    if ends_execution(&event.fact) {
        notification.ended.push(execution);
    }
    let lost_by = match &event.fact {
        Fact::TimedOut(fact::TimedOut { lease, .. })
        | Fact::LeaseExpired(fact::LeaseExpired { lease, .. })
        | Fact::Orphaned(fact::Orphaned { lease, .. })
        | Fact::Revoked(fact::Revoked { lease, .. })
        | Fact::Breached(fact::Breached { lease, .. })
        | Fact::Cancelled(fact::Cancelled { lease: Some(lease), .. })
        | Fact::DeadlinePassed(fact::DeadlinePassed { lease: Some(lease) }) => Some(&lease.instance),
        _ => None,
    };
    if let Some(instance) = lost_by {
        notification.sessions.push(instance_key(event.namespace, instance));
    }
}

fn ends_execution(fact: &Fact) -> bool {
    match fact {
        Fact::Cancelled { .. }
        | Fact::DeadlinePassed { .. }
        | Fact::StartByPassed(fact::StartByPassed {})
        | Fact::SuspensionTimedOut { .. } => true,
        Fact::Joined(fact::Joined { next, .. }) => matches!(next, Next::Terminal(_)),
        other => attempt_end(other).is_some_and(|(_, end)| matches!(end.next, Next::Terminal(_))),
    }
}

/// The number of executions of a class that a gate must refuse in one transaction.
const MANY: usize = 100;
/// The time after which a gate is forgotten that refuses few.
const REMEMBERED: Duration = Duration::from_secs(5);
/// The maximum number of gates that are remembered for a class.
const GATES_MAX: usize = 16;

/// The refusing gates of each class, with the time of the last refusals.
#[derive(Default)]
pub struct Refusals(Mutex<HashMap<ClassId, Vec<(GateName, Instant)>>>);

impl Refusals {
    /// Learns from the executions that a transaction has changed.
    pub fn learn<'a>(&self, changed: impl Iterator<Item = &'a Execution>) {
        let mut refused: BTreeMap<(ClassId, &GateName), usize> = BTreeMap::new();
        for row in changed {
            if let State::Held(gate) = &row.state
                && gate.kind != GateKind::Fair
            {
                *refused.entry((row.class, gate)).or_default() += 1;
            }
        }
        for ((class, gate), _) in refused.into_iter().filter(|(_, count)| *count >= MANY) {
            let now = Instant::now();
            let mut known = lock(&self.0);
            let gates = known.entry(class).or_default();
            gates.retain(|(known, at)| known != gate && now.duration_since(*at) < REMEMBERED);
            gates.push((gate.clone(), now));
            let surplus = gates.len().saturating_sub(GATES_MAX);
            gates.drain(..surplus);
        }
    }

    /// Returns the gates that refuse executions of these classes.
    pub fn of(&self, classes: &BTreeSet<ClassId>) -> Vec<GateName> {
        let mut known = lock(&self.0);
        if known.is_empty() {
            return Vec::new();
        }
        known.retain(|_, gates| gates.last().is_some_and(|(_, at)| at.elapsed() < REMEMBERED));
        let gates = classes.iter().filter_map(|class| known.get(class)).flatten();
        gates.map(|(gate, _)| gate.clone()).collect()
    }
}
