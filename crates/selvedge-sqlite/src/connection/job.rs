//! A job for the writer: work to do in a transaction, and the caller that gets the answer after the commit.

use crate::connection::failure::failure;
use rusqlite::Connection;
use selvedge_core::Timestamp;
use selvedge_store::Error;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tokio::sync::oneshot;

/// Work to do in a transaction.
pub trait Job: Send {
    /// Does the work. Returns true if it succeeded; otherwise its changes are rolled back.
    fn run(&mut self, context: &JobContext<'_>) -> bool;
    /// Sends the outcome to the caller, after the transaction has committed or failed.
    fn answer(self: Box<Self>, committed: Result<(), Error>);
}

/// The connection and the time that a job works with.
pub struct JobContext<'a> {
    /// The connection, in a transaction and in a savepoint of the job's own.
    pub connection: &'a Connection,
    pub now: Timestamp,
}

impl JobContext<'_> {
    /// Undoes the changes that the job has made so far.
    pub fn roll_back(&self) -> Result<(), Error> {
        self.connection.execute_batch("rollback to job").map_err(failure)
    }
}

/// A closure as a job. A panic of the closure becomes its error.
struct Work<W, T> {
    work: Option<W>,
    outcome: Result<T, Error>,
    caller: oneshot::Sender<Result<T, Error>>,
}

/// Returns a job that runs `work`, and the receiver of its answer.
pub fn job<T: Send + 'static>(
    work: impl FnOnce(&JobContext<'_>) -> Result<T, Error> + Send + 'static,
) -> (Box<dyn Job>, oneshot::Receiver<Result<T, Error>>) {
    let (caller, answer) = oneshot::channel();
    let outcome = Err(Error::Unavailable("the job was not started".into()));
    (Box::new(Work { work: Some(work), outcome, caller }), answer)
}

impl<T: Send, W: FnOnce(&JobContext<'_>) -> Result<T, Error> + Send> Job for Work<W, T> {
    fn run(&mut self, context: &JobContext<'_>) -> bool {
        if let Some(work) = self.work.take() {
            self.outcome = catch_unwind(AssertUnwindSafe(|| work(context))).unwrap_or_else(|panic| {
                let text = panic_message(&*panic);
                Err(Error::Failed(format!("the decision panicked: {text}")))
            });
        }
        self.outcome.is_ok()
    }

    fn answer(self: Box<Self>, committed: Result<(), Error>) {
        let answer = match (self.work, committed) {
            (Some(_), Err(error)) => Err(error),
            (_, committed) => self.outcome.and_then(|value| committed.map(|()| value)),
        };
        // The caller may have gone away.
        let _ = self.caller.send(answer);
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}
