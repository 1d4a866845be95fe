//! What is recorded beside one execution, replayed from its facts: suspensions, signals, waitpoints and steps.
//!
//! What a suspension has heard is told nowhere: it follows from the signals that were told, from the times, and from what
//! was noticed. So does what it takes when it ends, and how the steps end that it waits for. All of it is found out here once
//! more and held against the facts, and in the end against the rows.

use selvedge_core::execution::Record;
use selvedge_core::fact::{Next, Notice};
use selvedge_core::log::Event;
use selvedge_core::signal::Effect;
use selvedge_core::state::StateName;
use selvedge_core::step::Waited;
use selvedge_core::suspension::{Arrival, OnTimeout, ResumedBy, Wait};
use selvedge_core::waitpoint::WaitpointState;
use selvedge_core::{Execution, Fact, Name, Suspension, Timestamp, WaitpointId};
use std::collections::BTreeMap;

/// A signal, as the facts tell of it.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct ToldSignal {
    pub number: u32,
    pub name: Name,
    pub source: Name,
    pub waitpoint: Option<(WaitpointId, Name)>,
    pub at: Timestamp,
    pub bytes: u32,
    pub effect: Effect,
    pub taken: Option<u32>,
}

/// A waitpoint, as the facts tell of it.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct ToldWaitpoint {
    pub id: WaitpointId,
    pub name: Name,
    pub source: Name,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub state: WaitpointState,
}

/// How a step ended, as the facts tell of it.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) enum ToldEnd {
    /// It is waited for.
    Open,
    /// Its worker recorded it, with a result of so many bytes.
    Done(u32),
    /// The wait for it ended.
    Waited(Waited),
}

/// A step, as the facts tell of it.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct ToldStep {
    pub number: u32,
    pub attempt: u32,
    pub started_at: Timestamp,
    pub recorded_at: Option<Timestamp>,
    pub end: ToldEnd,
}

/// What is recorded beside an execution, as far as its facts were told.
#[derive(Debug, Default)]
pub(in super::super) struct Recorded {
    /// Signals, in order.
    pub signals: Vec<ToldSignal>,
    /// Waitpoints, in order.
    pub waitpoints: Vec<ToldWaitpoint>,
    /// Steps, by name.
    pub steps: BTreeMap<Name, ToldStep>,
    suspension: Option<Suspension>,
    suspensions: u32,
    bytes: u64,
    resumed_by: Option<ResumedBy>,
    /// When its generation began.
    opened_at: Timestamp,
    /// Whether what it waits for has come: then the next fact says that it goes on.
    goes_on: bool,
}

/// A step that is begun at a time, by an attempt.
fn begun(number: usize, attempt: u32, started_at: Timestamp) -> ToldStep {
    ToldStep { number: number as u32, attempt, started_at, recorded_at: None, end: ToldEnd::Open }
}

impl Recorded {
    /// Takes in one fact, which leads to this state; says what is wrong with it.
    pub fn step(&mut self, event: &Event, to: Option<StateName>) -> Vec<String> {
        let mut broken = Vec::new();
        if std::mem::take(&mut self.goes_on) && !matches!(event.fact, Fact::Resumed { .. }) {
            broken.push("what it waited for had come, and it did not go on".to_owned());
        }
        broken.extend(self.take_in(event));
        if to != Some(StateName::Suspended) {
            self.suspension = None;
        } else if !self.goes_on && self.suspension.as_ref().is_some_and(Suspension::holds) {
            broken.push(format!("what it waits for has come, and it stays suspended: {:?}", self.suspension));
        }
        broken
    }

