//! Releasing: the transaction that opens a gate releases the executions that the gate holds, in claim order and in
//! bounded chunks. A reconciler checks the gate for the rest.

use super::{BUDGET_CHECK_MS, is_finite, lines, whole};
use crate::execution::ClaimOrder;
use crate::fact::{self, Fact, SuspensionNotice};
use crate::gate::draws::{counts_elsewhere, own_limit, own_reserve};
use crate::gate::{Config, Gate, GateKind, GateName, Looked, Promise, add};
use crate::rules::suspend;
use crate::state::State;
use crate::suspension::{ResumedBy, Suspension};
use crate::{Execution, Work};

/// Maximum number of executions that a gate releases in one transaction.
pub const CHUNK: u32 = 100;
/// Time after which an open gate that holds executions is checked again, in milliseconds.
pub(super) const CHECK_AGAIN_MS: i64 = 1000;
/// Time for which a gate keeps what an execution needs after its release, in milliseconds. Longer than a worker takes to
/// claim it, and short enough that an execution without a worker does not keep others waiting for long.
pub const PROMISE_MS: i64 = 3000;
/// Maximum number of promises that a gate records. Executions that are released beyond it get none.
const PROMISES_MAX: usize = 100;
/// Pause between the chunks of a scan over the executions that a gate holds, in milliseconds.
const SCAN_PAUSE_MS: i64 = 20;

/// Releases held executions of the gates that this transaction has opened, as far as they have room. Idempotent: a gate
/// is considered once for each time it is opened.
pub fn release_opened(work: &mut Work) {
    let mut opened_lines = Vec::new();
    for name in work.take_opened() {
        match name.kind {
            GateKind::Lane => {}
            GateKind::Fair => opened_lines.push(name),
            GateKind::Key | GateKind::Quota | GateKind::Budget => drop(release(work, &name, false)),
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
/// A `thorough` release also scans a gate whose recorded bounds say that nothing can be released. Only callers that are
/// not latency-critical ask for it.
pub fn release(work: &mut Work, name: &GateName, thorough: bool) -> u32 {
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
    schedule_check(work, name, &config, &found);
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
    /// Nothing can be released until a slot or an amount is given back, or a promise ends.
    full: bool,
    /// The promises to the released executions.
    promises: Vec<Promise>,
}

/// Records, after a scan, when to check the gate again, where the scan continues, and the bounds of the executions
/// still held.
fn schedule_check(work: &mut Work, name: &GateName, config: &Config, found: &Scanned) {
    let (gate, now) = (work.gate(name).into_owned(), work.now());
    let began = work.held_requested_after(name.id());
    let mut state = gate.state.clone();
    state.remove_ended_promises(now);
    let promised_before = state.promised.len() as u32;
    let left = PROMISES_MAX.saturating_sub(state.promised.len());
    state.promised.extend(found.promises.iter().take(left).cloned());
    // Executions behind the refused ones may ask for less.
    let more_behind = !found.all && !found.enough && !found.refused.is_empty() && found.released < CHUNK;
    let mut begin_again = false;
    // Released executions have not taken slots yet. If they never do, executions that the scan has passed may be
    // released.
    let released = found.released > 0;
    state.looked = match state.looked {
        Some(looked) if began == Some(looked.after) && found.all => {
            begin_again = looked.again || released;
            None
        }
        Some(looked) if began == Some(looked.after) && more_behind => {
            let after = found.last.unwrap_or(looked.after);
            Some(Looked { after, again: looked.again || released })
        }
        _ if found.full || (found.all && began.is_none()) => None,
        Some(looked) if began.is_none() && (more_behind || released) => {
            Some(Looked { again: true, ..looked })
        }
        None if more_behind && began.is_none() => found.last.map(|after| Looked { after, again: released }),
        looked => looked,
    };
    if found.all && began.is_none() {
        (state.holds, state.most, state.least) = (false, None, None);
        for row in &found.refused {
            let known = Gate { state: state.clone(), ..gate.clone() };
            state = known.state_with_held(own_limit(row, name), own_reserve(row, name)).unwrap_or(state);
        }
    }
    let opens_at = config.rate.and_then(|rate| {
        let mut starts = state.starts.clone();
        (0..found.released + promised_before).for_each(|_| starts.start(rate, now));
        starts.opens_at(rate, now).filter(is_finite)
    });
    let soon = now.plus_ms(CHECK_AGAIN_MS);
    // After a release the gate is checked again: released executions may never start, and then give nothing back.
    let waits_for_others = found.released == 0 && (found.full || (found.all && !begin_again));
    let check_again = match name.kind {
        _ if state.looked.is_some() => Some(now.plus_ms(SCAN_PAUSE_MS)),
        _ if begin_again => Some(soon),
        GateKind::Budget if waits_for_others => Some(now.plus_ms(BUDGET_CHECK_MS)),
        _ if waits_for_others => opens_at,
        _ => Some(opens_at.map_or(soon, |at| at.min(soon))),
    };
    // Executions before the start of this scan are still held.
    let holds = state.holds || began.is_some() || work.may_hold_more(name.id());
    let check_again = check_again.filter(|_| holds);
    let stops = state.stops.then_some(now);
    let promise_ends_at = state.promised.iter().map(|promise| promise.until).min();
    let due_at = check_again.into_iter().chain(state.resets_at).chain(stops).chain(promise_ends_at).min();
    if due_at != gate.due_at || state != gate.state {
        work.change_gate(name, |gate| (gate.due_at, gate.state) = (due_at, state));
    }
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
