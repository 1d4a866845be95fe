//! Signals, waitpoints, token keys and steps in the reference model.

use super::command::{ReportSpec, SignalSpec, WaitpointSpec};
use super::convert;
use super::reference::{Answer, ModelExecution, Reference, ms};
use selvedge_core::signal::Effect;
use selvedge_core::step::StepKind;
use selvedge_core::suspension::ResumedBy;
use selvedge_core::token::TokenKeyId;
use selvedge_core::{ExecutionId, WaitpointId};
use std::collections::BTreeSet;

/// The records of an execution. The number of each is its index plus 1.
#[derive(Clone, Debug, Default)]
pub struct Record {
    pub signals: Vec<ModelSignal>,
    pub waitpoints: Vec<ModelWaitpoint>,
    pub steps: Vec<ModelStep>,
    pub suspensions: u32,
    pub resumed_by: Option<ResumedBy>,
    /// The version at which this was last compared with the store.
    pub compared: u32,
}

/// A delivered signal.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelSignal {
    pub number: u32,
    pub name: u8,
    pub source: u8,
    /// The name of the waitpoint that delivered it.
    pub through: Option<u8>,
    pub waitpoint: Option<usize>,
    pub key: Option<u8>,
    pub payload: u8,
    pub effect: Effect,
    pub taken: Option<u32>,
}

/// A waitpoint. Its id is taken from the store.
#[derive(Clone, Debug)]
pub struct ModelWaitpoint {
    pub id: Option<WaitpointId>,
    pub name: u8,
    pub source: u8,
    pub key: usize,
    pub expires_at: Option<i64>,
    pub status: WaitpointStatus,
    /// The names of the signals that its token may send.
    pub signals: Vec<u8>,
    /// The number of times that its token was issued again.
    pub issue: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WaitpointStatus {
    Open,
    Delivered(u32, Effect),
    Expired,
    Revoked,
}

/// A recorded step, or a step that records a wait.
#[derive(Clone, Debug)]
pub struct ModelStep {
    pub name: u8,
    pub kind: StepKind,
    pub attempt: u32,
    pub started_at: i64,
    /// The result; none while the wait has not ended.
    pub result: Option<StepResult>,
}

/// The result of a step: given by its worker, or the end of a wait with the signals that it took.
#[derive(Clone, Debug, PartialEq)]
pub enum StepResult {
    Given(u8),
    Waited(ResumedBy, Vec<u32>),
}

/// A key of tokens. Its id is taken from the store.
#[derive(Clone, Debug, Default)]
pub struct ModelKey {
    pub id: Option<TokenKeyId>,
    pub retires_at: Option<i64>,
    /// True if it was removed after it had retired.
    pub removed: bool,
}

/// A token presented by a caller.
#[derive(Clone, Copy, Debug)]
pub struct PresentedToken {
    pub execution: ExecutionId,
    pub waitpoint: WaitpointId,
    pub key: TokenKeyId,
    pub issue: u32,
    pub altered: bool,
}

impl Record {
    pub fn untaken(&self) -> usize {
        self.signals.iter().filter(|signal| signal.taken.is_none()).count()
    }

    pub fn bytes(&self) -> u64 {
        let signals = self.signals.iter().map(|signal| convert::payload(signal.payload).len());
        let steps = self.steps.iter().filter_map(|step| match step.result {
            Some(StepResult::Given(result)) => Some(convert::result(result).len()),
            Some(StepResult::Waited(..)) | None => None,
        });
        signals.chain(steps).sum::<usize>() as u64
    }

    /// Returns the earliest expiry of an open waitpoint.
    pub fn next_expiry(&self) -> Option<i64> {
        let open = self.waitpoints.iter().filter(|one| one.status == WaitpointStatus::Open);
        open.filter_map(|one| one.expires_at).min()
    }

    /// Returns the numbers of the newest waitpoints that have the names in a report.
    pub fn newest(&self, op: &ReportSpec) -> Vec<u32> {
        let ReportSpec::Suspend { waitpoints, .. } = op else { return Vec::new() };
        let newest = |point: &WaitpointSpec| self.waitpoints.iter().rposition(|one| one.name == point.name);
        waitpoints.iter().filter_map(newest).map(|index| index as u32 + 1).collect()
    }
}

impl ModelWaitpoint {
    pub fn is_open(&self) -> bool {
        self.status == WaitpointStatus::Open
    }

