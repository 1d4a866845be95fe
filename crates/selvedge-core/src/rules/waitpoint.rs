//! Creation, expiry, revocation and re-issue of waitpoints, and rotation of the keys that sign their tokens.

use super::keyed::Repeatable;
use super::report::{Attempt, Operation, Report, Reported};
use crate::digest::Digest;
use crate::fact::{self, Fact};
use crate::name::NAME_LIMIT;
use crate::rule::{Phase, Profile, Rule};
use crate::submission::check_duration;
use crate::token::{TokenKey, TokenKeyId};
use crate::waitpoint::{CHOICES_MAX, PROMPT_LIMIT, WAITPOINTS_MAX, Waitpoint, WaitpointState};
use crate::{Execution, ExecutionId, Name, NamespaceId, Needs, Refusal, Timestamp, WaitpointId, Work};
use std::collections::BTreeSet;
use std::fmt;

/// A waitpoint as a worker requests it.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitpointDraft {
    pub name: Name,
    /// The source of signals delivered through it. Default: the waitpoint's name.
    pub source: Option<Name>,
    /// The time until it expires, in milliseconds. Default: it does not expire.
    pub expires_ms: Option<i64>,
    /// The names of the signals that the token may send. Default: the waitpoint's name.
    pub signals: Option<Vec<Name>>,
    /// The question to the holder of the token. Default: none.
    pub prompt: Option<String>,
}

impl WaitpointDraft {
    /// Creates a draft of this name, which does not expire.
    pub fn new(name: Name) -> Self {
        WaitpointDraft { name, source: None, expires_ms: None, signals: None, prompt: None }
    }

    /// Checks every field. The refusal names the first invalid one.
    pub fn check(&self, pointer: &str) -> Result<(), Refusal> {
        Name::parse(&format!("{pointer}/name"), &self.name, NAME_LIMIT)?;
        if let Some(source) = &self.source {
            Name::parse(&format!("{pointer}/source"), source, NAME_LIMIT)?;
        }
        if let Some(signals) = &self.signals {
            let at = format!("{pointer}/signals");
            if signals.is_empty() || signals.len() > CHOICES_MAX {
                let detail = format!("has {} names; give 1 to {CHOICES_MAX}", signals.len());
                return Err(Refusal::field(&at, detail));
            }
            for (index, signal) in signals.iter().enumerate() {
                Name::parse(&format!("{at}/{index}"), signal, NAME_LIMIT)?;
            }
        }
        if let Some(length) = self.prompt.as_ref().map(String::len).filter(|length| *length > PROMPT_LIMIT) {
            let detail = format!("has {length} bytes; at most {PROMPT_LIMIT} are allowed");
            return Err(Refusal::field(&format!("{pointer}/prompt"), detail));
        }
        let expires = format!("{pointer}/expires_ms");
        self.expires_ms.map_or(Ok(()), |ms| check_duration(&expires, ms))
    }

    fn source(&self) -> &Name {
        self.source.as_ref().unwrap_or(&self.name)
    }

    fn signals(&self) -> &[Name] {
        self.signals.as_deref().unwrap_or(std::slice::from_ref(&self.name))
    }

    /// Refuses to return a known waitpoint for this draft if its token would mean something else.
    fn check_same(&self, known: &Waitpoint, pointer: &str) -> Result<(), Refusal> {
        let mismatch = |field: &str, wanted: &dyn fmt::Debug, actual: &dyn fmt::Debug| {
            let name = &known.name;
            let detail = format!(
                "is {wanted:?}, but the existing waitpoint {name:?} has {actual:?}; repeat that, or choose another name"
            );
            Err(Refusal::IdempotencyMismatch { pointer: format!("{pointer}/{field}"), detail })
        };
        if known.source != *self.source() {
            return mismatch("source", self.source(), &known.source);
        }
        match &known.signals {
            Some(signals) if signals != self.signals() => mismatch("signals", &self.signals(), signals),
            Some(_) | None => Ok(()),
        }
    }
}

/// Creates a waitpoint for an active execution.
pub(super) struct NewWaitpoint<'a> {
    pub draft: &'a WaitpointDraft,
    /// The fingerprint of the root secret that signs its token.
    pub fingerprint: i64,
}

