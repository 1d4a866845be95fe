//! Flows: submission and growth of graphs, lists and details, results, and cancellation.

use crate::auth::Caller;
use crate::routes::HandlerResult;
use crate::wire::body::{LARGE_BODY, RequestBody};
use crate::wire::flow_views;
use crate::wire::graph::{read_flow, read_graph};
use crate::wire::json;
use crate::wire::paging::{format_cursor, parse_cursor};
use crate::wire::path::PathFlow;
use crate::wire::query::{Query, check_wait};
use crate::wire::submission::Defaults;
use crate::wire::views;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use selvedge_api::fields::unknown_word;
use selvedge_api::filter::parse_tag;
use selvedge_core::filter::ListPosition;
use selvedge_core::flow::{CancelMode, FlowFilter, FlowListPosition, FlowState};
use selvedge_core::name::NAME_LIMIT;
use selvedge_core::rules::keyed::Answered;
use selvedge_core::{ExecutionId, FlowId, Name, NamespaceId, Refusal};
use selvedge_engine::{Error, FlowView, Namespace};
use std::time::Duration;

/// `POST /v1/flows`
pub async fn submit(caller: Caller, body: RequestBody<LARGE_BODY>) -> HandlerResult {
    let call_key = body.call_key()?;
    let draft = read_flow(body.fields()?, body.trace())?;
    drop(body);
    let namespace = &caller.namespace;
    let grown = namespace.submit_flow(draft, call_key).await?;
    let submitted = FlowView { flow: grown.flow, namespace: namespace.name().clone() };
    let (status, view) = match grown.duplicate {
        false => (StatusCode::CREATED, submitted),
        true => (StatusCode::OK, current_view(namespace, submitted).await?),
    };
    Ok(json::response(status, |object| {
        flow_views::flow(object.field("flow"), &view);
        flow_views::executions(object, &grown.executions);
        object.value("duplicate", &grown.duplicate);
    }))
}

/// Reads the current view of a flow. If it has been deleted since, returns the last known one.
async fn current_view(namespace: &Namespace, last_known: FlowView) -> Result<FlowView, Error> {
    match namespace.flow(last_known.flow.id).await {
        Err(Error::Refused(Refusal::NotFound { .. })) => Ok(last_known),
        view => view,
    }
}

/// `POST /v1/flows/{id}/nodes`: adds nodes and edges to a flow.
pub async fn grow(caller: Caller, PathFlow(id): PathFlow, body: RequestBody<LARGE_BODY>) -> HandlerResult {
    let call_key = body.call_key()?;
    let mut fields = body.fields()?;
    let graph = read_graph(&mut fields, &Defaults::default().with_trace(body.trace()))?;
    fields.finish()?;
    drop(body);
    let grown = caller.namespace.grow_flow(id, graph, call_key).await?;
    let view = FlowView { flow: grown.flow, namespace: caller.namespace.name().clone() };
    let status = if grown.duplicate { StatusCode::OK } else { StatusCode::CREATED };
    Ok(json::response(status, |object| {
        flow_views::flow(object.field("flow"), &view);
        flow_views::executions(object, &grown.executions);
        object.value("duplicate", &grown.duplicate);
    }))
}

/// `GET /v1/flows`
pub async fn list(caller: Caller, mut query: Query) -> HandlerResult {
    let filter = read_filter(caller.namespace.id(), &mut query)?;
    let limit = query.limit()?;
    let after = query.text("cursor")?.map(|cursor| parse_cursor(&cursor)).transpose()?;
    query.finish()?;
    let after =
        after.map(|place| FlowListPosition { submitted_at: place.submitted_at, id: FlowId(place.id.0) });
    let (flows, next) = caller.namespace.flows(&filter, after, limit).await?;
    let next =
        next.map(|place| ListPosition { submitted_at: place.submitted_at, id: ExecutionId(place.id.0) });
    Ok(json::response(StatusCode::OK, |object| {
        object.array("items", &flows, flow_views::flow);
        object.value("next_cursor", &next.map(format_cursor));
    }))
}

/// Reads the filter of a list of flows.
pub fn read_filter(namespace: NamespaceId, query: &mut Query) -> Result<FlowFilter, Refusal> {
    let states = query.text("state")?.unwrap_or_default();
    let states = states.split(',').filter(|word| !word.is_empty()).map(|word| {
        let known = FlowState::ALL.into_iter().map(FlowState::as_str);
        FlowState::parse(word).ok_or_else(|| Refusal::field("/query/state", unknown_word(word, known)))
    });
    let states = states.collect::<Result<_, _>>()?;
    let name = query.text("name")?.map(|name| Name::parse("/query/name", &name, NAME_LIMIT)).transpose()?;
    let tag = query.text("tag")?;
    tag.as_deref().map(|tag| parse_tag("/query/tag", tag)).transpose()?;
    let submitted_after = query.time("submitted_after")?;
    let submitted_before = query.time("submitted_before")?;
    Ok(FlowFilter { namespace, states, name, tag, submitted_after, submitted_before })
}

