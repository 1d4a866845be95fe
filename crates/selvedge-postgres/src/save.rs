//! The saving half of a transaction: all statements that save changes, and `commit`, are sent together.
//!
//! Guards are inside the statements: a failing guard aborts the transaction on the server before it reaches the `commit`.
//! The statements are sent in the order of [`kinds::SAVES`]. The last one draws the number of the log, when all locks are
//! held. Rows that many transactions want at once are written just before it, so that no transaction holds them while it waits
//! for others.

use crate::bounds::Written;
use crate::connection::history::History;
use crate::connection::pipeline::{Parameters, Pipeline};
use crate::connection::{Connection, StatementError};
use crate::kinds;
use selvedge_core::FlowId;
use selvedge_core::rows::Changes;
use tokio_postgres::Row;

/// The outcome of a committed save.
#[derive(Debug, Default)]
pub struct Saved {
    /// The number of the log entry.
    pub entry: Option<i64>,
    /// Flows that are running without a live member now.
    pub emptied: Vec<FlowId>,
}

/// The outcome of a save and its commit, or the error because of which the commit had no effect.
pub type Answer = Result<Saved, StatementError>;

/// Takes the answer of a statement.
type Take = fn(&[Row], &mut Saved);

/// Statements to send, in order.
pub struct Saving<'a> {
    pub changes: &'a Changes,
    /// Pairs of class and priority whose revision is written.
    pub pairs: &'a [Written],
    pub history: &'a History,
    statements: Vec<(&'static str, Parameters<'a>, Take)>,
}

impl<'a> Saving<'a> {
    /// Adds a statement.
    pub fn add(&mut self, text: &'static str, parameters: Parameters<'a>, take: Take) {
        self.statements.push((text, parameters, take));
    }

    /// Adds a statement that saves these rows, if there are any.
    pub fn rows<R>(
        &mut self,
        rows: &'a [R],
        text: &'static str,
        parameters: impl FnOnce(&'a [R]) -> Parameters<'a>,
    ) {
        if !rows.is_empty() {
            self.add(text, parameters(rows), ignore);
        }
    }
}

/// Ignores an answer.
pub fn ignore(_: &[Row], _: &mut Saved) {}

/// Saves all changes and commits. An outer error means that the transaction may still be open: nothing was sent, or the
/// connection was silent.
pub async fn save_and_commit(
    client: &Connection,
    changes: &Changes,
    pairs: &[Written],
    history: &History,
) -> Result<Answer, StatementError> {
    let mut saving = Saving { changes, pairs, history, statements: Vec::new() };
    for save in kinds::SAVES {
        save(&mut saving);
    }
    let mut pipeline = Pipeline::new(client);
    let mut takes: Vec<Take> = Vec::new();
    for (text, parameters, take) in saving.statements {
        takes.push(take);
        pipeline.add(text, parameters).await?;
    }
    takes.push(ignore);
    pipeline.add("commit", vec![]).await?;
    Ok(answer(pipeline.run().await?, &takes))
}

/// Reads the answers of the statements, unless one failed.
fn answer(answers: Vec<Result<Vec<Row>, StatementError>>, takes: &[Take]) -> Answer {
    let mut saved = Saved::default();
    for (answer, take) in answers.into_iter().zip(takes) {
        take(&answer?, &mut saved);
    }
    Ok(saved)
}
