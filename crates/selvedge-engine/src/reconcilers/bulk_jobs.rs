//! `bulk_jobs`: advances bulk jobs chunk by chunk, and deletes those that ended long ago.
//!
//! A server takes a job for a few seconds at a time and extends that with every chunk; when it dies, another one continues
//! from the last chunk. After each chunk the job pauses for as long as the chunk took, so that it never takes more than half
//! of one writer from running work.

use super::runtime::ReconcilerContext;
use super::{Reconciler, Tally};
use crate::Error;
use crate::namespace::deletion;
use async_trait::async_trait;
use futures_util::future::join_all;
use selvedge_core::Timestamp;
use selvedge_core::bulk_job::{BulkJob, BulkJobAction, BulkJobState};
use selvedge_core::filter::Payloads;
use selvedge_core::rules::bulk_job::{AdvanceBulkJob, TakeBulkJob};
use selvedge_store::{Error as StoreError, Overview};
use std::time::{Duration, Instant};

/// The maximum number of executions in a chunk.
const CHUNK: u32 = 100;
/// The maximum number of jobs that one server advances at the same time.
const JOBS: u32 = 4;
/// The time after which a tick hands its jobs over. The next tick, of any server, continues at once.
const RUN_FOR: Duration = Duration::from_secs(2);

/// Advances bulk jobs.
pub struct BulkJobs;

#[async_trait]
impl Reconciler for BulkJobs {
    fn name(&self) -> &'static str {
        "bulk_jobs"
    }

    fn interval(&self) -> Duration {
        Duration::from_millis(100)
    }

    fn next_due(&self, overview: &Overview) -> Option<Timestamp> {
        overview.due.of::<BulkJob>()
    }

    async fn tick(&self, context: &ReconcilerContext) -> Result<Tally, Error> {
        let mut jobs = context.store.due_bulk_jobs(&context.scope, JOBS).await?;
        let mut tally = Tally { scanned: jobs.len() as u64, ..Tally::default() };
        jobs.retain(|job| !context.quarantine.contains(&job.id));
        let until = Instant::now() + RUN_FOR;
        for advanced in join_all(jobs.iter().map(|job| advance(context, job, until))).await {
            tally += advanced?;
        }
        Ok(tally)
    }
}

/// Advances a job until it ends or the time is over. A job that fails is quarantined.
async fn advance(context: &ReconcilerContext, job: &BulkJob, until: Instant) -> Result<Tally, Error> {
    match try_advance(context, job, until).await {
        Ok(0) => Ok(Tally { superseded: 1, ..Tally::default() }),
        Ok(done) => Ok(Tally { done, ..Tally::default() }),
        Err(Error::Store(error @ StoreError::TooSlow(_))) => Ok(quarantine(context, job, &error.into())),
        Err(Error::Store(error)) if error.is_transient() => Err(error.into()),
        Err(Error::Closed) => Err(Error::Closed),
        Err(error) => Ok(quarantine(context, job, &error)),
    }
}

fn quarantine(context: &ReconcilerContext, job: &BulkJob, error: &Error) -> Tally {
    let pause = context.quarantine.add(&job.id);
    tracing::error!(job = %job.id, %error, ?pause, "a bulk job cannot be advanced; it is quarantined");
    Tally { errors: 1, ..Tally::default() }
}

/// Returns the number of chunks that were done, counting a deletion as one.
async fn try_advance(context: &ReconcilerContext, job: &BulkJob, until: Instant) -> Result<u64, Error> {
    let taken = context.committer.run_all([TakeBulkJob { id: job.id }]).await?;
    let Some(mut job) = taken.into_iter().next().flatten() else {
        return Ok(u64::from(job.state != BulkJobState::Running));
    };
    if let BulkJobAction::DeleteNamespace { .. } = job.spec.action {
        return deletion::empty(context, job, until).await;
    }
    let mut chunks = 0;
    loop {
        let began = Instant::now();
        let position = job.progress.position;
        let page = context.store.list(&job.spec.filter, position, CHUNK, Payloads::NONE).await?;
        let executions = page.rows.iter().map(|stored| stored.execution.id).collect();
        let hands_over = began >= until;
        let rule = AdvanceBulkJob { job, executions, next: page.next, hands_over };
        let advanced = context.committer.run_all([rule]).await?;
        let Some(next) = advanced.into_iter().next().flatten() else { return Ok(chunks) };
        chunks += 1;
        if next.state != BulkJobState::Running || hands_over {
            return Ok(chunks);
        }
        job = next;
        tokio::time::sleep(began.elapsed()).await;
    }
}
