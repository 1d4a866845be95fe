//! The page `/schedules`: schedules with their next times and their last runs.

use super::actions::simple;
use super::layout::{Page, Viewer, heading};
use super::parts::{address, duration, empty, labelled_state, maybe_ago, pager, path_part, user_text};
use crate::auth::Caller;
use crate::routes::HandlerResult;
use crate::wire::paging::{name_cursor, parse_name_cursor};
use crate::wire::query::Query;
use maud::{Markup, html};
use selvedge_core::schedule::times::Timing;
use selvedge_core::schedule::{Run, RunResult, RunSubject, Schedule, Template};
use selvedge_core::state::StateName;
use selvedge_core::{Name, Permission, Timestamp};

/// The number of schedules on a page.
const PAGE: u32 = 50;

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
        (heading(html! { "Schedules" }, html! { p.faint { "Times at which the engine submits by itself." } }))
        section #list data-live aria-label="Schedules" {
            @if schedules.is_empty() {
                (empty("No schedules", html! { p { "Save one with " code { "PUT /v1/schedules/{name}" } "." } }))
            } @else {
                div.table {
                    table {
                        thead {
                            tr {
                                th { "Schedule" } th { "State" } th { "Times" } th { "Submits" } th { "Next" } th { "Last run" }
                                th.number { "Fired" } th.number { "Skipped" } th.number { "Refused" } th { span.visually-hidden { "Actions" } }
                            }
                        }
                        tbody { @for schedule in &schedules { (row(schedule, now, may_operate)) } }
                    }
                }
            }
            (pager(cursor.map(|_| "/schedules".into()), next))
        }
    };
    Ok(Page::new("Schedules", "/schedules").live("/live").response(Some(&Viewer::of(&caller)), content))
}

fn row(schedule: &Schedule, now: Timestamp, may_operate: bool) -> Markup {
    let (name, spec, state) = (&schedule.name.name, &schedule.spec, &schedule.state);
    let times = schedule.times().filter(|_| !spec.paused);
    let next = times.and_then(|times| times.next_after(state.position));
    let submits = match &spec.submit {
        Template::Execution(draft) => draft.kind.to_string(),
        Template::Flow(draft) => format!("flow {}", draft.name.as_deref().unwrap_or("without a name")),
    };
    html! {
        tr {
            td { (user_text(name)) }
            td {
                @if spec.paused { (labelled_state(StateName::Held, "paused")) }
                @else { (labelled_state(StateName::Active, "active")) }
            }
            td.nowrap { (timing(&spec.timing)) }
            td { (user_text(&submits)) }
            td.nowrap { (maybe_ago(next, now)) }
            td { @if let Some(run) = state.runs.last() { (last_run(run)) } @else { span.faint { "none yet" } } }
            td.number { (state.fired) } td.number { (state.skipped) } td.number { (state.refused) }
            td { @if may_operate { (simple(&format!("POST /v1/schedules/{}/run", path_part(name)), "Run now", "Submitted.")) } }
        }
    }
}

fn timing(timing: &Timing) -> Markup {
    html! {
        @match timing {
            Timing::Cron { expression, time_zone } => { code { (user_text(expression)) } span.more { (time_zone) } }
            Timing::Interval { interval_ms } => { "every " (duration(*interval_ms)) }
        }
    }
}

fn last_run(run: &Run) -> Markup {
    html! {
        @match &run.result {
            RunResult::Started(RunSubject::Execution(id)) => (super::parts::execution_link(*id)),
            RunResult::Started(RunSubject::Flow(id)) => (super::parts::flow_link(*id)),
            RunResult::Skipped => span.faint { "skipped" },
            RunResult::Refused { detail, .. } => span.clip.user-text title=(detail) { "refused: " (detail) },
        }
    }
}
