//! The reference model's signals, waitpoints, keys of tokens and steps.

use super::command::{Op, Point, Sent};
use super::reference::{Answer, Known, Reference, ms};
use super::rules;
use selvedge_core::signal::Effect;
use selvedge_core::step::StepKind;
use selvedge_core::suspension::ResumedBy;
use selvedge_core::token::TokenKeyId;
use selvedge_core::{ExecutionId, WaitpointId};

/// What is recorded of an execution. The number of each is its place, from 1.
#[derive(Clone, Debug, Default)]
pub struct Record {
    pub signals: Vec<Arrived>,
    pub waitpoints: Vec<Made>,
    pub steps: Vec<Noted>,
    pub suspensions: u32,
    pub resumed_by: Option<ResumedBy>,
    /// The version at which this was last compared with the store.
    pub compared: u32,
}

/// A signal that was delivered.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrived {
    pub number: u32,
    pub name: u8,
    pub source: u8,
    /// The name and the place of the waitpoint through which it came.
    pub through: Option<u8>,
    pub waitpoint: Option<usize>,
    pub key: Option<u8>,
    pub payload: u8,
    pub effect: Effect,
    pub taken: Option<u32>,
}

/// A waitpoint that was made; the store tells its id.
#[derive(Clone, Debug)]
pub struct Made {
    pub id: Option<WaitpointId>,
    pub name: u8,
    pub source: u8,
    pub key: usize,
    pub expires_at: Option<i64>,
    pub stands: Stands,
}

/// Where a waitpoint stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stands {
    Open,
    Delivered(u32, Effect),
    Expired,
    Revoked,
}

/// A step.
#[derive(Clone, Debug)]
pub struct Noted {
    pub name: u8,
    pub kind: StepKind,
    pub attempt: u32,
    pub started_at: i64,
    /// What was recorded; none while it is waited for.
    pub outcome: Option<Outcome>,
}

/// What was recorded of a step: what its worker gave, or how the wait ended and which signals it took.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Given(u8),
    Waited(ResumedBy, Vec<u32>),
}

/// A key of tokens; the store tells its id.
#[derive(Clone, Debug, Default)]
pub struct Key {
    pub id: Option<TokenKeyId>,
    pub retires_at: Option<i64>,
    /// Whether it was removed after it had retired.
    pub gone: bool,
}

/// A token as somebody presents it.
#[derive(Clone, Copy, Debug)]
pub struct Token {
    pub execution: ExecutionId,
    pub waitpoint: WaitpointId,
    pub key: TokenKeyId,
    pub altered: bool,
}

impl Record {
    pub fn untaken(&self) -> usize {
        self.signals.iter().filter(|signal| signal.taken.is_none()).count()
    }

    pub fn bytes(&self) -> u64 {
        let signals = self.signals.iter().map(|signal| rules::payload(signal.payload).len());
        let steps = self.steps.iter().filter_map(|step| match step.outcome {
            Some(Outcome::Given(result)) => Some(rules::result(result).len()),
            Some(Outcome::Waited(..)) | None => None,
        });
        signals.chain(steps).sum::<usize>() as u64
    }

    /// When the next open waitpoint expires.
    pub fn next_expiry(&self) -> Option<i64> {
        let open = self.waitpoints.iter().filter(|one| one.stands == Stands::Open);
        open.filter_map(|one| one.expires_at).min()
    }

    /// The newest waitpoints of the names that a report asks for.
    pub fn newest(&self, op: &Op) -> Vec<u32> {
        let Op::Suspend { waitpoints, .. } = op else { return Vec::new() };
        let newest = |point: &Point| self.waitpoints.iter().rposition(|one| one.name == point.name);
        waitpoints.iter().filter_map(newest).map(|place| place as u32 + 1).collect()
    }
}

impl Made {
    pub fn is_open(&self) -> bool {
        self.stands == Stands::Open
    }

    fn takes(&self, now: i64) -> bool {
        self.stands == Stands::Open && self.expires_at.is_none_or(|at| at > now)
    }
}

impl Key {
    fn verifies(&self, now: i64) -> bool {
        self.retires_at.is_none_or(|at| at > now)
    }
}

/// The key that signs: the one that is not retired, or a new one.
fn signing(keys: &mut Vec<Key>) -> usize {
    keys.iter().position(|key| key.retires_at.is_none()).unwrap_or_else(|| {
        keys.push(Key::default());
        keys.len() - 1
    })
}

