//! Reports of workers: each operation succeeds or is refused on its own, and the next claim shares the round trip.

use crate::auth::{Caller, WorkerCaller};
use crate::routes::HandlerResult;
use crate::routes::waitpoints;
use crate::routes::workers::{claim_views, read_claim};
use crate::shutdown::ShutdownWatch;
use crate::wire::body::{LARGE_BODY, RequestBody};
use crate::wire::json;
use crate::wire::ops::{OpRequest, ParsedOp, read_op};
use crate::wire::path::PathInstance;
use crate::wire::problem::Problem;
use crate::wire::views;
use axum::http::StatusCode;
use futures_util::future::join_all;
use selvedge_api::fields::Fields;
use selvedge_core::rules::gates::budget::Spend;
use selvedge_core::rules::report::{OPS_MAX, Op, Reported};
use selvedge_core::{ExecutionId, Refusal};
use selvedge_engine::{ClaimResult, ClaimWait, Error, Namespace, Namespaces, ReportItem};
use std::collections::BTreeMap;

/// `POST /v1/workers/{instance}/report`
pub async fn report(
    caller: WorkerCaller,
    PathInstance(instance): PathInstance,
    body: RequestBody<LARGE_BODY>,
) -> HandlerResult {
    let mut fields = body.fields()?;
    let ops = fields.array_of_at_most("ops", OPS_MAX)?;
    let ops = fields.require("ops", ops)?;
    let next_claim = fields.object("claim")?;
    let next_claim = next_claim.map(|fields| read_claim(fields, instance, caller.defaults())).transpose()?;
    fields.finish()?;
    let parsed: Vec<_> = ops.into_iter().map(|raw| Fields::from_value(raw, "").and_then(read_op)).collect();
    let mut parsed = limit_waitpoints(parsed);
    drop(body);
    let homes = homes(&caller, &mut parsed).await?;
    let mut items = Vec::with_capacity(parsed.len());
    for (op, home) in parsed.into_iter().zip(&homes) {
        items.push(report_item(caller_namespace(&caller, *home), op).await?);
    }
    let creates_waitpoints: Vec<bool> = items.iter().map(creates_waitpoints).collect();
    let claims_next = next_claim.is_some();
    let (results, next) = match &caller {
        WorkerCaller::One(caller) => report_and_claim(caller, items, next_claim).await?,
        WorkerCaller::Several(some, shutdown) => {
            let results = report_to_homes(some, items, &homes).await?;
            (results, claim_next(some, shutdown, next_claim).await?)
        }
    };
    let (next, refused) = match next {
        Ok(next) => (next, None),
        Err(refusal) => (ClaimResult::default(), Some(Problem::refused_at("/claim", refusal))),
    };
    let claims = claim_views(&caller, next.claimed).await?;
    Ok(json::response(StatusCode::OK, |object| {
        object.array(
            "results",
            results.iter().zip(creates_waitpoints).enumerate(),
            |out, (index, result)| {
                write_result(out, caller_namespace(&caller, homes[index]), index, result);
            },
        );
        object.array("claims", &claims, views::claim);
        if claims_next {
            object.value("drain", &next.drain);
        }
        if let Some(problem) = refused {
            problem.write(object.field("claim_error"));
        }
    }))
}

/// The maximum number of waitpoints that one report creates: each has a token in the response.
const WAITPOINTS_MAX: usize = 10_000;

/// Refuses the operations with which a report would create too many waitpoints.
fn limit_waitpoints(parsed: Vec<Result<ParsedOp, Refusal>>) -> Vec<Result<ParsedOp, Refusal>> {
    let mut created = 0;
    let limited = parsed.into_iter().map(|op| {
        let op = op?;
        created += match &op.op {
            OpRequest::Waitpoint(_) => 1,
            OpRequest::Suspend { waitpoints, .. } => waitpoints.len(),
            OpRequest::Op(_) | OpRequest::Spawn { .. } | OpRequest::Usage { .. } => 0,
        };
        if created > WAITPOINTS_MAX {
            let detail = format!(
                "the report creates more than {WAITPOINTS_MAX} waitpoints; report this operation separately"
            );
            return Err(Refusal::field("/waitpoints", detail));
        }
        Ok(op)
    });
    limited.collect()
}

type Results = Vec<Result<Reported, Refusal>>;

/// Returns the index of the namespace of each operation among those of the caller, and refuses operations on executions that
/// are in none of them.
async fn homes(caller: &WorkerCaller, parsed: &mut [Result<ParsedOp, Refusal>]) -> Result<Vec<usize>, Error> {
    let WorkerCaller::Several(some, _) = caller else { return Ok(vec![0; parsed.len()]) };
    let executions: Vec<ExecutionId> =
        parsed.iter().filter_map(|op| op.as_ref().ok()).map(|op| op.fence.execution).collect();
    let mut known = some.indexes_of(&executions).await?.into_iter();
    let mut homes = vec![0; parsed.len()];
    for (home, op) in homes.iter_mut().zip(parsed) {
        let Ok(ParsedOp { fence, .. }) = op else { continue };
        match known.next().flatten() {
            Some(index) => *home = index,
            None => *op = Err(Refusal::no_execution(fence.execution)),
        }
    }
    Ok(homes)
}

fn caller_namespace(caller: &WorkerCaller, home: usize) -> &Namespace {
    match caller {
        WorkerCaller::One(caller) => &caller.namespace,
        WorkerCaller::Several(some, _) => &some.members()[home].0,
    }
}

