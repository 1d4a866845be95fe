//! The one task of a worker: claims, starts handlers, reports what ended, listens to heartbeats, drains.
//!
//! Everything it waits for stands in one `select!`, so its state needs no lock. At any time there is at most one claim
//! that waits, one report and one heartbeat under way. A report carries a claim along unless one waits already.

use super::finished::{Answer, Ending, Follows, Pause, report, settle};
use super::handler::Handler;
use super::heartbeat::Heartbeat;
use super::running::Running;
use super::{Drained, Settings};
use crate::{Error, Namespace};
use selvedge_core::rules::claim::{ClaimDraft, Claimed};
use selvedge_core::rules::report::{Fence, Op};
use selvedge_engine::{ClaimWait, Heartbeaten};
use std::collections::HashMap;
use std::future::{Future, pending};
use std::pin::{Pin, pin};
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// How long a claim waits for work before it asks again.
const CLAIM_WAIT: Duration = Duration::from_secs(30);
/// How long handing back may take, and taking leave.
const HAND_BACK: Duration = Duration::from_secs(5);

/// A call under way.
type Call<T> = Option<Pin<Box<dyn Future<Output = T> + Send>>>;

/// A worker at work.
pub struct Driver {
    namespace: Namespace,
    settings: Settings,
    claim: ClaimDraft,
    stage: Stage,
    running: Running,
    finished: Vec<Ending>,
    reporting: Call<Answer>,
    report_claims: bool,
    report_pause: Pause,
    claiming: Call<Result<Vec<Claimed>, Error>>,
    claim_pause: Pause,
    heartbeat: Heartbeat,
    drained: Drained,
}

/// How far a worker has come.
#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Working,
    /// Claims nothing more; handlers go on until then.
    Draining(Instant),
    /// Has dropped its handlers; hands back until then.
    HandingBack(Instant),
    /// Had no time left to hand back.
    OutOfTime,
    /// The engine is gone, and nothing can be reported any more.
    Closed,
}

impl Driver {
    /// A worker that has not claimed yet.
    pub fn new(
        namespace: Namespace,
        settings: Settings,
        claim: ClaimDraft,
        handlers: HashMap<String, Handler>,
    ) -> Self {
        let (instance, ttl) = (settings.instance.clone(), settings.lease_ttl);
        Driver {
            heartbeat: Heartbeat::new(namespace.clone(), instance, ttl),
            running: Running::new(namespace.clone(), handlers),
            namespace,
            settings,
            claim,
            stage: Stage::Working,
            finished: Vec::new(),
            reporting: None,
            report_claims: false,
            report_pause: Pause::default(),
            claiming: None,
            claim_pause: Pause::default(),
            drained: Drained::default(),
        }
    }

    /// Works until it is told to stop, then drains.
    pub async fn run(mut self, shutdown: impl Future<Output = ()> + Send) -> Drained {
        let mut shutdown = pin!(shutdown);
        while !self.is_done() {
            self.begin_report();
            self.begin_claim();
            tokio::select! {
                () = &mut shutdown, if self.stage == Stage::Working => self.drain(),
                () = end_of(self.stage) => self.time_is_up().await,
                Some(ended) = self.running.tasks.join_next_with_id() => {
                    self.finished.extend(self.running.ended(ended));
                }
                answer = answered(&mut self.reporting) => self.reported(answer).await,
                claimed = answered(&mut self.claiming) => self.claimed(claimed).await,
                beat = self.heartbeat.answer(&self.running.leases) => self.beaten(beat),
            }
        }
        self.leave().await
    }

    fn is_done(&self) -> bool {
        match self.stage {
            Stage::Working => false,
            Stage::Draining(_) | Stage::HandingBack(_) => {
                self.running.is_idle() && self.finished.is_empty() && self.reporting.is_none()
            }
            Stage::OutOfTime | Stage::Closed => true,
        }
    }

    /// A claim for all free slots, unless one is under way. A dropped handler has its slot until it is gone.
    fn next_claim(&self) -> Option<ClaimDraft> {
        let free = self.settings.concurrency.saturating_sub(self.running.tasks.len());
        let max = self.claim.max.min(u32::try_from(free).unwrap_or(u32::MAX));
        let under_way = self.claiming.is_some() || self.report_claims;
        let claims = self.stage == Stage::Working && !under_way && max > 0;
        claims.then(|| ClaimDraft { max, ..self.claim.clone() })
    }

    fn begin_report(&mut self) {
        if self.reporting.is_some() || self.finished.is_empty() {
            return;
        }
        let claim = self.next_claim();
        self.report_claims = claim.is_some();
        let endings = std::mem::take(&mut self.finished);
        let call = report(self.namespace.clone(), endings, claim, self.report_pause);
        self.reporting = Some(Box::pin(call));
    }