impl Operation for NewWaitpoint<'_> {
    fn check(&self) -> Result<(), Refusal> {
        self.draft.check("")
    }

    fn needs(&self, report: &Report, held: Option<&Execution>, _work: &Work, needs: &mut Needs) {
        needs.queries.waitpoints.push(report.fence.execution);
        needs.queries.token_keys = true;
        let untaken = held.filter(|row| row.detail.record.untaken > 0);
        needs.queries.untaken.extend(untaken.map(|row| row.id));
    }

    fn add_to(&self, digest: &mut Digest) {
        digest.raw(b"waitpoint");
    }

    fn apply(&self, of: &Attempt<'_>, work: &mut Work) -> Result<Reported, Refusal> {
        let created = create(work, of.row, std::slice::from_ref(self.draft), self.fingerprint);
        let waitpoints = created.map_err(|refusal| refusal.without_pointer_prefix("/0"))?;
        Ok(Reported { waitpoints, ..Reported::active() })
    }
}

/// Creates waitpoints. An existing waitpoint of the same name is returned again, with the same token and prompt, if it is
/// open, if it expired early or if no wait has taken its signal yet.
pub fn create(
    work: &mut Work,
    row: &Execution,
    drafts: &[WaitpointDraft],
    fingerprint: i64,
) -> Result<Vec<Waitpoint>, Refusal> {
    let now = work.now();
    let mut waitpoints: Vec<(Waitpoint, bool)> = Vec::with_capacity(drafts.len());
    let mut number = row.detail.record.waitpoints;
    for (index, draft) in drafts.iter().enumerate() {
        let before = waitpoints.iter().map(|(waitpoint, _)| waitpoint).find(|one| one.name == draft.name);
        let reusable = |one: &&Waitpoint| {
            let untaken = |signal: u32| {
                let signal = work.signals(row.id).find(|one| one.number == signal);
                signal.is_some_and(|signal| signal.taken.is_none())
            };
            one.name == draft.name
                && match one.state {
                    WaitpointState::Open => one.is_open(now),
                    WaitpointState::Delivered(signal, _) => untaken(signal),
                    WaitpointState::Expired => one.expired_early(now),
                    WaitpointState::Revoked => false,
                }
        };
        let known = before.or_else(|| work.waitpoints(row.id).rev().find(reusable)).cloned();
        if let Some(known) = known {
            draft.check_same(&known, &format!("/{index}"))?;
            waitpoints.push((known, false));
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
            signals: Some(draft.signals().to_vec()),
            prompt: draft.prompt.clone(),
            issue: 0,
        };
        waitpoints.push((waitpoint, true));
    }
    for (waitpoint, new) in &mut waitpoints {
        if let Some(known) = work.waitpoint(row.id, waitpoint.id) {
            *waitpoint = known.clone();
        }
        let signs = work.token_keys().find(|key| key.id == waitpoint.key);
        let valid = signs.is_some_and(|key| key.verifies(now) && key.fingerprint == fingerprint);
        let opens = waitpoint.state == WaitpointState::Expired;
        if opens {
            waitpoint.state = WaitpointState::Open;
        }
        if *new || opens || (!valid && waitpoint.state == WaitpointState::Open) {
            if *new || !valid {
                waitpoint.key = signing_key(work, fingerprint);
            }
            save(work, row, waitpoint.clone(), *new);
        }
    }
    Ok(waitpoints.into_iter().map(|(waitpoint, _)| waitpoint).collect())
}

/// Saves a waitpoint that is new, open again or signed with another key, and records it. That raises the execution's version, so a
/// concurrent delivery or revocation that has read the waitpoint is retried.
fn save(work: &mut Work, row: &Execution, waitpoint: Waitpoint, new: bool) {
    let fact = Fact::WaitpointCreated(fact::WaitpointCreated {
        waitpoint: waitpoint.id,
        name: waitpoint.name.clone(),
        source: waitpoint.source.clone(),
        expires_at: waitpoint.expires_at,
    });
    let expires_at = work.next_expiry(row.id, Some(&waitpoint));
    work.put(waitpoint);
    work.apply(row.id, fact, None, |row| {
        row.detail.record.waitpoints += u32::from(new);
        row.detail.record.expires_at = expires_at;
    });
}

