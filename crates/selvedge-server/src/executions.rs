//! Executions: submitting one or many, and reading them.

use crate::Answer;
use crate::auth::Caller;
use crate::body::{LARGE, Sent};
use crate::fields::Fields;
use crate::filter::{Words, decode, encode, invalid_cursor};
use crate::json;
use crate::problem::Problem;
use crate::query::{Id, Query};
use crate::submission::draft;
use crate::views;
use axum::http::StatusCode;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use selvedge_core::rules::submit::Submitted;
use selvedge_core::{Draft, Execution, Refusal};
use selvedge_engine::{Error, Namespace, View};
use std::time::Duration;

/// The most submissions in one batch.
const BATCH_MAX: usize = 1000;
/// How many executions that were there before are read at a time to answer a batch.
const READS: usize = 16;

/// `POST /v1/executions`
pub async fn submit(caller: Caller, sent: Sent) -> Answer {
    let operation = sent.operation()?;
    let draft = draft(sent.fields()?)?;
    let input = draft.input.clone();
    let submitted = caller.namespace.submit_many(vec![Ok(draft)], operation).await?;
    let submitted = submitted.into_iter().next().ok_or(Error::Closed)??;
    let duplicate = submitted.duplicate;
    let view = submitted_view(&caller.namespace, submitted, input).await?;
    let status = match duplicate {
        true => StatusCode::OK,
        false => StatusCode::CREATED,
    };
    Ok(json::answer(status, |object| {
        views::execution(object.field("execution"), &view);
        object.value("duplicate", &duplicate);
    }))
}

/// `POST /v1/executions/batch`
pub async fn submit_batch(caller: Caller, sent: Sent<LARGE>) -> Answer {
    let operation = sent.operation()?;
    let drafts = batch(sent.fields()?)?;
    drop(sent);
    let inputs: Vec<Bytes> = drafts
        .iter()
        .map(|draft| draft.as_ref().map(|draft| draft.input.clone()).unwrap_or_default())
        .collect();
    let submitted = caller.namespace.submit_many(drafts, operation).await?;
    if let Some(Err(refusal @ Refusal::IdempotencyMismatch { pointer, .. })) = submitted.first()
        && pointer.starts_with("/headers/")
    {
        return Err(refusal.clone().into());
    }
    let shown = batch_views(&caller.namespace, submitted, inputs).await?;
    Ok(json::answer(StatusCode::OK, |object| {
        object.array("results", shown.into_iter().enumerate(), write_result);
    }))
}

/// What is answered to each of a batch. The new ones are known already and shown together; those that were there before are
/// read.
async fn batch_views(
    namespace: &Namespace,
    submitted: Vec<Result<Submitted, Refusal>>,
    inputs: Vec<Bytes>,
) -> Result<Vec<Result<(View, bool), Refusal>>, Error> {
    let mut new = Vec::with_capacity(submitted.len());
    let rest: Vec<Option<Result<Execution, Refusal>>> = submitted
        .into_iter()
        .zip(inputs)
        .map(|(one, input)| match one {
            Ok(one) if !one.duplicate => {
                new.push(views::unfinished(one.execution, input));
                None
            }
            one => Some(one.map(|one| one.execution)),
        })
        .collect();
    let mut new = namespace.views(new).await?.into_iter();
    let shown = rest.into_iter().map(|one| {
        let one = one.ok_or_else(|| new.next());
        async move {
            match one {
                Err(view) => Ok(Ok((view.ok_or(Error::Closed)?, false))),
                Ok(Ok(known)) => Ok(Ok((current_view(namespace, known).await?, true))),
                Ok(Err(refusal)) => Ok::<_, Error>(Err(refusal)),
            }
        }
    });
    stream::iter(shown).buffered(READS).try_collect().await
}

fn write_result(out: &mut Vec<u8>, (index, result): (usize, Result<(View, bool), Refusal>)) {
    json::object(out, |object| match result {
        Ok((view, duplicate)) => {
            views::execution(object.field("execution"), &view);
            object.value("duplicate", &duplicate);
        }
        Err(refusal) => {
            let problem = Problem::refused_at(&format!("/executions/{index}"), refusal);
            problem.write(object.field("error"));
        }
    });
}

