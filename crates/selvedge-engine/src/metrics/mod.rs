//! Metrics: counters of what this server commits, and gauges of what the store holds.
//!
//! [`Observations`] is the only place that translates the facts of a commit into counts, so no rule knows about them.
//! [`Metrics::record`] adds them once the commit has happened, to relaxed atomics: the cost per operation is a few
//! additions, and nothing is counted that was not committed. Gauges are read from the store at most once in
//! [`gauges::FRESH`], however many scrapers ask. The number of series is bounded: see [`lanes`].

mod families;
mod gauges;
mod histogram;
mod lanes;
mod rollups;
mod store_clock;

pub use families::{Family, FamilyKind, Sample, SampleValue};
pub use gauges::GaugeReader;
pub use histogram::{Distribution, Histogram, Slots};
pub use lanes::{NAMED_MAX, OTHER};
pub use rollups::FlushTask;

use crate::registry::Registry;
use lanes::Lanes;
use rollups::Rollups;
use selvedge_core::driver::Summary;
use selvedge_core::fact::{self, Fact, Next};
use selvedge_core::flow::FlowState;
use selvedge_core::history::{ATTEMPT_OUTCOMES, attempt_end, attempt_outcome, outcome};
use selvedge_core::log::Event;
use selvedge_core::rules::claim::Claimed;
use selvedge_core::rules::inbox::TakenIn;
use selvedge_core::{Changes, ClassId, Execution, Outcome, Timestamp};
use selvedge_store::{CallObserver, Error, Overview, Store};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use store_clock::StoreClock;

/// The counters of one engine.
#[derive(Debug)]
pub struct Metrics {
    /// The beginning of the process's own clock, and the time of the store at that moment, in microseconds; 0 if unknown.
    begun: Instant,
    store_time_at_begin: AtomicI64,
    store_clock: StoreClock,
    lanes: Lanes,
    lease_events: [AtomicU64; LEASE_EVENTS.len()],
    flows_submitted: AtomicU64,
    flows_ended: [AtomicU64; FlowState::ALL.len()],
    schedule_results: [AtomicU64; SCHEDULE_RESULTS.len()],
    schedule_lag: Histogram,
    batch_size: Histogram,
    batch_time: Histogram,
    failed_batches: AtomicU64,
    inbox_submitted: AtomicU64,
    inbox_refused: AtomicU64,
    projected_events: AtomicU64,
    projection_lag_us: AtomicI64,
    store_calls: Arc<StoreCalls>,
    rollups: Rollups,
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics {
            begun: Instant::now(),
            store_time_at_begin: AtomicI64::new(0),
            store_clock: StoreClock::default(),
            lanes: Lanes::default(),
            lease_events: Default::default(),
            flows_submitted: AtomicU64::new(0),
            flows_ended: Default::default(),
            schedule_results: Default::default(),
            schedule_lag: Histogram::of_durations(),
            batch_size: Histogram::of_sizes(),
            batch_time: Histogram::of_durations(),
            failed_batches: AtomicU64::new(0),
            inbox_submitted: AtomicU64::new(0),
            inbox_refused: AtomicU64::new(0),
            projected_events: AtomicU64::new(0),
            projection_lag_us: AtomicI64::new(0),
            store_calls: Arc::default(),
            rollups: Rollups::default(),
        }
    }
}

impl Metrics {
    /// Counts a row of the inbox.
    pub fn took_in(&self, reply: TakenIn) {
        match reply {
            TakenIn::Submitted => add(&self.inbox_submitted, 1),
            TakenIn::Refused => add(&self.inbox_refused, 1),
            TakenIn::Superseded => {}
        }
    }

    /// Counts events that were written for SQL.
    pub fn projected(&self, events: usize) {
        add(&self.projected_events, events as u64);
    }

    /// Sets the age of the last entry of the log that was written for SQL; zero if none follows it.
    pub fn set_projection_lag(&self, microseconds: i64) {
        self.projection_lag_us.store(microseconds.max(0), Relaxed);
    }

