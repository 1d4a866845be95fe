//! Findings that need attention, and the health of the background work: the first thing that an operator reads.

use super::parts::{bounded, duration, executions_link, words};
use maud::{Markup, html};
use selvedge_core::gate::{GateKind, LaneState};
use selvedge_core::state::StateName;
use selvedge_core::waitpoint::{WaitpointFilter, WaitpointStateName};
use selvedge_core::webhook::Webhook;
use selvedge_engine::{Engine, Error, GateView, Namespace, ReconcilerStatus, WorkerView};
use std::collections::BTreeSet;
use std::time::Duration;

/// The most approvals, budgets and webhooks that are looked at.
const LOOKED_AT: u32 = 100;
/// The time after which overdue background work needs attention.
const OVERDUE: Duration = Duration::from_secs(30);

/// A matter that needs attention.
pub struct Matter {
    is_bad: bool,
    text: String,
    link: Option<(String, &'static str)>,
}

impl Matter {
    fn new(text: impl Into<String>) -> Matter {
        Matter { is_bad: false, text: text.into(), link: None }
    }

    fn bad(self) -> Matter {
        Matter { is_bad: true, ..self }
    }

    fn link(self, address: impl Into<String>, label: &'static str) -> Matter {
        Matter { link: Some((address.into(), label)), ..self }
    }
}

/// Returns what needs attention in a namespace.
pub async fn matters(
    namespace: &Namespace,
    lanes: &[GateView],
    workers: &[WorkerView],
    counts: &[(StateName, u64, bool)],
) -> Result<Vec<Matter>, Error> {
    let mut matters = of_reconcilers(namespace.engine());
    matters.extend(of_lanes(lanes, workers));
    let count_of =
        |wanted| counts.iter().find(|(state, ..)| *state == wanted).filter(|(_, count, _)| *count > 0);
    // Executions in paused lanes are shown as held, and named with their lanes already.
    let in_paused: u64 = lanes.iter().filter(|lane| is_paused(lane)).map(|lane| lane.waiting).sum();
    let held = count_of(StateName::Held).map(|(_, count, more)| (count.saturating_sub(in_paused), *more));
    if let Some((count, more)) = held.filter(|(count, more)| *count > 0 || *more) {
        let text = format!("{} {} held by limits", bounded(count, more), are(count, "execution"));
        matters.push(Matter::new(text).link(executions_link(&[("state", "held")]), "Show"));
    }
    if let Some((_, count, more)) = count_of(StateName::Failed) {
        let text = format!("{} {} failed", bounded(*count, *more), have(*count, "execution"));
        matters.push(Matter::new(text).bad().link(executions_link(&[("state", "failed")]), "Show"));
    }
    let open =
        WaitpointFilter { state: Some(WaitpointStateName::Open), ..WaitpointFilter::all(namespace.id()) };
    let (waitpoints, more) = namespace.list_waitpoints(&open, None, None, LOOKED_AT).await?;
    if !waitpoints.is_empty() {
        let count = waitpoints.len() as u64;
        let text = format!("{} {} for an answer", bounded(count, more.is_some()), wait(count, "approval"));
        matters.push(Matter::new(text).link("/approvals", "Answer"));
    }
    let (budgets, _) = namespace.gates(GateKind::Budget, None, LOOKED_AT).await?;
    for budget in budgets.iter().filter(|budget| is_used_up(budget)) {
        let text = format!("The budget “{}” is used up", budget.gate.name.name);
        matters.push(Matter::new(text).bad().link("/budgets", "Budgets"));
    }
    let (webhooks, _) = namespace.webhooks(None, LOOKED_AT).await?;
    matters.extend(webhooks.iter().filter_map(of_webhook));
    Ok(matters)
}

fn of_webhook(webhook: &Webhook) -> Option<Matter> {
    let (detail, name) = (&webhook.detail, &webhook.name.name);
    let text = match (detail.dead, detail.failing_since) {
        (0, None) => return None,
        (0, Some(_)) => format!("Deliveries of the webhook “{name}” fail"),
        (dead, _) => {
            format!("The webhook “{name}” has {dead} dead {}", plural(dead, "delivery", "deliveries"))
        }
    };
    Some(Matter::new(text).bad().link("/webhooks", "Webhooks"))
}

/// Lanes that are paused while executions wait in them, and lanes with waiting executions that no live worker claims from.
fn of_lanes(lanes: &[GateView], workers: &[WorkerView]) -> Vec<Matter> {
    let live = workers.iter().filter(|worker| worker.end.is_none());
    let sessions = live.flat_map(|worker| &worker.sessions).filter(|session| !session.draining);
    let claimed: BTreeSet<&str> =
        sessions.flat_map(|session| &session.scope.lanes).map(|lane| lane.as_str()).collect();
    let waiting = lanes.iter().filter(|lane| lane.waiting > 0);
    let matters = waiting.filter_map(|lane| {
        let name = lane.gate.name.name.as_str();
        let why = match (is_paused(lane), claimed.contains(name)) {
            (true, _) => "and the lane is paused",
            (false, false) => "and no live worker claims from it",
            (false, true) => return None,
        };
        let text =
            format!("{} {} in the lane “{name}”, {why}", lane.waiting, wait(lane.waiting, "execution"));
        Some(Matter::new(text).link(executions_link(&[("lane", name), ("state", "waiting,held")]), "Show"))
    });
    matters.collect()
}

fn is_paused(lane: &GateView) -> bool {
    lane.gate.config.as_ref().is_some_and(|config| config.state == LaneState::Paused)
}

fn of_reconcilers(engine: &Engine) -> Vec<Matter> {
    let late = engine.reconciler_status().into_iter().filter(|status| status.overdue > OVERDUE);
    late.map(|status| {
        let overdue = duration(status.overdue.as_millis() as i64);
        Matter::new(format!("Background work “{}” is {overdue} behind", words(status.name))).bad()
    })
    .collect()
}

/// Reports whether a budget has reached a hard limit.
pub fn is_used_up(budget: &GateView) -> bool {
    let config = budget.gate.config.as_ref();
    let used = |dimension: &str| budget.gate.state.used.get(dimension).copied().unwrap_or_default();
    config.is_some_and(|config| {
        config.limits.iter().any(|(dimension, limit)| limit.hard.is_some_and(|hard| used(dimension) >= hard))
    })
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
            p.all-well { (super::parts::labelled_state(StateName::Completed, "Nothing needs attention.")) }
        } @else {
            ul.attention {
                @for matter in matters {
                    li class=[matter.is_bad.then_some("bad")] {
                        span.user-text { (matter.text) }
                        @if let Some((address, label)) = &matter.link { a href=(address) { (label) } }
                    }
                }
            }
        }
    }
}

/// Shows the health of the background work of this server.
pub fn health(status: &[ReconcilerStatus]) -> Markup {
    html! {
        div.table {
            table {
                thead { tr { th { "Reconciler" } th.number { "Ticks" } th.number { "Repaired" } th.number { "Errors" } th { "Last success" } } }
                tbody {
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
                }
            }
        }
    }
}
