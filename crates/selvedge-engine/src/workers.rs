//! Workers: heartbeats that may wait, drain, leaving, and who is there.

use crate::namespace::WAIT_MAX;
use crate::outcome::instance_key;
use crate::{Error, Namespace};
use selvedge_core::name::NAME_LIMIT;
use selvedge_core::rules::heartbeat::Heartbeat;
use selvedge_core::rules::report::Fence;
use selvedge_core::rules::worker::{Depart, Drain, PutBack, PutBackReason};
use selvedge_core::{Name, Refusal, Session, Timestamp};
use std::time::Duration;
use tokio::time::Instant;

/// How often a waiting heartbeat looks and renews, should news from another server be lost.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// The answer to a heartbeat.
#[derive(Clone, Debug, PartialEq)]
pub struct Heartbeaten {
    /// Leases that are renewed.
    pub renewed: Vec<Fence>,
    /// Leases that are gone, and why.
    pub lost: Vec<(Fence, Refusal)>,
    /// Leases that the worker did not know of; they were put back.
    pub orphaned: Vec<Fence>,
    /// Leases whose worker is asked to cancel.
    pub cancel_requested: Vec<Fence>,
    /// Whether the worker is asked to drain.
    pub drain: bool,
}

/// A worker's instance as operators see it.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerView {
    /// Its sessions, the newest first.
    pub sessions: Vec<Session>,
}

impl Namespace {
    /// Renews the sessions of these leases. With `wait` it returns at once when one is lost, or when the worker is asked to
    /// cancel one or to drain; and after that long in any case, with the sessions renewed as often as they need it.
    pub async fn heartbeat(
        &self,
        instance: &str,
        leases: Vec<Fence>,
        wait: Duration,
    ) -> Result<Heartbeaten, Error> {
        let instance = Name::parse("/instance", instance, NAME_LIMIT)?;
        let deadline = Instant::now() + wait.min(WAIT_MAX);
        let key = instance_key(self.id(), &instance);
        let bell = self.inner().bells.wait_instance(key);
        let heartbeat = Heartbeat { namespace: self.id(), instance, leases };
        let mut orphaned = None;
        loop {
            let rings = bell.rings();
            tokio::pin!(rings);
            rings.as_mut().enable();
            let beat = self.run(heartbeat.clone()).await?;
            if orphaned.is_none() {
                // Only of the first look: what is claimed while this call waits could not be named in it.
                orphaned = Some(self.put_back(&beat.orphans, PutBackReason::Orphaned).await?);
            }
            let now = Instant::now();
            let (until, ends) = match self.inner().told.hold_back(key, &beat) {
                Some(held_back) => (now + held_back, true),
                None => {
                    let renew =
                        beat.renew_within_ms.map_or(LOOK_EVERY, |ms| Duration::from_millis(ms.max(1) as u64));
                    (now + renew.min(LOOK_EVERY), false)
                }
            };
            if until > now && deadline > now {
                tokio::select! {
                    () = &mut rings => continue,
                    () = tokio::time::sleep_until(until.min(deadline)) => {}
                }
            }
            if !ends && until < deadline {
                continue;
            }
            return Ok(Heartbeaten {
                renewed: beat.renewed,
                lost: beat.lost,
                orphaned: orphaned.unwrap_or_default(),
                cancel_requested: beat.cancel_requested,
                drain: beat.drain,
            });
        }
    }

    /// Puts leases back without charge; gives those that were still held.
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
        self.inner().bells.ring_instance(key);
        Ok(())
    }

    /// A worker has gone: its sessions are over and its leases are put back without charge. Says which leases.
    pub async fn remove_worker(&self, instance: &str) -> Result<Vec<Fence>, Error> {
        let instance = Name::parse("/instance", instance, NAME_LIMIT)?;
        let key = instance_key(self.id(), &instance);
        let depart = Depart { namespace: self.id(), instance };
        let leases = self.run(depart).await??;
        let back = self.put_back(&leases, PutBackReason::Gone).await;
        self.inner().bells.ring_instance(key);
        back
    }

    /// Who is there and was seen lately, by instance, the one seen last first.
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
    /// When it was last seen.
    pub fn seen_at(&self) -> Timestamp {
        self.sessions.iter().map(|session| session.seen_at).max().unwrap_or_default()
    }
}