    /// Counts the calls of a store here.
    pub fn count_calls_of(&self, store: &dyn Store) {
        store.meter().add(self.store_calls.clone());
    }

    /// Counts a transaction of this many tasks that took this long.
    pub fn batch(&self, tasks: usize, time: Duration, committed: bool) {
        self.batch_size.add(tasks as i64);
        self.batch_time.add_time(time);
        if !committed {
            self.failed_batches.fetch_add(1, Relaxed);
        }
    }

    /// Counts the observations of a commit.
    pub fn record(&self, seen: &Observations, registry: &Registry) {
        self.lease_events.iter().zip(seen.lease_events).for_each(|(total, count)| add(total, count));
        add(&self.flows_submitted, seen.flows_submitted);
        for state in &seen.flows_ended {
            let index = FlowState::ALL.iter().position(|known| known == state);
            index.iter().for_each(|index| add(&self.flows_ended[*index], 1));
        }
        self.schedule_results.iter().zip(seen.schedule_results).for_each(|(total, count)| add(total, count));
        seen.schedule_lags_us.iter().for_each(|lag| self.schedule_lag.add(*lag));
        if seen.changes.is_empty() {
            return;
        }
        let mut minute = self.rollups.minute(seen.at);
        self.lanes.visit(&seen.changes, registry, |lane, change| {
            let metrics = &lane.metrics;
            match change {
                LaneChange::Submitted => add(&metrics.submitted, 1),
                LaneChange::Started(queued_us) => {
                    add(&metrics.started, 1);
                    metrics.queue.add(*queued_us);
                }
                LaneChange::AttemptEnded { outcome, ran_us } => {
                    add(&metrics.attempts[*outcome], 1);
                    ran_us.iter().for_each(|ran_us| metrics.run.add(*ran_us));
                }
                LaneChange::Retried => add(&metrics.retries, 1),
                LaneChange::Ended(outcome) => add(&metrics.outcomes[*outcome as usize], 1),
            }
            minute.add(lane, *change);
        });
    }

    /// Counts the answer to a claim that was asked at `asked`: for each execution the time of the claim, or the time for which
    /// the execution had waited if that is shorter. The two times come from different clocks and are not subtracted.
    pub fn claimed(&self, claimed: &[Claimed], asked: Instant, registry: &Registry) {
        if claimed.is_empty() {
            return;
        }
        let took_us = i64::try_from(asked.elapsed().as_micros()).unwrap_or(i64::MAX);
        let latencies: Vec<(ClassId, i64)> = claimed
            .iter()
            .map(|one| {
                let row = &one.execution;
                let claimed_at = row.state.lease().map_or(row.ready_order, |lease| lease.claimed_at);
                let queued_us = (claimed_at.micros() - row.ready_order.micros()).max(0);
                (row.class, took_us.min(queued_us))
            })
            .collect();
        self.lanes.visit(&latencies, registry, |lane, micros| lane.metrics.claim.add(*micros));
    }

    /// Learns the time of the store, for which it was asked at an instant. Returns the time from which the store should go on, if it
    /// stepped back with its clock.
    pub fn set_store_time(&self, overview: &Overview, asked_at: Instant) -> Option<Timestamp> {
        let go_on_from = self.store_clock.read(overview, asked_at);
        let at_begin = overview.now.micros() - self.begun.elapsed().as_micros() as i64;
        self.store_time_at_begin.store(at_begin, Relaxed);
        go_on_from
    }

    /// Takes note that the time of the store follows its clock, which is too far behind.
    pub fn follow_store_clock(&self) {
        self.store_clock.follow();
    }

    /// Returns the number of times that the clock of the store stepped back, and the time by which it is behind since.
    pub fn clock_steps(&self) -> (u64, Duration) {
        self.store_clock.steps(self.store_time())
    }

