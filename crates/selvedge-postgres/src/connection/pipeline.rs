//! Statements that are sent together on one connection. The server runs them in the order in which they were added.

use super::failure::StatementError;
use super::pool::Connection;
use futures_util::future::maybe_done;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Statement};

/// The parameters of a statement.
pub type Parameters<'a> = Vec<Box<dyn ToSql + Sync + Send + 'a>>;

/// Borrows parameters as the driver takes them.
pub fn as_refs<'p>(parameters: &'p Parameters<'_>) -> Vec<&'p (dyn ToSql + Sync)> {
    parameters.iter().map(|value| value.as_ref() as &(dyn ToSql + Sync)).collect()
}

/// Statements to be sent together.
pub struct Pipeline<'a> {
    connection: &'a Connection,
    statements: Vec<(Statement, Parameters<'a>)>,
}

impl<'a> Pipeline<'a> {
    /// Returns an empty pipeline.
    pub fn new(connection: &'a Connection) -> Self {
        Pipeline { connection, statements: Vec::new() }
    }

    /// Adds a statement, which is prepared first if this connection has not used it before.
    pub async fn add(&mut self, text: &str, parameters: Parameters<'a>) -> Result<(), StatementError> {
        let statement = self.connection.prepare_cached(text).await?;
        self.statements.push((statement, parameters));
        Ok(())
    }

    /// Sends all statements and waits for all answers, which are returned in order. After an error the server skips the
    /// rest of the transaction, so the first error is the cause of all others. The outer error means that the connection
    /// was silent before the last answer.
    pub async fn run(self) -> Result<Vec<Result<Vec<Row>, StatementError>>, StatementError> {
        let client = self.connection.client();
        let mut running: Vec<_> = self
            .statements
            .iter()
            .map(|(statement, parameters)| {
                let parameters = as_refs(parameters);
                Box::pin(maybe_done(async move { client.query(statement, &parameters).await }))
            })
            .collect();
        let mut answered = 0;
        while answered < running.len() {
            // The first poll of a query sends it, and the first round of polls is in order.
            let next_answer = poll_fn(|context| {
                let mut ready = 0;
                for one in &mut running {
                    ready += usize::from(one.as_mut().poll(context).is_ready());
                }
                if ready > answered { Poll::Ready(ready) } else { Poll::Pending }
            });
            answered = self.connection.answer(next_answer).await?;
        }
        let answers = running.iter_mut().filter_map(|one| Pin::as_mut(one).take_output());
        Ok(answers.map(|answer| answer.map_err(StatementError::from)).collect())
    }
}
