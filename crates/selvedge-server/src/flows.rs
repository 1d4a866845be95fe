//! Flows: submitting a whole graph, adding to it, reading it, waiting for its end, and cancelling it.

use crate::Answer;
use crate::auth::Caller;
use crate::body::{LARGE, Sent};
use crate::fields::{Fields, NO_TIME};
use crate::filter::{check_tag, decode, encode, no_such};
use crate::flow_views;
use crate::graph::{read_graph, word};
use crate::json;
use crate::query::{OfFlow, Query, wait};
use crate::submission::Defaults;
use crate::times;
use crate::views;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use selvedge_core::filter::Place;
use selvedge_core::flow::{CancelMode, FlowFilter, FlowPlace, FlowState};
use selvedge_core::name::NAME_LIMIT;
use selvedge_core::rules::submit_flow::FlowDraft;
use selvedge_core::{ExecutionId, FlowId, Name, NamespaceId, Refusal, Timestamp};
use selvedge_engine::{Error, FlowView, Namespace};
use std::time::Duration;

/// `POST /v1/flows`
pub async fn submit(caller: Caller, sent: Sent<LARGE>) -> Answer {
    let operation = sent.operation()?;
    let draft = read_flow(sent.fields()?)?;
    drop(sent);
    let namespace = &caller.namespace;
    let grown = namespace.submit_flow(draft, operation).await?;
    let new = FlowView { flow: grown.flow, namespace: namespace.name().clone() };
    let (status, view) = match grown.duplicate {
        false => (StatusCode::CREATED, new),
        true => (StatusCode::OK, current(namespace, new).await?),
    };
    Ok(json::answer(status, |object| {
        flow_views::flow(object.field("flow"), &view);
        flow_views::executions(object, &grown.executions);
        object.value("duplicate", &grown.duplicate);
    }))
}

fn read_flow(mut fields: Fields<'_>) -> Result<FlowDraft, Refusal> {
    let defaults = fields.object("defaults")?.map(Defaults::read).transpose()?.unwrap_or_default();
    let draft = FlowDraft {
        id: fields.id("id")?,
        idempotency_key: fields.text("idempotency_key")?,
        name: fields.text("name")?,
        tags: fields.text_map("tags")?.unwrap_or_default(),
        deadline_ms: fields.integer("deadline_ms")?,
        retention_ms: fields.integer("retention_ms")?,
        graph: read_graph(&mut fields, &defaults)?,
    };
    fields.finish()?;
    Ok(draft)
}

/// A flow as it is now; if it is gone already, as it was last seen.
async fn current(namespace: &Namespace, seen: FlowView) -> Result<FlowView, Error> {
    match namespace.flow(seen.flow.id).await {
        Err(Error::Refused(Refusal::NotFound { .. })) => Ok(seen),
        view => view,
    }
}

/// `POST /v1/flows/{id}/nodes`
pub async fn grow(caller: Caller, OfFlow(id): OfFlow, sent: Sent<LARGE>) -> Answer {
    let operation = sent.operation()?;
    let mut fields = sent.fields()?;
    let graph = read_graph(&mut fields, &Defaults::default())?;
    fields.finish()?;
    drop(sent);
    let grown = caller.namespace.grow_flow(id, graph, operation).await?;
    let view = FlowView { flow: grown.flow, namespace: caller.namespace.name().clone() };
    Ok(json::answer(StatusCode::CREATED, |object| {
        flow_views::flow(object.field("flow"), &view);
        flow_views::executions(object, &grown.executions);
    }))
}

/// `GET /v1/flows`
pub async fn list(caller: Caller, mut query: Query) -> Answer {
    let filter = read_filter(caller.namespace.id(), &mut query)?;
    let limit = query.limit()?;
    let after = query.text("cursor")?.map(|cursor| decode(&cursor)).transpose()?;
    query.finish()?;
    let after = after.map(|place| FlowPlace { submitted_at: place.submitted_at, id: FlowId(place.id.0) });
    let (flows, next) = caller.namespace.flows(&filter, after, limit).await?;
    let next = next.map(|place| Place { submitted_at: place.submitted_at, id: ExecutionId(place.id.0) });
    Ok(json::answer(StatusCode::OK, |object| {
        object.array("items", &flows, flow_views::flow);
        object.value("next_cursor", &next.map(encode));
    }))
}

