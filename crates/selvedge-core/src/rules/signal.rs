//! Signals are delivered: kept until a wait takes them, or heard by the one that waits.

use super::step::check_bytes;
use super::suspend::{self, Forced, resume};
use super::waitpoint::no_waitpoint;
use crate::fact::Fact;
use crate::name::{KEY_LIMIT, NAME_LIMIT};
use crate::refusal::TokenReason;
use crate::rows::Needs;
use crate::rule::{IfLocked, Phase, Profile, Rule};
use crate::signal::{Effect, SIGNAL_LIMIT, SIGNALS_MAX, Signal};
use crate::state::State;
use crate::submission::check_payload;
use crate::suspension::{IncomingSignal, ResumedBy, Suspension};
use crate::token::Secret;
use crate::waitpoint::{Waitpoint, WaitpointState};
use crate::{Execution, ExecutionId, Name, NamespaceId, Refusal, WaitpointId, Work};
use bytes::Bytes;
use std::fmt;
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3;

/// A signal as a caller sends it.
#[derive(Clone, Debug, PartialEq)]
pub struct SignalDraft {
    /// Its name; through a waitpoint, that one's where none is given.
    pub name: Option<String>,
    /// JSON, kept byte for byte.
    pub payload: Bytes,
    /// The sender's key: the same signal again with it is the first one.
    pub key: Option<String>,
}

/// By which right a signal is delivered.
#[derive(Clone)]
pub enum SignalSender {
    /// A caller of this namespace, as this source.
    Caller {
        /// The namespace.
        namespace: NamespaceId,
        /// Who.
        source: Name,
    },
    /// Whoever has the token of a waitpoint.
    TokenHolder {
        /// The waitpoint.
        waitpoint: WaitpointId,
        /// The token.
        token: String,
        /// The root secret.
        secret: Arc<Secret>,
    },
}

/// A token is never shown.
impl fmt::Debug for SignalSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SignalSender::Caller { namespace, source } => write!(f, "Direct({namespace}, {source:?})"),
            SignalSender::TokenHolder { waitpoint, .. } => write!(f, "Token({waitpoint}, ..)"),
        }
    }
}

/// Deliver a signal.
#[derive(Clone, Debug)]
pub struct Deliver {
    /// To whom.
    pub execution: ExecutionId,
    /// By which right.
    pub way: SignalSender,
    /// What.
    pub name: Option<Name>,
    /// JSON, kept byte for byte.
    pub payload: Bytes,
    /// The sender's key.
    pub key: Option<Name>,
}

/// What came of a delivery.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivered {
    /// The number of the signal.
    pub number: u32,
    /// Its name; of a delivery by token that was made before, the waitpoint's.
    pub name: Name,
    /// Who sent it.
    pub source: Name,
    /// Whether it was delivered before.
    pub duplicate: bool,
    /// What it did, when it was delivered first.
    pub effect: Effect,
}

impl SignalDraft {
    /// Checks every field; the first wrong one is named.
    pub fn check(self, execution: ExecutionId, way: SignalSender) -> Result<Deliver, Refusal> {
        let name = self.name.map(|name| Name::parse("/name", &name, NAME_LIMIT)).transpose()?;
        if name.is_none() && matches!(way, SignalSender::Caller { .. }) {
            return Err(Refusal::field("/name", "is missing; name the signal"));
        }
        if self.payload.len() > SIGNAL_LIMIT {
            let (limit, actual) = (SIGNAL_LIMIT as u64, self.payload.len() as u64);
            return Err(Refusal::PayloadTooLarge { pointer: "/payload".into(), limit, actual });
        }
        check_payload("/payload", &self.payload)?;
        let key = self.key.map(|key| Name::parse("/idempotency_key", &key, KEY_LIMIT)).transpose()?;
        Ok(Deliver { execution, way, name, payload: self.payload, key })
    }
}

impl Rule for Deliver {
    type Reply = Result<Delivered, Refusal>;
    const PHASE: Phase = Phase::Operators;

    fn profile(&self) -> Profile {
        Profile { if_locked: IfLocked::Defer(self.execution), ..Profile::on(self.execution) }
    }

    fn needs(&self, work: &Work, needs: &mut Needs) {
        needs.executions.lock([self.execution]);
        needs.queries.signal_keys.extend(self.key.iter().map(|key| (self.execution, key.clone())));
        if let SignalSender::TokenHolder { .. } = self.way {
            needs.queries.waitpoints.push(self.execution);
            needs.queries.token_keys = true;
        }
        if let Ok(Some(row)) = work.find(self.execution) {
            suspend::needs(row, needs);
        }
    }

    /// Delivers the signal, or refuses with a reason.
    fn decide(&self, work: &mut Work) -> Result<Delivered, Refusal> {
        let (row, source, waitpoint) = match &self.way {
            SignalSender::Caller { namespace, source } => {
                (work.execution(*namespace, self.execution)?.clone(), source.clone(), None)
            }
            SignalSender::TokenHolder { waitpoint, token, secret } => {
                let known = work.waitpoint(self.execution, *waitpoint).cloned();
                let known = known.ok_or_else(|| no_waitpoint(*waitpoint))?;
                verify(&known, token, secret, work)?;
                if let WaitpointState::Delivered(number, effect) = known.state {
                    return Ok(first_answer(number, effect, &known));
                }
                let row = work.execution(known.namespace, self.execution)?.clone();
                (row, known.source.clone(), Some(known))
            }
        };
        let name = self.name.clone().or_else(|| waitpoint.as_ref().map(|one| one.name.clone()));
        let name = name.ok_or_else(|| Refusal::field("/name", "is missing; name the signal"))?;
        let digest = self.digest(&name, &source);
        if let Some(known) = self.key.as_ref().and_then(|key| work.keyed_signal(row.id, key)) {
            return repeated(known, digest);
        }
        if let Some(waitpoint) = &waitpoint {
            check_takes(waitpoint, &name, work)?;
        }
        if let Some(outcome) = row.state.outcome() {
            return Err(Refusal::AlreadyTerminal { execution: row.id, outcome });
        }
        check_room(&row, self.payload.len())?;
        Ok(self.deliver(&row, (name, source), waitpoint, digest, work))
    }
}

