//! The replay of one execution's suspensions, signals, waitpoints and steps.
//!
//! No event says which parts of a resume condition hold: that follows from the signals, the times and the notices. So do the
//! signals that a suspension takes when it ends, and the results of the steps that record its waits. All of it is computed here
//! a second time and compared with the events, and in the end with the rows.

use selvedge_core::execution::RecordSummary;
use selvedge_core::fact::{self, Next, SuspensionNotice};
use selvedge_core::log::Event;
use selvedge_core::signal::Effect;
use selvedge_core::state::StateName;
use selvedge_core::step::WaitResult;
use selvedge_core::suspension::{IncomingSignal, OnTimeout, ResumedBy, Wait};
use selvedge_core::waitpoint::WaitpointState;
use selvedge_core::{Execution, Fact, Name, Suspension, Timestamp, WaitpointId};
use std::collections::BTreeMap;

/// A signal as the events describe it.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct LoggedSignal {
    pub number: u32,
    pub name: Name,
    pub source: Name,
    pub waitpoint: Option<(WaitpointId, Name)>,
    pub at: Timestamp,
    pub bytes: u32,
    pub effect: Effect,
    pub taken: Option<u32>,
}

/// A waitpoint as the events describe it.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct LoggedWaitpoint {
    pub id: WaitpointId,
    pub name: Name,
    pub source: Name,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub state: WaitpointState,
    pub issue: u32,
}

/// The end of a step as the events describe it.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) enum LoggedEnd {
    /// The step records a wait that has not ended.
    Open,
    /// The worker recorded a result of this many bytes.
    Done(u32),
    /// The wait that the step records has ended.
    Waited(WaitResult),
}

/// A step as the events describe it.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct LoggedStep {
    pub number: u32,
    pub attempt: u32,
    pub started_at: Timestamp,
    pub recorded_at: Option<Timestamp>,
    pub end: LoggedEnd,
}

/// The signals, waitpoints, steps and the suspension of an execution, up to the last replayed event.
#[derive(Debug, Default)]
pub(in super::super) struct Recorded {
    /// Signals by number.
    pub signals: Vec<LoggedSignal>,
    /// Waitpoints by number.
    pub waitpoints: Vec<LoggedWaitpoint>,
    /// Steps by name.
    pub steps: BTreeMap<Name, LoggedStep>,
    suspension: Option<Suspension>,
    suspensions: u32,
    bytes: u64,
    resumed_by: Option<ResumedBy>,
    /// The start of the current generation.
    opened_at: Timestamp,
    /// The time at which it was resumed last.
    resumed_at: Option<Timestamp>,
    /// True if the resume condition holds: the next event must resume the execution.
    must_resume: bool,
}

/// Returns a step that an attempt has begun.
fn begun(number: usize, attempt: u32, started_at: Timestamp) -> LoggedStep {
    LoggedStep { number: number as u32, attempt, started_at, recorded_at: None, end: LoggedEnd::Open }
}

impl Recorded {
    /// Replays one event that leads to the state `to`, and returns the violations.
    pub fn step(&mut self, event: &Event, to: Option<StateName>) -> Vec<String> {
        let mut violations = Vec::new();
        if matches!(event.fact, Fact::Resumed { .. }) {
            self.resumed_at = Some(event.at);
        }
        if std::mem::take(&mut self.must_resume) && !matches!(event.fact, Fact::Resumed { .. }) {
            violations.push("its resume condition held, and it was not resumed".to_owned());
        }
        violations.extend(self.apply(event, to));
        if to != Some(StateName::Suspended) {
            self.suspension = None;
        } else if !self.must_resume && self.suspension.as_ref().is_some_and(Suspension::holds) {
            violations
                .push(format!("its resume condition holds, and it stays suspended: {:?}", self.suspension));
        }
        violations
    }

