//! The only task of a worker: claims, starts handlers, reports finished attempts, processes heartbeats, drains.
//!
//! The task waits for everything in one `select!`, so its state needs no lock. At any time at most one waiting claim,
//! one report and one heartbeat are outstanding. A report includes a claim unless a claim is already waiting or answers
//! are being lost.

use super::handler::Handler;
use super::handlers::RunningHandlers;
use super::heartbeat::Heartbeat;
use super::link::Link;
use super::protocol::{Claim, ClaimAnswer, HeartbeatAnswer, Op};
use super::report::{FinishedAttempt, ReportAnswer, RetryDelay, Settled, report, settle};
use super::{Settings, WorkerSummary};
use crate::{Error, Namespace};
use selvedge_core::rules::claim::ClaimDraft;
use selvedge_core::rules::report::{Fence, OPS_MAX};
use std::collections::HashMap;
use std::future::{Future, pending};
use std::pin::{Pin, pin};
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// Longest time that one claim waits for work before the next claim is sent.
const CLAIM_WAIT: Duration = Duration::from_secs(30);
/// Time after the start of handlers for which reports and claims wait while handlers run. Handlers that end within it are
/// reported together, along with the next claim, which saves requests and commits.
const GATHER: Duration = Duration::from_millis(1);
/// Longest time for releasing leases at the end of a drain, and for reporting the worker's departure after it.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);

/// An outstanding call, if there is one.
type Call<T> = Option<Pin<Box<dyn Future<Output = T> + Send>>>;

/// The state of a running worker.
pub struct Driver {
    link: Link,
    settings: Settings,
    claim: ClaimDraft,
    stage: Stage,
    handlers: RunningHandlers,
    finished: Vec<FinishedAttempt>,
    reporting: Call<ReportAnswer>,
    /// True if the outstanding report includes a claim.
    report_claims: bool,
    report_delay: RetryDelay,
    claiming: Call<Result<ClaimAnswer, Error>>,
    claim_delay: RetryDelay,
    /// The time until which the ends of handlers are gathered.
    gather_until: Instant,
    heartbeat: Heartbeat,
    summary: WorkerSummary,
}

/// The stage of a worker's life.
#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Working,
    /// The worker does not claim; handlers may continue until this time.
    Draining(Instant),
    /// The handlers were aborted; their leases are released until this time.
    Releasing(Instant),
    /// The time to release leases is over; the remaining leases expire.
    OutOfTime,
    /// The engine has shut down, or a newer process has this worker's instance; nothing can be reported any more.
    Closed,
}

impl Driver {
    /// Creates the driver of a worker that has not claimed yet.
    pub fn new(
        namespace: Namespace,
        settings: Settings,
        claim: ClaimDraft,
        handlers: HashMap<String, Handler>,
    ) -> Self {
        let link = Link::new(&namespace, &settings.instance, &settings.incarnation);
        Driver {
            heartbeat: Heartbeat::new(link.clone(), settings.lease_ttl),
            handlers: RunningHandlers::new(namespace, link.clone(), handlers),
            link,
            settings,
            claim,
            stage: Stage::Working,
            finished: Vec::new(),
            reporting: None,
            report_claims: false,
            report_delay: RetryDelay::default(),
            claiming: None,
            claim_delay: RetryDelay::default(),
            gather_until: Instant::now(),
            summary: WorkerSummary::default(),
        }
    }

    /// Runs the worker until it has to stop, then drains.
    pub async fn run(mut self, shutdown: impl Future<Output = ()> + Send) -> WorkerSummary {
        let mut shutdown = pin!(shutdown);
        while !self.is_done() {
            self.begin_report();
            self.begin_claim();
            tokio::select! {
                () = &mut shutdown, if self.stage == Stage::Working => self.drain(),
                () = end_of(self.stage) => self.on_stage_end().await,
                Some(ended) = self.handlers.tasks.join_next_with_id() => {
                    self.finished.extend(self.handlers.ended(ended));
                }
                answer = answered(&mut self.reporting) => self.on_report_answer(answer),
                answer = answered(&mut self.claiming) => self.on_claim_answer(answer),
                () = sleep_until(self.gather_until), if self.is_gathering() => {}
                answer = self.heartbeat.answer(&self.handlers.leases) => self.on_heartbeat_answer(answer),
            }
        }
        self.depart().await
    }

