//! Gates: admission is decided inside the claim's own transaction.
//!
//! A transaction loads the gates of its executions ([`needs`]). A claim takes a slot in every gate that the execution
//! draws on ([`take`]), with all of them locked, so that several servers together never exceed a limit. The end of the
//! attempt gives the slots back: [`Work::apply`](crate::Work::apply) does that, whatever ends the attempt. An execution
//! that a gate refuses is held by it ([`hold`]), and no longer hides the executions behind it. A transaction that gives a
//! slot or an amount back releases held executions, in claim order and in bounded chunks ([`release_opened`]); a
//! reconciler [checks](check) gates for the rest. The file `machine` says what a gate that holds executions waits for, and
//! when it is checked.
//!
//! Executions with a fairness key wait in lines, one for each key and class: only the head of a line is waiting, at the
//! priority that all heads share, so that the keys take turns. The line holds the others in claim order, and moves up when
//! its head leaves ([`move_up`]).

pub mod adopt;
pub mod budget;
pub mod check;
pub mod configure;
mod machine;

use crate::execution::{ClaimOrder, Slots};
use crate::fact::{self, Fact, SuspensionNotice};
use crate::gate::draws::{
    BudgetDraw, counts_elsewhere, fairness_line_of, lane_gate, own_limit, own_reserve, reserved, slots_of,
};
use crate::gate::{Config, Gate, GateId, GateKind, GateName, GateState, Promise, Shut, add};
use crate::rows::{HeldBy, Needs};
use crate::rules::suspend;
use crate::state::State;
use crate::suspension::{ResumedBy, Suspension};
use crate::{Execution, ExecutionId, Name, NamespaceId, Timestamp, Work};
use machine::{
    CHECK_AGAIN_MS, GateStanding, Occasion, PageEnd, PageStart, Response, Scan, ScanPage, response,
};
use std::collections::{BTreeMap, BTreeSet};

/// Time after which a budget that holds executions is checked in any case, in milliseconds.
const BUDGET_CHECK_MS: i64 = 60_000;

/// Maximum number of executions of one fairness line that a transaction loads.
const LINE_CHUNK: u32 = 32;
/// Maximum number of executions of all fairness lines together that a transaction loads, except that it loads at least
/// two of each.
const LINES_CHUNK: u32 = 1024;

/// Asks for the gates of every loaded execution: the gates from which a claim takes, and those to which the end of a
/// lease gives back, with as many held executions as may then be released. Leaves out executions for which `skips`
/// returns true: nothing is taken or given back for them.
pub fn needs(work: &Work, skips: impl Fn(ExecutionId) -> bool, needs: &mut Needs) {
    let mut opens: BTreeMap<GateId, u32> = BTreeMap::new();
    let mut lines: BTreeSet<GateId> = BTreeSet::new();
    for row in work.gated().filter(|row| !skips(row.id)) {
        if let Some(line) = fairness_line_of(row).filter(|_| row.state.outcome().is_none()) {
            needs.gates.lock([line.id()]);
            if row.state == State::Waiting && !work.has_requested_held(line.id()) {
                lines.insert(line.id());
            }
        }
        match &row.state {
            State::Waiting => {
                needs.gates.lock(slots_of(row).map(|(name, _)| name.id()));
                work.budgets_of(row).iter().for_each(|budget| lock_budget(budget, needs));
            }
            State::Active(_) => {
                let slots = &row.detail.slots;
                needs.lanes.lock(slots.lane.as_ref().map(|lane| lane_gate(row.namespace, lane).id()));
                for (name, _) in slots_of(row).filter(|_| slots.drawn) {
                    needs.gates.lock([name.id()]);
                    *opens.entry(name.id()).or_default() += 1;
                }
                for budget in reserved(row, slots) {
                    lock_budget(&budget, needs);
                    *opens.entry(budget.counted().id()).or_default() += 1;
                }
            }
            State::Held(_)
            | State::WaitingDependencies
            | State::Delayed { .. }
            | State::Suspended(_)
            | State::Terminal(_) => {}
        }
    }
    let of_each = (LINES_CHUNK / lines.len().max(1) as u32).clamp(2, LINE_CHUNK);
    needs.queries.held.extend(lines.into_iter().map(|line| HeldBy::first(line, of_each)));
    // As many held executions as slots may be given back, rounded up, so that one more loaded row does not cause a
    // request with another limit.
    let asked = |gate: &GateId, held: &[HeldBy]| held.iter().any(|one| one.gate == *gate);
    let held = opens.into_iter().filter(|(gate, _)| work.may_hold(*gate) && !work.has_requested_held(*gate));
    let held: Vec<_> = held.filter(|(gate, _)| !asked(gate, &needs.queries.held)).collect();
    needs.queries.held.extend(
        held.into_iter().map(|(gate, count)| HeldBy::first(gate, count.next_power_of_two().min(CHUNK))),
    );
}

