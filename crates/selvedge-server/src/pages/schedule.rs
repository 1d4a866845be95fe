//! The page `/schedules/{name}`: the next times of a schedule, its last runs, and what it submits.

use super::frame::layout::{Page, Viewer, heading};
use super::parts::payload::payload;
use super::parts::table::table_of;
use super::parts::{ago, duration, empty, path_part, user_text};
use super::schedules::{actions, dialog, run_result, schedule_state, timing};
use crate::auth::Caller;
use crate::routes::HandlerResult;
use crate::wire::path::PathName;
use crate::wire::query::Query;
use jiff::tz::TimeZone;
use maud::{Markup, html};
use selvedge_api::times;
use selvedge_core::schedule::Schedule;
use selvedge_core::schedule::times::Timing;
use selvedge_core::{Permission, Timestamp};
use selvedge_engine::RunView;

/// The number of next times that the page shows.
const NEXT_SHOWN: usize = 10;

/// `GET /schedules/{name}`
pub async fn page(caller: Caller, PathName(name): PathName, query: Query) -> HandlerResult {
    query.finish()?;
    let namespace = &caller.namespace;
    let schedule = namespace.schedule(&name).await?;
    let runs = namespace.schedule_runs(&name).await?;
    let now = namespace.now().await?;
    let may_operate = caller.may(Permission::Operate);
    let api = format!("/v1/schedules/{}", path_part(&name));
    let content = html! {
        (heading(html! { (user_text(&name)) }, html! { p.crumbs { a href="/schedules" { "Schedules" } " / " (user_text(&name)) } }))
        section.card #facts data-live aria-label="Facts" { (facts(&schedule)) }
        @if may_operate { div.actions.needs-script #actions data-live { (actions(&schedule, true)) } }
        div.columns {
            section #next data-live {
                div.heading { h2 { "Next times" } a href=(format!("{api}/next")) { "as JSON" } }
                (next_times(&schedule, now))
            }
            section #runs data-live { h2 { "Last runs" } (run_table(&runs, now)) }
        }
        section { h2 { "Submits" } (payload(schedule.spec.submit_text.as_deref().unwrap_or("null").as_bytes(), &api)) }
        @if may_operate { (dialog()) }
    };
    Ok(Page::new(&name, "/schedules").live("/live").response(Some(&Viewer::of(&caller)), content))
}

fn facts(schedule: &Schedule) -> Markup {
    let (spec, state) = (&schedule.spec, &schedule.state);
    html! {
        dl.facts {
            div { dt { "State" } dd { (schedule_state(schedule)) } }
            div { dt { "Times" } dd { (timing(&spec.timing)) } }
            div { dt { "If the last one still runs" } dd { (spec.overlap.as_str()) } }
            div { dt { "Missed times" } dd { (spec.catch_up.as_str()) } }
            div { dt { "Jitter" } dd { @if spec.jitter_ms == 0 { "none" } @else { "up to " (duration(spec.jitter_ms)) } } }
            div { dt { "Fired" } dd { (state.fired) } }
            div { dt { "Skipped" } dd { (state.skipped) } }
            div { dt { "Refused" } dd { (state.refused) } }
            div { dt { "In the queue" } dd { (state.queue.len()) } }
        }
    }
}

fn next_times(schedule: &Schedule, now: Timestamp) -> Markup {
    if schedule.spec.paused {
        return empty("Paused", html! { p { "No time fires until it is resumed." } });
    }
    let zone = match &schedule.spec.timing {
        Timing::Cron { time_zone, .. } if time_zone != "UTC" => TimeZone::get(time_zone).ok(),
        Timing::Cron { .. } | Timing::Interval { .. } => None,
    };
    let local = |at: Timestamp| {
        let at = jiff::Timestamp::from_millisecond(at.millis()).ok()?;
        Some(at.to_zoned(zone.clone()?).strftime("%a %Y-%m-%d %H:%M %Z").to_string())
    };
    let columns = html! { th { "In" } th { "Time, UTC" } @if zone.is_some() { th { "Local time" } } };
    let rows = html! {
        @for at in schedule.next_times(now, NEXT_SHOWN) {
            tr { td.nowrap { (ago(at, now)) } td.nowrap { (minute(at)) } @if let Some(local) = local(at) { td.nowrap { (local) } } }
        }
    };
    table_of(columns, rows)
}

/// Shows a time, without seconds if they are zero.
fn minute(at: Timestamp) -> Markup {
    let text = times::text(at);
    let shown = text[..19].replace('T', " ");
    html! { time datetime=(text) title=(text) { (shown.strip_suffix(":00").unwrap_or(&shown)) } }
}

fn run_table(runs: &[RunView], now: Timestamp) -> Markup {
    if runs.is_empty() {
        return empty(
            "No run yet",
            html! { p { "The first one starts at the next time, or with “Run now”." } },
        );
    }
    let columns = html! { th { "Time" } th { "Started" } th { "State" } th { "By" } };
    let rows = html! {
        @for view in runs {
            tr {
                td.nowrap { (ago(view.run.at, now)) }
                td { (run_result(&view.run)) }
                td { @if let Some((state, _)) = view.state { (super::parts::words(state)) } }
                td { @if view.run.manual { "a person" } @else { "the schedule" } }
            }
        }
    };
    table_of(columns, rows)
}

#[cfg(test)]
mod tests {
    use super::minute;
    use selvedge_core::Timestamp;

    #[test]
    fn a_full_hour_keeps_its_minutes() {
        for (ms, shown) in [
            (1_795_053_600_000, "2026-11-19 02:00"),
            (1_795_053_660_000, "2026-11-19 02:01"),
            (1_795_053_601_000, "2026-11-19 02:00:01"),
            (1_795_046_400_000, "2026-11-19 00:00"),
        ] {
            let markup = minute(Timestamp::from_millis(ms)).into_string();
            assert!(markup.contains(&format!(">{shown}</time>")), "{shown}: {markup}");
        }
    }
}