    fn is_done(&self) -> bool {
        match self.stage {
            Stage::Working => false,
            Stage::Draining(_) | Stage::Releasing(_) => {
                self.handlers.is_idle() && self.finished.is_empty() && self.reporting.is_none()
            }
            Stage::OutOfTime | Stage::Closed => true,
        }
    }

    /// Returns a claim for all free slots, or none if a claim is outstanding. An aborted handler occupies its slot
    /// until it is dropped.
    fn next_claim(&self) -> Option<ClaimDraft> {
        let free = self.settings.concurrency.saturating_sub(self.handlers.tasks.len());
        let max = self.claim.max.min(u32::try_from(free).unwrap_or(u32::MAX));
        let outstanding = self.claiming.is_some() || self.report_claims;
        let claims = self.stage == Stage::Working && !outstanding && max > 0;
        claims.then(|| ClaimDraft { max, ..self.claim.clone() })
    }

    fn begin_report(&mut self) {
        if self.reporting.is_some() || self.finished.is_empty() || self.is_gathering() {
            return;
        }
        let claim = self.next_claim().filter(|_| self.link.claims_with_reports());
        self.report_claims = claim.is_some();
        let later = self.finished.split_off(self.finished.len().min(OPS_MAX));
        let attempts = std::mem::replace(&mut self.finished, later);
        let call = report(self.link.clone(), attempts, claim, self.report_delay);
        self.reporting = Some(Box::pin(call));
    }

    /// Returns true while handlers run that were started a moment ago.
    fn is_gathering(&self) -> bool {
        self.stage == Stage::Working && !self.handlers.tasks.is_empty() && Instant::now() < self.gather_until
    }

    fn begin_claim(&mut self) {
        if self.is_gathering() {
            return;
        }
        let Some(claim) = self.next_claim() else { return };
        let (link, delay) = (self.link.clone(), self.claim_delay);
        self.claiming = Some(Box::pin(async move {
            sleep(delay.get()).await;
            link.claim(claim, CLAIM_WAIT).await
        }));
    }

    fn on_claim_answer(&mut self, answer: Result<ClaimAnswer, Error>) {
        self.claiming = None;
        match answer {
            Ok(answer) => {
                self.claim_delay.reset();
                self.on_claims(answer);
            }
            Err(Error::Closed | Error::LeaseLost(_)) => self.on_closed(),
            Err(error) => {
                tracing::warn!(worker = self.settings.name, %error, "a claim failed and is retried");
                self.claim_delay.increase();
            }
        }
    }

    fn on_report_answer(&mut self, answer: ReportAnswer) {
        self.reporting = None;
        self.report_claims = false;
        match answer.store_is_unavailable() {
            true => self.report_delay.increase(),
            false => self.report_delay.reset(),
        }
        for (attempt, result) in answer.attempts {
            let fence = attempt.fence;
            if matches!(result, Err(Error::Closed)) {
                self.on_closed();
            }
            match settle(attempt, result, &mut self.summary) {
                Settled::Done => self.handlers.leases.remove(&fence),
                Settled::Report(attempt) => self.finished.push(attempt),
            }
        }
        self.on_claims(answer.next);
    }

