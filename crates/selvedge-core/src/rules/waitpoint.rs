//! Waitpoints are made by workers, expire, and are revoked by operators.

use crate::fact::Fact;
use crate::name::NAME_LIMIT;
use crate::rule::{Phase, Profile, Rule};
use crate::submission::check_duration;
use crate::token::{TokenKey, TokenKeyId};
use crate::waitpoint::{WAITPOINTS_MAX, Waitpoint, WaitpointState};
use crate::{Execution, Name, NamespaceId, Needs, Refusal, WaitpointId, Work};

/// A waitpoint as a worker asks for it.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitpointDraft {
    /// Its name.
    pub name: Name,
    /// Whose word a delivery through it is; the waitpoint's own name where none is given.
    pub source: Option<Name>,
    /// How long it takes a delivery.
    pub expires_ms: Option<i64>,
}

impl WaitpointDraft {
    /// A waitpoint of this name, without end.
    pub fn new(name: Name) -> Self {
        WaitpointDraft { name, source: None, expires_ms: None }
    }

    /// Checks every field; the first wrong one is named.
    pub fn check(&self, pointer: &str) -> Result<(), Refusal> {
        Name::parse(&format!("{pointer}/name"), &self.name, NAME_LIMIT)?;
        if let Some(source) = &self.source {
            Name::parse(&format!("{pointer}/source"), source, NAME_LIMIT)?;
        }
        let expires = format!("{pointer}/expires_ms");
        self.expires_ms.map_or(Ok(()), |ms| check_duration(&expires, ms))
    }

    fn source(&self) -> &Name {
        self.source.as_ref().unwrap_or(&self.name)
    }
}

/// Makes waitpoints. One of a name that is open, or whose delivery is still kept, is given again: its token is the same.
pub fn make(
    work: &mut Work,
    row: &Execution,
    drafts: &[WaitpointDraft],
    fingerprint: i64,
) -> Result<Vec<Waitpoint>, Refusal> {
    let now = work.now();
    let mut made: Vec<(Waitpoint, bool)> = Vec::with_capacity(drafts.len());
    let mut number = row.detail.record.waitpoints;
    for (index, draft) in drafts.iter().enumerate() {
        let before = made.iter().map(|(waitpoint, _)| waitpoint).find(|one| one.name == draft.name);
        let kept = |one: &&Waitpoint| {
            let untaken = |signal: u32| {
                let signal = work.signals(row.id).find(|one| one.number == signal);
                signal.is_some_and(|signal| signal.taken.is_none())
            };
            one.name == draft.name
                && match one.state {
                    WaitpointState::Open => one.is_open(now),
                    WaitpointState::Delivered(signal, _) => untaken(signal),
                    WaitpointState::Expired | WaitpointState::Revoked => false,
                }
        };
        let known = before.or_else(|| work.waitpoints(row.id).rev().find(kept)).cloned();
        if let Some(known) = known {
            if known.source != *draft.source() {
                let detail = format!(
                    "is {:?}, and the open waitpoint {:?} is of {:?}",
                    draft.source(),
                    known.name,
                    known.source
                );
                return Err(Refusal::IdempotencyMismatch { pointer: format!("/{index}/source"), detail });
            }
            made.push((known, false));
            continue;
        }
        number += 1;
        if number > WAITPOINTS_MAX {
            let (what, limit) = ("waitpoints".into(), WAITPOINTS_MAX.into());
            return Err(Refusal::LimitReached { execution: row.id, what, limit });
        }
        let waitpoint = Waitpoint {
            id: work.entropy().waitpoint_id(),
            namespace: row.namespace,
            execution: row.id,
            number,
            name: draft.name.clone(),
            source: draft.source().clone(),
            key: TokenKeyId(0),
            created_at: now,
            expires_at: draft.expires_ms.map(|ms| now.plus_ms(ms)),
            state: WaitpointState::Open,
        };
        made.push((waitpoint, true));
    }
    for (waitpoint, new) in &mut made {
        if let Some(known) = work.waitpoint(row.id, waitpoint.id) {
            *waitpoint = known.clone();
        }
        let signs = work.token_keys().find(|key| key.id == waitpoint.key);
        let valid = signs.is_some_and(|key| key.verifies(now) && key.fingerprint == fingerprint);
        if *new || (!valid && waitpoint.state == WaitpointState::Open) {
            waitpoint.key = signing_key(work, fingerprint);
            keep(work, row, waitpoint.clone(), *new);
        }
    }
    Ok(made.into_iter().map(|(waitpoint, _)| waitpoint).collect())
}