    fn apply(&mut self, event: &Event, to: Option<StateName>) -> Vec<String> {
        match &event.fact {
            Fact::Suspended(fact::Suspended { suspension, next, .. }) => {
                self.suspend(suspension, *next, event.at)
            }
            Fact::Signalled(fact::Signalled { number, name, source, waitpoint, bytes, effect }) => {
                let (name, source, waitpoint) = (name.clone(), source.clone(), waitpoint.clone());
                let (number, bytes, effect, at) = (*number, *bytes, *effect, event.at);
                self.signal(LoggedSignal { number, name, source, waitpoint, at, bytes, effect, taken: None })
            }
            Fact::Noticed(fact::Noticed { notice }) => self.notice(*notice, event.at),
            Fact::Resumed(fact::Resumed { suspension, by, signals, steps }) => {
                self.resume(*suspension, *by, (signals, steps), event.at)
            }
            Fact::SuspensionTimedOut(fact::SuspensionTimedOut { suspension, on_timeout, next }) => {
                self.time_out(*suspension, *on_timeout, *next, event.at)
            }
            Fact::WaitpointCreated(fact::WaitpointCreated { waitpoint, name, source, expires_at }) => {
                let (id, name, source, expires_at) = (*waitpoint, name.clone(), source.clone(), *expires_at);
                let (created_at, state) = (event.at, WaitpointState::Open);
                let issue = 0;
                self.create_waitpoint(LoggedWaitpoint {
                    id,
                    name,
                    source,
                    created_at,
                    expires_at,
                    state,
                    issue,
                })
            }
            Fact::WaitpointExpired(fact::WaitpointExpired { waitpoint, .. }) => {
                let is_needed =
                    self.resumed_at != Some(event.at) && to.is_none_or(|to| to.outcome().is_none());
                self.expire(*waitpoint, event.at, is_needed)
            }
            Fact::WaitpointRevoked(fact::WaitpointRevoked { waitpoint, .. }) => {
                self.close(*waitpoint, WaitpointState::Revoked)
            }
            Fact::WaitpointReissued(fact::WaitpointReissued { waitpoint, expires_at, .. }) => {
                self.reissue(*waitpoint, *expires_at)
            }
            Fact::Stepped(fact::Stepped { name, attempt, duration_ms, bytes, .. }) => {
                let started_at = event.at.minus_ms(*duration_ms);
                let step = LoggedStep {
                    recorded_at: Some(event.at),
                    end: LoggedEnd::Done(*bytes),
                    ..begun(self.steps.len() + 1, *attempt, started_at)
                };
                self.record_step(name, step, *bytes)
            }
            Fact::Submitted { .. } | Fact::SubmittedWaitingDependencies { .. } => {
                self.opened_at = event.at;
                vec![]
            }
            Fact::Replayed { .. } | Fact::ReplayedWaitingDependencies { .. } | Fact::Reopened { .. } => {
                (self.opened_at, self.resumed_by) = (event.at, None);
                vec![]
            }
            Fact::Breached(fact::Breached { suspension: Some(suspension), .. }) => self.breach(suspension),
            Fact::DelayOver(fact::DelayOver {})
            | Fact::Held { .. }
            | Fact::Admitted { .. }
            | Fact::GateConfigured { .. }
            | Fact::GateRemoved { .. }
            | Fact::Breached(fact::Breached { suspension: None, .. })
            | Fact::Spent { .. }
            | Fact::LimitReached { .. }
            | Fact::BudgetReset { .. }
            | Fact::Adopted { .. }
            | Fact::EndAwaited(fact::EndAwaited {})
            | Fact::Claimed { .. }
            | Fact::Completed { .. }
            | Fact::Failed { .. }
            | Fact::TimedOut { .. }
            | Fact::LeaseExpired { .. }
            | Fact::Delayed { .. }
            | Fact::Released { .. }
            | Fact::Orphaned { .. }
            | Fact::Revoked { .. }
            | Fact::Cancelled { .. }
            | Fact::CancelAcknowledged { .. }
            | Fact::CancelRequested { .. }
            | Fact::DeadlinePassed { .. }
            | Fact::StartByPassed(fact::StartByPassed {})
            | Fact::Rescheduled { .. }
            | Fact::Debounced { .. }
            | Fact::Progressed { .. }
            | Fact::Prioritised { .. }
            | Fact::Tagged { .. }
            | Fact::Renewed { .. }
            | Fact::DrainRequested { .. }
            | Fact::UpstreamChanged { .. }
            | Fact::Joined { .. }
            | Fact::Wired { .. }
            | Fact::FlowSubmitted { .. }
            | Fact::FlowGrown { .. }
            | Fact::FlowEnded { .. }
            | Fact::FlowReopened { .. }
            | Fact::FlowCancelRequested { .. }
            | Fact::TokenKeysRotated { .. }
            | Fact::ApiKeyCreated { .. }
            | Fact::ApiKeyRevoked { .. }
            | Fact::BulkJobStarted { .. }
            | Fact::BulkJobEnded { .. }
            | Fact::InboxRefused { .. }
            | Fact::WebhookChanged { .. }
            | Fact::ScheduleSaved { .. }
            | Fact::ScheduleDeleted { .. }
            | Fact::ScheduleFired { .. }
            | Fact::ScheduleSkipped { .. }
            | Fact::ScheduleRefused { .. } => vec![],
        }
    }

