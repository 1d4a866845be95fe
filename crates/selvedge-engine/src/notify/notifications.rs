//! Notifications between servers: each server announces its commits to the others and wakes its own waiters on theirs.
//!
//! Announcements are coalesced, sent at most once every few milliseconds, and never part of a rule's transaction. They
//! are hints: a slow poll makes waiting claims ask the store again, whatever was lost.

use crate::Options;
use crate::commit::{Committer, WaitingClaims};
use crate::locking::lock;
use selvedge_store::{Notification, Store};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;

/// The minimum time between two announcements of one server.
const ANNOUNCE_INTERVAL: Duration = Duration::from_millis(5);

/// The background tasks that announce, listen and poll. Aborted when stopped or dropped.
pub struct NotificationTasks(Mutex<Vec<JoinHandle<()>>>);

impl NotificationTasks {
    /// Starts the tasks. Announcing and listening need a store that several servers share.
    pub fn start(
        store: Arc<dyn Store>,
        committer: Arc<Committer>,
        waiting: Arc<WaitingClaims>,
        notifications: UnboundedReceiver<Notification>,
        options: &Options,
    ) -> Self {
        let shared = store.describe().shared && options.notifications;
        let mut tasks = vec![tokio::spawn(notify(store.clone(), notifications, shared))];
        if shared {
            tasks.push(tokio::spawn(listen(store, committer)));
        }
        tasks.push(tokio::spawn(poll(waiting, options.poll)));
        NotificationTasks(Mutex::new(tasks))
    }

    /// Aborts the tasks.
    pub fn stop(&self) {
        for task in lock(&self.0).drain(..) {
            task.abort();
        }
    }
}

impl Drop for NotificationTasks {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Sends the notifications of this server, merged. Without other servers it only drains the channel.
async fn notify(store: Arc<dyn Store>, mut notifications: UnboundedReceiver<Notification>, shared: bool) {
    while let Some(mut merged) = notifications.recv().await {
        while let Ok(more) = notifications.try_recv() {
            merged.ready.extend(more.ready);
            merged.ended.extend(more.ended);
            merged.sessions.extend(more.sessions);
            merged.logged |= more.logged;
            merged.streamed.extend(more.streamed);
            merged.inbox |= more.inbox;
        }
        if !shared {
            continue;
        }
        merged.ready.sort_unstable();
        merged.ready.dedup();
        merged.streamed.sort_unstable();
        merged.streamed.dedup();
        if let Err(error) = store.notify(merged).await {
            tracing::debug!(%error, "a notification was not sent; other servers find the changes by polling");
        }
        tokio::time::sleep(ANNOUNCE_INTERVAL).await;
    }
}

async fn listen(store: Arc<dyn Store>, committer: Arc<Committer>) {
    while let Some(notification) = store.next_notification().await {
        committer.wake_local(&notification);
    }
}

async fn poll(waiting: Arc<WaitingClaims>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        waiting.wake_all();
    }
}