/// The submissions of a batch, each on its own: one that is wrong is refused in its place.
fn batch(mut fields: Fields<'_>) -> Result<Vec<Result<Draft, Refusal>>, Refusal> {
    let items = fields.items("executions")?;
    let items = fields.require("executions", items)?;
    if items.len() > BATCH_MAX {
        let detail = format!("has {} entries; at most {BATCH_MAX} are allowed", items.len());
        return Err(fields.refuse("executions", detail));
    }
    fields.finish()?;
    let parse = |raw| Fields::of(raw, "").and_then(draft);
    Ok(items.into_iter().map(parse).collect())
}

/// What is answered to a submission. A new one is known already; one that was there before is read.
async fn submitted_view(namespace: &Namespace, submitted: Submitted, input: Bytes) -> Result<View, Error> {
    match submitted.duplicate {
        false => namespace.view(views::unfinished(submitted.execution, input)).await,
        true => current_view(namespace, submitted.execution).await,
    }
}

/// An execution as it is now; if it is gone already, its row as it was last seen, without payloads.
pub async fn current_view(namespace: &Namespace, seen: Execution) -> Result<View, Error> {
    match namespace.get(seen.id).await {
        Err(Error::Refused(Refusal::NotFound { .. })) => {
            namespace.view(views::unfinished(seen, Bytes::new())).await
        }
        view => view,
    }
}

/// `GET /v1/executions`
pub async fn list(caller: Caller, mut query: Query) -> Answer {
    let words = Words::take("/query", |name| query.text(name))?;
    let limit = query.limit()?;
    let after = query.text("cursor")?.map(|cursor| decode(&cursor)).transpose()?;
    query.finish()?;
    let filter = words.filter(&caller.namespace).await?;
    let (items, next) = caller.namespace.list(&filter, after, limit).await?;
    Ok(json::page(&items, next.map(encode), views::execution))
}

/// `GET /v1/executions/{id}`
pub async fn get(caller: Caller, Id(id): Id, query: Query) -> Answer {
    query.finish()?;
    let view = caller.namespace.get(id).await?;
    let mut out = Vec::with_capacity(1024);
    views::execution(&mut out, &view);
    Ok(json::body(StatusCode::OK, out))
}

/// `GET /v1/executions/{id}/explain`
pub async fn explain(caller: Caller, Id(id): Id, query: Query) -> Answer {
    query.finish()?;
    let explanation = caller.namespace.explain(id).await?;
    Ok(json::answer(StatusCode::OK, |object| {
        views::explanation(object, &explanation);
    }))
}

/// `GET /v1/executions/{id}/attempts`: its attempts, oldest first. A cursor is the index of the last one seen.
pub async fn attempts(caller: Caller, Id(id): Id, mut query: Query) -> Answer {
    let limit = query.limit()? as usize;
    let cursor = query.text("cursor")?;
    query.finish()?;
    let after: Option<u32> = cursor.map(|cursor| cursor.parse().map_err(|_| invalid_cursor())).transpose()?;
    let mut attempts = caller.namespace.attempts(id).await?;
    attempts.retain(|attempt| after.is_none_or(|after| attempt.lease.attempt() > after));
    let more = attempts.len() > limit;
    attempts.truncate(limit);
    let last = attempts.last().map(|attempt| attempt.lease.attempt().to_string());
    Ok(json::page(&attempts, last.filter(|_| more), views::attempt))
}

/// `GET /v1/executions/{id}/result`
pub async fn result(caller: Caller, Id(id): Id, mut query: Query) -> Answer {
    let wait = query.wait()?;
    query.finish()?;
    let namespace = &caller.namespace;
    let ended = match caller.closing.cut(namespace.result(id, wait)).await {
        Some(ended) => ended?,
        None => namespace.result(id, Duration::ZERO).await?,
    };
    Ok(match ended {
        Some(ended) => json::answer(StatusCode::OK, |object| {
            object.value("outcome", &ended.outcome);
            object.raw("result", ended.result.as_deref());
            views::failure(object, ended.error.as_ref());
        }),
        None => json::answer(StatusCode::ACCEPTED, |object| {
            object.null("outcome");
            object.null("result");
            object.null("error");
        }),
    })
}
