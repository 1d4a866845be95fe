//! The metrics of an engine as families of samples, independent of the format in which they are published.

use super::gauges::{Gauges, LaneDepth};
use super::histogram::{Distribution, Histogram};
use super::lanes::{LaneMetrics, NAMED_MAX, OTHER};
use super::{LEASE_EVENTS, Metrics, SCHEDULE_RESULTS};
use crate::reconcilers::ReconcilerStatus;
use crate::{Engine, SpanSink};
use selvedge_core::Outcome;
use selvedge_core::flow::FlowState;
use selvedge_core::history::ATTEMPT_OUTCOMES;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The kind of a family of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FamilyKind {
    /// A total that only grows while the process runs.
    Counter,
    /// A value that rises and falls.
    Gauge,
    /// A distribution of values.
    Histogram,
}

/// All samples of one metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// The name, without the common prefix.
    pub name: &'static str,
    pub kind: FamilyKind,
    pub help: &'static str,
    pub samples: Vec<Sample>,
}

/// One sample of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The labels with their values.
    pub labels: Vec<(&'static str, String)>,
    pub value: SampleValue,
}

#[derive(Clone, Debug, PartialEq)]
pub enum SampleValue {
    Number(f64),
    Distribution(Distribution),
}

impl Family {
    /// Returns a counter without samples.
    pub fn counter(name: &'static str, help: &'static str) -> Family {
        Family { name, kind: FamilyKind::Counter, help, samples: Vec::new() }
    }

    /// Returns a gauge without samples.
    pub fn gauge(name: &'static str, help: &'static str) -> Family {
        Family { kind: FamilyKind::Gauge, ..Family::counter(name, help) }
    }

    /// Returns a histogram without samples.
    pub fn histogram(name: &'static str, help: &'static str) -> Family {
        Family { kind: FamilyKind::Histogram, ..Family::counter(name, help) }
    }

