//! The ids and names in the path of a request.

use crate::AppState;
use crate::wire::problem::{Code, Problem};
use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use selvedge_core::webhook::DeliveryId;
use selvedge_core::{ExecutionId, FlowId, WaitpointId};
use uuid::Uuid;

pub struct PathExecution(pub ExecutionId);

impl FromRequestParts<AppState> for PathExecution {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        path_id(parts, state, "execution").await.map(|id| PathExecution(ExecutionId(id)))
    }
}

pub struct PathFlow(pub FlowId);

impl FromRequestParts<AppState> for PathFlow {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        path_id(parts, state, "flow").await.map(|id| PathFlow(FlowId(id)))
    }
}

pub struct PathWaitpoint(pub WaitpointId);

impl FromRequestParts<AppState> for PathWaitpoint {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        path_id(parts, state, "waitpoint").await.map(|id| PathWaitpoint(WaitpointId(id)))
    }
}

pub struct PathDelivery(pub DeliveryId);

impl FromRequestParts<AppState> for PathDelivery {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        path_id(parts, state, "delivery").await.map(|id| PathDelivery(DeliveryId(id)))
    }
}

/// The number of a row of the inbox in a path.
pub struct PathNumber(pub i64);

impl FromRequestParts<AppState> for PathNumber {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        let text = path_part(parts, state, "number").await?;
        text.parse().map(PathNumber).map_err(|_| {
            let detail = format!("there is no refused submission {text:?}; they have numbers");
            Problem::new(Code::NotFound, detail)
        })
    }
}

async fn path_id(parts: &mut Parts, state: &AppState, resource: &str) -> Result<Uuid, Problem> {
    let text = path_part(parts, state, "id").await?;
    Uuid::parse_str(&text).map_err(|_| {
        let detail = format!("there is no {resource} {text:?}; ids of {resource}s are UUIDs");
        Problem::new(Code::NotFound, detail)
    })
}

/// The worker's instance in a path.
pub struct PathInstance(pub String);

impl FromRequestParts<AppState> for PathInstance {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        path_part(parts, state, "instance").await.map(PathInstance)
    }
}

/// The name of a gate in a path.
pub struct PathName(pub String);

impl FromRequestParts<AppState> for PathName {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        path_part(parts, state, "name").await.map(PathName)
    }
}

async fn path_part(parts: &mut Parts, state: &AppState, name: &str) -> Result<String, Problem> {
    let unreadable = || Problem::new(Code::NotFound, "the path is not UTF-8 text");
    let params = RawPathParams::from_request_parts(parts, state).await.map_err(|_| unreadable())?;
    let part = params.iter().find(|(other, _)| *other == name);
    part.map(|(_, value)| value.to_owned()).ok_or_else(unreadable)
}
