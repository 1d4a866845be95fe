//! Lets waiting requests end as soon as the server begins to shut down, so that they do not delay the shutdown, and tells the
//! other listeners of the process that the server is no longer ready.

use std::future::{Future, pending};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::watch;

/// The readiness of a process with several listeners: once one of them shuts down, `/readyz` of all answers 503. Clones share
/// it.
#[derive(Clone, Debug, Default)]
pub struct Draining(Arc<AtomicBool>);

impl Draining {
    /// Records that a listener shuts down.
    pub(crate) fn begin(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Reports whether a listener shuts down.
    pub(crate) fn has_begun(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Observes the beginning of the server's shutdown.
#[derive(Clone)]
pub struct ShutdownWatch(watch::Receiver<bool>);

impl ShutdownWatch {
    /// Returns a watch and its sender: sending `true` begins the shutdown.
    pub fn new() -> (watch::Sender<bool>, ShutdownWatch) {
        let (sender, receiver) = watch::channel(false);
        (sender, ShutdownWatch(receiver))
    }

    /// Returns the watch of a server that never shuts down.
    pub fn never() -> ShutdownWatch {
        Self::new().1
    }

    /// Reports whether the shutdown has begun.
    pub fn is_shutting_down(&self) -> bool {
        *self.0.borrow()
    }

    /// Completes when the shutdown begins.
    pub async fn begun(&self) {
        let mut receiver = self.0.clone();
        if receiver.wait_for(|begun| *begun).await.is_err() {
            pending::<()>().await;
        }
    }

    /// Runs `call` to its end, or returns none and drops it if the shutdown begins first.
    pub async fn race<T>(&self, call: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            output = call => Some(output),
            () = self.begun() => None,
        }
    }
}
