//! The deletion of a namespace: a bulk job that cancels what runs in it, deletes what has ended, and then the rest.
//!
//! Every step decides by what the store has now, so it does not matter where an earlier one was interrupted. The namespace is
//! marked before the job starts. Servers notice the mark within half a minute and refuse calls from then on; until that time
//! has passed the job looks again for what they accepted meanwhile. The job cannot be stopped.

use super::MARK_NOTICED_MS;
use crate::Error;
use crate::namespace::KeysOf;
use crate::reconcilers::ReconcilerContext;
use selvedge_core::bulk_job::{BulkJob, BulkJobAction, BulkJobState};
use selvedge_core::filter::{Filter, Payloads};
use selvedge_core::flow::FlowFilter;
use selvedge_core::rules::bulk_job::{AdvanceBulkJob, EmptyNamespace};
use selvedge_core::rules::flows::whole::ForgetFlow;
use selvedge_core::rules::schedule::DeleteSchedule;
use selvedge_core::rules::webhook::{ConfigureWebhook, WebhookSetting};
use selvedge_core::state::StateName;
use selvedge_core::{ExecutionId, Rule};
use selvedge_store::{Deletion, NamespaceSettings};
use std::time::Instant;

/// The maximum number of executions in a chunk.
const CHUNK: u32 = 100;
/// The maximum number of flows, keys and other rows that are read or deleted at once.
const PAGE: u32 = 500;
/// The time after which the job looks again for what is not settled yet, in milliseconds.
const PAUSE_MS: i64 = 500;

/// Empties the namespace of a job until it is empty or the time is over. Returns the number of chunks that were done.
pub async fn empty(context: &ReconcilerContext, mut job: BulkJob, until: Instant) -> Result<u64, Error> {
    let mut chunks = 0;
    // A server that crashed between the last two steps has left the job. The name may have been used again since.
    let settings = context.store.namespace_settings(job.spec.filter.namespace).await?;
    if settings.deletion == Some(Deletion::Done) {
        end(context, job).await?;
        return Ok(1);
    }
    // First, so that no schedule submits more.
    delete_sources(context, &job).await?;
    loop {
        let began = Instant::now();
        let executions = next_executions(context, &job).await?;
        let is_idle = executions.is_empty() && delete_others(context, &job).await? == 0;
        if is_idle && is_finished(context, &job).await? {
            finish(context, job).await?;
            return Ok(chunks + 1);
        }
        let pause_ms = match (is_idle, began >= until) {
            (true, _) => Some(PAUSE_MS),
            (false, true) => Some(0),
            (false, false) => None,
        };
        let advanced = run(context, EmptyNamespace { job, executions, pause_ms }).await?;
        let Some(next) = advanced.filter(|next| next.state == BulkJobState::Running) else {
            return Ok(chunks);
        };
        chunks += 1;
        if pause_ms.is_some() {
            return Ok(chunks);
        }
        job = next;
        tokio::time::sleep(began.elapsed()).await;
    }
}

async fn run<R: Rule>(context: &ReconcilerContext, rule: R) -> Result<R::Reply, Error> {
    let replies = context.committer.run_all([rule]).await?;
    replies.into_iter().next().ok_or(Error::Closed)
}