    /// Returns the time of the store, or of this process if that of the store is unknown.
    pub fn store_time(&self) -> Timestamp {
        match self.store_time_at_begin.load(Relaxed) {
            0 => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Timestamp::from_micros(since.as_micros() as i64)
            }
            at_begin => Timestamp::from_micros(at_begin + self.begun.elapsed().as_micros() as i64),
        }
    }

    /// Saves the minute rollups that have changed since the last save.
    pub async fn flush_rollups(&self, store: &Arc<dyn Store>) -> Result<(), Error> {
        self.rollups.flush(store, Duration::ZERO).await
    }

    /// Saves the minute rollups, unless they were saved less than a second ago.
    pub async fn flush_old_rollups(&self, store: &Arc<dyn Store>) -> Result<(), Error> {
        self.rollups.flush(store, Duration::from_secs(1)).await
    }
}

fn add(total: &AtomicU64, count: u64) {
    if count > 0 {
        total.fetch_add(count, Relaxed);
    }
}

/// The events of leases that are counted, in the order of [`Observations::lease_events`].
pub const LEASE_EVENTS: [&str; 7] =
    ["acquired", "renewed", "expired", "reclaimed", "revoked", "orphaned", "released"];

/// The results of times of schedules that are counted, in the order of [`Observations::schedule_results`].
pub const SCHEDULE_RESULTS: [&str; 3] = ["fired", "skipped", "refused"];

/// A change of an execution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LaneChange {
    /// It was submitted.
    Submitted,
    /// An attempt started after it had waited for this long, in microseconds.
    Started(i64),
    AttemptEnded {
        /// The index of its outcome in [`ATTEMPT_OUTCOMES`].
        outcome: usize,
        /// The time that it ran, in microseconds, if it held its lease until then.
        ran_us: Option<i64>,
    },
    /// A failed attempt is followed by another one.
    Retried,
    Ended(Outcome),
}

/// The changes of a commit that metrics count.
#[derive(Debug, Default)]
pub struct Observations {
    /// The time of the transaction.
    pub at: Timestamp,
    /// Changes of executions, each with the class of its execution.
    pub changes: Vec<(ClassId, LaneChange)>,
    /// The number of events of leases, in the order of [`LEASE_EVENTS`].
    pub lease_events: [u64; LEASE_EVENTS.len()],
    /// The number of submitted flows.
    pub flows_submitted: u64,
    /// The final states of ended flows.
    pub flows_ended: Vec<FlowState>,
    /// The number of times of schedules, in the order of [`SCHEDULE_RESULTS`].
    pub schedule_results: [u64; SCHEDULE_RESULTS.len()],
    /// The time by which each run of a schedule was late, in microseconds.
    pub schedule_lags_us: Vec<i64>,
}

impl Observations {
    /// Derives the observations from the changes of a decided batch.
    pub fn of(changes: &Changes, summary: &Summary) -> Observations {
        let mut seen = Observations { at: summary.now, ..Observations::default() };
        seen.changes.reserve(changes.events.len() + changes.events.len() / 2);
        // The leases end in the order of the facts that end them.
        let mut ended_leases = summary.ended_leases.iter().peekable();
        for event in &changes.events {
            seen.count_lease_events(&event.fact);
            match (&event.fact, event.execution) {
                (Fact::FlowSubmitted { .. }, _) => seen.flows_submitted += 1,
                (Fact::FlowEnded(fact::FlowEnded { state }), _) => seen.flows_ended.push(*state),
                (Fact::ScheduleFired(fact::ScheduleFired { scheduled_at, manual, .. }), _) => {
                    seen.schedule_results[0] += 1;
                    if !manual {
                        seen.schedule_lags_us.push(micros_between(*scheduled_at, event.at));
                    }
                }
                (Fact::ScheduleSkipped { .. }, _) => seen.schedule_results[1] += 1,
                (Fact::ScheduleRefused { .. }, _) => seen.schedule_results[2] += 1,
                (_, Some(id)) if event.version.is_some() => {
                    let ended =
                        ended_leases.next_if(|(of, _)| *of == id && attempt_end(&event.fact).is_some());
                    if let Some(row) = changes.row(id) {
                        let ran_us = ended.map(|(_, since)| micros_between(*since, summary.now));
                        seen.count_change(event, row, ran_us);
                    }
                }
                (_, _) => {}
            }
        }
        seen
    }

