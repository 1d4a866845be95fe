//! Budgets: what may be spent, what was, and what every execution spent of it.

use crate::Answer;
use crate::amounts::{DIMENSIONS_MAX, read_amount, read_amounts};
use crate::auth::Caller;
use crate::body::{KEY_POINTER, Sent};
use crate::fields::{Entry, Fields};
use crate::gates::{self, Shown, check_name};
use crate::graph::word;
use crate::json::{self, Object};
use crate::named::ByName;
use crate::numbered::Numbered;
use crate::problem::Problem;
use crate::query::{Id, Query, WithName};
use axum::http::StatusCode;
use selvedge_core::gate::{BudgetScope, Config, Gate, GateKind, Limit, OnHard};
use selvedge_core::{ExecutionId, Refusal};
use selvedge_engine::{Error, Spent};
use std::collections::BTreeMap;

/// How many parts of one budget are shown.
const PARTS_SHOWN: usize = 500;

/// `GET /v1/budgets`: by name, without their parts.
pub async fn list(caller: Caller, query: Query) -> Answer {
    gates::list(&caller, GateKind::Budget, ByName::read(query)?, write).await
}

/// `GET /v1/budgets/{name}`
pub async fn get(caller: Caller, WithName(name): WithName, query: Query) -> Answer {
    query.finish()?;
    let budget = gates::read(&caller, GateKind::Budget, &name).await?;
    let parts = parts(&caller, &budget).await?;
    Ok(json::answer(StatusCode::OK, |object| write_whole(object, &budget, &parts)))
}

/// `PUT /v1/budgets/{name}`
pub async fn put(caller: Caller, WithName(name): WithName, sent: Sent) -> Answer {
    let config = read_config(sent.fields()?)?;
    let (status, budget) = gates::put(&caller, GateKind::Budget, &name, config).await?;
    let parts = parts(&caller, &budget).await?;
    Ok(json::answer(status, |object| write_whole(object, &budget, &parts)))
}

/// `DELETE /v1/budgets/{name}`: whatever draws on it is not limited by it any more.
pub async fn remove(caller: Caller, WithName(name): WithName) -> Answer {
    gates::remove(&caller, GateKind::Budget, &name).await
}

/// `POST /v1/budgets/{name}/usage`: a key for the call is the key of what was spent, where the body has none.
pub async fn spend(caller: Caller, WithName(name): WithName, sent: Sent) -> Answer {
    let name = check_name(&name)?;
    let of_call = sent.key()?;
    let mut fields = sent.fields()?;
    let usage = read_amounts(&mut fields, "usage")?;
    let usage = fields.require("usage", usage)?;
    let key = fields.text("dedup_key")?;
    let execution = fields.id("execution")?.map(ExecutionId);
    fields.finish()?;
    let by_header = key.is_none() && of_call.is_some();
    let key = key.or_else(|| of_call.map(|key| key.to_string()));
    let counted = caller.namespace.spend(&name, usage, key.as_deref(), execution).await;
    let counted = counted.map_err(|error| if by_header { at_header(error) } else { error })?;
    let budget = gates::read(&caller, GateKind::Budget, &name).await?;
    Ok(json::answer(StatusCode::OK, |object| {
        object.value("duplicate", &!counted);
        object.object("budget", |object| write(object, &budget));
    }))
}

/// What is wrong with a key that stands in the header is said of the header.
fn at_header(error: Error) -> Error {
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
pub async fn reset(caller: Caller, WithName(name): WithName, sent: Sent) -> Answer {
    sent.fields_if_any()?.finish()?;
    let view = caller.namespace.reset_budget(&name, &caller.actor).await?;
    let budget = Shown { view, now: caller.namespace.now().await? };
    let parts = parts(&caller, &budget).await?;
    Ok(json::answer(StatusCode::OK, |object| {
        object.object("budget", |object| write_whole(object, &budget, &parts));
    }))
}

/// `GET /v1/executions/{id}/usage`: what an execution spent, by budget and period. A cursor is the place of the last one seen.
pub async fn of_execution(caller: Caller, Id(id): Id, query: Query) -> Answer {
    let page = Numbered::read(query)?;
    let spent = caller.namespace.spent_by(id).await?;
    let numbered: Vec<(u32, Spent)> = (1..).zip(spent).filter(|(number, _)| *number > page.after).collect();
    Ok(page.page(numbered, |(number, _)| *number, write_spent))
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
    let limits = fields.map("limits", DIMENSIONS_MAX)?;
    let limits = fields.require("limits", limits)?;
    let limits = limits.into_iter().map(read_limit);
    let limits: BTreeMap<String, Limit> = limits.collect::<Result<_, Refusal>>()?;
    let scope = word(&mut fields, "scope", BudgetScope::parse, BudgetScope::ALL.map(BudgetScope::as_str))?;
    let on_hard = word(&mut fields, "on_hard", OnHard::parse, OnHard::ALL.map(OnHard::as_str))?;
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

fn read_limit(entry: Entry<'_>) -> Result<(String, Limit), Refusal> {
    let mut fields = Fields::of(entry.raw, entry.pointer)?;
    let mut amount = |name: &'static str| {
        let raw = fields.raw(name).filter(|raw| raw.get() != "null");
        raw.map(|raw| read_amount(&fields.pointer(name), raw)).transpose()
    };
    let limit = Limit { hard: amount("hard")?, soft: amount("soft")? };
    fields.finish()?;
    Ok((entry.name, limit))
}

/// The parts that a budget counts on their own; none where it counts the whole namespace.
async fn parts(caller: &Caller, budget: &Shown) -> Result<Option<Vec<Gate>>, Problem> {
    match budget.config().scope {
        BudgetScope::Namespace => Ok(None),
        BudgetScope::Flow | BudgetScope::Lane => {
            let mut parts = caller.namespace.budget_parts(&budget.gate().name.name).await?;
            parts.sort_by(|a, b| a.name.part.cmp(&b.name.part));
            Ok(Some(parts))
        }
    }
}

fn write(object: &mut Object<'_>, budget: &Shown) {
    let config = budget.config();
    object.value("name", &budget.gate().name.name);
    object.value("limits", &config.limits);
    object.value("scope", config.scope.as_str());
    object.value("period_ms", &config.period_ms);
    object.value("on_hard", config.on_hard.as_str());
    write_use(object, budget.gate());
    object.value("held", &budget.view.waiting);
}

fn write_whole(object: &mut Object<'_>, budget: &Shown, parts: &Option<Vec<Gate>>) {
    write(object, budget);
    let Some(parts) = parts else { return };
    object.array("parts", parts.iter().take(PARTS_SHOWN), |out, part| {
        json::object(out, |object| {
            object.value("part", &part.name.part);
            write_use(object, part);
        });
    });
    object.value("more_parts", &(parts.len() > PARTS_SHOWN));
}

/// Writes what was spent and reserved of a budget, or of a part of it.
fn write_use(object: &mut Object<'_>, gate: &Gate) {
    object.value("usage", &gate.state.used);
    object.value("reserved", &gate.state.reserved);
    object.value("period", &gate.state.period);
    object.time("next_reset_at", gate.state.resets_at);
}
