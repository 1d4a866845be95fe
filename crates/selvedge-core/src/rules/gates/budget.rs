//! Budgets: spent amounts are always counted, and exactly once. A budget that is used up holds claims and, if its
//! policy says so, stops active executions.

use super::machine::Occasion;
use super::{CHUNK, lock_gate, record_held, release, whole};
use crate::digest::Digest;
use crate::fact::{self, Fact, Failure, Next};
use crate::gate::draws::{draws_on, part_of};
use crate::gate::{Amounts, Config, DIMENSIONS_MAX, Gate, GateKind, GateName, LedgerEntry, OnHard, add};
use crate::history::lease_of;
use crate::name::{KEY_LIMIT, NAME_LIMIT};
use crate::rows::{HeldBy, KeyName, KeyRow, KeyScope, Needs};
use crate::rule::{LeaseEffect, Phase, Profile, Rule};
use crate::rules::follow;
use crate::rules::keyed::Repeatable;
use crate::rules::report::{Attempt, Fence, Operation, Report, Reported};
use crate::state::State;
use crate::suspension::{Condition, OnTimeout, Suspension, Wait};
use crate::{Execution, ExecutionId, FailureClass, Name, NamespaceId, Outcome, Refusal, Timestamp, Work};
use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_64;

/// Time for which the `dedup_key` of a spent amount is kept: 30 days.
const KEY_WINDOW_MS: i64 = 30 * 24 * 3600 * 1000;

/// Records amounts spent from a budget.
#[derive(Clone, Debug, PartialEq)]
pub struct Spend {
    pub namespace: NamespaceId,
    pub budget: Name,
    /// The amounts spent.
    pub usage: Amounts,
    /// Key for deduplication: a repeated report with this key is counted once. Default: every report counts.
    pub dedup_key: Option<Name>,
    /// The execution that spent the amounts, if any.
    pub execution: Option<ExecutionId>,
}

impl Spend {
    /// Checks every field. The refusal names the first invalid one.
    pub fn check(&self) -> Result<(), Refusal> {
        Name::parse("/budget", &self.budget, NAME_LIMIT)?;
        if let Some(key) = &self.dedup_key {
            Name::parse("/dedup_key", key, KEY_LIMIT - NAME_LIMIT - 1)?;
        }
        if self.usage.len() > DIMENSIONS_MAX {
            let detail = format!("has {} dimensions; at most {DIMENSIONS_MAX} are allowed", self.usage.len());
            return Err(Refusal::field("/usage", detail));
        }
        for dimension in self.usage.keys() {
            let pointer = format!("/usage/{}", dimension.replace('~', "~0").replace('/', "~1"));
            Name::parse(&pointer, dimension, NAME_LIMIT)?;
        }
        Ok(())
    }

    /// Returns the whole budget, which has the configuration.
    fn whole(&self) -> GateName {
        GateName::new(self.namespace, GateKind::Budget, self.budget.clone())
    }

    /// Returns the name of the deduplication key, if there is one.
    fn key(&self) -> Option<KeyName> {
        let key = self.dedup_key.as_ref()?;
        // Names may contain colons. The length says where the budget's name ends.
        let key = Name::trusted(&format!("{}:{}:{key}", self.budget.len(), self.budget));
        Some(KeyName { namespace: self.namespace, scope: KeyScope::Usage, key })
    }

    /// Returns the part of the budget that counts the amounts, or the whole.
    fn counted(&self, work: &Work) -> GateName {
        let whole = self.whole();
        let scope = work.gate(&whole).config.as_ref().map(|config| config.scope).unwrap_or_default();
        let row = self.execution.and_then(|id| work.execution(self.namespace, id).ok());
        match row.and_then(|row| part_of(row, scope, work.lane_of(row.class))) {
            Some(part) => whole.part(part),
            None => whole,
        }
    }

