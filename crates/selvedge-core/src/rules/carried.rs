//! The rows that a claim carries with each execution: its input, the ends of its upstreams and children, the signals that
//! resumed it, and its recorded steps.

use crate::rows::{Needs, Relative};
use crate::signal::{ENGINE, Effect, Signal, TIMEOUT};
use crate::step::{Step, StepKind, WaitResult};
use crate::suspension::ResumedBy;
use crate::{Execution, ExecutionId, Name, Work};
use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

/// A claimed execution.
#[derive(Clone, Debug)]
pub struct Claimed {
    /// The execution, with its new lease.
    pub execution: Execution,
    /// The input of the execution.
    pub input: Bytes,
    /// The upstreams, in the order of the edges.
    pub upstreams: Vec<Relative>,
    /// The children, in the order in which they were spawned.
    pub children: Vec<Relative>,
    /// The signals by which the latest suspension ended, in the order of their delivery.
    pub signals: Vec<Signal>,
    /// The recorded steps, in the order in which they began. The result of a wait contains the signals that it took.
    pub steps: Vec<Step>,
}

impl Claimed {
    /// Returns the size of all payloads together.
    pub(super) fn bytes(&self) -> usize {
        let relatives = self.upstreams.iter().chain(&self.children);
        let results = relatives.filter_map(|one| one.result.as_ref()).map(Bytes::len);
        let steps = self.steps.iter().filter_map(|step| step.result.as_ref()).map(Bytes::len);
        let signals = self.signals.iter().filter_map(|signal| signal.payload.as_ref()).map(Bytes::len);
        self.input.len() + results.chain(steps).chain(signals).sum::<usize>()
    }
}

/// Returns a leased execution with the rows that a claim carries.
pub(super) fn claimed(row: &Execution, work: &Work) -> Claimed {
    let wiring = row.wiring();
    let upstreams = wiring.upstreams.iter().filter_map(|one| work.relative(one.execution));
    let children = wiring.children.iter().filter_map(|one| work.relative(one.execution));
    Claimed {
        execution: row.clone(),
        input: work.input(row.id).cloned().unwrap_or_default(),
        upstreams: upstreams.collect(),
        children: children.collect(),
        signals: resuming_signals(row, work),
        steps: recorded_steps(row, work),
    }
}

/// Returns the signals by which the latest suspension ended, with a `timeout` signal of the engine if it timed out.
fn resuming_signals(row: &Execution, work: &Work) -> Vec<Signal> {
    let record = &row.detail.record;
    let Some(by) = record.resumed_by else { return Vec::new() };
    let taken = work.signals(row.id).filter(|signal| signal.taken == Some(record.suspensions));
    let mut signals: Vec<Signal> = taken.cloned().collect();
    if by == ResumedBy::Timeout {
        signals.push(Signal {
            execution: row.id,
            number: 0,
            name: Name::trusted(TIMEOUT),
            source: Name::trusted(ENGINE),
            waitpoint: None,
            key: None,
            digest: 0,
            at: row.ready_order,
            effect: Effect::Resumed,
            taken: Some(record.suspensions),
            payload: Some(Bytes::from_static(b"null")),
        });
    }
    signals
}

/// Returns the recorded steps of an execution, with the signals of waits.
fn recorded_steps(row: &Execution, work: &Work) -> Vec<Step> {
    if row.detail.record.steps == 0 {
        return Vec::new();
    }
    let steps = work.steps(row.id).into_iter().filter(|step| step.recorded_at.is_some());
    steps.map(|step| with_signals(step, work)).collect()
}

/// Returns a step. The result of a wait is replaced by one that contains the signals that the wait took.
fn with_signals(step: &Step, work: &Work) -> Step {
    let waited = match step.kind {
        StepKind::Wait | StepKind::Sleep | StepKind::Join => {
            step.result.as_deref().and_then(WaitResult::decode)
        }
        StepKind::Step | StepKind::Spawn | StepKind::Race => None,
    };
    let Some(waited) = waited else { return step.clone() };
    let taken =
        work.signals(step.execution).filter(|signal| waited.signals.binary_search(&signal.number).is_ok());
    #[derive(Serialize)]
    struct CarriedWait<'a> {
        resumed_by: ResumedBy,
        signals: Vec<TakenSignal<'a>>,
    }
    let result = CarriedWait { resumed_by: waited.resumed_by, signals: taken.map(TakenSignal::of).collect() };
    let result = serde_json::to_vec(&result).expect("the result of a wait always serialises");
    Step { result: Some(result.into()), ..step.clone() }
}

/// A signal as a claim carries it.
#[derive(Serialize)]
pub struct TakenSignal<'a> {
    name: &'a Name,
    payload: &'a RawValue,
    source: &'a Name,
    waitpoint: Option<&'a Name>,
}

impl<'a> TakenSignal<'a> {
    /// Returns the part of a signal that a claim carries.
    pub fn of(signal: &'a Signal) -> Self {
        let payload = signal.payload.as_deref().unwrap_or(b"null");
        TakenSignal {
            name: &signal.name,
            payload: serde_json::from_slice(payload).unwrap_or(RawValue::NULL),
            source: &signal.source,
            waitpoint: signal.waitpoint.as_ref().map(|(_, name)| name),
        }
    }
}

/// Asks for the rows that a claim of an execution carries: its input, its upstreams and children, its steps and
/// signals.
pub fn needs_carried(id: ExecutionId, work: &Work, needs: &mut Needs) {
    if work.input(id).is_none() {
        needs.inputs.read([id]);
    }
    let Ok(Some(row)) = work.find(id) else { return };
    let wiring = row.wiring();
    let upstreams = wiring.upstreams.iter().map(|one| one.execution);
    let children = wiring.children.iter().map(|one| one.execution);
    needs.relatives.read(upstreams.chain(children).filter(|id| !work.has_end_of(*id)));
    if row.detail.record.is_carried() && !work.has_whole_record(id) {
        needs.queries.records.push(id);
    }
}
