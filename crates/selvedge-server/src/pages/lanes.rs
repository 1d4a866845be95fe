//! The page `/lanes`: lanes and quotas with their limits and their use, and the forms that change them.

use super::frame::layout::{Page, Viewer, heading};
use super::parts::actions::simple;
use super::parts::chart::bar;
use super::parts::forms::{
    Dialog, call_button, change_button, create_button, duration_field, duration_text, limit_field,
    name_field, weight_field,
};
use super::parts::table::{actions_column, table_of};
use super::parts::{
    COUNT_MAX, address, bounded, duration, empty, executions_link, labelled_state, name_pager, path_part,
    user_text,
};
use crate::auth::Caller;
use crate::routes::HandlerResult;
use crate::wire::paging::{name_cursor, parse_name_cursor};
use crate::wire::query::Query;
use maud::{Markup, html};
use selvedge_core::gate::{Config, Gate, GateKind, LaneState, Rate};
use selvedge_core::state::StateName;
use selvedge_core::{Name, Permission, Timestamp};
use selvedge_engine::GateView;
use serde_json::json;

/// The number of lanes on a page, and of quotas.
const PAGE: u32 = 100;

/// `GET /lanes`
pub async fn page(caller: Caller, mut query: Query) -> HandlerResult {
    let (cursor, quota_cursor) = (query.text("cursor")?, query.text("quota_cursor")?);
    query.finish()?;
    let after = |cursor: &Option<String>| {
        cursor.as_deref().map(parse_name_cursor).transpose().map(|name| name.map(|name| Name::trusted(&name)))
    };
    let namespace = &caller.namespace;
    let (lanes, more_lanes) = namespace.gates(GateKind::Lane, after(&cursor)?.as_ref(), PAGE).await?;
    let (quotas, more_quotas) =
        namespace.gates(GateKind::Quota, after(&quota_cursor)?.as_ref(), PAGE).await?;
    let now = namespace.now().await?;
    let next = |found: &[GateView], more: bool, name: &str| {
        let last = found.last().filter(|_| more)?;
        Some(address("/lanes", &[(name, &name_cursor(&last.gate.name.name))]))
    };
    let may_operate = caller.may(Permission::Operate);
    let content = html! {
        (heading(html! { "Lanes and quotas" }, html! { p.faint { "Queues of executions, and limits that executions share." } }))
        section aria-labelledby="lanes-title" {
            div.heading { h2 #lanes-title { "Lanes" } @if may_operate { (create_button("lane-dialog", "New lane")) } }
            div #lanes data-live {
                @if lanes.is_empty() { (empty("No lanes yet", html! { p { "A lane appears with its first execution or with " code { "PUT /v1/lanes/{name}" } "." } })) }
                @else { (lane_table(&lanes, now, may_operate)) }
                (name_pager(cursor.map(|_| "/lanes".into()), next(&lanes, more_lanes, "cursor")))
            }
        }
        section aria-labelledby="quotas-title" {
            div.heading { h2 #quotas-title { "Quotas" } @if may_operate { (create_button("quota-dialog", "New quota")) } }
            div #quotas data-live {
                @if quotas.is_empty() {
                    (empty("No quotas", html! { p { "A quota limits all executions that name it, in any lane. Create one here or with " code { "PUT /v1/quotas/{name}" } "." } }))
                } @else { (quota_table(&quotas, now, may_operate)) }
                (name_pager(quota_cursor.map(|_| "/lanes".into()), next(&quotas, more_quotas, "quota_cursor")))
            }
        }
        @if may_operate { (dialogs()) }
    };
    Ok(Page::new("Lanes and quotas", "/lanes").live("/live").response(Some(&Viewer::of(&caller)), content))
}

/// Shows the state of a lane.
pub fn lane_state(state: LaneState) -> Markup {
    match state {
        LaneState::Active => labelled_state(StateName::Active, "active"),
        LaneState::Paused => labelled_state(StateName::Held, "paused"),
        LaneState::Draining => labelled_state(StateName::Suspended, "draining"),
    }
}

fn lane_table(lanes: &[GateView], now: Timestamp, may_operate: bool) -> Markup {
    let columns = html! {
        th { "Lane" } th { "State" } th.number { "Waiting" } th.number { "Active" } th { "Concurrency" }
        th { "Rate" } th.number { "Weight" } @if may_operate { (actions_column()) }
    };
    table_of(columns, html! { @for lane in lanes { (lane_row(lane, now, may_operate)) } })
}

fn lane_row(lane: &GateView, now: Timestamp, may_operate: bool) -> Markup {
    let name = &lane.gate.name.name;
    let config = lane.gate.config.clone().unwrap_or_default();
    html! {
        tr {
            td { a href=(executions_link(&[("lane", name)])) { (user_text(name)) } }
            td { (lane_state(config.state)) }
            td.number { (bounded(lane.waiting, lane.waiting >= COUNT_MAX)) }
            td.number { (bounded(lane.active, lane.active >= COUNT_MAX)) }
            td { (concurrency(&config, lane.active)) }
            td.nowrap { (rate(&lane.gate, &config, now)) }
            td.number { (config.weight.unwrap_or(1)) }
            @if may_operate { td { div.row-actions { (lane_actions(name, &config, lane.gate.config.is_some())) } } }
        }
    }
}

