//! The reference model's waits: what each has heard, whether that is enough, and what ends with it.
//!
//! A wait remembers the signals that count for it, in order, and everything else is derived from them: unlike the rules of
//! core, which keep in every leaf what that leaf has heard.

use super::command::{Point, Shape, Wait};
use super::recorded::{Arrived, Key, Noted, Outcome as Recorded};
use super::reference::{Known, Place, ms};
use selvedge_core::state::StateName;
use selvedge_core::suspension::{Distinct, OnTimeout, ResumedBy};
use selvedge_core::{DueKind, Outcome};
use std::collections::BTreeSet;

/// A wait of a suspended execution.
#[derive(Clone, Debug, PartialEq)]
pub struct Waiting {
    pub spec: Wait,
    /// Its durations count from here.
    pub since: i64,
    /// The numbers of the signals that count for it.
    pub heard: Vec<u32>,
    /// Times up to here have come.
    pub looked_at: i64,
    /// Whether an operator has said so.
    pub allowed: bool,
    /// Whether the children are known to have ended. One that is alone has none.
    pub joined: bool,
    pub escalated: bool,
}

/// Who speaks, as a count tells voices apart; none where it does not listen to that signal.
fn voice(of: &[u8], distinct: Distinct, signal: &Arrived) -> Option<u8> {
    let named = of.contains(&signal.name);
    match distinct {
        Distinct::Signals => named.then_some(signal.name),
        Distinct::Sources => named.then_some(signal.source),
        Distinct::Waitpoints => signal.through.filter(|through| named || of.contains(through)),
    }
}

impl Waiting {
    /// The signals that it has heard, in order.
    fn heard<'a>(&self, all: &'a [Arrived]) -> impl Iterator<Item = &'a Arrived> {
        self.heard.iter().map(|number| &all[*number as usize - 1])
    }

    /// The first signal of each voice that a count has heard, as many as it wants.
    pub fn voices(&self, n: u32, of: &[u8], distinct: Distinct, all: &[Arrived]) -> Vec<(u8, u32)> {
        let mut voices: Vec<(u8, u32)> = Vec::new();
        for signal in self.heard(all) {
            let voice = voice(of, distinct, signal).filter(|voice| voices.iter().all(|(of, _)| of != voice));
            voices.extend(voice.map(|voice| (voice, signal.number)));
        }
        voices.truncate(n as usize);
        voices
    }

    /// The first signal of this name that it has heard.
    pub fn first(&self, name: u8, all: &[Arrived]) -> Option<u32> {
        self.heard(all).find(|signal| signal.name == name).map(|signal| signal.number)
    }

    /// The signals by which it holds; none where it does not.
    pub fn by(&self, all: &[Arrived]) -> Option<BTreeSet<u32>> {
        self.part_by(&self.spec.shape, all)
    }

    fn part_by(&self, shape: &Shape, all: &[Arrived]) -> Option<BTreeSet<u32>> {
        let nothing = |holds: bool| holds.then(BTreeSet::new);
        match shape {
            Shape::Signal(name) => self.first(*name, all).map(|number| BTreeSet::from([number])),
            Shape::Any(parts) => parts.iter().find_map(|part| self.part_by(part, all)),
            Shape::All(parts) => {
                let by: Option<Vec<BTreeSet<u32>>> =
                    parts.iter().map(|part| self.part_by(part, all)).collect();
                by.map(|by| by.into_iter().flatten().collect())
            }
            Shape::Count { n, of, distinct } => {
                let voices = self.voices(*n, of, *distinct, all);
                (voices.len() == *n as usize).then(|| voices.into_iter().map(|(_, number)| number).collect())
            }
            Shape::Until(wait) => nothing(self.since + ms(*wait) <= self.looked_at),
            Shape::Operator => nothing(self.allowed),
            Shape::Children => nothing(self.joined),
        }
    }

    /// Whether something in it still waits for such a signal.
    fn wants(&self, shape: &Shape, signal: &Arrived, all: &[Arrived]) -> bool {
        match shape {
            Shape::Signal(name) => *name == signal.name && self.first(*name, all).is_none(),
            Shape::Any(parts) | Shape::All(parts) => parts.iter().any(|part| self.wants(part, signal, all)),
            Shape::Count { n, of, distinct } => {
                let voices = self.voices(*n, of, *distinct, all);
                let new = |voice: u8| voices.iter().all(|(of, _)| *of != voice);
                voices.len() < *n as usize && voice(of, *distinct, signal).is_some_and(new)
            }
            Shape::Until(_) | Shape::Operator | Shape::Children => false,
        }
    }

    fn any_leaf(shape: &Shape, such: &impl Fn(&Shape) -> bool) -> bool {
        match shape {
            Shape::Any(parts) | Shape::All(parts) => parts.iter().any(|part| Self::any_leaf(part, such)),
            leaf => such(leaf),
        }
    }

    fn asks_an_operator(&self) -> bool {
        !self.allowed && Self::any_leaf(&self.spec.shape, &|leaf| *leaf == Shape::Operator)
    }

    fn times(shape: &Shape) -> Vec<i64> {
        match shape {
            Shape::Any(parts) | Shape::All(parts) => parts.iter().flat_map(Self::times).collect(),
            Shape::Until(wait) => vec![ms(*wait)],
            _ => vec![],
        }
    }

    /// The earliest time that has yet to come.
    pub fn next_time(&self) -> Option<i64> {
        let times = Self::times(&self.spec.shape).into_iter().map(|wait| self.since + wait);
        times.filter(|at| *at > self.looked_at).min()
    }

    /// When it has waited for too long.
    pub fn times_out_at(&self) -> Option<i64> {
        self.spec.timeout_ms.filter(|_| !self.escalated).map(|wait| self.since + ms(wait))
    }
}

