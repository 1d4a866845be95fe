//! Workers: claiming, heartbeats, drain, leaving, and who is there.

use crate::Answer;
use crate::auth::Caller;
use crate::body::{LARGE, Sent};
use crate::fields::Fields;
use crate::json;
use crate::named::{ByName, hex};
use crate::problem::write_stale;
use crate::query::{Instance, Query, wait};
use crate::report::read_fence;
use crate::views::{self, ClaimView};
use axum::http::StatusCode;
use selvedge_core::Refusal;
use selvedge_core::rules::claim::{ClaimDraft, Claimed};
use selvedge_core::rules::report::Fence;
use selvedge_engine::{ClaimWait, Error, Heartbeaten, Namespace, WorkerView};
use std::time::Duration;

/// The time to live of a lease when nothing is said.
const LEASE_TTL_MS: i64 = 30_000;

/// `POST /v1/workers/{instance}/claim`
pub async fn claim(caller: Caller, Instance(instance): Instance, sent: Sent) -> Answer {
    let wanted = ClaimWait { operation: sent.operation()?, ..read_claim(sent.fields()?, instance)? };
    // A claim that is cut off because the server closes gives back what it may just have got.
    let claimed = match caller.closing.cut(caller.namespace.claim(wanted)).await {
        Some(claimed) => claimed?,
        None => Vec::new(),
    };
    let claims = claim_views(&caller.namespace, claimed).await?;
    Ok(json::answer(StatusCode::OK, |object| {
        object.array("claims", &claims, views::claim);
    }))
}

/// Reads a claim.
pub fn read_claim(mut fields: Fields<'_>, instance: String) -> Result<ClaimWait, Refusal> {
    let worker = fields.text("worker")?;
    let lanes = fields.texts("lanes")?;
    let kinds = fields.texts("kinds")?;
    let capabilities = fields.texts("capabilities")?.unwrap_or_default();
    let max = fields.count("max")?;
    let wait_ms = fields.integer("wait_ms")?;
    let lease_ttl_ms = fields.integer("lease_ttl_ms")?.unwrap_or(LEASE_TTL_MS);
    let claim = ClaimDraft {
        worker: fields.require("worker", worker)?,
        instance,
        lanes: fields.require("lanes", lanes)?,
        kinds,
        capabilities,
        max: fields.require("max", max)?,
        lease_ttl_ms,
    };
    let wait = wait(&fields.pointer("wait_ms"), wait_ms)?;
    fields.finish()?;
    Ok(ClaimWait { claim, wait, operation: None })
}

/// The claims to answer with, in claim order.
pub async fn claim_views(namespace: &Namespace, claimed: Vec<Claimed>) -> Result<Vec<ClaimView>, Error> {
    let mut claims = Vec::with_capacity(claimed.len());
    for Claimed { execution, input, upstreams, children, signals, steps } in claimed {
        let view = namespace.view(views::unfinished(execution, input)).await?;
        claims.push(ClaimView { view, upstreams, children, signals, steps });
    }
    Ok(claims)
}

/// `POST /v1/workers/{instance}/heartbeat`
pub async fn heartbeat(caller: Caller, Instance(instance): Instance, sent: Sent<LARGE>) -> Answer {
    let mut fields = sent.fields()?;
    let leases = fields.items("leases")?;
    let leases: Vec<Fence> = fields
        .require("leases", leases)?
        .into_iter()
        .enumerate()
        .map(|(index, raw)| {
            let mut fields = Fields::of(raw, format!("/leases/{index}"))?;
            let fence = read_fence(&mut fields)?;
            fields.finish().map(|()| fence)
        })
        .collect::<Result<_, Refusal>>()?;
    let wait_ms = fields.integer("wait_ms")?;
    fields.finish()?;
    let wait = wait("/wait_ms", wait_ms)?;
    let namespace = &caller.namespace;
    let waiting = namespace.heartbeat(&instance, leases.clone(), wait);
    let beat = match caller.closing.cut(waiting).await {
        Some(beat) => beat?,
        None => namespace.heartbeat(&instance, leases, Duration::ZERO).await?,
    };
    Ok(json::answer(StatusCode::OK, |object| write_beat(object, &beat)))
}

fn write_beat(object: &mut json::Object<'_>, beat: &Heartbeaten) {
    object.array("renewed", &beat.renewed, write_fence);
    object.array("lost", &beat.lost, |out, (fence, why)| {
        json::object(out, |object| {
            views::fence(object, fence);
            object.value("reason", &why.to_string());
            object.value("code", why.code());
            if let Refusal::StaleLease(stale) = why {
                write_stale(object, stale);
            }
        });
    });
    object.array("orphaned", &beat.orphaned, write_fence);
    object.array("cancel_requested", &beat.cancel_requested, write_fence);
    object.value("drain", &beat.drain);
}

fn write_fence(out: &mut Vec<u8>, fence: &Fence) {
    json::object(out, |object| views::fence(object, fence));
}

/// `POST /v1/workers/{instance}/drain`
pub async fn drain(caller: Caller, Instance(instance): Instance, sent: Sent) -> Answer {
    sent.fields_if_any()?.finish()?;
    caller.namespace.drain_worker(&instance, &caller.actor).await?;
    Ok(json::answer(StatusCode::OK, |object| {
        object.value("instance", &instance);
        object.value("draining", &true);
    }))
}

/// `DELETE /v1/workers/{instance}`
pub async fn remove(caller: Caller, Instance(instance): Instance) -> Answer {
    let released = caller.namespace.remove_worker(&instance).await?;
    Ok(json::answer(StatusCode::OK, |object| {
        object.value("instance", &instance);
        object.array("released", &released, write_fence);
    }))
}

/// `GET /v1/workers`: by instance.
pub async fn list(caller: Caller, query: Query) -> Answer {
    let ByName { after, limit } = ByName::read(query)?;
    let limit = limit as usize;
    let mut workers = caller.namespace.workers().await?;
    workers.retain(|worker| match (&after, instance_of(worker)) {
        (Some(after), instance) => instance > after.as_str(),
        (None, _) => true,
    });
    workers.sort_by(|a, b| instance_of(a).cmp(instance_of(b)));
    let more = workers.len() > limit;
    workers.truncate(limit);
    let last = workers.last().filter(|_| more).map(|worker| hex(instance_of(worker)));
    Ok(json::answer(StatusCode::OK, |object| {
        object.array("items", &workers, write_worker);
        object.value("next_cursor", &last);
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
        }
        object.value("live", &true);
        object.value("draining", &worker.sessions.iter().any(|session| session.draining));
        object.time("seen_at", Some(worker.seen_at()));
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
