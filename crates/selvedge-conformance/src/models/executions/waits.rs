//! Waits in the reference model: the signals that each has matched, whether its condition holds, and the effects of its end.
//!
//! A wait stores only the signals that it has matched, in order; everything else is derived from them. The rules of core, by
//! contrast, store in every leaf what that leaf has matched.

use super::command::{ConditionSpec, WaitSpec, WaitpointSpec};
use super::records::{ModelKey, ModelSignal, ModelStep, StepResult};
use super::reference::{ModelExecution, ModelState, ms};
use selvedge_core::state::StateName;
use selvedge_core::suspension::{Distinct, OnTimeout, ResumedBy};
use selvedge_core::{DueKind, Outcome};
use std::collections::BTreeSet;

/// A wait of a suspended execution.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelWait {
    pub spec: WaitSpec,
    /// The start of its durations.
    pub since: i64,
    /// The numbers of the matched signals.
    pub matched: Vec<u32>,
    /// Times up to this one count as reached.
    pub time_reached: i64,
    /// True if an operator has allowed it.
    pub allowed: bool,
    /// True if the children are known to have ended. An execution without a flow has none.
    pub children_ended: bool,
    pub escalated: bool,
}

/// Returns the value by which a count distinguishes this signal; none if the count does not accept it.
fn distinct_value(of: &[u8], distinct: Distinct, signal: &ModelSignal) -> Option<u8> {
    let named = of.contains(&signal.name);
    match distinct {
        Distinct::Signals => named.then_some(signal.name),
        Distinct::Sources => named.then_some(signal.source),
        Distinct::Waitpoints => signal.through.filter(|through| named || of.contains(through)),
    }
}

