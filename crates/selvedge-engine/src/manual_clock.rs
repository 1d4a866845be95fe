//! Advances the clock of a store for tests, so that a test of days runs in milliseconds.
//!
//! Time passes in steps, each to the next time at which something is due. At each step the reconcilers act, and the clock
//! stands still while handlers run: what a handler does happens at the time at which it was started. A handler that takes
//! longer than the given patience is left behind, and its lease may expire as that of a worker that hangs.

use crate::{Engine, Error};
use selvedge_core::filter::Filter;
use selvedge_core::rules::CallKey;
use selvedge_core::state::StateName;
use selvedge_core::{Refusal, Timestamp};
use selvedge_store::{ManualClock, Overview};
use std::collections::HashMap;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// The real time after which an advance returns, although the clock has not reached the asked time.
const CALL_TIME: Duration = Duration::from_secs(20);
/// The pause between two looks at what is running.
const PAUSE: Duration = Duration::from_millis(3);
/// The number of looks without a change after which nothing moves any more.
const QUIET_LOOKS: u32 = 3;

/// The outcome of an advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advanced {
    /// The time of the store.
    pub now: Timestamp,
    /// False if the call took too long: repeat it for the rest of the time.
    pub reached: bool,
    /// True if the call is a repeat, which has changed nothing.
    pub duplicate: bool,
}

/// The advances of an engine: one at a time, and each key once.
#[derive(Default)]
pub struct Advances(Mutex<HashMap<selvedge_core::Name, (u64, Advanced)>>);

impl Engine {
    /// Returns the time of the store, and whether its clock moves only when it is advanced.
    pub async fn clock(&self) -> Result<(Timestamp, bool), Error> {
        let manual = self.inner.store.manual_clock().map(ManualClock::now);
        match manual {
            Some(now) => Ok((now, true)),
            None => Ok((self.inner.store.now().await?, false)),
        }
    }

    /// Advances a manual clock by a time. At every step it waits up to `patience` for running executions to end.
    pub async fn advance(
        &self,
        by_ms: i64,
        patience: Duration,
        key: Option<CallKey>,
    ) -> Result<Advanced, Error> {
        let clock = self.inner.store.manual_clock().ok_or_else(|| Refusal::InvalidField {
            pointer: "/by_ms".into(),
            detail:
                "needs a manual clock; start the server with `selvedge dev --store memory: --manual-clock`"
                    .into(),
        })?;
        let mut keys = self.inner.advances.0.lock().await;
        if let Some((digest, before)) = key.as_ref().and_then(|key| keys.get(&key.key)) {
            return match key.as_ref().is_some_and(|key| key.digest == *digest) {
                true => Ok(Advanced { duplicate: true, ..*before }),
                false => Err(Refusal::IdempotencyMismatch {
                    pointer: "/headers/idempotency-key".into(),
                    detail: "was used before with another body; use a new key for each call".into(),
                }
                .into()),
            };
        }
        let advanced = self.advance_to(clock, clock.now().plus_ms(by_ms), patience).await?;
        if let Some(key) = key {
            keys.insert(key.key, (key.digest, advanced));
        }
        Ok(advanced)
    }

    async fn advance_to(
        &self,
        clock: &dyn ManualClock,
        target: Timestamp,
        patience: Duration,
    ) -> Result<Advanced, Error> {
        let end = Instant::now() + CALL_TIME;
        loop {
            self.settle(patience.min(end - Instant::now())).await?;
            let now = clock.now();
            let reached = now >= target;
            if reached || Instant::now() >= end {
                return Ok(Advanced { now, reached, duplicate: false });
            }
            let next = next_due(&self.inner.store.overview().await?, now);
            clock.advance_to(next.filter(|next| *next < target).unwrap_or(target));
        }
    }

    /// Lets the reconcilers act, and waits until no execution is active, for at most `patience`.
    async fn settle(&self, patience: Duration) -> Result<(), Error> {
        let end = Instant::now() + patience;
        let (mut quiet, mut seen) = (0, 0);
        loop {
            let mut done = 0;
            for (name, _) in self.reconcilers() {
                done += self.tick(name).await?.done;
            }
            let (batches, _) = self.activity();
            let moves = done > 0 || batches != seen || self.has_active().await?;
            seen = batches;
            quiet = if moves { 0 } else { quiet + 1 };
            if quiet >= QUIET_LOOKS || (done == 0 && Instant::now() >= end) {
                return Ok(());
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn has_active(&self) -> Result<bool, Error> {
        for (namespace, _) in self.inner.store.namespaces().await? {
            let filter = Filter { states: vec![StateName::Active], ..Filter::all(namespace) };
            if self.inner.store.count(&filter, 1).await? > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Returns the first time after `now` at which something is due.
fn next_due(overview: &Overview, now: Timestamp) -> Option<Timestamp> {
    let executions = overview.next.iter().map(|(_, at)| *at);
    let flows = overview.flows.iter().map(|(_, at)| *at);
    executions.chain(flows).chain(overview.due.times()).filter(|at| *at > now).min()
}
