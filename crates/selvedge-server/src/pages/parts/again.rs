//! The form that submits an execution again with an edited input. Its script sends the whole stored submission with the edits to
//! `POST /v1/executions`, with an idempotency key, so that a double click is one submission.
//!
//! Every stored field is either a field of the form, or listed with a box that can be cleared, or named among those that are not kept.

use super::payload::indented;
use super::{duration, user_text};
use crate::wire::views;
use maud::{Markup, html};
use selvedge_api::times;
use selvedge_core::gate::Amounts;
use selvedge_core::{Backoff, Execution, Retry, State, Timestamp};
use selvedge_engine::View;
use serde::Serialize;

/// The largest input that can be edited on the page, in bytes.
const INPUT_MAX: usize = 256 * 1024;

/// A part of the stored submission that the new one has, too, unless its box is cleared.
struct Kept {
    /// The field of a submission.
    field: &'static str,
    /// True if the value is a member of a list, and its box is of this member alone.
    is_member: bool,
    /// The value, as JSON.
    json: String,
    /// The part in words.
    words: String,
}

impl Kept {
    fn new(field: &'static str, value: &impl Serialize, words: String) -> Kept {
        let json = serde_json::to_string(value).unwrap_or_else(|_| "null".into());
        Kept { field, is_member: false, json, words }
    }

    fn member(self) -> Kept {
        Kept { is_member: true, ..self }
    }

    fn written(field: &'static str, words: String, write: impl FnOnce(&mut Vec<u8>)) -> Kept {
        let mut json = Vec::new();
        write(&mut json);
        Kept { field, is_member: false, json: String::from_utf8_lossy(&json).into_owned(), words }
    }
}

/// Returns the parts of a submission that are kept and have no field in the form.
fn kept(view: &View, now: Timestamp) -> Vec<Kept> {
    let (row, spec) = (&view.stored.execution, &view.stored.execution.spec);
    let (gates, policy) = (&spec.required_gates, &spec.policy);
    let mut kept = Vec::new();
    for budget in &gates.budgets {
        let words = format!("budget {}{}", budget.0, reserves(&budget.1));
        kept.push(Kept::written("budgets", words, |out| views::budget(out, budget)).member());
    }
    for quota in &gates.quotas {
        kept.push(Kept::new("quotas", quota, format!("quota {quota}")).member());
    }
    if let Some(limit) = &gates.concurrency {
        let words = format!("at most {} with {}", limit.1, limit.0);
        kept.push(Kept::written("concurrency", words, |out| views::concurrency(out, limit)));
    }
    if let Some(key) = &gates.fairness_key {
        kept.push(Kept::new("fairness_key", key, format!("turns by the fairness key {key}")));
    }
    for name in &view.class.capabilities {
        kept.push(Kept::new("capabilities", name, format!("a worker with the capability {name}")).member());
    }
    kept.push(Kept::new("retry", &policy.retry, retries(&policy.retry)));
    for (field, ms, words) in [
        ("attempt_timeout_ms", policy.attempt_timeout_ms, "per attempt, at most"),
        ("start_by_ms", policy.start_by_ms, "expires unless it starts within"),
        ("deadline_ms", policy.deadline_ms, "expires unless it ends within"),
        ("retention_ms", Some(policy.retention_ms), "after its end, kept for"),
    ] {
        kept.extend(ms.map(|ms| Kept::new(field, &ms, format!("{words} {}", duration(ms)))));
    }
    if let Some(key) = &spec.unique_while_active {
        kept.push(Kept::new("unique_while_active", key, format!("only one at a time with the key {key}")));
    }
    if let Some(until) = requested_delay(row, now) {
        let text = times::text(until);
        let words = format!("starts no earlier than {}", text.replace('T', " ").replace('Z', " UTC"));
        kept.push(Kept::new("delay_until_at", &text, words));
    }
    kept
}

/// Returns the time before which an execution must not start because a caller said so. A back-off is no such time, nor is the quiet
/// that a debounce waits for.
fn requested_delay(row: &Execution, now: Timestamp) -> Option<Timestamp> {
    match row.state {
        State::Delayed { until } => {
            Some(until).filter(|until| *until > now && row.epoch == 0 && !row.waits_for_quiet())
        }
        State::WaitingDependencies
        | State::Waiting
        | State::Active(_)
        | State::Held(_)
        | State::Suspended(_)
        | State::Terminal(_) => None,
    }
}