    /// Reports whether it was closed because nothing waits for it any more.
    fn expired_early(&self, now: i64) -> bool {
        self.status == WaitpointStatus::Expired && self.expires_at.is_none_or(|at| at > now)
    }

    /// Reports whether its token may send one of these signals.
    fn serves(&self, names: &BTreeSet<u8>) -> bool {
        names.contains(&self.name) || self.signals.iter().any(|name| names.contains(name))
    }

    fn accepts_delivery(&self, now: i64) -> bool {
        self.status == WaitpointStatus::Open && self.expires_at.is_none_or(|at| at > now)
    }

    /// Returns the name of a signal that is sent without one: its own name or the only choice.
    fn default_signal(&self) -> Option<u8> {
        match self.signals[..] {
            [only] => Some(only),
            _ => self.signals.contains(&self.name).then_some(self.name),
        }
    }
}

impl ModelKey {
    fn verifies(&self, now: i64) -> bool {
        self.retires_at.is_none_or(|at| at > now)
    }
}

/// Returns the index of the key that signs, created if every key is retired.
fn signing_key(keys: &mut Vec<ModelKey>) -> usize {
    keys.iter().position(|key| key.retires_at.is_none()).unwrap_or_else(|| {
        keys.push(ModelKey::default());
        keys.len() - 1
    })
}

impl ModelExecution {
    /// Creates waitpoints and returns their numbers. One of the same name that still accepts a delivery, or whose
    /// signal is untaken, is reused.
    pub fn create_waitpoints(
        &mut self,
        points: &[WaitpointSpec],
        keys: &mut Vec<ModelKey>,
        now: i64,
    ) -> Result<Vec<u32>, &'static str> {
        let mut waitpoints = self.record.waitpoints.clone();
        let mut created = Vec::new();
        for point in points {
            let reusable = |one: &ModelWaitpoint| match one.status {
                WaitpointStatus::Open => one.accepts_delivery(now),
                WaitpointStatus::Delivered(number, _) => {
                    self.record.signals[number as usize - 1].taken.is_none()
                }
                WaitpointStatus::Expired => one.expired_early(now),
                WaitpointStatus::Revoked => false,
            };
            let source = point.source.unwrap_or(point.name);
            let requested =
                created.iter().copied().find(|index: &usize| waitpoints[*index].name == point.name);
            let reusable = || waitpoints.iter().rposition(|one| one.name == point.name && reusable(one));
            let known = requested.or_else(reusable);
            let signals = point.signals.clone().unwrap_or_else(|| vec![point.name]);
            let differs = |one: &ModelWaitpoint| one.source != source || one.signals != signals;
            if known.is_some_and(|index| differs(&waitpoints[index])) {
                return Err("idempotency_mismatch");
            }
            let index = known.unwrap_or_else(|| {
                waitpoints.push(ModelWaitpoint {
                    id: None,
                    name: point.name,
                    source,
                    key: usize::MAX,
                    expires_at: point.expires_ms.map(|wait| now + ms(wait)),
                    status: WaitpointStatus::Open,
                    signals,
                    issue: 0,
                });
                waitpoints.len() - 1
            });
            created.push(index);
        }
        for index in &created {
            let one = &mut waitpoints[*index];
            let valid = keys.get(one.key).is_some_and(|key| key.verifies(now));
            let opens = one.status == WaitpointStatus::Expired;
            if opens {
                one.status = WaitpointStatus::Open;
            }
            if one.status == WaitpointStatus::Open && (opens || !valid) {
                if !valid {
                    one.key = signing_key(keys);
                }
                self.version += 1;
            }
        }
        self.record.waitpoints = waitpoints;
        Ok(created.into_iter().map(|index| index as u32 + 1).collect())
    }