    /// Adds the amounts to the budget and the ledger, and emits the events. Amounts of an execution that was deleted are
    /// counted without it.
    fn count(&self, config: &Config, work: &mut Work) {
        let name = self.counted(work);
        let gate = work.gate(&name);
        let now = work.now();
        let reached = |hard| gate.newly_reached(&config.limits, &self.usage, hard);
        let (soft, hard, period) = (reached(false), reached(true), gate.state.period);
        let row = self.execution.and_then(|id| work.execution(self.namespace, id).ok());
        let execution = row.map(|row| row.id);
        let is_active = row.is_some_and(|row| row.state.lease().is_some() && draws_on(row, &name));
        work.change_gate(&name, |gate| {
            add(&mut gate.state.used, &self.usage);
            if gate.state.resets_at.is_none() {
                gate.state.resets_at = config.period_ms.map(|ms| now.plus_ms(ms));
                gate.due_at = gate.due_at.into_iter().chain(gate.state.resets_at).min();
            }
            // The execution is still active although the budget was used up before: the limits were lowered since.
            if !hard.is_empty() || (is_active && gate.is_used_up(&config.limits)) {
                request_stop(gate, config, now);
            }
        });
        work.add_to_ledger(LedgerEntry { gate: name.id(), period, execution, spent: self.usage.clone() });
        let fact = Fact::Spent(fact::Spent { gate: name.clone(), execution, amounts: self.usage.clone() });
        work.emit_about(self.namespace, execution, fact, None);
        for (reached, hard) in [(soft, false), (hard, true)] {
            for (dimension, limit) in reached {
                let used = work.gate(&name).state.used.get(&dimension).copied().unwrap_or_default();
                let fact = Fact::LimitReached(fact::LimitReached {
                    gate: name.clone(),
                    dimension,
                    limit,
                    used,
                    hard,
                });
                work.emit(self.namespace, fact, None);
            }
        }
    }
}

/// The reply to a report of spent amounts.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    /// The amounts were counted before, under the same key.
    pub duplicate: bool,
    /// The dimensions of the report whose hard limit is reached.
    pub breached: Vec<String>,
    /// Stops the active execution that spent the amounts: its budget is used up, and the policy does not let it
    /// continue. A reconciler runs it, too, if the caller does not.
    pub stops: Option<Breach>,
}

impl Spend {
    /// Returns the effect of the counted amounts on the budget and on the execution.
    fn effect(&self, duplicate: bool, config: &Config, work: &Work) -> Counted {
        let gate = self.counted(work);
        let state = &work.gate(&gate).state;
        let is_reached = |dimension: &String| {
            let hard = config.limits.get(dimension).and_then(|limit| limit.hard);
            hard.is_some_and(|hard| state.used.get(dimension).copied().unwrap_or_default() >= hard)
        };
        let spent = self.usage.iter().filter(|(_, amount)| !amount.is_zero()).map(|(dimension, _)| dimension);
        let breached: Vec<String> = spent.filter(|dimension| is_reached(dimension)).cloned().collect();
        let row = self.execution.and_then(|id| work.execution(self.namespace, id).ok());
        let stops = row
            .filter(|row| config.on_hard != OnHard::Hold && !breached.is_empty() && draws_on(row, &gate))
            .filter(|row| row.state.lease().is_some())
            .map(|row| Breach { execution: row.id, gate: gate.clone() });
        Counted { duplicate, breached, stops }
    }
}

impl Rule for Spend {
    type Reply = Result<Counted, Refusal>;
    const PHASE: Phase = Phase::Operators;

    fn profile(&self) -> Profile {
        Profile::weighing(1)
    }

    /// Locks the budget and reads the execution; then locks the part of the budget that counts for the execution.
    fn needs(&self, work: &Work, needs: &mut Needs) {
        let whole = self.whole().id();
        if !work.has_requested_gate(whole) {
            needs.gates.lock([whole]);
            needs.keys.read(self.key());
            needs.executions.read(self.execution);
            return;
        }
        let row = self.execution.and_then(|id| work.find(id).ok().flatten());
        if row.is_some_and(|row| work.lane_of(row.class).is_none()) {
            // A budget may count each lane separately, and another server may have interned the class.
            needs.queries.classes_after = Some(work.newest_class());
        }
        let counted = self.counted(work);
        if counted.part.is_some() {
            needs.parts.lock([counted.id()]);
        }
    }

    /// Counts the amounts, once for each key.
    fn decide(&self, work: &mut Work) -> Result<Counted, Refusal> {
        self.check()?;
        let Some(config) = work.gate(&self.whole()).config.clone() else {
            return Err(Refusal::NotFound { what: "budget".into(), id: self.budget.to_string() });
        };
        let now = work.now();
        let digest =
            xxh3_64(&postcard::to_stdvec(&(&self.usage, self.execution)).expect("amounts always serialise"));
        if let Some(name) = self.key() {
            if let Some(known) = work.key(&name).filter(|known| known.expires_at.is_none_or(|at| at > now)) {
                return match known.digest == digest {
                    true => Ok(self.effect(true, &config, work)),
                    false => Err(Refusal::IdempotencyMismatch {
                        pointer: "/dedup_key".into(),
                        detail: "was used for other amounts or another execution; use a new key".into(),
                    }),
                };
            }
            let expires_at = Some(now.plus_ms(KEY_WINDOW_MS));
            work.put_key(KeyRow { name, subject: None, digest, answer: Bytes::new(), expires_at });
        }
        self.count(&config, work);
        Ok(self.effect(false, &config, work))
    }
}

/// Charges usage that a worker reports.
pub(in crate::rules) struct Usage<'a>(pub &'a Spend);