/// The first wait that is not over and still waits for a signal takes it. Says whether one did.
fn hear(waits: &mut [Waiting], signal: &Arrived, all: &[Arrived]) -> bool {
    let wants = |wait: &&mut Waiting| wait.by(all).is_none() && wait.wants(&wait.spec.shape, signal, all);
    let Some(wait) = waits.iter_mut().find(wants) else { return false };
    wait.heard.push(signal.number);
    true
}

impl Known {
    pub fn is_suspended(&self) -> bool {
        matches!(self.place, Place::Suspended(_))
    }

    /// Suspends it. Says where it stands then, and which waitpoints were asked for.
    pub fn suspend(
        &mut self,
        waits: &[Wait],
        points: &[Point],
        keys: &mut Vec<Key>,
        now: i64,
    ) -> Result<(StateName, Vec<u32>), &'static str> {
        for (name, kind) in waits.iter().filter_map(|wait| wait.step) {
            let known = self.record.steps.iter().find(|step| step.name == name);
            if known.is_some_and(|step| step.outcome.is_some() || step.kind != kind) {
                return Err("idempotency_mismatch");
            }
        }
        let made = self.make(points, keys, now)?;
        let waits: Vec<Waiting> = waits.iter().map(|wait| self.begin(wait, now)).collect();
        self.record.suspensions += 1;
        self.record.resumed_by = None;
        let cancelled = self.cancel_until.is_some();
        self.put(if cancelled { Place::Ended(Outcome::Cancelled) } else { Place::Suspended(waits) }, now);
        if let Place::Suspended(waits) = &mut self.place {
            let signals = self.record.signals.clone();
            for signal in signals.iter().filter(|signal| signal.taken.is_none()) {
                hear(waits, signal, &signals);
            }
            waits.iter_mut().for_each(|wait| wait.looked_at = now);
            if !self.go_on_if_enough(ResumedBy::Condition, now) {
                self.join(now);
            }
        }
        Ok((self.place.name(), made))
    }

    /// Children are looked at where nothing else was enough. Nobody who is alone has any, so they have all ended.
    fn join(&mut self, now: i64) {
        let Place::Suspended(waits) = &mut self.place else { return };
        let joins = |wait: &Waiting| Waiting::any_leaf(&wait.spec.shape, &|leaf| *leaf == Shape::Children);
        if !waits.iter().any(joins) {
            return;
        }
        waits.iter_mut().for_each(|wait| wait.joined = true);
        if !self.go_on_if_enough(ResumedBy::Condition, now) {
            self.version += 1;
        }
    }

    /// A wait begins. Its step is open since the first time it was waited for in this generation.
    fn begin(&mut self, wait: &Wait, now: i64) -> Waiting {
        let attempt = self.epoch - 1;
        let since = wait.step.map_or(now, |(name, kind)| {
            let opened_at = self.opened_at;
            let steps = &mut self.record.steps;
            match steps.iter_mut().find(|step| step.name == name) {
                Some(step) if step.started_at >= opened_at => {}
                Some(step) => (step.started_at, step.attempt) = (now, attempt),
                None => steps.push(Noted { name, kind, attempt, started_at: now, outcome: None }),
            }
            steps.iter().find(|step| step.name == name).map_or(now, |step| step.started_at)
        });
        let (heard, spec) = (Vec::new(), wait.clone());
        // What came before is heard first, and times are looked at after that.
        let looked_at = i64::MIN;
        Waiting { spec, since, heard, looked_at, allowed: false, joined: false, escalated: false }
    }

    /// A signal reaches what waits. Says whether something had waited for it, and whether it goes on.
    pub fn hears(&mut self, signal: &Arrived, now: i64) -> (bool, bool) {
        let all = self.record.signals.clone();
        let Place::Suspended(waits) = &mut self.place else { return (false, false) };
        let heard = hear(waits, signal, &all);
        (heard, heard && self.go_on_if_enough(ResumedBy::Condition, now))
    }

    /// It goes on if one of its waits holds; says whether it did.
    fn go_on_if_enough(&mut self, by: ResumedBy, now: i64) -> bool {
        let Place::Suspended(waits) = &self.place else { return false };
        let enough = waits.iter().any(|wait| wait.by(&self.record.signals).is_some());
        if enough {
            self.go_on(by, |_| false, now);
        }
        enough
    }

    /// It goes on: with what holds, and with what is `forced` to end.
    fn go_on(&mut self, by: ResumedBy, forced: impl Fn(usize) -> bool, now: i64) {
        let Place::Suspended(waits) = self.place.clone() else { return };
        let suspension = self.record.suspensions;
        let mut taken: BTreeSet<u32> = BTreeSet::new();
        for (index, wait) in waits.iter().enumerate() {
            let held = wait.by(&self.record.signals);
            if held.is_none() && !forced(index) {
                continue;
            }
            let ended_by = if held.is_some() { ResumedBy::Condition } else { by };
            let signals = held.unwrap_or_else(|| wait.heard.iter().copied().collect());
            taken.extend(&signals);
            let name = wait.spec.step.map(|(name, _)| name);
            if let Some(step) = self.record.steps.iter_mut().find(|step| Some(step.name) == name) {
                step.outcome = Some(Recorded::Waited(ended_by, signals.into_iter().collect()));
            }
        }
        for signal in self.record.signals.iter_mut().filter(|signal| taken.contains(&signal.number)) {
            signal.taken = Some(suspension);
        }
        self.record.resumed_by = Some(by);
        self.put(Place::Waiting, now);
    }

    /// An operator lets it go on: what asks for one is answered; where nothing does, everything ends.
    pub fn resume(&mut self, now: i64) {
        let Place::Suspended(waits) = &mut self.place else { return };
        if !waits.iter().any(Waiting::asks_an_operator) {
            self.go_on(ResumedBy::Operator, |_| true, now);
            return;
        }
        waits.iter_mut().for_each(|wait| wait.allowed = true);
        if !self.go_on_if_enough(ResumedBy::Operator, now) {
            self.version += 1;
        }
    }

    /// A time that is waited for has come, or a wait has waited for too long.
    pub fn wait_is_over(&mut self, kind: DueKind, now: i64) {
        let Place::Suspended(waits) = &mut self.place else { return };
        if kind == DueKind::Delay {
            waits.iter_mut().for_each(|wait| wait.looked_at = now);
            if !self.go_on_if_enough(ResumedBy::Condition, now) {
                self.version += 1;
            }
            return;
        }
        let late = waits.iter().enumerate().filter_map(|(index, wait)| Some((wait.times_out_at()?, index)));
        let Some((_, index)) = late.min() else { return };
        match waits[index].spec.on_timeout {
            OnTimeout::Fail => self.put(Place::Ended(Outcome::Failed), now),
            OnTimeout::Cancel => self.put(Place::Ended(Outcome::Cancelled), now),
            OnTimeout::Expire => self.put(Place::Ended(Outcome::Expired), now),
            OnTimeout::Resume => self.go_on(ResumedBy::Timeout, |one| one == index, now),
            OnTimeout::Escalate => {
                waits[index].escalated = true;
                self.version += 1;
            }
        }
    }
}
