//! What callers and workers do: submit, claim, report, and the actions of operators, all inside one namespace.

use crate::batch::instance_key;
use crate::command::{Command, Reply};
use crate::committer::Pending;
use crate::parked::{Wake, claims};
use crate::{Engine, Error, Inner, unexpected};
use selvedge_core::rules::Operation;
use selvedge_core::rules::claim::{Claim, ClaimDraft, Claimed};
use selvedge_core::rules::operator::{Action, Operate};
use selvedge_core::rules::report::{Fence, Op, Report, Reported};
use selvedge_core::rules::submit::{Item, Submit, Submitted};
use selvedge_core::{Class, ClassId, Draft, Execution, ExecutionId, Name, NamespaceId, Refusal, Submission};
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

/// How long a submission is tried again while the store is away.
pub const SUBMIT_PATIENCE: Duration = Duration::from_secs(5);
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

    pub(crate) async fn run(&self, command: Command) -> Result<Reply, Error> {
        self.inner().committer.run(command).await
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
        let submit = Submit { namespace: self.id, items, operation };
        let deadline = Instant::now() + SUBMIT_PATIENCE;
        let mut again = false;
        loop {
            // The ids were minted here, so trying again after a lost answer finds what the first try wrote.
            match self.run(Command::Submit { submit: submit.clone(), again }).await {
                Ok(Reply::Submit(replies)) => return Ok(replies),
                Ok(other) => return Err(unexpected(&other)),
                Err(Error::Store(error)) if error.is_transient() && Instant::now() < deadline => {
                    tracing::debug!(%error, "trying a submission again");
                    again = true;
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Claims, waiting for work if there is none.
    pub async fn claim(&self, wanted: ClaimWait) -> Result<Vec<Claimed>, Error> {
        let claim = wanted.claim.check(self.id, wanted.operation)?;
        let deadline = Instant::now() + wanted.wait.min(WAIT_MAX);
        self.claim_until(claim, deadline).await
    }

    async fn claim_until(&self, claim: Claim, deadline: Instant) -> Result<Vec<Claimed>, Error> {
        let parked = &self.inner().parked;
        let mut woken = false;
        loop {
            let seen = parked.seen(&claim);
            let command = Command::Claim { claim: claim.clone(), handed_only: false };
            let mut until = deadline;
            let claimed = match self.run(command).await {
                Ok(Reply::OpensIn(ms)) => {
                    until = deadline.min(Instant::now() + Duration::from_millis(ms.max(1) as u64));
                    Vec::new()
                }
                Err(Error::Closed) if woken => return Ok(Vec::new()),
                Ok(Reply::Shut { drains: true }) => return self.wait_aside(&claim, deadline).await,
                Ok(Reply::Shut { drains: false }) => return Ok(Vec::new()),
                reply => claims(reply?)?,
            };
            if !claimed.is_empty() || Instant::now() >= deadline {
                if woken && claimed.len() == claim.max as usize {
                    // There may be more than this one could take: wake the next.
                    parked.wake(&self.inner().registry.covered(&claim.scope));
                }
                return Ok(claimed);
            }
            let Some(mut place) = parked.park(&claim, seen) else {
                continue;
            };
            woken = true;
            match tokio::time::timeout_at(until, &mut place.wake).await {
                Err(_elapsed) if until < deadline => {}
                Err(_elapsed) => return Ok(Vec::new()),
                Ok(Err(_gone)) => return Ok(Vec::new()),
                Ok(Ok(Wake::Ask)) => {}
                Ok(Ok(Wake::Handed(reply))) => {
                    let claimed = claims(reply.await.unwrap_or(Err(Error::Closed))?)?;
                    if !claimed.is_empty() {
                        return Ok(claimed);
                    }
                }
            }
        }
    }

    /// Waits without a place among the parked claims: what becomes ready is for others.
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
        let (report, reported) = Pending::new(Command::Report(reports));
        let mut commands = vec![report];
        let claimed = claim.map(|claim| {
            let (pending, reply) = Pending::new(Command::Claim { claim, handed_only: false });
            commands.push(pending);
            reply
        });
        self.inner().committer.enqueue(commands)?;
        let mut reported = match reported.await.unwrap_or(Err(Error::Closed))? {
            Reply::Report(reported) => reported.into_iter(),
            other => return Err(unexpected(&other)),
        };
        let no_answer = || Err(Refusal::field("/ops", "has no answer"));
        let answer = |refused: Option<_>| refused.or_else(|| reported.next()).unwrap_or_else(no_answer);
        let results = results.into_iter().map(answer).collect();
        let claimed = match claimed {
            Some(reply) => claims(reply.await.unwrap_or(Err(Error::Closed))?)?,
            None => Vec::new(),
        };
        Ok((results, claimed))
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
        match self.run(Command::Operate(operate)).await? {
            Reply::Operate(done) => Ok((*done)?),
            other => Err(unexpected(&other)),
        }
    }
}
