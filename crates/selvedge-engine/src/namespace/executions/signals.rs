//! Signals, waitpoints with their tokens, and the steps of executions.

use super::record_pages::{PageReader, RecordLimit, RecordPage};
use crate::namespace::{KeyedCalls, Namespace};
use crate::{Engine, Error};
use bytes::Bytes;
use selvedge_core::filter::Payloads;
use selvedge_core::rules::keyed::Answered;
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::report::Op;
use selvedge_core::rules::signal::{Delivered, SignalDraft, SignalSender, verify};
use selvedge_core::rules::suspend::Suspend;
use selvedge_core::rules::waitpoint::{Reissue, WaitpointDraft, no_waitpoint};
use selvedge_core::step::Step;
use selvedge_core::suspension::WaitDraft;
use selvedge_core::token::{Secret, TokenKey};
use selvedge_core::waitpoint::{WAITPOINTS_MAX, WaitpointFilter, WaitpointPosition, WaitpointStateName};
use selvedge_core::{ExecutionId, Name, Outcome, Signal, Timestamp, Waitpoint, WaitpointId};
use selvedge_store::{SecretPlace, Store};
use std::cmp::Reverse;

/// The number of random bytes in a generated secret.
const SECRET_BYTES: usize = 32;
/// The number of signals among which the decision of a question is looked for, newest first.
const LOOKED_AT: u32 = 200;
/// The total size of payloads at which a page of signals or steps ends, in bytes.
const PAGE_BYTES: usize = 1024 * 1024;

/// Returns the root secret and the place where the store keeps it, none if it is the configured one. A store without a secret
/// gets a new one.
pub(crate) async fn load_secret(
    store: &dyn Store,
    configured: Option<Secret>,
) -> Result<(Secret, Option<SecretPlace>), Error> {
    let failed = |detail: String| Error::from(selvedge_store::Error::Failed(detail));
    let (secret, place, is_new) = match configured {
        Some(secret) => (secret, None, false),
        None => {
            let new = random_secret().map_err(|error| failed(format!("no random bytes: {error}")))?;
            let kept = store.root_secret(&new).await?;
            let is_new = kept.bytes == new;
            let secret = Secret::new(kept.bytes).map_err(|detail| {
                failed(format!("the root secret {} {detail}; restore it from a backup", shown(&kept.place)))
            })?;
            (secret, Some(kept.place), is_new)
        }
    };
    let fingerprint = secret.fingerprint();
    let keys = store.token_keys().await?;
    if keys.iter().any(|key| key.retires_at.is_none() && key.fingerprint != fingerprint) {
        match is_new {
            true => tracing::error!(
                "the root secret of this store is missing, so a new one was made: the tokens of open waitpoints are void, and \
                 webhooks wait until their secrets are rotated. Stop this server, put the secret back (the file that ended with \
                 -secret beside the store, or SELVEDGE_SECRET) and start again; or reissue the tokens and rotate the secrets"
            ),
            false => tracing::warn!(
                "waitpoint tokens were signed with another secret; this server refuses them. All servers of a store need the \
                 same SELVEDGE_SECRET"
            ),
        }
    }
    Ok((secret, place))
}

/// Returns a new secret: hexadecimal digits, which also fit in a variable.
fn random_secret() -> Result<Vec<u8>, getrandom::Error> {
    let mut random = [0_u8; SECRET_BYTES];
    getrandom::fill(&mut random)?;
    Ok(random.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect())
}

fn shown(place: &SecretPlace) -> String {
    match place {
        SecretPlace::Memory => "in memory".into(),
        SecretPlace::File(path) => format!("in {}", path.display()),
        SecretPlace::Store => "in the store".into(),
    }
}

/// A waitpoint as the holder of its token sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitpointLook {
    pub waitpoint: Waitpoint,
    /// Its state now.
    pub state: WaitpointStateName,
    /// The answers by which the question was decided; none while it is open, or if nobody has answered.
    pub decision: Option<Decision>,
    /// The outcome of the execution, if it has ended. Not read while the waitpoint is open.
    pub outcome: Option<Outcome>,
    /// The store's time.
    pub now: Timestamp,
}

