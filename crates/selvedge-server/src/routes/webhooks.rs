//! Webhooks. A secret is in one response only: that of the call which created it.
//!
//! The query of a URL may be a secret of the receiver, so only operators see it.

use crate::auth::Caller;
use crate::routes::HandlerResult;
use crate::routes::gates::read_change;
use crate::webhooks::check_url;
use crate::wire::body::RequestBody;
use crate::wire::fields::Fields;
use crate::wire::filter::parse_tag;
use crate::wire::json::{self, Object};
use crate::wire::paging::{NamePage, invalid_cursor, name_cursor};
use crate::wire::path::{PathDelivery, PathName};
use crate::wire::query::Query;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use selvedge_core::fact::EVENT_TYPES;
use selvedge_core::rules::keyed::Answered;
use selvedge_core::rules::webhook::WebhookPatch;
use selvedge_core::webhook::{
    Delivery, DeliveryState, EVERY_TYPE, PauseReason, SigningKey, Webhook, WebhookConfig, WebhookFilter,
};
use selvedge_core::{ExecutionId, FlowId, Name, Permission, Refusal};

/// `GET /v1/webhooks`: ordered by name.
pub async fn list(caller: Caller, query: Query) -> HandlerResult {
    let NamePage { after, limit } = NamePage::read(query)?;
    let after = after.as_deref().map(Name::trusted);
    let (webhooks, more) = caller.namespace.webhooks(after.as_ref(), limit).await?;
    let next = webhooks.last().filter(|_| more).map(|webhook| name_cursor(&webhook.name.name));
    Ok(json::page(&webhooks, next, |out, webhook| {
        json::object(out, |object| write(object, webhook, &caller))
    }))
}

/// `GET /v1/webhooks/{name}`
pub async fn get(caller: Caller, PathName(name): PathName, query: Query) -> HandlerResult {
    query.finish()?;
    let webhook = caller.namespace.webhook(&name).await?;
    Ok(json::response(StatusCode::OK, |object| write(object, &webhook, &caller)))
}

/// `PUT /v1/webhooks/{name}`: the response to a creation has the secret.
pub async fn put(caller: Caller, PathName(name): PathName, body: RequestBody) -> HandlerResult {
    let mut fields = body.fields()?;
    let url = read_url(&mut fields, &caller)?;
    let types = read_types(&mut fields)?;
    let filter = read_filter(&mut fields, "filter")?.unwrap_or_default();
    let paused = fields.flag("paused")?.unwrap_or(false);
    let config =
        WebhookConfig { url: fields.require("url", url)?, types: fields.require("types", types)?, filter };
    fields.finish()?;
    let (configured, secret) = caller.namespace.put_webhook(&name, config, paused, &caller.actor).await?;
    let status = if configured.created { StatusCode::CREATED } else { StatusCode::OK };
    Ok(unstored(json::response(status, |object| {
        write(object, &configured.webhook, &caller);
        if configured.created {
            object.value("secret", &secret);
        }
    })))
}

/// `PATCH /v1/webhooks/{name}`: a JSON merge patch.
pub async fn patch(caller: Caller, PathName(name): PathName, body: RequestBody) -> HandlerResult {
    let mut fields = body.fields()?;
    let patch = WebhookPatch {
        url: read_url(&mut fields, &caller)?,
        types: read_types(&mut fields)?,
        filter: read_change(&mut fields, "filter", read_filter)?,
        paused: fields.flag("paused")?,
    };
    fields.finish()?;
    let webhook = caller.namespace.patch_webhook(&name, patch, &caller.actor).await?;
    Ok(json::response(StatusCode::OK, |object| write(object, &webhook, &caller)))
}

/// `DELETE /v1/webhooks/{name}`: with its deliveries.
pub async fn remove(caller: Caller, PathName(name): PathName) -> HandlerResult {
    caller.namespace.remove_webhook(&name, &caller.actor).await?;
    Ok(json::response(StatusCode::OK, |object| {
        object.value("name", &name);
        object.value("removed", &true);
    }))
}

/// `GET /v1/webhooks/{name}/deliveries`: newest first.
pub async fn deliveries(caller: Caller, PathName(name): PathName, mut query: Query) -> HandlerResult {
    let limit = query.limit()?;
    let states = DeliveryState::ALL.map(DeliveryState::as_str).join(", ");
    let state = query.parsed("state", &format!("must be one of {states}"), DeliveryState::parse)?;
    let before = query.text("cursor")?.map(|cursor| cursor.parse::<u64>().map_err(|_| invalid_cursor()));
    let before = before.transpose()?;
    query.finish()?;
    let (found, more) = caller.namespace.webhook_deliveries(&name, state, before, limit).await?;
    let next = found.last().filter(|_| more).map(|delivery| delivery.number.to_string());
    Ok(json::page(&found, next, |out, delivery| json::object(out, |object| write_delivery(object, delivery))))
}

/// `POST /v1/webhooks/{name}/deliveries/{id}/replay`
pub async fn replay(
    caller: Caller,
    PathName(name): PathName,
    PathDelivery(id): PathDelivery,
    body: RequestBody,
) -> HandlerResult {
    body.fields()?.finish()?;
    let calls = caller.namespace.keyed(body.call_key()?);
    let Answered { done, duplicate } = calls.replay_delivery(&name, id).await?;
    Ok(json::response(StatusCode::OK, |object| {
        object.object("delivery", |object| write_delivery(object, &done));
        object.value("duplicate", &duplicate);
    }))
}

