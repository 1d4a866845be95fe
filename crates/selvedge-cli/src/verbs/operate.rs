//! The actions of operators on one execution or many: `cancel`, `replay`, `resume`, `reschedule`, `priority`, `tag`,
//! `revoke-lease`.
//!
//! One id is one call. Several ids, or filters, are a bulk call: its dry run is shown first, and a person is asked. More
//! executions than a bulk call takes become a bulk job, whose progress is shown.

use super::bulk_jobs;
use super::selection::Selection;
use super::values::{add, millis, pair, span};
use crate::failure::Failure;
use crate::remote::{Remote, Session};
use crate::terminal::{items, number, spinner, state_text, text, truth};
use clap::Args;
use selvedge_client::Response;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// The most executions of a bulk call. More become a bulk job.
const MOST: u64 = 10_000;

/// The executions of an action.
#[derive(Args, Clone, Debug)]
#[group(skip)]
pub struct Targets {
    /// The ids of executions; without them, those that the filters select
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// Select all executions of the namespace
    #[arg(long, help_heading = "Filter")]
    all: bool,
    #[command(flatten)]
    selection: Selection,
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    /// Run in the background as a bulk job, whatever the number
    #[arg(long)]
    job: bool,
    #[command(flatten)]
    remote: Remote,
}

/// The arguments of `selvedge cancel`.
#[derive(Args, Clone, Debug)]
#[command(after_help = CANCEL_EXAMPLES)]
#[group(skip)]
pub struct Cancel {
    /// Give a reason, which events and explanations repeat
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Ask the worker first, and cancel after this time at the latest
    #[arg(long, value_name = "TIME", value_parser = span)]
    grace: Option<Duration>,
    #[command(flatten)]
    targets: Targets,
}

const CANCEL_EXAMPLES: &str = "\
Examples:
  selvedge cancel 0197f3c8-2b1e-7c4e-9d0a-1f2e3d4c5b6a --reason 'not needed' --grace 30s
  selvedge cancel --lane images --state waiting --dry-run
  selvedge cancel --kind resize --submitted-after 1h --yes";

/// The arguments of `selvedge replay`.
#[derive(Args, Clone, Debug)]
#[command(after_help = REPLAY_EXAMPLES)]
#[group(skip)]
pub struct Replay {
    #[command(flatten)]
    targets: Targets,
}

const REPLAY_EXAMPLES: &str = "\
Examples:
  selvedge replay 0197f3c8-2b1e-7c4e-9d0a-1f2e3d4c5b6a
  selvedge replay 0197f3c8-2b1e-7c4e-9d0a-1f2e3d4c5b6a --dry-run   lists the skipped nodes that would reopen
  selvedge replay --state failed --ended-after 2h --error 'connection refused'";

/// The arguments of `selvedge resume`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  selvedge resume 0197f3c8-2b1e-7c4e-9d0a-1f2e3d4c5b6a")]
#[group(skip)]
pub struct Resume {
    /// The id of a suspended execution
    id: String,
    #[command(flatten)]
    remote: Remote,
}

/// The arguments of `selvedge revoke-lease`.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Examples:\n  selvedge revoke-lease 0197f3c8-2b1e-7c4e-9d0a-1f2e3d4c5b6a --reason 'the machine is slow'"
)]
#[group(skip)]
pub struct RevokeLease {
    /// The id of an active execution
    id: String,
    /// Give a reason
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

/// The arguments of `selvedge reschedule`.
#[derive(Args, Clone, Debug)]
#[command(after_help = RESCHEDULE_EXAMPLES)]
#[group(skip)]
pub struct Reschedule {
    /// Start now
    #[arg(long, conflicts_with_all = ["delay", "until"])]
    now: bool,
    /// Start after this time
    #[arg(long, value_name = "TIME", value_parser = span, conflicts_with = "until")]
    delay: Option<Duration>,
    /// Start at this time (RFC 3339)
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    #[command(flatten)]
    targets: Targets,
}

const RESCHEDULE_EXAMPLES: &str = "\
Examples:
  selvedge reschedule 0197f3c8-2b1e-7c4e-9d0a-1f2e3d4c5b6a --now
  selvedge reschedule --lane mail --state waiting --delay 1h";

/// The arguments of `selvedge priority`.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Examples:\n  selvedge priority 10 0197f3c8-2b1e-7c4e-9d0a-1f2e3d4c5b6a\n  selvedge priority -5 --kind report --state waiting"
)]
#[group(skip)]
pub struct Priority {
    /// The priority, from -100 to 100; higher ones start first
    #[arg(allow_negative_numbers = true)]
    priority: i32,
    #[command(flatten)]
    targets: Targets,
}