    /// Records a step. Recording it again has no effect; another result under its name is refused.
    pub fn record_step(
        &mut self,
        name: u8,
        kind: StepKind,
        result: u8,
        now: i64,
    ) -> Result<(), &'static str> {
        let recorded = Some(StepResult::Given(result));
        if let Some(known) = self.record.steps.iter().find(|step| step.name == name) {
            let same = known.kind == kind && known.result == recorded;
            return if same { Ok(()) } else { Err("idempotency_mismatch") };
        }
        let attempt = self.epoch - 1;
        self.record.steps.push(ModelStep { name, kind, attempt, started_at: now, result: recorded });
        self.interruptions_before_progress = self.interruptions;
        self.version += 1;
        Ok(())
    }

    pub fn expire_waitpoints(&mut self, now: i64) {
        let has_expired =
            |one: &&mut ModelWaitpoint| one.status == WaitpointStatus::Open && !one.accepts_delivery(now);
        for one in self.record.waitpoints.iter_mut().filter(has_expired) {
            one.status = WaitpointStatus::Expired;
            self.version += 1;
        }
    }

    /// Closes the open waitpoints of an execution that has ended, or those whose token may send one of these signals.
    pub fn close_waitpoints(&mut self, names: Option<&BTreeSet<u8>>) {
        let serves = |one: &ModelWaitpoint| names.is_none_or(|names| one.serves(names));
        for one in self.record.waitpoints.iter_mut().filter(|one| one.is_open() && serves(one)) {
            one.status = WaitpointStatus::Expired;
            self.version += 1;
        }
    }

    /// Opens the waitpoints again that were closed before their time and whose token may send one of these signals.
    pub fn open_waitpoints(&mut self, names: &BTreeSet<u8>, now: i64) {
        let opens = |one: &&mut ModelWaitpoint| one.expired_early(now) && one.serves(names);
        for one in self.record.waitpoints.iter_mut().filter(opens) {
            one.status = WaitpointStatus::Open;
            self.version += 1;
        }
    }

    pub fn revoke_waitpoint(&mut self, index: usize) -> Result<(), &'static str> {
        let one = self.record.waitpoints.get_mut(index).filter(|one| one.id.is_some());
        let one = one.ok_or("not_found")?;
        if one.status == WaitpointStatus::Open {
            one.status = WaitpointStatus::Revoked;
            self.version += 1;
        }
        Ok(())
    }

    /// Issues a new token of a waitpoint, which is open again.
    pub fn reissue_waitpoint(
        &mut self,
        index: usize,
        expires_ms: Option<i64>,
        keys: &mut Vec<ModelKey>,
        now: i64,
    ) -> Result<(), &'static str> {
        let ended = self.has_ended();
        let one = self.record.waitpoints.get_mut(index).filter(|one| one.id.is_some());
        let one = one.ok_or("not_found")?;
        let expires_at = expires_ms.map(|wait| now + ms(wait)).or(one.expires_at);
        match one.status {
            _ if ended => return Err("already_terminal"),
            WaitpointStatus::Delivered(..) => return Err("wrong_state"),
            _ if expires_at.is_some_and(|at| at <= now) => return Err("invalid_field"),
            WaitpointStatus::Open | WaitpointStatus::Expired | WaitpointStatus::Revoked => {}
        }
        one.key = signing_key(keys);
        one.issue += 1;
        (one.expires_at, one.status) = (expires_at, WaitpointStatus::Open);
        self.version += 1;
        Ok(())
    }

    /// Applies a delivery through a waitpoint. `closed` are the codes of a revoked and of an expired waitpoint.
    fn receive_through(
        &mut self,
        index: usize,
        (named, sent): (bool, SignalSpec),
        closed: [&'static str; 2],
        now: i64,
    ) -> Answer {
        let point = self.record.waitpoints[index].clone();
        let (name, source) = (point.name, point.source);
        if let WaitpointStatus::Delivered(number, effect) = point.status {
            return Answer::Delivered { number, name, source, duplicate: true, effect };
        }
        let chosen = if named { Some(sent.name) } else { point.default_signal() };
        let sent = SignalSpec { name: chosen.unwrap_or(sent.name), ..sent };
        if let Some(answer) = chosen.and_then(|_| self.repeated(sent, source)) {
            return answer;
        }
        match point.status {
            WaitpointStatus::Revoked => Answer::Refused(closed[0]),
            _ if point.expired_early(now) && self.has_ended() => Answer::Refused("already_terminal"),
            _ if !point.accepts_delivery(now) => Answer::Refused(closed[1]),
            _ if chosen.is_none_or(|chosen| !point.signals.contains(&chosen)) => {
                Answer::Refused("invalid_field")
            }
            _ if self.has_ended() => Answer::Refused("already_terminal"),
            _ => self.receive(sent, source, Some(index), now),
        }
    }

    /// Returns the reply to a signal whose key was used before.
    fn repeated(&self, sent: SignalSpec, source: u8) -> Option<Answer> {
        let key = sent.key?;
        let known = self.record.signals.iter().find(|signal| signal.key == Some(key))?;
        let same = (known.name, known.source, known.payload) == (sent.name, source, sent.payload);
        let (number, name, source, effect) = (known.number, known.name, known.source, known.effect);
        let first = Answer::Delivered { number, name, source, duplicate: true, effect };
        Some(if same { first } else { Answer::Refused("idempotency_mismatch") })
    }

    fn receive(&mut self, sent: SignalSpec, source: u8, waitpoint: Option<usize>, now: i64) -> Answer {
        let number = self.record.signals.len() as u32 + 1;
        let signal = ModelSignal {
            number,
            name: sent.name,
            source,
            through: waitpoint.map(|index| self.record.waitpoints[index].name),
            waitpoint,
            key: sent.key,
            payload: sent.payload,
            effect: Effect::Buffered,
            taken: None,
        };
        self.record.signals.push(signal.clone());
        self.version += 1;
        if let Some(index) = waitpoint {
            self.record.waitpoints[index].status = WaitpointStatus::Delivered(number, Effect::Buffered);
        }
        let effect = match self.match_waits(&signal, now) {
            (_, true) => Effect::Resumed,
            (true, false) => Effect::Counted,
            (false, false) => Effect::Buffered,
        };
        self.record.signals[number as usize - 1].effect = effect;
        if let Some(index) = waitpoint {
            self.record.waitpoints[index].status = WaitpointStatus::Delivered(number, effect);
        }
        Answer::Delivered { number, name: sent.name, source, duplicate: false, effect }
    }
}

