//! Metrics: counters of what this server commits, and gauges of what the store holds.
//!
//! Counters are relaxed atomics. [`Metrics::record`] adds the [`Observations`] of a commit once it has happened, so the cost
//! per operation is a few additions, and nothing is counted that was not committed. Gauges are read from the store at most
//! once in [`gauges::FRESH`], however many scrapers ask. The number of series is bounded: see [`lanes`].

mod families;
mod gauges;
mod histogram;
mod lanes;
mod rollups;
mod store_calls;
mod store_clock;

pub use families::{Family, FamilyKind, Sample, SampleValue};
pub use gauges::GaugeReader;
pub use histogram::{Distribution, Histogram, Slots};
pub use lanes::{NAMED_MAX, OTHER};
pub use rollups::FlushTask;

use crate::commit::{LEASE_EVENTS, LaneChange, Observations, SCHEDULE_RESULTS};
use crate::registry::Registry;
use lanes::Lanes;
use rollups::Rollups;
use selvedge_core::flow::FlowState;
use selvedge_core::rules::claim::Claimed;
use selvedge_core::rules::inbox::TakenIn;
use selvedge_core::{ClassId, Timestamp};
use selvedge_store::{Error, Overview, Store};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use store_calls::StoreCalls;
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