    fn record_step(&mut self, name: &Name, step: LoggedStep, bytes: u32) -> Vec<String> {
        self.bytes += u64::from(bytes);
        let before = self.steps.insert(name.clone(), step);
        before.map(|before| format!("step {name} is recorded twice: {before:?}")).into_iter().collect()
    }

    /// Applies an expiry, which may come early if the execution or a wait of it ended in the same transaction.
    fn expire(&mut self, id: WaitpointId, at: Timestamp, is_needed: bool) -> Vec<String> {
        let known = self.waitpoints.iter().find(|one| one.id == id);
        let early =
            is_needed && known.is_none_or(|one| one.expires_at.is_none_or(|expires_at| expires_at > at));
        let mut violations = self.close(id, WaitpointState::Expired);
        violations.extend(early.then(|| format!("waitpoint {id} expired before its time")));
        violations
    }

    /// Applies a suspension: opens the steps that record its waits, and matches the untaken signals.
    fn suspend(&mut self, requested: &Suspension, next: Next, at: Timestamp) -> Vec<String> {
        let mut violations = Vec::new();
        self.suspensions += 1;
        self.resumed_by = None;
        if (requested.number, requested.since) != (self.suspensions, at) {
            violations.push(format!("suspension {} follows {}", requested.number, self.suspensions - 1));
        }
        for name in requested.waits.iter().filter_map(|wait| wait.step.clone()) {
            let new = begun(self.steps.len() + 1, requested.lease.attempt(), at);
            let opened_at = self.opened_at;
            let step = self.steps.entry(name.clone()).or_insert_with(|| new.clone());
            if step.recorded_at.is_some() {
                violations.push(format!("step {name} has ended, and is waited for again"));
            }
            if step.started_at < opened_at {
                *step = LoggedStep { number: step.number, ..new };
            }
        }
        let mut suspension = requested.clone();
        for signal in self.signals.iter().filter(|signal| signal.taken.is_none()) {
            suspension.receive(arrival(signal));
        }
        suspension.pass_times(at);
        self.must_resume = next == Next::Waiting;
        // The end of the children has no event of its own.
        let may_hold = suspension.holds() || suspension.waits_for_children();
        if (self.must_resume && !may_hold) || (suspension.holds() && next == Next::Suspended) {
            violations.push(format!("it was suspended, then {next:?}, with {suspension:?}"));
        }
        self.suspension = Some(suspension);
        violations
    }

    fn signal(&mut self, signal: LoggedSignal) -> Vec<String> {
        let mut violations = Vec::new();
        if signal.number as usize != self.signals.len() + 1 {
            violations.push(format!("signal {} follows {}", signal.number, self.signals.len()));
        }
        if let Some((waitpoint, _)) = &signal.waitpoint {
            violations
                .extend(self.close(*waitpoint, WaitpointState::Delivered(signal.number, signal.effect)));
        }
        let heard = self.suspension.as_mut().is_some_and(|suspension| suspension.receive(arrival(&signal)));
        let effect = match &self.suspension {
            Some(suspension) if heard && suspension.holds() => Effect::Resumed,
            Some(_) if heard => Effect::Counted,
            Some(_) | None => Effect::Buffered,
        };
        if effect != signal.effect {
            violations.push(format!(
                "signal {} is logged as {:?} and was {effect:?}",
                signal.number, signal.effect
            ));
        }
        self.must_resume = signal.effect == Effect::Resumed;
        self.bytes += u64::from(signal.bytes);
        self.signals.push(signal);
        violations
    }