/// Reports each operation to its namespace, and returns the results in the order of the operations. Operations of one
/// namespace keep their order.
async fn report_to_homes(
    some: &Namespaces,
    items: Vec<ReportItem>,
    homes: &[usize],
) -> Result<Results, Problem> {
    let mut parts: Vec<Vec<ReportItem>> = some.members().iter().map(|_| Vec::new()).collect();
    for (item, home) in items.into_iter().zip(homes) {
        parts[*home].push(item);
    }
    let reporting = some.members().iter().zip(parts).map(|((member, _), part)| async move {
        match part.is_empty() {
            true => Ok(Vec::new()),
            false => member.report_and_claim(part, None).await.map(|(results, _)| results),
        }
    });
    let mut results = Vec::with_capacity(homes.len());
    for part in join_all(reporting).await {
        results.push(part?.into_iter());
    }
    let lost = || Err(Refusal::field("/ops", "has no answer"));
    Ok(homes.iter().map(|home| results[*home].next().unwrap_or_else(lost)).collect())
}

/// Claims from several namespaces, after reports that are committed: the worker needs their results more than an error of the
/// claim.
async fn claim_next(
    some: &Namespaces,
    shutdown: &ShutdownWatch,
    next_claim: Option<ClaimWait>,
) -> Result<Result<ClaimResult, Refusal>, Problem> {
    let Some(next_claim) = next_claim else { return Ok(Ok(ClaimResult::default())) };
    Ok(match shutdown.race(some.claim_as_worker(next_claim)).await {
        Some(Ok(claims)) => Ok(claims),
        Some(Err(Error::Refused(refusal))) => Err(refusal),
        Some(Err(error)) => {
            tracing::warn!(%error, "a claim after reports failed");
            Ok(ClaimResult::default())
        }
        None => Ok(ClaimResult::default()),
    })
}

/// Converts an operation to the engine's form. A refusal, for example of a graph, refuses only its own operation.
async fn report_item(namespace: &Namespace, parsed: Result<ParsedOp, Refusal>) -> Result<ReportItem, Error> {
    let ParsedOp { fence, op_id, op } = match parsed {
        Ok(parsed) => parsed,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let op = match op {
        OpRequest::Op(op) => Ok(op),
        OpRequest::Spawn { graph, detach } => namespace.spawn(graph, detach).await,
        OpRequest::Waitpoint(draft) => Ok(namespace.waitpoint(draft)),
        OpRequest::Usage { budget, usage, dedup_key } => {
            let execution = Some(fence.execution);
            Ok(Op::Usage(Spend { namespace: namespace.id(), budget, usage, dedup_key, execution }))
        }
        OpRequest::Suspend { waits, waitpoints } => Ok(namespace.suspend(waits, waitpoints)),
    };
    match op {
        Ok(op) => Ok(Ok((fence, op_id, op))),
        Err(Error::Refused(refusal)) => Ok(Err(refusal)),
        Err(error) => Err(error),
    }
}

/// Reports whether the result has the field `waitpoints`, which it has even if the list is empty.
fn creates_waitpoints(item: &ReportItem) -> bool {
    matches!(item, Ok((_, _, Op::Waitpoint { .. } | Op::Suspend(_))))
}

/// Reports at once. Only the claim that follows waits for work, and stops waiting when the server shuts down. A refusal of
/// the claim after the reports were decided is returned beside their results.
async fn report_and_claim(
    caller: &Caller,
    items: Vec<ReportItem>,
    next_claim: Option<ClaimWait>,
) -> Result<(Results, Result<ClaimResult, Refusal>), Problem> {
    let immediate = next_claim.as_ref().map(|next| next.claim.clone());
    let reported = caller.namespace.report_and_claim(items, immediate).await;
    // Operations are refused one by one, so a refusal of the whole call is a refusal of the claim.
    let (results, mut next) = reported.map_err(|error| match error {
        Error::Refused(refusal) => Problem::refused_at("/claim", refusal),
        error => error.into(),
    })?;
    let found_nothing = matches!(&next, Ok(claims) if claims.claimed.is_empty() && !claims.drain);
    if let Some(later) = next_claim.filter(|later| found_nothing && !later.wait.is_zero()) {
        match caller.shutdown.race(caller.namespace.claim_as_worker(later)).await {
            Some(Ok(later)) => next = Ok(later),
            Some(Err(Error::Refused(refusal))) => next = Err(refusal),
            // The reports are committed: the worker needs their results more than this error.
            Some(Err(error)) => tracing::warn!(%error, "a claim after reports failed"),
            None => {}
        }
    }
    Ok((results, next))
}

fn write_result(
    out: &mut Vec<u8>,
    namespace: &Namespace,
    index: usize,
    (result, creates_waitpoints): (&Result<Reported, Refusal>, bool),
) {
    json::object(out, |object| match result {
        Ok(reported) => {
            object.value("ok", &true);
            match reported.is_deleted {
                true => object.null("state"),
                false => object.value("state", reported.state.as_str()),
            }
            if let Some(usage) = &reported.usage {
                object.value("breached", &usage.breached);
            }
            if reported.delayed_until.is_some() {
                object.time("delayed_until_at", reported.delayed_until);
            }
            if !reported.spawned.is_empty() {
                let spawned: BTreeMap<&str, ExecutionId> =
                    reported.spawned.iter().map(|(name, id)| (name.as_str(), *id)).collect();
                object.value("executions", &spawned);
            }
            if creates_waitpoints {
                object.array("waitpoints", &reported.waitpoints, |out, waitpoint| {
                    waitpoints::write_with_token(out, namespace, waitpoint);
                });
            }
        }
        Err(refusal) => {
            let problem = Problem::refused_at(&format!("/ops/{index}"), refusal.clone());
            problem.write(object.field("error"));
        }
    });
}
