//! The objects of a scenario, read into the types of the SDK.

use crate::actions::amounts;
use selvedge::limits::{BudgetSettings, OnHard};
use selvedge::schedules::{CatchUp, Overlap, ScheduleSettings};
use selvedge::{Backoff, EdgeCondition, Error, Flow, Join, Retry, Submission};
use serde_json::Value;
use std::time::Duration;

/// Reads a schedule that submits an execution.
pub fn schedule(fields: &Value) -> Result<ScheduleSettings, Error> {
    let work = submission(&fields["submit"]["execution"])?;
    let mut settings = match fields["cron"].as_str() {
        Some(cron) => ScheduleSettings::cron(cron, work),
        None => {
            let interval = fields["interval_ms"].as_u64().unwrap_or_default();
            ScheduleSettings::every(Duration::from_millis(interval), work)
        }
    };
    if let Some(zone) = fields["time_zone"].as_str() {
        settings = settings.time_zone(zone);
    }
    if let Some(overlap) = fields["overlap"].as_str().and_then(Overlap::parse) {
        settings = settings.overlap(overlap);
    }
    if let Some(catch_up) = fields["catch_up"].as_str().and_then(CatchUp::parse) {
        settings = settings.catch_up(catch_up);
    }
    Ok(settings)
}

/// Reads a budget.
pub fn budget(fields: &Value) -> BudgetSettings {
    let mut settings = BudgetSettings::new();
    for (dimension, limit) in fields["limits"].as_object().into_iter().flatten() {
        let soft = limit["soft"].as_u64().map(|soft| soft as u32);
        settings = settings.limit(dimension, limit["hard"].as_u64().unwrap_or_default() as u32, soft);
    }
    match fields["on_hard"].as_str() {
        Some("suspend") => settings.on_hard(OnHard::Suspend),
        Some("fail") => settings.on_hard(OnHard::Fail),
        _ => settings,
    }
}

/// Reads a submission, or a node of a flow.
pub fn submission(fields: &Value) -> Result<Submission, Error> {
    let mut submission = Submission::new(fields["kind"].as_str().unwrap_or_default());
    if let Some(input) = fields.get("input") {
        submission = submission.input(input)?;
    }
    if let Some(lane) = fields["lane"].as_str() {
        submission = submission.lane(lane);
    }
    if let Some(key) = fields["idempotency_key"].as_str() {
        submission = submission.idempotency_key(key);
    }
    for (name, value) in fields["tags"].as_object().into_iter().flatten() {
        submission = submission.tag(name, value.as_str().unwrap_or_default());
    }
    if let Some(delay) = fields["delay_ms"].as_u64() {
        submission = submission.delay(Duration::from_millis(delay));
    }
    if fields["retry"].is_object() {
        submission = submission.retry(retry(&fields["retry"])?);
    }
    for budget in fields["budgets"].as_array().into_iter().flatten() {
        submission = match budget.as_str() {
            Some(name) => submission.budget(name),
            None => submission
                .budget_reserving(budget["name"].as_str().unwrap_or_default(), amounts(&budget["reserve"])),
        };
    }
    for capability in fields["capabilities"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        submission = submission.capability(capability);
    }
    Ok(submission)
}

fn retry(fields: &Value) -> Result<Retry, Error> {
    let mut retry = Retry::default();
    if let Some(max) = fields["max_retries"].as_u64() {
        retry.max_retries = max as u32;
    }
    if let Some(max) = fields["max_interruptions"].as_u64() {
        retry.max_interruptions = max as u32;
    }
    let number = |name: &str, default: i64| fields["backoff"][name].as_i64().unwrap_or(default);
    match fields["backoff"]["type"].as_str() {
        Some("fixed") => retry.backoff = Backoff::Fixed { delay_ms: number("delay_ms", 0) },
        Some(_) => {
            retry.backoff = Backoff::Exponential {
                initial_ms: number("initial_ms", 1000),
                multiplier: fields["backoff"]["multiplier"].as_f64().unwrap_or(2.0),
                max_ms: number("max_ms", 60_000),
                jitter: fields["backoff"]["jitter"].as_bool().unwrap_or(true),
            }
        }
        None => {}
    }
    Ok(retry)
}

/// Reads a flow.
pub fn flow(fields: &Value) -> Result<Flow, Error> {
    let mut flow = Flow::new();
    if let Some(name) = fields["name"].as_str() {
        flow = flow.name(name);
    }
    if let Some(key) = fields["idempotency_key"].as_str() {
        flow = flow.idempotency_key(key);
    }
    for node in fields["nodes"].as_array().into_iter().flatten() {
        let name = node["name"].as_str().unwrap_or_default();
        flow = flow.node(name, submission(node)?);
        let when = node["when"].as_str().and_then(EdgeCondition::parse).unwrap_or_default();
        for upstream in node["after"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            flow = flow.edge_when(upstream, name, when);
        }
        flow = match (node["policy"].as_str(), node["policy"]["quorum"].as_u64()) {
            (Some("any_of"), _) => flow.join(name, Join::any_of()),
            (_, Some(k)) => flow.join(name, Join::quorum(k as u32)),
            _ => flow,
        };
    }
    Ok(flow)
}
