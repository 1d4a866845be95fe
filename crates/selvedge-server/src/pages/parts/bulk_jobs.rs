//! The progress of bulk jobs.

use super::forms::call_button;
use super::{ago, labelled_state, number, user_text, words};
use crate::auth::Caller;
use maud::{Markup, html};
use selvedge_core::bulk_job::{BulkJob, BulkJobAction, BulkJobState};
use selvedge_core::state::StateName;
use selvedge_core::{Permission, Timestamp};
use selvedge_engine::Error;
use serde_json::Value;
use std::collections::BTreeMap;

/// The number of bulk jobs that are read.
const READ: u32 = 5;
/// The time for which a bulk job is shown after its end, in milliseconds.
const ENDED_SHOWN_MS: i64 = 600_000;

/// Reads the newest bulk jobs and shows those that run or have ended lately.
pub async fn progress(caller: &Caller, now: Timestamp) -> Result<Markup, Error> {
    let mut jobs = caller.namespace.bulk_jobs(None, READ).await?;
    jobs.retain(|job| caller.sees(job));
    Ok(show(&jobs, now, caller.may(Permission::Operate)))
}

fn show(jobs: &[BulkJob], now: Timestamp, may_operate: bool) -> Markup {
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
