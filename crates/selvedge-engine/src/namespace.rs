//! What callers and workers do: submit, claim, report, and the actions of operators, all inside one namespace.

use crate::outcome::instance_key;
use crate::task::{answer, post};
use crate::waiting_claims::Wake;
use crate::{Engine, Error, Inner};
use selvedge_core::rule::Rule;
use selvedge_core::rules::Operation;
use selvedge_core::rules::claim::{Claim, ClaimDraft, Claimed, Nothing};
use selvedge_core::rules::operator::{Action, Operate};
use selvedge_core::rules::report::{Fence, Op, Report, Reported, Reports};
use selvedge_core::rules::submit::{Item, Submit, Submitted};
use selvedge_core::{Class, ClassId, Draft, Execution, ExecutionId, Name, NamespaceId, Refusal, Submission};
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

/// How long a submission is tried again while the store is away.
const SUBMIT_PATIENCE: Duration = Duration::from_secs(5);
/// How long after a failed submission the next try begins.
const RETRY_AFTER: Duration = Duration::from_millis(100);
/// The longest a call may wait.
pub const WAIT_MAX: Duration = Duration::from_secs(60);

/// The handle of a namespace.
#[derive(Clone)]
pub struct Namespace {
    engine: Engine,
    id: NamespaceId,
    name: Name,
}

/// One report of a worker, or why it was refused before it came here.
pub type ReportItem = Result<(Fence, Option<String>, Op), Refusal>;

/// A claim and how long it may wait for work.
#[derive(Clone, Debug)]
pub struct ClaimWait {
    /// What is claimed.
    pub claim: ClaimDraft,
    /// How long to wait when there is nothing.
    pub wait: Duration,
    /// The caller's key for this call.
    pub operation: Option<Operation>,
}

impl Namespace {
    pub(crate) fn new(engine: Engine, id: NamespaceId, name: Name) -> Self {
        Namespace { engine, id, name }
    }

    /// Its name.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Its id.
    pub fn id(&self) -> NamespaceId {
        self.id
    }

