//! Lanes, quotas and budgets: `routes::gates` and the files beside it.

use selvedge_api::schema::*;
use selvedge_core::gate::{BudgetScope, DIMENSIONS_MAX, LIMIT_MAX, LaneState, OnHard, WEIGHT_MAX};

pub fn shapes() -> Vec<(&'static str, Schema)> {
    vec![
        ("Lane", answer(lane())),
        ("LaneConfig", request(lane_config(false))),
        ("LanePatch", request(lane_config(true))),
        ("Quota", quota()),
        ("QuotaConfig", request(start_limits(false))),
        ("QuotaPatch", request(start_limits(true))),
        ("Budget", answer(budget())),
        ("BudgetConfig", request(budget_config(false))),
        ("BudgetPatch", request(budget_config(true))),
        ("Spent", spent()),
    ]
}

/// The limits on starts; in a patch the fields of a rate may be given alone.
fn start_limits(is_patch: bool) -> Vec<Field> {
    let (count, window) = (integer_within(0, LIMIT_MAX.into()), period());
    let rate = match is_patch {
        true => request(vec![optional("count", count), optional("window_ms", window)]),
        false => request(vec![always("count", count), always("window_ms", window)]),
    };
    let concurrency = integer_within(0, LIMIT_MAX.into()).about("The maximum number of active executions.");
    vec![
        optional("concurrency", concurrency),
        optional("rate", rate.about("The maximum number of starts in a sliding window.")),
    ]
}

fn lane_config(is_patch: bool) -> Vec<Field> {
    let state = word(LaneState::ALL.map(LaneState::as_str));
    let weight = "The share of the lane in claims from several lanes. Default: 1.";
    let mut fields = vec![optional("state", state.about("Default: active."))];
    fields.extend(start_limits(is_patch));
    fields.push(optional("weight", integer_within(1, WEIGHT_MAX.into()).about(weight)));
    fields
}

/// The fields that show the limits on starts.
fn shown_start_limits() -> Vec<Field> {
    let rate = answer(vec![always("count", count()), always("window_ms", integer())]);
    let retry_after = "The delay until a full window admits the next start.";
    vec![
        nullable("concurrency", count()),
        nullable("rate", rate),
        nullable("retry_after_ms", integer().about(retry_after)),
    ]
}

pub fn lane() -> Vec<Field> {
    let mut fields =
        vec![always("name", text()), always("state", word(LaneState::ALL.map(LaneState::as_str)))];
    fields.extend(shown_start_limits());
    fields.extend([
        always("weight", count()),
        always("configured", flag().about("False if the lane has the defaults.")),
        always("active", total()),
        always("waiting", total()),
    ]);
    fields
}

fn quota() -> Schema {
    let mut fields = vec![always("name", text())];
    fields.extend(shown_start_limits());
    fields.extend([always("active", total()), always("held", total())]);
    answer(fields)
}

fn budget_config(is_patch: bool) -> Vec<Field> {
    let limit = request(vec![optional("hard", amount()), optional("soft", amount())]);
    let limit = match is_patch {
        true => limit.or_null(),
        false => Schema(limit.0.with("minProperties", 1)),
    };
    let limits = map(limit).0.with("propertyNames", name().0).with("maxProperties", DIMENSIONS_MAX as i64);
    let about = "The limits by dimension. At hard nothing more starts; at soft there is an event.";
    let limits = Schema(limits).about(about);
    let period_about = "The usage is reset at the end of each period. Default: never.";
    let on_hard = word(OnHard::ALL.map(OnHard::as_str));
    vec![
        match is_patch {
            true => optional("limits", limits),
            false => always("limits", limits),
        },
        optional("scope", word(BudgetScope::ALL.map(BudgetScope::as_str)).about("Default: namespace.")),
        optional("period_ms", period().about(period_about)),
        optional("on_hard", on_hard.about("The effect on active executions. Default: hold.")),
    ]
}

/// The usage and reservations of a budget or of one of its parts.
fn usage() -> Vec<Field> {
    vec![
        always("usage", map(number())),
        always("reserved", map(number())),
        always("period", integer()),
        nullable("next_reset_at", time()),
    ]
}

pub fn budget() -> Vec<Field> {
    let limit = answer(vec![sometimes("hard", number()), sometimes("soft", number())]);
    let mut part = vec![nullable("part", text())];
    part.extend(usage());
    let mut fields = vec![
        always("name", text()),
        always("limits", map(limit)),
        always("scope", word(BudgetScope::ALL.map(BudgetScope::as_str))),
        nullable("period_ms", integer()),
        always("on_hard", word(OnHard::ALL.map(OnHard::as_str))),
    ];
    fields.extend(usage());
    fields.extend([
        always("held", total()),
        sometimes("parts", list(answer(part)).about("Each part, where the scope is flow or lane.")),
        sometimes("more_parts", flag().about("True if there are more parts than the answer lists.")),
    ]);
    fields
}

fn spent() -> Schema {
    answer(vec![
        nullable("budget", text()),
        nullable("part", text()),
        always("period", integer()),
        always("spent", map(number())),
    ])
}