/// Asks for a budget, and for the part that counts for the execution.
fn lock_budget(budget: &BudgetDraw<'_>, needs: &mut Needs) {
    needs.gates.lock([budget.whole.id()]);
    if budget.part.is_some() {
        needs.parts.lock([budget.counted().id()]);
    }
}

/// Returns the gate that refuses an execution now, with the refusal; none if all gates admit it. Does not consider the
/// lane, which the claim checks first.
pub fn refusal(row: &Execution, work: &Work) -> Option<(GateName, Shut)> {
    let slot = slots_of(row).find_map(|(name, limit)| {
        let gate = work.gate(&name);
        let shut = match &gate.config {
            Some(config) => gate.refuses(config, limit, Some(row.id), work.now()),
            None => gate.refuses(&Config::default(), limit, Some(row.id), work.now()),
        };
        shut.map(|shut| (name, shut))
    });
    slot.or_else(|| {
        work.budgets_of(row).into_iter().find_map(|budget| {
            let whole = work.gate(&budget.whole);
            let limits = &whole.config.as_ref()?.limits;
            let gate = work.gate(&budget.counted());
            let why = gate.refuses_to_spend(limits, budget.reserve, Some(row.id), work.now())?;
            Some((budget.counted(), Shut { why, until: None }))
        })
    })
}

/// Returns the earliest time at which one of these lanes that has used up its rate has room again; none if no lane has.
pub fn lanes_open_at(namespace: NamespaceId, lanes: &[Name], work: &Work) -> Option<Timestamp> {
    let opens = |lane: &Name| {
        let gate = work.gate(&lane_gate(namespace, lane));
        let config = gate.config.as_ref()?;
        gate.refuses(config, None, None, work.now())?.until
    };
    lanes.iter().filter_map(opens).min()
}

/// Takes a slot in every gate that an execution draws on, and reserves its amounts. Returns the slots, which the row
/// keeps until they are given back.
pub fn take(row: &Execution, lane: Option<&GateName>, work: &mut Work) -> Slots {
    let now = work.now();
    let budgets = work.budgets_of(row);
    let mut start = |name: &GateName| {
        work.change_gate(name, |gate| {
            gate.active += 1;
            gate.end_promise(row.id);
            if let Some(rate) = gate.config.as_ref().and_then(|config| config.rate) {
                gate.state.starts.start(rate, now);
            }
        });
    };
    slots_of(row).for_each(|(name, _)| start(&name));
    lane.into_iter().for_each(&mut start);
    for budget in &budgets {
        let counted = budget.counted();
        if !budget.reserve.is_empty() || work.gate(&counted).has_promise(row.id) {
            work.change_gate(&counted, |gate| {
                add(&mut gate.state.reserved, budget.reserve);
                gate.end_promise(row.id);
            });
        }
    }
    Slots {
        lane: lane.map(|lane| lane.name.clone()),
        drawn: row.spec.required_gates.takes(),
        parts: budgets.into_iter().map(|budget| budget.part).collect(),
    }
}

/// Holds an execution that a gate refuses.
pub fn hold(work: &mut Work, id: ExecutionId, name: GateName, shut: &Shut) {
    let opens_at = shut.until.filter(is_finite);
    let fact = Fact::Held(fact::Held { reason: shut.describe(&name), gate: name.clone(), until: opens_at });
    let check_at = match response(GateStanding::of(&work.gate(&name).state), Occasion::Refuse) {
        Response::Hold(standing) => standing.check_at(name.kind, opens_at, work.now()),
        Response::Page { .. } => None,
    };
    // An execution to which the gate has promised a slot may never start.
    let promise_ends_at = work.gate(&name).promise_ends_at(work.now());
    if let Some(at) = check_at.into_iter().chain(promise_ends_at).min() {
        check_by(work, &name, at);
    }
    if let Ok(Some(row)) = work.find(id).map(|row| row.cloned()) {
        work.drop_promises(&row);
        record_held(work, &row, &name);
    }
    let gate = name.id();
    work.apply(id, fact, None, |row| {
        row.state = State::Held(name.into());
        // It was released before and did not start: it is held at its earlier place.
        row.ready_order = row.detail.place.unwrap_or(row.ready_order);
    });
    work.add_held(gate, id);
}

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
    line_up(work, opened_lines);
}