/// The arguments of `selvedge tag`.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Examples:\n  selvedge tag --set team=web --remove old 0197f3c8-2b1e-7c4e-9d0a-1f2e3d4c5b6a"
)]
#[group(skip)]
pub struct Tag {
    /// Set a tag; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    set: Vec<(String, String)>,
    /// Remove a tag; may be repeated
    #[arg(long, value_name = "NAME")]
    remove: Vec<String>,
    #[command(flatten)]
    targets: Targets,
}

pub async fn cancel(arguments: Cancel) -> Result<(), Failure> {
    let mut fields = Map::new();
    add(&mut fields, "reason", arguments.reason);
    add(&mut fields, "grace_ms", arguments.grace.map(millis));
    arguments.targets.act("cancel", "cancelled", fields).await
}

pub async fn replay(arguments: Replay) -> Result<(), Failure> {
    arguments.targets.act("replay", "replayed", Map::new()).await
}

pub async fn reschedule(arguments: Reschedule) -> Result<(), Failure> {
    let mut fields = Map::new();
    match (arguments.now, arguments.delay, arguments.until) {
        (true, ..) => add(&mut fields, "delay_ms", Some(0)),
        (false, Some(delay), _) => add(&mut fields, "delay_ms", Some(millis(delay))),
        (false, None, Some(until)) => add(&mut fields, "until_at", Some(until)),
        (false, None, None) => {
            return Err(Failure::Usage(
                "say when: --now, --delay 1h, or --until 2026-03-01T12:00:00Z".into(),
            ));
        }
    }
    arguments.targets.act("reschedule", "rescheduled", fields).await
}

/// Changes the priority of executions.
pub async fn priority(arguments: Priority) -> Result<(), Failure> {
    let fields = Map::from_iter([("priority".to_owned(), json!(arguments.priority))]);
    let done = format!("given the priority {}", arguments.priority);
    arguments.targets.act("priority", &done, fields).await
}

/// Changes the tags of executions.
pub async fn tag(arguments: Tag) -> Result<(), Failure> {
    if arguments.set.is_empty() && arguments.remove.is_empty() {
        return Err(Failure::Usage("say what to change: --set NAME=VALUE or --remove NAME".into()));
    }
    let set: Map<String, Value> =
        arguments.set.into_iter().map(|(name, value)| (name, json!(value))).collect();
    let fields = Map::from_iter([
        ("set".to_owned(), Value::Object(set)),
        ("remove".to_owned(), json!(arguments.remove)),
    ]);
    arguments.targets.act("tags", "tagged", fields).await
}

/// Resumes a suspended execution.
pub async fn resume(arguments: Resume) -> Result<(), Failure> {
    act_on_one(&arguments.remote.open()?, &arguments.id, "resume", "", &Map::new()).await
}

/// Takes an execution away from its worker.
pub async fn revoke_lease(arguments: RevokeLease) -> Result<(), Failure> {
    let mut fields = Map::new();
    add(&mut fields, "reason", arguments.reason);
    act_on_one(&arguments.remote.open()?, &arguments.id, "revoke-lease", "", &fields).await
}

/// Applies an action to an execution. `done` is the participle of an action that does not show in the state; empty otherwise.
async fn act_on_one(
    session: &Session,
    id: &str,
    action: &str,
    done: &str,
    fields: &Map<String, Value>,
) -> Result<(), Failure> {
    let response = session.client.post(&["executions", id, action]).json(fields).send().await?;
    if session.out.json {
        return session.out.json_line(response.text()?);
    }
    let answer: Value = response.json()?;
    for reopened in items(&answer, "/would_reopen") {
        session.out.line(format!("{} would reopen", reopened.as_str().unwrap_or_default()))?;
    }
    let state = state_text(text(&answer, "/execution/state"));
    if fields.get("dry_run").is_some() {
        return session.out.line(format!("{id} is {state} and can be replayed"));
    }
    match done {
        "" if truth(&answer, "/execution/cancel_requested") => {
            session.out.line(format!("{id} is {state}; its worker is asked to end it"))
        }
        "" => session.out.line(format!("{id} is {state}")),
        done => session.out.line(format!("{id} is {done}; its state is {state}")),
    }
}

