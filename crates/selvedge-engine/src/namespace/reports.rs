//! Reports of workers, which may carry the worker's next claim.

use super::Namespace;
use crate::Error;
use crate::commit::{new_task, receive};
use selvedge_core::Refusal;
use selvedge_core::rules::claim::{ClaimDraft, Claimed, Nothing};
use selvedge_core::rules::report::{Fence, Op, Report, Reported, Reports};

/// One report of a worker: the fence, an optional operation id for retries, and the operation. An error is a refusal
/// from before this call.
pub type ReportItem = Result<(Fence, Option<String>, Op), Refusal>;

impl Namespace {
    /// Reports operations, and claims the next work in the same call and, if possible, in the same commit. The claim
    /// does not wait for work, so that the worker learns the results of its reports at once.
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
        let results = results.into_iter().map(result).collect();
        let Some((claim, watermark, reply)) = claimed else { return Ok((results, Vec::new())) };
        let claims = receive(reply).await??;
        if claims.nothing == Some(Nothing::Ready) {
            self.inner().waiting.record_empty(&claim, watermark);
        }
        Ok((results, claims.claimed))
    }
}
