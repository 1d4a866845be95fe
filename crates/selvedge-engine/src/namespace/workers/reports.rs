//! Reports of workers, which may carry the worker's next claim.

use crate::Error;
use crate::commit::{new_task, receive};
use crate::namespace::{ClaimResult, Namespace};
use selvedge_core::Refusal;
use selvedge_core::rules::claim::{ClaimDraft, Claimed, Nothing};
use selvedge_core::rules::gates::budget::Breach;
use selvedge_core::rules::report::{Fence, Op, Report, Reported, Reports};
use selvedge_core::state::StateName;
use std::time::Instant;

/// One report of a worker: the fence, an optional operation id for retries, and the operation. An error is a refusal
/// from before this call.
pub type ReportItem = Result<(Fence, Option<String>, Op), Refusal>;

impl Namespace {
    /// Reports operations, and claims the next work in the same call. See [`Namespace::report_and_claim`].
    pub async fn report(
        &self,
        ops: Vec<ReportItem>,
        next: Option<ClaimDraft>,
    ) -> Result<(Vec<Result<Reported, Refusal>>, Vec<Claimed>), Error> {
        let (results, next) = self.report_and_claim(ops, next).await?;
        Ok((results, next?.claimed))
    }

    /// Reports operations, and claims the next work in the same call and, if possible, in the same commit. The claim
    /// does not wait for work, so that the worker learns the results of its reports at once. A claim of a superseded
    /// incarnation is refused on its own: the reports have been decided.
    pub async fn report_and_claim(
        &self,
        ops: Vec<ReportItem>,
        next: Option<ClaimDraft>,
    ) -> Result<(Vec<Result<Reported, Refusal>>, Result<ClaimResult, Refusal>), Error> {
        let asked = Instant::now();
        let claim = next.map(|next| next.check(self.id, None)).transpose()?;
        let mut results: Vec<Option<Result<Reported, Refusal>>> = Vec::with_capacity(ops.len());
        let mut reports = Vec::with_capacity(ops.len());
        for op in ops {
            match op {
                Ok((fence, op_id, mut op)) => {
                    self.add_default_timeout(&mut op).await?;
                    reports.push(Report { namespace: self.id, fence, op_id, op });
                    results.push(None);
                }
                Err(refusal) => results.push(Some(Err(refusal))),
            }
        }
        let (report, reported) = new_task(Reports(reports));
        let mut tasks = vec![report];
        let claimed = claim.map(|claim| {
            let watermark = self.inner().waiting.watermark(&claim);
            let (task, reply) = new_task(claim.clone());
            tasks.push(task);
            (claim, watermark, reply)
        });
        self.inner().committer.enqueue(tasks)?;
        let mut reported = receive(reported).await?.into_iter();
        let no_answer = || Err(Refusal::field("/ops", "has no answer"));
        let result = |refused: Option<_>| refused.or_else(|| reported.next()).unwrap_or_else(no_answer);
        let mut results: Vec<Result<Reported, Refusal>> = results.into_iter().map(result).collect();
        self.stop_breached(&mut results).await;
        let Some((mut claim, mut watermark, reply)) = claimed else {
            return Ok((results, Ok(ClaimResult::default())));
        };
        let mut claims = receive(reply).await?;
        if matches!(&claims, Ok(claims) if claims.nothing == Some(Nothing::NewIncarnation)) {
            match self.begin_incarnation(&claim).await {
                Err(Error::Refused(refusal)) => return Ok((results, Err(refusal))),
                begun => begun?,
            }
            watermark = self.inner().waiting.watermark(&claim);
            claims = self.run(claim.clone()).await?;
        }
        let claims = match claims {
            Ok(claims) => claims,
            Err(refusal) => return Ok((results, Err(refusal))),
        };
        claim.life = claims.life;
        if claims.nothing == Some(Nothing::Ready) {
            self.inner().waiting.record_empty(&claim, watermark);
        }
        self.inner().metrics.claimed(&claims.claimed, asked, &self.inner().registry);
        Ok((results, Ok(ClaimResult { claimed: claims.claimed, drain: claims.drain, duplicate: false })))
    }

    /// Stops the executions whose reported usage has used up a budget, before their worker is answered. So the answer has
    /// the state that the usage caused. If that fails, a reconciler stops them: the usage is counted already.
    async fn stop_breached(&self, results: &mut [Result<Reported, Refusal>]) {
        for result in results {
            let Ok(reported) = result else { continue };
            let Some(breach) = reported.usage.as_ref().and_then(|usage| usage.stops.clone()) else {
                continue;
            };
            match self.stop_and_read(breach).await {
                Ok(state) => reported.state = state,
                Err(error) => tracing::warn!(%error, "an execution of a used-up budget was not stopped yet"),
            }
        }
    }

    /// Stops an execution, and returns its state.
    async fn stop_and_read(&self, breach: Breach) -> Result<StateName, Error> {
        let id = breach.execution;
        self.run(breach).await??;
        Ok(self.row(id).await?.state.name())
    }
}