/// Returns executions that can be cancelled or deleted: first those that have not ended. Members of flows that have ended are
/// left to [`delete_others`], so they come last.
async fn next_executions(context: &ReconcilerContext, job: &BulkJob) -> Result<Vec<ExecutionId>, Error> {
    let all = Filter::all(job.spec.filter.namespace);
    let live = StateName::ALL.into_iter().filter(|state| state.outcome().is_none()).collect();
    for filter in [Filter { states: live, ..all.clone() }, all] {
        let mut after = None;
        loop {
            let page = context.store.list(&filter, after, CHUNK, Payloads::NONE).await?;
            let rows = page.rows.iter().map(|stored| &stored.execution);
            let found = rows.filter(|row| row.state.outcome().is_none() || row.flow.is_none());
            let found: Vec<ExecutionId> = found.map(|row| row.id).collect();
            if !found.is_empty() {
                return Ok(found);
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
    }
    Ok(Vec::new())
}

/// Deletes the schedules and webhooks of the namespace.
async fn delete_sources(context: &ReconcilerContext, job: &BulkJob) -> Result<(), Error> {
    let (namespace, actor) = (job.spec.filter.namespace, &job.spec.actor);
    loop {
        let schedules = context.store.schedules(namespace, None, PAGE).await?;
        let names = schedules.iter().map(|schedule| schedule.name.clone());
        let delete = names.map(|name| DeleteSchedule { name, actor: actor.clone() });
        let deleted = context.committer.run_all(delete).await?;
        let webhooks = context.store.webhooks(Some(namespace), None, PAGE).await?;
        let names = webhooks.iter().map(|webhook| webhook.name.clone());
        let setting = || WebhookSetting::Remove;
        let remove = names.map(|name| ConfigureWebhook { name, setting: setting(), actor: actor.clone() });
        let removed = context.committer.run_all(remove).await?;
        if !deleted.iter().any(Result::is_ok) && !removed.iter().any(Result::is_ok) {
            return Ok(());
        }
    }
}

/// Deletes a page of flows with their members, removes the namespace from keys, and deletes rows of other kinds. Returns how
/// many were deleted or changed.
async fn delete_others(context: &ReconcilerContext, job: &BulkJob) -> Result<u64, Error> {
    let namespace = job.spec.filter.namespace;
    let mut deleted = 0;
    let flows = context.store.list_flows(&FlowFilter::all(namespace), None, PAGE).await?;
    for flow in &flows {
        // None if it has not been settled yet.
        while let Some(forgotten) = run(context, ForgetFlow { flow: flow.id, at_once: true }).await? {
            deleted += 1;
            if !forgotten.goes_on {
                break;
            }
        }
    }
    if !flows.is_empty() {
        return Ok(deleted);
    }
    deleted += remove_from_keys(context, job).await?;
    Ok(deleted + context.store.delete_rest_of_namespace(namespace, PAGE).await?)
}

/// Removes the namespace from the keys that have it, and revokes those that have no other. Keys that are newer than the job are of
/// a later namespace with the same name.
async fn remove_from_keys(context: &ReconcilerContext, job: &BulkJob) -> Result<u64, Error> {
    let BulkJobAction::DeleteNamespace { name } = &job.spec.action else { return Ok(0) };
    let keys = KeysOf { name, created_by: job.created_at, log: job.namespace, actor: Some(&job.spec.actor) };
    keys.remove(&*context.store, &context.committer).await
}

/// Reports whether nothing is left and nothing can be added any more.
async fn is_finished(context: &ReconcilerContext, job: &BulkJob) -> Result<bool, Error> {
    let noticed_at = match context.store.describe().shared {
        true => job.created_at.plus_ms(MARK_NOTICED_MS),
        false => job.created_at,
    };
    let flows = context.store.list_flows(&FlowFilter::all(job.spec.filter.namespace), None, 1).await?;
    Ok(flows.is_empty() && context.store.now().await? >= noticed_at)
}

/// Marks the namespace as deleted, and ends the job.
async fn finish(context: &ReconcilerContext, job: BulkJob) -> Result<(), Error> {
    let settings = NamespaceSettings { deletion: Some(Deletion::Done), ..NamespaceSettings::default() };
    context.store.configure_namespace(job.spec.filter.namespace, settings).await?;
    end(context, job).await
}

async fn end(context: &ReconcilerContext, job: BulkJob) -> Result<(), Error> {
    let end = AdvanceBulkJob { job, executions: Vec::new(), next: None, hands_over: false };
    run(context, end).await.map(drop)
}
