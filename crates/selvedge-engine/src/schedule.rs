//! Which tasks run next, and together.
//!
//! Tasks run in the order in which they came, with one exception: a task that needs something a running batch has would only
//! wait for its locks, so it gathers with its like for the next batch. Everything here is derived from the profile of a rule.

use crate::lease_cache::LeaseCache;
use crate::registry::Registry;
use crate::task::Post;
use selvedge_core::rule::Profile;
use selvedge_core::{ClassId, FlowId};
use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};

/// The most weight that one batch carries.
const BATCH_WEIGHT: usize = 512;
/// How long a task waits before the running batches count as stuck.
pub const STUCK_AFTER: Duration = Duration::from_millis(50);
/// How many waiting tasks are looked through for those that may run now.
const LOOK_AHEAD: usize = 4096;

/// The things a task shares with others, as far as they are known before it runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wants {
    /// Flows of the executions it names.
    pub flows: Vec<FlowId>,
    /// Whether it goes through gates that many executions share.
    pub shared_gates: bool,
    /// Whether it is batched only with rules of the same kind; see [`Profile::runs_alone`].
    pub alone: bool,
}

impl Wants {
    /// What a task with this profile shares with others.
    pub fn of(profile: &Profile, cache: &LeaseCache, registry: &Registry) -> Wants {
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
        Wants { flows, shared_gates, alone: profile.runs_alone }
    }

    /// Adds what another task wants that is to run in the same batch.
    pub fn join(&mut self, other: &Wants) {
        self.flows.extend(&other.flows);
        self.shared_gates |= other.shared_gates;
    }
}

/// A task that waits for its turn.
pub struct Pending {
    /// Since when.
    pub since: Instant,
    /// The task.
    pub task: Box<dyn Post>,
    /// What it shares with others.
    pub wants: Wants,
}

/// The waiting tasks, and what the running batches have.
#[derive(Default)]
pub struct Schedule {
    waiting: VecDeque<Pending>,
    flows: HashSet<FlowId>,
    shared_gates: bool,
}

impl Schedule {
    /// Adds tasks at the end.
    pub fn add(&mut self, tasks: impl IntoIterator<Item = Pending>) {
        self.waiting.extend(tasks);
    }

    /// Whether waiting for a running batch to end would bring nothing: a full batch waits, or members of flows that no running
    /// batch has, whose batches share little; or something has waited for so long that the running batches must be stuck, for
    /// example behind a lock of another server.
    pub fn is_pressed(&self) -> bool {
        let mut weight = 0;
        let mut runnable = self.waiting.iter().take(LOOK_AHEAD).filter(|pending| self.may_run(pending));
        runnable.any(|Pending { since, task, wants }| {
            weight += task.profile().weight;
            weight >= BATCH_WEIGHT || !wants.flows.is_empty() || since.elapsed() > STUCK_AFTER
        })
    }

    /// The next batch, and what it has until it is [released](Self::release). None if nothing may run now.
    pub fn take(&mut self) -> Option<(Vec<Box<dyn Post>>, Wants)> {
        let mut batch = Vec::new();
        let mut has: Option<Wants> = None;
        let (mut index, mut weight) = (0, 0);
        for _ in 0..LOOK_AHEAD {
            let Some(pending) = self.waiting.get(index) else { break };
            let fits = has.as_ref().is_none_or(|has| has.alone == pending.wants.alone);
            if !fits || !self.may_run(pending) {
                index += 1;
                continue;
            }
            weight += pending.task.profile().weight;
            if weight > BATCH_WEIGHT && !batch.is_empty() {
                break;
            }
            let Some(pending) = self.waiting.remove(index) else { break };
            match &mut has {
                Some(has) => has.join(&pending.wants),
                None => has = Some(pending.wants),
            }
            batch.push(pending.task);
        }
        let has = has?;
        self.flows.extend(&has.flows);
        self.shared_gates |= has.shared_gates;
        Some((batch, has))
    }

    /// A batch has ended.
    pub fn release(&mut self, had: &Wants) {
        for flow in &had.flows {
            self.flows.remove(flow);
        }
        self.shared_gates &= !had.shared_gates;
    }

