//! The observations of a commit: what its facts mean for metrics and rollups. The only place that translates facts into
//! counts, so no rule knows about them.

use selvedge_core::driver::Summary;
use selvedge_core::fact::{self, Fact, Next};
use selvedge_core::flow::FlowState;
use selvedge_core::history::{ATTEMPT_OUTCOMES, attempt_end, attempt_outcome, outcome};
use selvedge_core::log::Event;
use selvedge_core::{Changes, ClassId, Execution, Outcome, Timestamp};

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
