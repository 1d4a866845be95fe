//! Budgets: their configuration, their usage, and the usage of each execution.

use crate::auth::Caller;
use crate::routes::HandlerResult;
use crate::routes::gates::{self, GateSnapshot, check_name};
use crate::wire::amounts::{read_amount, read_amounts};
use crate::wire::body::{KEY_POINTER, RequestBody};
use crate::wire::json::{self, Object};
use crate::wire::paging::NamePage;
use crate::wire::paging::NumberPage;
use crate::wire::path::{PathExecution, PathName};
use crate::wire::problem::Problem;
use crate::wire::query::Query;
use axum::http::StatusCode;
use selvedge_api::fields::{Entry, Fields};
use selvedge_core::gate::patch::{Change, ConfigPatch, LimitPatch};
use selvedge_core::gate::{BudgetScope, Config, DIMENSIONS_MAX, Gate, GateKind, Limit, OnHard};
use selvedge_core::rules::keyed::Answered;
use selvedge_core::{ExecutionId, Refusal};
use selvedge_engine::{Error, Spent};
use std::collections::BTreeMap;

/// The most parts of a budget that a response lists.
const PARTS_SHOWN: usize = 500;

/// `GET /v1/budgets`: ordered by name, without parts.
pub async fn list(caller: Caller, query: Query) -> HandlerResult {
    gates::list(&caller, GateKind::Budget, NamePage::read(query)?, write).await
}

/// `GET /v1/budgets/{name}`
pub async fn get(caller: Caller, PathName(name): PathName, query: Query) -> HandlerResult {
    query.finish()?;
    let budget = gates::read(&caller, GateKind::Budget, &name).await?;
    let parts = load_parts(&caller, &budget).await?;
    Ok(json::response(StatusCode::OK, |object| write_with_parts(object, &budget, &parts)))
}

/// `PUT /v1/budgets/{name}`
pub async fn put(caller: Caller, PathName(name): PathName, body: RequestBody) -> HandlerResult {
    let config = read_config(body.fields()?)?;
    let (status, budget) = gates::put(&caller, GateKind::Budget, &name, config).await?;
    let parts = load_parts(&caller, &budget).await?;
    Ok(json::response(status, |object| write_with_parts(object, &budget, &parts)))
}

/// `PATCH /v1/budgets/{name}`: a JSON merge patch.
pub async fn patch(caller: Caller, PathName(name): PathName, body: RequestBody) -> HandlerResult {
    let patch = read_patch(body.fields()?)?;
    let budget = gates::patch(&caller, GateKind::Budget, &name, patch).await?;
    let parts = load_parts(&caller, &budget).await?;
    Ok(json::response(StatusCode::OK, |object| write_with_parts(object, &budget, &parts)))
}

/// `DELETE /v1/budgets/{name}`: the budget no longer limits the executions that draw on it.
pub async fn remove(caller: Caller, PathName(name): PathName) -> HandlerResult {
    gates::remove(&caller, GateKind::Budget, &name).await
}

/// `POST /v1/budgets/{name}/usage`: the `Idempotency-Key` header is the default of `dedup_key`. `breached` in the answer
/// lists the dimensions of the usage whose hard limit is reached.
pub async fn report_usage(caller: Caller, PathName(name): PathName, body: RequestBody) -> HandlerResult {
    let name = check_name(&name)?;
    let header_key = body.key()?;
    let mut fields = body.fields()?;
    let usage = read_amounts(&mut fields, "usage")?;
    let usage = fields.require("usage", usage)?;
    let key = fields.text("dedup_key")?;
    let execution = fields.id("execution")?.map(ExecutionId);
    fields.finish()?;
    let key_is_header = key.is_none() && header_key.is_some();
    let key = key.or_else(|| header_key.map(|key| key.to_string()));
    let counted = caller.namespace.spend(&name, usage, key.as_deref(), execution).await;
    let counted = counted.map_err(|error| if key_is_header { point_to_header(error) } else { error })?;
    let budget = gates::read(&caller, GateKind::Budget, &name).await?;
    Ok(json::response(StatusCode::OK, |object| {
        object.value("duplicate", &counted.duplicate);
        object.value("breached", &counted.breached);
        object.object("budget", |object| write(object, &budget));
    }))
}

/// Points a refusal of the key to the header, from which the key was taken.
fn point_to_header(error: Error) -> Error {
    const KEY: &str = "/dedup_key";
    let moved = match error {
        Error::Refused(Refusal::InvalidField { pointer, detail }) if pointer == KEY => {
            Refusal::field(KEY_POINTER, detail)
        }
        Error::Refused(Refusal::IdempotencyMismatch { pointer, detail }) if pointer == KEY => {
            Refusal::IdempotencyMismatch { pointer: KEY_POINTER.into(), detail }
        }
        error => return error,
    };
    moved.into()
}

/// `POST /v1/budgets/{name}/reset`
pub async fn reset(caller: Caller, PathName(name): PathName, body: RequestBody) -> HandlerResult {
    body.fields_if_any()?.finish()?;
    let calls = caller.namespace.keyed(body.call_key()?);
    let Answered { done: view, duplicate } = calls.reset_budget(&name, &caller.actor).await?;
    let budget = GateSnapshot { view, now: caller.namespace.now().await? };
    let parts = load_parts(&caller, &budget).await?;
    Ok(json::response(StatusCode::OK, |object| {
        object.object("budget", |object| write_with_parts(object, &budget, &parts));
        object.value("duplicate", &duplicate);
    }))
}