fn lane_actions(name: &Name, config: &Config, is_configured: bool) -> Markup {
    let api = format!("/v1/lanes/{}", path_part(name));
    let drains = format!(
        "Drain the lane {name}? Submissions to it are refused until it is resumed. What is in it still runs."
    );
    let reset = json!({ "call": format!("DELETE {api}"), "confirm": format!("Give the lane {name} its defaults back? It is active and has no limits then.") });
    let fill = json!({
        "call": format!("PATCH {api}"),
        "title": format!("Change the lane {name}"),
        "values": {
            "name": name, "concurrency": config.concurrency, "weight": config.weight,
            "rate.count": config.rate.map(|rate| rate.count), "rate.window_ms": config.rate.map(|rate| duration_text(rate.window_ms)),
        },
        "calls": { "remove": if is_configured { reset } else { serde_json::Value::Null } },
    });
    html! {
        @if config.state == LaneState::Active { (simple(&format!("POST {api}/pause"), "Pause", "Paused.")) }
        @else { (simple(&format!("POST {api}/resume"), "Resume", "Resumed.")) }
        @if config.state != LaneState::Draining {
            (call_button(&format!("PATCH {api}"), "Drain", "Draining.", Some(&drains), &[("state", "draining")]))
        }
        (change_button("lane-dialog", "Change", name, &fill))
    }
}

fn quota_table(quotas: &[GateView], now: Timestamp, may_operate: bool) -> Markup {
    let columns = html! {
        th { "Quota" } th.number { "Active" } th.number { "Held" } th { "Concurrency" } th { "Rate" }
        @if may_operate { (actions_column()) }
    };
    let rows = html! {
        @for quota in quotas {
            @let config = quota.gate.config.clone().unwrap_or_default();
            tr {
                td { (user_text(&quota.gate.name.name)) }
                td.number { (quota.active) }
                td.number { (bounded(quota.waiting, quota.waiting >= COUNT_MAX)) }
                td { (concurrency(&config, quota.active)) }
                td.nowrap { (rate(&quota.gate, &config, now)) }
                @if may_operate { td { div.row-actions { (quota_actions(&quota.gate.name.name, &config)) } } }
            }
        }
    };
    table_of(columns, rows)
}

fn quota_actions(name: &Name, config: &Config) -> Markup {
    let api = format!("/v1/quotas/{}", path_part(name));
    let confirm = format!("Delete the quota {name}? Executions that name it are no longer limited by it.");
    let fill = json!({
        "call": format!("PUT {api}"),
        "title": format!("Change the quota {name}"),
        "values": {
            "name": name, "concurrency": config.concurrency,
            "rate.count": config.rate.map(|rate| rate.count), "rate.window_ms": config.rate.map(|rate| duration_text(rate.window_ms)),
        },
        "calls": { "remove": { "call": format!("DELETE {api}"), "confirm": confirm } },
    });
    html! { (change_button("quota-dialog", "Change", name, &fill)) }
}

fn dialogs() -> Markup {
    let limits = || {
        html! {
            (limit_field("Concurrency", "The most executions that are active at the same time.", "concurrency"))
            div.pair {
                (limit_field("Starts", "The most starts in any window.", "rate.count"))
                (duration_field("Window", "The length of the window.", "rate.window_ms"))
            }
        }
    };
    html! {
        (Dialog { creates: true, remove: Some("Reset to the defaults"), ..Dialog::new("lane-dialog", "New lane", "PUT /v1/lanes/{name}") }.with(html! {
            (name_field("Executions name it when they are submitted."))
            (limits())
            (weight_field("Its share of claims that ask for several lanes."))
        }))
        (Dialog { creates: true, remove: Some("Delete"), ..Dialog::new("quota-dialog", "New quota", "PUT /v1/quotas/{name}") }.with(html! {
            (name_field("Executions name it when they are submitted."))
            (limits())
        }))
    }
}

fn concurrency(config: &Config, active: u64) -> Markup {
    html! {
        @match config.concurrency {
            None => span.faint { "no limit" },
            Some(limit) => {
                @let text = format!("{active} of {limit}");
                (text)
                (bar(active as f64 / f64::from(limit.max(1)), &text))
            }
        }
    }
}

/// Shows a rate, and the starts of the current window.
fn rate(gate: &Gate, config: &Config, now: Timestamp) -> Markup {
    let Some(rate) = config.rate else { return html! { span.faint { "no limit" } } };
    let Rate { count, window_ms } = rate;
    let started = count.saturating_sub(gate.state.starts.room(rate, now));
    let label = format!("{started} of {count} starts in the last {}", duration(window_ms));
    html! {
        span title=(label) { (count) " in " (duration(window_ms)) }
        (bar(f64::from(started) / f64::from(count.max(1)), &label))
    }
}
