//! Schedules: saved, listed, run at once, their next times and their last runs.

use crate::auth::Caller;
use crate::routes::HandlerResult;
use crate::wire::body::RequestBody;
use crate::wire::flow_views;
use crate::wire::json::{self, Object};
use crate::wire::paging::{NamePage, name_cursor};
use crate::wire::path::PathName;
use crate::wire::problem::{Code, Problem};
use crate::wire::query::Query;
use crate::wire::schedule::{check_patch, patched, read_spec, write_spec};
use crate::wire::views::{self, Include};
use axum::http::StatusCode;
use selvedge_api::fields::Fields;
use selvedge_core::rules::keyed::Answered;
use selvedge_core::schedule::{RunResult, RunSubject, Schedule};
use selvedge_core::{Name, Refusal};
use selvedge_engine::RunView;

/// The number of next times that an answer has, unless the request names another.
const NEXT_DEFAULT: u32 = 10;
/// The maximum number of next times.
const NEXT_MAX: u32 = 1000;
/// The number of tries of a patch whose schedule others change at the same time.
const PATCH_TRIES: u32 = 20;

/// `GET /v1/schedules`: ordered by name.
pub async fn list(caller: Caller, query: Query) -> HandlerResult {
    let page = NamePage::read(query)?;
    let after = page.after.as_deref().map(Name::trusted);
    let (schedules, more) = caller.namespace.schedules(after.as_ref(), page.limit).await?;
    let next_cursor = schedules.last().filter(|_| more).map(|last| name_cursor(&last.name.name));
    Ok(json::page(&schedules, next_cursor, |out, schedule| {
        json::object(out, |object| write(object, schedule))
    }))
}

/// `GET /v1/schedules/{name}`
pub async fn get(caller: Caller, PathName(name): PathName, query: Query) -> HandlerResult {
    query.finish()?;
    let schedule = caller.namespace.schedule(&name).await?;
    Ok(json::response(StatusCode::OK, |object| write(object, &schedule)))
}

/// `PUT /v1/schedules/{name}`
pub async fn put(caller: Caller, PathName(name): PathName, body: RequestBody) -> HandlerResult {
    let spec = read_spec(body.fields()?)?;
    drop(body);
    let saved = caller.namespace.save_schedule(&name, spec, None, &caller.actor).await?;
    let (schedule, created) = saved.ok_or_else(too_many_changes)?;
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    Ok(json::response(status, |object| write(object, &schedule)))
}

/// `PATCH /v1/schedules/{name}`: a JSON merge patch.
pub async fn patch(caller: Caller, PathName(name): PathName, body: RequestBody) -> HandlerResult {
    check_patch(body.fields()?)?;
    for _ in 0..PATCH_TRIES {
        let before = caller.namespace.schedule(&name).await?;
        let document = patched(&before.spec, body.raw()?);
        let spec = read_spec(Fields::from_body(&document)?)?;
        let version = Some(before.version);
        let saved = caller.namespace.save_schedule(&name, spec, version, &caller.actor).await?;
        if let Some((schedule, _)) = saved {
            return Ok(json::response(StatusCode::OK, |object| write(object, &schedule)));
        }
    }
    Err(too_many_changes())
}

fn too_many_changes() -> Problem {
    Problem::new(Code::StoreUnavailable, "the schedule changes too often; repeat the request")
}

/// `DELETE /v1/schedules/{name}`: what it submitted stays.
pub async fn remove(caller: Caller, PathName(name): PathName) -> HandlerResult {
    caller.namespace.delete_schedule(&name, &caller.actor).await?;
    Ok(json::response(StatusCode::OK, |object| {
        object.value("name", &name);
        object.value("removed", &true);
    }))
}

/// `POST /v1/schedules/{name}/run`
pub async fn run(caller: Caller, PathName(name): PathName, body: RequestBody) -> HandlerResult {
    let call_key = body.call_key()?;
    body.fields_if_any()?.finish()?;
    let calls = caller.namespace.keyed(call_key);
    let Answered { done, duplicate } = calls.run_schedule(&name, &caller.actor).await?;
    let status = if duplicate { StatusCode::OK } else { StatusCode::CREATED };
    match done {
        RunSubject::Execution(id) => {
            let view = caller.namespace.get_with(id, Include::NONE.payloads()).await?;
            Ok(json::response(status, |object| {
                views::execution(object.field("execution"), &view, Include::NONE);
                object.value("duplicate", &duplicate);
            }))
        }
        RunSubject::Flow(id) => {
            let view = caller.namespace.flow(id).await?;
            Ok(json::response(status, |object| {
                flow_views::flow(object.field("flow"), &view);
                object.value("duplicate", &duplicate);
            }))
        }
    }
}

/// `GET /v1/schedules/{name}/next`
pub async fn next(caller: Caller, PathName(name): PathName, mut query: Query) -> HandlerResult {
    let count = query.count("count")?.unwrap_or(NEXT_DEFAULT);
    query.finish()?;
    if !(1..=NEXT_MAX).contains(&count) {
        let detail = format!("is {count}; it must be between 1 and {NEXT_MAX}");
        return Err(Refusal::field("/query/count", detail).into());
    }
    let schedule = caller.namespace.schedule(&name).await?;
    let times = schedule.next_times(caller.namespace.now().await?, count as usize);
    Ok(json::page(&times, None, |out, at| json::object(out, |object| object.time("scheduled_at", Some(*at)))))
}

/// `GET /v1/schedules/{name}/runs`: newest first.
pub async fn runs(caller: Caller, PathName(name): PathName, query: Query) -> HandlerResult {
    query.finish()?;
    let runs = caller.namespace.schedule_runs(&name).await?;
    Ok(json::page(&runs, None, |out, run| json::object(out, |object| write_run(object, run))))
}

fn write(object: &mut Object<'_>, schedule: &Schedule) {
    let state = &schedule.state;
    object.value("name", &schedule.name.name);
    write_spec(object, &schedule.spec);
    let next = schedule.times().filter(|_| !schedule.spec.paused);
    object.time("next_at", next.and_then(|times| times.next_after(state.position)));
    object.time("last_scheduled_at", state.runs.iter().rev().find(|run| !run.manual).map(|run| run.at));
    object.value("queued", &state.queue.len());
    object.value("fired", &state.fired);
    object.value("skipped", &state.skipped);
    object.value("refused", &state.refused);
    object.value("version", &schedule.version);
    object.time("created_at", Some(state.created_at));
}

fn write_run(object: &mut Object<'_>, view: &RunView) {
    let run = &view.run;
    object.time("scheduled_at", Some(run.at));
    object.time("decided_at", Some(run.decided_at));
    object.value("manual", &run.manual);
    let (result, execution, flow, problem) = match &run.result {
        RunResult::Started(RunSubject::Execution(id)) => ("started", Some(id), None, None),
        RunResult::Started(RunSubject::Flow(id)) => ("started", None, Some(id), None),
        RunResult::Skipped => ("skipped", None, None, None),
        RunResult::Refused { code, detail } => ("refused", None, None, Some((code, detail))),
    };
    object.value("result", result);
    object.value("execution", &execution);
    object.value("flow", &flow);
    object.value("state", &view.state.map(|(state, _)| state));
    object.value("outcome", &view.state.and_then(|(_, outcome)| outcome));
    match problem {
        None => object.null("error"),
        Some((code, detail)) => object.object("error", |object| {
            object.value("code", code);
            object.value("detail", detail);
        }),
    }
}