impl Deliver {
    fn deliver(
        &self,
        row: &Execution,
        (name, source): (Name, Name),
        waitpoint: Option<Waitpoint>,
        digest: u64,
        work: &mut Work,
    ) -> Delivered {
        let (id, number, bytes) = (row.id, row.detail.record.signals + 1, self.payload.len());
        let mut suspension = row.state.suspension().map(|suspension| Suspension::clone(suspension));
        let through = waitpoint.as_ref().map(|one| &one.name);
        let arrival = IncomingSignal { number, name: &name, source: &source, waitpoint: through };
        let heard = suspension.as_mut().is_some_and(|suspension| suspension.receive(arrival));
        let effect = match &suspension {
            Some(suspension) if heard && suspension.holds() => Effect::Resumed,
            Some(_) if heard => Effect::Counted,
            Some(_) | None => Effect::Buffered,
        };
        let through = waitpoint.as_ref().map(|one| (one.id, one.name.clone()));
        let delivered =
            waitpoint.map(|one| Waitpoint { state: WaitpointState::Delivered(number, effect), ..one });
        let expires_at = delivered.as_ref().map(|one| work.next_expiry(id, Some(one)));
        work.add_signal(Signal {
            execution: id,
            number,
            name: name.clone(),
            source: source.clone(),
            waitpoint: through.clone(),
            key: self.key.clone(),
            digest,
            at: work.now(),
            effect,
            taken: None,
            payload: Some(self.payload.clone()),
        });
        delivered.into_iter().for_each(|one| work.put_waitpoint(one));
        let fact = Fact::Signalled {
            number,
            name: name.clone(),
            source: source.clone(),
            waitpoint: through,
            bytes: bytes as u32,
            effect,
        };
        let heard = suspension.clone().filter(|_| effect == Effect::Counted);
        work.apply(id, fact, None, |row| {
            let record = &mut row.detail.record;
            record.signals += 1;
            record.untaken += 1;
            record.bytes += bytes as u64;
            if let Some(expires_at) = expires_at {
                record.expires_at = expires_at;
            }
            if let Some(heard) = heard {
                row.state = State::Suspended(heard.into());
            }
        });
        if let Some(suspension) = suspension.filter(|_| effect == Effect::Resumed) {
            resume(work, id, suspension, ResumedBy::Condition, Forced::None, None);
        }
        Delivered { number, name, source, duplicate: false, effect }
    }

    /// By what a repeat under the same key is known.
    fn digest(&self, name: &Name, source: &Name) -> u64 {
        let mut hasher = Xxh3::new();
        for part in [name.as_bytes(), source.as_bytes(), &self.payload] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        hasher.digest()
    }
}

/// Refuses a token that is not that of this waitpoint. The text is compared before anything is said about the waitpoint.
fn verify(waitpoint: &Waitpoint, token: &str, secret: &Secret, work: &Work) -> Result<(), Refusal> {
    let key = work.token_keys().find(|key| key.id == waitpoint.key);
    let accepted = key.is_some_and(|key| key.verifies(work.now()));
    if !secret.verify(waitpoint, token) || !accepted {
        return Err(refused(TokenReason::Invalid, "this token does not allow a delivery to this waitpoint"));
    }
    Ok(())
}

fn refused(reason: TokenReason, detail: &str) -> Refusal {
    Refusal::Token { reason, detail: detail.into() }
}

/// Refuses a delivery that a waitpoint does not take.
fn check_takes(waitpoint: &Waitpoint, name: &Name, work: &Work) -> Result<(), Refusal> {
    if waitpoint.state == WaitpointState::Revoked {
        return Err(refused(TokenReason::Revoked, "this token was revoked; ask for another"));
    }
    if !waitpoint.is_open(work.now()) {
        return Err(refused(TokenReason::Expired, "this token has expired; ask for another"));
    }
    let mut others = work.waitpoints(waitpoint.execution);
    if *name != waitpoint.name && others.any(|other| other.name == *name) {
        let detail =
            format!("is {name:?}, which is another waitpoint; this token speaks for {:?}", waitpoint.name);
        return Err(Refusal::field("/name", detail));
    }
    Ok(())
}

fn check_room(row: &Execution, bytes: usize) -> Result<(), Refusal> {
    if row.detail.record.signals >= SIGNALS_MAX {
        let (what, limit) = ("signals".into(), SIGNALS_MAX.into());
        return Err(Refusal::LimitReached { execution: row.id, what, limit });
    }
    check_bytes(row, bytes)
}

/// The answer to a delivery by token that was made before.
fn first_answer(number: u32, effect: Effect, waitpoint: &Waitpoint) -> Delivered {
    let (name, source) = (waitpoint.name.clone(), waitpoint.source.clone());
    Delivered { number, name, source, duplicate: true, effect }
}

fn repeated(known: &Signal, digest: u64) -> Result<Delivered, Refusal> {
    if known.digest != digest {
        return Err(Refusal::IdempotencyMismatch {
            pointer: "/idempotency_key".into(),
            detail: format!("was used for signal {} with other content; use a new key", known.number),
        });
    }
    let (name, source) = (known.name.clone(), known.source.clone());
    Ok(Delivered { number: known.number, name, source, duplicate: true, effect: known.effect })
}