impl Reference {
    /// Applies a signal from a caller.
    pub fn signal(&mut self, id: ExecutionId, source: u8, sent: SignalSpec) -> Answer {
        let now = self.now;
        let Some(known) = self.executions.get_mut(&id) else {
            return Answer::Refused("not_found");
        };
        match known.repeated(sent, source) {
            Some(answer) => answer,
            None if known.has_ended() => Answer::Refused("already_terminal"),
            None => known.receive(sent, source, None, now),
        }
    }

    /// Applies a delivery with a token.
    pub fn deliver(&mut self, token: PresentedToken, named: bool, sent: SignalSpec) -> Answer {
        let now = self.now;
        let known = self.executions.get_mut(&token.execution);
        let index = |known: &ModelExecution| {
            known.record.waitpoints.iter().position(|one| one.id == Some(token.waitpoint))
        };
        let Some((known, index)) = known.and_then(|known| index(known).map(|index| (known, index))) else {
            return Answer::Refused("not_found");
        };
        let point = &known.record.waitpoints[index];
        let key = &self.keys[point.key];
        let newest = key.id == Some(token.key) && point.issue == token.issue;
        if token.altered || !newest || !key.verifies(now) {
            return Answer::Refused("invalid_token");
        }
        known.receive_through(index, (named, sent), ["token_revoked", "token_expired"], now)
    }

    /// Applies the answer of an operator in place of the token holder.
    pub fn answer(&mut self, id: ExecutionId, index: usize, named: bool, sent: SignalSpec) -> Answer {
        let now = self.now;
        let known = self.executions.get_mut(&id);
        let has_it = |known: &&mut ModelExecution| {
            known.record.waitpoints.get(index).is_some_and(|one| one.id.is_some())
        };
        match known.filter(has_it) {
            Some(known) => known.receive_through(index, (named, sent), ["wrong_state"; 2], now),
            None => Answer::Refused("not_found"),
        }
    }

    /// Rotates the key of tokens. Tokens of the old key are accepted during the grace period.
    pub fn rotate(&mut self, grace_ms: i64) -> Answer {
        let (now, retires_at) = (self.now, self.now + ms(grace_ms));
        for key in &mut self.keys {
            key.removed |= !key.verifies(now);
            key.retires_at.get_or_insert(retires_at);
        }
        self.keys.push(ModelKey::default());
        Answer::Yes
    }
}