/// `GET /v1/executions/{id}/usage`: the execution's usage by budget and period. The cursor is the index of the last
/// item.
pub async fn of_execution(caller: Caller, PathExecution(id): PathExecution, query: Query) -> HandlerResult {
    let page = NumberPage::read(query)?;
    let spent = caller.namespace.spent_by(id).await?;
    let numbered: Vec<(u32, Spent)> = (1..).zip(spent).filter(|(number, _)| *number > page.after).collect();
    Ok(page.response(numbered, |(number, _)| *number, write_spent))
}

fn write_spent(out: &mut Vec<u8>, (_, spent): &(u32, Spent)) {
    let budget = spent.budget.as_ref();
    json::object(out, |object| {
        object.value("budget", &budget.map(|budget| &budget.name));
        object.value("part", &budget.and_then(|budget| budget.part.as_ref()));
        object.value("period", &spent.entry.period);
        object.value("spent", &spent.entry.spent);
    });
}

fn read_config(mut fields: Fields<'_>) -> Result<Config, Refusal> {
    let limits = fields.entries("limits", DIMENSIONS_MAX)?;
    let limits = fields.require("limits", limits)?;
    let limits = limits.into_iter().map(read_limit);
    let limits: BTreeMap<String, Limit> = limits.collect::<Result<_, Refusal>>()?;
    let scope = fields.word("scope", BudgetScope::parse, BudgetScope::ALL.map(BudgetScope::as_str))?;
    let on_hard = fields.word("on_hard", OnHard::parse, OnHard::ALL.map(OnHard::as_str))?;
    let config = Config {
        limits,
        scope: scope.unwrap_or_default(),
        period_ms: fields.integer("period_ms")?,
        on_hard: on_hard.unwrap_or_default(),
        ..Config::default()
    };
    fields.finish()?;
    Ok(config)
}

fn read_patch(mut fields: Fields<'_>) -> Result<ConfigPatch, Refusal> {
    let limits = |fields: &mut Fields<'_>, name| {
        let limits = fields.entries(name, DIMENSIONS_MAX)?;
        limits.map(|limits| limits.into_iter().map(read_limit_change).collect()).transpose()
    };
    let scopes = BudgetScope::ALL.map(BudgetScope::as_str);
    let scope = |fields: &mut Fields<'_>, name| fields.word(name, BudgetScope::parse, scopes);
    let policies = OnHard::ALL.map(OnHard::as_str);
    let on_hard = |fields: &mut Fields<'_>, name| fields.word(name, OnHard::parse, policies);
    let patch = ConfigPatch {
        limits: gates::read_change(&mut fields, "limits", limits)?,
        scope: gates::read_change(&mut fields, "scope", scope)?,
        period_ms: gates::read_change(&mut fields, "period_ms", Fields::integer)?,
        on_hard: gates::read_change(&mut fields, "on_hard", on_hard)?,
        ..ConfigPatch::default()
    };
    fields.finish()?;
    Ok(patch)
}

fn read_limit_change(entry: Entry<'_>) -> Result<(String, Change<LimitPatch>), Refusal> {
    if entry.raw.get() == "null" {
        return Ok((entry.name, Change::Clear));
    }
    let mut fields = Fields::from_value(entry.raw, entry.pointer)?;
    let amount = |fields: &mut Fields<'_>, name| {
        let raw = fields.non_null(name);
        raw.map(|raw| read_amount(&fields.pointer(name), raw)).transpose()
    };
    let patch = LimitPatch {
        hard: gates::read_change(&mut fields, "hard", amount)?,
        soft: gates::read_change(&mut fields, "soft", amount)?,
    };
    fields.finish()?;
    Ok((entry.name, Change::Set(patch)))
}

fn read_limit(entry: Entry<'_>) -> Result<(String, Limit), Refusal> {
    let mut fields = Fields::from_value(entry.raw, entry.pointer)?;
    let mut amount = |name: &'static str| {
        let raw = fields.non_null(name);
        raw.map(|raw| read_amount(&fields.pointer(name), raw)).transpose()
    };
    let limit = Limit { hard: amount("hard")?, soft: amount("soft")? };
    fields.finish()?;
    Ok((entry.name, limit))
}

/// Loads the parts that a budget counts separately; none if its scope is the whole namespace.
async fn load_parts(caller: &Caller, budget: &GateSnapshot) -> Result<Option<Vec<Gate>>, Problem> {
    match budget.config().scope {
        BudgetScope::Namespace => Ok(None),
        BudgetScope::Flow | BudgetScope::Lane => {
            let mut parts = caller.namespace.budget_parts(&budget.gate().name.name).await?;
            parts.sort_by(|a, b| a.name.part.cmp(&b.name.part));
            Ok(Some(parts))
        }
    }
}

fn write(object: &mut Object<'_>, budget: &GateSnapshot) {
    let config = budget.config();
    object.value("name", &budget.gate().name.name);
    object.value("limits", &config.limits);
    object.value("scope", config.scope.as_str());
    object.value("period_ms", &config.period_ms);
    object.value("on_hard", config.on_hard.as_str());
    write_usage(object, budget.gate());
    object.value("held", &budget.view.waiting);
}

fn write_with_parts(object: &mut Object<'_>, budget: &GateSnapshot, parts: &Option<Vec<Gate>>) {
    write(object, budget);
    let Some(parts) = parts else { return };
    object.array("parts", parts.iter().take(PARTS_SHOWN), |out, part| {
        json::object(out, |object| {
            object.value("part", &part.name.part);
            write_usage(object, part);
        });
    });
    object.value("more_parts", &(parts.len() > PARTS_SHOWN));
}

/// Writes the usage and reservations of a budget or of one of its parts.
fn write_usage(object: &mut Object<'_>, gate: &Gate) {
    object.value("usage", &gate.state.used);
    object.value("reserved", &gate.state.reserved);
    object.value("period", &gate.state.period);
    object.time("next_reset_at", gate.state.resets_at);
}
