//! What is sent to the writer: something to do in a transaction, and whom to tell afterwards.

use crate::failure::failure;
use rusqlite::Connection;
use selvedge_core::Timestamp;
use selvedge_store::Error;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tokio::sync::oneshot;

/// Something to do in a transaction.
pub trait Job: Send {
    /// Does it, and says whether it succeeded: only then it is kept.
    fn run(&mut self, desk: &Desk<'_>) -> bool;
    /// Tells its caller what became of it, now that the transaction did or did not commit.
    fn answer(self: Box<Self>, committed: Result<(), Error>);
}

/// What a job works with.
pub struct Desk<'a> {
    /// The connection, in a transaction, in a savepoint of the job's own.
    pub connection: &'a Connection,
    /// The job's time.
    pub now: Timestamp,
}

impl Desk<'_> {
    /// Takes back what the job has done so far.
    pub fn take_back(&self) -> Result<(), Error> {
        self.connection.execute_batch("rollback to job").map_err(failure)
    }
}

/// A piece of work as a job: a panic of the work is its error.
struct Work<W, T> {
    work: Option<W>,
    outcome: Result<T, Error>,
    caller: oneshot::Sender<Result<T, Error>>,
}

/// Makes a job of `work`, and the place where its answer arrives.
pub fn job<T: Send + 'static>(
    work: impl FnOnce(&Desk<'_>) -> Result<T, Error> + Send + 'static,
) -> (Box<dyn Job>, oneshot::Receiver<Result<T, Error>>) {
    let (caller, answer) = oneshot::channel();
    let job = Work { work: Some(work), outcome: Err(Error::Unavailable("it was not begun".into())), caller };
    (Box::new(job), answer)
}

impl<T: Send, W: FnOnce(&Desk<'_>) -> Result<T, Error> + Send> Job for Work<W, T> {
    fn run(&mut self, desk: &Desk<'_>) -> bool {
        if let Some(work) = self.work.take() {
            self.outcome = catch_unwind(AssertUnwindSafe(|| work(desk))).unwrap_or_else(|panic| {
                let text = text_of(&*panic);
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
        // Where nobody waits any more, nobody is told.
        let _ = self.caller.send(answer);
    }
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}
