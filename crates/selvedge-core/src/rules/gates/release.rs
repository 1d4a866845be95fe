//! Releasing: the transaction that opens a gate releases the executions that the gate holds, in claim order and in
//! bounded chunks. A reconciler checks the gate for the rest.

use super::machine::{GateStanding, Occasion, PageEnd, PageStart, Scan, ScanPage};
use super::{is_finite, lines, whole};
use crate::execution::ClaimOrder;
use crate::fact::{self, Fact, SuspensionNotice};
use crate::gate::draws::{counts_elsewhere, own_limit, own_reserve};
use crate::gate::{Config, Gate, GateKind, GateName, GateState, Promise, add};
use crate::rules::suspend;
use crate::state::State;
use crate::suspension::{ResumedBy, Suspension};
use crate::{Execution, Timestamp, Work};

/// Maximum number of executions that a gate releases in one transaction.
pub const CHUNK: u32 = 100;
/// Time for which a gate keeps what an execution needs after its release, in milliseconds. Longer than a worker takes to
/// claim it, and short enough that an execution without a worker does not keep others waiting for long.
pub const PROMISE_MS: i64 = 3000;
/// Maximum number of promises that a gate records. Executions that are released beyond it get none.
const PROMISES_MAX: usize = 100;

/// Releases held executions of the gates that this transaction has opened, as far as they have room. Idempotent: a gate
/// is considered once for each time it is opened.
pub fn release_opened(work: &mut Work) {
    let mut opened_lines = Vec::new();
    for name in work.take_opened() {
        match name.kind {
            GateKind::Lane => {}
            GateKind::Fair => opened_lines.push(name),
            GateKind::Key | GateKind::Quota | GateKind::Budget => {
                release(work, &name, Occasion::GiveBack);
            }
        }
    }
    lines::line_up(work, opened_lines);
}

/// Releases the loaded executions that a gate holds, as far as it has room, and returns how many. An execution that
/// asks for more than is left does not hide one that asks for less. An open gate that still holds executions is checked
/// again soon: the released executions may wait long for a worker, which should not delay the others. A full gate
/// is not checked: the transaction that gives a slot or an amount back releases executions.
///
/// Promises each released execution its slot or amount for [`PROMISE_MS`], so that no later execution takes it first. When a
/// promise ends unused, the gate releases the next execution.
///
/// Unless the occasion is thorough, a gate is left as it is whose recorded bounds say that nothing can be released.
pub(super) fn release(work: &mut Work, name: &GateName, occasion: Occasion) -> u32 {
    let now = work.now();
    let mut gate = work.gate(name).into_owned();
    let config = work.gate(&whole(name)).config.clone().unwrap_or_default();
    gate.state.remove_ended_promises(now);
    let promised = gate.state.promised.len() as u32;
    let limits_something = match name.kind {
        GateKind::Key => true,
        GateKind::Lane | GateKind::Quota | GateKind::Fair => config.limits_starts(),
        GateKind::Budget => config.limits.values().any(|limit| limit.hard.is_some()),
    };
    let room = gate.room(&config, now).unwrap_or(CHUNK).min(CHUNK);
    let mut found = Scanned::default();
    let thorough = occasion.is_thorough();
    while found.released < room && (thorough || !gate.refuses_all_held(&config.limits, found.released, now)) {
        let Some(id) = work.next_held(name.id()) else { break };
        let Ok(Some(row)) = work.find(id).map(|row| row.cloned()) else { continue };
        found.last = Some(row.claim_order());
        let counts_here = !counts_elsewhere(&row, name, config.scope, work.lane_of(row.class));
        let reserve = own_reserve(&row, name);
        if counts_here {
            let taken = gate.active + promised + found.released;
            let full = own_limit(&row, name).is_some_and(|limit| taken >= limit);
            let refuses = |reserve| gate.refuses_to_spend(&config.limits, reserve, None, now).is_some();
            if full || reserve.is_some_and(refuses) {
                found.refused.push(row);
                continue;
            }
            if let Some(reserve) = reserve {
                add(&mut gate.state.reserved, reserve);
            }
        }
        if release_one(work, &row, name) && counts_here && limits_something {
            let reserve = reserve.cloned().unwrap_or_default();
            found.promises.push(Promise { execution: row.id, until: now.plus_ms(PROMISE_MS), reserve });
        }
        found.released += 1;
    }
    found.all = !work.has_loaded_held(name.id()) && !work.may_hold_unloaded(name.id());
    found.refused.iter().rev().for_each(|row| work.put_back_held(name.id(), row.id));
    found.enough = gate.refuses_all_held(&config.limits, found.released, now);
    found.full = room == 0 || work.gate(name).refuses_all_held(&config.limits, 0, now);
    record_page(work, name, &config, &found);
    found.released
}

