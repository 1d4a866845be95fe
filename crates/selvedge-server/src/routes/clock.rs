//! The store's clock, and its advance in tests.

use crate::auth::Caller;
use crate::routes::HandlerResult;
use crate::wire::body::RequestBody;
use crate::wire::json;
use crate::wire::query::Query;
use axum::http::StatusCode;
use std::time::Duration;

/// The longest advance of one call: 10 years.
pub const ADVANCE_MAX_MS: i64 = 10 * 366 * 24 * 3600 * 1000;
/// The time that an advance waits for running executions, unless the call gives another one.
pub const RUNNING_MS: u32 = 5_000;
/// The longest time that an advance waits for running executions.
pub const RUNNING_MAX_MS: u32 = 20_000;

/// `GET /v1/clock`
pub async fn get(caller: Caller, query: Query) -> HandlerResult {
    query.finish()?;
    let (now, manual) = caller.namespace.engine().clock().await?;
    Ok(json::response(StatusCode::OK, |object| {
        object.time("now_at", Some(now));
        object.value("manual", &manual);
    }))
}

/// `POST /v1/clock/advance`
pub async fn advance(caller: Caller, body: RequestBody) -> HandlerResult {
    let key = body.call_key()?;
    let mut fields = body.fields()?;
    let by_ms = fields.integer("by_ms")?;
    let by_ms = fields.require("by_ms", by_ms)?;
    if !(0..=ADVANCE_MAX_MS).contains(&by_ms) {
        return Err(fields.refuse("by_ms", format!("must be from 0 to {ADVANCE_MAX_MS}")).into());
    }
    let running_ms = fields.count("running_ms")?.unwrap_or(RUNNING_MS);
    if running_ms > RUNNING_MAX_MS {
        return Err(fields.refuse("running_ms", format!("must be at most {RUNNING_MAX_MS}")).into());
    }
    fields.finish()?;
    let patience = Duration::from_millis(running_ms.into());
    let advanced = caller.namespace.engine().advance(by_ms, patience, key).await?;
    Ok(json::response(StatusCode::OK, |object| {
        object.time("now_at", Some(advanced.now));
        object.value("reached", &advanced.reached);
        object.value("duplicate", &advanced.duplicate);
    }))
}
