//! Delivery of signals. A delivered signal is received by a wait of the suspended execution, or kept until a wait takes
//! it.

use super::step::check_bytes;
use super::suspend::{self, ForcedWaits, resume};
use super::waitpoint::{closed, no_waitpoint};
use crate::digest::Digest;
use crate::fact::{self, Fact};
use crate::name::{KEY_LIMIT, NAME_LIMIT};
use crate::refusal::TokenReason;
use crate::rows::Needs;
use crate::rule::{IfLocked, Phase, Profile, Rule};
use crate::signal::{Effect, SIGNAL_LIMIT, SIGNALS_MAX, Signal};
use crate::state::State;
use crate::submission::check_payload;
use crate::suspension::{IncomingSignal, ResumedBy, Suspension};
use crate::token::{Secret, TokenKey};
use crate::waitpoint::{Waitpoint, WaitpointState, WaitpointStateName};
use crate::{Execution, ExecutionId, Name, NamespaceId, Refusal, Timestamp, WaitpointId, Work};
use bytes::Bytes;
use std::fmt;
use std::sync::Arc;

/// A signal as a caller sends it.
#[derive(Clone, Debug, PartialEq)]
pub struct SignalDraft {
    /// The name. Default for a delivery through a waitpoint: the waitpoint's name.
    pub name: Option<String>,
    /// The payload: JSON, kept byte for byte.
    pub payload: Bytes,
    /// The sender's idempotency key: a repeated signal with this key is delivered once. Default: none.
    pub key: Option<String>,
}

/// The sender of a signal, and the authority to deliver it.
#[derive(Clone)]
pub enum SignalSender {
    Caller {
        namespace: NamespaceId,
        source: Name,
    },
    /// The holder of a waitpoint's token.
    TokenHolder {
        waitpoint: WaitpointId,
        /// The presented token.
        token: String,
        /// The root secret, for verification.
        secret: Arc<Secret>,
    },
    /// An operator who answers in place of the holder of the token. The signal has the source of the waitpoint.
    Operator {
        namespace: NamespaceId,
        waitpoint: WaitpointId,
        actor: Name,
    },
}

/// Hides the token.
impl fmt::Debug for SignalSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SignalSender::Caller { namespace, source } => write!(f, "Caller({namespace}, {source:?})"),
            SignalSender::TokenHolder { waitpoint, .. } => write!(f, "TokenHolder({waitpoint}, ..)"),
            SignalSender::Operator { waitpoint, actor, .. } => write!(f, "Operator({waitpoint}, {actor:?})"),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Deliver {
    /// The receiving execution.
    pub execution: ExecutionId,
    pub sender: SignalSender,
    /// The signal's name; none for the name of the waitpoint.
    pub name: Option<Name>,
    /// The payload: JSON, kept byte for byte.
    pub payload: Bytes,
    /// The sender's idempotency key.
    pub key: Option<Name>,
}

/// The reply to an accepted delivery.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivered {
    /// The signal's number.
    pub number: u32,
    /// The signal's name; for a repeated delivery by token, the waitpoint's name.
    pub name: Name,
    /// The source of the signal.
    pub source: Name,
    /// True if the signal was delivered before.
    pub duplicate: bool,
    /// The effect of the first delivery.
    pub effect: Effect,
}

impl SignalDraft {
    /// Checks every field. The refusal names the first invalid one.
    pub fn check(self, execution: ExecutionId, sender: SignalSender) -> Result<Deliver, Refusal> {
        let name = self.name.map(|name| Name::parse("/name", &name, NAME_LIMIT)).transpose()?;
        if name.is_none() && matches!(sender, SignalSender::Caller { .. }) {
            return Err(Refusal::field("/name", "is missing; give the signal a name"));
        }
        if self.payload.len() > SIGNAL_LIMIT {
            let (limit, actual) = (SIGNAL_LIMIT as u64, self.payload.len() as u64);
            return Err(Refusal::PayloadTooLarge { pointer: "/payload".into(), limit, actual });
        }
        check_payload("/payload", &self.payload)?;
        let key = self.key.map(|key| Name::parse("/idempotency_key", &key, KEY_LIMIT)).transpose()?;
        Ok(Deliver { execution, sender, name, payload: self.payload, key })
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
        match self.sender {
            SignalSender::Caller { .. } => {}
            SignalSender::Operator { .. } => needs.queries.waitpoints.push(self.execution),
            SignalSender::TokenHolder { .. } => {
                needs.queries.waitpoints.push(self.execution);
                needs.queries.token_keys = true;
            }
        }
        if let Ok(Some(row)) = work.find(self.execution) {
            suspend::needs(row, needs);
        }
    }

