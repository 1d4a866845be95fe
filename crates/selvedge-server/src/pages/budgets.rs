//! The page `/budgets`: budgets with their limits, what is used and what is reserved, and the form that changes them.

use super::attention::is_used_up;
use super::chart::bar;
use super::forms::{
    Dialog, call_button, change_button, choice, create_button, duration_field, duration_text, name_field,
};
use super::layout::{Page, Viewer, heading_with};
use super::parts::{
    address, duration, empty, executions_link, labelled_state, maybe_ago, name_pager, number, path_part,
    short, user_text,
};
use crate::auth::Caller;
use crate::routes::HandlerResult;
use crate::wire::paging::{name_cursor, parse_name_cursor};
use crate::wire::query::Query;
use maud::{Markup, html};
use selvedge_core::amount::Amount;
use selvedge_core::gate::{Amounts, BudgetScope, Config, Gate, GateKind, GateState, Limit, OnHard};
use selvedge_core::state::StateName;
use selvedge_core::{Name, Permission, Timestamp};
use selvedge_engine::GateView;
use serde_json::{Value, json};

/// The number of budgets on a page.
const PAGE: u32 = 50;
/// The most parts of a budget that are read, and that are shown.
const PARTS_READ: u32 = 100;
const PARTS_SHOWN: usize = 5;

/// `GET /budgets`
pub async fn page(caller: Caller, mut query: Query) -> HandlerResult {
    let cursor = query.text("cursor")?;
    query.finish()?;
    let after = cursor.as_deref().map(parse_name_cursor).transpose()?.map(|name| Name::trusted(&name));
    let namespace = &caller.namespace;
    let (budgets, more) = namespace.gates(GateKind::Budget, after.as_ref(), PAGE).await?;
    let now = namespace.now().await?;
    let mut parts = Vec::new();
    for budget in &budgets {
        parts.push(match budget.gate.config.as_ref().map(|config| config.scope) {
            None | Some(BudgetScope::Namespace) => None,
            Some(BudgetScope::Flow | BudgetScope::Lane) => {
                Some(namespace.some_budget_parts(&budget.gate.name.name, PARTS_READ).await?)
            }
        });
    }
    let next = budgets.last().filter(|_| more);
    let next = next.map(|budget| address("/budgets", &[("cursor", &name_cursor(&budget.gate.name.name))]));
    let may_operate = caller.may(Permission::Operate);
    let content = html! {
        (heading_with(
            html! { "Budgets" },
            html! { p.faint { "Amounts that executions may spend, such as tokens or money." } },
            html! { @if may_operate { (create_button("budget-dialog", "New budget")) } },
        ))
        section #list data-live aria-label="Budgets" {
            @if budgets.is_empty() {
                (empty("No budgets", html! { p { "Create one here or with " code { "PUT /v1/budgets/{name}" } "." } }))
            } @else {
                div.cards { @for (budget, parts) in budgets.iter().zip(&parts) { (card(budget, parts.as_deref(), now, may_operate)) } }
            }
            (name_pager(cursor.map(|_| "/budgets".into()), next))
        }
        @if may_operate { (dialog()) }
    };
    Ok(Page::new("Budgets", "/budgets").live("/live").response(Some(&Viewer::of(&caller)), content))
}

fn card(budget: &GateView, parts: Option<&[Gate]>, now: Timestamp, may_operate: bool) -> Markup {
    let (name, state) = (&budget.gate.name.name, &budget.gate.state);
    let config = budget.gate.config.clone().unwrap_or_default();
    html! {
        article.card.stack {
            div.heading {
                h2 { (user_text(name)) }
                @if let Some(parts) = parts { span.faint { (number(parts.len() as u64)) @if parts.len() >= PARTS_READ as usize { " or more" } " counted" } }
                @else if is_used_up(budget) { (labelled_state(StateName::Failed, "used up")) }
                @else { (labelled_state(StateName::Completed, "has room")) }
            }
            @match parts {
                None => @for (dimension, limit) in &config.limits { (usage(&budget.gate.state, dimension, *limit)) },
                Some(parts) => (part_table(parts, &config, name)),
            }
            p.faint {
                "Counted per " (config.scope.as_str()) " · at the limit: " (config.on_hard.as_str())
                @if let Some(period) = config.period_ms { " · every " (duration(period)) ", next reset " (maybe_ago(state.resets_at, now)) }
                @if budget.waiting > 0 { " · holds " (budget.waiting) }
            }
            @if may_operate { div.actions { (actions(name, &config)) } }
        }
    }
}