impl Known {
    /// Makes waitpoints; one that takes a delivery, or whose signal nobody has taken, is given again. Says which they are.
    pub fn make(
        &mut self,
        points: &[Point],
        keys: &mut Vec<Key>,
        now: i64,
    ) -> Result<Vec<u32>, &'static str> {
        let mut waitpoints = self.record.waitpoints.clone();
        let mut made = Vec::new();
        for point in points {
            let kept = |one: &Made| match one.stands {
                Stands::Open => one.takes(now),
                Stands::Delivered(number, _) => self.record.signals[number as usize - 1].taken.is_none(),
                Stands::Expired | Stands::Revoked => false,
            };
            let source = point.source.unwrap_or(point.name);
            let asked = made.iter().copied().find(|place: &usize| waitpoints[*place].name == point.name);
            let kept = || waitpoints.iter().rposition(|one| one.name == point.name && kept(one));
            let known = asked.or_else(kept);
            if known.is_some_and(|place| waitpoints[place].source != source) {
                return Err("idempotency_mismatch");
            }
            let place = known.unwrap_or_else(|| {
                waitpoints.push(Made {
                    id: None,
                    name: point.name,
                    source,
                    key: usize::MAX,
                    expires_at: point.expires_ms.map(|wait| now + ms(wait)),
                    stands: Stands::Open,
                });
                waitpoints.len() - 1
            });
            made.push(place);
        }
        for place in &made {
            let one = &mut waitpoints[*place];
            let valid = keys.get(one.key).is_some_and(|key| key.verifies(now));
            if one.stands == Stands::Open && !valid {
                one.key = signing(keys);
                self.version += 1;
            }
        }
        self.record.waitpoints = waitpoints;
        Ok(made.into_iter().map(|place| place as u32 + 1).collect())
    }

    /// Records a step: the same again is nothing new, another under its name is refused.
    pub fn note(&mut self, name: u8, kind: StepKind, result: u8, now: i64) -> Result<(), &'static str> {
        let outcome = Some(Outcome::Given(result));
        if let Some(known) = self.record.steps.iter().find(|step| step.name == name) {
            let same = known.kind == kind && known.outcome == outcome;
            return if same { Ok(()) } else { Err("idempotency_mismatch") };
        }
        let attempt = self.epoch - 1;
        self.record.steps.push(Noted { name, kind, attempt, started_at: now, outcome });
        self.version += 1;
        Ok(())
    }

    pub fn expire_waitpoints(&mut self, now: i64) {
        let over = |one: &&mut Made| one.stands == Stands::Open && !one.takes(now);
        for one in self.record.waitpoints.iter_mut().filter(over) {
            one.stands = Stands::Expired;
            self.version += 1;
        }
    }

    pub fn revoke_waitpoint(&mut self, place: usize) -> Result<(), &'static str> {
        let one = self.record.waitpoints.get_mut(place).filter(|one| one.id.is_some());
        let one = one.ok_or("not_found")?;
        if one.stands == Stands::Open {
            one.stands = Stands::Revoked;
            self.version += 1;
        }
        Ok(())
    }

    /// The answer to a signal with a key that was used before.
    fn repeated(&self, sent: Sent, source: u8) -> Option<Answer> {
        let key = sent.key?;
        let known = self.record.signals.iter().find(|signal| signal.key == Some(key))?;
        let same = (known.name, known.source, known.payload) == (sent.name, source, sent.payload);
        let (number, name, source, effect) = (known.number, known.name, known.source, known.effect);
        let first = Answer::Delivered { number, name, source, duplicate: true, effect };
        Some(if same { first } else { Answer::Refused("idempotency_mismatch") })
    }

    fn take_in(&mut self, sent: Sent, source: u8, waitpoint: Option<usize>, now: i64) -> Answer {
        let number = self.record.signals.len() as u32 + 1;
        let signal = Arrived {
            number,
            name: sent.name,
            source,
            through: waitpoint.map(|place| self.record.waitpoints[place].name),
            waitpoint,
            key: sent.key,
            payload: sent.payload,
            effect: Effect::Buffered,
            taken: None,
        };
        self.record.signals.push(signal.clone());
        self.version += 1;
        let effect = match self.hears(&signal, now) {
            (_, true) => Effect::Resumed,
            (true, false) => Effect::Counted,
            (false, false) => Effect::Buffered,
        };
        self.record.signals[number as usize - 1].effect = effect;
        if let Some(place) = waitpoint {
            self.record.waitpoints[place].stands = Stands::Delivered(number, effect);
        }
        Answer::Delivered { number, name: sent.name, source, duplicate: false, effect }
    }
}

impl Reference {
    /// A caller sends a signal.
    pub fn signal(&mut self, id: ExecutionId, source: u8, sent: Sent) -> Answer {
        let now = self.now;
        let Some(known) = self.executions.get_mut(&id) else {
            return Answer::Refused("not_found");
        };
        match known.repeated(sent, source) {
            Some(answer) => answer,
            None if known.has_ended() => Answer::Refused("already_terminal"),
            None => known.take_in(sent, source, None, now),
        }
    }

    /// Somebody delivers with a token, under the waitpoint's name unless another is given.
    pub fn deliver(&mut self, token: Token, named: bool, sent: Sent) -> Answer {
        let now = self.now;
        let known = self.executions.get_mut(&token.execution);
        let place =
            |known: &Known| known.record.waitpoints.iter().position(|one| one.id == Some(token.waitpoint));
        let Some((known, place)) = known.and_then(|known| place(known).map(|place| (known, place))) else {
            return Answer::Refused("not_found");
        };
        let point = known.record.waitpoints[place].clone();
        let key = &self.keys[point.key];
        if token.altered || key.id != Some(token.key) || !key.verifies(now) {
            return Answer::Refused("invalid_token");
        }
        let Made { name, source, .. } = point;
        if let Stands::Delivered(number, effect) = point.stands {
            return Answer::Delivered { number, name, source, duplicate: true, effect };
        }
        let sent = if named { sent } else { Sent { name, ..sent } };
        if let Some(answer) = known.repeated(sent, source) {
            return answer;
        }
        let another = known.record.waitpoints.iter().any(|one| one.name == sent.name) && sent.name != name;
        match point.stands {
            Stands::Revoked => Answer::Refused("token_revoked"),
            _ if !point.takes(now) => Answer::Refused("token_expired"),
            _ if another => Answer::Refused("invalid_field"),
            _ if known.has_ended() => Answer::Refused("already_terminal"),
            _ => known.take_in(sent, source, Some(place), now),
        }
    }

    /// The key of tokens is changed: those of the old one are accepted for a while.
    pub fn rotate(&mut self, grace_ms: i64) -> Answer {
        let (now, retires_at) = (self.now, self.now + ms(grace_ms));
        for key in &mut self.keys {
            key.gone |= !key.verifies(now);
            key.retires_at.get_or_insert(retires_at);
        }
        self.keys.push(Key::default());
        Answer::Yes
    }
}