    /// Delivers the signal.
    fn decide(&self, work: &mut Work) -> Result<Delivered, Refusal> {
        let (row, source, waitpoint) = match &self.sender {
            SignalSender::Caller { namespace, source } => {
                (work.execution(*namespace, self.execution)?.clone(), source.clone(), None)
            }
            SignalSender::TokenHolder { waitpoint, token, secret } => {
                let known = work.waitpoint(self.execution, *waitpoint).cloned();
                let known = known.ok_or_else(|| no_waitpoint(*waitpoint))?;
                verify(&known, token, secret, work.token_keys(), work.now())?;
                let row = work.execution(known.namespace, self.execution)?.clone();
                (row, known.source.clone(), Some(known))
            }
            SignalSender::Operator { namespace, waitpoint, .. } => {
                let row = work.execution(*namespace, self.execution)?.clone();
                let known = work.waitpoint(self.execution, *waitpoint).cloned();
                let known = known.ok_or_else(|| no_waitpoint(*waitpoint))?;
                (row, known.source.clone(), Some(known))
            }
        };
        if let Some((number, effect, known)) = waitpoint.as_ref().and_then(first_delivery) {
            return Ok(first_reply(number, effect, known));
        }
        let default = waitpoint.as_ref().and_then(Waitpoint::default_signal);
        let name = self.name.as_ref().or(default).cloned();
        if let Some(name) = &name
            && let Some(known) = self.key.as_ref().and_then(|key| work.keyed_signal(row.id, key))
        {
            return repeated(known, self.digest(name, &source));
        }
        if let Some(waitpoint) = &waitpoint {
            if let Some(outcome) = row.state.outcome().filter(|_| waitpoint.expired_early(work.now())) {
                return Err(Refusal::AlreadyTerminal { execution: row.id, outcome });
            }
            self.check_open(waitpoint, &row, work)?;
            check_choice(waitpoint, name.as_ref(), work)?;
        }
        let name = name.ok_or_else(|| Refusal::field("/name", "is missing; give the signal a name"))?;
        let digest = self.digest(&name, &source);
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
        let signal = IncomingSignal { number, name: &name, source: &source, waitpoint: through };
        let received = suspension.as_mut().is_some_and(|suspension| suspension.receive(signal));
        let effect = match &suspension {
            Some(suspension) if received && suspension.holds() => Effect::Resumed,
            Some(_) if received => Effect::Counted,
            Some(_) | None => Effect::Buffered,
        };
        let through = waitpoint.as_ref().map(|one| (one.id, one.name.clone()));
        let delivered =
            waitpoint.map(|one| Waitpoint { state: WaitpointState::Delivered(number, effect), ..one });
        let expires_at = delivered.as_ref().map(|one| work.next_expiry(id, Some(one)));
        work.put(Signal {
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
        delivered.into_iter().for_each(|one| work.put(one));
        let fact = Fact::Signalled(fact::Signalled {
            number,
            name: name.clone(),
            source: source.clone(),
            waitpoint: through,
            bytes: bytes as u32,
            effect,
        });
        let counted = suspension.clone().filter(|_| effect == Effect::Counted);
        let actor = match &self.sender {
            SignalSender::Operator { actor, .. } => Some(actor.clone()),
            SignalSender::Caller { .. } | SignalSender::TokenHolder { .. } => None,
        };
        work.apply(id, fact, actor, |row| {
            let record = &mut row.detail.record;
            record.signals += 1;
            record.untaken += 1;
            record.bytes += bytes as u64;
            if let Some(expires_at) = expires_at {
                record.expires_at = expires_at;
            }
            if let Some(counted) = counted {
                row.state = State::Suspended(counted.into());
            }
        });
        if let Some(suspension) = suspension.filter(|_| effect == Effect::Resumed) {
            resume(work, id, suspension, ResumedBy::Condition, ForcedWaits::None, None);
        }
        Delivered { number, name, source, duplicate: false, effect }
    }

    /// Refuses a delivery through a waitpoint that is not open.
    fn check_open(&self, waitpoint: &Waitpoint, row: &Execution, work: &Work) -> Result<(), Refusal> {
        let (reason, detail) = match waitpoint.state_at(work.now()) {
            WaitpointStateName::Open | WaitpointStateName::Delivered => return Ok(()),
            WaitpointStateName::Revoked => {
                (TokenReason::Revoked, "this token was revoked; ask for a new one")
            }
            WaitpointStateName::Expired if waitpoint.expired_early(work.now()) => {
                (TokenReason::Expired, "the question was decided without this answer; there is nothing to do")
            }
            WaitpointStateName::Expired => {
                (TokenReason::Expired, "this token has expired; ask for a new one")
            }
        };
        match &self.sender {
            SignalSender::Caller { .. } | SignalSender::TokenHolder { .. } => Err(refused(reason, detail)),
            SignalSender::Operator { .. } => {
                Err(closed(row, waitpoint, "issue it again, or send the signal to the execution"))
            }
        }
    }

    /// Returns the digest by which a repeat under the same key is recognised.
    pub(crate) fn digest(&self, name: &Name, source: &Name) -> u64 {
        let mut digest = Digest::new();
        digest.sized(name.as_bytes());
        digest.sized(source.as_bytes());
        digest.sized(&self.payload);
        digest.finish()
    }
}

/// Refuses a token that is not that of this waitpoint, or whose key was retired. Nothing about the waitpoint may be
/// revealed before its token is verified.
pub fn verify<'a>(
    waitpoint: &Waitpoint,
    token: &str,
    secret: &Secret,
    mut keys: impl Iterator<Item = &'a TokenKey>,
    now: Timestamp,
) -> Result<(), Refusal> {
    let key = keys.find(|key| key.id == waitpoint.key);
    let accepted = key.is_some_and(|key| key.verifies(now));
    if !secret.verify(waitpoint, token) || !accepted {
        return Err(refused(
            TokenReason::Invalid,
            "this token does not permit a delivery to this waitpoint; use the newest token of the waitpoint",
        ));
    }
    Ok(())
}

fn refused(reason: TokenReason, detail: &str) -> Refusal {
    Refusal::Token { reason, detail: detail.into() }
}

/// Refuses the name of a signal that the token of a waitpoint may not send, or a missing name where there is a choice.
fn check_choice(waitpoint: &Waitpoint, name: Option<&Name>, work: &Work) -> Result<(), Refusal> {
    let choices = waitpoint.choices().iter().map(Name::as_str).collect::<Vec<_>>().join(", ");
    let Some(name) = name else {
        return Err(Refusal::field("/name", format!("is missing; choose one of: {choices}")));
    };
    let allowed = match &waitpoint.signals {
        Some(signals) => signals.contains(name),
        // Created by an earlier build: any name that is not that of another waitpoint.
        None => {
            *name == waitpoint.name || work.waitpoints(waitpoint.execution).all(|other| other.name != *name)
        }
    };
    match allowed {
        true => Ok(()),
        false => Err(Refusal::field("/name", format!("is {name:?}; this token may send: {choices}"))),
    }
}

/// Refuses a signal beyond the limits of an execution.
fn check_room(row: &Execution, bytes: usize) -> Result<(), Refusal> {
    if row.detail.record.signals >= SIGNALS_MAX {
        let (what, limit) = ("signals".into(), SIGNALS_MAX.into());
        return Err(Refusal::LimitReached { execution: row.id, what, limit });
    }
    check_bytes(row, bytes)
}

/// Returns the first delivery through a waitpoint, if it has received one.
fn first_delivery(waitpoint: &Waitpoint) -> Option<(u32, Effect, &Waitpoint)> {
    match waitpoint.state {
        WaitpointState::Delivered(number, effect) => Some((number, effect, waitpoint)),
        WaitpointState::Open | WaitpointState::Expired | WaitpointState::Revoked => None,
    }
}

/// Returns the reply of the first delivery through a waitpoint.
fn first_reply(number: u32, effect: Effect, waitpoint: &Waitpoint) -> Delivered {
    let (name, source) = (waitpoint.name.clone(), waitpoint.source.clone());
    Delivered { number, name, source, duplicate: true, effect }
}

/// Returns the reply of the first delivery with the same key. Refuses other content.
fn repeated(known: &Signal, digest: u64) -> Result<Delivered, Refusal> {
    if known.digest != digest {
        return Err(Refusal::IdempotencyMismatch {
            pointer: "/idempotency_key".into(),
            detail: format!(
                "was used for signal {} with other content; use a new key for a new signal",
                known.number
            ),
        });
    }
    let (name, source) = (known.name.clone(), known.source.clone());
    Ok(Delivered { number: known.number, name, source, duplicate: true, effect: known.effect })
}