    fn begin_claim(&mut self) {
        let Some(claim) = self.next_claim() else { return };
        let wanted = ClaimWait { claim, wait: CLAIM_WAIT, operation: None };
        let (namespace, pause) = (self.namespace.clone(), self.claim_pause);
        self.claiming = Some(Box::pin(async move {
            sleep(pause.length()).await;
            namespace.claim(wanted).await
        }));
    }

    async fn claimed(&mut self, claimed: Result<Vec<Claimed>, Error>) {
        self.claiming = None;
        match claimed {
            Ok(claimed) => {
                self.claim_pause.reset();
                self.start(claimed).await;
            }
            Err(Error::Closed) => self.closed(),
            Err(error) => {
                tracing::warn!(worker = self.settings.name, %error, "a claim failed; the worker tries again");
                self.claim_pause.grow();
            }
        }
    }

    async fn reported(&mut self, answer: Answer) {
        self.reporting = None;
        self.report_claims = false;
        match answer.store_is_away() {
            true => self.report_pause.grow(),
            false => self.report_pause.reset(),
        }
        for (ending, result) in answer.endings {
            let fence = ending.fence;
            if matches!(result, Err(Error::Closed)) {
                self.closed();
            }
            match settle(ending, result, &mut self.drained) {
                Follows::Nothing => self.running.leases.forget(&fence),
                Follows::Report(ending) => self.finished.push(ending),
            }
        }
        self.start(answer.claimed).await;
    }

    /// Starts the handlers of what was claimed, or hands it back if nothing may start any more.
    async fn start(&mut self, claimed: Vec<Claimed>) {
        for one in claimed {
            let hand_back = if self.stage == Stage::Working {
                self.heartbeat.name_soon();
                self.running.start(one).await
            } else {
                Fence::of(&one.execution).map(|fence| Ending::new(fence, Op::Release))
            };
            self.finished.extend(hand_back);
        }
    }

    fn beaten(&mut self, beat: Result<Heartbeaten, Error>) {
        let beat = match beat {
            Ok(beat) => beat,
            Err(Error::Closed) => return self.closed(),
            Err(error) => {
                tracing::warn!(worker = self.settings.name, %error, "a heartbeat failed; the worker tries again");
                return self.heartbeat.go_on(true);
            }
        };
        for (fence, why) in &beat.lost {
            if self.running.lose(fence) {
                tracing::info!(execution = %fence.execution, %why, "a lease was lost; its handler was dropped");
                self.drained.aborted += 1;
            }
        }
        for Fence { execution, .. } in &beat.cancel_requested {
            self.running.leases.ask_to_cancel(*execution);
        }
        if beat.drain {
            self.drain();
        }
        // Both are told again in every answer, which therefore comes within a second.
        let asked = beat.drain || self.running.leases.any_asked_to_cancel();
        self.heartbeat.go_on(asked);
    }

    /// Stops claiming. A claim under way is dropped: what it gets goes back by itself.
    fn drain(&mut self) {
        if self.stage == Stage::Working {
            tracing::info!(instance = self.settings.instance, "the worker drains");
            self.stage = Stage::Draining(Instant::now() + self.settings.grace);
            self.claiming = None;
        }
    }

    async fn time_is_up(&mut self) {
        match self.stage {
            Stage::Draining(_) => {
                self.finished.extend(self.running.drop_all().await);
                self.stage = Stage::HandingBack(Instant::now() + HAND_BACK);
            }
            Stage::HandingBack(_) => self.stage = Stage::OutOfTime,
            Stage::Working | Stage::OutOfTime | Stage::Closed => {}
        }
    }

    fn closed(&mut self) {
        if self.stage != Stage::Closed {
            tracing::warn!(worker = self.settings.name, "the engine has shut down under this worker");
            self.stage = Stage::Closed;
        }
    }

    /// Takes leave, so that nobody waits for this worker's leases to lapse.
    async fn leave(mut self) -> Drained {
        self.drained.aborted += self.running.leases.len() as u64;
        if self.stage == Stage::Closed {
            return self.drained;
        }
        let leave = self.namespace.remove_worker(&self.settings.instance);
        match timeout(HAND_BACK, leave).await {
            // A worker that never claimed is not known.
            Ok(Ok(_) | Err(Error::Refused(_))) => {}
            Ok(Err(error)) => tracing::warn!(%error, "could not take leave; the leases of this worker lapse"),
            Err(_elapsed) => tracing::warn!("could not take leave in time; the leases of this worker lapse"),
        }
        self.drained
    }
}

/// The end of a stage that has one.
async fn end_of(stage: Stage) {
    match stage {
        Stage::Working | Stage::OutOfTime | Stage::Closed => pending().await,
        Stage::Draining(until) | Stage::HandingBack(until) => sleep_until(until).await,
    }
}

async fn answered<T>(call: &mut Call<T>) -> T {
    match call {
        Some(call) => call.as_mut().await,
        None => pending().await,
    }
}