/// Writes a waitpoint that was made, or that is signed with another key. Either is told: whoever has looked at the waitpoint
/// meanwhile, to deliver through it or to revoke it, finds another version of the execution.
fn keep(work: &mut Work, row: &Execution, waitpoint: Waitpoint, new: bool) {
    let fact = Fact::WaitpointCreated {
        waitpoint: waitpoint.id,
        name: waitpoint.name.clone(),
        source: waitpoint.source.clone(),
        expires_at: waitpoint.expires_at,
    };
    let expires_at = work.next_expiry(row.id, Some(&waitpoint));
    work.put_waitpoint(waitpoint);
    work.apply(row.id, fact, None, |row| {
        row.detail.record.waitpoints += u32::from(new);
        row.detail.record.expires_at = expires_at;
    });
}

/// The key that signs now: the newest one of this root secret, or a new one.
fn signing_key(work: &mut Work, fingerprint: i64) -> TokenKeyId {
    let signing = work.token_keys().filter(|key| key.retires_at.is_none() && key.fingerprint == fingerprint);
    if let Some(key) = signing.max_by_key(|key| (key.created_at, key.id)) {
        return key.id;
    }
    new_key(work, fingerprint)
}

fn new_key(work: &mut Work, fingerprint: i64) -> TokenKeyId {
    let id = work.entropy().token_key_id();
    let created_at = work.now();
    work.put_token_key(TokenKey { id, fingerprint, created_at, retires_at: None });
    id
}

/// The time of waitpoints is over. Says how many that were.
pub fn expire(row: &Execution, work: &mut Work) -> u32 {
    let now = work.now();
    let over: Vec<Waitpoint> = work
        .waitpoints(row.id)
        .filter(|one| one.state == WaitpointState::Open && !one.is_open(now))
        .cloned()
        .collect();
    for waitpoint in &over {
        let fact = Fact::WaitpointExpired { waitpoint: waitpoint.id, name: waitpoint.name.clone() };
        close(work, waitpoint.clone(), WaitpointState::Expired, fact, None);
    }
    over.len() as u32
}

/// An operator revokes the token of a waitpoint. One that has taken its delivery, or takes none any more, stays as it is.
pub fn revoke(row: &Execution, id: WaitpointId, actor: Name, work: &mut Work) -> Result<(), Refusal> {
    let known = work.waitpoint(row.id, id).cloned();
    let waitpoint = known.ok_or_else(|| no_waitpoint(id))?;
    if waitpoint.state == WaitpointState::Open {
        let fact = Fact::WaitpointRevoked { waitpoint: id, name: waitpoint.name.clone() };
        close(work, waitpoint, WaitpointState::Revoked, fact, Some(actor));
    }
    Ok(())
}

/// A waitpoint that is not there.
pub fn no_waitpoint(id: WaitpointId) -> Refusal {
    Refusal::NotFound { what: "waitpoint".into(), id: id.to_string() }
}

fn close(work: &mut Work, waitpoint: Waitpoint, state: WaitpointState, fact: Fact, actor: Option<Name>) {
    let closed = Waitpoint { state, ..waitpoint };
    let expires_at = work.next_expiry(closed.execution, Some(&closed));
    let id = closed.execution;
    work.put_waitpoint(closed);
    work.apply(id, fact, actor, |row| row.detail.record.expires_at = expires_at);
}

/// Change the key that tokens are signed with. Those of the old ones are accepted for a while.
#[derive(Clone, Debug)]
pub struct RotateTokenKeys {
    /// Under whose eyes.
    pub namespace: NamespaceId,
    /// For how long.
    pub grace_ms: i64,
    /// Which root secret the new one is derived from.
    pub fingerprint: i64,
    /// Who asked.
    pub actor: Name,
}

impl Rule for RotateTokenKeys {
    type Reply = Result<TokenKey, Refusal>;
    const PHASE: Phase = Phase::Operators;

    fn profile(&self) -> Profile {
        Profile::weighing(1)
    }

    fn needs(&self, _work: &Work, needs: &mut Needs) {
        needs.queries.token_keys = true;
    }

    /// Retires the signing keys and returns the new one.
    fn decide(&self, work: &mut Work) -> Result<TokenKey, Refusal> {
        check_duration("/grace_ms", self.grace_ms)?;
        let now = work.now();
        let retires_at = now.plus_ms(self.grace_ms);
        let keys: Vec<TokenKey> = work.token_keys().copied().collect();
        for key in keys {
            match key.retires_at {
                Some(at) if at <= now => work.remove_token_key(key.id),
                // A grace that was given is not taken back, and not made longer.
                Some(_) => {}
                None => work.put_token_key(TokenKey { retires_at: Some(retires_at), ..key }),
            }
        }
        let id = new_key(work, self.fingerprint);
        let fact = Fact::TokenKeysRotated { key: id, grace_ms: self.grace_ms };
        work.emit(self.namespace, fact, Some(self.actor.clone()));
        Ok(TokenKey { id, fingerprint: self.fingerprint, created_at: now, retires_at: None })
    }
}