    fn take_in(&mut self, event: &Event) -> Vec<String> {
        match &event.fact {
            Fact::Suspended { suspension, next, .. } => self.suspend(suspension, *next, event.at),
            Fact::Signalled { number, name, source, waitpoint, bytes, effect } => {
                let (name, source, waitpoint) = (name.clone(), source.clone(), waitpoint.clone());
                let (number, bytes, effect) = (*number, *bytes, *effect);
                self.signal(ToldSignal {
                    number,
                    name,
                    source,
                    waitpoint,
                    at: event.at,
                    bytes,
                    effect,
                    taken: None,
                })
            }
            Fact::Noticed { notice } => self.notice(*notice, event.at),
            Fact::Resumed { suspension, by, signals, steps } => {
                self.resume(*suspension, *by, (signals, steps), event.at)
            }
            Fact::SuspensionTimedOut { suspension, on_timeout, next } => {
                self.time_out(*suspension, *on_timeout, *next, event.at)
            }
            Fact::WaitpointCreated { waitpoint, name, source, expires_at } => {
                let (id, name, source, expires_at) = (*waitpoint, name.clone(), source.clone(), *expires_at);
                let (created_at, state) = (event.at, WaitpointState::Open);
                self.make(ToldWaitpoint { id, name, source, created_at, expires_at, state })
            }
            Fact::WaitpointExpired { waitpoint, .. } => {
                let known = self.waitpoints.iter().find(|one| one.id == *waitpoint);
                let early = known.is_none_or(|one| one.expires_at.is_none_or(|at| at > event.at));
                let mut broken = self.close(*waitpoint, WaitpointState::Expired);
                broken.extend(early.then(|| format!("waitpoint {waitpoint} expired before its time")));
                broken
            }
            Fact::WaitpointRevoked { waitpoint, .. } => self.close(*waitpoint, WaitpointState::Revoked),
            Fact::Stepped { name, attempt, duration_ms, bytes, .. } => {
                let started_at = event.at.minus_ms(*duration_ms);
                let step = ToldStep {
                    recorded_at: Some(event.at),
                    end: ToldEnd::Done(*bytes),
                    ..begun(self.steps.len() + 1, *attempt, started_at)
                };
                self.bytes += u64::from(*bytes);
                let before = self.steps.insert(name.clone(), step);
                before
                    .map(|before| format!("step {name} is recorded twice: {before:?}"))
                    .into_iter()
                    .collect()
            }
            Fact::Submitted { .. } | Fact::SubmittedBlocked { .. } => {
                self.opened_at = event.at;
                vec![]
            }
            Fact::Replayed { .. } | Fact::ReplayedBlocked { .. } | Fact::Reopened { .. } => {
                (self.opened_at, self.resumed_by) = (event.at, None);
                vec![]
            }
            Fact::Breached { suspension: Some(suspension), .. } => self.breach(suspension),
            Fact::DelayOver
            | Fact::Held { .. }
            | Fact::Admitted { .. }
            | Fact::GateConfigured { .. }
            | Fact::GateRemoved { .. }
            | Fact::Breached { suspension: None, .. }
            | Fact::Spent { .. }
            | Fact::LimitReached { .. }
            | Fact::BudgetReset { .. }
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
            | Fact::CancelRequested { .. }
            | Fact::DeadlinePassed { .. }
            | Fact::StartByPassed
            | Fact::Rescheduled { .. }
            | Fact::Progressed { .. }
            | Fact::Prioritised { .. }
            | Fact::Tagged { .. }
            | Fact::Renewed { .. }
            | Fact::DrainRequested { .. }
            | Fact::Heard { .. }
            | Fact::Joined { .. }
            | Fact::Wired { .. }
            | Fact::FlowSubmitted { .. }
            | Fact::FlowGrown { .. }
            | Fact::FlowEnded { .. }
            | Fact::FlowReopened { .. }
            | Fact::FlowCancelRequested { .. }
            | Fact::TokenKeysRotated { .. } => vec![],
        }
    }

