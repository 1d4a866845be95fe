//! The link of a worker to the engine of its own process.

use crate::worker::protocol::{
    Claim, ClaimAnswer, HeartbeatAnswer, IssuedWaitpoint, Op, RecordedStep, Report, ReportAnswers, Reported,
};
use crate::{Error, ExecutionId, Relative, Timestamp};
use bytes::Bytes;
use selvedge_core::rules::claim::{ClaimDraft, Claimed};
use selvedge_core::rules::gates::budget::Spend;
use selvedge_core::rules::report::{Fence, Op as EngineOp};
use selvedge_core::step::Step;
use selvedge_core::waitpoint::{WAITPOINTS_MAX, Waitpoint, WaitpointState};
use selvedge_engine::{ClaimResult, ClaimWait, Namespace, ReportItem};
use selvedge_store::Stored;
use std::time::Duration;

/// The link of a worker instance to an embedded engine.
#[derive(Clone)]
pub struct Embedded {
    pub(super) namespace: Namespace,
    pub(super) instance: String,
    pub(super) incarnation: String,
}

impl Embedded {
    pub async fn claim(&self, claim: ClaimDraft, wait: Duration) -> Result<ClaimAnswer, Error> {
        let claimed = self.namespace.claim_as_worker(ClaimWait { claim, wait, call_key: None }).await?;
        self.answer(claimed).await
    }

    async fn answer(&self, result: ClaimResult) -> Result<ClaimAnswer, Error> {
        let mut claims = Vec::with_capacity(result.claimed.len());
        for claimed in result.claimed {
            claims.extend(self.read_claim(claimed).await?);
        }
        Ok(ClaimAnswer { claims, drain: result.drain, superseded: false })
    }

    /// Adds the names that the row of a claimed execution refers to.
    async fn read_claim(&self, claimed: Claimed) -> Result<Option<Claim>, Error> {
        let Claimed { execution, input, upstreams, children, signals: _, steps } = claimed;
        let Some(fence) = Fence::of(&execution) else {
            tracing::error!(execution = %execution.id, "a claimed execution has no lease");
            return Ok(None);
        };
        let trace = self.namespace.engine().handler_trace(&execution);
        let stored = Stored { execution, input, result: None, renewed_at: None };
        let view = self.namespace.view(stored).await?;
        let row = view.stored.execution;
        Ok(Some(Claim {
            fence,
            kind: view.class.kind.to_string(),
            lane: view.class.lane.to_string(),
            generation: row.detail.generation,
            opened_at: row.opened_at(),
            flow: row.flow(),
            node: row.node().map(str::to_owned),
            trace,
            input: view.stored.input,
            upstreams: upstreams.into_iter().map(Relative::from).collect(),
            children: children.into_iter().map(Relative::from).collect(),
            steps: steps.into_iter().map(RecordedStep::from).collect(),
            tags: row.tags,
        }))
    }

    pub async fn heartbeat(&self, leases: Vec<Fence>, wait: Duration) -> Result<HeartbeatAnswer, Error> {
        let answer = self.namespace.heartbeat(&self.instance, Some(&self.incarnation), leases, wait).await?;
        Ok(HeartbeatAnswer {
            lost: answer.lost.into_iter().map(|(fence, reason)| (fence, reason.to_string())).collect(),
            cancel_requested: answer.cancel_requested,
            drain: answer.drain,
        })
    }

    pub async fn report(
        &self,
        reports: Vec<Report>,
        claim: Option<ClaimDraft>,
    ) -> Result<ReportAnswers, Error> {
        let mut items = Vec::with_capacity(reports.len());
        for report in reports {
            items.push(self.item(report).await?);
        }
        let (results, next) = self.namespace.report_and_claim(items, claim).await?;
        let results = results.into_iter().map(|result| Ok(self.reported(result?))).collect();
        let next = match next {
            Ok(next) => self.answer(next).await?,
            Err(refusal) => {
                let superseded = refusal.code() == "superseded";
                ClaimAnswer { superseded, ..ClaimAnswer::default() }
            }
        };
        Ok((results, next))
    }

    /// Converts an operation to the engine's form. A refusal, for example of a graph, refuses only its own operation.
    async fn item(&self, (fence, op_id, op): Report) -> Result<ReportItem, Error> {
        let op = match op {
            Op::Complete { result } => EngineOp::Complete { result },
            Op::Fail { message, class, retry_after_ms } => EngineOp::Fail { message, class, retry_after_ms },
            Op::Delay { until } => EngineOp::Delay { until },
            Op::Release => EngineOp::Release,
            Op::Cancelled { message } => EngineOp::Cancelled { message },
            Op::Suspend { waits } => self.namespace.suspend(waits, Vec::new()),
            Op::Progress { percent, message } => {
                EngineOp::Progress { percent: Some(percent), message: Some(message) }
            }
            Op::Frame { kind, mode, data } => EngineOp::Frame { kind, mode, data, correlation_id: None },
            Op::Waitpoint(draft) => self.namespace.waitpoint(draft),
            Op::Step(step) => EngineOp::Step(step),
            Op::Spawn { graph, detach } => match self.namespace.spawn(*graph, detach).await {
                Ok(op) => op,
                Err(selvedge_engine::Error::Refused(refusal)) => return Ok(Err(refusal)),
                Err(error) => return Err(error.into()),
            },
            Op::Usage { budget, usage, dedup_key } => {
                let (namespace, execution) = (self.namespace.id(), Some(fence.execution));
                EngineOp::Usage(Spend { namespace, budget, usage, dedup_key, execution })
            }
        };
        Ok(Ok((fence, op_id, op)))
    }

    fn reported(&self, reported: selvedge_core::rules::report::Reported) -> Reported {
        Reported {
            waitpoints: reported.waitpoints.iter().map(|waitpoint| self.issued(waitpoint)).collect(),
            breached: reported.usage.map(|usage| usage.breached).unwrap_or_default(),
        }
    }

    fn issued(&self, waitpoint: &Waitpoint) -> IssuedWaitpoint {
        IssuedWaitpoint {
            id: waitpoint.id,
            name: waitpoint.name.to_string(),
            source: Some(waitpoint.source.to_string()),
            token: self.namespace.token(waitpoint),
        }
    }

    pub async fn settled_waitpoints(
        &self,
        execution: ExecutionId,
        since: Timestamp,
    ) -> Result<Vec<IssuedWaitpoint>, Error> {
        let waitpoints = self.namespace.waitpoints(execution, 0, WAITPOINTS_MAX).await?;
        let settled = waitpoints
            .iter()
            .filter(|waitpoint| waitpoint.created_at >= since && waitpoint.state != WaitpointState::Open);
        Ok(settled.map(|waitpoint| self.issued(waitpoint)).collect())
    }

    pub async fn depart(&self) -> Result<(), Error> {
        self.namespace.remove_worker(&self.instance, Some(&self.incarnation)).await?;
        Ok(())
    }
}

impl From<selvedge_core::rows::Relative> for Relative {
    fn from(relative: selvedge_core::rows::Relative) -> Relative {
        Relative {
            execution: relative.execution,
            name: relative.name.to_string(),
            outcome: relative.outcome,
            error: relative.error.map(Into::into),
            result: relative.result,
            left_out: relative.left_out,
        }
    }
}

impl From<Step> for RecordedStep {
    fn from(step: Step) -> RecordedStep {
        RecordedStep {
            name: step.name.to_string(),
            kind: step.kind,
            attempt: step.attempt,
            result: step.result.unwrap_or_else(|| Bytes::from_static(b"null")),
        }
    }
}
