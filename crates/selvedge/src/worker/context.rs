//! What a handler gets: the attempt it runs, its input, and the way to be told that it should stop.

use crate::worker::Failure;
use crate::{Error, ExecutionId, Name, Namespace};
use bytes::Bytes;
use selvedge_core::rules::claim::Claimed;
use selvedge_core::rules::report::{Fence, Op};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::watch;

/// The attempt that a handler runs. Cheap to clone.
#[derive(Clone)]
pub struct Context {
    attempt: Arc<Attempt>,
    cancel: watch::Receiver<bool>,
}

struct Attempt {
    namespace: Namespace,
    fence: Fence,
    claimed: Claimed,
    kind: Name,
    lane: Name,
}

impl Context {
    pub(super) fn new(
        namespace: Namespace,
        fence: Fence,
        claimed: Claimed,
        (kind, lane): (Name, Name),
        cancel: watch::Receiver<bool>,
    ) -> Self {
        let attempt = Arc::new(Attempt { namespace, fence, claimed, kind, lane });
        Context { attempt, cancel }
    }

    /// The execution.
    pub fn execution(&self) -> ExecutionId {
        self.attempt.fence.execution
    }

    /// Which attempt of it this is, from 0; one more with every claim, whatever ended the one before.
    pub fn attempt(&self) -> u32 {
        self.attempt.fence.attempt
    }

    /// How often it was replayed.
    pub fn generation(&self) -> u32 {
        self.attempt.claimed.execution.detail.generation
    }

    /// Its kind.
    pub fn kind(&self) -> &str {
        &self.attempt.kind
    }

    /// The lane it came from.
    pub fn lane(&self) -> &str {
        &self.attempt.lane
    }

    /// Its tags.
    pub fn tags(&self) -> &BTreeMap<String, String> {
        &self.attempt.claimed.execution.tags
    }

    /// A key that is the same for every attempt of this execution, and another one after a replay. For calls to others
    /// that should take effect once.
    pub fn key(&self) -> String {
        format!("{}-{}", self.execution(), self.generation())
    }

    /// Its input, JSON as it was submitted.
    pub fn input_json(&self) -> &Bytes {
        &self.attempt.claimed.input
    }

    /// Its input as a value. Input of another shape will not change by itself: a permanent failure.
    pub fn input<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_slice(self.input_json()).map_err(|error| {
            Failure::permanent(format!("the input is not what {} expects: {error}", self.kind()))
        })
    }

    /// The namespace, for what a handler does beside its own execution.
    pub fn namespace(&self) -> &Namespace {
        &self.attempt.namespace
    }

    /// Says how far it has come: from 0 to 100, and in words. Refused when the lease is over.
    pub async fn progress(&self, percent: f64, message: impl Into<String>) -> Result<(), Error> {
        let progress = Op::Progress { percent: Some(percent), message: Some(message.into()) };
        let item = Ok((self.attempt.fence, None, progress));
        let (results, _) = self.attempt.namespace.report(vec![item], None).await?;
        results.into_iter().try_for_each(|result| result.map(drop))?;
        Ok(())
    }

    /// Whether this attempt was asked to stop.
    pub fn is_cancelled(&self) -> bool {
        *self.cancel.borrow()
    }

    /// Resolves when this attempt is asked to stop: its execution is cancelled, with a grace period to clean up in.
    /// What the handler returns then still counts: a result completes the execution, a failure ends it as cancelled.
    pub async fn cancelled(&self) {
        // A worker that is gone cannot ask any more; its handlers are dropped with it.
        let _ = self.cancel.clone().wait_for(|asked| *asked).await;
    }
}