/// The answers by which a question to several people was decided.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The sources of the answers, in the order of their delivery.
    pub by: Vec<Name>,
    /// The name of the signal that decided.
    pub signal: Name,
    /// The time of the answer that decided.
    pub at: Timestamp,
    /// True if it declined: SDKs end the name of that signal with `/reject`.
    pub declines: bool,
}

/// The part of a name before its last slash. The waitpoints of one approval have it in common: `deploy/ann`, `deploy/bob`.
fn vote_of(name: &Name) -> Option<&str> {
    name.rsplit_once('/').map(|(vote, _)| vote)
}

/// Returns the decision of the question of a waitpoint: of the signals that a wait has taken, those of the same approval, or, for
/// a waitpoint whose name has no slash, those that came through waitpoints after its creation. Of these, the last one decided.
fn decision(signals: &[Signal], waitpoint: &Waitpoint) -> Option<Decision> {
    let belongs = |signal: &&Signal| match vote_of(&waitpoint.name) {
        Some(vote) => vote_of(&signal.name) == Some(vote),
        None => signal.waitpoint.is_some(),
    };
    let taken = signals.iter().filter(|signal| signal.taken.is_some() && signal.at >= waitpoint.created_at);
    let taken: Vec<&Signal> = taken.filter(belongs).collect();
    let declines = |signal: &Signal| signal.name.ends_with("/reject");
    let last = taken.last()?;
    let alike =
        taken.iter().filter(|signal| signal.taken == last.taken && declines(signal) == declines(last));
    Some(Decision {
        by: alike.map(|signal| signal.source.clone()).collect(),
        signal: last.name.clone(),
        at: last.at,
        declines: declines(last),
    })
}

impl Engine {
    /// Delivers a signal through a waitpoint. The token is the only authorization. A repeat returns the first reply.
    pub async fn deliver(
        &self,
        waitpoint: WaitpointId,
        token: &str,
        draft: SignalDraft,
    ) -> Result<Delivered, Error> {
        let known = self.inner.store.waitpoint(waitpoint).await?;
        let execution = known.ok_or_else(|| no_waitpoint(waitpoint))?.execution;
        let way = SignalSender::TokenHolder {
            waitpoint,
            token: token.to_owned(),
            secret: self.inner.secret.clone(),
        };
        let deliver = draft.check(execution, way)?;
        Ok(self.inner.committer.run(deliver).await??)
    }

    /// Returns a waitpoint, its state now, and why it accepts no delivery any more. The token is the only authorization.
    pub async fn look_at_waitpoint(&self, id: WaitpointId, token: &str) -> Result<WaitpointLook, Error> {
        let store = &self.inner.store;
        let waitpoint = store.waitpoint(id).await?.ok_or_else(|| no_waitpoint(id))?;
        let (keys, now) = (store.token_keys().await?, store.now().await?);
        verify(&waitpoint, token, &self.inner.secret, keys.iter(), now)?;
        let state = waitpoint.state_at(now);
        let mut look = WaitpointLook { waitpoint, state, now, decision: None, outcome: None };
        if state != WaitpointStateName::Open {
            let id = look.waitpoint.execution;
            let row = store.fetch(&[id], Payloads::NONE).await?.pop().map(|row| row.execution);
            look.outcome = row.as_ref().and_then(|row| row.state.outcome());
            let count = row.map_or(0, |row| row.detail.record.signals);
            let newest = store.signals(id, count.saturating_sub(LOOKED_AT), LOOKED_AT).await?;
            look.decision = decision(&newest, &look.waitpoint);
        }
        Ok(look)
    }

    /// Returns the keys that sign and verify the tokens of all waitpoints, newest first. Only their ids are stored.
    pub async fn token_keys(&self) -> Result<Vec<TokenKey>, Error> {
        let mut keys = self.inner.store.token_keys().await?;
        keys.sort_unstable_by_key(|key| Reverse((key.created_at, key.id)));
        Ok(keys)
    }
}

