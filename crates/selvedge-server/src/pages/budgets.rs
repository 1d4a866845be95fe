//! The page `/budgets`: budgets with their limits, what is used and what is reserved.

use super::actions::simple;
use super::attention::is_used_up;
use super::chart::bar;
use super::layout::{Page, Viewer, heading};
use super::parts::{address, duration, empty, labelled_state, maybe_ago, pager, path_part, user_text};
use crate::auth::Caller;
use crate::routes::HandlerResult;
use crate::wire::paging::{name_cursor, parse_name_cursor};
use crate::wire::query::Query;
use maud::{Markup, html};
use selvedge_core::amount::Amount;
use selvedge_core::gate::{GateKind, Limit};
use selvedge_core::state::StateName;
use selvedge_core::{Name, Permission, Timestamp};
use selvedge_engine::GateView;

/// The number of budgets on a page.
const PAGE: u32 = 50;

/// `GET /budgets`
pub async fn page(caller: Caller, mut query: Query) -> HandlerResult {
    let cursor = query.text("cursor")?;
    query.finish()?;
    let after = cursor.as_deref().map(parse_name_cursor).transpose()?.map(|name| Name::trusted(&name));
    let namespace = &caller.namespace;
    let (budgets, more) = namespace.gates(GateKind::Budget, after.as_ref(), PAGE).await?;
    let now = namespace.now().await?;
    let next = budgets.last().filter(|_| more);
    let next = next.map(|budget| address("/budgets", &[("cursor", &name_cursor(&budget.gate.name.name))]));
    let may_operate = caller.may(Permission::Operate);
    let content = html! {
        (heading(html! { "Budgets" }, html! { p.faint { "Amounts that executions may spend." } }))
        section #list data-live aria-label="Budgets" {
            @if budgets.is_empty() {
                (empty("No budgets", html! { p { "Configure one with " code { "PUT /v1/budgets/{name}" } "." } }))
            } @else {
                div.cards { @for budget in &budgets { (card(budget, now, may_operate)) } }
            }
            (pager(cursor.map(|_| "/budgets".into()), next))
        }
    };
    Ok(Page::new("Budgets", "/budgets").live("/live").response(Some(&Viewer::of(&caller)), content))
}

fn card(budget: &GateView, now: Timestamp, may_operate: bool) -> Markup {
    let (name, state) = (&budget.gate.name.name, &budget.gate.state);
    let config = budget.gate.config.clone().unwrap_or_default();
    html! {
        article.card.stack {
            div.heading {
                h2 { (user_text(name)) }
                @if is_used_up(budget) { (labelled_state(StateName::Failed, "used up")) }
                @else { (labelled_state(StateName::Completed, "has room")) }
            }
            @for (dimension, limit) in &config.limits { (usage(budget, dimension, *limit)) }
            p.faint {
                "Counted per " (config.scope.as_str()) " · at the limit: " (config.on_hard.as_str())
                @if let Some(period) = config.period_ms { " · every " (duration(period)) ", next reset " (maybe_ago(state.resets_at, now)) }
                @if budget.waiting > 0 { " · holds " (budget.waiting) }
            }
            @if may_operate { (simple(&format!("POST /v1/budgets/{}/reset", path_part(name)), "Reset the usage", "Reset.")) }
        }
    }
}

fn usage(budget: &GateView, dimension: &str, limit: Limit) -> Markup {
    let amount = |amounts: &selvedge_core::gate::Amounts| amounts.get(dimension).copied().unwrap_or_default();
    let (used, reserved) = (amount(&budget.gate.state.used), amount(&budget.gate.state.reserved));
    let whole = limit.hard.or(limit.soft);
    let share = |part: Amount| match whole.map(Amount::millionths) {
        Some(whole) if whole > 0 => part.millionths() as f64 / whole as f64,
        Some(_) | None => 0.0,
    };
    let label = match limit.hard {
        Some(hard) => format!("{used} of {hard}"),
        None => format!("{used}, no hard limit"),
    };
    let soft = limit.soft.filter(|_| limit.hard.is_some()).map(share);
    html! {
        div {
            div.heading { h3 { (user_text(dimension)) } span { (label) @if !reserved.is_zero() { ", " (reserved) " reserved" } } }
            (bar(share(used), share(reserved), soft, &label))
        }
    }
}