/// Returns the key that signs new tokens: the newest key of this root secret, or a new one.
fn signing_key(work: &mut Work, fingerprint: i64) -> TokenKeyId {
    let signing = work.token_keys().filter(|key| key.retires_at.is_none() && key.fingerprint == fingerprint);
    if let Some(key) = signing.max_by_key(|key| (key.created_at, key.id)) {
        return key.id;
    }
    new_key(work, fingerprint)
}

/// Creates a key.
fn new_key(work: &mut Work, fingerprint: i64) -> TokenKeyId {
    let id = work.entropy().token_key_id();
    let created_at = work.now();
    work.put(TokenKey { id, fingerprint, created_at, retires_at: None });
    id
}

/// Expires the waitpoints whose time has passed. Returns their number.
pub fn expire(row: &Execution, work: &mut Work) -> u32 {
    let now = work.now();
    let expired: Vec<Waitpoint> = work
        .waitpoints(row.id)
        .filter(|one| one.state == WaitpointState::Open && !one.is_open(now))
        .cloned()
        .collect();
    for waitpoint in &expired {
        let fact = Fact::WaitpointExpired(fact::WaitpointExpired {
            waitpoint: waitpoint.id,
            name: waitpoint.name.clone(),
        });
        close(work, waitpoint.clone(), WaitpointState::Expired, fact, None);
    }
    expired.len() as u32
}

/// Needs the waitpoints of an execution whose end, or the end of a vote, may close them; nothing if it never had one.
pub fn needs_closed(row: &Execution, needs: &mut Needs) {
    needs.queries.waitpoints.extend((row.detail.record.waitpoints > 0).then_some(row.id));
}

/// Closes the open waitpoints of an execution that has ended, or of votes that have ended, if the transaction noted any. They
/// expire early: a later wait for their signals opens them again, with the same token.
pub fn close_unneeded(work: &mut Work, id: ExecutionId) {
    let Some(closing) = work.take_closing(id) else { return };
    let open: Vec<Waitpoint> = work
        .waitpoints(id)
        .filter(|one| one.state == WaitpointState::Open && closing.closes(one))
        .cloned()
        .collect();
    for waitpoint in open {
        let fact = Fact::WaitpointExpired(fact::WaitpointExpired {
            waitpoint: waitpoint.id,
            name: waitpoint.name.clone(),
        });
        close(work, waitpoint, WaitpointState::Expired, fact, None);
    }
}

/// Opens waitpoints again that expired early and whose signals one of these names is: a wait for them begins. That happens when
/// a vote is repeated, and when an execution that ended while it waited is replayed.
pub fn open_needed(work: &mut Work, row: &Execution, names: &BTreeSet<&Name>) {
    let now = work.now();
    let needed = |one: &&Waitpoint| {
        one.expired_early(now)
            && (names.contains(&one.name) || one.choices().iter().any(|name| names.contains(name)))
    };
    let needed: Vec<Waitpoint> = work.waitpoints(row.id).filter(needed).cloned().collect();
    for waitpoint in needed {
        save(work, row, Waitpoint { state: WaitpointState::Open, ..waitpoint }, false);
    }
}

/// Revokes the token of a waitpoint. A waitpoint that is no longer open is left unchanged.
pub fn revoke(row: &Execution, id: WaitpointId, actor: Name, work: &mut Work) -> Result<(), Refusal> {
    let known = work.waitpoint(row.id, id).cloned();
    let waitpoint = known.ok_or_else(|| no_waitpoint(id))?;
    if waitpoint.state == WaitpointState::Open {
        let fact =
            Fact::WaitpointRevoked(fact::WaitpointRevoked { waitpoint: id, name: waitpoint.name.clone() });
        close(work, waitpoint, WaitpointState::Revoked, fact, Some(actor));
    }
    Ok(())
}

/// The request of an operator for a new token of a waitpoint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reissue {
    pub waitpoint: WaitpointId,
    /// The time until the waitpoint expires, in milliseconds. Default: its expiry stays.
    pub expires_ms: Option<i64>,
    /// The fingerprint of the root secret that signs the new token.
    pub fingerprint: i64,
}

