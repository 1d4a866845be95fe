//! The dispatcher: runs the work that a commit of this process left to be done right after it, in shared batches.
//!
//! It only saves time: the reconcilers find the same work in the store. A conflict is retried a few times and then left
//! to them, and so is everything that a crash of this process leaves undone.

use super::committer::Committer;
use super::task_queue::{ReplyReceiver, new_task, receive};
use crate::Error;
use selvedge_core::outbox::OutboxRow;
use selvedge_core::rules::flows::dispatch::{Dispatch, Dispatched};
use selvedge_core::rules::flows::whole::SettleFlow;
use selvedge_core::rules::schedule::WakeSchedule;
use selvedge_core::schedule::ScheduleName;
use selvedge_core::{FlowId, Refusal, Rule};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;

/// Pauses before each retry after a conflict.
const RETRY_PAUSES: [Duration; 3] =
    [Duration::from_millis(5), Duration::from_millis(10), Duration::from_millis(20)];

/// Work that a commit left to be done.
#[derive(Debug, Default)]
pub struct FollowUp {
    /// Outbox rows to dispatch.
    pub outbox: Vec<OutboxRow>,
    /// Flows without a live member, to be settled.
    pub emptied_flows: Vec<FlowId>,
    /// Schedules of which a run ended while times may wait for that.
    pub schedules: Vec<ScheduleName>,
}

impl FollowUp {
    /// Reports whether nothing is left to be done.
    pub fn is_empty(&self) -> bool {
        self.outbox.is_empty() && self.emptied_flows.is_empty() && self.schedules.is_empty()
    }
}

/// Runs follow-up work until the channel closes or the engine shuts down.
pub async fn run(committer: Weak<Committer>, mut follow_ups: UnboundedReceiver<FollowUp>) {
    while let Some(FollowUp { outbox, emptied_flows, schedules }) = follow_ups.recv().await {
        let Some(committer) = committer.upgrade() else { return };
        let dispatches = outbox.into_iter().map(|row| Dispatch { row, only_close: false }).collect();
        let wakes = schedules.into_iter().map(|name| WakeSchedule { name }).collect();
        let settles = emptied_flows.into_iter().map(|flow| SettleFlow { flow }).collect();
        let log_refusal = |done: Result<Dispatched, Refusal>| {
            if let Err(refusal) = done {
                tracing::error!(%refusal, "an outbox row was refused; left to the reconcilers");
            }
        };
        // All are enqueued before any is awaited, so that they share batches.
        let Ok(dispatches) = enqueue(&committer, dispatches) else { return };
        let Ok(settles) = enqueue(&committer, settles) else { return };
        let Ok(wakes) = enqueue(&committer, wakes) else { return };
        tokio::spawn(finish(committer.clone(), wakes, drop));
        tokio::spawn(finish(committer.clone(), dispatches, log_refusal));
        tokio::spawn(finish(committer, settles, drop));
    }
}

/// Enqueued rules with their reply channels.
type Enqueued<R> = Vec<(R, ReplyReceiver<R>)>;

fn enqueue<R: Rule + Clone>(committer: &Arc<Committer>, rules: Vec<R>) -> Result<Enqueued<R>, Error> {
    let (tasks, replies): (Vec<_>, Vec<_>) = rules.iter().cloned().map(new_task).unzip();
    if !tasks.is_empty() {
        committer.enqueue(tasks)?;
    }
    Ok(rules.into_iter().zip(replies).collect())
}

/// Waits for the replies and passes them to `done`. Retries the rules that met a conflict.
async fn finish<R: Rule + Clone>(
    committer: Arc<Committer>,
    mut enqueued: Enqueued<R>,
    done: impl Fn(R::Reply) + Send,
) {
    for pause in RETRY_PAUSES.into_iter().map(Some).chain([None]) {
        let mut conflicted = Vec::new();
        for (rule, reply) in enqueued {
            match receive(reply).await {
                Err(Error::Store(selvedge_store::Error::Contended(_))) => conflicted.push(rule),
                Err(error) => tracing::debug!(%error, "follow-up work failed; left to the reconcilers"),
                Ok(reply) => done(reply),
            }
        }
        let Some(pause) = pause.filter(|_| !conflicted.is_empty()) else { return };
        tokio::time::sleep(pause).await;
        enqueued = match enqueue(&committer, conflicted) {
            Ok(enqueued) => enqueued,
            Err(_closed) => return,
        };
    }
}
