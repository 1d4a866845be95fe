//! Checks of the work of a namespace: lanes that do not move, schedules without a next run, webhooks and the inbox.

use super::server::list;
use crate::terminal::{at, items, number, text, truth};
use selvedge_client::{Client, Error};
use selvedge_store::{Finding, Level};
use serde_json::Value;
use std::collections::HashSet;

/// Examines the work of the caller's namespace.
pub async fn examine(client: &Client) -> Vec<Finding> {
    let mut findings = settled("lanes", "every lane with waiting work has a worker", lanes(client).await);
    let schedules = list(client, &["schedules"]).await.map(|found| schedules(&found));
    findings.extend(settled("schedules", "every schedule has a next run", schedules));
    let webhooks = list(client, &["webhooks"]).await.map(|found| webhooks(&found));
    findings.extend(settled("webhooks", "no webhook is paused or has dead deliveries", webhooks));
    let inbox = list(client, &["inbox"]).await.map(|found| inbox(&found));
    findings.extend(settled("inbox", "no submission from SQL was refused", inbox));
    findings
}

/// Returns the findings of a check; one that all is well if there are none, or that the check failed.
fn settled(check: &'static str, well: &str, findings: Result<Vec<Finding>, Error>) -> Vec<Finding> {
    match findings {
        Ok(findings) if findings.is_empty() => vec![Finding::ok(check, well)],
        Ok(findings) => findings,
        Err(error) => vec![Finding::unknown(check, error)],
    }
}

async fn lanes(client: &Client) -> Result<Vec<Finding>, Error> {
    let (lanes, workers) = (list(client, &["lanes"]).await?, list(client, &["workers"]).await?);
    let live = workers.iter().filter(|worker| truth(worker, "/live") && !truth(worker, "/draining"));
    let served: HashSet<&str> =
        live.flat_map(|worker| items(worker, "/lanes")).filter_map(Value::as_str).collect();
    Ok(lanes.iter().filter_map(|lane| about_lane(lane, &served)).collect())
}

fn about_lane(lane: &Value, served: &HashSet<&str>) -> Option<Finding> {
    let (name, waiting) = (text(lane, "/name"), number(lane, "/waiting"));
    match text(lane, "/state") {
        _ if waiting == 0 => None,
        "active" if !served.contains(name) => {
            let message =
                format!("{waiting} executions wait in the lane {name}, and no live worker serves it");
            Some(Finding::new(
                "lanes",
                Level::Warning,
                message,
                format!("start a worker for the lane {name}"),
            ))
        }
        "active" => None,
        state => {
            let message = format!("{waiting} executions wait in the lane {name}, which is {state}");
            Some(Finding::new("lanes", Level::Warning, message, format!("selvedge lanes resume {name}")))
        }
    }
}

fn schedules(schedules: &[Value]) -> Vec<Finding> {
    let never_comes = |schedule: &&Value| at(schedule, "/next_at").is_null() && !truth(schedule, "/paused");
    schedules
        .iter()
        .filter(never_comes)
        .map(|schedule| {
            let name = text(schedule, "/name");
            let message = format!("the schedule {name} has no next run: its times never come again");
            let remedy = format!("change its times with selvedge schedules set {name}, or delete it");
            Finding::new("schedules", Level::Notice, message, remedy)
        })
        .collect()
}

fn webhooks(webhooks: &[Value]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for webhook in webhooks {
        let (name, dead) = (text(webhook, "/name"), number(webhook, "/dead"));
        let error = match text(webhook, "/last_error") {
            "" => String::new(),
            error => format!(" (last error: {error})"),
        };
        if truth(webhook, "/paused") {
            let reason = text(webhook, "/paused_reason");
            let level = if reason == "operator" { Level::Notice } else { Level::Warning };
            let message = format!("the webhook {name} is paused ({reason}){error}");
            findings.push(Finding::new(
                "webhooks",
                level,
                message,
                format!("selvedge webhooks resume {name}"),
            ));
        }
        if dead > 0 {
            let message = format!("{dead} deliveries of the webhook {name} were given up{error}");
            let remedy = format!(
                "repair the receiver, then selvedge webhooks deliveries {name} --state dead and selvedge webhooks replay {name} ID"
            );
            findings.push(Finding::new("webhooks", Level::Warning, message, remedy));
        }
    }
    findings
}

fn inbox(refused: &[Value]) -> Vec<Finding> {
    let Some(newest) = refused.first() else { return Vec::new() };
    let (number, code) = (number(newest, "/number"), text(newest, "/problem/code"));
    let message = format!(
        "{} submissions from SQL were refused; the newest, {number}, because of {code}",
        refused.len()
    );
    let remedy = "selvedge inbox shows them; selvedge inbox retry NUMBER takes one in again";
    vec![Finding::new("inbox", Level::Warning, message, remedy)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_schedule_without_a_next_run_is_found_unless_it_is_paused() {
        let schedule =
            |name: &str, next: Value, paused: bool| json!({"name": name, "next_at": next, "paused": paused});
        let next = json!("2030-01-01T00:00:00Z");
        let all =
            [schedule("a", next, false), schedule("b", Value::Null, true), schedule("c", Value::Null, false)];
        let findings = schedules(&all);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].message.contains("the schedule c has no next run"), "{findings:?}");
    }
}
