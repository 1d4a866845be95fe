//! What gates hold goes on: by the transaction that opens them, in order and in bounded chunks, and by whoever looks later.

use super::admit::{BUDGET_LOOK_MS, comes, counts_elsewhere, fair_gate, look_at, own_limit, own_reserve};
use super::suspend;
use crate::execution::ClaimOrder;
use crate::fact::{Fact, Notice};
use crate::gate::{Config, Gate, GateKind, GateName, Looked, add};
use crate::rows::{HeldBy, Needs};
use crate::rule::{Phase, Profile, Rule};
use crate::state::State;
use crate::suspension::{ResumedBy, Suspension};
use crate::{Execution, Work};

/// How many a gate lets go on in one transaction at most.
pub const CHUNK: u32 = 100;
/// How long a gate that is open and holds something is left to the transactions that change it.
const LOOK_AGAIN_MS: i64 = 1000;
/// How long a look at everything that a gate holds rests between its parts.
const LOOK_ON_MS: i64 = 20;

/// Lets what is held by gates go on that this transaction has opened, as far as they have room. What was let go on before is
/// not counted again: it may be done more than once.
pub fn open(work: &mut Work) {
    let mut lines = Vec::new();
    for name in work.take_opened() {
        match name.kind {
            GateKind::Lane => {}
            GateKind::Fair => lines.push(name),
            GateKind::Key | GateKind::Quota | GateKind::Budget => drop(release(work, &name, false)),
        }
    }
    line_up(work, lines);
}

/// Of those with the same fairness key one at a time may be claimed, so that keys take turns. The others are held by their
/// line, which moves up when that one leaves it. Whatever has made one ready, it is in line before a claim can take it.
fn line_up(work: &mut Work, mut moved: Vec<GateName>) {
    for id in work.out_of_line() {
        let Ok(Some(row)) = work.find(id) else { continue };
        let Some(line) = fair_gate(row).filter(|line| work.has_requested_gate(line.id())) else { continue };
        let (class, new) = (row.class, work.is_changed(id));
        if new && work.gate(&line).active == 0 && !work.has_held(line.id()) {
            work.lead_line(id, &line);
            continue;
        }
        if !new {
            work.pass_over(class);
        }
        let reason = format!("another with its {line} comes first");
        let fact = Fact::Held { gate: line.clone(), reason, until: None };
        work.apply(id, fact, None, |row| row.state = State::Held(line.clone().into()));
        work.put_held(line.id(), id);
        moved.push(line);
    }
    moved.iter().for_each(|line| move_up(work, line));
}

/// The next of a line may be claimed, if none can be.
pub fn move_up(work: &mut Work, line: &GateName) {
    if work.gate(line).active > 0 {
        return;
    }
    let Some(id) = work.next_held(line.id()) else {
        // Somebody else has those that come next.
        if work.may_hold_more(line.id()) {
            look_at(work, line, work.now().plus_ms(LOOK_AGAIN_MS));
        }
        return;
    };
    work.apply(id, Fact::Admitted { gate: line.clone() }, None, |row| row.state = State::Waiting);
    work.lead_line(id, line);
    // The last that is at hand stays, where there may be more: else nobody would be there to move up.
    if work.is_last_held(line.id()) {
        work.withhold(id);
    }
}

/// Lets what a gate holds go on, as far as it has room and as it is at hand. Says how many. One that asks for more than there
/// is hides none that asks for less. What it still holds while it is open is looked at again soon: what was let go may be
/// waiting for a worker, and others need not wait for that. While it is full nobody looks: whoever gives a slot back does.
///
/// `thorough` is one that nobody waits for: it looks also where by what is known nothing can go on.
pub fn release(work: &mut Work, name: &GateName, thorough: bool) -> u32 {
    let now = work.now();
    let mut gate = work.gate(name).into_owned();
    let config = work.gate(&GateName { part: None, ..name.clone() }).config.clone().unwrap_or_default();
    let room = gate.room(&config, now).unwrap_or(CHUNK).min(CHUNK);
    let mut found = Found::default();
    while found.released < room && (thorough || !gate.refuses_all_it_holds(&config.limits, found.released)) {
        let Some(id) = work.next_held(name.id()) else { break };
        let Ok(Some(row)) = work.find(id).map(|row| row.cloned()) else { continue };
        found.last = Some(row.claim_order());
        if !counts_elsewhere(&row, name, config.scope, work) {
            let reserve = own_reserve(&row, name);
            let full = own_limit(&row, name).is_some_and(|limit| gate.active + found.released >= limit);
            if full || reserve.is_some_and(|reserve| gate.refuses_to_spend(&config.limits, reserve).is_some())
            {
                found.refused.push(row);
                continue;
            }
            if let Some(reserve) = reserve {
                add(&mut gate.state.reserved, reserve);
            }
        }
        go_on(work, &row, name);
        found.released += 1;
    }
    found.all = !work.has_held(name.id()) && !work.holds_unseen(name.id());
    found.refused.iter().rev().for_each(|row| work.keep_held(name.id(), row.id));
    found.enough = gate.refuses_all_it_holds(&config.limits, found.released);
    found.full = room == 0 || work.gate(name).refuses_all_it_holds(&config.limits, 0);
    look_later(work, name, &config, &found);
    found.released
}