fn actions(name: &Name, config: &Config) -> Markup {
    let api = format!("/v1/budgets/{}", path_part(name));
    let amount = |amount: Option<Amount>| amount.map(|amount| amount.to_string());
    let limits = config.limits.iter().map(|(dimension, limit)| {
        (dimension.clone(), json!({ "soft": amount(limit.soft), "hard": amount(limit.hard) }))
    });
    let limits: serde_json::Map<String, Value> = limits.collect();
    let confirm = format!(
        "Delete the budget {name}? What it counted is lost, and executions that name it are no longer limited."
    );
    let fill = json!({
        "call": format!("PUT {api}"),
        "title": format!("Change the budget {name}"),
        "values": {
            "name": name, "limits": limits, "scope": config.scope.as_str(), "on_hard": config.on_hard.as_str(),
            "period_ms": config.period_ms.map(duration_text),
        },
        "calls": { "remove": { "call": format!("DELETE {api}"), "confirm": confirm } },
    });
    let resets = format!("Set the usage of the budget {name} to zero? Executions that it holds may start.");
    html! {
        (change_button("budget-dialog", "Change", name, &fill))
        (call_button(&format!("POST {api}/reset"), "Reset the usage", "Reset.", Some(&resets), &[]))
    }
}

fn dialog() -> Markup {
    let amount = |name: &str, label: &str| {
        html! { label { (label) input type="text" inputmode="decimal" data-row-field=(name) data-type="number" placeholder="no limit" autocomplete="off"; } }
    };
    let on_hard = OnHard::ALL.map(|word| match word {
        OnHard::Hold => (word.as_str(), "hold what would start"),
        OnHard::Suspend => (word.as_str(), "suspend what is active, too"),
        OnHard::Fail => (word.as_str(), "fail what is active"),
    });
    let scopes = BudgetScope::ALL.map(|word| match word {
        BudgetScope::Namespace => (word.as_str(), "the whole namespace together"),
        BudgetScope::Flow => (word.as_str(), "each flow on its own"),
        BudgetScope::Lane => (word.as_str(), "each lane on its own"),
    });
    let dialog = Dialog::new("budget-dialog", "New budget", "PUT /v1/budgets/{name}");
    Dialog { creates: true, remove: Some("Delete"), ..dialog }.with(html! {
        (name_field("Executions name it when they are submitted."))
        fieldset data-rows="limits" {
            legend { "Limits" }
            template {
                div.rows data-row {
                    label { "Dimension" input type="text" data-row-key placeholder="tokens" autocomplete="off" spellcheck="false"; }
                    (amount("soft", "Soft limit"))
                    (amount("hard", "Hard limit"))
                    button type="button" data-remove-row aria-label="Remove this dimension" { "Remove" }
                }
            }
            button type="button" data-add-row { "Add a dimension" }
            p.hint { "A soft limit only writes an event. At a hard limit nothing more starts." }
        }
        (duration_field("Period", "The usage begins again at zero after each period. Empty: never.", "period_ms"))
        (choice("At a hard limit", "", "on_hard", &on_hard))
        (choice("Count", "", "scope", &scopes))
    })
}

/// Shows the parts of a budget that is counted per flow or lane, those with the least room first.
fn part_table(parts: &[Gate], config: &Config, name: &Name) -> Markup {
    let share = |part: &Gate| {
        let shares = config.limits.iter().map(|(dimension, limit)| {
            let used = part.state.used.get(dimension).copied().unwrap_or_default();
            share_of(used, *limit)
        });
        shares.fold(0.0, f64::max)
    };
    let mut sorted: Vec<&Gate> = parts.iter().collect();
    sorted.sort_by(|one, other| share(other).total_cmp(&share(one)));
    html! {
        @if parts.is_empty() { p.faint { "Nothing was spent yet." } }
        @for part in sorted.iter().take(PARTS_SHOWN) {
            @let label = part.name.part.as_deref().unwrap_or_default();
            div {
                @match config.scope {
                    BudgetScope::Lane => h3 { a href=(executions_link(&[("lane", label)])) { (user_text(label)) } },
                    BudgetScope::Flow => h3 { a.id href=(format!("/flows/{}", path_part(label))) { (short(&label)) } },
                    BudgetScope::Namespace => h3 { (user_text(label)) },
                }
                @for (dimension, limit) in &config.limits { (usage(&part.state, dimension, *limit)) }
            }
        }
        @if parts.len() > PARTS_SHOWN { p.faint { "Those with the least room are shown; " a href=(format!("/v1/budgets/{}", path_part(name))) { "more as JSON" } "." } }
    }
}

/// Returns the part of the limit that an amount is, from 0.
fn share_of(part: Amount, limit: Limit) -> f64 {
    match limit.hard.or(limit.soft).map(Amount::millionths) {
        Some(whole) if whole > 0 => part.millionths() as f64 / whole as f64,
        Some(_) | None => 0.0,
    }
}

fn usage(state: &GateState, dimension: &str, limit: Limit) -> Markup {
    let amount = |amounts: &Amounts| amounts.get(dimension).copied().unwrap_or_default();
    let (used, reserved) = (amount(&state.used), amount(&state.reserved));
    let share = |part: Amount| share_of(part, limit);
    let label = match limit.hard {
        Some(hard) => format!("{used} of {hard}"),
        None => format!("{used}, no hard limit"),
    };
    let soft = limit.soft.filter(|_| limit.hard.is_some()).map(share);
    html! {
        div {
            div.heading { span.dimension { (user_text(dimension)) } span { (label) @if !reserved.is_zero() { ", " (reserved) " reserved" } } }
            (bar(share(used), share(reserved), soft, &label))
        }
    }
}
