//! The queue of tasks with the channels of their replies, and the choice of the tasks that form the next batch.
//!
//! Tasks run in the order of their arrival, with one exception: a task that needs a flow or gates that a running batch
//! occupies would only wait for that batch's locks, so it stays queued and joins later tasks of its kind in the next
//! batch. Everything here is derived from the [`Profile`] of a rule.

use super::host::LeaseCache;
use crate::Error;
use crate::registry::Registry;
use selvedge_core::rule::{Caller, Profile, Queued, Rule};
use selvedge_core::{ClassId, FlowId};
use selvedge_store::{BoxedTask, Error as StoreError};
use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// The maximum weight of a batch.
const BATCH_WEIGHT: usize = 512;
/// Age of a queued task at which the running batches count as stuck.
pub const STUCK_AFTER: Duration = Duration::from_millis(50);
/// The maximum number of queued tasks searched for one that may run.
const SCAN_LIMIT: usize = 4096;

/// The flows and gates that a task or a batch shares with others, as far as they are known before it runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Footprint {
    /// Flows of the executions that the rule names and the lease cache holds.
    pub flows: Vec<FlowId>,
    /// True if executions pass gates that many executions share.
    pub shared_gates: bool,
    /// True for rules that are batched only with each other; see [`Profile::runs_alone`].
    pub runs_alone: bool,
}

impl Footprint {
    /// Derives the footprint of a task from its profile.
    pub fn of(profile: &Profile, cache: &LeaseCache, registry: &Registry) -> Footprint {
        let named = || profile.executions.iter().map(|touch| touch.execution);
        let mut flows: Vec<FlowId> = named().filter_map(|id| cache.flow_of(id)).collect();
        flows.sort_unstable();
        flows.dedup();
        let shared_gates = registry.has_gates() && {
            let gated = |class: ClassId| registry.is_gated(class);
            let claimed = profile.claims.as_ref().map(|scope| registry.covered(scope)).unwrap_or_default();
            named().filter_map(|id| cache.class_of(id)).any(gated)
                || profile.makes_ready.iter().copied().any(gated)
                || claimed.into_iter().any(gated)
        };
        Footprint { flows, shared_gates, runs_alone: profile.runs_alone }
    }

    /// Adds the flows and gates of another task of the same batch.
    pub fn merge(&mut self, other: &Footprint) {
        self.flows.extend(&other.flows);
        self.shared_gates |= other.shared_gates;
    }
}

/// A task in the queue, with its time of arrival and its footprint.
pub struct Position {
    queued_at: Instant,
    task: BoxedTask,
    footprint: Footprint,
}

/// Returns the positions of tasks with a common footprint, so that they share a batch unless it is full.
pub fn together(tasks: Vec<BoxedTask>, cache: &LeaseCache, registry: &Registry) -> Vec<Position> {
    let position = |task: BoxedTask| {
        let footprint = Footprint::of(task.profile(), cache, registry);
        Position { queued_at: Instant::now(), task, footprint }
    };
    let mut positions: Vec<Position> = tasks.into_iter().map(position).collect();
    let mut common = Footprint::default();
    positions.iter().for_each(|position| common.merge(&position.footprint));
    for position in &mut positions {
        position.footprint = Footprint { runs_alone: position.footprint.runs_alone, ..common.clone() };
    }
    positions
}

/// The queued tasks, and the flows and gates that running batches occupy.
#[derive(Default)]
pub struct TaskQueue {
    queue: VecDeque<Position>,
    occupied_flows: HashSet<FlowId>,
    gates_occupied: bool,
}

impl TaskQueue {
    /// Appends tasks to the queue.
    pub fn add(&mut self, tasks: impl IntoIterator<Item = Position>) {
        self.queue.extend(tasks);
    }

    /// Reports whether another writer would help. That is so in three cases: a full batch is queued; a task of a flow
    /// that no running batch occupies is queued, and such batches share few locks; or a task has been queued for so
    /// long that the running batches must be stuck, for example behind a lock of another server.
    pub fn wants_extra_writer(&self) -> bool {
        let mut weight = 0;
        let mut runnable = self.queue.iter().take(SCAN_LIMIT).filter(|queued| self.may_run(queued));
        runnable.any(|Position { queued_at, task, footprint }| {
            weight += task.profile().weight;
            weight >= BATCH_WEIGHT || !footprint.flows.is_empty() || queued_at.elapsed() > STUCK_AFTER
        })
    }

    /// Takes the next batch; none if no task may run. Its footprint is occupied until [`Self::release`].
    pub fn take(&mut self) -> Option<(Vec<BoxedTask>, Footprint)> {
        let mut batch = Vec::new();
        let mut occupied: Option<Footprint> = None;
        let (mut index, mut weight) = (0, 0);
        for _ in 0..SCAN_LIMIT {
            let Some(queued) = self.queue.get(index) else { break };
            let fits = occupied.as_ref().is_none_or(|batch| batch.runs_alone == queued.footprint.runs_alone);
            if !fits || !self.may_run(queued) {
                index += 1;
                continue;
            }
            weight += queued.task.profile().weight;
            if weight > BATCH_WEIGHT && !batch.is_empty() {
                break;
            }
            let Some(queued) = self.queue.remove(index) else { break };
            match &mut occupied {
                Some(occupied) => occupied.merge(&queued.footprint),
                None => occupied = Some(queued.footprint),
            }
            batch.push(queued.task);
        }
        let occupied = occupied?;
        self.occupied_flows.extend(&occupied.flows);
        self.gates_occupied |= occupied.shared_gates;
        Some((batch, occupied))
    }