impl Namespace {
    /// Delivers a signal to an execution, with the given source.
    pub async fn signal(
        &self,
        execution: ExecutionId,
        draft: SignalDraft,
        source: &Name,
    ) -> Result<Delivered, Error> {
        let way = SignalSender::Caller { namespace: self.id(), source: source.clone() };
        let deliver = draft.check(execution, way)?;
        Ok(self.run(deliver).await??)
    }

    /// Creates the report by which an active execution creates a waitpoint.
    pub fn waitpoint(&self, draft: WaitpointDraft) -> Op {
        Op::Waitpoint { draft, fingerprint: self.inner().secret.fingerprint() }
    }

    /// Creates the report that suspends an active execution until one of these waits ends.
    pub fn suspend(&self, waits: Vec<WaitDraft>, waitpoints: Vec<WaitpointDraft>) -> Op {
        let fingerprint = self.inner().secret.fingerprint();
        Op::Suspend(Box::new(Suspend { waits, waitpoints, fingerprint, default_timeout_ms: None }))
    }

    /// Signs the token of a waitpoint. Return it only to the worker that created the waitpoint.
    pub fn token(&self, waitpoint: &Waitpoint) -> String {
        self.inner().secret.sign(waitpoint)
    }

    /// Returns a waitpoint.
    pub async fn get_waitpoint(&self, id: WaitpointId) -> Result<Waitpoint, Error> {
        let known = self.inner().store.waitpoint(id).await?;
        Ok(known.filter(|known| known.namespace == self.id()).ok_or_else(|| no_waitpoint(id))?)
    }

    /// Returns a page of the waitpoints that match, of all executions or of one, newest first; and the place to
    /// continue from, none on the last page.
    pub async fn list_waitpoints(
        &self,
        filter: &WaitpointFilter,
        execution: Option<ExecutionId>,
        after: Option<WaitpointPosition>,
        limit: u32,
    ) -> Result<(Vec<Waitpoint>, Option<WaitpointPosition>), Error> {
        let store = &self.inner().store;
        let mut found = match execution {
            None => store.list_waitpoints(filter, after, limit + 1).await?,
            Some(execution) => {
                // An execution has few waitpoints, so all of them are read.
                let mut found = store.waitpoints(execution, 0, WAITPOINTS_MAX).await?;
                found.retain(|one| filter.selects(one) && after.is_none_or(|after| one.position() < after));
                found.sort_unstable_by_key(|one| Reverse(one.position()));
                found
            }
        };
        let more = found.len() > limit as usize;
        found.truncate(limit as usize);
        let next = found.last().filter(|_| more).map(Waitpoint::position);
        Ok((found, next))
    }

    /// Answers a waitpoint in place of the holder of its token. The signal has the source of the waitpoint. A repeat
    /// returns the first reply.
    pub async fn answer_waitpoint(
        &self,
        id: WaitpointId,
        draft: SignalDraft,
        actor: &Name,
    ) -> Result<Delivered, Error> {
        let execution = self.get_waitpoint(id).await?.execution;
        let (namespace, actor) = (self.id(), actor.clone());
        let sender = SignalSender::Operator { namespace, waitpoint: id, actor };
        Ok(self.run(draft.check(execution, sender)?).await??)
    }

    /// Issues a new token of a waitpoint, which ends the old one and opens the waitpoint again. It expires after
    /// `expires_ms` milliseconds; by default its expiry stays. Sign the token of the returned waitpoint.
    pub async fn reissue_waitpoint(
        &self,
        id: WaitpointId,
        expires_ms: Option<i64>,
        actor: &Name,
    ) -> Result<Waitpoint, Error> {
        Ok(self.keyed(None).reissue_waitpoint(id, expires_ms, actor).await?.done)
    }