/// `POST /v1/webhooks/{name}/rotate-secret`: a repeated call with its key gets no secret, because it was shown before.
pub async fn rotate_secret(caller: Caller, PathName(name): PathName, body: RequestBody) -> HandlerResult {
    let mut fields = body.fields()?;
    let grace_ms = fields.integer("grace_ms")?;
    let grace_ms = fields.require("grace_ms", grace_ms)?;
    fields.finish()?;
    let calls = caller.namespace.keyed(body.call_key()?);
    let rotated = calls.rotate_webhook_secret(&name, grace_ms, &caller.actor).await?;
    let Answered { done: (_, secret), duplicate } = rotated;
    Ok(unstored(json::response(StatusCode::OK, |object| {
        object.value("secret", &secret);
        object.value("grace_ms", &grace_ms);
        object.value("duplicate", &duplicate);
    })))
}

/// Tells caches not to store a response with a secret.
fn unstored(mut response: Response) -> Response {
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn read_url(fields: &mut Fields<'_>, caller: &Caller) -> Result<Option<String>, Refusal> {
    let url = fields.text("url")?;
    if let Some(url) = &url {
        check_url(&fields.pointer("url"), url, caller.webhooks_allow_private())?;
    }
    Ok(url)
}

/// Reads `types`: names of event types, or `*` alone for all.
fn read_types(fields: &mut Fields<'_>) -> Result<Option<Vec<String>>, Refusal> {
    let Some(mut types) = fields.texts("types")? else { return Ok(None) };
    if types.is_empty() {
        return Err(fields.refuse("types", "is empty; name event types, or \"*\" alone for all"));
    }
    if types == [EVERY_TYPE] {
        return Ok(Some(Vec::new()));
    }
    if let Some(unknown) = types.iter().find(|word| !EVENT_TYPES.contains(&word.as_str())) {
        let detail = format!("has {unknown:?}; there are {}, or \"*\" alone for all", EVENT_TYPES.join(", "));
        return Err(fields.refuse("types", detail));
    }
    types.sort();
    types.dedup();
    Ok(Some(types))
}

fn read_filter(fields: &mut Fields<'_>, name: &'static str) -> Result<Option<WebhookFilter>, Refusal> {
    let Some(mut fields) = fields.object(name)? else { return Ok(None) };
    let tag = fields.text("tag")?;
    let tag = tag.as_deref().map(|tag| parse_tag(&fields.pointer("tag"), tag)).transpose()?;
    let filter = WebhookFilter {
        execution: fields.id("execution")?.map(ExecutionId),
        flow: fields.id("flow")?.map(FlowId),
        tag: tag.map(|(name, value)| (name.into(), value.into())),
    };
    fields.finish()?;
    Ok(Some(filter))
}

/// Writes a webhook. Callers who are not operators do not see the query of its URL.
fn write(object: &mut Object<'_>, webhook: &Webhook, caller: &Caller) {
    let detail = &webhook.detail;
    let config = &detail.config;
    object.value("name", &webhook.name.name);
    match config.url.split_once('?').filter(|_| !caller.may(Permission::Operate)) {
        Some((before, _)) => object.value("url", &format!("{before}?…")),
        None => object.value("url", &config.url),
    }
    match config.types.is_empty() {
        true => object.value("types", &[EVERY_TYPE]),
        false => object.value("types", &config.types),
    }
    object.object("filter", |object| {
        object.value("execution", &config.filter.execution);
        object.value("flow", &config.filter.flow);
        let tag = config.filter.tag.as_ref();
        object.value("tag", &tag.map(|(name, value)| format!("{name}:{value}")));
    });
    object.value("paused", &detail.paused.is_some());
    object.value("paused_reason", &detail.paused.map(PauseReason::as_str));
    object.value("pending", &detail.pending);
    object.value("dead", &detail.dead);
    object.value("delivered", &detail.delivered);
    object.value("missed", &detail.missed);
    object.time("created_at", Some(detail.created_at));
    object.time("delivered_at", detail.delivered_at);
    object.time("failing_since_at", detail.failing_since);
    object.value("last_error", &detail.last_error);
    object.time("taken_until_at", Some(detail.cursor_at));
    let expiry = |key: &SigningKey| key.expires_at;
    object.time("old_secret_expires_at", detail.keys.iter().filter_map(expiry).max());
}

fn write_delivery(object: &mut Object<'_>, delivery: &Delivery) {
    let detail = &delivery.detail;
    object.value("id", &delivery.id);
    object.value("state", delivery.state.as_str());
    object.value("type", &detail.kind);
    object.value("event_cursor", &detail.cursor);
    object.time("event_at", Some(detail.event_at));
    object.value("execution", &detail.execution);
    object.value("flow", &detail.flow);
    object.value("failures", &detail.attempts);
    object.value("status", &detail.status);
    object.value("error", &detail.error);
    object.time("next_attempt_at", detail.next_at);
    object.time("ended_at", detail.ended_at);
}
