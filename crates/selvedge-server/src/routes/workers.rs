//! Workers: claims, heartbeats, drain, removal, and the list of workers.

use crate::auth::{Caller, WorkerCaller};
use crate::routes::HandlerResult;
use crate::wire::body::{LARGE_BODY, RequestBody};
use crate::wire::json;
use crate::wire::ops::read_fence;
use crate::wire::paging::{NamePage, name_cursor};
use crate::wire::path::PathInstance;
use crate::wire::problem::write_stale_lease;
use crate::wire::query::{Query, check_wait};
use crate::wire::views::{self, ClaimView};
use axum::http::StatusCode;
use selvedge_api::fields::Fields;
use selvedge_core::Refusal;
use selvedge_core::rules::claim::{ClaimDraft, Claimed};
use selvedge_core::rules::heartbeat::LEASES_MAX;
use selvedge_core::rules::keyed::Answered;
use selvedge_core::rules::report::Fence;
use selvedge_engine::{ClaimWait, Error, HeartbeatResult, ServerDefaults, WorkerView};

/// `POST /v1/workers/{instance}/claim`
pub async fn claim(
    caller: WorkerCaller,
    PathInstance(instance): PathInstance,
    body: RequestBody,
) -> HandlerResult {
    let claim =
        ClaimWait { call_key: body.call_key()?, ..read_claim(body.fields()?, instance, caller.defaults())? };
    // A claim that the shutdown interrupts puts back the leases that it may just have taken.
    let result = match &caller {
        WorkerCaller::One(caller) => {
            caller.shutdown.race(caller.namespace.claim_as_worker(claim)).await.transpose()?
        }
        WorkerCaller::Several(some, shutdown) => {
            shutdown.race(some.claim_as_worker(claim)).await.transpose()?
        }
    };
    let result = result.unwrap_or_default();
    let claims = claim_views(&caller, result.claimed).await?;
    Ok(json::response(StatusCode::OK, |object| {
        object.array("claims", &claims, views::claim);
        object.value("drain", &result.drain);
        object.value("duplicate", &result.duplicate);
    }))
}

/// Reads the fields of a claim.
pub fn read_claim(
    mut fields: Fields<'_>,
    instance: String,
    defaults: &ServerDefaults,
) -> Result<ClaimWait, Refusal> {
    let worker = fields.text("worker")?;
    let lanes = fields.texts("lanes")?;
    let kinds = fields.texts("kinds")?;
    let capabilities = fields.texts("capabilities")?.unwrap_or_default();
    let max = fields.count("max")?;
    let wait_ms = fields.integer("wait_ms")?;
    let lease_ttl_ms = fields.integer("lease_ttl_ms")?.unwrap_or(defaults.lease_ttl_ms);
    let incarnation = fields.text("incarnation")?;
    let claim = ClaimDraft {
        worker: fields.require("worker", worker)?,
        instance,
        lanes: fields.require("lanes", lanes)?,
        kinds,
        capabilities,
        max: fields.require("max", max)?,
        lease_ttl_ms,
        incarnation,
    };
    let wait = check_wait(&fields.pointer("wait_ms"), wait_ms)?;
    fields.finish()?;
    Ok(ClaimWait { claim, wait, call_key: None })
}

/// Returns the views of claimed executions, in the order of the claim.
pub async fn claim_views(caller: &WorkerCaller, claimed: Vec<Claimed>) -> Result<Vec<ClaimView>, Error> {
    let mut claims = Vec::with_capacity(claimed.len());
    for claimed in claimed {
        let namespace = match caller {
            WorkerCaller::One(caller) => &caller.namespace,
            WorkerCaller::Several(some, _) => some.of(&claimed).ok_or(Error::Closed)?,
        };
        let Claimed { execution, input, upstreams, children, signals, steps } = claimed;
        let trace = namespace.engine().handler_trace(&execution);
        let view = namespace.view(views::without_result(execution, input)).await?;
        claims.push(ClaimView { view, upstreams, children, signals, steps, trace });
    }
    Ok(claims)
}

/// `POST /v1/workers/{instance}/heartbeat`
pub async fn heartbeat(
    caller: WorkerCaller,
    PathInstance(instance): PathInstance,
    body: RequestBody<LARGE_BODY>,
) -> HandlerResult {
    let mut fields = body.fields()?;
    let leases = fields.array_of_at_most("leases", LEASES_MAX)?;
    let leases: Vec<Fence> = fields
        .require("leases", leases)?
        .into_iter()
        .enumerate()
        .map(|(index, raw)| {
            let mut fields = Fields::from_value(raw, format!("/leases/{index}"))?;
            let fence = read_fence(&mut fields)?;
            fields.finish().map(|()| fence)
        })
        .collect::<Result<_, Refusal>>()?;
    let wait_ms = fields.integer("wait_ms")?;
    let incarnation = fields.text("incarnation")?;
    let incarnation = incarnation.as_deref();
    fields.finish()?;
    let wait = check_wait("/wait_ms", wait_ms)?;
    let heartbeat = match &caller {
        WorkerCaller::One(Caller { namespace, shutdown, .. }) => {
            namespace.heartbeat_until(&instance, incarnation, leases, wait, shutdown.begun()).await?
        }
        WorkerCaller::Several(some, shutdown) => {
            some.heartbeat_until(&instance, incarnation, leases, wait, shutdown.begun()).await?
        }
    };
    Ok(json::response(StatusCode::OK, |object| write_heartbeat(object, &heartbeat)))
}

