//! One batch as a store runs it, and what the rest of the engine must know after its commit.

use crate::process::Process;
use crate::task::Post;
use selvedge_core::driver::{Demand, Driver, Summary};
use selvedge_core::fact::Fact;
use selvedge_core::gate::GateKind;
use selvedge_core::history::ending;
use selvedge_core::log::Event;
use selvedge_core::outbox::OutboxRow;
use selvedge_core::{Changes, Execution, ExecutionId, Needs, Rows, SessionId, State, Timestamp};
use selvedge_store::{Decision, Notification};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Everything the engine does after a batch was committed.
#[derive(Default)]
pub struct Outcome {
    /// Notifications for waiters here and for other servers.
    pub news: Notification,
    /// Leased rows, for the lease cache.
    pub leased: Vec<Execution>,
    /// Outbox rows that it wrote.
    pub outbox: Vec<OutboxRow>,
    /// The earliest time at which a row of this batch is due, and the time of the batch.
    pub next_due: Option<(Timestamp, Timestamp)>,
}

/// A batch under way. The store runs one clone; the committer keeps another, to take the tasks back.
#[derive(Clone)]
pub struct Batch(Arc<Mutex<Inner>>);

/// A batch after its transaction.
pub struct Parts {
    /// Its tasks.
    pub tasks: Vec<Box<dyn Post>>,
    /// The waiting claims that it took along.
    pub handed: Vec<Box<dyn Post>>,
    /// The outcome of its commit.
    pub outcome: Outcome,
}

struct Inner {
    process: Process,
    driver: Driver<Process>,
    outcome: Outcome,
}

impl Batch {
    /// A batch of these tasks.
    pub fn new(process: Process, tasks: Vec<Box<dyn Post>>) -> Self {
        let driver = Driver::new(process.clone(), tasks);
        Batch(Arc::new(Mutex::new(Inner { process, driver, outcome: Outcome::default() })))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes it apart after its transaction.
    pub fn into_parts(self) -> Parts {
        let mut inner = self.lock();
        let (tasks, handed) = inner.driver.take_tasks();
        Parts { tasks, handed, outcome: std::mem::take(&mut inner.outcome) }
    }
}

impl Decision for Batch {
    fn begin(&mut self, again: u32) -> Needs {
        self.lock().driver.begin(again)
    }

    fn next(&mut self, rows: Rows) -> Demand {
        let mut inner = self.lock();
        let demand = inner.driver.next(rows);
        if let Demand::Save(changes) = &demand {
            let summary = inner.driver.summary();
            inner.outcome = Outcome::of(changes, summary, &inner.process);
        }
        demand
    }
}

impl Outcome {
    fn of(changes: &Changes, summary: Summary, process: &Process) -> Outcome {
        let registry = &process.registry;
        let rows = || {
            let inserted = changes.executions.inserted.iter().map(|row| &row.execution);
            inserted.chain(changes.executions.updated.iter().map(|row| &row.execution))
        };
        registry.see_gates(changes.gates.written());
        if registry.has_gates() {
            registry.see_drawn(rows());
        }
        let mut ready = summary.ready;
        for lane in summary.opened_lanes {
            ready.extend(registry.of(lane.namespace, Some(&lane.name), None));
        }
        // A claim that was refused an execution may have gone short of those behind it.
        let refused =
            changes.executions.updated.iter().map(|row| &row.execution).filter(|row| is_refused(row));
        ready.extend(refused.map(|row| row.class));
        let mut news = Notification { ready, logged: !changes.events.is_empty(), ..Notification::default() };
        news.streamed = changes.streams.iter().map(|stream| stream.name.execution).collect();
        changes.events.iter().for_each(|event| notify(event, &mut news));
        let asked = rows()
            .filter(|row| row.detail.cancel.is_some())
            .filter_map(|row| row.state.lease().map(|lease| instance_key(row.namespace, &lease.instance)));
        news.sessions.extend(asked);
        let live_due = rows().filter(|row| row.state.outcome().is_none()).filter_map(|row| row.due());
        let gates_due = changes.gates.written().filter_map(|gate| gate.due_at);
        Outcome {
            news,
            leased: rows().filter(|row| matches!(row.state, State::Active(_))).cloned().collect(),
            outbox: changes.outbox.written.clone(),
            next_due: live_due.map(|due| due.at).chain(gates_due).min().map(|at| (at, summary.now)),
        }
    }
}

/// Whether a gate refuses it. A line only says whose turn it is.
fn is_refused(row: &Execution) -> bool {
    matches!(&row.state, State::Held(gate) if gate.kind != GateKind::Fair)
}

/// The key under which the heartbeats of an instance wait.
pub fn instance_key(namespace: selvedge_core::NamespaceId, instance: &str) -> SessionId {
    SessionId::of(namespace, instance, 0)
}

/// Adds the notifications that an event causes: an end, a lease that its worker did not end itself, a request to drain.
fn notify(event: &Event, news: &mut Notification) {
    if let Fact::DrainRequested { instance } = &event.fact {
        news.sessions.push(instance_key(event.namespace, instance));
    }
    if let (Fact::FlowEnded { .. }, Some(flow)) = (&event.fact, event.flow) {
        news.ended.push(ExecutionId(flow.0));
    }
    let Some(execution) = event.execution else { return };
    if ended(&event.fact) {
        news.ended.push(execution);
    }
    let taken = match &event.fact {
        Fact::TimedOut { lease, .. }
        | Fact::LeaseExpired { lease, .. }
        | Fact::Orphaned { lease, .. }
        | Fact::Revoked { lease, .. }
        | Fact::Breached { lease, .. }
        | Fact::Cancelled { lease: Some(lease), .. }
        | Fact::DeadlinePassed { lease: Some(lease) } => Some(&lease.instance),
        _ => None,
    };
    if let Some(instance) = taken {
        news.sessions.push(instance_key(event.namespace, instance));
    }
}

fn ended(fact: &Fact) -> bool {
    use selvedge_core::fact::Next;
    match fact {
        Fact::Cancelled { .. }
        | Fact::DeadlinePassed { .. }
        | Fact::StartByPassed
        | Fact::SuspensionTimedOut { .. } => true,
        Fact::Joined { next, .. } => matches!(next, Next::Terminal(_)),
        other => ending(other).is_some_and(|(_, end)| matches!(end.next, Next::Terminal(_))),
    }
}