    /// Applies a suspension by an exhausted budget.
    fn breach(&mut self, suspension: &Suspension) -> Vec<String> {
        self.suspensions += 1;
        self.resumed_by = None;
        let wrong = suspension.number != self.suspensions;
        self.suspension = Some(suspension.clone());
        wrong
            .then(|| format!("suspension {} follows {}", suspension.number, self.suspensions - 1))
            .into_iter()
            .collect()
    }

    fn notice(&mut self, notice: SuspensionNotice, at: Timestamp) -> Vec<String> {
        let Some(suspension) = &mut self.suspension else { return vec!["it is not suspended".to_owned()] };
        let changed = match notice {
            SuspensionNotice::Time => suspension.pass_times(at),
            SuspensionNotice::Operator => suspension.resume_by_operator(),
            SuspensionNotice::Children => suspension.children_ended(),
            // The suspension itself names the gate.
            SuspensionNotice::Gate => match suspension.gate().cloned() {
                Some(gate) => suspension.gate_opened(&gate),
                None => false,
            },
            SuspensionNotice::Escalated(place) => {
                let overdue = suspension.overdue(at) == Some(place as usize);
                let wait = suspension.waits.get_mut(place as usize);
                overdue && wait.is_some_and(|wait| !std::mem::replace(&mut wait.escalated, true))
            }
        };
        if changed { vec![] } else { vec![format!("{notice:?} changes nothing in {:?}", self.suspension)] }
    }

    /// Applies a resume: ends the waits whose condition holds, and those that an operator or a timeout ended.
    fn resume(
        &mut self,
        number: u32,
        by: ResumedBy,
        (signals, steps): (&[u32], &[Name]),
        at: Timestamp,
    ) -> Vec<String> {
        let Some(mut suspension) = self.suspension.take() else {
            return vec!["it is not suspended".to_owned()];
        };
        let mut violations = Vec::new();
        let forced: Vec<usize> = match by {
            ResumedBy::Condition => {
                // After a signal the condition holds already; else a time was reached, the children ended, or a gate
                // opened.
                if !suspension.holds() && (!suspension.pass_times(at) || !suspension.holds()) {
                    suspension.children_ended();
                }
                if let Some(gate) = suspension.gate().cloned().filter(|_| !suspension.holds()) {
                    suspension.gate_opened(&gate);
                }
                vec![]
            }
            ResumedBy::Operator if suspension.resume_by_operator() => vec![],
            ResumedBy::Operator => (0..suspension.waits.len()).collect(),
            ResumedBy::Timeout => {
                let late = suspension.overdue(at).filter(|_| !suspension.holds());
                late.filter(|late| suspension.waits[*late].on_timeout == OnTimeout::Resume)
                    .into_iter()
                    .collect()
            }
        };
        let (mut taken, mut recorded) = (Vec::new(), Vec::new());
        let ended = |(place, wait): &(usize, &Wait)| wait.condition.holds() || forced.contains(place);
        let waits = suspension.waits.iter().enumerate().filter(ended);
        for (_, wait) in waits.clone() {
            taken.extend(wait.taken());
            let Some(name) = &wait.step else { continue };
            recorded.push(name.clone());
            let resumed_by = if wait.condition.holds() { ResumedBy::Condition } else { by };
            if let Some(step) = self.steps.get_mut(name) {
                step.recorded_at = Some(at);
                step.end = LoggedEnd::Waited(WaitResult { resumed_by, signals: wait.taken() });
            }
        }
        if waits.count() == 0 || number != suspension.number {
            violations.push(format!("no wait of {suspension:?} had ended"));
        }
        taken.sort_unstable();
        taken.dedup();
        if (&taken[..], &recorded[..]) != (signals, steps) {
            violations.push(format!("it took {taken:?} and ended {recorded:?} by {suspension:?}"));
        }
        for number in taken {
            let signal = self.signals.iter_mut().find(|signal| signal.number == number);
            match signal.filter(|signal| signal.taken.is_none()) {
                Some(signal) => signal.taken = Some(suspension.number),
                None => violations.push(format!("signal {number} was taken before, or does not exist")),
            }
        }
        self.resumed_by = Some(by);
        violations
    }

