//! The engine as the host of the transaction driver: the state of this process that transactions use, and the effects of a
//! commit on it.
//!
//! The state is the interned names, the waiting claims, the rows of leases that this process granted ([`LeaseCache`]) and
//! the gates that have lately refused many executions ([`Refusals`]).

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
    Changes, Class, ClassId, Classes, Execution, ExecutionId, FlowId, Gate, GateId, NamespaceId, SessionId,
    State, Timestamp,
};
use selvedge_store::{BoxedTask, Notification};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
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

/// The gates that have lately refused many executions of a class, as this process has seen it, with the time of the last
/// refusals.
///
/// A claim holds what a gate refuses, at most a few hundred executions in a transaction. Behind many thousands of them
/// there may be others that may run, so claims also search for executions that do not name these gates. Only a hint.
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

/// The maximum number of cached rows, and of rows known to be unreadable.
const CAPACITY: usize = 20_000;
/// The maximum history of a cached row, in bytes. Rows with a longer one are not cached.
const HISTORY_LIMIT: usize = 2048;

/// The rows of the leases that this process granted, so that the worker's report needs no read. Also the ids of unreadable
/// rows, so that each of those is logged once.
///
/// A cached row may be out of date. It is saved only if the store still has its version; otherwise the transaction begins
/// again with the row read from the store. The cache is bounded; a miss costs one read.
///
/// If the store has lost commits, it may have another change with the version of a cached row. So all rows belong to one
/// lineage of the store (see [`Transactions::lineage`](selvedge_store::Transactions::lineage)), and are dropped when it
/// changes.
#[derive(Default)]
pub struct LeaseCache {
    rows: Mutex<Rows>,
    unreadable: Mutex<HashSet<ExecutionId>>,
    hits: AtomicU64,
}

/// The cached rows of one lineage of the store.
#[derive(Default)]
struct Rows {
    lineage: u64,
    by_id: HashMap<ExecutionId, Execution>,
}

impl Rows {
    /// Drops the rows of earlier histories.
    fn drop_earlier(&mut self, lineage: u64) {
        if self.lineage < lineage {
            self.by_id.clear();
            self.lineage = lineage;
        }
    }
}

impl LeaseCache {
    /// Takes a row out of the cache, if it is of this lineage of the store or a later one. If the transaction changes the
    /// row and it stays active, the commit adds it again.
    pub fn take(&self, id: ExecutionId, lineage: u64) -> Option<Execution> {
        let mut cached = lock(&self.rows);
        cached.drop_earlier(lineage);
        let row = cached.by_id.remove(&id)?;
        self.hits.fetch_add(1, Ordering::Relaxed);
        Some(row)
    }

    /// Returns how many rows were taken out.
    #[cfg(feature = "testing")]
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// The flow of a cached row.
    pub fn flow_of(&self, id: ExecutionId) -> Option<FlowId> {
        lock(&self.rows).by_id.get(&id)?.flow
    }

    /// The class of a cached row.
    pub fn class_of(&self, id: ExecutionId) -> Option<ClassId> {
        Some(lock(&self.rows).by_id.get(&id)?.class)
    }

    /// Adds rows after their commit, which began in this lineage of the store. If they exceed the capacity, the cache is
    /// cleared first.
    pub fn add(&self, rows: Vec<Execution>, lineage: u64) {
        if rows.is_empty() {
            return;
        }
        let mut cached = lock(&self.rows);
        cached.drop_earlier(lineage);
        if cached.lineage > lineage {
            return;
        }
        let cached = &mut cached.by_id;
        if cached.len() + rows.len() > CAPACITY {
            cached.clear();
        }
        let short = rows.into_iter().filter(|row| row.history.as_bytes().len() <= HISTORY_LIMIT);
        cached.extend(short.map(|row| (row.id, row)));
    }

    /// Marks a row as unreadable. Returns true if it was not marked before.
    pub fn is_newly_unreadable(&self, id: ExecutionId) -> bool {
        let mut unreadable = lock(&self.unreadable);
        if unreadable.len() >= CAPACITY {
            unreadable.clear();
        }
        unreadable.insert(id)
    }
}
