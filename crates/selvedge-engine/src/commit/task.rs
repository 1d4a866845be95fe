//! A rule on its way through the committer: an envelope with the channel that carries its reply after the commit.

use crate::Error;
use selvedge_core::rule::{Envelope, Phase, Profile, Rule, Task};
use selvedge_core::rules::worker::PutBack;
use selvedge_core::{Needs, Work};
use tokio::sync::oneshot;

/// Receives the reply to a rule.
pub type ReplyReceiver<R> = oneshot::Receiver<Result<<R as Rule>::Reply, Error>>;

/// A task whose caller waits for its reply.
pub trait CommitTask: Task {
    /// Sends the reply. Returns the leases to put back if the caller no longer waits.
    fn deliver(self: Box<Self>) -> Vec<PutBack>;
    /// Sends the error of a failed transaction.
    fn fail(self: Box<Self>, error: Error);
}

struct RuleTask<R: Rule> {
    envelope: Envelope<R>,
    reply: oneshot::Sender<Result<R::Reply, Error>>,
}

/// Wraps a rule as a task. Dropping the task without a reply closes the channel.
pub fn new_task<R: Rule>(rule: R) -> (Box<dyn CommitTask>, ReplyReceiver<R>) {
    let (reply, receiver) = oneshot::channel();
    (Box::new(RuleTask { envelope: Envelope::new(rule), reply }), receiver)
}

/// Waits for a reply. A closed channel is reported as [`Error::Closed`].
pub async fn receive<T>(reply: oneshot::Receiver<Result<T, Error>>) -> Result<T, Error> {
    reply.await.unwrap_or(Err(Error::Closed))
}

impl<R: Rule> Task for RuleTask<R> {
    fn phase(&self) -> Phase {
        self.envelope.phase()
    }
    fn profile(&self) -> &Profile {
        self.envelope.profile()
    }
    fn needs(&self, work: &Work, needs: &mut Needs) {
        self.envelope.needs(work, needs);
    }
    fn decide(&mut self, work: &mut Work) {
        self.envelope.decide(work);
    }
    fn carry(&mut self, work: &Work, needs: &mut Needs) {
        self.envelope.carry(work, needs);
    }
    fn reset(&mut self) {
        self.envelope.reset();
    }
    fn is_decided(&self) -> bool {
        self.envelope.is_decided()
    }
}

impl<R: Rule> CommitTask for RuleTask<R> {
    fn deliver(self: Box<Self>) -> Vec<PutBack> {
        let Some(reply) = self.envelope.into_reply() else { return Vec::new() };
        match self.reply.send(Ok(reply)) {
            Err(Ok(undelivered)) => R::undelivered(undelivered),
            Ok(()) | Err(Err(_)) => Vec::new(),
        }
    }

    fn fail(self: Box<Self>, error: Error) {
        let _ = self.reply.send(Err(error));
    }
}
