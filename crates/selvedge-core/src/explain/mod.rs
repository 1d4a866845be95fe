//! Explains why an execution does not run and when that may change. The API, the command line and the pages all show
//! this text.
//!
//! A fact is a reason if it alone would keep the execution from running now, whatever else changed. So a delayed
//! execution whose lane is paused and that no live worker could run has three reasons. The first reason belongs to the
//! execution's state. Each source of reasons is one function over the row and an [`ExplainContext`], and all of them
//! are asked.

mod code;
mod ended;
pub mod flow;
mod gates;
mod timers;
mod upstreams;
mod workers;

pub use code::Code;
pub use workers::deaths;

use crate::gate::draws::lane_gate;
use crate::gate::{Gate, GateKind, GateName, LaneState};
use crate::state::StateName;
use crate::{Class, Execution, ExecutionId, Session, State, Timestamp};

/// A reason why an execution does not run, or a fact that belongs to one.
#[derive(Clone, Debug, PartialEq)]
pub struct Reason {
    /// The stable code.
    pub code: Code,
    /// The reason as a sentence, without a full stop.
    pub message: String,
    /// The subject of the reason, if it has one.
    pub reference: Option<Reference>,
    /// The time at which the reason ends, if known.
    pub until: Option<Timestamp>,
}

impl Reason {
    /// Creates a reason without a subject and without a known end.
    pub fn new(code: Code, message: impl Into<String>) -> Reason {
        Reason { code, message: message.into(), reference: None, until: None }
    }

    /// Sets the subject.
    pub fn about(self, reference: Reference) -> Reason {
        Reason { reference: Some(reference), ..self }
    }

    /// Sets the time at which the reason ends.
    pub fn until(self, until: Option<Timestamp>) -> Reason {
        Reason { until, ..self }
    }
}

/// The kind of thing that a reason is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReferenceKind {
    /// A lane, by name.
    Lane,
    ConcurrencyKey,
    /// A quota, by name.
    Quota,
    /// A budget, by name.
    Budget,
    FairnessKey,
    /// An execution, by id.
    Execution,
    /// A lease, by id.
    Lease,
    /// A step of the execution, by name.
    Step,
}

impl ReferenceKind {
    /// Returns the name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lane => "lane",
            Self::ConcurrencyKey => "concurrency_key",
            Self::Quota => "quota",
            Self::Budget => "budget",
            Self::FairnessKey => "fairness_key",
            Self::Execution => "execution",
            Self::Lease => "lease",
            Self::Step => "step",
        }
    }
}

/// The subject of a reason.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    /// The kind of thing.
    pub kind: ReferenceKind,
    /// Its id or name.
    pub id: String,
}

impl Reference {
    /// Refers to a thing of this kind.
    pub fn new(kind: ReferenceKind, id: impl ToString) -> Reference {
        Reference { kind, id: id.to_string() }
    }

    /// Refers to an execution.
    pub fn execution(id: ExecutionId) -> Reference {
        Reference::new(ReferenceKind::Execution, id)
    }

    /// Refers to a gate. A part of a budget is referred to by the name of the budget.
    pub fn gate(name: &GateName) -> Reference {
        let kind = match name.kind {
            GateKind::Lane => ReferenceKind::Lane,
            GateKind::Key => ReferenceKind::ConcurrencyKey,
            GateKind::Quota => ReferenceKind::Quota,
            GateKind::Budget => ReferenceKind::Budget,
            GateKind::Fair => ReferenceKind::FairnessKey,
        };
        Reference::new(kind, &name.name)
    }
}

/// The explanation of a state.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The public name of the state.
    pub state: &'static str,
    /// All reasons that hold now. The first belongs to the state.
    pub reasons: Vec<Reason>,
    /// The earliest time at which something changes by itself, if known.
    pub next_change: Option<Timestamp>,
}