    /// It is suspended: what is waited for by name is open from now on, and what came before is heard.
    fn suspend(&mut self, asked: &Suspension, next: Next, at: Timestamp) -> Vec<String> {
        let mut broken = Vec::new();
        self.suspensions += 1;
        self.resumed_by = None;
        if (asked.number, asked.since) != (self.suspensions, at) {
            broken.push(format!("suspension {} follows {}", asked.number, self.suspensions - 1));
        }
        for name in asked.waits.iter().filter_map(|wait| wait.step.clone()) {
            let new = begun(self.steps.len() + 1, asked.lease.attempt(), at);
            let opened_at = self.opened_at;
            let step = self.steps.entry(name.clone()).or_insert_with(|| new.clone());
            if step.recorded_at.is_some() {
                broken.push(format!("step {name} has ended, and is waited for again"));
            }
            if step.started_at < opened_at {
                *step = ToldStep { number: step.number, ..new };
            }
        }
        let mut suspension = asked.clone();
        for signal in self.signals.iter().filter(|signal| signal.taken.is_none()) {
            suspension.hear(arrival(signal));
        }
        suspension.pass(at);
        self.goes_on = next == Next::Waiting;
        // Its children may have ended, which is no fact of its own.
        let may_hold = suspension.holds() || suspension.waits_for_children();
        if (self.goes_on && !may_hold) || (suspension.holds() && next == Next::Suspended) {
            broken.push(format!("it was suspended, then {next:?}, and had heard {suspension:?}"));
        }
        self.suspension = Some(suspension);
        broken
    }

    fn signal(&mut self, signal: ToldSignal) -> Vec<String> {
        let mut broken = Vec::new();
        if signal.number as usize != self.signals.len() + 1 {
            broken.push(format!("signal {} follows {}", signal.number, self.signals.len()));
        }
        if let Some((waitpoint, _)) = &signal.waitpoint {
            broken.extend(self.close(*waitpoint, WaitpointState::Delivered(signal.number, signal.effect)));
        }
        let heard = self.suspension.as_mut().is_some_and(|suspension| suspension.hear(arrival(&signal)));
        let effect = match &self.suspension {
            Some(suspension) if heard && suspension.holds() => Effect::Resumed,
            Some(_) if heard => Effect::Counted,
            Some(_) | None => Effect::Buffered,
        };
        if effect != signal.effect {
            broken
                .push(format!("signal {} is told as {:?} and was {effect:?}", signal.number, signal.effect));
        }
        self.goes_on = signal.effect == Effect::Resumed;
        self.bytes += u64::from(signal.bytes);
        self.signals.push(signal);
        broken
    }

    /// A budget that is used up has suspended it.
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

    fn notice(&mut self, notice: Notice, at: Timestamp) -> Vec<String> {
        let Some(suspension) = &mut self.suspension else { return vec!["it waits for nothing".to_owned()] };
        let news = match notice {
            Notice::Time => suspension.pass(at),
            Notice::Operator => suspension.allow(),
            Notice::Children => suspension.children_ended(),
            // Which gate stands in the suspension itself.
            Notice::Gate => match suspension.gate().cloned() {
                Some(gate) => suspension.gate_opened(&gate),
                None => false,
            },
            Notice::Escalated(place) => {
                let overdue = suspension.overdue(at) == Some(place as usize);
                let wait = suspension.waits.get_mut(place as usize);
                overdue && wait.is_some_and(|wait| !std::mem::replace(&mut wait.escalated, true))
            }
        };
        if news { vec![] } else { vec![format!("{notice:?} is no news to {:?}", self.suspension)] }
    }