/// What a look at what a gate holds has found.
#[derive(Default)]
struct Found {
    released: u32,
    /// Those that ask for more than there is.
    refused: Vec<Execution>,
    /// The last that was looked at.
    last: Option<ClaimOrder>,
    /// Whether everything was looked at that it holds, behind where the look began.
    all: bool,
    /// Whether nothing more may go on while those that were let go have not given anything back.
    enough: bool,
    /// Whether nothing may go on until something is given back.
    full: bool,
}

/// After a look: when to look again, where from, and what is known about what is still held.
fn look_later(work: &mut Work, name: &GateName, config: &Config, found: &Found) {
    let (gate, now) = (work.gate(name).into_owned(), work.now());
    let began = work.held_asked_after(name.id());
    let mut state = gate.state.clone();
    // Behind those that are refused others may ask for less.
    let more_behind = !found.all && !found.enough && !found.refused.is_empty() && found.released < CHUNK;
    let mut begin_again = false;
    // What was let go has taken nothing yet. If it never does, those that a look has passed by since may go on.
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
            state = known.holds(own_limit(row, name), own_reserve(row, name)).unwrap_or(state);
        }
    }
    let opens_at = config.rate.and_then(|rate| {
        let mut starts = state.starts.clone();
        (0..found.released).for_each(|_| starts.start(rate, now));
        starts.opens_at(rate, now).filter(comes)
    });
    let soon = now.plus_ms(LOOK_AGAIN_MS);
    // What was let go may never start, and so never give anything back.
    let waits_for_others = found.released == 0 && (found.full || (found.all && !begin_again));
    let look_again = match name.kind {
        _ if state.looked.is_some() => Some(now.plus_ms(LOOK_ON_MS)),
        _ if begin_again => Some(soon),
        GateKind::Budget if waits_for_others => Some(now.plus_ms(BUDGET_LOOK_MS)),
        _ if waits_for_others => opens_at,
        _ => Some(opens_at.map_or(soon, |at| at.min(soon))),
    };
    // Those before where this look began are still there.
    let holds = state.holds || began.is_some() || work.may_hold_more(name.id());
    let look_again = look_again.filter(|_| holds);
    let stops = state.stops.then_some(now);
    let due_at = look_again.into_iter().chain(state.resets_at).chain(stops).min();
    if due_at != gate.due_at || state != gate.state {
        work.change_gate(name, |gate| (gate.due_at, gate.state) = (due_at, state));
    }
}

/// What waits for a gate goes on: it is ready, or what suspended it is over.
fn go_on(work: &mut Work, row: &Execution, name: &GateName) {
    match &row.state {
        State::Suspended(suspension) => {
            let mut suspension = Suspension::clone(suspension);
            suspension.gate_opened(name);
            suspend::notice(work, row.id, suspension, (Notice::Gate, ResumedBy::Condition), None);
        }
        _ => {
            work.apply(row.id, Fact::Admitted { gate: name.clone() }, None, |row| row.state = State::Waiting);
        }
    }
}

/// Look at a gate that may be open and hold something.
#[derive(Clone, Debug)]
pub struct LookAtGate {
    /// Which.
    pub gate: GateName,
    /// Whether what runs under a budget that is used up was stopped.
    pub stopped: bool,
    /// Whether to look before it is due.
    pub now: bool,
}

impl Rule for LookAtGate {
    type Reply = LookedAt;
    const PHASE: Phase = Phase::Operators;

    fn profile(&self) -> Profile {
        Profile::weighing(32)
    }

    /// The gate, locked; then the executions it holds, from where the last look ended.
    fn needs(&self, work: &Work, needs: &mut Needs) {
        if self.gate.kind == GateKind::Budget && self.gate.part.is_some() {
            needs.gates.lock([GateName { part: None, ..self.gate.clone() }.id()]);
            needs.parts.lock([self.gate.id()]);
        } else {
            needs.gates.lock([self.gate.id()]);
        }
        let id = self.gate.id();
        if work.has_requested_gate(id) && !work.has_asked_held(id) {
            let after = work.gate(&self.gate).state.looked.map(|looked| looked.after);
            needs.queries.held.push(HeldBy { gate: id, limit: CHUNK, after });
        }
    }

    /// Ends a period that is over, and releases the executions that may go on.
    fn decide(&self, work: &mut Work) -> LookedAt {
        let now = work.now();
        let gate = work.gate(&self.gate).into_owned();
        if self.stopped && gate.state.stops {
            work.change_gate(&self.gate, |gate| gate.state.stops = false);
        }
        if !self.now && gate.due_at.is_none_or(|at| at > now) {
            return LookedAt::default();
        }
        let released = match self.gate.kind {
            GateKind::Lane | GateKind::Fair => {
                if gate.due_at.is_some() {
                    work.change_gate(&self.gate, |gate| gate.due_at = None);
                }
                let lines = Some(self.gate.clone()).filter(|name| name.kind == GateKind::Fair);
                lines.iter().for_each(|line| move_up(work, line));
                work.gate(&self.gate).active.saturating_sub(gate.active)
            }
            GateKind::Key | GateKind::Quota => release(work, &self.gate, true),
            GateKind::Budget => {
                super::budget::keep(&self.gate, work);
                release(work, &self.gate, true)
            }
        };
        LookedAt { released, goes_on: work.gate(&self.gate).state.looked.is_some() }
    }
}

/// What a look at a gate came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LookedAt {
    /// How many may go on.
    pub released: u32,
    /// Whether there is more to be looked at at once.
    pub goes_on: bool,
}