impl ModelWait {
    /// Returns the matched signals, in order.
    fn matched<'a>(&self, all: &'a [ModelSignal]) -> impl Iterator<Item = &'a ModelSignal> {
        self.matched.iter().map(|number| &all[*number as usize - 1])
    }

    /// Returns the first matched signal of each distinct value, at most `n`.
    pub fn distinct_signals(
        &self,
        n: u32,
        of: &[u8],
        distinct: Distinct,
        all: &[ModelSignal],
    ) -> Vec<(u8, u32)> {
        let mut distinct_signals: Vec<(u8, u32)> = Vec::new();
        for signal in self.matched(all) {
            let value = distinct_value(of, distinct, signal)
                .filter(|value| distinct_signals.iter().all(|(of, _)| of != value));
            distinct_signals.extend(value.map(|value| (value, signal.number)));
        }
        distinct_signals.truncate(n as usize);
        distinct_signals
    }

    /// Returns the first matched signal of this name.
    pub fn first(&self, name: u8, all: &[ModelSignal]) -> Option<u32> {
        self.matched(all).find(|signal| signal.name == name).map(|signal| signal.number)
    }

    /// Returns the signals by which the condition holds; none if it does not hold.
    pub fn satisfied_by(&self, all: &[ModelSignal]) -> Option<BTreeSet<u32>> {
        self.part_satisfied_by(&self.spec.condition, all)
    }

    fn part_satisfied_by(&self, condition: &ConditionSpec, all: &[ModelSignal]) -> Option<BTreeSet<u32>> {
        let nothing = |holds: bool| holds.then(BTreeSet::new);
        match condition {
            ConditionSpec::Signal(name) => self.first(*name, all).map(|number| BTreeSet::from([number])),
            ConditionSpec::Any(parts) => parts.iter().find_map(|part| self.part_satisfied_by(part, all)),
            ConditionSpec::All(parts) => {
                let by: Option<Vec<BTreeSet<u32>>> =
                    parts.iter().map(|part| self.part_satisfied_by(part, all)).collect();
                by.map(|by| by.into_iter().flatten().collect())
            }
            ConditionSpec::Count { n, of, distinct } => {
                let distinct_signals = self.distinct_signals(*n, of, *distinct, all);
                (distinct_signals.len() == *n as usize)
                    .then(|| distinct_signals.into_iter().map(|(_, number)| number).collect())
            }
            ConditionSpec::Until(wait) => nothing(self.since + ms(*wait) <= self.time_reached),
            ConditionSpec::Operator => nothing(self.allowed),
            ConditionSpec::Children => nothing(self.children_ended),
        }
    }

    /// Returns true if a part of the condition still accepts this signal.
    fn accepts(&self, condition: &ConditionSpec, signal: &ModelSignal, all: &[ModelSignal]) -> bool {
        match condition {
            ConditionSpec::Signal(name) => *name == signal.name && self.first(*name, all).is_none(),
            ConditionSpec::Any(parts) | ConditionSpec::All(parts) => {
                parts.iter().any(|part| self.accepts(part, signal, all))
            }
            ConditionSpec::Count { n, of, distinct } => {
                let distinct_signals = self.distinct_signals(*n, of, *distinct, all);
                let new = |value: u8| distinct_signals.iter().all(|(of, _)| *of != value);
                distinct_signals.len() < *n as usize && distinct_value(of, *distinct, signal).is_some_and(new)
            }
            ConditionSpec::Until(_) | ConditionSpec::Operator | ConditionSpec::Children => false,
        }
    }

    fn any_leaf(condition: &ConditionSpec, predicate: &impl Fn(&ConditionSpec) -> bool) -> bool {
        match condition {
            ConditionSpec::Any(parts) | ConditionSpec::All(parts) => {
                parts.iter().any(|part| Self::any_leaf(part, predicate))
            }
            leaf => predicate(leaf),
        }
    }

    /// Adds the names that the counts of a condition list; with `singles`, also those of single signals.
    fn add_names(condition: &ConditionSpec, singles: bool, names: &mut BTreeSet<u8>) {
        match condition {
            ConditionSpec::Any(parts) | ConditionSpec::All(parts) => {
                parts.iter().for_each(|part| Self::add_names(part, singles, names));
            }
            ConditionSpec::Count { of, .. } => names.extend(of),
            ConditionSpec::Signal(name) if singles => drop(names.insert(*name)),
            ConditionSpec::Signal(_)
            | ConditionSpec::Until(_)
            | ConditionSpec::Operator
            | ConditionSpec::Children => {}
        }
    }

    fn needs_operator(&self) -> bool {
        !self.allowed && Self::any_leaf(&self.spec.condition, &|leaf| *leaf == ConditionSpec::Operator)
    }

    fn times(condition: &ConditionSpec) -> Vec<i64> {
        match condition {
            ConditionSpec::Any(parts) | ConditionSpec::All(parts) => {
                parts.iter().flat_map(Self::times).collect()
            }
            ConditionSpec::Until(wait) => vec![ms(*wait)],
            _ => vec![],
        }
    }

    /// Returns the earliest time that is not reached yet.
    pub fn next_time(&self) -> Option<i64> {
        let times = Self::times(&self.spec.condition).into_iter().map(|wait| self.since + wait);
        times.filter(|at| *at > self.time_reached).min()
    }

    /// Returns the time of its timeout; none once it has escalated.
    pub fn times_out_at(&self) -> Option<i64> {
        self.spec.timeout_ms.filter(|_| !self.escalated).map(|wait| self.since + ms(wait))
    }
}

/// Matches a signal with the first wait that does not hold and accepts it. Returns false if there is none.
fn match_signal(waits: &mut [ModelWait], signal: &ModelSignal, all: &[ModelSignal]) -> bool {
    let accepts = |wait: &&mut ModelWait| {
        wait.satisfied_by(all).is_none() && wait.accepts(&wait.spec.condition, signal, all)
    };
    let Some(wait) = waits.iter_mut().find(accepts) else { return false };
    wait.matched.push(signal.number);
    true
}

