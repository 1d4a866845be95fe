//! Lanes: whether they give out what waits in them, how many at once and how often, and their shares.

use crate::Answer;
use crate::auth::Caller;
use crate::body::Sent;
use crate::fields::Fields;
use crate::gates::{self, Shown};
use crate::graph::word;
use crate::json::{self, Object};
use crate::named::ByName;
use crate::query::{Query, WithName};
use axum::http::StatusCode;
use selvedge_core::Refusal;
use selvedge_core::gate::{Config, GateKind, LaneState};

/// `GET /v1/lanes`: those that are configured and those to which something was submitted, by name.
pub async fn list(caller: Caller, query: Query) -> Answer {
    gates::list(&caller, GateKind::Lane, ByName::read(query)?, write).await
}

/// `GET /v1/lanes/{name}`
pub async fn get(caller: Caller, WithName(name): WithName, query: Query) -> Answer {
    query.finish()?;
    let lane = gates::read(&caller, GateKind::Lane, &name).await?;
    Ok(json::answer(StatusCode::OK, |object| write(object, &lane)))
}

/// `PUT /v1/lanes/{name}`
pub async fn put(caller: Caller, WithName(name): WithName, sent: Sent) -> Answer {
    let config = read_config(sent.fields()?)?;
    let (status, lane) = gates::put(&caller, GateKind::Lane, &name, config).await?;
    Ok(json::answer(status, |object| write(object, &lane)))
}

/// `DELETE /v1/lanes/{name}`: it has its defaults again.
pub async fn remove(caller: Caller, WithName(name): WithName) -> Answer {
    gates::remove(&caller, GateKind::Lane, &name).await
}

fn read_config(mut fields: Fields<'_>) -> Result<Config, Refusal> {
    let state = word(&mut fields, "state", LaneState::parse, LaneState::ALL.map(LaneState::as_str))?;
    let config = Config {
        state: state.unwrap_or_default(),
        concurrency: fields.count("concurrency")?,
        rate: gates::read_rate(&mut fields)?,
        weight: fields.count("weight")?,
        ..Config::default()
    };
    fields.finish()?;
    Ok(config)
}

fn write(object: &mut Object<'_>, lane: &Shown) {
    let config = lane.config();
    object.value("name", &lane.gate().name.name);
    object.value("state", config.state.as_str());
    gates::write_starts(object, lane);
    object.value("weight", &config.weight.unwrap_or(1));
    object.value("configured", &lane.gate().config.is_some());
    object.value("active", &lane.view.active);
    object.value("waiting", &lane.view.waiting);
}
