//! Says why an execution for which somebody waits does not start, for instance because no live worker runs its kind.

use super::explain::remedy;
use crate::remote::Session;
use crate::terminal::{items, text};
use indicatif::ProgressBar;
use serde_json::Value;
use std::convert::Infallible;
use std::time::Duration;

/// The time after which the first reason is asked for, and the next one after a reason that is new.
const PATIENCE: Duration = Duration::from_secs(3);
/// The longest pause between two questions. The pause doubles while the reason stays the same.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The states of an execution that waits for its next attempt.
const WAITS: [&str; 4] = ["waiting", "waiting_dependencies", "delayed", "held"];

/// Asks for the explanation again and again, and tells a person its first reason: each reason once, until another one comes. Never
/// returns. A server that does not answer is asked again; the wait itself reports the error.
pub async fn tell(session: &Session, id: &str, spinner: &ProgressBar) -> Infallible {
    let (mut told, mut pause) = (None, PATIENCE);
    loop {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
        let Some(explanation) = ask(session, id).await else { continue };
        let Some(reason) = first_reason(&explanation) else { continue };
        // The message may change although the reason stays: it counts and has times.
        let identity = (reason["code"].clone(), reason["ref"].clone());
        if told.as_ref() == Some(&identity) {
            continue;
        }
        spinner.suspend(|| session.out.note(sentence(id, reason)));
        (told, pause) = (Some(identity), PATIENCE);
    }
}

async fn ask(session: &Session, id: &str) -> Option<Value> {
    let response = session.client.get(&["executions", id, "explain"]).send().await.ok()?;
    response.json().ok()
}

/// Returns the first reason why the execution does not start; none if it runs, is suspended or has ended.
fn first_reason(explanation: &Value) -> Option<&Value> {
    WAITS.contains(&text(explanation, "/state")).then(|| items(explanation, "/reasons").first())?
}

fn sentence(id: &str, reason: &Value) -> String {
    let message = text(reason, "/message");
    let advice = match text(reason, "/code") {
        "no_worker_in_lane" | "no_worker_of_kind" | "no_capable_worker" => {
            "start one that does; `selvedge workers` lists those that live".to_owned()
        }
        _ => match remedy(id, reason) {
            Some(command) => format!("`{command}` may help"),
            None => format!("`selvedge explain {id}` says more"),
        },
    };
    format!("selvedge: {id} still waits. {message}; {advice}.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_an_execution_that_waits_for_its_next_attempt_has_a_reason_to_tell() {
        let explained = |state| json!({"state": state, "reasons": [{"code": "first"}, {"code": "second"}]});
        for state in ["waiting", "waiting_dependencies", "delayed", "held"] {
            assert_eq!(first_reason(&explained(state)), Some(&json!({"code": "first"})));
        }
        for state in ["active", "suspended", "completed", "failed"] {
            assert_eq!(first_reason(&explained(state)), None);
        }
        assert_eq!(first_reason(&json!({"state": "waiting", "reasons": []})), None);
    }

    #[test]
    fn a_reason_comes_with_what_to_do() {
        let paused = json!({"code": "lane_paused", "message": "Lane images is paused", "ref": {"type": "lane", "id": "images"}});
        let expected =
            "selvedge: e1 still waits. Lane images is paused; `selvedge lanes resume images` may help.";
        assert_eq!(sentence("e1", &paused), expected);
        let upstream = json!({"code": "other", "message": "Something else holds it"});
        let expected = "selvedge: e1 still waits. Something else holds it; `selvedge explain e1` says more.";
        assert_eq!(sentence("e1", &upstream), expected);
    }
}
