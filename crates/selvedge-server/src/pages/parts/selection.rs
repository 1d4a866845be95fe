//! Actions on many executions of a list: the bar that appears with a selection, and the progress of bulk jobs.

use super::forms::call_button;
use super::matches::Matches;
use super::{ago, labelled_state, number, user_text, words};
use maud::{Markup, html};
use selvedge_api::times;
use selvedge_core::Timestamp;
use selvedge_core::bulk_job::{BulkJob, BulkJobAction, BulkJobState};
use selvedge_core::state::StateName;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The number of bulk jobs that are read.
pub const JOBS_READ: u32 = 5;
/// The time for which a bulk job is shown after its end, in milliseconds.
const ENDED_SHOWN_MS: i64 = 600_000;

/// Returns what a script needs to act on everything that matches: the filter as the API takes it, up to what exists now, and the count,
/// which may be `more`.
pub fn matching(asked: &BTreeMap<String, Value>, total: &Matches, now: Timestamp) -> String {
    let Matches { count, may_be_more } = total;
    let mut filter = asked.clone();
    filter.entry("submitted_before".into()).or_insert_with(|| Value::from(times::text(now.plus_ms(1))));
    json!({ "filter": filter, "total": count, "more": may_be_more }).to_string()
}

/// Shows the bar with the actions, hidden until something is selected, and their dialog.
pub fn bar() -> Markup {
    html! {
        div.selection #selection role="region" aria-label="Selection" hidden {
            span data-count role="status" {}
            button.plain type="button" data-widen hidden {}
            span.faint { "The list stays as it is until you clear the selection." }
            span.buttons {
                button.danger type="button" data-action="cancel" { "Cancel" }
                button type="button" data-action="replay" { "Replay" }
                button type="button" data-action="priority" { "Priority" }
                button.plain type="button" data-unselect { "Clear the selection" }
            }
        }
        dialog #selection-dialog aria-label="Change the selected executions" {
            form.fields method="post" {
                h2 { "Change the selected executions" }
                label data-shown-for="cancel" { "Reason" input type="text" name="action.reason" autocomplete="off"; }
                label data-shown-for="priority" { "Priority, from −100 to 100; higher is sooner" input type="number" name="action.priority" value="0" min="-100" max="100"; }
                p data-shown-for="replay" { "Each runs again with the same input. Executions of its flow that depend on it are reopened." }
                div { h3 { "Dry run" } ul.outlook data-outlook aria-live="polite" {} }
                div.actions { button.primary type="submit" data-apply disabled { "Apply" } button type="button" data-closes { "Close" } }
            }
        }
    }
}

/// Shows bulk jobs that run or have ended lately.
pub fn jobs(jobs: &[BulkJob], now: Timestamp, may_operate: bool) -> Markup {
    let is_shown = |job: &&BulkJob| job.ended_at.is_none_or(|at| at.plus_ms(ENDED_SHOWN_MS) > now);
    let shown: Vec<&BulkJob> = jobs.iter().filter(is_shown).collect();
    html! {
        @if !shown.is_empty() {
            section aria-label="Bulk jobs" {
                @for job in shown {
                    article.card.job {
                        div.heading {
                            h2.question { (title(&job.spec.action)) " what matched" @if !job.spec.asked.is_empty() { " " span.faint.user-text { (conditions(&job.spec.asked)) } } }
                            (job_state(job.state))
                        }
                        p {
                            (number(job.progress.matched())) " looked at · " (number(job.progress.changed)) " changed · "
                            (number(job.progress.unchanged)) " unchanged · " (number(job.progress.refused)) " refused"
                            @if let Some((_, code)) = job.progress.refusals.first() { " (" (words(code)) ")" }
                            " · begun " (ago(job.created_at, now)) " by " (user_text(&job.spec.actor))
                            @if let Some(at) = job.ended_at { " · ended " (ago(at, now)) }
                        }
                        @if may_operate && job.state == BulkJobState::Running && job.spec.action.action().is_some() {
                            div.actions { (call_button(&format!("DELETE /v1/bulk-jobs/{}", job.id), "Stop", "Stopped.", Some("Stop the bulk job? What it has done stays done."), &[])) }
                        }
                    }
                }
            }
        }
    }
}

fn title(action: &BulkJobAction) -> String {
    match action {
        BulkJobAction::Cancel { .. } => "Cancel".into(),
        BulkJobAction::Replay => "Replay".into(),
        BulkJobAction::Priority { priority } => format!("Give the priority {priority} to"),
        BulkJobAction::Reschedule { .. } => "Reschedule".into(),
        BulkJobAction::Tags { .. } => "Tag".into(),
        BulkJobAction::DeleteNamespace { name } => format!("Delete the namespace {name}:"),
    }
}

/// Returns the conditions of a job as text.
fn conditions(asked: &BTreeMap<String, Value>) -> String {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    };
    let shown = asked.iter().filter(|(name, _)| *name != "submitted_before");
    shown.map(|(name, value)| format!("{} {}", words(name), text(value))).collect::<Vec<_>>().join(", ")
}

fn job_state(state: BulkJobState) -> Markup {
    match state {
        BulkJobState::Running => labelled_state(StateName::Active, "running"),
        BulkJobState::Completed => labelled_state(StateName::Completed, "completed"),
        BulkJobState::Stopped => labelled_state(StateName::Cancelled, "stopped"),
    }
}
