//! Between servers: what became ready, ended, or was taken away here is told to the others, and theirs is heard.
//!
//! Notification is coalesced and sent at most once every few milliseconds, outside of any hot transaction. It is only ever a
//! hint: a slow poll lets waiting claims ask again, whatever was lost.

use crate::Options;
use crate::committer::Committer;
use crate::waiting_claims::WaitingClaims;
use selvedge_store::{Notification, Store};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;

/// The shortest time between two announcements of one server.
const ANNOUNCE_EVERY: Duration = Duration::from_millis(5);

/// The tasks that tell, hear and poll.
pub struct Tasks(Mutex<Vec<JoinHandle<()>>>);

impl Tasks {
    /// Starts them.
    pub fn start(
        store: Arc<dyn Store>,
        committer: Arc<Committer>,
        waiting: Arc<WaitingClaims>,
        news: UnboundedReceiver<Notification>,
        options: &Options,
    ) -> Self {
        let shared = store.describe().shared && options.notifications;
        let mut tasks = vec![tokio::spawn(announce(store.clone(), news, shared))];
        if shared {
            tasks.push(tokio::spawn(hear(store, committer)));
        }
        tasks.push(tokio::spawn(poll(waiting, options.poll)));
        Tasks(Mutex::new(tasks))
    }

    /// Ends them.
    pub fn stop(&self) {
        for task in self.0.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            task.abort();
        }
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.stop();
    }
}

async fn announce(store: Arc<dyn Store>, mut news: UnboundedReceiver<Notification>, shared: bool) {
    while let Some(mut all) = news.recv().await {
        while let Ok(more) = news.try_recv() {
            all.ready.extend(more.ready);
            all.ended.extend(more.ended);
            all.sessions.extend(more.sessions);
            all.logged |= more.logged;
            all.streamed.extend(more.streamed);
        }
        if !shared {
            continue;
        }
        all.ready.sort_unstable();
        all.ready.dedup();
        all.streamed.sort_unstable();
        all.streamed.dedup();
        if let Err(error) = store.announce(all).await {
            tracing::debug!(%error, "news was not told; others find out by polling");
        }
        tokio::time::sleep(ANNOUNCE_EVERY).await;
    }
}

async fn hear(store: Arc<dyn Store>, committer: Arc<Committer>) {
    while let Some(news) = store.news().await {
        committer.hear(&news);
    }
}

async fn poll(waiting: Arc<WaitingClaims>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        waiting.wake_all();
    }
}