    pub(in crate::namespace) async fn reissue_waitpoint_keyed(
        &self,
        calls: &KeyedCalls<'_>,
        id: WaitpointId,
        expires_ms: Option<i64>,
        actor: &Name,
    ) -> Result<Answered<Waitpoint>, Error> {
        let execution = self.get_waitpoint(id).await?.execution;
        let fingerprint = self.inner().secret.fingerprint();
        let reissue = Action::ReissueWaitpoint(Reissue { waitpoint: id, expires_ms, fingerprint });
        let Answered { duplicate, .. } = calls.operate(execution, reissue, None, actor).await?;
        Ok(Answered { done: self.get_waitpoint(id).await?, duplicate })
    }

    /// Revokes the token of a waitpoint. A waitpoint that has received its delivery stays unchanged.
    pub async fn revoke_waitpoint(&self, id: WaitpointId, actor: &Name) -> Result<Waitpoint, Error> {
        Ok(self.keyed(None).revoke_waitpoint(id, actor).await?.done)
    }

    pub(in crate::namespace) async fn revoke_waitpoint_keyed(
        &self,
        calls: &KeyedCalls<'_>,
        id: WaitpointId,
        actor: &Name,
    ) -> Result<Answered<Waitpoint>, Error> {
        let execution = self.get_waitpoint(id).await?.execution;
        let revoke = Action::RevokeWaitpoint { waitpoint: id };
        let Answered { duplicate, .. } = calls.operate(execution, revoke, None, actor).await?;
        Ok(Answered { done: self.get_waitpoint(id).await?, duplicate })
    }

    /// Rotates the key that signs the tokens of all waitpoints. Tokens signed with older keys are accepted for another
    /// `grace_ms` milliseconds. The rotation takes effect on every server with its commit.
    pub async fn rotate_token_keys(&self, grace_ms: i64, actor: &Name) -> Result<TokenKey, Error> {
        Ok(self.keyed(None).rotate_token_keys(grace_ms, actor).await?.done)
    }

    /// Returns the signals of an execution after this number, oldest first.
    pub async fn signals(
        &self,
        id: ExecutionId,
        after: u32,
        limit: u32,
    ) -> Result<RecordPage<Signal>, Error> {
        self.head(id).await?;
        self.signals_after(id, after, limit).await
    }

    pub(super) async fn signals_after(
        &self,
        id: ExecutionId,
        after: u32,
        limit: u32,
    ) -> Result<RecordPage<Signal>, Error> {
        let mut page: PageReader<Signal> = PageReader::new(RecordLimit { records: limit, bytes: PAGE_BYTES });
        while let Some(wanted) = page.wanted() {
            let after = page.last().map_or(after, |last| last.number);
            let found = self.inner().store.signals(id, after, wanted).await?;
            page.add(found, |signal| signal.payload.as_ref().map_or(0, Bytes::len));
        }
        Ok(page.finish())
    }

    /// Returns the steps of an execution after this number, in the order in which they began.
    pub async fn steps(&self, id: ExecutionId, after: u32, limit: u32) -> Result<RecordPage<Step>, Error> {
        self.head(id).await?;
        self.steps_after(id, after, limit).await
    }

    pub(super) async fn steps_after(
        &self,
        id: ExecutionId,
        after: u32,
        limit: u32,
    ) -> Result<RecordPage<Step>, Error> {
        let mut page: PageReader<Step> = PageReader::new(RecordLimit { records: limit, bytes: PAGE_BYTES });
        while let Some(wanted) = page.wanted() {
            let after = page.last().map_or(after, |last| last.number);
            let found = self.inner().store.steps(id, after, wanted).await?;
            page.add(found, |step| step.result.as_ref().map_or(0, Bytes::len));
        }
        Ok(page.finish())
    }

    /// Returns the waitpoints of an execution after this number, in the order of their creation.
    pub async fn waitpoints(&self, id: ExecutionId, after: u32, limit: u32) -> Result<Vec<Waitpoint>, Error> {
        self.head(id).await?;
        Ok(self.inner().store.waitpoints(id, after, limit).await?)
    }
}
