//! The link of a worker to a server: the worker protocol over HTTP.
//!
//! A claim is repeated with its `Idempotency-Key` until it is answered, so a lost answer loses no lease. Reports are safe to
//! repeat because of the fence. Heartbeats are sent once; the worker decides when to send the next.

use crate::wire::claims::{ClaimBody, ClaimsAnswer, HeartbeatBody, HeartbeatReply};
use crate::wire::reports::{ReportBody, ReportReply, WaitpointItem};
use crate::worker::protocol::{ClaimAnswer, HeartbeatAnswer, IssuedWaitpoint, Report, ReportAnswers};
use crate::{Error, ExecutionId, Timestamp};
use selvedge_client::{Client, Retries};
use selvedge_core::rules::claim::ClaimDraft;
use selvedge_core::rules::report::Fence;
use selvedge_core::waitpoint::WAITPOINTS_MAX;
use std::time::Duration;

/// The link of a worker instance to a server.
#[derive(Clone)]
pub struct Remote {
    pub(super) client: Client,
    pub(super) instance: String,
    pub(super) incarnation: String,
}

impl Remote {
    pub async fn claim(&self, claim: &ClaimDraft, wait: Duration) -> Result<ClaimAnswer, Error> {
        let body = ClaimBody::new(claim, wait);
        let request = self.client.post(&["workers", &self.instance, "claim"]).json(&body).waits(wait);
        let answer: ClaimsAnswer = request.send().await?.json()?;
        Ok(answer.into())
    }

    pub async fn heartbeat(&self, leases: &[Fence], wait: Duration) -> Result<HeartbeatAnswer, Error> {
        let body = HeartbeatBody::new(leases, wait, &self.incarnation);
        let request = self.client.post(&["workers", &self.instance, "heartbeat"]).json(&body);
        let reply: HeartbeatReply = request.waits(wait).retries(Retries::NONE).send().await?.json()?;
        Ok(reply.into())
    }

    pub async fn report(
        &self,
        reports: &[Report],
        claim: Option<&ClaimDraft>,
    ) -> Result<ReportAnswers, Error> {
        let body = ReportBody::new(reports, claim)?;
        let request = self.client.post(&["workers", &self.instance, "report"]).json(&body);
        let reply: ReportReply = request.send().await?.json()?;
        reply.answers(reports.len())
    }

    pub async fn settled_waitpoints(
        &self,
        execution: ExecutionId,
        since: Timestamp,
    ) -> Result<Vec<IssuedWaitpoint>, Error> {
        let request = self.client.get(&["executions", &execution.to_string(), "waitpoints"]);
        let items = request.items(WAITPOINTS_MAX as usize).await?;
        let mut settled = Vec::new();
        for item in items {
            let item: WaitpointItem = serde_json::from_str(item.get())
                .map_err(|error| Error::Failed(format!("a waitpoint cannot be read: {error}")))?;
            settled.extend(item.settled_since(since));
        }
        Ok(settled)
    }

    pub async fn depart(&self) -> Result<(), Error> {
        let request = self.client.delete(&["workers", &self.instance]);
        request.query("incarnation", &self.incarnation).send().await?;
        Ok(())
    }
}