    /// It goes on: the waits that hold have ended, and those that were ended by somebody.
    fn resume(
        &mut self,
        number: u32,
        by: ResumedBy,
        (signals, steps): (&[u32], &[Name]),
        at: Timestamp,
    ) -> Vec<String> {
        let Some(mut suspension) = self.suspension.take() else {
            return vec!["nothing is suspended".to_owned()];
        };
        let mut broken = Vec::new();
        let forced: Vec<usize> = match by {
            ResumedBy::Condition => {
                // By a signal it holds already; else a time has come, the children have ended, or a gate was opened.
                if !suspension.holds() && (!suspension.pass(at) || !suspension.holds()) {
                    suspension.children_ended();
                }
                if let Some(gate) = suspension.gate().cloned().filter(|_| !suspension.holds()) {
                    suspension.gate_opened(&gate);
                }
                vec![]
            }
            ResumedBy::Operator if suspension.allow() => vec![],
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
                step.end = ToldEnd::Waited(Waited { resumed_by, signals: wait.taken() });
            }
        }
        if waits.count() == 0 || number != suspension.number {
            broken.push(format!("no wait of {suspension:?} had ended"));
        }
        taken.sort_unstable();
        taken.dedup();
        if (&taken[..], &recorded[..]) != (signals, steps) {
            broken.push(format!("it took {taken:?} and ended {recorded:?} by {suspension:?}"));
        }
        for number in taken {
            let signal = self.signals.iter_mut().find(|signal| signal.number == number);
            match signal.filter(|signal| signal.taken.is_none()) {
                Some(signal) => signal.taken = Some(suspension.number),
                None => broken.push(format!("signal {number} was taken before, or is not there")),
            }
        }
        self.resumed_by = Some(by);
        broken
    }

    fn time_out(&mut self, number: u32, on_timeout: OnTimeout, next: Next, at: Timestamp) -> Vec<String> {
        let known = self.suspension.as_ref().filter(|suspension| suspension.number == number);
        let late = known.and_then(|suspension| suspension.overdue(at).map(|place| &suspension.waits[place]));
        let as_told = late.is_some_and(|wait| wait.on_timeout == on_timeout)
            && on_timeout.outcome().map(Next::Terminal) == Some(next);
        if as_told { vec![] } else { vec![format!("no such wait of {:?} was overdue", self.suspension)] }
    }

    /// A waitpoint is made, or one that is open is signed with another key.
    fn make(&mut self, made: ToldWaitpoint) -> Vec<String> {
        let Some(known) = self.waitpoints.iter().find(|one| one.id == made.id) else {
            self.waitpoints.push(made);
            return vec![];
        };
        let same = ToldWaitpoint { created_at: known.created_at, ..made } == *known;
        if same { vec![] } else { vec![format!("it was made before, as {known:?}")] }
    }

    /// A waitpoint takes no delivery any more. Once only: so its token is accepted once.
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

    /// Where the row differs from what its facts lead to.
    pub fn differences(&self, row: &Execution) -> Vec<String> {
        let mut broken = Vec::new();
        let open = self.waitpoints.iter().filter(|one| one.state == WaitpointState::Open);
        let told = Record {
            signals: self.signals.len() as u32,
            untaken: self.signals.iter().filter(|signal| signal.taken.is_none()).count() as u32,
            waitpoints: self.waitpoints.len() as u32,
            steps: self.steps.len() as u32,
            suspensions: self.suspensions,
            bytes: self.bytes,
            resumed_by: self.resumed_by,
            expires_at: open.filter_map(|one| one.expires_at).min(),
        };
        if told != row.detail.record {
            let stored = &row.detail.record;
            broken.push(format!("by its log the record is {told:?}, in its row {stored:?}"));
        }
        let stored = row.state.suspension().map(|suspension| &**suspension);
        if self.suspension.as_ref() != stored {
            let told = &self.suspension;
            broken.push(format!("by its log the suspension is {told:?}, in its row {stored:?}"));
        }
        if self.goes_on {
            broken.push("what it waited for has come, and it does not go on".to_owned());
        }
        broken
    }
}

fn arrival(signal: &ToldSignal) -> Arrival<'_> {
    let waitpoint = signal.waitpoint.as_ref().map(|(_, name)| name);
    Arrival { number: signal.number, name: &signal.name, source: &signal.source, waitpoint }
}
