//! Bulk jobs: one action on any number of executions, done in the background.

use crate::auth::Caller;
use crate::routes::typed::{Reply, Typed};
use crate::wire::filter::resolve;
use crate::wire::problem::Problem;
use selvedge_api::Page;
use selvedge_api::bulk_jobs::{BulkJob, GetBulkJob, ListBulkJobs, StartBulkJob, StartedBulkJob, StopBulkJob};
use selvedge_api::paging::IdCursor;
use selvedge_api::values::Duplicate;
use selvedge_core::Refusal;
use selvedge_core::bulk_job::{self, BulkJobId};
use selvedge_core::filter::Filter;
use selvedge_core::rules::CallKey;
use selvedge_core::rules::keyed::Answered;
use selvedge_engine::BulkJobDraft;
use std::collections::BTreeMap;

pub async fn start(caller: Caller, start: StartBulkJob, key: Option<CallKey>) -> Typed<StartedBulkJob> {
    let (asked, filter) = match start.filter {
        Some(filter) => (filter.asked(), resolve(filter, &caller.namespace).await?),
        None => (BTreeMap::new(), Filter::all(caller.namespace.id())),
    };
    let draft = BulkJobDraft { action: start.action.into(), filter, asked };
    let calls = caller.namespace.keyed(key);
    let Answered { done: job, duplicate } = calls.start_bulk_job(draft, &caller.actor).await?;
    let started = StartedBulkJob { job: (&job).into(), duplicate: Duplicate { duplicate } };
    Ok(Reply::created(started, !duplicate))
}

pub async fn list(caller: Caller, ListBulkJobs { page }: ListBulkJobs) -> Typed<Page<BulkJob>> {
    // Finds one job more than the page shows: it tells that another page follows.
    let limit = page.limit();
    let (mut jobs, mut position, wanted) =
        (Vec::new(), page.after.map(|IdCursor(id)| id), limit as usize + 1);
    loop {
        let read = caller.namespace.bulk_jobs(position, limit + 1).await?;
        position = read.last().map(|job| job.id);
        let is_end = read.len() < wanted;
        jobs.extend(read.into_iter().filter(|job| caller.sees(job)));
        if is_end || jobs.len() >= wanted {
            break;
        }
    }
    Ok(Page::cut(jobs, limit, |job| IdCursor(job.id), |job| (&job).into()).into())
}

pub async fn get(caller: Caller, GetBulkJob { id }: GetBulkJob) -> Typed<BulkJob> {
    Ok(BulkJob::from(&find(&caller, id).await?).into())
}

/// Returns a job that the caller may know of.
async fn find(caller: &Caller, id: BulkJobId) -> Result<bulk_job::BulkJob, Problem> {
    let job = caller.namespace.bulk_job(id).await?;
    match caller.sees(&job) {
        true => Ok(job),
        false => Err(Refusal::NotFound { what: "bulk job".into(), id: id.to_string() }.into()),
    }
}

pub async fn stop(caller: Caller, StopBulkJob { id }: StopBulkJob) -> Typed<BulkJob> {
    find(&caller, id).await?;
    let job = caller.namespace.keyed(None).stop_bulk_job(id, &caller.actor).await?;
    Ok(BulkJob::from(&job).into())
}