    /// Starts the handlers of claimed executions, or releases the executions if the worker is stopping.
    fn on_claims(&mut self, answer: ClaimAnswer) {
        let (mut to_start, mut fences): (Vec<Claim>, Vec<Fence>) = (Vec::new(), Vec::new());
        match self.stage {
            Stage::Working => to_start = answer.claims,
            _ => fences = answer.claims.into_iter().map(|claim| claim.fence).collect(),
        }
        if !to_start.is_empty() {
            self.heartbeat.schedule_for_new_lease();
            if self.link.claims_with_reports() {
                self.gather_until = Instant::now() + GATHER;
            }
        }
        self.finished.extend(self.handlers.start(to_start));
        self.finished.extend(fences.into_iter().map(|fence| FinishedAttempt::new(fence, Op::Release)));
        if answer.superseded {
            self.on_closed();
        } else if answer.drain {
            self.drain();
        }
    }

    fn on_heartbeat_answer(&mut self, answer: Result<HeartbeatAnswer, Error>) {
        let answer = match answer {
            Ok(answer) => answer,
            Err(Error::Closed | Error::LeaseLost(_)) => return self.on_closed(),
            Err(error) => {
                tracing::warn!(worker = self.settings.name, %error, "a heartbeat failed and is retried");
                return self.heartbeat.schedule_next(true);
            }
        };
        for (fence, reason) in &answer.lost {
            if self.handlers.lose(fence) {
                tracing::info!(execution = %fence.execution, %reason, "a lease was lost and its handler aborted");
                self.summary.aborted += 1;
            }
        }
        for Fence { execution, .. } in &answer.cancel_requested {
            self.handlers.leases.request_cancel(*execution);
        }
        if answer.drain {
            self.drain();
        }
        // Every answer repeats a pending request to drain or cancel, so the engine answers at once and a long poll is
        // useless.
        let polling = answer.drain || self.handlers.leases.any_cancel_requested();
        self.heartbeat.schedule_next(polling);
    }

    /// Stops claiming. Drops the outstanding claim; the engine puts back the executions that it would have returned.
    fn drain(&mut self) {
        if self.stage == Stage::Working {
            tracing::info!(instance = self.settings.instance, "the worker drains");
            self.stage = Stage::Draining(Instant::now() + self.settings.grace);
            self.claiming = None;
        }
    }

    async fn on_stage_end(&mut self) {
        match self.stage {
            Stage::Draining(_) => {
                self.finished.extend(self.handlers.abort_all().await);
                self.stage = Stage::Releasing(Instant::now() + RELEASE_TIMEOUT);
            }
            Stage::Releasing(_) => self.stage = Stage::OutOfTime,
            Stage::Working | Stage::OutOfTime | Stage::Closed => {}
        }
    }

    fn on_closed(&mut self) {
        if self.stage != Stage::Closed {
            tracing::warn!(
                worker = self.settings.name,
                "the engine has shut down, or a newer process has this worker's instance; the worker stops"
            );
            self.stage = Stage::Closed;
        }
    }

    /// Reports the worker's departure, so that its remaining leases are put back at once instead of expiring.
    async fn depart(mut self) -> WorkerSummary {
        self.summary.aborted += self.handlers.leases.len() as u64;
        if self.stage == Stage::Closed {
            return self.summary;
        }
        match timeout(RELEASE_TIMEOUT, self.link.depart()).await {
            Ok(Ok(())) => {}
            // The engine refuses the departure of a worker that never claimed, because it does not know its instance.
            Ok(Err(error)) if error.refusal().is_some() => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "the worker's departure was not reported; its remaining leases will expire")
            }
            Err(_elapsed) => {
                tracing::warn!(
                    "the worker's departure was not reported in time; its remaining leases will expire"
                )
            }
        }
        self.summary
    }
}

/// Waits for the end of a stage that has a time limit.
async fn end_of(stage: Stage) {
    match stage {
        Stage::Working | Stage::OutOfTime | Stage::Closed => pending().await,
        Stage::Draining(until) | Stage::Releasing(until) => sleep_until(until).await,
    }
}

async fn answered<T>(call: &mut Call<T>) -> T {
    match call {
        Some(call) => call.as_mut().await,
        None => pending().await,
    }
}
