//! The page `/schedules`: schedules with their next times and their last runs, and the form that creates and changes them.

use super::frame::layout::{Page, Viewer, heading_with};
use super::parts::actions::simple;
use super::parts::forms::{
    Dialog, call_button, change_button, choice, create_button, duration_field, duration_text, field,
    name_field,
};
use super::parts::payload::indented;
use super::parts::table::{actions_column, table_of};
use super::parts::{address, duration, empty, labelled_state, maybe_ago, name_pager, path_part, user_text};
use crate::auth::Caller;
use crate::routes::HandlerResult;
use crate::wire::paging::{name_cursor, parse_name_cursor};
use crate::wire::query::Query;
use maud::{Markup, html};
use selvedge_core::schedule::times::Timing;
use selvedge_core::schedule::{CatchUp, Overlap, Run, RunResult, RunSubject, Schedule, Template};
use selvedge_core::state::StateName;
use selvedge_core::{Name, Permission, Timestamp};
use serde_json::json;

/// The number of schedules on a page.
const PAGE: u32 = 50;
/// The longest submission that a form is filled with, in bytes. A longer one is changed with the API.
const SUBMIT_MAX: usize = 16 * 1024;

/// `GET /schedules`
pub async fn page(caller: Caller, mut query: Query) -> HandlerResult {
    let cursor = query.text("cursor")?;
    query.finish()?;
    let after = cursor.as_deref().map(parse_name_cursor).transpose()?.map(|name| Name::trusted(&name));
    let (schedules, more) = caller.namespace.schedules(after.as_ref(), PAGE).await?;
    let now = caller.namespace.now().await?;
    let next = schedules.last().filter(|_| more);
    let next = next.map(|schedule| address("/schedules", &[("cursor", &name_cursor(&schedule.name.name))]));
    let may_operate = caller.may(Permission::Operate);
    let content = html! {
        (heading_with(
            html! { "Schedules" },
            html! { p.faint { "Times at which the engine submits by itself." } },
            html! { @if may_operate { (create_button("schedule-dialog", "New schedule")) } },
        ))
        section #list data-live aria-label="Schedules" {
            @if schedules.is_empty() {
                (empty("No schedules", html! { p { "Create one here or with " code { "PUT /v1/schedules/{name}" } "." } }))
            } @else { (table(&schedules, now, may_operate)) }
            (name_pager(cursor.map(|_| "/schedules".into()), next))
        }
        @if may_operate { (dialog()) }
    };
    Ok(Page::new("Schedules", "/schedules").live("/live").response(Some(&Viewer::of(&caller)), content))
}

fn table(schedules: &[Schedule], now: Timestamp, may_operate: bool) -> Markup {
    let columns = html! {
        th { "Schedule" } th { "State" } th { "Times" } th { "Submits" } th { "Next" } th { "Last run" }
        th.number { "Fired" } th.number { "Skipped" } th.number { "Refused" }
        @if may_operate { (actions_column()) }
    };
    table_of(columns, html! { @for schedule in schedules { (row(schedule, now, may_operate)) } })
}

fn row(schedule: &Schedule, now: Timestamp, may_operate: bool) -> Markup {
    let (name, spec, state) = (&schedule.name.name, &schedule.spec, &schedule.state);
    html! {
        tr {
            td { a href=(format!("/schedules/{}", path_part(name))) { (user_text(name)) } }
            td { (schedule_state(schedule)) }
            td.nowrap { (timing(&spec.timing)) }
            td { (user_text(&submits(schedule))) }
            td.nowrap { (maybe_ago(next_at(schedule), now)) }
            td { @if let Some(run) = state.runs.last() { (run_result(run)) } @else { span.faint { "none yet" } } }
            td.number { (state.fired) } td.number { (state.skipped) } td.number { (state.refused) }
            @if may_operate { td { div.row-actions { (actions(schedule, false)) } } }
        }
    }
}

/// Shows whether a schedule fires.
pub fn schedule_state(schedule: &Schedule) -> Markup {
    match schedule.spec.paused {
        true => labelled_state(StateName::Held, "paused"),
        false => labelled_state(StateName::Active, "active"),
    }
}

/// Returns the next time; none while the schedule is paused.
pub fn next_at(schedule: &Schedule) -> Option<Timestamp> {
    let times = schedule.times().filter(|_| !schedule.spec.paused);
    times.and_then(|times| times.next_after(schedule.state.position))
}

/// Names what a schedule submits.
pub fn submits(schedule: &Schedule) -> String {
    match &schedule.spec.submit {
        Template::Execution(draft) => draft.kind.to_string(),
        Template::Flow(draft) => format!("flow {}", draft.name.as_deref().unwrap_or("without a name")),
    }
}

