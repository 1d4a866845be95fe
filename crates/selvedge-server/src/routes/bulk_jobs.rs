//! Bulk jobs: one action on any number of executions, done in the background.

use crate::auth::Caller;
use crate::routes::HandlerResult;
use crate::routes::bulk::{read_action, read_filter};
use crate::wire::body::RequestBody;
use crate::wire::json::{self, Object};
use crate::wire::paging::{NamePage, name_cursor};
use crate::wire::path::PathBulkJob;
use crate::wire::problem::{Code, Problem};
use crate::wire::query::Query;
use axum::http::StatusCode;
use selvedge_core::Refusal;
use selvedge_core::bulk_job::{BulkJob, BulkJobAction, BulkJobId};
use selvedge_core::filter::Filter;
use selvedge_core::rules::keyed::Answered;
use selvedge_engine::BulkJobDraft;
use std::collections::BTreeMap;
use uuid::Uuid;

/// `POST /v1/bulk-jobs`
pub async fn start(caller: Caller, body: RequestBody) -> HandlerResult {
    let calls = caller.namespace.keyed(body.call_key()?);
    let mut fields = body.fields()?;
    let action = fields.object("action")?;
    let action = read_action(fields.require("action", action)?)?;
    let filter = fields.object("filter")?.map(read_filter).transpose()?;
    let all = fields.flag("all")?.unwrap_or(false);
    if filter.is_none() && !all {
        return Err(fields.refuse("filter", "is missing; give filter or all: true").into());
    }
    if filter.is_some() && all {
        return Err(fields.refuse("all", "cannot be combined with filter; give only one of them").into());
    }
    fields.finish()?;
    let (asked, filter) = match filter {
        Some(filter) => (filter.asked(), filter.resolve(&caller.namespace).await?),
        None => (BTreeMap::new(), Filter::all(caller.namespace.id())),
    };
    let draft = BulkJobDraft { action, filter, asked };
    let Answered { done: job, duplicate } = calls.start_bulk_job(draft, &caller.actor).await?;
    let status = if duplicate { StatusCode::OK } else { StatusCode::CREATED };
    Ok(json::response(status, |object| {
        write(object, &job);
        object.value("duplicate", &duplicate);
    }))
}

/// `GET /v1/bulk-jobs`: newest first.
pub async fn list(caller: Caller, query: Query) -> HandlerResult {
    let NamePage { after, limit } = NamePage::read(query)?;
    let after = after.map(|after| Uuid::parse_str(&after).map(BulkJobId)).transpose();
    let after = after.map_err(|_| Problem::new(Code::InvalidCursor, "the cursor is not from this list"))?;
    // Finds one job more than the page shows: it tells that another page follows.
    let (mut jobs, mut position, wanted) = (Vec::new(), after, limit as usize + 1);
    loop {
        let read = caller.namespace.bulk_jobs(position, limit + 1).await?;
        position = read.last().map(|job| job.id);
        let is_end = read.len() < wanted;
        jobs.extend(read.into_iter().filter(|job| caller.sees(job)));
        if is_end || jobs.len() >= wanted {
            break;
        }
    }
    let more = jobs.len() > limit as usize;
    jobs.truncate(limit as usize);
    let last = jobs.last().filter(|_| more).map(|job| name_cursor(&job.id.to_string()));
    Ok(json::page(&jobs, last, |out, job| json::object(out, |object| write(object, job))))
}

/// `GET /v1/bulk-jobs/{id}`
pub async fn get(caller: Caller, PathBulkJob(id): PathBulkJob, query: Query) -> HandlerResult {
    query.finish()?;
    let job = find(&caller, id).await?;
    Ok(json::response(StatusCode::OK, |object| write(object, &job)))
}

/// Returns a job that the caller may know of.
async fn find(caller: &Caller, id: BulkJobId) -> Result<BulkJob, Problem> {
    let job = caller.namespace.bulk_job(id).await?;
    match caller.sees(&job) {
        true => Ok(job),
        false => Err(Refusal::NotFound { what: "bulk job".into(), id: id.to_string() }.into()),
    }
}

/// `DELETE /v1/bulk-jobs/{id}`: stops a job. What it has done stays done. The deletion of a namespace cannot be stopped.
pub async fn stop(caller: Caller, PathBulkJob(id): PathBulkJob, query: Query) -> HandlerResult {
    query.finish()?;
    find(&caller, id).await?;
    let job = caller.namespace.keyed(None).stop_bulk_job(id, &caller.actor).await?;
    Ok(json::response(StatusCode::OK, |object| write(object, &job)))
}

/// Writes the fields of a job.
pub fn write(object: &mut Object<'_>, job: &BulkJob) {
    let BulkJob { spec, progress, .. } = job;
    object.value("id", &job.id);
    object.value("state", job.state.as_str());
    json::object(object.field("action"), |object| write_action(object, &spec.action));
    object.value("filter", &spec.asked);
    object.value("actor", &spec.actor);
    object.value("matched", &progress.matched());
    object.value("done", &progress.changed);
    object.value("unchanged", &progress.unchanged);
    object.value("refused_count", &progress.refused);
    object.array("refused", &progress.refusals, |out, (id, code)| {
        json::object(out, |object| {
            object.value("id", id);
            object.value("code", code);
        });
    });
    object.time("position_at", progress.position.map(|position| position.submitted_at));
    object.time("created_at", Some(job.created_at));
    object.time("ended_at", job.ended_at);
}

fn write_action(object: &mut Object<'_>, action: &BulkJobAction) {
    object.value("type", action.as_str());
    match action {
        BulkJobAction::Cancel { reason, grace_ms } => {
            object.value("reason", reason);
            object.value("grace_ms", grace_ms);
        }
        BulkJobAction::Replay => {}
        BulkJobAction::Priority { priority } => object.value("priority", priority),
        BulkJobAction::Reschedule { until } => object.time("until_at", Some(*until)),
        BulkJobAction::Tags { set, remove } => {
            object.value("set", set);
            object.value("remove", remove);
        }
        BulkJobAction::DeleteNamespace { name } => object.value("namespace", name),
    }
}
