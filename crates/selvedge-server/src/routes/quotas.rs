//! Quotas: limits on the rate and concurrency of the executions that refer to them.

use crate::auth::Caller;
use crate::routes::HandlerResult;
use crate::routes::gates::{self, GateSnapshot};
use crate::wire::body::RequestBody;
use crate::wire::json::{self, Object};
use crate::wire::paging::NamePage;
use crate::wire::path::PathName;
use crate::wire::query::Query;
use axum::http::StatusCode;
use selvedge_api::fields::Fields;
use selvedge_core::Refusal;
use selvedge_core::gate::patch::ConfigPatch;
use selvedge_core::gate::{Config, GateKind};

/// `GET /v1/quotas`: ordered by name.
pub async fn list(caller: Caller, query: Query) -> HandlerResult {
    gates::list(&caller, GateKind::Quota, NamePage::read(query)?, write).await
}

/// `GET /v1/quotas/{name}`
pub async fn get(caller: Caller, PathName(name): PathName, query: Query) -> HandlerResult {
    query.finish()?;
    let quota = gates::read(&caller, GateKind::Quota, &name).await?;
    Ok(json::response(StatusCode::OK, |object| write(object, &quota)))
}

/// `PUT /v1/quotas/{name}`
pub async fn put(caller: Caller, PathName(name): PathName, body: RequestBody) -> HandlerResult {
    let config = read_config(body.fields()?)?;
    let (status, quota) = gates::put(&caller, GateKind::Quota, &name, config).await?;
    Ok(json::response(status, |object| write(object, &quota)))
}

/// `PATCH /v1/quotas/{name}`: a JSON merge patch.
pub async fn patch(caller: Caller, PathName(name): PathName, body: RequestBody) -> HandlerResult {
    let patch = read_patch(body.fields()?)?;
    let quota = gates::patch(&caller, GateKind::Quota, &name, patch).await?;
    Ok(json::response(StatusCode::OK, |object| write(object, &quota)))
}

/// `DELETE /v1/quotas/{name}`: the quota no longer limits the executions that refer to it.
pub async fn remove(caller: Caller, PathName(name): PathName) -> HandlerResult {
    gates::remove(&caller, GateKind::Quota, &name).await
}

fn read_config(mut fields: Fields<'_>) -> Result<Config, Refusal> {
    let config = Config {
        rate: gates::read_rate(&mut fields)?,
        concurrency: fields.count("concurrency")?,
        ..Config::default()
    };
    fields.finish()?;
    Ok(config)
}

fn read_patch(mut fields: Fields<'_>) -> Result<ConfigPatch, Refusal> {
    let patch = ConfigPatch {
        rate: gates::read_rate_change(&mut fields)?,
        concurrency: gates::read_change(&mut fields, "concurrency", Fields::count)?,
        ..ConfigPatch::default()
    };
    fields.finish()?;
    Ok(patch)
}

fn write(object: &mut Object<'_>, quota: &GateSnapshot) {
    object.value("name", &quota.gate().name.name);
    gates::write_start_limits(object, quota);
    object.value("active", &quota.view.active);
    object.value("held", &quota.view.waiting);
}