    /// Adds a sample.
    pub fn add(&mut self, labels: &[(&'static str, &str)], value: f64) {
        self.push(labels, SampleValue::Number(value));
    }

    /// Adds a distribution.
    pub fn add_histogram(&mut self, labels: &[(&'static str, &str)], histogram: &Histogram) {
        self.push(labels, SampleValue::Distribution(histogram.read()));
    }

    /// Returns the family with one sample without labels.
    pub fn with(mut self, value: f64) -> Family {
        self.add(&[], value);
        self
    }

    fn push(&mut self, labels: &[(&'static str, &str)], value: SampleValue) {
        let labels = labels.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        self.samples.push(Sample { labels, value });
    }
}

impl Engine {
    /// Returns all metrics of this engine. Gauges about the store come from a read that all callers share.
    pub async fn metrics(&self) -> Vec<Family> {
        let inner = &self.inner;
        let gauges = inner.gauges.read(inner).await;
        let mut families = inner.metrics.counters();
        families.extend(of_process(self));
        families.extend(of_reconcilers(&inner.supervisor.status()));
        families.extend(of_store(&gauges, inner.gauges.age_seconds(), inner.gauges.failures()));
        families
    }
}

fn value(total: &AtomicU64) -> f64 {
    total.load(Relaxed) as f64
}

impl Metrics {
    fn counters(&self) -> Vec<Family> {
        let mut families = of_lanes(&self.lanes.metrics());
        let mut leases = Family::counter("lease_events_total", "Events of leases.");
        for (event, total) in LEASE_EVENTS.iter().zip(&self.lease_events) {
            leases.add(&[("event", event)], value(total));
        }
        let mut ended = Family::counter("flows_ended_total", "Flows that ended, by their final state.");
        for (state, total) in FlowState::ALL.iter().zip(&self.flows_ended) {
            if *state != FlowState::Running {
                ended.add(&[("state", state.as_str())], value(total));
            }
        }
        let submitted = Family::counter("flows_submitted_total", "Flows that were submitted.");
        let mut runs =
            Family::counter("schedule_runs_total", "Times of schedules that were decided, by result.");
        for (result, total) in SCHEDULE_RESULTS.iter().zip(&self.schedule_results) {
            runs.add(&[("result", result)], value(total));
        }
        let mut lag = Family::histogram(
            "schedule_lag_seconds",
            "Time from the time of a schedule to its run: jitter, catching up and queues included.",
        );
        lag.add_histogram(&[], &self.schedule_lag);
        families.extend([runs, lag]);
        let mut size = Family::histogram("commit_tasks", "Operations that share a group commit.");
        size.add_histogram(&[], &self.batch_size);
        let mut time =
            Family::histogram("commit_seconds", "Time of a group commit, with its loads and saves.");
        time.add_histogram(&[], &self.batch_time);
        let failed =
            Family::counter("commit_failures_total", "Group commits that failed, before any repetition.");
        families.extend([leases, submitted.with(value(&self.flows_submitted)), ended, size, time]);
        families.push(failed.with(value(&self.failed_batches)));
        let taken = Family::counter("inbox_taken_total", "Submissions from SQL that were taken in.");
        let refused = Family::counter("inbox_refused_total", "Submissions from SQL that were refused.");
        families.push(taken.with(value(&self.inbox_submitted)));
        families.push(refused.with(value(&self.inbox_refused)));
        let projected = Family::counter("event_view_events_total", "Events that were written for SQL.");
        let lag = Family::gauge(
            "event_view_lag_seconds",
            "Age of the newest event in the view, while later ones are not there yet.",
        );
        families.push(projected.with(value(&self.projected_events)));
        families.push(lag.with(self.projection_lag_us.load(Relaxed) as f64 / 1e6));
        families.extend(self.of_store_calls());
        families
    }

    fn of_store_calls(&self) -> [Family; 3] {
        let mut calls = Family::counter("store_calls_total", "Calls of the store that ended.");
        let mut seconds = Family::counter("store_call_seconds_total", "Time that calls of the store took.");
        let mut errors = Family::counter("store_call_errors_total", "Calls of the store that failed.");
        for (name, counts) in self.store_calls.read() {
            let labels = [("call", name)];
            calls.add(&labels, value(&counts.calls));
            seconds.add(&labels, value(&counts.micros) / 1e6);
            errors.add(&labels, value(&counts.errors));
        }
        [calls, seconds, errors]
    }
}

fn of_lanes(lanes: &[Arc<LaneMetrics>]) -> Vec<Family> {
    let mut submitted = Family::counter("submissions_total", "Executions that were submitted.");
    let mut started = Family::counter("starts_total", "Attempts that started.");
    let mut outcomes = Family::counter("outcomes_total", "Executions that ended, by outcome.");
    let mut attempts = Family::counter("attempts_total", "Attempts that ended, by outcome.");
    let mut retries = Family::counter("retries_total", "Failed attempts that are followed by another one.");
    let mut queue =
        Family::histogram("queue_seconds", "Time that executions waited for a worker before they started.");
    let mut run = Family::histogram("run_seconds", "Time that attempts ran.");
    let mut claim = Family::histogram(
        "claim_seconds",
        "Time that a claim and an execution waited for each other: the shorter one of the two.",
    );
    for lane in lanes {
        let labels = [("namespace", lane.labels.0.as_str()), ("lane", lane.labels.1.as_str())];
        submitted.add(&labels, value(&lane.submitted));
        started.add(&labels, value(&lane.started));
        retries.add(&labels, value(&lane.retries));
        for (outcome, total) in Outcome::ALL.iter().zip(&lane.outcomes) {
            outcomes.add(&[labels[0], labels[1], ("outcome", outcome.as_str())], value(total));
        }
        let ended = ATTEMPT_OUTCOMES.iter().zip(&lane.attempts).filter(|(_, total)| value(total) > 0.0);
        for (outcome, total) in ended {
            attempts.add(&[labels[0], labels[1], ("outcome", outcome)], value(total));
        }
        queue.add_histogram(&labels, &lane.queue);
        run.add_histogram(&labels, &lane.run);
        claim.add_histogram(&labels, &lane.claim);
    }
    vec![submitted, started, outcomes, attempts, retries, queue, run, claim]
}

fn of_process(engine: &Engine) -> Vec<Family> {
    let (batches, waiting_claims) = engine.activity();
    let (entries, seconds) = engine.inner.tail.lag();
    let unreadable = engine.unreadable_entries() as f64;
    let (clock_steps, clock_behind) = engine.inner.metrics.clock_steps();
    let dropped = engine.inner.options.spans.as_ref().map_or(0, SpanSink::dropped);
    vec![
        Family::counter("batches_total", "Group commits that succeeded.").with(batches as f64),
        Family::gauge("waiting_claims", "Claims that wait for work on this server.")
            .with(waiting_claims as f64),
        Family::counter(
            "log_unreadable_total",
            "Entries of the event log that this server could not read and passed.",
        )
        .with(unreadable),
        Family::counter(
            "store_clock_steps_back_total",
            "Times that this server saw the clock of the store step back.",
        )
        .with(clock_steps as f64),
        Family::gauge(
            "store_clock_behind_seconds",
            "Time by which the clock of the store's database is behind the time of the store, after a step back.",
        )
        .with(clock_behind.as_secs_f64()),
        Family::gauge(
            "feed_lag_entries",
            "Entries of the event log that this server wrote and its subscribers have not received.",
        )
        .with(entries as f64),
        Family::gauge(
            "feed_lag_seconds",
            "Time for which the subscribers of this server have been behind the event log.",
        )
        .with(seconds),
        Family::counter(
            "spans_dropped_total",
            "Spans that were dropped because the collector is too slow or did not accept them.",
        )
        .with(dropped as f64),
        Family::gauge("feed_subscribers", "Subscribers to the event log on this server.")
            .with(engine.inner.tail.subscribers() as f64),
    ]
}

fn of_reconcilers(reconcilers: &[ReconcilerStatus]) -> Vec<Family> {
    type Field = fn(&ReconcilerStatus) -> Option<f64>;
    let counters: [(&'static str, &'static str, Field); 8] = [
        ("reconciler_ticks_total", "Ticks run.", |one| Some(one.tally.ticks as f64)),
        ("reconciler_scanned_total", "Rows found by scans.", |one| Some(one.tally.scanned as f64)),
        ("reconciler_done_total", "Rows processed.", |one| Some(one.tally.done as f64)),
        ("reconciler_filtered_total", "Rows left to the server responsible for them.", |one| {
            Some(one.tally.filtered as f64)
        }),
        ("reconciler_lost_total", "Rows that another server processed first, or that were not due.", |one| {
            Some(one.tally.superseded as f64)
        }),
        ("reconciler_errors_total", "Rows that failed and were quarantined, and ticks that failed.", |one| {
            Some(one.tally.errors as f64)
        }),
        ("reconciler_panics_total", "Ticks that panicked.", |one| Some(one.tally.panics as f64)),
        ("reconciler_seconds_total", "Time that ticks took.", |one| Some(one.busy.as_secs_f64())),
    ];
    let gauges: [(&'static str, &'static str, Field); 2] = [
        ("reconciler_success_age_seconds", "Time since the last tick that succeeded.", |one| {
            one.succeeded_ago.map(|ago| ago.as_secs_f64())
        }),
        ("reconciler_overdue_seconds", "Time for which the earliest known row has been due.", |one| {
            Some(one.overdue.as_secs_f64())
        }),
    ];
    let filled = |mut family: Family, field: Field| {
        for one in reconcilers {
            field(one).iter().for_each(|value| family.add(&[("reconciler", one.name)], *value));
        }
        family
    };
    let counters = counters.map(|(name, help, field)| filled(Family::counter(name, help), field));
    let gauges = gauges.map(|(name, help, field)| filled(Family::gauge(name, help), field));
    counters.into_iter().chain(gauges).collect()
}

fn of_store(gauges: &Gauges, age: f64, failures: u64) -> Vec<Family> {
    let mut depth =
        Family::gauge("executions", "Executions that have not ended, by state; counted up to a bound.");
    let mut oldest = Family::gauge("oldest_seconds", "Age of the oldest execution in a state.");
    for LaneDepth { namespace, lane, state, count, age_seconds } in &gauges.depths {
        let labels = [("namespace", namespace.as_str()), ("lane", lane.as_str()), ("state", state.as_str())];
        depth.add(&labels, *count as f64);
        oldest.add(&labels, *age_seconds);
    }
    let mut flows =
        Family::gauge("flows", "Flows by state; ended ones as long as they are kept; counted up to a bound.");
    for (state, count) in &gauges.flows {
        flows.add(&[("state", state.as_str())], *count as f64);
    }
    let mut active =
        Family::gauge("gate_active", "Executions that have taken a slot of a lane or quota with a limit.");
    let mut limit = Family::gauge("gate_limit", "Limit of concurrent executions of a lane or quota.");
    let mut held =
        Family::gauge("gate_held", "Executions that a quota or budget holds; counted up to a bound.");
    for gate in &gauges.gates {
        let labels =
            [("namespace", gate.namespace.as_str()), ("kind", gate.kind), ("name", gate.name.as_str())];
        gate.limit.iter().for_each(|value| {
            active.add(&labels, gate.active as f64);
            limit.add(&labels, *value as f64);
        });
        gate.held.iter().for_each(|value| held.add(&labels, *value as f64));
    }
    let mut paused = Family::gauge("lane_paused", "1 if a configured lane is paused, otherwise 0.");
    for (namespace, lane, is_paused) in &gauges.paused {
        paused.add(&[("namespace", namespace), ("lane", lane)], f64::from(u8::from(*is_paused)));
    }
    let mut used = Family::gauge("budget_used", "Amount spent from a budget in this period.");
    let mut reserved =
        Family::gauge("budget_reserved", "Amount of a budget that active executions have reserved.");
    let mut limits = Family::gauge("budget_limit", "Limit of a budget.");
    for budget in &gauges.budgets {
        let labels = [
            ("namespace", budget.namespace.as_str()),
            ("budget", budget.name.as_str()),
            ("dimension", budget.dimension.as_str()),
        ];
        used.add(&labels, budget.used);
        reserved.add(&labels, budget.reserved);
        for (kind, value) in [("hard", budget.hard), ("soft", budget.soft)] {
            let labels = [labels[0], labels[1], labels[2], ("limit", kind)];
            value.iter().for_each(|value| limits.add(&labels, *value));
        }
    }
    let read_age = Family::gauge("store_read_age_seconds", "Age of the gauges that are read from the store.");
    let read_age = read_age.with(age);
    let failures =
        Family::counter("store_read_failures_total", "Reads of gauges from the store that failed.")
            .with(failures as f64);
    let pending = Family::gauge(
        "inbox_pending",
        "Submissions from SQL that wait to be taken in; counted up to a bound.",
    )
    .with(gauges.inbox.pending as f64);
    let oldest_pending = Family::gauge("inbox_oldest_seconds", "Time since the oldest of them was written.")
        .with(gauges.inbox_age_seconds);
    let unmeasured = Family::gauge("namespaces_unmeasured", "Namespaces beyond those whose gauges are read.")
        .with(gauges.unmeasured as f64);
    let mut uncovered =
        Family::gauge("namespace_uncovered", "1 for a namespace whose background work no server does.");
    for namespace in gauges.uncovered.iter().take(NAMED_MAX) {
        uncovered.add(&[("namespace", namespace)], 1.0);
    }
    let beyond = gauges.uncovered.len().saturating_sub(NAMED_MAX);
    if beyond > 0 {
        uncovered.add(&[("namespace", OTHER)], beyond as f64);
    }
    vec![
        depth,
        oldest,
        flows,
        active,
        limit,
        held,
        paused,
        used,
        reserved,
        limits,
        read_age,
        failures,
        unmeasured,
        pending,
        oldest_pending,
        uncovered,
    ]
}
