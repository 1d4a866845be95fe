//! Matters that need attention: the first thing that an operator reads. Each leads to the list that shows it.

use super::chart::milliseconds;
use super::minutes::LastHour;
use super::table::table_of;
use super::{bounded, duration, executions_link, number, path_part, user_text, words};
use maud::{Markup, html};
use selvedge_core::class::Class;
use selvedge_core::explain::deaths;
use selvedge_core::filter::{Filter, Payloads};
use selvedge_core::gate::{BudgetScope, GateKind};
use selvedge_core::rollup::{Rollup, Spread};
use selvedge_core::session::Session;
use selvedge_core::state::StateName;
use selvedge_core::waitpoint::{WaitpointFilter, WaitpointStateName};
use selvedge_core::webhook::Webhook;
use selvedge_core::{Name, Timestamp};
use selvedge_engine::{
    ClassDepth, Engine, Error, GateView, Namespace, ReconcilerStatus, StateCount, WorkerView,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// The most approvals, budgets and webhooks that are looked at.
const LOOKED_AT: u32 = 100;
/// The time after which overdue background work, and a feed that is behind, need attention.
const OVERDUE: Duration = Duration::from_secs(30);
/// An execution is stuck if it has waited or run for this many times the 99th percentile of its lane in the last hour, and at least
/// for [`STUCK_MS`].
const STUCK_FACTOR: i64 = 10;
const STUCK_MS: i64 = 600_000;
/// The number of workers that died while they ran an execution from which it needs attention.
const DEATHS: u32 = 3;
/// The most matters of one kind that are listed.
const LISTED: usize = 8;

/// A matter that needs attention.
pub struct Matter {
    is_bad: bool,
    text: Markup,
    link: Option<(String, &'static str)>,
}

impl Matter {
    fn new(text: Markup) -> Matter {
        Matter { is_bad: false, text, link: None }
    }

    fn bad(self) -> Matter {
        Matter { is_bad: true, ..self }
    }

    fn link(self, address: impl Into<String>, label: &'static str) -> Matter {
        Matter { link: Some((address.into(), label)), ..self }
    }
}

/// The state of a namespace in which matters are looked for.
pub struct Situation<'a> {
    /// The store's time.
    pub now: Timestamp,
    /// The number of executions in each state.
    pub counts: &'a [StateCount],
    /// The live executions by class.
    pub depths: &'a [ClassDepth],
    /// The names of paused lanes.
    pub paused: &'a [Name],
    pub workers: &'a [WorkerView],
    /// The rollups of the last hour.
    pub hour: &'a LastHour,
}

/// Returns what needs attention in a namespace.
pub async fn matters(namespace: &Namespace, situation: &Situation<'_>) -> Result<Vec<Matter>, Error> {
    let engine = namespace.engine();
    let mut matters = of_engine(engine);
    if engine.uncovered_namespaces().await?.contains(namespace.name()) {
        let text = html! { "No server does the background work of this namespace" };
        matters.push(Matter::new(text).bad().link("/about", "About"));
    }
    matters.extend(listed(of_lanes(situation)));
    matters.extend(listed(of_stuck(situation)));
    matters.extend(of_counts(situation));
    matters.extend(listed(of_deaths(namespace, situation).await?));
    let open =
        WaitpointFilter { state: Some(WaitpointStateName::Open), ..WaitpointFilter::all(namespace.id()) };
    let (waitpoints, more) = namespace.list_waitpoints(&open, None, None, LOOKED_AT).await?;
    if !waitpoints.is_empty() {
        let count = waitpoints.len() as u64;
        let text = html! { (bounded(count, more.is_some())) " " (wait(count, "approval")) " for an answer" };
        matters.push(Matter::new(text).link("/approvals", "Answer"));
    }
    let (budgets, _) = namespace.gates(GateKind::Budget, None, LOOKED_AT).await?;
    matters.extend(listed(budgets.iter().filter_map(of_budget).collect()));
    let (webhooks, _) = namespace.webhooks(None, LOOKED_AT).await?;
    matters.extend(listed(webhooks.iter().filter_map(of_webhook).collect()));
    Ok(matters)
}

/// Keeps the first matters of a kind, and says how many there are beyond.
fn listed(mut matters: Vec<Matter>) -> Vec<Matter> {
    let beyond = matters.len().saturating_sub(LISTED);
    if beyond > 0 {
        matters.truncate(LISTED);
        let link = matters.last().and_then(|last| last.link.clone());
        matters.push(Matter { link, ..Matter::new(html! { "… and " (beyond) " more like this" }) });
    }
    matters
}

/// Background work that is late, and subscribers of events that are behind.
fn of_engine(engine: &Engine) -> Vec<Matter> {
    let late = engine.reconciler_status().into_iter().filter(|status| status.overdue > OVERDUE);
    let mut matters: Vec<Matter> = late
        .map(|status| {
            let overdue = duration(status.overdue.as_millis() as i64);
            let text = html! { "Background work “" (words(status.name)) "” is " (overdue) " behind" };
            Matter::new(text).bad().link("/about", "About")
        })
        .collect();
    let feed = engine.feed_status();
    if feed.behind > OVERDUE {
        let behind = duration(feed.behind.as_millis() as i64);
        let text = html! { "The event feed of this server is " (behind) " behind" };
        matters.push(Matter::new(text).bad().link("/events", "Events"));
    }
    matters
}

/// Executions that wait in a paused lane, or that no live worker takes.
fn of_lanes(situation: &Situation<'_>) -> Vec<Matter> {
    let live = situation.workers.iter().filter(|worker| worker.end.is_none());
    let sessions: Vec<&Session> =
        live.flat_map(|worker| &worker.sessions).filter(|session| !session.draining).collect();
    // The lane lacks a worker, or, where its workers take other kinds or lack capabilities, the class does.
    let mut lacking: BTreeMap<(&Name, Option<&Class>), (u64, bool)> = BTreeMap::new();
    for depth in situation.depths.iter().filter(|depth| depth.state == StateName::Waiting) {
        let has_worker = sessions.iter().any(|session| session.scope.lanes.contains(&depth.lane));
        let takes = |class: &Class| sessions.iter().any(|session| session.scope.covers(class));
        let subject = match &depth.class {
            _ if situation.paused.contains(&depth.lane) || !has_worker => None,
            Some(class) if !takes(class) => Some(class),
            Some(_) | None => continue,
        };
        let entry = lacking.entry((&depth.lane, subject)).or_default();
        *entry = (entry.0 + depth.count, entry.1 || depth.may_be_more);
    }
    let matters = lacking.into_iter().map(|((lane, class), (count, more))| {
        let link = match class {
            None => executions_link(&[("lane", lane), ("state", "waiting,held")]),
            Some(class) => executions_link(&[("lane", lane), ("kind", &class.kind), ("state", "waiting")]),
        };
        let text = html! {
            (bounded(count, more)) " " (wait(count, "execution")) " in the lane “" (user_text(lane)) "”, "
            (lack(class, situation.paused.contains(lane), &sessions))
        };
        Matter::new(text).link(link, "Show")
    });
    matters.collect()
}

/// Says what a lane or a class lacks.
fn lack(class: Option<&Class>, is_paused: bool, sessions: &[&Session]) -> Markup {
    let Some(class) = class else {
        return match is_paused {
            true => html! { "and the lane is paused" },
            false => html! { "and no live worker claims from it" },
        };
    };
    let takes_kind = |session: &&&Session| {
        let scope = &session.scope;
        scope.lanes.contains(&class.lane)
            && scope.kinds.as_ref().is_none_or(|kinds| kinds.contains(&class.kind))
    };
    match sessions.iter().find(takes_kind) {
        None => html! { "and no live worker there takes the kind “" (user_text(&class.kind)) "”" },
        Some(_) => {
            let needed: Vec<&str> = class.capabilities.iter().map(|name| name.as_str()).collect();
            html! { "and no live worker there has the capabilities “" (user_text(&needed.join(", "))) "”" }
        }
    }
}

/// Lanes in which an execution waits or runs for much longer than usual.
fn of_stuck(situation: &Situation<'_>) -> Vec<Matter> {
    let mut oldest: BTreeMap<(&Name, StateName), Timestamp> = BTreeMap::new();
    let depths = situation.depths.iter().filter(|depth| match depth.state {
        StateName::Waiting => !situation.paused.contains(&depth.lane),
        state => state == StateName::Active,
    });
    for depth in depths {
        let entry = oldest.entry((&depth.lane, depth.state)).or_insert(depth.oldest_at);
        *entry = (*entry).min(depth.oldest_at);
    }
    let matters = oldest.into_iter().filter_map(|((lane, state), since)| {
        let (verb, spread): (_, fn(&Rollup) -> &Spread) = match state == StateName::Active {
            true => ("run", |minute| &minute.run),
            false => ("waited", |minute| &minute.queue),
        };
        let usual =
            situation.hour.lanes.get(lane).and_then(|minutes| minutes.spread(spread).quantile_us(0.99));
        let usual_ms = usual.map_or(0, |us| (us / 1000) as i64);
        let age = situation.now.ms_since(since);
        let text = html! {
            "An execution in the lane “" (user_text(lane)) "” has " (verb) " for " (duration(age))
            @if usual.is_some() { "; 99 of 100 take at most " (milliseconds(usual_ms as f64)) }
        };
        let link = executions_link(&[("lane", lane), ("state", state.as_str())]);
        (age > STUCK_MS.max(usual_ms.saturating_mul(STUCK_FACTOR)))
            .then(|| Matter::new(text).bad().link(link, "Show"))
    });
    matters.collect()
}

/// Held, failed and expired executions.
fn of_counts(situation: &Situation<'_>) -> Vec<Matter> {
    let mut matters = Vec::new();
    let count_of = |state| situation.counts.iter().find(|one| one.state == state).filter(|one| one.count > 0);
    // Executions in paused lanes are shown as held, and named with their lanes already.
    let in_paused = situation
        .depths
        .iter()
        .filter(|depth| depth.state == StateName::Waiting && situation.paused.contains(&depth.lane));
    let in_paused: u64 = in_paused.map(|depth| depth.count).sum();
    let held = count_of(StateName::Held).map(|held| (held.count.saturating_sub(in_paused), held.may_be_more));
    if let Some((count, more)) = held.filter(|(count, _)| *count > 0) {
        let text = html! { (bounded(count, more)) " " (are(count, "execution")) " held by limits" };
        matters.push(Matter::new(text).link(executions_link(&[("state", "held")]), "Show"));
    }
    let hour = &situation.hour.total;
    let ends = [
        (StateName::Failed, "failed", hour.sum(|minute| minute.failed)),
        (StateName::Expired, "expired", hour.sum(|minute| minute.expired)),
    ];
    for (state, verb, lately) in ends {
        let Some(ended) = count_of(state) else { continue };
        let text = html! {
            (bounded(ended.count, ended.may_be_more)) " " (have(ended.count, "execution")) " " (verb) ", "
            (number(lately)) " in the last hour"
        };
        let matter = Matter::new(text).link(executions_link(&[("state", state.as_str())]), "Show");
        matters.push(if lately > 0 { matter.bad() } else { matter });
    }
    matters
}

/// Executions that may kill their workers: several died while they ran them. Looks at the newest that run or back off.
async fn of_deaths(namespace: &Namespace, situation: &Situation<'_>) -> Result<Vec<Matter>, Error> {
    let mut matters = Vec::new();
    for state in [StateName::Active, StateName::Delayed] {
        if !situation.counts.iter().any(|one| one.state == state && one.count > 0) {
            continue;
        }
        let filter = Filter { states: vec![state], ..Filter::all(namespace.id()) };
        let (found, _) = namespace.list(&filter, None, LOOKED_AT, Payloads::NONE).await?;
        let rows = found.iter().map(|view| &view.stored.execution);
        matters.extend(rows.filter(|row| row.detail.interruptions_without_progress() >= DEATHS).map(|row| {
            let text = html! { (deaths(row.detail.interruptions_without_progress())) };
            Matter::new(text).bad().link(format!("/executions/{}", row.id), "Show")
        }));
    }
    Ok(matters)
}

fn of_budget(budget: &GateView) -> Option<Matter> {
    let name = user_text(&budget.gate.name.name);
    let matter = match (is_used_up(budget), has_passed_soft_limit(budget)) {
        (true, _) => Matter::new(html! { "The budget “" (name) "” is used up" }).bad(),
        (false, true) => Matter::new(html! { "The budget “" (name) "” has reached its soft limit" }),
        (false, false) => return None,
    };
    Some(matter.link("/budgets", "Budgets"))
}

/// Reports whether a budget has reached a hard limit. Where each flow or lane counts on its own, their sum limits nothing.
fn is_used_up(budget: &GateView) -> bool {
    let config = budget.gate.config.as_ref();
    let used = |dimension: &str| budget.gate.state.used.get(dimension).copied().unwrap_or_default();
    config.filter(|config| config.scope == BudgetScope::Namespace).is_some_and(|config| {
        config.limits.iter().any(|(dimension, limit)| limit.hard.is_some_and(|hard| used(dimension) >= hard))
    })
}

fn has_passed_soft_limit(budget: &GateView) -> bool {
    let config = budget.gate.config.as_ref();
    let used = |dimension: &str| budget.gate.state.used.get(dimension).copied().unwrap_or_default();
    config.is_some_and(|config| {
        config.limits.iter().any(|(dimension, limit)| limit.soft.is_some_and(|soft| used(dimension) >= soft))
    })
}

fn of_webhook(webhook: &Webhook) -> Option<Matter> {
    let (detail, name) = (&webhook.detail, user_text(&webhook.name.name));
    let text = match (detail.dead, detail.failing_since) {
        (0, None) => return None,
        (0, Some(_)) => html! { "Deliveries of the webhook “" (name) "” fail" },
        (dead, _) => html! {
            "The webhook “" (name) "” has " (number(dead)) " dead " (plural(dead, "delivery", "deliveries"))
        },
    };
    let link = format!("/webhooks/{}", path_part(&webhook.name.name));
    Some(Matter::new(text).bad().link(link, "Deliveries"))
}

fn plural<'a>(count: u64, one: &'a str, many: &'a str) -> &'a str {
    if count == 1 { one } else { many }
}

fn are(count: u64, noun: &str) -> String {
    format!("{noun}{}", plural(count, " is", "s are"))
}

fn have(count: u64, noun: &str) -> String {
    format!("{noun}{}", plural(count, " has", "s have"))
}

fn wait(count: u64, noun: &str) -> String {
    format!("{noun}{}", plural(count, " waits", "s wait"))
}

/// Shows what needs attention.
pub fn list(matters: &[Matter]) -> Markup {
    html! {
        @if matters.is_empty() {
            p.all-well { (super::labelled_state(StateName::Completed, "Nothing needs attention.")) }
        } @else {
            ul.attention {
                @for matter in matters {
                    li class=[matter.is_bad.then_some("bad")] {
                        span.sentence { @if matter.is_bad { span.visually-hidden { "Problem: " } } (matter.text) }
                        @if let Some((address, label)) = &matter.link { a href=(address) { (label) } }
                    }
                }
            }
        }
    }
}

/// Shows the health of the background work of this server.
pub fn health(status: &[ReconcilerStatus]) -> Markup {
    let columns = html! {
        th { "Reconciler" } th.number { "Ticks" } th.number { "Repaired" } th.number { "Errors" }
        th { "Last success" }
    };
    let rows = html! {
        @for one in status {
            tr {
                td { (words(one.name)) }
                td.number { (one.tally.ticks) }
                td.number { (one.tally.done) }
                td.number { (one.tally.errors + one.tally.panics) }
                td.nowrap {
                    @match one.succeeded_ago {
                        Some(ago) => { (duration(ago.as_millis() as i64)) " ago" }
                        None => span.faint { "not yet" }
                    }
                }
            }
        }
    };
    table_of(columns, rows)
}
