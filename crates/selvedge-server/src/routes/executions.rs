//! Executions: submission of one or many, lists and details.

use crate::auth::Caller;
use crate::routes::HandlerResult;
use crate::wire::body::{LARGE_BODY, RequestBody};
use crate::wire::filter::resolve;
use crate::wire::json::{self, Object};
use crate::wire::paging::{format_cursor, invalid_cursor, parse_cursor};
use crate::wire::path::PathExecution;
use crate::wire::problem::Problem;
use crate::wire::query::Query;
use crate::wire::submission::read_submission;
use crate::wire::views::{self, Include};
use axum::http::StatusCode;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use selvedge_api::fields::Fields;
use selvedge_api::filter::ExecutionFilter;
use selvedge_core::filter::Payloads;
use selvedge_core::rules::submit::Submitted;
use selvedge_core::{Draft, Execution, Refusal, TraceParent};
use selvedge_engine::{Error, Namespace, View};
use std::time::Duration;

/// The most submissions in one batch.
pub const BATCH_MAX: usize = 1000;
/// The most duplicates of a batch that are read concurrently for its response.
const CONCURRENT_READS: usize = 16;

/// `POST /v1/executions`
pub async fn submit(caller: Caller, body: RequestBody) -> HandlerResult {
    let call_key = body.call_key()?;
    let draft = read_submission(body.fields()?, body.trace())?;
    let submitted = caller.namespace.submit_many(vec![Ok(draft)], call_key).await?;
    let submitted = submitted.into_iter().next().ok_or(Error::Closed)??;
    let repeat = Repeat::of(&submitted);
    let view = submitted_view(&caller.namespace, submitted).await?;
    let status = match repeat.duplicate {
        true => StatusCode::OK,
        false => StatusCode::CREATED,
    };
    Ok(json::response(status, |object| {
        views::execution(object.field("execution"), &view, Include::NONE);
        repeat.write(object);
    }))
}

/// `POST /v1/executions/batch`
pub async fn submit_batch(caller: Caller, body: RequestBody<LARGE_BODY>) -> HandlerResult {
    let call_key = body.call_key()?;
    let drafts = read_batch(body.fields()?, body.trace())?;
    drop(body);
    let submitted = caller.namespace.submit_many(drafts, call_key).await?;
    // A mismatch of the `Idempotency-Key` refuses the whole batch, not its first item.
    if let Some(Err(refusal @ Refusal::IdempotencyMismatch { pointer, .. })) = submitted.first()
        && pointer.starts_with("/headers/")
    {
        return Err(refusal.clone().into());
    }
    let results = batch_views(&caller.namespace, submitted).await?;
    Ok(json::response(StatusCode::OK, |object| {
        object.array("results", results.into_iter().enumerate(), write_result);
    }))
}

/// Tells that a submission created no execution.
#[derive(Clone, Copy)]
struct Repeat {
    duplicate: bool,
    debounced: bool,
}

impl Repeat {
    fn of(submitted: &Submitted) -> Repeat {
        Repeat { duplicate: submitted.duplicate, debounced: submitted.debounced }
    }

    fn write(self, object: &mut Object<'_>) {
        object.value("duplicate", &self.duplicate);
        if self.debounced {
            object.value("debounced", &true);
        }
    }
}

/// Returns the view of each item of a batch, and whether it is a repeat. New executions are viewed together without
/// reading them; duplicates are read in their current state.
async fn batch_views(
    namespace: &Namespace,
    submitted: Vec<Result<Submitted, Refusal>>,
) -> Result<Vec<Result<(View, Repeat), Refusal>>, Error> {
    let mut new = Vec::with_capacity(submitted.len());
    // None marks a new execution, whose view is the next of `new`.
    let duplicates_and_refusals: Vec<Option<Result<Submitted, Refusal>>> = submitted
        .into_iter()
        .map(|item| match item {
            Ok(item) if !item.duplicate => {
                new.push(views::without_result(item.execution, Bytes::new()));
                None
            }
            item => Some(item),
        })
        .collect();
    let mut new = namespace.views(new).await?.into_iter();
    let results = duplicates_and_refusals.into_iter().map(|item| {
        let item = item.ok_or_else(|| new.next());
        async move {
            match item {
                Err(new_view) => {
                    let repeat = Repeat { duplicate: false, debounced: false };
                    Ok(Ok((new_view.ok_or(Error::Closed)?, repeat)))
                }
                Ok(Ok(duplicate)) => {
                    let repeat = Repeat::of(&duplicate);
                    Ok(Ok((current_view(namespace, duplicate.execution).await?, repeat)))
                }
                Ok(Err(refusal)) => Ok::<_, Error>(Err(refusal)),
            }
        }
    });
    stream::iter(results).buffered(CONCURRENT_READS).try_collect().await
}