/// Shows the buttons of a schedule. `is_own_page` leads back to the list when the schedule is deleted.
pub fn actions(schedule: &Schedule, is_own_page: bool) -> Markup {
    let (name, spec) = (&schedule.name.name, &schedule.spec);
    let api = format!("/v1/schedules/{}", path_part(name));
    let patch = format!("PATCH {api}");
    let (cron, zone, interval) = match &spec.timing {
        Timing::Cron { expression, time_zone } => (Some(expression), Some(time_zone), None),
        Timing::Interval { interval_ms } => (None, None, Some(duration_text(*interval_ms))),
    };
    let confirm = format!("Delete the schedule {name}? What it submitted stays.");
    let after = is_own_page.then_some("/schedules");
    let submit = spec.submit_text.as_deref().filter(|text| text.len() <= SUBMIT_MAX);
    let fill = json!({
        "call": patch,
        "title": format!("Change the schedule {name}"),
        "values": {
            "name": name, "timing": if cron.is_some() { "cron" } else { "interval" },
            "cron": cron, "time_zone": zone, "interval_ms": interval,
            "overlap": spec.overlap.as_str(), "catch_up": spec.catch_up.as_str(),
            "jitter_ms": if spec.jitter_ms == 0 { String::new() } else { duration_text(spec.jitter_ms) },
            "submit": submit.map(indented).unwrap_or_default(),
        },
        "calls": { "remove": { "call": format!("DELETE {api}"), "confirm": confirm, "after": after } },
    });
    html! {
        @if spec.paused { (call_button(&patch, "Resume", "Resumed.", None, &[("paused", "false")])) }
        @else { (call_button(&patch, "Pause", "Paused.", None, &[("paused", "true")])) }
        (simple(&format!("POST {api}/run"), "Run now", "Submitted."))
        (change_button("schedule-dialog", "Change", name, &fill))
    }
}

/// Shows the dialog that creates and changes schedules.
pub fn dialog() -> Markup {
    let overlaps = Overlap::ALL.map(|word| match word {
        Overlap::Allow => (word.as_str(), "start another beside it"),
        Overlap::Skip => (word.as_str(), "start none for this time"),
        Overlap::Queue => (word.as_str(), "start when it has ended"),
    });
    let catch_ups = CatchUp::ALL.map(|word| match word {
        CatchUp::None => (word.as_str(), "pass them"),
        CatchUp::One => (word.as_str(), "start one for the last of them"),
        CatchUp::All => (word.as_str(), "start one for each of them"),
    });
    let dialog = Dialog::new("schedule-dialog", "New schedule", "PUT /v1/schedules/{name}");
    Dialog { creates: true, remove: Some("Delete"), ..dialog }.with(html! {
        (name_field(""))
        label { "Times" select data-switch name="timing" data-path {
            option value="cron" { "cron expression" }
            option value="interval" { "interval" }
        } }
        div.pair data-shown-for="cron" {
            (field("Cron expression", "Minute, hour, day of month, month, day of week.", html! {
                input type="text" name="cron" data-empty="null" placeholder="0 3 * * *" autocomplete="off" spellcheck="false";
            }))
            (field("Time zone", "Default: UTC.", html! {
                input type="text" name="time_zone" data-empty="null" list="time-zones" placeholder="UTC" autocomplete="off" spellcheck="false";
                datalist #time-zones {}
            }))
        }
        div data-shown-for="interval" { (duration_field("Interval", "The time between two submissions.", "interval_ms")) }
        (field("Submission", "The execution or flow to submit, as JSON. Empty: as it is.", html! {
            textarea.code name="submit" data-type="json" rows="6" spellcheck="false" placeholder=("{\"execution\": {\"kind\": \"report\"}}") {}
        }))
        div.pair {
            (choice("If the last one still runs", "", "overlap", &overlaps))
            (choice("Times that were missed", "", "catch_up", &catch_ups))
        }
        (duration_field("Jitter", "Each start is delayed by a random time up to this. Empty: none.", "jitter_ms"))
    })
}

/// Shows the times of a schedule.
pub fn timing(timing: &Timing) -> Markup {
    html! {
        @match timing {
            Timing::Cron { expression, time_zone } => { code { (user_text(expression)) } span.more { (time_zone) } }
            Timing::Interval { interval_ms } => { "every " (duration(*interval_ms)) }
        }
    }
}

/// Shows what a run started, or why it started nothing.
pub fn run_result(run: &Run) -> Markup {
    html! {
        @match &run.result {
            RunResult::Started(RunSubject::Execution(id)) => (super::parts::execution_link(*id)),
            RunResult::Started(RunSubject::Flow(id)) => (super::parts::flow_link(*id)),
            RunResult::Skipped => span.faint { "skipped" },
            RunResult::Refused { detail, .. } => span.clip.user-text title=(detail) { "refused: " (detail) },
        }
    }
}
