//! Webhooks. A secret is in one response only: that of the call which created it.
//!
//! The path and the query of a URL may be secrets of the receiver, so only operators see them.

use crate::auth::Caller;
use crate::routes::HandlerResult;
use crate::routes::gates::read_change;
use crate::webhooks::{TestResult, check_url, send_test};
use crate::wire::body::RequestBody;
use crate::wire::json::{self, Object};
use crate::wire::paging::{NamePage, invalid_cursor, name_cursor};
use crate::wire::path::{PathDelivery, PathName};
use crate::wire::query::Query;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use selvedge_api::fields::Fields;
use selvedge_api::filter::parse_tag;
use selvedge_core::rules::keyed::Answered;
use selvedge_core::rules::webhook::WebhookPatch;
use selvedge_core::webhook::{
    Delivery, DeliveryState, EVERY_TYPE, PauseReason, SigningKey, Webhook, WebhookConfig, WebhookFilter,
    check_types,
};
use selvedge_core::{ExecutionId, FlowId, Name, Permission, Refusal};

const URL_POINTER: &str = "/url";
/// The type of the event of a test. It is in no log.
const TEST_TYPE: &str = "webhook.test";

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
    let (url, types) = (fields.text("url")?, fields.texts("types")?);
    let (url, types) = (fields.require("url", url)?, fields.require("types", types)?);
    let filter = read_filter(&mut fields, "filter")?.unwrap_or_default();
    let paused = fields.flag("paused")?.unwrap_or(false);
    fields.finish()?;
    check_url(URL_POINTER, &url, caller.webhooks_allow_private())?;
    let config = WebhookConfig { url, types: check_types(types)?, filter };
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
    if let Some(name) = ["url", "types"].into_iter().find(|name| fields.is_null(name)) {
        return Err(fields.refuse(name, "cannot be removed; give another value").into());
    }
    // Null is the default: not paused.
    let resumes = fields.is_null("paused");
    let (url, types) = (fields.text("url")?, fields.texts("types")?);
    let filter = read_change(&mut fields, "filter", read_filter)?;
    let paused = fields.flag("paused")?.or(resumes.then_some(false));
    fields.finish()?;
    if let Some(url) = &url {
        check_url(URL_POINTER, url, caller.webhooks_allow_private())?;
    }
    let patch = WebhookPatch { url, types: types.map(check_types).transpose()?, filter, paused };
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
    body.fields_if_any()?.finish()?;
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

/// `POST /v1/webhooks/{name}/test`: the response says what the receiver did. A receiver that fails is no error of this call.
pub async fn test(caller: Caller, PathName(name): PathName, body: RequestBody) -> HandlerResult {
    body.fields_if_any()?.finish()?;
    let webhook = caller.namespace.webhook(&name).await?;
    let engine = caller.namespace.engine();
    let mut event = Vec::new();
    json::object(&mut event, |object| {
        object.null("cursor");
        object.value("type", TEST_TYPE);
        object.time("at", Some(engine.store_time()));
        object.value("namespace", caller.namespace.name());
        ["execution", "flow", "version"].into_iter().for_each(|name| object.null(name));
        object.value("actor", &caller.actor);
        object.object("data", |object| object.value("webhook", &name));
    });
    let TestResult { id, status, error, took } =
        send_test(engine, &webhook, caller.webhook_options(), event.into()).await;
    Ok(json::response(StatusCode::OK, |object| {
        object.value("id", &id);
        object.value("delivered", &error.is_none());
        object.value("status", &status);
        object.value("error", &error);
        object.value("took_ms", &(took.as_millis() as u64));
    }))
}

/// Tells caches not to store a response with a secret.
fn unstored(mut response: Response) -> Response {
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn read_filter(fields: &mut Fields<'_>, name: &'static str) -> Result<Option<WebhookFilter>, Refusal> {
    let Some(mut fields) = fields.object(name)? else { return Ok(None) };
    let (execution, flow) = (fields.id("execution")?.map(ExecutionId), fields.id("flow")?.map(FlowId));
    let (tag, pointer) = (fields.text("tag")?, fields.pointer("tag"));
    fields.finish()?;
    let tag = tag.as_deref().map(|tag| parse_tag(&pointer, tag)).transpose()?;
    Ok(Some(WebhookFilter { execution, flow, tag: tag.map(|(name, value)| (name.into(), value.into())) }))
}

/// Returns the URL of a webhook as a caller may see it: only operators see more than its scheme and host.
pub fn shown_url(url: &str, caller: &Caller) -> String {
    match caller.may(Permission::Operate) {
        true => url.to_owned(),
        false => origin(url),
    }
}

/// Returns the scheme and the host of a URL, and a mark for what follows.
fn origin(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return "…".into() };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let mark = if matches!(path, "" | "/") { path } else { "/…" };
    format!("{scheme}://{host}{mark}")
}

fn write(object: &mut Object<'_>, webhook: &Webhook, caller: &Caller) {
    let detail = &webhook.detail;
    let config = &detail.config;
    object.value("name", &webhook.name.name);
    object.value("url", &shown_url(&config.url, caller));
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

#[cfg(test)]
mod tests {
    use super::origin;

    #[test]
    fn of_a_url_only_scheme_and_host_are_left() {
        for (url, shown) in [
            ("https://hooks.slack.com/services/T0/B0/secret", "https://hooks.slack.com/…"),
            ("https://example.com?token=secret", "https://example.com/…"),
            ("https://user:secret@example.com:8443/", "https://example.com:8443/"),
            ("http://[::1]:80#secret", "http://[::1]:80/…"),
            ("https://example.com", "https://example.com"),
        ] {
            assert_eq!(origin(url), shown);
        }
    }
}