impl Reissue {
    /// Issues a new token, which ends the old one. A waitpoint that was revoked or has expired is open again. Refuses
    /// one that has received its delivery.
    pub fn decide(&self, row: &Execution, actor: Name, work: &mut Work) -> Result<(), Refusal> {
        let known = work.waitpoint(row.id, self.waitpoint).cloned();
        let known = known.ok_or_else(|| no_waitpoint(self.waitpoint))?;
        self.expires_ms.map_or(Ok(()), |ms| check_duration("/expires_ms", ms))?;
        if let Some(outcome) = row.state.outcome() {
            return Err(Refusal::AlreadyTerminal { execution: row.id, outcome });
        }
        if let WaitpointState::Delivered(..) = known.state {
            return Err(closed(row, &known, "it has received its delivery and needs no token any more"));
        }
        let now = work.now();
        let expires_at = self.expires_ms.map(|ms| now.plus_ms(ms)).or(known.expires_at);
        if expires_at.is_some_and(|at| at <= now) {
            let detail = match self.expires_ms {
                Some(_) => "must be greater than 0",
                None => "is missing; the waitpoint has expired, so say how long the new token is valid",
            };
            return Err(Refusal::field("/expires_ms", detail));
        }
        let key = signing_key(work, self.fingerprint);
        let (state, issue) = (WaitpointState::Open, known.issue + 1);
        let issued = Waitpoint { key, expires_at, state, issue, ..known };
        let fact = Fact::WaitpointReissued(fact::WaitpointReissued {
            waitpoint: issued.id,
            name: issued.name.clone(),
            expires_at,
        });
        let next_expiry = work.next_expiry(row.id, Some(&issued));
        work.put(issued);
        work.apply(row.id, fact, Some(actor), |row| row.detail.record.expires_at = next_expiry);
        Ok(())
    }
}

/// Returns the refusal of an action that the state of a waitpoint does not allow.
pub(super) fn closed(row: &Execution, waitpoint: &Waitpoint, detail: &str) -> Refusal {
    let (name, state) = (&waitpoint.name, waitpoint.state.as_str());
    let detail = format!("its waitpoint {name:?} is {state}; {detail}");
    Refusal::WrongState { execution: row.id, state: row.state.name().as_str().into(), detail }
}

/// Returns the refusal for an unknown waitpoint.
pub fn no_waitpoint(id: WaitpointId) -> Refusal {
    Refusal::NotFound { what: "waitpoint".into(), id: id.to_string() }
}

/// Closes a waitpoint and records it.
fn close(work: &mut Work, waitpoint: Waitpoint, state: WaitpointState, fact: Fact, actor: Option<Name>) {
    let closed = Waitpoint { state, ..waitpoint };
    let expires_at = work.next_expiry(closed.execution, Some(&closed));
    let id = closed.execution;
    work.put(closed);
    work.apply(id, fact, actor, |row| row.detail.record.expires_at = expires_at);
}

/// Rotates the key that signs tokens. Tokens of the old keys are accepted for a grace period.
#[derive(Clone, Debug)]
pub struct RotateTokenKeys {
    /// The namespace in whose event log the rotation is recorded. Keys are shared by all namespaces.
    pub namespace: NamespaceId,
    /// The grace period, in milliseconds.
    pub grace_ms: i64,
    /// The fingerprint of the root secret from which the new key is derived.
    pub fingerprint: i64,
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
                Some(at) if at <= now => work.remove::<TokenKey>(&key.id),
                // An earlier grace period is neither shortened nor extended.
                Some(_) => {}
                None => work.put(TokenKey { retires_at: Some(retires_at), ..key }),
            }
        }
        let id = new_key(work, self.fingerprint);
        let fact = Fact::TokenKeysRotated(fact::TokenKeysRotated { key: id, grace_ms: self.grace_ms });
        work.emit(self.namespace, fact, Some(self.actor.clone()));
        Ok(TokenKey { id, fingerprint: self.fingerprint, created_at: now, retires_at: None })
    }
}

impl Repeatable for RotateTokenKeys {
    type Done = TokenKey;
    type Answer = (TokenKeyId, Timestamp);

    fn namespace(&self) -> NamespaceId {
        self.namespace
    }

    fn answer(done: &TokenKey) -> (TokenKeyId, Timestamp) {
        (done.id, done.created_at)
    }

    /// Returns the key that the first call created.
    fn repeat(&self, (id, created_at): (TokenKeyId, Timestamp), _work: &Work) -> Result<TokenKey, Refusal> {
        Ok(TokenKey { id, fingerprint: self.fingerprint, created_at, retires_at: None })
    }
}
