//! The page `/flows`: the list of flows.

use super::frame::layout::{Page, Viewer, heading};
use super::parts::table::table_of;
use super::parts::{address, ago, duration, empty, flow_link, flow_state, labelled_state, pager, user_text};
use crate::auth::Caller;
use crate::routes::HandlerResult;
use crate::routes::flows::read_filter;
use crate::wire::paging::{format_cursor, parse_cursor};
use crate::wire::query::Query;
use maud::{Markup, html};
use selvedge_core::filter::ListPosition;
use selvedge_core::flow::{Counts, FlowListPosition, FlowState};
use selvedge_core::state::StateName;
use selvedge_core::{ExecutionId, FlowId, Name, Timestamp};
use selvedge_engine::FlowView;

/// The number of flows on a page.
const PAGE: u32 = 50;

/// `GET /flows`
pub async fn page(caller: Caller, mut query: Query) -> HandlerResult {
    let filter = read_filter(caller.namespace.id(), &mut query)?;
    let cursor = query.text("cursor")?;
    query.finish()?;
    let after = cursor.as_deref().map(parse_cursor).transpose()?;
    let after =
        after.map(|place| FlowListPosition { submitted_at: place.submitted_at, id: FlowId(place.id.0) });
    let (flows, next) = caller.namespace.flows(&filter, after, PAGE).await?;
    let now = caller.namespace.now().await?;

    let state = filter.states.first().map_or("", |state| state.as_str());
    let name = filter.name.as_ref().map_or("", Name::as_str);
    let tag = filter.tag.as_deref().unwrap_or_default();
    let conditions: Vec<(&str, &str)> = [("state", state), ("name", name), ("tag", tag)]
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .collect();
    let next = next.map(|place| {
        let cursor =
            format_cursor(ListPosition { submitted_at: place.submitted_at, id: ExecutionId(place.id.0) });
        address("/flows", &[&conditions[..], &[("cursor", &cursor)]].concat())
    });
    let first = cursor.is_some().then(|| address("/flows", &conditions));
    let content = html! {
        (heading(html! { "Flows" }, html! { p.faint { "Executions connected by edges." } }))
        form.card.filters method="get" action="/flows" role="search" aria-label="Filter of flows" {
            label { "State"
                select name="state" data-submits {
                    option value="" { "any" }
                    @for known in FlowState::ALL { option value=(known.as_str()) selected[known.as_str() == state] { (known.as_str()) } }
                }
            }
            label { "Name" input type="text" name="name" value=(name) autocomplete="off" data-filter; }
            label { "Tag" input type="text" name="tag" value=(tag) placeholder="name:value" autocomplete="off"; }
            div.buttons {
                button.primary type="submit" { "Filter" }
                @if !conditions.is_empty() { a.button href="/flows" { "Clear" } }
            }
        }
        section #list data-live aria-label="Flows" { (table(&flows, now)) (pager(first, next)) }
    };
    let page = Page::new("Flows", "/flows");
    let page = if cursor.is_none() { page.live("/live") } else { page };
    Ok(page.response(Some(&Viewer::of(&caller)), content))
}

pub fn table(flows: &[FlowView], now: Timestamp) -> Markup {
    if flows.is_empty() {
        return empty("No flows", html! { p { "Submit one with " code { "POST /v1/flows" } "." } });
    }
    let columns = html! {
        th { "Flow" } th { "Name" } th { "State" } th { "Executions" } th { "Submitted" }
        th.number { "Took" }
    };
    let rows = html! {
        @for FlowView { flow, .. } in flows {
            tr {
                td.id { (flow_link(flow.id)) }
                td { @if let Some(name) = &flow.name { (user_text(name)) } }
                td { (flow_state(flow.state)) }
                td { (counts(&flow.counts)) }
                td.nowrap { (ago(flow.submitted_at, now)) }
                td.number.nowrap { (duration(flow.ended_at.unwrap_or(now).ms_since(flow.submitted_at))) }
            }
        }
    };
    table_of(columns, rows)
}

/// Shows how many members are in each state, those with none left out.
pub fn counts(counts: &Counts) -> Markup {
    html! {
        ul.legend {
            @for state in StateName::ALL.into_iter().filter(|state| counts.of(*state) > 0) {
                @let label = format!("{} {}", counts.of(state), super::parts::words(state.as_str()));
                li { (labelled_state(state, &label)) }
            }
        }
    }
}
