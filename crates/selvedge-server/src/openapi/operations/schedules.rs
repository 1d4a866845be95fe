//! Schedules: `routes::schedules`.

use crate::openapi::shapes::executions::duplicate;
use crate::wire::problem::Code;
use selvedge_api::description::{Description, operation};
use selvedge_api::schema::*;
use serde_json::json;

const TAG: &str = "Schedules";

#[rustfmt::skip]
pub fn operations() -> Vec<Description> {
    let removed = answer(vec![always("name", text()), always("removed", flag())]);
    let started = || answer(vec![sometimes("execution", shape("Execution")), sometimes("flow", shape("Flow")), always("duplicate", duplicate())]);
    let time_of = answer(vec![always("scheduled_at", time())]);
    let example = json!({ "cron": "30 6 * * mon-fri", "time_zone": "Europe/Berlin", "submit": { "execution": { "kind": "report" } } });
    vec![
        operation("get", "/v1/schedules", "list_schedules", "List schedules").about("Ordered by name.").paged().answers_page(shape("Schedule")),
        operation("get", "/v1/schedules/{name}", "get_schedule", "Get a schedule").answers(200, "The schedule.", shape("Schedule")).also([Code::NotFound, Code::InvalidField, Code::UnknownField]),
        operation("put", "/v1/schedules/{name}", "put_schedule", "Create or replace a schedule").about("With new times, or when it is resumed, it begins with the first time from now on.").body(shape("ScheduleSpec"), example)
            .answers(201, "The new schedule.", shape("Schedule")).answers(200, "The changed schedule.", shape("Schedule")).also([Code::Cycle, Code::UnknownNode]),
        operation("patch", "/v1/schedules/{name}", "patch_schedule", "Change some settings of a schedule").about("A JSON merge patch (RFC 7396): null removes a setting. Pauses and resumes with `paused`.").merge_patch(shape("SchedulePatch"), json!({ "paused": true }))
            .answers(200, "The changed schedule.", shape("Schedule")).also([Code::NotFound, Code::Cycle, Code::UnknownNode]),
        operation("delete", "/v1/schedules/{name}", "delete_schedule", "Delete a schedule").about("What it submitted stays.").answers(200, "It is deleted.", removed).also([Code::NotFound, Code::InvalidField]),
        operation("post", "/v1/schedules/{name}/run", "run_schedule", "Submit what a schedule submits, at once").about("Also if it is paused, and beside a run that lives.").repeatable().body_if_any(request(Vec::new()), json!({}))
            .answers(201, "The new execution or flow.", started()).answers(200, "That of the first call with the key.", started()).also([Code::NotFound, Code::LaneDraining, Code::UnknownBudget, Code::UnknownQuota]),
        operation("get", "/v1/schedules/{name}/next", "next_times", "List the next times of a schedule").about("Without jitter, and also of a paused one.").query("count", integer_within(1, 1000), "The number of times. Default: 10.")
            .answers_page(time_of).also([Code::NotFound]),
        operation("get", "/v1/schedules/{name}/runs", "list_runs", "List the last runs of a schedule").about("At most 20, newest first, with the state of what they submitted.").answers_page(shape("ScheduleRun")).also([Code::NotFound, Code::InvalidField, Code::UnknownField]),
    ].into_iter().map(|operation| operation.tag(TAG)).collect()
}