    /// Frees the footprint of a batch that ended.
    pub fn release(&mut self, occupied: &Footprint) {
        for flow in &occupied.flows {
            self.occupied_flows.remove(flow);
        }
        self.gates_occupied &= !occupied.shared_gates;
    }

    /// Reports whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Reports whether a queued task may run now.
    pub fn has_runnable_task(&self) -> bool {
        self.queue.iter().take(SCAN_LIMIT).any(|queued| self.may_run(queued))
    }

    fn may_run(&self, Position { footprint, .. }: &Position) -> bool {
        let gates_busy = footprint.shared_gates && self.gates_occupied;
        let flow_busy = footprint.flows.iter().any(|flow| self.occupied_flows.contains(flow));
        !gates_busy && !flow_busy
    }
}

/// Receives the reply to a rule.
pub type ReplyReceiver<R> = oneshot::Receiver<Result<<R as Rule>::Reply, StoreError>>;

struct ReplySender<T>(oneshot::Sender<Result<T, StoreError>>);

impl<R: Rule> Caller<R> for ReplySender<R::Reply> {
    type Error = StoreError;

    fn answer(self, reply: Result<R::Reply, StoreError>) -> Option<R::Reply> {
        self.0.send(reply).err().and_then(Result::ok)
    }
}

/// Returns a rule as a task, and the channel of its reply. Dropping the task without a reply closes the channel.
pub fn new_task<R: Rule>(rule: R) -> (BoxedTask, ReplyReceiver<R>) {
    let (sender, receiver) = oneshot::channel();
    (Box::new(Queued::of(rule, ReplySender(sender))), receiver)
}

/// Waits for a reply. A closed channel is reported as [`Error::Closed`].
pub async fn receive<T>(reply: oneshot::Receiver<Result<T, StoreError>>) -> Result<T, Error> {
    Ok(reply.await.map_err(|_closed| Error::Closed)??)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::new_task;
    use selvedge_core::rules::flows::whole::SettleFlow;
    use uuid::Uuid;

    fn flow(number: u128) -> FlowId {
        FlowId(Uuid::from_u128(number))
    }

    fn queued(footprint: Footprint) -> Position {
        let (task, _) = new_task(SettleFlow { flow: flow(1) });
        Position { queued_at: Instant::now(), task, footprint }
    }

    fn of_flow(number: u128) -> Position {
        queued(Footprint { flows: vec![flow(number)], ..Footprint::default() })
    }

    /// Takes a batch; returns its size and its footprint.
    fn take(queue: &mut TaskQueue) -> (usize, Footprint) {
        queue.take().map(|(batch, occupied)| (batch.len(), occupied)).unwrap_or_default()
    }

    #[test]
    fn rules_that_run_alone_are_batched_with_each_other_only() {
        let alone = || queued(Footprint { runs_alone: true, ..Footprint::default() });
        let mut queue = TaskQueue::default();
        queue.add([queued(Footprint::default()), alone(), queued(Footprint::default()), alone()]);
        let (first, second) = (take(&mut queue), take(&mut queue));
        assert_eq!([(first.0, first.1.runs_alone), (second.0, second.1.runs_alone)], [(2, false), (2, true)]);
        assert!(!queue.has_runnable_task());
    }

    #[test]
    fn tasks_that_need_an_occupied_flow_or_gate_gather_until_it_is_released() {
        let mut queue = TaskQueue::default();
        queue.add([of_flow(1)]);
        let (_, running) = take(&mut queue);
        queue.add([of_flow(1), of_flow(2), of_flow(1)]);
        assert_eq!(take(&mut queue).0, 1, "only the task of the other flow may run");
        assert!(!queue.has_runnable_task());
        queue.release(&running);
        assert_eq!(take(&mut queue).0, 2);

        let shared = || queued(Footprint { shared_gates: true, ..Footprint::default() });
        queue.add([shared()]);
        let (_, running) = take(&mut queue);
        queue.add([shared(), shared(), queued(Footprint::default())]);
        assert_eq!(take(&mut queue).0, 1);
        queue.release(&running);
        assert_eq!(take(&mut queue).0, 2);
    }

    #[test]
    fn a_batch_does_not_exceed_its_maximum_weight() {
        let mut queue = TaskQueue::default();
        queue.add((0..BATCH_WEIGHT + 3).map(|_| queued(Footprint::default())));
        assert_eq!((take(&mut queue).0, take(&mut queue).0), (BATCH_WEIGHT, 3));
    }

    #[test]
    fn an_extra_writer_helps_with_a_full_batch_with_another_flow_and_with_stuck_batches() {
        let mut queue = TaskQueue::default();
        queue.add((1..BATCH_WEIGHT).map(|_| queued(Footprint::default())));
        assert!(!queue.wants_extra_writer(), "the batch is not full yet");
        queue.add([queued(Footprint::default())]);
        assert!(queue.wants_extra_writer(), "a full batch is queued");

        let mut queue = TaskQueue::default();
        queue.add([of_flow(1), of_flow(2)]);
        let (_, running) = take(&mut queue);
        queue.add([of_flow(1)]);
        assert!(!queue.wants_extra_writer(), "the flow is occupied");
        queue.add([of_flow(3)]);
        assert!(queue.wants_extra_writer(), "a task of a free flow is queued");
        queue.release(&running);

        let mut queue = TaskQueue::default();
        let long_ago =
            Instant::now().checked_sub(STUCK_AFTER * 2).expect("the monotonic clock is older than this");
        queue.add([Position { queued_at: long_ago, ..queued(Footprint::default()) }]);
        assert!(queue.wants_extra_writer(), "the task has been queued for too long");
    }
}