fn write_heartbeat(object: &mut json::Object<'_>, heartbeat: &HeartbeatResult) {
    object.array("renewed", &heartbeat.renewed, write_fence);
    object.array("lost", &heartbeat.lost, |out, (fence, refusal)| {
        json::object(out, |object| {
            views::fence(object, fence);
            object.value("reason", &refusal.to_string());
            object.value("code", refusal.code());
            if let Refusal::StaleLease(stale) = refusal {
                write_stale_lease(object, stale);
            }
        });
    });
    object.array("orphaned", &heartbeat.orphaned, write_fence);
    object.array("cancel_requested", &heartbeat.cancel_requested, write_fence);
    object.value("drain", &heartbeat.drain);
}

fn write_fence(out: &mut Vec<u8>, fence: &Fence) {
    json::object(out, |object| views::fence(object, fence));
}

/// `POST /v1/workers/{instance}/drain`
pub async fn drain(caller: Caller, PathInstance(instance): PathInstance, body: RequestBody) -> HandlerResult {
    body.fields_if_any()?.finish()?;
    let calls = caller.namespace.keyed(body.call_key()?);
    let Answered { duplicate, .. } = calls.drain_worker(&instance, &caller.actor).await?;
    Ok(json::response(StatusCode::OK, |object| {
        object.value("instance", &instance);
        object.value("draining", &true);
        object.value("duplicate", &duplicate);
    }))
}

/// `DELETE /v1/workers/{instance}`: removes a worker and puts back its leases.
pub async fn remove(caller: Caller, PathInstance(instance): PathInstance, mut query: Query) -> HandlerResult {
    let incarnation = query.text("incarnation")?;
    query.finish()?;
    let released = caller.namespace.remove_worker(&instance, incarnation.as_deref()).await?;
    Ok(json::response(StatusCode::OK, |object| {
        object.value("instance", &instance);
        object.array("released", &released, write_fence);
    }))
}

/// `GET /v1/workers`: the live workers and those that ended in the last 15 minutes, ordered by instance.
pub async fn list(caller: Caller, query: Query) -> HandlerResult {
    let NamePage { after, limit } = NamePage::read(query)?;
    let limit = limit as usize;
    let mut workers = caller.namespace.workers().await?;
    workers.retain(|worker| match (&after, instance_of(worker)) {
        (Some(after), instance) => instance > after.as_str(),
        (None, _) => true,
    });
    workers.sort_by(|a, b| instance_of(a).cmp(instance_of(b)));
    let more = workers.len() > limit;
    workers.truncate(limit);
    let next_cursor = workers.last().filter(|_| more).map(|worker| name_cursor(instance_of(worker)));
    Ok(json::response(StatusCode::OK, |object| {
        object.array("items", &workers, write_worker);
        object.value("next_cursor", &next_cursor);
    }))
}

fn instance_of(worker: &WorkerView) -> &str {
    worker.sessions.first().map_or("", |session| session.instance.as_str())
}

fn write_worker(out: &mut Vec<u8>, worker: &WorkerView) {
    json::object(out, |object| {
        if let Some(newest) = worker.sessions.first() {
            object.value("instance", &newest.instance);
            object.value("worker", &newest.worker);
            object.value("lanes", &newest.scope.lanes);
            object.value("kinds", &newest.scope.kinds);
            object.value("capabilities", &newest.scope.capabilities);
            object.value("incarnation", &newest.detail.incarnation);
        }
        object.value("live", &worker.end.is_none());
        object.value("ended_reason", &worker.end.map(|end| end.reason.as_str()));
        object.time("ended_at", worker.end.map(|end| end.at));
        object.value("draining", &worker.sessions.iter().any(|session| session.draining));
        object.time("seen_at", Some(worker.seen_at()));
        let superseded = worker.sessions.first().map(|newest| newest.detail.superseded.as_slice());
        object.array("superseded", superseded.unwrap_or_default(), |out, predecessor| {
            json::object(out, |object| {
                object.value("incarnation", &predecessor.incarnation);
                object.time("ended_at", Some(predecessor.at));
            });
        });
        object.array("sessions", &worker.sessions, |out, session| {
            json::object(out, |object| {
                object.value("lease_ttl_ms", &session.ttl_ms);
                object.time("registered_at", Some(session.registered_at));
                object.time("seen_at", Some(session.seen_at));
                object.time("renewed_at", session.renewed_at);
                object.value("draining", &session.draining);
            });
        });
    });
}
