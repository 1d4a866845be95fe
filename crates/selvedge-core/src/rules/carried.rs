//! The rows that a claim carries with each execution: its input, the ends of its upstreams and children, the signals that
//! resumed it, and its recorded steps.
//!
//! Input, signals and steps have limits of their own. Upstreams and children have none: an execution carries their
//! results and errors up to [`RELATIVES_BYTES`], in their order, and the rest is left out.

use crate::rows::{Needs, Payload, Relative, StoredRelative};
use crate::signal::{ENGINE, Effect, Signal, TIMEOUT};
use crate::step::{Step, StepKind, WaitResult};
use crate::suspension::ResumedBy;
use crate::{Execution, ExecutionId, Name, Work};
use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

/// Size of the results and errors of upstreams and children that a claimed execution carries, in bytes.
pub const RELATIVES_BYTES: usize = 4 * 1024 * 1024;
/// Number of upstreams and children that a transaction reads for its claims. An execution beyond it stays for the next
/// transaction, except the first one.
const RELATIVES_MAX: usize = 20_000;

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
    /// Returns a leased execution that does not carry anything yet.
    pub(super) fn new(execution: Execution) -> Claimed {
        Claimed {
            execution,
            input: Bytes::new(),
            upstreams: Vec::new(),
            children: Vec::new(),
            signals: Vec::new(),
            steps: Vec::new(),
        }
    }

    /// Adds the rows that a claim carries, as far as they are loaded, and asks for the others.
    pub(super) fn carry(&mut self, work: &Work, needs: &mut Needs) {
        let row = &self.execution;
        match work.input(row.id) {
            Some(Payload::Whole(input)) => self.input = input.clone(),
            Some(Payload::Size(_)) | None => needs.whole_inputs.read([row.id]),
        }
        if work.has_whole_record(row.id) {
            self.signals = resuming_signals(row, work);
            self.steps = recorded_steps(row, work);
        } else {
            needs.queries.records.push(row.id);
        }
        let wiring = row.wiring();
        let mut room = RELATIVES_BYTES;
        let upstreams = wiring.upstreams.iter().map(|one| one.execution);
        self.upstreams = relatives_within(&mut room, upstreams, work, needs);
        let children = wiring.children.iter().map(|one| one.execution);
        self.children = relatives_within(&mut room, children, work, needs);
    }
}

/// Returns upstreams or children with their results and errors as far as there is room, and asks for those that are not
/// loaded.
fn relatives_within(
    room: &mut usize,
    ids: impl Iterator<Item = ExecutionId>,
    work: &Work,
    needs: &mut Needs,
) -> Vec<Relative> {
    let relatives = ids.filter_map(|id| work.relative(id));
    let carried = relatives.map(|stored| match room.checked_sub(stored.bytes) {
        None => stored.within(0).relative,
        Some(left) => {
            *room = left;
            let StoredRelative { relative, .. } = stored;
            needs.whole_relatives.read(relative.left_out.then_some(relative.execution));
            relative
        }
    });
    carried.collect()
}

/// Returns the upstreams and children of an execution.
fn relatives_of(row: &Execution) -> impl Iterator<Item = ExecutionId> {
    let wiring = row.wiring();
    let upstreams = wiring.upstreams.iter().map(|one| one.execution);
    upstreams.chain(wiring.children.iter().map(|one| one.execution))
}

/// Returns the size of all payloads that a claim of an execution carries, in bytes.
pub(super) fn carried_bytes(row: &Execution, work: &Work) -> usize {
    let input = work.input(row.id).map_or(0, Payload::bytes);
    let relatives: usize = relatives_of(row).map(|id| work.relative_bytes(id)).sum();
    input + relatives.min(RELATIVES_BYTES) + row.detail.record.bytes as usize
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

/// Asks for the sizes of what a claim of an execution carries, its input and its upstreams and children, and for those that
/// are small.
pub fn needs_carried(id: ExecutionId, work: &Work, needs: &mut Needs) {
    if work.input(id).is_none() {
        needs.inputs.read([id]);
    }
    let Ok(Some(row)) = work.find(id) else { return };
    let known = work.relative_count() + needs.relatives.len();
    if known == 0 || known + relatives_of(row).count() <= RELATIVES_MAX {
        needs.relatives.read(relatives_of(row).filter(|id| !work.has_end_of(*id)));
    }
}