impl ModelExecution {
    pub fn is_suspended(&self) -> bool {
        matches!(self.state, ModelState::Suspended(_))
    }

    /// Suspends the execution. Returns its state after that and the numbers of the requested waitpoints.
    pub fn suspend(
        &mut self,
        waits: &[WaitSpec],
        points: &[WaitpointSpec],
        keys: &mut Vec<ModelKey>,
        now: i64,
    ) -> Result<(StateName, Vec<u32>), &'static str> {
        for (name, kind) in waits.iter().filter_map(|wait| wait.step) {
            let known = self.record.steps.iter().find(|step| step.name == name);
            if known.is_some_and(|step| step.result.is_some() || step.kind != kind) {
                return Err("idempotency_mismatch");
            }
        }
        let created = self.create_waitpoints(points, keys, now)?;
        let mut names = BTreeSet::new();
        waits.iter().for_each(|wait| ModelWait::add_names(&wait.condition, true, &mut names));
        self.open_waitpoints(&names, now);
        let waits: Vec<ModelWait> = waits.iter().map(|wait| self.begin(wait, now)).collect();
        self.record.suspensions += 1;
        self.record.resumed_by = None;
        let cancelled = self.cancel_until.is_some();
        self.move_to(
            if cancelled { ModelState::Ended(Outcome::Cancelled) } else { ModelState::Suspended(waits) },
            now,
        );
        if let ModelState::Suspended(waits) = &mut self.state {
            let signals = self.record.signals.clone();
            for signal in signals.iter().filter(|signal| signal.taken.is_none()) {
                match_signal(waits, signal, &signals);
            }
            waits.iter_mut().for_each(|wait| wait.time_reached = now);
            if !self.resume_if_satisfied(ResumedBy::Condition, now) {
                self.check_children(now);
            }
        }
        Ok((self.state.name(), created))
    }

    /// Checks the children if nothing else satisfied a wait. An execution without a flow has none, so all have ended.
    fn check_children(&mut self, now: i64) {
        let ModelState::Suspended(waits) = &mut self.state else { return };
        let awaits_children = |wait: &ModelWait| {
            ModelWait::any_leaf(&wait.spec.condition, &|leaf| *leaf == ConditionSpec::Children)
        };
        if !waits.iter().any(awaits_children) {
            return;
        }
        waits.iter_mut().for_each(|wait| wait.children_ended = true);
        if !self.resume_if_satisfied(ResumedBy::Condition, now) {
            self.version += 1;
        }
    }

    /// Begins a wait. Its durations start at the first wait on its step in this generation.
    fn begin(&mut self, wait: &WaitSpec, now: i64) -> ModelWait {
        let attempt = self.epoch - 1;
        let since = wait.step.map_or(now, |(name, kind)| {
            let opened_at = self.opened_at;
            let steps = &mut self.record.steps;
            match steps.iter_mut().find(|step| step.name == name) {
                Some(step) if step.started_at >= opened_at => {}
                Some(step) => (step.started_at, step.attempt) = (now, attempt),
                None => steps.push(ModelStep { name, kind, attempt, started_at: now, result: None }),
            }
            steps.iter().find(|step| step.name == name).map_or(now, |step| step.started_at)
        });
        let (matched, spec) = (Vec::new(), wait.clone());
        // Earlier signals are matched before times are checked.
        let time_reached = i64::MIN;
        ModelWait {
            spec,
            since,
            matched,
            time_reached,
            allowed: false,
            children_ended: false,
            escalated: false,
        }
    }

    /// Matches a signal with the waits. Returns whether a wait accepted it, and whether the execution resumes.
    pub fn match_waits(&mut self, signal: &ModelSignal, now: i64) -> (bool, bool) {
        let all = self.record.signals.clone();
        let ModelState::Suspended(waits) = &mut self.state else { return (false, false) };
        let matched = match_signal(waits, signal, &all);
        (matched, matched && self.resume_if_satisfied(ResumedBy::Condition, now))
    }

    /// Resumes the execution if one of its waits holds. Returns whether it did.
    fn resume_if_satisfied(&mut self, by: ResumedBy, now: i64) -> bool {
        let ModelState::Suspended(waits) = &self.state else { return false };
        let satisfied = waits.iter().any(|wait| wait.satisfied_by(&self.record.signals).is_some());
        if satisfied {
            self.resume_with(by, |_| false, now);
        }
        satisfied
    }

    /// Resumes the execution: ends the waits that hold and those for which `forced` is true.
    fn resume_with(&mut self, by: ResumedBy, forced: impl Fn(usize) -> bool, now: i64) {
        let ModelState::Suspended(waits) = self.state.clone() else { return };
        let suspension = self.record.suspensions;
        let mut taken: BTreeSet<u32> = BTreeSet::new();
        let (mut counted, mut awaited) = (BTreeSet::new(), BTreeSet::new());
        for (index, wait) in waits.iter().enumerate() {
            let held = wait.satisfied_by(&self.record.signals);
            if held.is_none() && !forced(index) {
                ModelWait::add_names(&wait.spec.condition, true, &mut awaited);
                continue;
            }
            ModelWait::add_names(&wait.spec.condition, false, &mut counted);
            let ended_by = if held.is_some() { ResumedBy::Condition } else { by };
            let signals = held.unwrap_or_else(|| wait.matched.iter().copied().collect());
            taken.extend(&signals);
            let name = wait.spec.step.map(|(name, _)| name);
            if let Some(step) = self.record.steps.iter_mut().find(|step| Some(step.name) == name) {
                step.result = Some(StepResult::Waited(ended_by, signals.into_iter().collect()));
                self.interruptions_before_progress = self.interruptions;
            }
        }
        for signal in self.record.signals.iter_mut().filter(|signal| taken.contains(&signal.number)) {
            signal.taken = Some(suspension);
        }
        self.record.resumed_by = Some(by);
        self.move_to(ModelState::Waiting, now);
        self.close_waitpoints(Some(&counted.difference(&awaited).copied().collect()));
    }

    /// Resumes the execution as an operator: allows the waits that need one; if none does, ends all waits.
    pub fn resume(&mut self, now: i64) {
        let ModelState::Suspended(waits) = &mut self.state else { return };
        if !waits.iter().any(ModelWait::needs_operator) {
            self.resume_with(ResumedBy::Operator, |_| true, now);
            return;
        }
        waits.iter_mut().for_each(|wait| wait.allowed = true);
        if !self.resume_if_satisfied(ResumedBy::Operator, now) {
            self.version += 1;
        }
    }

    /// Applies a time that was reached (`Delay`) or the earliest timeout (`SuspensionTimeout`).
    pub fn apply_due_wait(&mut self, kind: DueKind, now: i64) {
        let ModelState::Suspended(waits) = &mut self.state else { return };
        if kind == DueKind::Delay {
            waits.iter_mut().for_each(|wait| wait.time_reached = now);
            if !self.resume_if_satisfied(ResumedBy::Condition, now) {
                self.version += 1;
            }
            return;
        }
        let late = waits.iter().enumerate().filter_map(|(index, wait)| Some((wait.times_out_at()?, index)));
        let Some((_, index)) = late.min() else { return };
        match waits[index].spec.on_timeout {
            OnTimeout::Fail => self.move_to(ModelState::Ended(Outcome::Failed), now),
            OnTimeout::Cancel => self.move_to(ModelState::Ended(Outcome::Cancelled), now),
            OnTimeout::Expire => self.move_to(ModelState::Ended(Outcome::Expired), now),
            OnTimeout::Resume => self.resume_with(ResumedBy::Timeout, |one| one == index, now),
            OnTimeout::Escalate => {
                waits[index].escalated = true;
                self.version += 1;
            }
        }
    }
}