impl Operation for Usage<'_> {
    fn check(&self) -> Result<(), Refusal> {
        self.0.check()
    }

    fn effect(&self) -> (LeaseEffect, bool) {
        (LeaseEffect::Unchanged, false)
    }

    fn needs(&self, _report: &Report, _held: Option<&Execution>, work: &Work, needs: &mut Needs) {
        self.0.needs(work, needs);
    }

    fn add_to(&self, digest: &mut Digest) {
        digest.raw(b"usage");
    }

    fn apply(&self, of: &Attempt<'_>, work: &mut Work) -> Result<Reported, Refusal> {
        self.spend(of.report.fence, of.row, work)
    }
}

impl Usage<'_> {
    /// Charges usage. It counts even if the lease has ended since: the fence may be that of any earlier lease.
    pub fn spend(&self, fence: Fence, row: &Execution, work: &mut Work) -> Result<Reported, Refusal> {
        let Fence { attempt, lease_id, epoch, .. } = fence;
        let lines = row.history.lines();
        let lines =
            lines.map_err(|error| Refusal::Unreadable { execution: row.id, detail: error.to_string() })?;
        let held = match lease_of(&lines, attempt) {
            Some(lease) => lease.id == lease_id && lease.epoch == epoch,
            // The line of the claim may have moved to a page.
            None => {
                row.detail.history_pages > 0 && epoch <= row.epoch && attempt.checked_add(1) == Some(epoch)
            }
        };
        if !held {
            return Err(row.stale());
        }
        let usage = Some(self.count(work)?);
        Ok(Reported { state: row.state.name(), usage, ..Reported::active() })
    }

    /// Counts usage. The report names the budget in its body.
    pub fn count(&self, work: &mut Work) -> Result<Counted, Refusal> {
        self.0.decide(work).map_err(|refusal| match refusal {
            Refusal::NotFound { .. } => {
                Refusal::UnknownBudget { pointer: "/budget".into(), budget: self.0.budget.to_string() }
            }
            refusal => refusal,
        })
    }
}

/// Makes a reconciler stop the active executions of a budget that is used up, if its policy says so.
pub(super) fn request_stop(gate: &mut Gate, config: &Config, now: Timestamp) {
    if config.on_hard != OnHard::Hold {
        gate.state.stops = true;
        gate.due_at = Some(now);
    }
}

/// Brings the period of a budget, or of a part of it, up to date: ends a period that is over, applies a period that was
/// configured since, and clears the usage of a budget whose configuration was removed.
pub fn update_period(name: &GateName, work: &mut Work) {
    let (gate, now) = (work.gate(name), work.now());
    let Some(config) = work.gate(&whole(name)).config.clone() else {
        if gate.state != without_usage(&gate).state {
            work.change_gate(name, |gate| *gate = without_usage(gate));
        }
        return;
    };
    if gate.state.resets_at.is_some_and(|at| at <= now) {
        return reset(name, None, work);
    }
    let begun = gate.state.resets_at.is_some() || !gate.state.used.is_empty();
    let latest = config.period_ms.map(|ms| now.plus_ms(ms)).filter(|_| begun);
    let resets_at = latest.map(|latest| gate.state.resets_at.map_or(latest, |at| at.min(latest)));
    if resets_at != gate.state.resets_at {
        work.change_gate(name, |gate| gate.state.resets_at = resets_at);
    }
}

/// Returns a budget whose configuration was removed, without its usage. Amounts that active executions have reserved
/// stay until they are given back. Amounts that are spent later under the same name belong to another period.
pub fn without_usage(gate: &Gate) -> Gate {
    let mut state = gate.state.clone();
    state.period += u32::from(!state.used.is_empty());
    state.used.clear();
    (state.starts, state.resets_at, state.stops, state.promised) = Default::default();
    Gate { state, due_at: None, ..gate.clone() }
}

/// Clears the usage of a budget, and begins a new period.
pub fn reset(name: &GateName, actor: Option<Name>, work: &mut Work) {
    let now = work.now();
    let period_ms = work.gate(&whole(name)).config.as_ref().and_then(|config| config.period_ms);
    work.change_gate(name, |gate| {
        gate.state.used.clear();
        gate.state.period += 1;
        gate.state.stops = false;
        // Periods that ended while no server was running are skipped.
        gate.state.resets_at = period_ms.map(|ms| {
            let last = gate.state.resets_at.filter(|at| *at <= now).unwrap_or(now);
            let over = now.ms_since(last) / ms.max(1);
            last.plus_ms((over + 1).saturating_mul(ms)).max(now.plus_ms(1))
        });
        gate.due_at = gate.state.resets_at;
    });
    let period = work.gate(name).state.period;
    work.emit(name.namespace, Fact::BudgetReset(fact::BudgetReset { gate: name.clone(), period }), actor);
}