/// The result of a scan over held executions.
#[derive(Default)]
struct Scanned {
    released: u32,
    /// Executions that ask for more than is left.
    refused: Vec<Execution>,
    /// The claim order of the last execution scanned.
    last: Option<ClaimOrder>,
    /// All held executions from the start of the scan on were scanned.
    all: bool,
    /// Nothing more can be released, assuming that the released executions start.
    enough: bool,
    /// Nothing can be released until a slot or an amount is given back, or a promise ends. Then nothing was refused, or
    /// enough was released.
    full: bool,
    /// The promises to the released executions.
    promises: Vec<Promise>,
}

impl Scanned {
    fn end(&self) -> PageEnd {
        let refuses_more = !self.enough && !self.refused.is_empty() && self.released < CHUNK;
        match (self.all, self.full, self.last) {
            (true, true, _) => PageEnd::AllAndFull,
            (true, false, _) => PageEnd::All,
            (false, true, _) => PageEnd::Full,
            (false, false, Some(last)) if refuses_more => PageEnd::More(last),
            (false, false, _) => PageEnd::Enough,
        }
    }
}

/// Records, after a scan, when to check the gate again, where the scan continues, and the bounds of the executions
/// still held.
fn record_page(work: &mut Work, name: &GateName, config: &Config, found: &Scanned) {
    let (gate, now) = (work.gate(name).into_owned(), work.now());
    let mut state = gate.state.clone();
    state.remove_ended_promises(now);
    let opens_at = opens_after(&state, config, found.released, now);
    let left = PROMISES_MAX.saturating_sub(state.promised.len());
    state.promised.extend(found.promises.iter().take(left).cloned());

    let began = PageStart::behind(work.held_requested_after(name.id()), state.looked);
    let page = ScanPage { began, end: found.end(), released: found.released > 0 };
    let scan = Scan::after(state.looked, page);
    state.looked = scan.looked;
    if found.all && began == PageStart::First {
        state = with_bounds(&gate, state, &found.refused);
    }

    // Executions before the start of this scan are still held.
    let holds = state.holds || began != PageStart::First || work.may_hold_more(name.id());
    let check_at = GateStanding::after(scan, page, holds).check_at(name.kind, opens_at, now);
    let stops = state.stops.then_some(now);
    let promise_ends_at = state.promised.iter().map(|promise| promise.until).min();
    let due_at = check_at.into_iter().chain(state.resets_at).chain(stops).chain(promise_ends_at).min();
    if due_at != gate.due_at || state != gate.state {
        work.change_gate(name, |gate| (gate.due_at, gate.state) = (due_at, state));
    }
}

/// Returns the time at which the window has room again, once the released executions and those with promises have
/// started.
fn opens_after(state: &GateState, config: &Config, released: u32, now: Timestamp) -> Option<Timestamp> {
    let rate = config.rate?;
    let mut starts = state.starts.clone();
    (0..released + state.promised.len() as u32).for_each(|_| starts.start(rate, now));
    starts.opens_at(rate, now).filter(is_finite)
}

/// Returns the state of a gate that holds only these executions, with their bounds.
fn with_bounds(gate: &Gate, mut state: GateState, held: &[Execution]) -> GateState {
    (state.holds, state.most, state.least) = (false, None, None);
    for row in held {
        let known = Gate { state: state.clone(), ..gate.clone() };
        state =
            known.state_with_held(own_limit(row, &gate.name), own_reserve(row, &gate.name)).unwrap_or(state);
    }
    state
}

/// Releases an execution: it becomes waiting, or its suspension by the gate ends. Returns true if it is waiting now.
///
/// It waits from now on, like any other execution that becomes waiting. If it does not start and is released once more,
/// it has its first place in the claim order again, before all that came later.
fn release_one(work: &mut Work, row: &Execution, name: &GateName) -> bool {
    match &row.state {
        State::Suspended(suspension) => {
            let mut suspension = Suspension::clone(suspension);
            suspension.gate_opened(name);
            suspend::notice(work, row.id, suspension, (SuspensionNotice::Gate, ResumedBy::Condition), None);
        }
        _ => {
            work.apply(row.id, Fact::Admitted(fact::Admitted { gate: name.clone() }), None, |row| {
                row.state = State::Waiting
            });
            work.keep_place(row.id, row.ready_order);
        }
    }
    work.find(row.id).is_ok_and(|row| row.is_some_and(|row| row.state == State::Waiting))
}