fn reserves(reserve: &Amounts) -> String {
    let amounts: Vec<String> =
        reserve.iter().map(|(dimension, amount)| format!("{amount} {dimension}")).collect();
    if amounts.is_empty() { String::new() } else { format!(", which reserves {}", amounts.join(", ")) }
}

fn retries(retry: &Retry) -> String {
    let count = match retry.max_retries {
        0 => return "no retries".into(),
        1 => "1 retry".to_owned(),
        count => format!("{count} retries"),
    };
    match retry.backoff {
        Backoff::Fixed { delay_ms } => format!("{count}, each after {}", duration(delay_ms)),
        Backoff::Exponential { initial_ms, max_ms, .. } => {
            format!("{count}, after {} and up to {}", duration(initial_ms), duration(max_ms))
        }
    }
}

/// Names the parts of the execution that a new one does not have.
fn not_kept(row: &Execution) -> String {
    let spec = &row.spec;
    let parts = [
        Some("its id"),
        spec.idempotency_key.as_ref().map(|_| "its idempotency key"),
        row.flow.map(|_| "its place in the flow"),
        spec.debounce.as_ref().map(|_| "its debounce"),
        spec.scheduled.as_ref().map(|_| "its schedule"),
    ];
    let parts: Vec<&str> = parts.into_iter().flatten().collect();
    match parts.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, first)) => format!("{} and {last}", first.join(", ")),
        None => String::new(),
    }
}

/// Shows the button and its dialog.
pub fn show(view: &View, now: Timestamp) -> Markup {
    let (stored, class) = (&view.stored, &view.class);
    let is_small = stored.input.len() <= INPUT_MAX;
    let input = if is_small { indented(&String::from_utf8_lossy(&stored.input)) } else { String::new() };
    let tags: Vec<String> =
        stored.execution.tags.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    html! {
        div.actions.needs-script { button type="button" data-opens="again-dialog" { "Submit again" } }
        dialog.wide #again-dialog aria-label="Submit again with edited input" {
            form method="post" data-again=(stored.execution.id) novalidate {
                h2 { "Submit again" }
                p.faint { "A new execution, which leaves this one as it is. Not kept: " (not_kept(&stored.execution)) "." }
                div.pair {
                    (field("kind", "Kind", html! { input type="text" name="kind" value=(class.kind) autocomplete="off" aria-describedby="again-kind"; }))
                    (field("lane", "Lane", html! { input type="text" name="lane" value=(class.lane) autocomplete="off" aria-describedby="again-lane"; }))
                    (field("priority", "Priority; higher is sooner", html! { input type="number" name="priority" value=(stored.execution.priority) aria-describedby="again-priority"; }))
                }
                (field("input", "Input, JSON", html! { textarea.code name="input" rows="10" spellcheck="false" aria-describedby="again-input" data-left-out=[(!is_small).then_some("")] { (input) } }))
                @if !is_small { p.faint { "The input is larger than " (INPUT_MAX / 1024) " KiB and was left out. Paste the new one." } }
                (field("tags", "Tags, one per line: name: value", html! { textarea name="tags" rows="2" spellcheck="false" aria-describedby="again-tags" { (tags.join("\n")) } }))
                fieldset.kept {
                    legend { "Keeps" }
                    @for part in kept(view, now) {
                        label {
                            input type="checkbox" checked autocomplete="off" data-kept=(part.field) data-member=[part.is_member.then_some("")] data-json=(part.json);
                            (user_text(&part.words))
                        }
                    }
                }
                div.actions {
                    button.primary type="submit" { "Submit" }
                    button type="button" data-closes { "Close" }
                }
            }
        }
    }
}

/// Shows a field with a place for its error.
fn field(name: &str, label: &str, input: Markup) -> Markup {
    html! {
        div.field {
            label { (label) (input) }
            p.field-error id=(format!("again-{name}")) role="alert" {}
        }
    }
}
