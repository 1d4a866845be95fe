//! `selvedge explain`: says why an execution or a flow does not go on, and which command would help.

use super::get::neither;
use crate::failure::Failure;
use crate::remote::{Remote, Session};
use crate::terminal::{dim, heading, items, state_text, text, when};
use clap::Args;
use serde_json::Value;
use std::fmt::Write;

/// The arguments of `selvedge explain`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
#[group(skip)]
pub struct Arguments {
    /// The id of an execution or a flow
    id: String,
    #[command(flatten)]
    remote: Remote,
}

const EXAMPLES: &str = "\
Examples:
  selvedge explain 0197f3c8-2b1e-7c4e-9d0a-1f2e3d4c5b6a
  selvedge explain 0197f3c8-2b1e-7c4e-9d0a-1f2e3d4c5b6a --json | jq -r '.reasons[].code'";

/// Explains the execution, or the flow if no execution has the id.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let session = arguments.remote.open()?;
    match explain(&session, "executions", &arguments.id).await {
        Err(Failure::NotFound(_)) => {
            explain(&session, "flows", &arguments.id).await.map_err(|failure| neither(failure, &arguments.id))
        }
        explained => explained,
    }
}

/// Explains an object of a collection.
pub async fn explain(session: &Session, collection: &str, id: &str) -> Result<(), Failure> {
    let response = session.client.get(&[collection, id, "explain"]).send().await?;
    if session.out.json {
        return session.out.json_line(response.text()?);
    }
    session.out.raw(&sentences(id, &response.json()?))
}

fn sentences(id: &str, explanation: &Value) -> String {
    let mut lines = format!("{} is {}.\n", heading(id), state_text(text(explanation, "/state")));
    for reason in items(explanation, "/reasons") {
        let message = text(reason, "/message").replace('\n', "\n    ");
        let _ = write!(lines, "  • {message}");
        if !text(reason, "/until_at").is_empty() {
            // An ended execution is not waiting: the time is the end of its retention.
            let word = if text(reason, "/code") == "ended" { "kept until" } else { "until" };
            let _ = write!(lines, ", {}", dim(format!("{word} {}", when(text(reason, "/until_at")))));
        }
        lines.push('\n');
        if let Some(command) = remedy(id, reason) {
            let _ = writeln!(lines, "      {}", dim(command));
        }
    }
    let has_ended = items(explanation, "/reasons").iter().any(|reason| text(reason, "/code") == "ended");
    match text(explanation, "/next_change_at") {
        _ if has_ended => {}
        "" => {}
        time => {
            let _ = writeln!(lines, "The next change by itself: {}.", when(time));
        }
    }
    lines
}

/// Returns the command that would help, if there is one.
pub fn remedy(id: &str, reason: &Value) -> Option<String> {
    let subject = text(reason, "/ref/id");
    let is_execution = text(reason, "/ref/type") == "execution";
    let gate = match text(reason, "/ref/type") {
        "lane" => "lanes",
        "quota" => "quotas",
        _ => "",
    };
    match text(reason, "/code") {
        "no_worker_in_lane" | "no_worker_of_kind" | "no_capable_worker" | "workers_draining" => {
            Some("selvedge workers".into())
        }
        "waiting_for_worker" => Some(format!("selvedge priority 10 {id}")),
        "delayed" | "backoff" | "debounced" => Some(format!("selvedge reschedule {id} --now")),
        "lane_paused" => Some(format!("selvedge lanes resume {subject}")),
        "concurrency_limit" if !gate.is_empty() => {
            Some(format!("selvedge {gate} set {subject} --concurrency NUMBER"))
        }
        "rate_limit" if !gate.is_empty() => {
            Some(format!("selvedge {gate} set {subject} --rate COUNT/WINDOW"))
        }
        "budget_limit" | "reserve_exceeds_limit" => {
            Some(format!("selvedge budgets set {subject} --hard DIMENSION=AMOUNT"))
        }
        "suspended" => Some(format!("selvedge signal {id} NAME, or selvedge resume {id}")),
        "failed" | "expired" | "cancelled" => Some(format!("selvedge replay {id}")),
        "member_failed" => Some(format!("selvedge replay {subject}")),
        "upstream_open" | "member_open" | "holder" | "line_head" if is_execution => {
            Some(format!("selvedge explain {subject}"))
        }
        "upstream_ended" | "skip_origin" if is_execution => Some(format!("selvedge replay {subject}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_reason_becomes_a_sentence_with_the_command_that_helps() {
        console::set_colors_enabled(false);
        let explanation = json!({
            "state": "held",
            "reasons": [
                {"code": "lane_paused", "message": "Lane images is paused", "ref": {"type": "lane", "id": "images"},
                 "until_at": null},
            ],
            "next_change_at": null,
        });
        let expected = "e1 is held.\n  • Lane images is paused\n      selvedge lanes resume images\n";
        assert_eq!(sentences("e1", &explanation), expected);
    }
}