    fn time_out(&mut self, number: u32, on_timeout: OnTimeout, next: Next, at: Timestamp) -> Vec<String> {
        let known = self.suspension.as_ref().filter(|suspension| suspension.number == number);
        let late = known.and_then(|suspension| suspension.overdue(at).map(|place| &suspension.waits[place]));
        let valid = late.is_some_and(|wait| wait.on_timeout == on_timeout)
            && on_timeout.outcome().map(Next::Terminal) == Some(next);
        if valid { vec![] } else { vec![format!("no such wait of {:?} was overdue", self.suspension)] }
    }

    /// Applies the creation of a waitpoint. An open one may be logged again when it is signed with another key, and one that
    /// expired early when it is needed again.
    fn create_waitpoint(&mut self, created: LoggedWaitpoint) -> Vec<String> {
        let at = created.created_at;
        let Some(known) = self.waitpoints.iter_mut().find(|one| one.id == created.id) else {
            self.waitpoints.push(created);
            return vec![];
        };
        if known.state == WaitpointState::Expired && known.expires_at.is_none_or(|expires_at| expires_at > at)
        {
            known.state = WaitpointState::Open;
        }
        let same = LoggedWaitpoint { created_at: known.created_at, issue: known.issue, ..created } == *known;
        if same { vec![] } else { vec![format!("it was created before, as {known:?}")] }
    }

    /// Opens a waitpoint again, which must not have received a delivery.
    fn reissue(&mut self, id: WaitpointId, expires_at: Option<Timestamp>) -> Vec<String> {
        let known = self.waitpoints.iter_mut().find(|one| one.id == id);
        match known.filter(|one| !matches!(one.state, WaitpointState::Delivered(..))) {
            Some(known) => {
                (known.state, known.expires_at) = (WaitpointState::Open, expires_at);
                known.issue += 1;
                vec![]
            }
            None => vec![format!("waitpoint {id} is issued again, and was delivered or is unknown")],
        }
    }

    /// Closes a waitpoint, which must be open: a token is accepted once.
    fn close(&mut self, id: WaitpointId, state: WaitpointState) -> Vec<String> {
        let known = self.waitpoints.iter_mut().find(|one| one.id == id);
        match known.filter(|one| one.state == WaitpointState::Open) {
            Some(known) => {
                known.state = state;
                vec![]
            }
            None => vec![format!("waitpoint {id} is {state:?}, and was not open")],
        }
    }

    /// Returns the differences between the row and the result of its events.
    pub fn differences(&self, row: &Execution) -> Vec<String> {
        let mut violations = Vec::new();
        let open = self.waitpoints.iter().filter(|one| one.state == WaitpointState::Open);
        let replayed = RecordSummary {
            signals: self.signals.len() as u32,
            untaken: self.signals.iter().filter(|signal| signal.taken.is_none()).count() as u32,
            waitpoints: self.waitpoints.len() as u32,
            steps: self.steps.len() as u32,
            suspensions: self.suspensions,
            bytes: self.bytes,
            resumed_by: self.resumed_by,
            expires_at: open.filter_map(|one| one.expires_at).min(),
        };
        if replayed != row.detail.record {
            let stored = &row.detail.record;
            violations.push(format!("by the event log the record is {replayed:?}, in its row {stored:?}"));
        }
        let stored = row.state.suspension().map(|suspension| &**suspension);
        if self.suspension.as_ref() != stored {
            let replayed = &self.suspension;
            violations
                .push(format!("by the event log the suspension is {replayed:?}, in its row {stored:?}"));
        }
        if self.must_resume {
            violations.push("its resume condition holds, and it is not resumed".to_owned());
        }
        violations
    }
}

fn arrival(signal: &LoggedSignal) -> IncomingSignal<'_> {
    let waitpoint = signal.waitpoint.as_ref().map(|(_, name)| name);
    IncomingSignal { number: signal.number, name: &signal.name, source: &signal.source, waitpoint }
}
