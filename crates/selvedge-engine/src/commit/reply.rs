//! The way back of a reply to the caller of a rule.

use crate::Error;
use selvedge_core::rule::{Caller, Queued, Rule};
use selvedge_store::{BoxedTask, Error as StoreError};
use tokio::sync::oneshot;

/// Receives the reply to a rule.
pub type ReplyReceiver<R> = oneshot::Receiver<Result<<R as Rule>::Reply, StoreError>>;

struct ReplySender<T>(oneshot::Sender<Result<T, StoreError>>);

impl<R: Rule> Caller<R> for ReplySender<R::Reply> {
    type Error = StoreError;

    fn answer(self, reply: Result<R::Reply, StoreError>) -> Option<R::Reply> {
        self.0.send(reply).err().and_then(Result::ok)
    }
}

/// Returns a rule as a task, and the channel of its reply. Dropping the task without a reply closes the channel.
pub fn new_task<R: Rule>(rule: R) -> (BoxedTask, ReplyReceiver<R>) {
    let (sender, receiver) = oneshot::channel();
    (Box::new(Queued::of(rule, ReplySender(sender))), receiver)
}

/// Waits for a reply. A closed channel is reported as [`Error::Closed`].
pub async fn receive<T>(reply: oneshot::Receiver<Result<T, StoreError>>) -> Result<T, Error> {
    Ok(reply.await.map_err(|_closed| Error::Closed)??)
}
