//! The link of a worker to the engine: direct calls, or the worker protocol over HTTP.

mod embedded;
mod remote;

use super::protocol::{ClaimAnswer, HeartbeatAnswer, IssuedWaitpoint, Report, ReportAnswers};
use crate::namespace::Connected;
use crate::{Error, ExecutionId, Namespace, Timestamp};
use embedded::Embedded;
use remote::Remote;
use selvedge_core::rules::claim::ClaimDraft;
use selvedge_core::rules::report::Fence;
use std::time::Duration;

/// The link of one worker. Cheap to clone.
#[derive(Clone)]
pub enum Link {
    /// Calls the engine of this process.
    Embedded(Embedded),
    /// Speaks the worker protocol.
    Remote(Remote),
}

impl Link {
    /// Returns the link of a worker instance of this namespace.
    pub fn new(namespace: &Namespace, instance: &str, incarnation: &str) -> Link {
        let (instance, incarnation) = (instance.to_owned(), incarnation.to_owned());
        match namespace.connected() {
            Connected::Embedded(embedded) => {
                Link::Embedded(Embedded { namespace: embedded.clone(), instance, incarnation })
            }
            Connected::Remote(client) => Link::Remote(Remote::new(client.clone(), instance, incarnation)),
        }
    }

    /// Reports whether claims should travel with reports. A claim inside a report has no idempotency key, so its leases are
    /// found again only by a heartbeat or their expiry if the answer is lost; a separate claim is repeated with its key.
    pub fn claims_with_reports(&self) -> bool {
        match self {
            Link::Embedded(_) => true,
            Link::Remote(link) => link.is_reliable(),
        }
    }

    /// Claims executions, and waits for work if there is none.
    pub async fn claim(&self, claim: ClaimDraft, wait: Duration) -> Result<ClaimAnswer, Error> {
        match self {
            Link::Embedded(link) => link.claim(claim, wait).await,
            Link::Remote(link) => link.claim(&claim, wait).await,
        }
    }

    /// Renews leases, and waits for something to happen to them.
    pub async fn heartbeat(&self, leases: Vec<Fence>, wait: Duration) -> Result<HeartbeatAnswer, Error> {
        match self {
            Link::Embedded(link) => link.heartbeat(leases, wait).await,
            Link::Remote(link) => link.heartbeat(&leases, wait).await,
        }
    }

    /// Reports operations, each of which is answered alone, and claims in the same call without waiting.
    pub async fn report(
        &self,
        reports: Vec<Report>,
        claim: Option<ClaimDraft>,
    ) -> Result<ReportAnswers, Error> {
        match self {
            Link::Embedded(link) => link.report(reports, claim).await,
            Link::Remote(link) => link.report(&reports, claim.as_ref()).await,
        }
    }

    /// Returns the waitpoints that the execution has had since this time and that accept no delivery any more.
    pub async fn settled_waitpoints(
        &self,
        execution: ExecutionId,
        since: Timestamp,
    ) -> Result<Vec<IssuedWaitpoint>, Error> {
        match self {
            Link::Embedded(link) => link.settled_waitpoints(execution, since).await,
            Link::Remote(link) => link.settled_waitpoints(execution, since).await,
        }
    }

    /// Reports the worker's departure, which puts its remaining leases back.
    pub async fn depart(&self) -> Result<(), Error> {
        match self {
            Link::Embedded(link) => link.depart().await,
            Link::Remote(link) => link.depart().await,
        }
    }
}
