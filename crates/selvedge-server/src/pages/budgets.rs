//! The page `/budgets`: budgets with their limits, what is used, what is reserved and what they hold, and the form that changes them.
//!
//! A budget with a scope has a part for each flow or lane. What was spent without an execution is in no part, and limits nothing.

use super::frame::layout::{Page, Viewer, heading_with};
use super::parts::chart::amount_bar;
use super::parts::forms::{
    Dialog, call_button, change_button, choice, create_button, duration_field, duration_text, name_field,
};
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
use selvedge_core::gate::{Amounts, BudgetScope, Config, GateKind, GateState, Limit, OnHard};
use selvedge_core::state::StateName;
use selvedge_core::{Name, Permission, Timestamp};
use selvedge_engine::GateView;
use serde_json::{Value, json};
use std::collections::BTreeMap;

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
                Some(namespace.budget_part_views(&budget.gate.name.name, PARTS_READ).await?)
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

/// The room that a budget, or a part of it, has for another execution. The worst comes last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Room {
    /// It has room.
    Free,
    /// It has room, and a soft limit is reached.
    PastSoft,
    /// All that is not used is reserved by what runs.
    Reserved,
    /// It holds executions that ask for more than is left.
    Holds,
    /// A hard limit is reached.
    UsedUp,
}

impl Room {
    fn of(view: &GateView, limits: &BTreeMap<String, Limit>) -> Room {
        let state = &view.gate.state;
        let amount = |amounts: &Amounts, dimension: &str| amounts.get(dimension).copied().unwrap_or_default();
        let has_reached = |reaches: &dyn Fn(&str, &Limit) -> bool| {
            limits.iter().any(|(dimension, limit)| reaches(dimension, limit))
        };
        let used = |dimension: &str| amount(&state.used, dimension);
        let taken = |dimension: &str| used(dimension) + amount(&state.reserved, dimension);
        if has_reached(&|dimension, limit| limit.hard.is_some_and(|hard| used(dimension) >= hard)) {
            Room::UsedUp
        } else if view.waiting > 0 {
            Room::Holds
        } else if has_reached(&|dimension, limit| limit.hard.is_some_and(|hard| taken(dimension) >= hard)) {
            Room::Reserved
        } else if has_reached(&|dimension, limit| limit.soft.is_some_and(|soft| used(dimension) >= soft)) {
            Room::PastSoft
        } else {
            Room::Free
        }
    }

    /// Shows the room of a budget that holds this many executions.
    fn show(self, held: u64) -> Markup {
        let (state, label) = match self {
            Room::Free => (StateName::Completed, "has room".to_owned()),
            Room::PastSoft => (StateName::Held, "past a soft limit".to_owned()),
            Room::Reserved => (StateName::Held, "all reserved".to_owned()),
            Room::Holds => (StateName::Held, format!("holds {}", number(held))),
            Room::UsedUp if held > 0 => (StateName::Failed, format!("used up, holds {}", number(held))),
            Room::UsedUp => (StateName::Failed, "used up".to_owned()),
        };
        labelled_state(state, &label)
    }
}

fn card(budget: &GateView, parts: Option<&[GateView]>, now: Timestamp, may_operate: bool) -> Markup {
    let (name, state) = (&budget.gate.name.name, &budget.gate.state);
    let config = budget.gate.config.clone().unwrap_or_default();
    html! {
        article.card.stack {
            div.heading {
                h2 { (user_text(name)) }
                @match parts {
                    None => (Room::of(budget, &config.limits).show(budget.waiting)),
                    Some(parts) => (room_of_parts(parts, &config)),
                }
            }
            @match parts {
                None => @for (dimension, limit) in &config.limits { (usage(&budget.gate.state, dimension, *limit)) },
                Some(parts) => (part_table(budget, parts, &config)),
            }
            p.faint {
                "Counted per " (config.scope.as_str()) " · at the limit: " (config.on_hard.as_str())
                @if let Some(period) = config.period_ms { " · every " (duration(period)) ", next reset " (maybe_ago(state.resets_at, now)) }
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

/// Shows the worst room of the parts, how many have it, and how many parts there are.
fn room_of_parts(parts: &[GateView], config: &Config) -> Markup {
    let rooms: Vec<Room> = parts.iter().map(|part| Room::of(part, &config.limits)).collect();
    let worst = rooms.iter().copied().max().filter(|worst| *worst != Room::Free);
    let like_worst = rooms.iter().filter(|room| Some(**room) == worst).count() as u64;
    let held = parts.iter().map(|part| part.waiting).sum();
    html! {
        span {
            @if let Some(worst) = worst { (worst.show(held)) " in " (number(like_worst)) " of " }
            span.faint {
                (number(parts.len() as u64)) @if parts.len() >= PARTS_READ as usize { " or more" }
                " " (config.scope.as_str()) @if parts.len() != 1 { "s" }
            }
        }
    }
}

/// Shows the parts of a budget that is counted per flow or lane, those with the least room first, and what was spent without an
/// execution.
fn part_table(budget: &GateView, parts: &[GateView], config: &Config) -> Markup {
    let (name, whole) = (&budget.gate.name.name, &budget.gate.state);
    let has_unassigned = whole.used.values().any(|amount| !amount.is_zero());
    let share = |part: &GateView| {
        let shares = config.limits.iter().map(|(dimension, limit)| {
            let used = part.gate.state.used.get(dimension).copied().unwrap_or_default();
            share_of(used, *limit)
        });
        shares.fold(0.0, f64::max)
    };
    let mut sorted: Vec<(Room, f64, &GateView)> =
        parts.iter().map(|part| (Room::of(part, &config.limits), share(part), part)).collect();
    sorted.sort_by(|one, other| other.0.cmp(&one.0).then(other.1.total_cmp(&one.1)));
    html! {
        @if parts.is_empty() && !has_unassigned { p.faint { "Nothing was spent yet." } }
        @if has_unassigned {
            div {
                h3 { "Without a " (config.scope.as_str()) }
                @for (dimension, limit) in &config.limits { (usage(whole, dimension, *limit)) }
                p.faint { "Spent without an execution. Nothing is held for it." }
            }
        }
        @for (room, _, part) in sorted.iter().take(PARTS_SHOWN) {
            @let label = part.gate.name.part.as_deref().unwrap_or_default();
            div {
                @match config.scope {
                    BudgetScope::Lane => h3 { a href=(executions_link(&[("lane", label)])) { (user_text(label)) } },
                    BudgetScope::Flow => h3 { a.id href=(format!("/flows/{}", path_part(label))) { (short(&label)) } },
                    BudgetScope::Namespace => h3 { (user_text(label)) },
                }
                @if *room != Room::Free { (room.show(part.waiting)) }
                @for (dimension, limit) in &config.limits { (usage(&part.gate.state, dimension, *limit)) }
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
    let class = match limit {
        Limit { hard: Some(hard), .. } if used >= hard => "bar full",
        Limit { soft: Some(soft), .. } if used >= soft => "bar warns",
        Limit { .. } => "bar",
    };
    html! {
        div {
            div.heading { span.dimension { (user_text(dimension)) } span { (label) @if !reserved.is_zero() { ", " (reserved) " reserved" } } }
            (amount_bar(class, share(used), share(reserved), soft, &label))
        }
    }
}
