//! Signals, waitpoints and their tokens, and the steps of executions.

use crate::{Engine, Error, Namespace};
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::report::Op;
use selvedge_core::rules::signal::{Delivered, SignalDraft, Way};
use selvedge_core::rules::suspend::Suspend;
use selvedge_core::rules::waitpoint::{Rotate, WaitpointDraft, no_waitpoint};
use selvedge_core::step::Step;
use selvedge_core::suspension::WaitDraft;
use selvedge_core::token::{Secret, TokenKey};
use selvedge_core::{ExecutionId, Name, Signal, Waitpoint, WaitpointId};
use selvedge_store::Store;

/// How many bytes a secret has that is generated.
const SECRET_BYTES: usize = 32;

/// The root secret: the one that is given, or the one that the store keeps, which is generated where it has none.
pub async fn secret(store: &dyn Store, given: Option<Secret>) -> Result<Secret, Error> {
    let failed = |detail: String| Error::from(selvedge_store::Error::Failed(detail));
    let secret = match given {
        Some(secret) => secret,
        None => {
            let mut new = [0; SECRET_BYTES];
            getrandom::fill(&mut new).map_err(|error| failed(format!("no random bytes: {error}")))?;
            let kept = store.kept_secret(&new).await?;
            Secret::new(kept).map_err(|detail| failed(format!("the secret in the store {detail}")))?
        }
    };
    let fingerprint = secret.fingerprint();
    let keys = store.token_keys().await?;
    if keys.iter().any(|key| key.retires_at.is_none() && key.fingerprint != fingerprint) {
        tracing::warn!(
            "tokens of waitpoints were signed under another secret; this server refuses them. Every server of a store needs \
             the same SELVEDGE_SECRET"
        );
    }
    Ok(secret)
}

impl Engine {
    /// Delivers a signal through a waitpoint: the token is all that is asked for. The same again gets the first answer.
    pub async fn deliver(
        &self,
        waitpoint: WaitpointId,
        token: &str,
        draft: SignalDraft,
    ) -> Result<Delivered, Error> {
        let known = self.inner.store.waitpoint(waitpoint).await?;
        let execution = known.ok_or_else(|| no_waitpoint(waitpoint))?.execution;
        let way = Way::Token { waitpoint, token: token.to_owned(), secret: self.inner.secret.clone() };
        let deliver = draft.check(execution, way)?;
        Ok(self.inner.committer.run(deliver).await??)
    }
}

impl Namespace {
    /// Delivers a signal to an execution as this source.
    pub async fn signal(
        &self,
        execution: ExecutionId,
        draft: SignalDraft,
        source: &Name,
    ) -> Result<Delivered, Error> {
        let way = Way::Direct { namespace: self.id(), source: source.clone() };
        let deliver = draft.check(execution, way)?;
        Ok(self.run(deliver).await??)
    }

    /// The report by which a running execution makes a waitpoint.
    pub fn waitpoint(&self, draft: WaitpointDraft) -> Op {
        Op::Waitpoint { draft, fingerprint: self.inner().secret.fingerprint() }
    }

    /// The report by which a running execution is suspended until one of these waits ends.
    pub fn suspend(&self, waits: Vec<WaitDraft>, waitpoints: Vec<WaitpointDraft>) -> Op {
        let fingerprint = self.inner().secret.fingerprint();
        Op::Suspend(Box::new(Suspend { waits, waitpoints, fingerprint }))
    }

    /// The token of a waitpoint, for the answer to the worker that made it and for nobody else.
    pub fn token(&self, waitpoint: &Waitpoint) -> String {
        self.inner().secret.sign(waitpoint)
    }

    /// Revokes the token of a waitpoint. One that has taken its delivery stays as it is.
    pub async fn revoke_waitpoint(&self, id: WaitpointId, actor: &Name) -> Result<Waitpoint, Error> {
        let store = &self.inner().store;
        let known = store.waitpoint(id).await?.filter(|known| known.namespace == self.id());
        let execution = known.ok_or_else(|| no_waitpoint(id))?.execution;
        self.operate(execution, Action::RevokeWaitpoint { waitpoint: id }, None, actor).await?;
        Ok(store.waitpoint(id).await?.ok_or_else(|| no_waitpoint(id))?)
    }

    /// Changes the key that the tokens of all waitpoints are signed with. Tokens of the old ones are accepted for `grace_ms`
    /// more. Every server of the store follows at once.
    pub async fn rotate_token_keys(&self, grace_ms: i64, actor: &Name) -> Result<TokenKey, Error> {
        let fingerprint = self.inner().secret.fingerprint();
        let rotate = Rotate { namespace: self.id(), grace_ms, fingerprint, actor: actor.clone() };
        Ok(self.run(rotate).await??)
    }

    /// The signals of an execution after this number, oldest first.
    pub async fn signals(&self, id: ExecutionId, after: u32, limit: u32) -> Result<Vec<Signal>, Error> {
        self.get(id).await?;
        Ok(self.inner().store.signals(id, after, limit).await?)
    }

    /// The steps of an execution after this number, in the order in which they were begun.
    pub async fn steps(&self, id: ExecutionId, after: u32, limit: u32) -> Result<Vec<Step>, Error> {
        self.get(id).await?;
        Ok(self.inner().store.steps(id, after, limit).await?)
    }

    /// The waitpoints of an execution after this number, in the order in which they were made.
    pub async fn waitpoints(&self, id: ExecutionId, after: u32, limit: u32) -> Result<Vec<Waitpoint>, Error> {
        self.get(id).await?;
        Ok(self.inner().store.waitpoints(id, after, limit).await?)
    }
}
