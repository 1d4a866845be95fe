//! `selvedge list`: lists executions, newest first.

use super::execution_view;
use super::get::values;
use super::selection::Selection;
use crate::failure::Failure;
use crate::remote::{Remote, Session};
use crate::terminal::{Live, Output, dim};
use clap::Args;
use std::time::Duration;

/// The time between two looks of `--watch`.
const INTERVAL: Duration = Duration::from_secs(2);

/// The arguments of `selvedge list`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
#[group(skip)]
pub struct Arguments {
    #[command(flatten)]
    selection: Selection,
    /// List at most this many
    #[arg(long, value_name = "NUMBER", default_value_t = 50)]
    limit: usize,
    /// Draw the list again every 2 s until interrupted
    #[arg(long, conflicts_with = "json")]
    watch: bool,
    #[command(flatten)]
    remote: Remote,
}

const EXAMPLES: &str = "\
Examples:
  selvedge list
  selvedge list --state failed --submitted-after 1h --error timeout
  selvedge list --lane images --tag team=web --json | jq -r .id
  selvedge list --state active --watch";

pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let session = arguments.remote.open()?;
    if session.out.json {
        let request = arguments.selection.query(session.client.get(&["executions"]));
        for item in request.items(arguments.limit).await? {
            session.out.json_line(item.get())?;
        }
        return Ok(());
    }
    let mut live = if arguments.watch { Live::new(&session.out) } else { None };
    let patient = session.patient();
    let mut asked = &session;
    loop {
        let drawn = draw(&arguments, asked, &session.out).await?;
        asked = &patient;
        match &mut live {
            None => session.out.raw(&drawn)?,
            Some(live) => live.draw(drawn.trim_end())?,
        }
        if !arguments.watch {
            return Ok(());
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

async fn draw(arguments: &Arguments, session: &Session, out: &Output) -> Result<String, Failure> {
    let request = arguments.selection.query(session.client.get(&["executions"]));
    let executions = values(&request.items(arguments.limit).await?);
    if executions.is_empty() {
        let hint = match arguments.selection.is_empty() {
            true => "There are no executions. Submit one: selvedge submit demo.echo '\"hello\"'",
            false => "No execution matches.",
        };
        return Ok(format!("{hint}\n"));
    }
    let mut text = execution_view::table(&executions).draw(out.width);
    if executions.len() == arguments.limit {
        text.push_str(&dim(format!("The newest {}; --limit shows more.\n", arguments.limit)));
    }
    Ok(text)
}
