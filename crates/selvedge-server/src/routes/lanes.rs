//! Lanes: their state, their limits on concurrency and rate, and their weight.

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
use selvedge_core::gate::{Config, GateKind, LaneState};
use selvedge_core::rules::keyed::Answered;

/// `GET /v1/lanes`: configured lanes and lanes that have had a submission, ordered by name.
pub async fn list(caller: Caller, query: Query) -> HandlerResult {
    gates::list(&caller, GateKind::Lane, NamePage::read(query)?, write).await
}

/// `GET /v1/lanes/{name}`
pub async fn get(caller: Caller, PathName(name): PathName, query: Query) -> HandlerResult {
    query.finish()?;
    let lane = gates::read(&caller, GateKind::Lane, &name).await?;
    Ok(json::response(StatusCode::OK, |object| write(object, &lane)))
}

/// `PUT /v1/lanes/{name}`
pub async fn put(caller: Caller, PathName(name): PathName, body: RequestBody) -> HandlerResult {
    let config = read_config(body.fields()?)?;
    let (status, lane) = gates::put(&caller, GateKind::Lane, &name, config).await?;
    Ok(json::response(status, |object| write(object, &lane)))
}

/// `PATCH /v1/lanes/{name}`: a JSON merge patch. A lane that is not configured has the defaults.
pub async fn patch(caller: Caller, PathName(name): PathName, body: RequestBody) -> HandlerResult {
    let patch = read_patch(body.fields()?)?;
    let lane = gates::patch(&caller, GateKind::Lane, &name, patch).await?;
    Ok(json::response(StatusCode::OK, |object| write(object, &lane)))
}

/// `POST /v1/lanes/{name}/pause`: changes nothing but the state.
pub async fn pause(caller: Caller, PathName(name): PathName, body: RequestBody) -> HandlerResult {
    set_state(&caller, &name, &body, LaneState::Paused).await
}

/// `POST /v1/lanes/{name}/resume`: makes a paused or draining lane active, and changes nothing else.
pub async fn resume(caller: Caller, PathName(name): PathName, body: RequestBody) -> HandlerResult {
    set_state(&caller, &name, &body, LaneState::Active).await
}

async fn set_state(caller: &Caller, name: &str, body: &RequestBody, state: LaneState) -> HandlerResult {
    body.fields_if_any()?.finish()?;
    let (gate, patch) = ((GateKind::Lane, name), ConfigPatch::of_state(state));
    let Answered { done: lane, duplicate } = gates::patch_once(caller, gate, patch, body.call_key()?).await?;
    Ok(json::response(StatusCode::OK, |object| {
        write(object, &lane);
        object.value("duplicate", &duplicate);
    }))
}

/// `DELETE /v1/lanes/{name}`: resets the lane to the defaults.
pub async fn remove(caller: Caller, PathName(name): PathName) -> HandlerResult {
    gates::remove(&caller, GateKind::Lane, &name).await
}

fn read_config(mut fields: Fields<'_>) -> Result<Config, Refusal> {
    let state = fields.word("state", LaneState::parse, LaneState::ALL.map(LaneState::as_str))?;
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

fn read_patch(mut fields: Fields<'_>) -> Result<ConfigPatch, Refusal> {
    let states = LaneState::ALL.map(LaneState::as_str);
    let state = |fields: &mut Fields<'_>, name| fields.word(name, LaneState::parse, states);
    let patch = ConfigPatch {
        state: gates::read_change(&mut fields, "state", state)?,
        concurrency: gates::read_change(&mut fields, "concurrency", Fields::count)?,
        rate: gates::read_rate_change(&mut fields)?,
        weight: gates::read_change(&mut fields, "weight", Fields::count)?,
        ..ConfigPatch::default()
    };
    fields.finish()?;
    Ok(patch)
}

fn write(object: &mut Object<'_>, lane: &GateSnapshot) {
    let config = lane.config();
    object.value("name", &lane.gate().name.name);
    object.value("state", config.state.as_str());
    gates::write_start_limits(object, lane);
    object.value("weight", &config.weight.unwrap_or(1));
    object.value("configured", &lane.gate().config.is_some());
    object.value("active", &lane.view.active);
    object.value("waiting", &lane.view.waiting);
}