    /// The engine it belongs to.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.engine.inner
    }

    pub(crate) async fn run<R: Rule>(&self, rule: R) -> Result<R::Reply, Error> {
        self.inner().committer.run(rule).await
    }

    /// Runs a rule whose ids were minted here, so that a repeat after a lost answer finds what the first try wrote. `rule` is
    /// told whether it is repeated.
    pub(crate) async fn insist<R: Rule>(&self, rule: impl Fn(bool) -> R) -> Result<R::Reply, Error> {
        let deadline = Instant::now() + SUBMIT_PATIENCE;
        let mut repeated = false;
        loop {
            match self.run(rule(repeated)).await {
                Err(Error::Store(error)) if error.is_transient() && Instant::now() < deadline => {
                    tracing::debug!(%error, "retrying a submission");
                    repeated = true;
                    tokio::time::sleep(RETRY_AFTER).await;
                }
                reply => return reply,
            }
        }
    }

    /// Submits one execution.
    pub async fn submit(&self, draft: Draft) -> Result<Submitted, Error> {
        let mut submitted = self.submit_many(vec![Ok(draft)], None).await?;
        match submitted.pop() {
            Some(one) => Ok(one?),
            None => Err(Error::Closed),
        }
    }

    /// Submits many, each on its own: one that is refused refuses only itself. An item may have been refused before it
    /// came here, so that its place in the answer is kept.
    pub async fn submit_many(
        &self,
        drafts: Vec<Result<Draft, Refusal>>,
        operation: Option<Operation>,
    ) -> Result<Vec<Result<Submitted, Refusal>>, Error> {
        let submissions: Vec<Result<Submission, Refusal>> =
            drafts.into_iter().map(|draft| draft.and_then(Draft::check)).collect();
        let classes: Vec<Class> =
            submissions.iter().flatten().map(|submission| submission.class(self.id)).collect();
        let mut interned = self.inner().registry.intern(&classes).await?.into_iter();
        let items = submissions
            .into_iter()
            .map(|submission| {
                let valid = submission.as_ref().ok();
                let id = valid.and_then(Submission::id).unwrap_or_else(|| ExecutionId(Uuid::now_v7()));
                let class = valid.and_then(|_| interned.next()).unwrap_or(ClassId(0));
                Item { submission, class, id }
            })
            .collect();
        let submit = Submit { namespace: self.id, items, operation, repeated: false };
        self.insist(|repeated| Submit { repeated, ..submit.clone() }).await
    }

    /// Claims, waiting for work if there is none.
    pub async fn claim(&self, wanted: ClaimWait) -> Result<Vec<Claimed>, Error> {
        let claim = wanted.claim.check(self.id, wanted.operation)?;
        let deadline = Instant::now() + wanted.wait.min(WAIT_MAX);
        self.claim_until(claim, deadline).await
    }

    async fn claim_until(&self, claim: Claim, deadline: Instant) -> Result<Vec<Claimed>, Error> {
        let waiting = &self.inner().waiting;
        let mut seen = waiting.seen(&claim);
        // The report before it asked already; a caller that does not wait gets a fresh answer.
        let mut asks = Instant::now() >= deadline || !waiting.is_still_empty(&claim, seen);
        let mut woken = false;
        loop {
            let mut until = deadline;
            if asks {
                seen = waiting.seen(&claim);
                let claims = match self.run(claim.clone()).await {
                    Err(Error::Closed) if woken => return Ok(Vec::new()),
                    claims => claims??,
                };
                match claims.nothing {
                    Some(Nothing::Draining) => return self.wait_aside(&claim, deadline).await,
                    Some(Nothing::Answered) => return Ok(Vec::new()),
                    Some(Nothing::OpensInMs(ms)) => {
                        until = deadline.min(Instant::now() + Duration::from_millis(ms.max(1) as u64));
                    }
                    Some(Nothing::Ready) | None => {}
                }
                if !claims.claimed.is_empty() || Instant::now() >= deadline {
                    if woken && claims.claimed.len() == claim.max as usize {
                        // There may be more than this claim could take: wake the next.
                        waiting.wake(&self.inner().registry.covered(&claim.scope));
                    }
                    return Ok(claims.claimed);
                }
            }
            asks = true;
            let Some(mut place) = waiting.wait(&claim, seen) else {
                continue;
            };
            woken = true;
            let wake = match tokio::time::timeout_at(until, &mut place.wake).await {
                Ok(Ok(wake)) => Some(wake),
                Ok(Err(_gone)) => return Ok(Vec::new()),
                Err(_elapsed) => place.leave(),
            };
            match wake {
                None if until < deadline => {}
                None => return Ok(Vec::new()),
                Some(Wake::Ask) => {}
                Some(Wake::Handed(reply)) => {
                    // A closed channel says that the transaction failed: the claim asks for itself.
                    let Ok(claims) = reply.await else { continue };
                    let claimed = claims??.claimed;
                    if !claimed.is_empty() {
                        return Ok(claimed);
                    }
                }
            }
        }
    }

    /// Waits without a place among the waiting claims: what becomes ready is for others.
    pub(crate) async fn wait_aside(&self, claim: &Claim, deadline: Instant) -> Result<Vec<Claimed>, Error> {
        let bell = self.inner().bells.wait_instance(instance_key(self.id, &claim.instance));
        let rings = bell.rings();
        if !self.inner().committer.is_closed() {
            let _ = tokio::time::timeout_at(deadline, rings).await;
        }
        Ok(Vec::new())
    }

    /// Reports, and claims what comes next in the same round trip and, where it can, in the same commit. It does not wait
    /// for work: whoever has reported wants to know that before waiting for more.
    pub async fn report(
        &self,
        ops: Vec<ReportItem>,
        next: Option<ClaimDraft>,
    ) -> Result<(Vec<Result<Reported, Refusal>>, Vec<Claimed>), Error> {
        let claim = next.map(|next| next.check(self.id, None)).transpose()?;
        let mut results: Vec<Option<Result<Reported, Refusal>>> = Vec::with_capacity(ops.len());
        let mut reports = Vec::with_capacity(ops.len());
        for op in ops {
            match op {
                Ok((fence, op_id, op)) => {
                    reports.push(Report { namespace: self.id, fence, op_id, op });
                    results.push(None);
                }
                Err(refusal) => results.push(Some(Err(refusal))),
            }
        }
        let (report, reported) = post(Reports(reports));
        let mut tasks = vec![report];
        let claimed = claim.map(|claim| {
            let seen = self.inner().waiting.seen(&claim);
            let (task, reply) = post(claim.clone());
            tasks.push(task);
            (claim, seen, reply)
        });
        self.inner().committer.enqueue(tasks)?;
        let mut reported = answer(reported).await?.into_iter();
        let no_answer = || Err(Refusal::field("/ops", "has no answer"));
        let result = |refused: Option<_>| refused.or_else(|| reported.next()).unwrap_or_else(no_answer);
        let results = results.into_iter().map(result).collect();
        let Some((claim, seen, reply)) = claimed else { return Ok((results, Vec::new())) };
        let claims = answer(reply).await??;
        if claims.nothing == Some(Nothing::Ready) {
            self.inner().waiting.found_nothing(&claim, seen);
        }
        Ok((results, claims.claimed))
    }

    /// Does one action to one execution.
    pub async fn operate(
        &self,
        execution: ExecutionId,
        action: Action,
        if_version: Option<u32>,
        actor: &Name,
    ) -> Result<Execution, Error> {
        let operate = Operate { namespace: self.id, execution, actor: actor.clone(), if_version, action };
        Ok(self.run(operate).await??)
    }
}