fn read_filter(namespace: NamespaceId, query: &mut Query) -> Result<FlowFilter, Refusal> {
    let states = query.text("state")?.unwrap_or_default();
    let states = states.split(',').filter(|word| !word.is_empty()).map(|word| {
        let known = FlowState::ALL.into_iter().map(FlowState::as_str);
        FlowState::parse(word).ok_or_else(|| Refusal::field("/query/state", no_such(word, known)))
    });
    let states = states.collect::<Result<_, _>>()?;
    let name = query.text("name")?.map(|name| Name::parse("/query/name", &name, NAME_LIMIT)).transpose()?;
    let tag = query.text("tag")?;
    tag.as_deref().map(|tag| check_tag("/query/tag", tag)).transpose()?;
    let mut time = |name: &'static str| -> Result<Option<Timestamp>, Refusal> {
        let wrong = || Refusal::field(&format!("/query/{name}"), NO_TIME);
        query.text(name)?.map(|text| times::parse(&text).ok_or_else(wrong)).transpose()
    };
    let (submitted_after, submitted_before) = (time("submitted_after")?, time("submitted_before")?);
    Ok(FlowFilter { namespace, states, name, tag, submitted_after, submitted_before })
}

/// `GET /v1/flows/{id}`
pub async fn get(caller: Caller, OfFlow(id): OfFlow, query: Query) -> Answer {
    query.finish()?;
    let view = caller.namespace.flow(id).await?;
    let mut out = Vec::with_capacity(512);
    flow_views::flow(&mut out, &view);
    Ok(json::body(StatusCode::OK, out))
}

/// `GET /v1/flows/{id}/graph`
pub async fn graph(caller: Caller, OfFlow(id): OfFlow, mut query: Query) -> Answer {
    let format = query.text("format")?.unwrap_or_else(|| "json".into());
    query.finish()?;
    if !FORMATS.contains(&format.as_str()) {
        return Err(Refusal::field("/query/format", no_such(&format, FORMATS.into_iter())).into());
    }
    let graph = caller.namespace.graph(id).await?;
    if format == "json" {
        return Ok(json::answer(StatusCode::OK, |object| flow_views::graph(object, &graph)));
    }
    let flow = caller.namespace.flow(id).await?.flow;
    let title = flow.name.map_or_else(|| format!("flow {id}"), |name| name.to_string());
    let (kind, text) = match format.as_str() {
        "dot" => ("text/vnd.graphviz", graph.dot(&title)),
        _ => ("image/svg+xml", graph.svg(&title)),
    };
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; style-src 'unsafe-inline'"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    Ok((headers, text).into_response())
}

/// The forms in which a graph is given.
const FORMATS: [&str; 3] = ["json", "dot", "svg"];

/// `GET /v1/flows/{id}/result`
pub async fn result(caller: Caller, OfFlow(id): OfFlow, mut query: Query) -> Answer {
    let wait = query.wait()?;
    query.finish()?;
    let namespace = &caller.namespace;
    let ended = match caller.closing.cut(namespace.flow_result(id, wait)).await {
        Some(ended) => ended?,
        None => namespace.flow_result(id, Duration::ZERO).await?,
    };
    let (status, flow, results) = match ended {
        Some(ended) => (StatusCode::OK, ended.flow, ended.results),
        None => (StatusCode::ACCEPTED, namespace.flow(id).await?.flow, Vec::new()),
    };
    let view = FlowView { flow, namespace: namespace.name().clone() };
    Ok(json::answer(status, |object| {
        object.value("outcome", &flow_views::outcome(view.flow.state));
        object.value("state", view.flow.state.as_str());
        flow_views::flow(object.field("flow"), &view);
        object.object("results", |object| {
            for (name, ended) in &results {
                json::object(object.entry(name), |object| {
                    object.value("outcome", &ended.outcome);
                    object.raw("result", ended.result.as_deref());
                    views::failure(object, ended.error.as_ref());
                });
            }
        });
    }))
}

/// `POST /v1/flows/{id}/cancel`
pub async fn cancel(caller: Caller, OfFlow(id): OfFlow, sent: Sent) -> Answer {
    let mut fields = sent.fields_if_any()?;
    let known = [CancelMode::All, CancelMode::Pending].map(CancelMode::as_str);
    let mode = word(&mut fields, "mode", CancelMode::parse, known)?.unwrap_or_default();
    let reason = fields.text("reason")?;
    let wait = wait("/wait_ms", fields.integer("wait_ms")?)?;
    fields.finish()?;
    let cancel = |wait| caller.namespace.cancel_flow(id, mode, reason.clone(), &caller.actor, wait);
    let (view, done) = match caller.closing.cut(cancel(wait)).await {
        Some(cancelled) => cancelled?,
        // Asking again changes nothing, and says how far it is.
        None => cancel(Duration::ZERO).await?,
    };
    let status = match done {
        true => StatusCode::OK,
        false => StatusCode::ACCEPTED,
    };
    Ok(json::answer(status, |object| flow_views::flow(object.field("flow"), &view)))
}