/// The rows around an execution that its explanation uses. They are read without locks, so the rows may differ in age.
#[derive(Clone, Debug)]
pub struct ExplainContext<'a> {
    /// The execution's class.
    pub class: &'a Class,
    /// The sessions of the namespace.
    pub sessions: &'a [Session],
    /// The number of waiting executions of its class before it, counted up to a bound; none if it was not counted.
    pub ahead: Option<u64>,
    /// Upstreams, up to a bound: those with pending edges if it waits for them, those with dead edges if it was
    /// skipped.
    pub upstreams: &'a [Execution],
    /// For a skipped execution whose upstreams were skipped too: the ended execution with which that began, if it was
    /// found within a bound.
    pub origin: Option<&'a Execution>,
    /// The rows of the gates that it draws on and of the gate that holds it, if they exist.
    pub gates: &'a [Gate],
    /// The head of the fairness line that holds it, if known.
    pub head: Option<&'a Execution>,
    /// Active executions that may have taken slots of these gates, up to a bound.
    pub running: &'a [Execution],
    /// The current time.
    pub now: Timestamp,
}

impl ExplainContext<'_> {
    fn gate(&self, name: &GateName) -> Gate {
        let known = self.gates.iter().find(|gate| gate.name == *name);
        known.cloned().unwrap_or_else(|| Gate::new(name.clone()))
    }
}

/// Explains why `row` does not run.
pub fn explain(row: &Execution, around: &ExplainContext<'_>) -> Explanation {
    let mut reasons = match &row.state {
        State::WaitingDependencies => upstreams::pending(row, around),
        State::Waiting | State::Held(_) => Vec::new(),
        State::Delayed { until } => vec![timers::delayed(row, *until)],
        State::Active(lease) => timers::active(row, lease, around),
        State::Suspended(suspension) => timers::suspended(suspension),
        State::Terminal(outcome) => ended::ended(row, *outcome, around),
    };
    if may_run_later(&row.state) {
        reasons.extend(gates::holding(row, around));
        reasons.extend(gates::drawn(row, around));
        reasons.extend(workers::missing(row, around));
        if reasons.is_empty() && row.state == State::Waiting {
            reasons.push(workers::busy(row, around));
        }
    }
    reasons.extend(workers::died(row));
    reasons.extend(timers::deadlines(row));
    begin_as_sentences(&mut reasons);
    let next_change =
        reasons.iter().filter_map(|reason| reason.until).chain(row.due().map(|due| due.at)).min();
    let lane = lane_gate(row.namespace, &around.class.lane);
    let paused = around.gates.iter().any(|gate| gate.name == lane && is_paused(gate));
    Explanation { state: shown_state(&row.state, paused).as_str(), reasons, next_change }
}

/// Gives every message a capital letter. Names of callers that begin one are quoted, so they stay as they are.
fn begin_as_sentences(reasons: &mut [Reason]) {
    for Reason { message, .. } in reasons {
        let first = message.chars().next().filter(|first| first.is_ascii_lowercase());
        if let Some(first) = first {
            message.replace_range(..1, &first.to_ascii_uppercase().to_string());
        }
    }
}

/// Returns the count with the noun: `1 edge`, `2 edges`.
fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Returns the words for a state within a sentence.
fn state_in_words(state: StateName) -> &'static str {
    match state {
        StateName::WaitingDependencies => "waiting for its upstreams",
        StateName::Waiting => "waiting for a worker",
        StateName::Delayed
        | StateName::Active
        | StateName::Suspended
        | StateName::Held
        | StateName::Completed
        | StateName::Failed
        | StateName::Cancelled
        | StateName::Expired
        | StateName::Skipped => state.as_str(),
    }
}

/// Reports whether an execution in this state neither runs nor has ended, so that gates and workers matter to it.
fn may_run_later(state: &State) -> bool {
    match state {
        State::WaitingDependencies
        | State::Waiting
        | State::Delayed { .. }
        | State::Held(_)
        | State::Suspended(_) => true,
        State::Active(_) | State::Terminal(_) => false,
    }
}

/// Reports whether a gate is a paused lane.
pub fn is_paused(gate: &Gate) -> bool {
    gate.name.kind == GateKind::Lane
        && gate.config.as_ref().is_some_and(|config| config.state == LaneState::Paused)
}

/// Returns the state that callers see. A waiting execution in a paused lane is shown as held; its row does not change.
pub fn shown_state(state: &State, lane_is_paused: bool) -> StateName {
    match state {
        State::Waiting if lane_is_paused => StateName::Held,
        state => state.name(),
    }
}
