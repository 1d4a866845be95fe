//! `selvedge budgets`: lists and changes budgets, counts usage, begins periods.

use super::resource;
use super::values::{add, amount, millis, span};
use crate::failure::Failure;
use crate::remote::{Remote, Session};
use crate::terminal::{flat, relative, text};
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// The arguments of `selvedge budgets`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
#[group(skip)]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Clone, Debug, Subcommand)]
enum Command {
    /// List budgets (the default)
    #[command(after_help = "Example:\n  selvedge budgets list --json")]
    List,
    /// Show one
    #[command(after_help = "Example:\n  selvedge budgets get tokens")]
    Get {
        /// The name of the budget
        name: String,
    },
    /// Create one, or change it; what is not named stays
    #[command(
        after_help = "Example:\n  selvedge budgets set tokens --hard tokens=1000000 --soft tokens=800000 --period 1d"
    )]
    Set(Box<Set>),
    /// Count usage, as a worker would
    #[command(after_help = "Example:\n  selvedge budgets use tokens tokens=3120 --dedup-key call-17")]
    Use {
        /// The name of the budget
        name: String,
        /// The amounts, such as tokens=3120
        #[arg(value_name = "DIMENSION=AMOUNT", value_parser = amount, required = true)]
        amounts: Vec<(String, Value)>,
        /// Count usage with this key once
        #[arg(long, value_name = "KEY")]
        dedup_key: Option<String>,
    },
    /// Begin a new period: usage becomes zero, and what was held goes on
    #[command(after_help = "Example:\n  selvedge budgets reset tokens")]
    Reset {
        /// The name of the budget
        name: String,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
    /// Delete one and release what it held
    #[command(after_help = "Example:\n  selvedge budgets delete tokens")]
    Delete {
        /// The name of the budget
        name: String,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
}

/// The arguments of `selvedge budgets set`.
#[derive(Args, Clone, Debug)]
#[group(skip)]
struct Set {
    /// The name of the budget
    name: String,
    /// Start nothing more at this amount, such as tokens=1000000; may be repeated
    #[arg(long, value_name = "DIMENSION=AMOUNT", value_parser = amount)]
    hard: Vec<(String, Value)>,
    /// Emit an event at this amount; may be repeated
    #[arg(long, value_name = "DIMENSION=AMOUNT", value_parser = amount)]
    soft: Vec<(String, Value)>,
    /// Count for the whole namespace, or for each flow or lane: namespace, flow, lane
    #[arg(long, value_name = "SCOPE")]
    scope: Option<String>,
    /// Begin a new period after this time
    #[arg(long, value_name = "TIME", value_parser = span)]
    period: Option<Duration>,
    /// At the hard limit, let active executions go on, suspend them or fail them: hold, suspend, fail
    #[arg(long, value_name = "POLICY")]
    on_hard: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  selvedge budgets
  selvedge budgets set tokens --hard tokens=1000000 --soft tokens=800000 --period 1d --on-hard suspend
  selvedge budgets reset tokens";

/// Runs the command.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let session = arguments.remote.open()?;
    match arguments.command.unwrap_or(Command::List) {
        Command::List => {
            let headings = ["name", "scope", "on hard", "next reset", "used (reserved) of hard"];
            let empty = "There are no budgets. Create one: selvedge budgets set tokens --hard tokens=1000000";
            resource::list(&session, &["budgets"], &headings, empty, row).await
        }
        Command::Get { name } => resource::get(&session, &["budgets", &name]).await,
        Command::Set(set) => change(&session, *set).await,
        Command::Use { name, amounts, dedup_key } => {
            let mut body = Map::from_iter([("usage".to_owned(), Value::Object(Map::from_iter(amounts)))]);
            add(&mut body, "dedup_key", dedup_key);
            let response = session.client.post(&["budgets", &name, "usage"]).json(&body).send().await?;
            resource::print(&session, &response, |answer| usage(&answer["budget"]))
        }
        Command::Reset { name, yes } => {
            if !session.confirm(&format!("The usage of {name} becomes zero."), yes)? {
                return Err(Failure::Failed("nothing was changed".into()));
            }
            let response = session.client.post(&["budgets", &name, "reset"]).json(&json!({})).send().await?;
            resource::print(&session, &response, |_| format!("The budget {name} begins a new period."))
        }
        Command::Delete { name, yes } => {
            resource::delete(&session, &["budgets", &name], &format!("The budget {name}"), yes).await
        }
    }
}

async fn change(session: &Session, set: Set) -> Result<(), Failure> {
    let mut change = Map::new();
    let mut limits = Map::new();
    for (limit, amounts) in [("hard", set.hard), ("soft", set.soft)] {
        for (dimension, amount) in amounts {
            limits.entry(dimension).or_insert_with(|| json!({}))[limit] = amount;
        }
    }
    if !limits.is_empty() {
        change.insert("limits".into(), Value::Object(limits));
    }
    add(&mut change, "scope", set.scope);
    add(&mut change, "period_ms", set.period.map(millis));
    add(&mut change, "on_hard", set.on_hard);
    resource::require_change(&change, "--hard tokens=1000000")?;
    let response = resource::set(session, &["budgets", &set.name], &change).await?;
    resource::print(session, &response, resource::fields)
}

fn row(budget: &Value) -> Vec<String> {
    vec![
        text(budget, "/name").into(),
        text(budget, "/scope").into(),
        text(budget, "/on_hard").into(),
        relative(text(budget, "/next_reset_at")),
        usage(budget),
    ]
}

/// Returns the usage of each dimension, such as `tokens 800 (50) of 1000`.
fn usage(budget: &Value) -> String {
    let limits = budget["limits"].as_object().into_iter().flatten();
    let amount = |value: &Value| if value.is_null() { "0".to_owned() } else { flat(value) };
    let parts = limits.map(|(dimension, limit)| {
        let (used, reserved) = (&budget["usage"][dimension], &budget["reserved"][dimension]);
        let hard = if limit["hard"].is_null() { "∞".to_owned() } else { flat(&limit["hard"]) };
        format!("{dimension} {} ({}) of {hard}", amount(used), amount(reserved))
    });
    parts.collect::<Vec<String>>().join(", ")
}
