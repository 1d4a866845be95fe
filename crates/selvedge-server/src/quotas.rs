//! Quotas: how often, and how many at once, whatever refers to them may start.

use crate::Answer;
use crate::auth::Caller;
use crate::body::Sent;
use crate::fields::Fields;
use crate::gates::{self, Shown};
use crate::json::{self, Object};
use crate::named::ByName;
use crate::query::{Query, WithName};
use axum::http::StatusCode;
use selvedge_core::Refusal;
use selvedge_core::gate::{Config, GateKind};

/// `GET /v1/quotas`: by name.
pub async fn list(caller: Caller, query: Query) -> Answer {
    gates::list(&caller, GateKind::Quota, ByName::read(query)?, write).await
}

/// `GET /v1/quotas/{name}`
pub async fn get(caller: Caller, WithName(name): WithName, query: Query) -> Answer {
    query.finish()?;
    let quota = gates::read(&caller, GateKind::Quota, &name).await?;
    Ok(json::answer(StatusCode::OK, |object| write(object, &quota)))
}

/// `PUT /v1/quotas/{name}`
pub async fn put(caller: Caller, WithName(name): WithName, sent: Sent) -> Answer {
    let config = read_config(sent.fields()?)?;
    let (status, quota) = gates::put(&caller, GateKind::Quota, &name, config).await?;
    Ok(json::answer(status, |object| write(object, &quota)))
}

/// `DELETE /v1/quotas/{name}`: whatever refers to it is not limited by it any more.
pub async fn remove(caller: Caller, WithName(name): WithName) -> Answer {
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

fn write(object: &mut Object<'_>, quota: &Shown) {
    object.value("name", &quota.gate().name.name);
    gates::write_starts(object, quota);
    object.value("active", &quota.view.active);
    object.value("held", &quota.view.waiting);
}
