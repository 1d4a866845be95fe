//! Schedules: `wire::schedule` and `routes::schedules`.

use selvedge_api::schema::*;
use selvedge_core::schedule::cron::EXPRESSION_LIMIT;
use selvedge_core::schedule::times::INTERVAL_MS;
use selvedge_core::schedule::{CatchUp, JITTER_MAX_MS, Overlap};
use serde_json::json;

pub fn shapes() -> Vec<(&'static str, Schema)> {
    vec![
        ("ScheduleSpec", request(spec(false)).needs_one_of(&["cron", "interval_ms"])),
        ("SchedulePatch", request(spec(true))),
        ("Schedule", schedule()),
        ("ScheduleRun", run()),
    ]
}

#[rustfmt::skip]
fn spec(is_patch: bool) -> Vec<Field> {
    let submit = request(vec![optional("execution", shape("Submission")), optional("flow", shape("FlowSubmission"))]);
    let submit_about = "The execution or the flow to submit, without an id and an idempotency key.";
    let (least, most) = (*INTERVAL_MS.start(), *INTERVAL_MS.end());
    vec![
        optional("cron", printable(EXPRESSION_LIMIT).about("Five fields: minute, hour, day of month, month, day of week. Not with interval_ms.")),
        optional("time_zone", text().default(json!("UTC")).about("The name of a zone in the IANA database; only with cron.")),
        optional("interval_ms", integer_within(least, most).about("The elapsed time between two runs. Not with cron.")),
        match is_patch {
            true => optional("submit", map(any()).about(submit_about)),
            false => always("submit", submit.needs_one_of(&["execution", "flow"]).about(submit_about)),
        },
        optional("overlap", word(Overlap::ALL.map(Overlap::as_str)).default(json!("allow")).about("The reaction if a run still lives.")),
        optional("catch_up", word(CatchUp::ALL.map(CatchUp::as_str)).default(json!("none")).about("The reaction to times that were missed by more than a minute.")),
        optional("jitter_ms", integer_within(0, JITTER_MAX_MS).default(json!(0)).about("The longest delay of a run; always less than the time until the next one.")),
        optional("paused", flag().default(json!(false)).about("True if no time fires.")),
    ]
}

fn schedule() -> Schema {
    answer(vec![
        always("name", text()),
        nullable("cron", text()),
        nullable("time_zone", text()),
        nullable("interval_ms", integer()),
        always("submit", any().about("As it was saved.")),
        always("overlap", word(Overlap::ALL.map(Overlap::as_str))),
        always("catch_up", word(CatchUp::ALL.map(CatchUp::as_str))),
        always("jitter_ms", integer()),
        always("paused", flag()),
        nullable("next_at", time().about("The next time that is not decided yet, without jitter.")),
        nullable("last_scheduled_at", time().about("The last time that was decided.")),
        always("queued", total().about("The number of times that wait for the end of a run.")),
        always("fired", total().about("The number of runs that started.")),
        always("skipped", total().about("The number of times for which none started.")),
        always("refused", total().about("The number of times whose submission was refused.")),
        always("version", count().about("Raised by every change.")),
        always("created_at", time()),
    ])
}

fn run() -> Schema {
    let error = answer(vec![always("code", text()), always("detail", text())]);
    answer(vec![
        always("scheduled_at", time()),
        always("decided_at", time()),
        always("manual", flag().about("True if a caller asked for it.")),
        always("result", word(["started", "skipped", "refused"])),
        nullable("execution", id()),
        nullable("flow", id()),
        nullable("state", text().about("The state of the execution or flow; null if it was deleted.")),
        nullable("outcome", text()),
        nullable("error", error.about("The refusal.")),
    ])
}