impl Targets {
    /// Applies an action. `done` is its participle.
    async fn act(self, action: &str, done: &str, fields: Map<String, Value>) -> Result<(), Failure> {
        let session = self.remote.open()?;
        let names_one = self.selection.is_empty() && !self.all && !self.job;
        if let ([id], true) = (self.ids.as_slice(), names_one) {
            let mut fields = fields;
            match (self.dry_run, action) {
                (false, _) => {}
                (true, "replay") => add(&mut fields, "dry_run", Some(true)),
                (true, _) => return self.act_on_many(&session, action, done, fields).await,
            }
            // The state shows what the others did.
            let done = if matches!(action, "cancel" | "replay") { "" } else { done };
            return act_on_one(&session, id, action, done, &fields).await;
        }
        self.act_on_many(&session, action, done, fields).await
    }

    /// Returns the fields of a bulk call that select its executions.
    fn selected(&self) -> Result<Map<String, Value>, Failure> {
        let selected = match (self.ids.is_empty(), self.selection.is_empty(), self.all) {
            (false, true, false) => ("ids", json!(self.ids)),
            (true, false, false) => ("filter", self.selection.filter()),
            (true, true, true) => ("all", json!(true)),
            (true, true, false) => {
                return Err(Failure::Usage(
                    "name the executions: by ids, by filters such as --state failed, or --all".into(),
                ));
            }
            _ => return Err(Failure::Usage("give ids, or filters, or --all, but not two of them".into())),
        };
        Ok(Map::from_iter([(selected.0.to_owned(), selected.1)]))
    }

    async fn act_on_many(
        &self,
        session: &Session,
        action: &str,
        done: &str,
        mut fields: Map<String, Value>,
    ) -> Result<(), Failure> {
        if self.job && !self.ids.is_empty() {
            return Err(Failure::Usage("a bulk job takes filters or --all, not ids".into()));
        }
        fields.insert("type".into(), json!(action));
        let mut body = self.selected()?;
        body.insert("action".into(), Value::Object(fields));
        let mut dry = body.clone();
        dry.insert("dry_run".into(), json!(true));
        let wait = spinner(&session.out, "counting");
        let preview = session.client.post(&["executions", "bulk"]).json(&dry).send().await;
        wait.finish_and_clear();
        let preview = match preview {
            Err(error) if error.code() == Some("too_many") => None,
            preview => Some(preview?),
        };
        let would_change = match &preview {
            Some(preview) => Some(number(&preview.json()?, "/would_change")),
            None => None,
        };
        let effect = match (would_change, &preview) {
            (Some(_), Some(preview)) if self.dry_run => return self.report(session, preview, "would change"),
            (Some(0), Some(preview)) => return self.report(session, preview, done),
            (Some(1), _) => format!("1 execution will be {done}."),
            (Some(count), _) => format!("{count} executions will be {done}."),
            (None, _) if self.dry_run => {
                return match session.out.json {
                    true => session.out.line(json!({"more_than": MOST}).to_string()),
                    false => session
                        .out
                        .line(format!("More than {MOST} executions match: a bulk job would do it.")),
                };
            }
            (None, _) => format!("More than {MOST} executions will be {done}."),
        };
        if !session.confirm(&effect, self.yes)? {
            return Err(Failure::Failed("nothing was changed".into()));
        }
        if self.job || would_change.is_none() {
            return bulk_jobs::start(session, &Value::Object(body)).await;
        }
        let wait = spinner(&session.out, "working");
        let response = session.client.post(&["executions", "bulk"]).json(&body).send().await;
        wait.finish_and_clear();
        self.report(session, &response?, done)
    }

    /// Prints the answer of a bulk call. Fails if an execution that was named by its id was not changed.
    fn report(&self, session: &Session, response: &Response, done: &str) -> Result<(), Failure> {
        report(session, response, done)?;
        let answer: Value = response.json()?;
        let failed = items(&answer, "/refused").len() + items(&answer, "/not_found").len();
        match self.ids.is_empty() || failed == 0 {
            true => Ok(()),
            false => {
                Err(Failure::Failed(format!("{failed} of {} executions cannot be {done}", self.ids.len())))
            }
        }
    }
}

fn report(session: &Session, response: &Response, done: &str) -> Result<(), Failure> {
    if session.out.json {
        return session.out.json_line(response.text()?);
    }
    let answer: Value = response.json()?;
    let changed = number(&answer, "/done").max(number(&answer, "/would_change"));
    let (matched, unchanged) = (number(&answer, "/matched"), number(&answer, "/unchanged"));
    let refused = items(&answer, "/refused");
    session.out.line(format!(
        "{matched} matched, {changed} {done}, {unchanged} unchanged, {} refused",
        refused.len()
    ))?;
    for refused in refused {
        session.out.line(format!("{} refused: {}", text(refused, "/id"), text(refused, "/code")))?;
    }
    for missing in items(&answer, "/not_found") {
        session.out.line(format!("{} does not exist", missing.as_str().unwrap_or_default()))?;
    }
    Ok(())
}
