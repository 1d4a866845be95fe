//! The page `/lanes`: lanes and quotas with their limits and their use.

use super::actions::simple;
use super::chart::bar;
use super::layout::{Page, Viewer, heading};
use super::parts::{
    COUNT_MAX, address, bounded, duration, empty, executions_link, labelled_state, pager, path_part,
    user_text,
};
use crate::auth::Caller;
use crate::routes::HandlerResult;
use crate::wire::paging::{name_cursor, parse_name_cursor};
use crate::wire::query::Query;
use maud::{Markup, html};
use selvedge_core::gate::{Config, GateKind, LaneState};
use selvedge_core::state::StateName;
use selvedge_core::{Name, Permission};
use selvedge_engine::GateView;

/// The number of lanes on a page, and of quotas.
const PAGE: u32 = 100;

/// `GET /lanes`
pub async fn page(caller: Caller, mut query: Query) -> HandlerResult {
    let cursor = query.text("cursor")?;
    query.finish()?;
    let after = cursor.as_deref().map(parse_name_cursor).transpose()?.map(|name| Name::trusted(&name));
    let namespace = &caller.namespace;
    let (lanes, more) = namespace.gates(GateKind::Lane, after.as_ref(), PAGE).await?;
    let (quotas, _) = namespace.gates(GateKind::Quota, None, PAGE).await?;
    let next = lanes.last().filter(|_| more);
    let next = next.map(|lane| address("/lanes", &[("cursor", &name_cursor(&lane.gate.name.name))]));
    let may_operate = caller.may(Permission::Operate);
    let content = html! {
        (heading(html! { "Lanes and quotas" }, html! { p.faint { "Queues of executions, and limits that executions share." } }))
        section #lanes data-live {
            h2 { "Lanes" }
            @if lanes.is_empty() { (empty("No lanes yet", html! { p { "A lane appears with its first execution or with " code { "PUT /v1/lanes/{name}" } "." } })) }
            @else { (lane_table(&lanes, may_operate)) }
            (pager(cursor.map(|_| "/lanes".into()), next))
        }
        section #quotas data-live {
            h2 { "Quotas" }
            @if quotas.is_empty() { (empty("No quotas", html! { p { "Configure one with " code { "PUT /v1/quotas/{name}" } "." } })) }
            @else { (quota_table(&quotas)) }
        }
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

fn lane_table(lanes: &[GateView], may_operate: bool) -> Markup {
    html! {
        div.table {
            table {
                thead {
                    tr {
                        th { "Lane" } th { "State" } th.number { "Waiting" } th.number { "Active" } th { "Concurrency" } th { "Rate" }
                        th.number { "Weight" } th { span.visually-hidden { "Actions" } }
                    }
                }
                tbody { @for lane in lanes { (lane_row(lane, may_operate)) } }
            }
        }
    }
}

fn lane_row(lane: &GateView, may_operate: bool) -> Markup {
    let name = &lane.gate.name.name;
    let config = lane.gate.config.clone().unwrap_or_default();
    let api = format!("POST /v1/lanes/{}", path_part(name));
    html! {
        tr {
            td { a href=(executions_link(&[("lane", name)])) { (user_text(name)) } }
            td { (lane_state(config.state)) }
            td.number { (bounded(lane.waiting, lane.waiting >= COUNT_MAX)) }
            td.number { (bounded(lane.active, lane.active >= COUNT_MAX)) }
            td { (concurrency(&config, lane.active)) }
            td.nowrap { (rate(&config)) }
            td.number { (config.weight.unwrap_or(1)) }
            td {
                @if may_operate {
                    @if config.state == LaneState::Active { (simple(&format!("{api}/pause"), "Pause", "Paused.")) }
                    @else { (simple(&format!("{api}/resume"), "Resume", "Resumed.")) }
                }
            }
        }
    }
}

fn quota_table(quotas: &[GateView]) -> Markup {
    html! {
        div.table {
            table {
                thead { tr { th { "Quota" } th.number { "Active" } th.number { "Held" } th { "Concurrency" } th { "Rate" } } }
                tbody {
                    @for quota in quotas {
                        @let config = quota.gate.config.clone().unwrap_or_default();
                        tr {
                            td { (user_text(&quota.gate.name.name)) }
                            td.number { (quota.active) }
                            td.number { (bounded(quota.waiting, quota.waiting >= COUNT_MAX)) }
                            td { (concurrency(&config, quota.active)) }
                            td.nowrap { (rate(&config)) }
                        }
                    }
                }
            }
        }
    }
}

fn concurrency(config: &Config, active: u64) -> Markup {
    html! {
        @match config.concurrency {
            None => span.faint { "no limit" },
            Some(limit) => {
                @let text = format!("{active} of {limit}");
                (text)
                (bar(active as f64 / f64::from(limit.max(1)), 0.0, None, &text))
            }
        }
    }
}

fn rate(config: &Config) -> Markup {
    html! {
        @match config.rate {
            None => span.faint { "no limit" },
            Some(rate) => { (rate.count) " in " (duration(rate.window_ms)) }
        }
    }
}
