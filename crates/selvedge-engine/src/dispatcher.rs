//! The dispatcher: what a commit of this process left to be done is done right after it, in commits that others share.
//!
//! It is only ever quicker than the reconcilers, which find the same work in the store. A conflict is tried again a few
//! times and then left to them.

use crate::Error;
use crate::command::{Command, Reply};
use crate::committer::{Committer, Pending};
use selvedge_core::FlowId;
use selvedge_core::outbox::OutboxRow;
use selvedge_core::rules::dispatch::Dispatch;
use selvedge_core::rules::flow::Settle;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;

/// How long a conflict is waited for before it is tried again.
const PAUSES: [Duration; 3] =
    [Duration::from_millis(5), Duration::from_millis(10), Duration::from_millis(20)];

/// What a commit left to be done.
#[derive(Debug, Default)]
pub struct Left {
    /// Rows of the outbox.
    pub outbox: Vec<OutboxRow>,
    /// Flows whose end is to be settled.
    pub emptied: Vec<FlowId>,
}

impl Left {
    /// Whether nothing was left.
    pub fn is_empty(&self) -> bool {
        self.outbox.is_empty() && self.emptied.is_empty()
    }
}

/// Does what is left, until nobody leaves anything any more.
pub async fn run(committer: Weak<Committer>, mut left: UnboundedReceiver<Left>) {
    while let Some(left) = left.recv().await {
        let Some(committer) = committer.upgrade() else { return };
        let dispatch = |row| Command::Dispatch(Dispatch { row, only_close: false });
        let settle = |flow| Command::Settle(Settle { flow });
        let outbox = left.outbox.into_iter().map(dispatch);
        let commands: Vec<Command> = outbox.chain(left.emptied.into_iter().map(settle)).collect();
        let Ok(replies) = start(&committer, &commands) else { return };
        tokio::spawn(finish(committer, commands, replies));
    }
}

type Replies = Vec<oneshot::Receiver<Result<Reply, Error>>>;

fn start(committer: &Arc<Committer>, commands: &[Command]) -> Result<Replies, Error> {
    let (pending, replies) = commands.iter().cloned().map(Pending::new).unzip();
    committer.enqueue(pending)?;
    Ok(replies)
}

/// Waits for the replies, and tries what met a conflict again.
async fn finish(committer: Arc<Committer>, mut commands: Vec<Command>, mut replies: Replies) {
    for pause in PAUSES.into_iter().map(Some).chain([None]) {
        let mut again = Vec::new();
        for (command, reply) in commands.into_iter().zip(replies) {
            match reply.await.unwrap_or(Err(Error::Closed)) {
                Err(Error::Store(selvedge_store::Error::Contended(_))) => again.push(command),
                Err(error) => tracing::debug!(%error, "left to the reconcilers"),
                Ok(Reply::Dispatch(Err(refusal))) => tracing::error!(%refusal, "left to the reconcilers"),
                Ok(_) => {}
            }
        }
        let Some(pause) = pause.filter(|_| !again.is_empty()) else { return };
        tokio::time::sleep(pause).await;
        commands = again;
        replies = match start(&committer, &commands) {
            Ok(replies) => replies,
            Err(_closed) => return,
        };
    }
}