/// Releases the loaded executions that a gate holds, as far as it has room, and returns how many. An execution that
/// asks for more than is left does not hide one that asks for less. An open gate that still holds executions is checked
/// again soon: the released executions may wait long for a worker, which should not delay the others. A full gate
/// is not checked: the transaction that gives a slot or an amount back releases executions.
///
/// Promises each released execution its slot or amount for [`PROMISE_MS`], so that no later execution takes it first. When a
/// promise ends unused, the gate releases the next execution.
///
/// Unless the page is thorough, a gate is left as it is whose recorded bounds say that nothing can be released.
fn release(work: &mut Work, name: &GateName, occasion: Occasion) -> u32 {
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
    let response = response(GateStanding::of(&gate.state), occasion);
    let is_thorough = matches!(response, Response::Page { is_thorough: true, .. });
    while found.released < room
        && (is_thorough || !gate.refuses_all_held(&config.limits, found.released, now))
    {
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

/// Puts every waiting execution with a fairness key that is not a head into its line, before a claim can take it. Then
/// moves up these lines and the `opened` ones, whose head has left.
fn line_up(work: &mut Work, opened: Vec<GateName>) {
    let mut changed_lines = opened;
    for id in work.waiting_out_of_line() {
        let Ok(Some(row)) = work.find(id) else { continue };
        let Some(line) = fairness_line_of(row).filter(|line| work.has_requested_gate(line.id())) else {
            continue;
        };
        let (class, is_changed) = (row.class, work.is_changed(id));
        if is_changed && work.gate(&line).active == 0 && !work.has_loaded_held(line.id()) {
            work.make_head(id, &line);
            continue;
        }
        if !is_changed {
            work.mark_passed_over(class);
        }
        let reason = format!("another with its {line} comes first");
        let fact = Fact::Held(fact::Held { gate: line.clone(), reason, until: None });
        work.apply(id, fact, None, |row| row.state = State::Held(line.clone().into()));
        work.add_held(line.id(), id);
        changed_lines.push(line);
    }
    changed_lines.iter().for_each(|line| move_up(work, line));
}

/// Makes the next execution of a line its head, if the line has none.
pub fn move_up(work: &mut Work, line: &GateName) {
    if work.gate(line).active > 0 {
        return;
    }
    let Some(id) = work.next_held(line.id()) else {
        // Other transactions may have locked the next executions of the line.
        if work.may_hold_more(line.id()) {
            check_by(work, line, work.now().plus_ms(CHECK_AGAIN_MS));
        }
        return;
    };
    work.apply(id, Fact::Admitted(fact::Admitted { gate: line.clone() }), None, |row| {
        row.state = State::Waiting
    });
    work.make_head(id, line);
    // The last loaded execution is withheld if the line may have more: after its claim, no loaded execution could move
    // up.
    if work.is_last_held(line.id()) {
        work.withhold(id);
    }
}

/// Asks for a gate by name and, if it is a part, for the whole gate.
pub fn lock_gate(name: &GateName, needs: &mut Needs) {
    needs.gates.lock([whole(name).id()]);
    if name.part.is_some() {
        needs.parts.lock([name.id()]);
    }
}

/// Reports whether a time is finite: a gate with a rate of zero has room only at the end of time.
fn is_finite(at: &Timestamp) -> bool {
    *at < Timestamp::from_micros(i64::MAX)
}

/// Returns the name of the gate that has the configuration: the whole of a budget, or the gate itself.
fn whole(name: &GateName) -> GateName {
    GateName { part: None, ..name.clone() }
}

/// Sets the time by which a gate is to be checked, unless it is to be checked earlier.
fn check_by(work: &mut Work, name: &GateName, by: Timestamp) {
    if work.gate(name).due_at.is_none_or(|at| at > by) {
        work.change_gate(name, |gate| gate.due_at = Some(by));
    }
}

/// Records in a gate that it holds an execution, with the limit and the reserve that the execution names.
fn record_held(work: &mut Work, row: &Execution, name: &GateName) {
    let (limit, reserve) = (own_limit(row, name), own_reserve(row, name));
    if let Some(state) = work.gate(name).state_with_held(limit, reserve) {
        work.change_gate(name, |gate| gate.state = state);
    }
}