/// `GET /v1/flows/{id}`
pub async fn get(caller: Caller, PathFlow(id): PathFlow, query: Query) -> HandlerResult {
    query.finish()?;
    let view = caller.namespace.flow(id).await?;
    let mut out = Vec::with_capacity(512);
    flow_views::flow(&mut out, &view);
    Ok(json::body(StatusCode::OK, out))
}

/// `GET /v1/flows/{id}/explain`
pub async fn explain(caller: Caller, PathFlow(id): PathFlow, query: Query) -> HandlerResult {
    query.finish()?;
    let explanation = caller.namespace.explain_flow(id).await?;
    Ok(json::response(StatusCode::OK, |object| views::explanation(object, &explanation)))
}

const GRAPH_FORMATS: [&str; 3] = ["json", "dot", "svg"];

/// `GET /v1/flows/{id}/graph`: as JSON by default.
pub async fn graph(caller: Caller, PathFlow(id): PathFlow, mut query: Query) -> HandlerResult {
    let format = query.text("format")?.unwrap_or_else(|| "json".into());
    query.finish()?;
    if !GRAPH_FORMATS.contains(&format.as_str()) {
        let detail = unknown_word(&format, GRAPH_FORMATS.into_iter());
        return Err(Refusal::field("/query/format", detail).into());
    }
    let graph = caller.namespace.graph(id).await?;
    if format == "json" {
        return Ok(json::response(StatusCode::OK, |object| flow_views::graph(object, &graph)));
    }
    let flow = caller.namespace.flow(id).await?.flow;
    let title = flow.name.map_or_else(|| format!("flow {id}"), |name| name.to_string());
    let (content_type, text) = match format.as_str() {
        "dot" => ("text/vnd.graphviz", selvedge_drawing::dot(&graph, &title)),
        _ => ("image/svg+xml", selvedge_drawing::svg(&graph, &title)),
    };
    let headers = [
        (header::CONTENT_TYPE, content_type),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; style-src 'unsafe-inline'"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    Ok((headers, text).into_response())
}

/// `GET /v1/flows/{id}/result`
pub async fn result(caller: Caller, PathFlow(id): PathFlow, mut query: Query) -> HandlerResult {
    let wait = query.wait()?;
    query.finish()?;
    let namespace = &caller.namespace;
    let ended = match caller.shutdown.race(namespace.flow_result(id, wait)).await {
        Some(ended) => ended?,
        None => namespace.flow_result(id, Duration::ZERO).await?,
    };
    let (status, flow, results, left_out) = match ended {
        Some(ended) => (StatusCode::OK, ended.flow, ended.results, ended.left_out),
        None => (StatusCode::ACCEPTED, namespace.flow(id).await?.flow, Vec::new(), Vec::new()),
    };
    let view = FlowView { flow, namespace: namespace.name().clone() };
    Ok(json::response(status, |object| {
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
        object.object("result_refs", |object| {
            for (name, execution) in &left_out {
                json::value(object.entry(name), execution);
            }
        });
    }))
}

/// `POST /v1/flows/{id}/cancel`
pub async fn cancel(caller: Caller, PathFlow(id): PathFlow, body: RequestBody) -> HandlerResult {
    let calls = caller.namespace.keyed(body.call_key()?);
    let mut fields = body.fields_if_any()?;
    let known = [CancelMode::All, CancelMode::Pending].map(CancelMode::as_str);
    let mode = fields.word("mode", CancelMode::parse, known)?.unwrap_or_default();
    let reason = fields.text("reason")?;
    let wait = check_wait("/wait_ms", fields.integer("wait_ms")?)?;
    fields.finish()?;
    let cancel = |wait| calls.cancel_flow(id, mode, reason.clone(), &caller.actor, wait);
    let Answered { done: (view, done), duplicate } = match caller.shutdown.race(cancel(wait)).await {
        Some(cancelled) => cancelled?,
        // Cancelling again changes nothing and returns the flow's current state.
        None => cancel(Duration::ZERO).await?,
    };
    let status = match done {
        true => StatusCode::OK,
        false => StatusCode::ACCEPTED,
    };
    Ok(json::response(status, |object| {
        flow_views::flow(object.field("flow"), &view);
        object.value("duplicate", &duplicate);
    }))
}
