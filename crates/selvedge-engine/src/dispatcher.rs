//! The dispatcher: what a commit of this process left to be done is done right after it, in commits that others share.
//!
//! It is only ever quicker than the reconcilers, which find the same work in the store. A conflict is tried again a few
//! times and then left to them.

use crate::Error;
use crate::committer::Committer;
use crate::task::{Reply, answer, post};
use selvedge_core::outbox::OutboxRow;
use selvedge_core::rules::dispatch::{Dispatch, Dispatched};
use selvedge_core::rules::flow::Settle;
use selvedge_core::{FlowId, Refusal, Rule};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;

/// How long a conflict is waited for before it is tried again.
const PAUSES: [Duration; 3] =
    [Duration::from_millis(5), Duration::from_millis(10), Duration::from_millis(20)];

/// Work that a commit left to be done.
#[derive(Debug, Default)]
pub struct FollowUp {
    /// Rows of the outbox.
    pub outbox: Vec<OutboxRow>,
    /// Flows whose end is to be settled.
    pub emptied: Vec<FlowId>,
}

impl FollowUp {
    /// Whether nothing was left.
    pub fn is_empty(&self) -> bool {
        self.outbox.is_empty() && self.emptied.is_empty()
    }
}

/// Runs follow-up work until the channel closes.
pub async fn run(committer: Weak<Committer>, mut left: UnboundedReceiver<FollowUp>) {
    while let Some(left) = left.recv().await {
        let Some(committer) = committer.upgrade() else { return };
        let dispatches = left.outbox.into_iter().map(|row| Dispatch { row, only_close: false }).collect();
        let settles = left.emptied.into_iter().map(|flow| Settle { flow }).collect();
        let log = |done: Result<Dispatched, Refusal>| {
            if let Err(refusal) = done {
                tracing::error!(%refusal, "left to the reconcilers");
            }
        };
        // Both are enqueued before either is waited for, so that they share batches with what comes.
        let Ok(dispatches) = start(&committer, dispatches) else { return };
        let Ok(settles) = start(&committer, settles) else { return };
        tokio::spawn(finish(committer.clone(), dispatches, log));
        tokio::spawn(finish(committer, settles, drop));
    }
}

/// Rules with their replies.
type Started<R> = Vec<(R, Reply<R>)>;

fn start<R: Rule + Clone>(committer: &Arc<Committer>, rules: Vec<R>) -> Result<Started<R>, Error> {
    let (tasks, replies): (Vec<_>, Vec<_>) = rules.iter().cloned().map(post).unzip();
    if !tasks.is_empty() {
        committer.enqueue(tasks)?;
    }
    Ok(rules.into_iter().zip(replies).collect())
}

/// Waits for the replies, and retries rules that met a conflict.
async fn finish<R: Rule + Clone>(
    committer: Arc<Committer>,
    mut started: Started<R>,
    done: impl Fn(R::Reply) + Send,
) {
    for pause in PAUSES.into_iter().map(Some).chain([None]) {
        let mut again = Vec::new();
        for (rule, reply) in started {
            match answer(reply).await {
                Err(Error::Store(selvedge_store::Error::Contended(_))) => again.push(rule),
                Err(error) => tracing::debug!(%error, "left to the reconcilers"),
                Ok(reply) => done(reply),
            }
        }
        let Some(pause) = pause.filter(|_| !again.is_empty()) else { return };
        tokio::time::sleep(pause).await;
        started = match start(&committer, again) {
            Ok(started) => started,
            Err(_closed) => return,
        };
    }
}
