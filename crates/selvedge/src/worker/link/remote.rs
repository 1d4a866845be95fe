//! The link of a worker to a server: the worker protocol over HTTP.
//!
//! A claim is repeated with its `Idempotency-Key` until it is answered, so a lost answer loses no lease. Reports are safe to
//! repeat because of the fence. A report with a claim is sent once: repeated, it would claim again, and the leases of the
//! lost answer would wait for their expiry. Heartbeats are sent once; the worker decides when to send the next.

use crate::wire::claims::{ClaimBody, ClaimsAnswer, HeartbeatBody, HeartbeatReply};
use crate::wire::reports::{ReportBody, ReportReply, WaitpointItem};
use crate::worker::protocol::{ClaimAnswer, HeartbeatAnswer, IssuedWaitpoint, Report, ReportAnswers};
use crate::{Error, ExecutionId, Timestamp};
use selvedge_client::{Client, Request, Response, Retries};
use selvedge_core::rules::claim::ClaimDraft;
use selvedge_core::rules::report::Fence;
use selvedge_core::waitpoint::WAITPOINTS_MAX;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The number of claims and reports in a row that must have been answered at the first try before claims travel with
/// reports.
const RELIABLE_CALLS: u32 = 20;

/// The link of a worker instance to a server.
#[derive(Clone)]
pub struct Remote {
    client: Client,
    instance: String,
    incarnation: String,
    /// The number of claims and reports that were answered at the first try since the last one that was not.
    answered: Arc<AtomicU32>,
}

impl Remote {
    pub fn new(client: Client, instance: String, incarnation: String) -> Remote {
        Remote { client, instance, incarnation, answered: Arc::default() }
    }

    /// Reports whether the server has lately answered every claim and report at the first try.
    pub fn is_reliable(&self) -> bool {
        self.answered.load(Ordering::Relaxed) >= RELIABLE_CALLS
    }

    /// Sends a claim or report, and counts whether its first try was answered.
    async fn send(&self, request: Request) -> Result<Response, Error> {
        let answer = request.send().await;
        match &answer {
            Ok(response) if response.tries == 1 => {
                // Stays at the threshold, so that it cannot overflow.
                let more = |answered: u32| Some((answered + 1).min(RELIABLE_CALLS));
                let _ = self.answered.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
            }
            _ => self.answered.store(0, Ordering::Relaxed),
        }
        Ok(answer?)
    }

    pub async fn claim(&self, claim: &ClaimDraft, wait: Duration) -> Result<ClaimAnswer, Error> {
        let body = ClaimBody::new(claim, wait);
        let request = self.client.post(&["workers", &self.instance, "claim"]).json(&body).waits(wait);
        let answer: ClaimsAnswer = self.send(request).await?.json()?;
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
        let mut request = self.client.post(&["workers", &self.instance, "report"]).json(&body);
        if claim.is_some() {
            request = request.retries(Retries::NONE);
        }
        let reply: ReportReply = self.send(request).await?.json()?;
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
