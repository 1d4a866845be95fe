//! Lanes, quotas and budgets: `routes::lanes`, `routes::quotas` and `routes::budgets`.

use crate::openapi::shapes::executions::duplicate;
use crate::openapi::shapes::limits;
use crate::wire::problem::Code;
use selvedge_api::description::{Description, operation};
use selvedge_api::schema::*;
use serde_json::json;

const TAG: &str = "Limits";

pub fn operations() -> Vec<Description> {
    let mut operations = lanes();
    operations.extend(quotas());
    operations.extend(budgets());
    operations.into_iter().map(|operation| operation.tag(TAG)).collect()
}

fn removed() -> Schema {
    answer(vec![always("name", text()), always("removed", flag())])
}

#[rustfmt::skip]
fn lanes() -> Vec<Description> {
    let changed = || [limits::lane(), vec![always("duplicate", duplicate())]].concat();
    vec![
        operation("get", "/v1/lanes", "list_lanes", "List lanes").about("Configured lanes, and lanes that have had a submission, ordered by name.").paged().answers_page(shape("Lane")),
        operation("get", "/v1/lanes/{name}", "get_lane", "Get a lane").answers(200, "The lane.", shape("Lane")).also([Code::NotFound, Code::InvalidField, Code::UnknownField]),
        operation("put", "/v1/lanes/{name}", "put_lane", "Configure a lane").body(shape("LaneConfig"), json!({ "concurrency": 10, "rate": { "count": 100, "window_ms": 60_000 } }))
            .answers(201, "The new lane.", shape("Lane")).answers(200, "The changed lane.", shape("Lane")),
        operation("patch", "/v1/lanes/{name}", "patch_lane", "Change some settings of a lane").about("A JSON merge patch (RFC 7396): null lifts a limit.").merge_patch(shape("LanePatch"), json!({ "concurrency": null, "weight": 3 }))
            .answers(200, "The changed lane.", shape("Lane")),
        operation("delete", "/v1/lanes/{name}", "remove_lane", "Reset a lane to the defaults").answers(200, "It has the defaults.", removed()).also([Code::NotFound, Code::InvalidField]),
        operation("post", "/v1/lanes/{name}/pause", "pause_lane", "Pause a lane").repeatable().body_if_any(request(Vec::new()), json!({})).answers(200, "The lane.", answer(changed())),
        operation("post", "/v1/lanes/{name}/resume", "resume_lane", "Make a paused or draining lane active").repeatable().body_if_any(request(Vec::new()), json!({})).answers(200, "The lane.", answer(changed())),
    ]
}

#[rustfmt::skip]
fn quotas() -> Vec<Description> {
    vec![
        operation("get", "/v1/quotas", "list_quotas", "List quotas").paged().answers_page(shape("Quota")),
        operation("get", "/v1/quotas/{name}", "get_quota", "Get a quota").answers(200, "The quota.", shape("Quota")).also([Code::NotFound, Code::InvalidField, Code::UnknownField]),
        operation("put", "/v1/quotas/{name}", "put_quota", "Configure a quota").body(shape("QuotaConfig"), json!({ "rate": { "count": 10, "window_ms": 1000 } }))
            .answers(201, "The new quota.", shape("Quota")).answers(200, "The changed quota.", shape("Quota")),
        operation("patch", "/v1/quotas/{name}", "patch_quota", "Change some settings of a quota").about("A JSON merge patch (RFC 7396): null lifts a limit.").merge_patch(shape("QuotaPatch"), json!({ "concurrency": 5 }))
            .answers(200, "The changed quota.", shape("Quota")).also([Code::NotFound]),
        operation("delete", "/v1/quotas/{name}", "remove_quota", "Remove a quota").about("It no longer limits the executions that refer to it.").answers(200, "It is removed.", removed()).also([Code::NotFound, Code::InvalidField]),
    ]
}

#[rustfmt::skip]
fn budgets() -> Vec<Description> {
    let usage = request(vec![
        always("usage", amounts()),
        optional("dedup_key", key().about("Default: the header Idempotency-Key.")),
        optional("execution", id().about("The execution that used it.")),
    ]);
    let counted = answer(vec![
        always("duplicate", duplicate()),
        always("breached", list(text()).about("The dimensions whose hard limit is reached.")),
        always("budget", shape("Budget")),
    ]);
    let reset = answer(vec![always("budget", shape("Budget")), always("duplicate", duplicate())]);
    vec![
        operation("get", "/v1/budgets", "list_budgets", "List budgets").paged().answers_page(shape("Budget")),
        operation("get", "/v1/budgets/{name}", "get_budget", "Get a budget").answers(200, "The budget.", shape("Budget")).also([Code::NotFound, Code::InvalidField, Code::UnknownField]),
        operation("put", "/v1/budgets/{name}", "put_budget", "Configure a budget").body(shape("BudgetConfig"), json!({ "limits": { "tokens": { "hard": 100_000, "soft": 80_000 } }, "period_ms": 86_400_000 }))
            .answers(201, "The new budget.", shape("Budget")).answers(200, "The changed budget.", shape("Budget")).also([Code::WrongState]),
        operation("patch", "/v1/budgets/{name}", "patch_budget", "Change some settings of a budget").about("A JSON merge patch (RFC 7396): null lifts a limit.").merge_patch(shape("BudgetPatch"), json!({ "limits": { "tokens": { "hard": 200_000 } } }))
            .answers(200, "The changed budget.", shape("Budget")).also([Code::NotFound]),
        operation("delete", "/v1/budgets/{name}", "remove_budget", "Remove a budget").about("It no longer limits the executions that draw on it.").answers(200, "It is removed.", removed()).also([Code::NotFound, Code::InvalidField]),
        operation("post", "/v1/budgets/{name}/usage", "report_usage", "Report usage of a budget").repeatable().body(usage, json!({ "usage": { "tokens": 1234 }, "dedup_key": "call-1" }))
            .answers(200, "The budget.", counted).also([Code::NotFound]),
        operation("post", "/v1/budgets/{name}/reset", "reset_budget", "Reset the usage of a budget").repeatable().body_if_any(request(Vec::new()), json!({}))
            .answers(200, "The budget.", reset).also([Code::NotFound]),
    ]
}