    /// Whether no task waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether a task waits that may run now.
    pub fn has_work(&self) -> bool {
        self.waiting.iter().take(LOOK_AHEAD).any(|pending| self.may_run(pending))
    }

    fn may_run(&self, Pending { wants, .. }: &Pending) -> bool {
        let waits_for_gates = wants.shared_gates && self.shared_gates;
        let waits_for_flow = wants.flows.iter().any(|flow| self.flows.contains(flow));
        !waits_for_gates && !waits_for_flow
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::post;
    use selvedge_core::rules::flow::Settle;
    use uuid::Uuid;

    fn flow(number: u128) -> FlowId {
        FlowId(Uuid::from_u128(number))
    }

    fn pending(wants: Wants) -> Pending {
        let (task, _) = post(Settle { flow: flow(1) });
        Pending { since: Instant::now(), task, wants }
    }

    fn of_flow(number: u128) -> Pending {
        pending(Wants { flows: vec![flow(number)], ..Wants::default() })
    }

    fn take(schedule: &mut Schedule) -> (usize, Wants) {
        schedule.take().map(|(batch, has)| (batch.len(), has)).unwrap_or_default()
    }

    #[test]
    fn rules_that_run_alone_are_batched_with_each_other_only() {
        let alone = || pending(Wants { alone: true, ..Wants::default() });
        let mut schedule = Schedule::default();
        schedule.add([pending(Wants::default()), alone(), pending(Wants::default()), alone()]);
        let (first, second) = (take(&mut schedule), take(&mut schedule));
        assert_eq!([(first.0, first.1.alone), (second.0, second.1.alone)], [(2, false), (2, true)]);
        assert!(!schedule.has_work());
    }

    #[test]
    fn what_a_running_batch_has_is_waited_for_and_gathers_meanwhile() {
        let mut schedule = Schedule::default();
        schedule.add([of_flow(1)]);
        let (_, running) = take(&mut schedule);
        schedule.add([of_flow(1), of_flow(2), of_flow(1)]);
        assert_eq!(take(&mut schedule).0, 1, "only the one of another flow runs beside it");
        assert!(!schedule.has_work());
        schedule.release(&running);
        assert_eq!(take(&mut schedule).0, 2);

        let shared = || pending(Wants { shared_gates: true, ..Wants::default() });
        schedule.add([shared()]);
        let (_, running) = take(&mut schedule);
        schedule.add([shared(), shared(), pending(Wants::default())]);
        assert_eq!(take(&mut schedule).0, 1);
        schedule.release(&running);
        assert_eq!(take(&mut schedule).0, 2);
    }

    #[test]
    fn a_batch_carries_no_more_than_its_weight() {
        let mut schedule = Schedule::default();
        schedule.add((0..BATCH_WEIGHT + 3).map(|_| pending(Wants::default())));
        assert_eq!((take(&mut schedule).0, take(&mut schedule).0), (BATCH_WEIGHT, 3));
    }

    #[test]
    fn further_writers_help_with_a_full_batch_with_other_flows_and_when_the_running_batches_are_stuck() {
        let mut schedule = Schedule::default();
        schedule.add((1..BATCH_WEIGHT).map(|_| pending(Wants::default())));
        assert!(!schedule.is_pressed(), "it gathers");
        schedule.add([pending(Wants::default())]);
        assert!(schedule.is_pressed(), "a full batch waits");

        let mut schedule = Schedule::default();
        schedule.add([of_flow(1), of_flow(2)]);
        let (_, running) = take(&mut schedule);
        schedule.add([of_flow(1)]);
        assert!(!schedule.is_pressed(), "it could not run");
        schedule.add([of_flow(3)]);
        assert!(schedule.is_pressed(), "a member of another flow waits");
        schedule.release(&running);

        let mut schedule = Schedule::default();
        let long_ago =
            Instant::now().checked_sub(STUCK_AFTER * 2).expect("the clock runs for longer than that");
        schedule.add([Pending { since: long_ago, ..pending(Wants::default()) }]);
        assert!(schedule.is_pressed(), "it waits for too long");
    }
}