fn write_result(out: &mut Vec<u8>, (index, result): (usize, Result<(View, Repeat), Refusal>)) {
    json::object(out, |object| match result {
        Ok((view, repeat)) => {
            views::execution(object.field("execution"), &view, Include::NONE);
            repeat.write(object);
        }
        Err(refusal) => {
            let problem = Problem::refused_at(&format!("/executions/{index}"), refusal);
            problem.write(object.field("error"));
        }
    });
}

/// Reads the submissions of a batch. An invalid one is refused on its own.
fn read_batch(
    mut fields: Fields<'_>,
    trace: Option<TraceParent>,
) -> Result<Vec<Result<Draft, Refusal>>, Refusal> {
    let items = fields.array_of_at_most("executions", BATCH_MAX)?;
    let items = fields.require("executions", items)?;
    fields.finish()?;
    let parse = |raw| Fields::from_value(raw, "").and_then(|fields| read_submission(fields, trace));
    Ok(items.into_iter().map(parse).collect())
}

/// Returns the view of a submitted execution. A new one is viewed without reading it; a duplicate is read.
async fn submitted_view(namespace: &Namespace, submitted: Submitted) -> Result<View, Error> {
    match submitted.duplicate {
        false => namespace.view(views::without_result(submitted.execution, Bytes::new())).await,
        true => current_view(namespace, submitted.execution).await,
    }
}

/// Reads the current view of an execution. If it has been deleted since, returns its last known row without payloads.
pub async fn current_view(namespace: &Namespace, last_known: Execution) -> Result<View, Error> {
    match namespace.get_with(last_known.id, Payloads::NONE).await {
        Err(Error::Refused(Refusal::NotFound { .. })) => {
            namespace.view(views::without_result(last_known, Bytes::new())).await
        }
        view => view,
    }
}

/// `GET /v1/executions`: newest first. Items leave out `input`, `result` and `progress` unless `include` names them. A page
/// may be short before the end of the list, which only a null `next_cursor` marks.
pub async fn list(caller: Caller, mut query: Query) -> HandlerResult {
    let tags = query.texts("tag");
    let filter = ExecutionFilter::take("/query", tags, |name| query.text(name))?;
    let include = query.include()?;
    let limit = query.limit()?;
    let after = query.text("cursor")?.map(|cursor| parse_cursor(&cursor)).transpose()?;
    query.finish()?;
    let filter = resolve(filter, &caller.namespace).await?;
    let (items, next) = caller.namespace.list(&filter, after, limit, include.payloads()).await?;
    Ok(json::page(&items, next.map(format_cursor), |out, view| views::execution(out, view, include)))
}

/// `GET /v1/executions/{id}`
pub async fn get(caller: Caller, PathExecution(id): PathExecution, query: Query) -> HandlerResult {
    query.finish()?;
    let view = caller.namespace.get(id).await?;
    let mut out = Vec::with_capacity(1024);
    views::execution(&mut out, &view, Include::ALL);
    Ok(json::body(StatusCode::OK, out))
}

/// `GET /v1/executions/{id}/explain`
pub async fn explain(caller: Caller, PathExecution(id): PathExecution, query: Query) -> HandlerResult {
    query.finish()?;
    let explanation = caller.namespace.explain(id).await?;
    Ok(json::response(StatusCode::OK, |object| {
        views::explanation(object, &explanation);
    }))
}

/// `GET /v1/executions/{id}/attempts`: the attempts, oldest first. The cursor is the index of the last attempt.
pub async fn attempts(caller: Caller, PathExecution(id): PathExecution, mut query: Query) -> HandlerResult {
    let limit = query.limit()? as usize;
    let cursor = query.text("cursor")?;
    query.finish()?;
    let after: Option<u32> = cursor.map(|cursor| cursor.parse().map_err(|_| invalid_cursor())).transpose()?;
    let mut attempts = caller.namespace.attempts(id).await?;
    attempts.retain(|attempt| after.is_none_or(|after| attempt.lease.attempt() > after));
    let more = attempts.len() > limit;
    attempts.truncate(limit);
    let last_cursor = attempts.last().map(|attempt| attempt.lease.attempt().to_string());
    Ok(json::page(&attempts, last_cursor.filter(|_| more), views::attempt))
}

/// `GET /v1/executions/{id}/result`
pub async fn result(caller: Caller, PathExecution(id): PathExecution, mut query: Query) -> HandlerResult {
    let wait = query.wait()?;
    query.finish()?;
    let namespace = &caller.namespace;
    let ended = match caller.shutdown.race(namespace.result(id, wait)).await {
        Some(ended) => ended?,
        None => namespace.result(id, Duration::ZERO).await?,
    };
    Ok(match ended {
        Some(ended) => json::response(StatusCode::OK, |object| {
            object.value("outcome", &ended.outcome);
            object.raw("result", ended.result.as_deref());
            views::failure(object, ended.error.as_ref());
        }),
        None => json::response(StatusCode::ACCEPTED, |object| {
            object.null("outcome");
            object.null("result");
            object.null("error");
        }),
    })
}
