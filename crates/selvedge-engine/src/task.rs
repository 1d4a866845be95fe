//! A rule on its way through the committer: an envelope with the channel that its reply leaves by, after the commit.

use crate::Error;
use selvedge_core::rule::{Envelope, Phase, Profile, Rule, Task};
use selvedge_core::rules::worker::PutBack;
use selvedge_core::{Needs, Work};
use tokio::sync::oneshot;

/// Receives the reply to a rule.
pub type Reply<R> = oneshot::Receiver<Result<<R as Rule>::Reply, Error>>;

/// A task whose caller waits for its reply.
pub trait Post: Task {
    /// Sends the reply. If nobody waits for it any more, returns the leases to put back.
    fn deliver(self: Box<Self>) -> Vec<PutBack>;
    /// Tells the caller that the transaction failed.
    fn fail(self: Box<Self>, error: Error);
}

struct Posted<R: Rule> {
    envelope: Envelope<R>,
    reply: oneshot::Sender<Result<R::Reply, Error>>,
}

/// Posts a rule. Dropped without an answer, it closes the channel of the reply.
pub fn post<R: Rule>(rule: R) -> (Box<dyn Post>, Reply<R>) {
    let (reply, receiver) = oneshot::channel();
    (Box::new(Posted { envelope: Envelope::new(rule), reply }), receiver)
}

/// Waits for a reply.
pub async fn answer<T>(reply: oneshot::Receiver<Result<T, Error>>) -> Result<T, Error> {
    reply.await.unwrap_or(Err(Error::Closed))
}

impl<R: Rule> Task for Posted<R> {
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
    fn reset(&mut self) {
        self.envelope.reset();
    }
    fn is_decided(&self) -> bool {
        self.envelope.is_decided()
    }
}

impl<R: Rule> Post for Posted<R> {
    fn deliver(self: Box<Self>) -> Vec<PutBack> {
        let Some(reply) = self.envelope.into_reply() else { return Vec::new() };
        match self.reply.send(Ok(reply)) {
            Err(Ok(unheard)) => R::undelivered(unheard),
            Ok(()) | Err(Err(_)) => Vec::new(),
        }
    }

    fn fail(self: Box<Self>, error: Error) {
        let _ = self.reply.send(Err(error));
    }
}