    fn count_lease_events(&mut self, fact: &Fact) {
        let [acquired, renewed, expired, reclaimed, revoked, orphaned, released] = &mut self.lease_events;
        match fact {
            Fact::Claimed(fact::Claimed { after, .. }) => {
                *acquired += 1;
                *reclaimed += u64::from(after.is_some());
            }
            Fact::Renewed(fact::Renewed { leases, .. }) => *renewed += leases.len() as u64,
            Fact::LeaseExpired { .. } => *expired += 1,
            Fact::Revoked { .. } => *revoked += 1,
            Fact::Orphaned { .. } => *orphaned += 1,
            Fact::Released { .. } => *released += 1,
            // All other facts are about something else, or end a lease by a report, which is the outcome of an attempt.
            _ => {}
        }
    }

    fn count_change(&mut self, event: &Event, row: &Execution, ran_us: Option<i64>) {
        let mut add = |change| self.changes.push((row.class, change));
        match &event.fact {
            Fact::Submitted { .. } | Fact::SubmittedWaitingDependencies { .. } => add(LaneChange::Submitted),
            Fact::Claimed { .. } => {
                add(LaneChange::Started(micros_between(row.ready_order, event.at)));
            }
            fact => {
                let name = attempt_outcome(fact);
                if let Some(outcome) = ATTEMPT_OUTCOMES.iter().position(|known| *known == name)
                    && attempt_end(fact).is_some()
                {
                    add(LaneChange::AttemptEnded { outcome, ran_us });
                }
                if is_retried(fact) {
                    add(LaneChange::Retried);
                }
                if let Some(outcome) = outcome(fact) {
                    add(LaneChange::Ended(outcome));
                }
            }
        }
    }
}

/// Reports whether a failed attempt is followed by another one.
fn is_retried(fact: &Fact) -> bool {
    let (Fact::Failed(fact::Failed { next, .. }) | Fact::TimedOut(fact::TimedOut { next, .. })) = fact else {
        return false;
    };
    matches!(next, Next::Waiting | Next::Delayed(_))
}

fn micros_between(earlier: Timestamp, later: Timestamp) -> i64 {
    (later.micros() - earlier.micros()).max(0)
}

/// More than the number of different calls of a store.
const CALLS_MAX: usize = 256;

/// The counters of all calls of a store, by name.
#[derive(Debug)]
pub struct StoreCalls(Slots<CallCounts>);

/// The counters of one call.
#[derive(Debug, Default)]
pub struct CallCounts {
    pub calls: AtomicU64,
    /// Calls that failed.
    pub errors: AtomicU64,
    /// The time that the calls took, in microseconds.
    pub micros: AtomicU64,
}

impl Default for StoreCalls {
    fn default() -> Self {
        StoreCalls(Slots::new(CALLS_MAX))
    }
}

impl StoreCalls {
    /// Returns the calls that were made, by name.
    pub fn read(&self) -> Vec<(&str, &CallCounts)> {
        let mut calls: Vec<(&str, &CallCounts)> =
            self.0.read().0.into_iter().map(|(name, _, counts)| (name, counts)).collect();
        calls.sort_by_key(|(name, _)| *name);
        calls
    }
}

impl CallObserver for StoreCalls {
    fn observe(&self, call: &'static str, took: Duration, failed: bool) {
        let counts = self.0.get(call, "");
        counts.calls.fetch_add(1, Relaxed);
        counts.micros.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Relaxed);
        if failed {
            counts.errors.fetch_add(1, Relaxed);
        }
    }
}