/// Resets the usage of a budget.
#[derive(Clone, Debug)]
pub struct Reset {
    /// The budget, or a part of it.
    pub gate: GateName,
    pub actor: Name,
}

impl Rule for Reset {
    type Reply = Result<(), Refusal>;
    const PHASE: Phase = Phase::Operators;

    fn profile(&self) -> Profile {
        Profile::weighing(32)
    }

    fn needs(&self, _work: &Work, needs: &mut Needs) {
        lock_gate(&self.gate, needs);
        needs.queries.held.push(HeldBy::first(self.gate.id(), CHUNK));
    }

    /// Resets the usage, and releases held executions.
    fn decide(&self, work: &mut Work) -> Result<(), Refusal> {
        if work.gate(&whole(&self.gate)).config.is_none() {
            return Err(Refusal::NotFound { what: "budget".into(), id: self.gate.name.to_string() });
        }
        reset(&self.gate, Some(self.actor.clone()), work);
        release(work, &self.gate, Occasion::Configure);
        Ok(())
    }
}

impl Repeatable for Reset {
    type Done = ();
    type Answer = ();

    fn namespace(&self) -> NamespaceId {
        self.gate.namespace
    }

    fn answer(_done: &()) {}

    fn repeat(&self, (): (), _work: &Work) -> Result<(), Refusal> {
        Ok(())
    }
}

/// Stops an active execution that draws on a budget that is used up, as the budget's policy says. The result of the
/// attempt may be on its way: until the next claim, the end of the attempt is accepted from a suspended execution.
#[derive(Clone, Debug, PartialEq)]
pub struct Breach {
    pub execution: ExecutionId,
    /// The budget, or the part of it that is used up.
    pub gate: GateName,
}

impl Rule for Breach {
    type Reply = Result<bool, Refusal>;
    const PHASE: Phase = Phase::Operators;

    fn profile(&self) -> Profile {
        Profile::on(self.execution)
    }

    /// Locks the execution, waiting for the lock, because nothing else would stop the execution. Its gates are loaded
    /// with it.
    fn needs(&self, _work: &Work, needs: &mut Needs) {
        needs.executions.lock([self.execution]);
    }

    /// Stops the execution if the budget is still used up. Returns true if it did.
    fn decide(&self, work: &mut Work) -> Result<bool, Refusal> {
        let Some(row) = work.find(self.execution)?.cloned() else { return Ok(false) };
        let Some(config) = work.gate(&whole(&self.gate)).config.clone() else { return Ok(false) };
        let (Some(lease), true) = (row.lease_ref(), draws_on(&row, &self.gate)) else { return Ok(false) };
        if !work.gate(&self.gate).is_used_up(&config.limits) {
            return Ok(false);
        }
        let gate = self.gate.clone();
        let message = format!("{gate} is used up");
        match config.on_hard {
            OnHard::Hold => return Ok(false),
            // The worker was asked to cancel the execution, and loses its lease here.
            OnHard::Fail | OnHard::Suspend if row.detail.cancel.is_some() => {
                let next = Next::Terminal(Outcome::Cancelled);
                let fact = Fact::Breached(fact::Breached { lease, gate, next, suspension: None });
                work.apply(row.id, fact, None, |row| follow(row, next));
            }
            OnHard::Fail => {
                let next = Next::Terminal(Outcome::Failed);
                let fact = Fact::Breached(fact::Breached { lease, gate, next, suspension: None });
                work.apply(row.id, fact, None, |row| {
                    follow(row, next);
                    row.detail.error = Some(Failure { message, class: FailureClass::Permanent });
                });
            }
            OnHard::Suspend => {
                let condition = Condition::Any(vec![
                    Condition::operator(),
                    Condition::Gate { gate: gate.clone(), open: false },
                ]);
                let wait = Wait {
                    step: None,
                    condition,
                    timeout_at: None,
                    on_timeout: OnTimeout::Fail,
                    escalated: false,
                };
                let suspension = Suspension {
                    number: row.detail.record.suspensions + 1,
                    since: work.now(),
                    lease: lease.clone(),
                    waits: vec![wait],
                };
                let next = Next::Suspended;
                let fact = Fact::Breached(fact::Breached {
                    lease,
                    gate,
                    next,
                    suspension: Some(suspension.clone()),
                });
                // The execution waits for the budget like a held one.
                record_held(work, &row, &self.gate);
                work.apply(row.id, fact, None, |row| {
                    row.detail.breached = Some(suspension.lease.clone());
                    row.state = State::Suspended(suspension.into());
                    row.detail.record.suspensions += 1;
                    row.detail.record.resumed_by = None;
                });
            }
        }
        Ok(true)
    }
}
