//! Workers: heartbeats that may wait, drain, departure, and the list of live workers.

use super::{Namespace, WAIT_MAX};
use crate::Error;
use crate::commit::instance_key;
use selvedge_core::name::NAME_LIMIT;
use selvedge_core::rules::heartbeat::Heartbeat;
use selvedge_core::rules::report::Fence;
use selvedge_core::rules::worker::{Depart, Drain, PutBack, PutBackReason};
use selvedge_core::{Name, Refusal, Session, Timestamp};
use std::time::Duration;
use tokio::time::Instant;

/// The maximum time between two renewals of a waiting heartbeat, in case a notification from another server is lost.
const RENEW_INTERVAL: Duration = Duration::from_secs(10);

/// The reply to a heartbeat.
#[derive(Clone, Debug, PartialEq)]
pub struct HeartbeatResult {
    /// Leases that were renewed.
    pub renewed: Vec<Fence>,
    /// Leases that the worker no longer holds, each with the reason.
    pub lost: Vec<(Fence, Refusal)>,
    /// Leases that the worker did not name; they were put back.
    pub orphaned: Vec<Fence>,
    /// Leases that the worker is asked to cancel.
    pub cancel_requested: Vec<Fence>,
    /// True if the worker is asked to drain.
    pub drain: bool,
}

/// A worker instance as operators see it.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerView {
    /// The sessions of the instance, newest first.
    pub sessions: Vec<Session>,
}

impl Namespace {
    /// Renews the sessions of these leases. With `wait` it stays open for that long and renews the sessions as often as
    /// needed. It returns early when a lease is lost or the worker is asked to cancel a lease or to drain.
    pub async fn heartbeat(
        &self,
        instance: &str,
        leases: Vec<Fence>,
        wait: Duration,
    ) -> Result<HeartbeatResult, Error> {
        let instance = Name::parse("/instance", instance, NAME_LIMIT)?;
        let deadline = Instant::now() + wait.min(WAIT_MAX);
        let key = instance_key(self.id(), &instance);
        let waiter = self.inner().waiters.register_instance(key);
        let heartbeat = Heartbeat { namespace: self.id(), instance, leases };
        let mut orphaned = None;
        loop {
            let woken = waiter.woken();
            tokio::pin!(woken);
            woken.as_mut().enable();
            let beat = self.run(heartbeat.clone()).await?;
            if orphaned.is_none() {
                // Only in the first round: a lease claimed while this call waits could not be named in it.
                orphaned = Some(self.put_back(&beat.orphans, PutBackReason::Orphaned).await?);
            }
            let now = Instant::now();
            let (until, returns) = match self.inner().heartbeat_throttle.delay(key, &beat) {
                Some(delay) => (now + delay, true),
                None => {
                    let renew = beat
                        .renew_within_ms
                        .map_or(RENEW_INTERVAL, |ms| Duration::from_millis(ms.max(1) as u64));
                    (now + renew.min(RENEW_INTERVAL), false)
                }
            };
            if until > now && deadline > now {
                tokio::select! {
                    () = &mut woken => continue,
                    () = tokio::time::sleep_until(until.min(deadline)) => {}
                }
            }
            if !returns && until < deadline {
                continue;
            }
            return Ok(HeartbeatResult {
                renewed: beat.renewed,
                lost: beat.lost,
                orphaned: orphaned.unwrap_or_default(),
                cancel_requested: beat.cancel_requested,
                drain: beat.drain,
            });
        }
    }

    /// Puts leases back, without counting an interruption. Returns those that were still held.
    async fn put_back(&self, fences: &[Fence], why: PutBackReason) -> Result<Vec<Fence>, Error> {
        let put_back = |fence: &Fence| PutBack { namespace: self.id(), fence: *fence, why };
        let replies = self.inner().committer.run_all(fences.iter().map(put_back)).await?;
        let held = fences.iter().zip(replies).filter(|(_, reply)| matches!(reply, Ok(true)));
        Ok(held.map(|(fence, _)| *fence).collect())
    }

    /// Asks a worker to drain.
    pub async fn drain_worker(&self, instance: &str, actor: &Name) -> Result<(), Error> {
        let instance = Name::parse("/instance", instance, NAME_LIMIT)?;
        let key = instance_key(self.id(), &instance);
        let drain = Drain { namespace: self.id(), instance, actor: actor.clone() };
        self.run(drain).await??;
        self.inner().waiters.wake_instance(key);
        Ok(())
    }

    /// Ends the sessions of a departed worker. Puts its leases back, without counting an interruption, and returns
    /// them.
    pub async fn remove_worker(&self, instance: &str) -> Result<Vec<Fence>, Error> {
        let instance = Name::parse("/instance", instance, NAME_LIMIT)?;
        let key = instance_key(self.id(), &instance);
        let depart = Depart { namespace: self.id(), instance };
        let leases = self.run(depart).await??;
        // A crash before this leaves leases on their first term: they expire when it ends.
        let back = self.put_back(&leases, PutBackReason::WorkerDeparted).await;
        self.inner().waiters.wake_instance(key);
        back
    }

    /// Returns the live workers, one entry per instance, last seen first.
    pub async fn workers(&self) -> Result<Vec<WorkerView>, Error> {
        let overview = self.inner().store.overview().await?;
        let mut sessions = self.inner().store.sessions(Some(self.id())).await?;
        sessions.sort_by(|a, b| a.instance.cmp(&b.instance).then(b.seen_at.cmp(&a.seen_at)));
        sessions.retain(|session| session.is_live(overview.now));
        let mut workers: Vec<WorkerView> = sessions
            .chunk_by(|a, b| a.instance == b.instance)
            .map(|sessions| WorkerView { sessions: sessions.to_vec() })
            .collect();
        workers.sort_by_key(|worker| std::cmp::Reverse(worker.seen_at()));
        Ok(workers)
    }
}

impl WorkerView {
    /// The time at which the worker was last seen.
    pub fn seen_at(&self) -> Timestamp {
        self.sessions.iter().map(|session| session.seen_at).max().unwrap_or_default()
    }
}
