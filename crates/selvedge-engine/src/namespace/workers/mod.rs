//! Workers: heartbeats that may wait, drain, departure, and the list of workers.

mod claims;
mod lease_namespaces;
mod reports;
mod several_namespaces;

pub use claims::*;
pub use reports::ReportItem;
pub use several_namespaces::Namespaces;

use crate::Error;
use crate::commit::instance_key;
use crate::namespace::{Namespace, WAIT_MAX};
use selvedge_core::name::NAME_LIMIT;
use selvedge_core::rules::claim::check_incarnation;
use selvedge_core::rules::heartbeat::Heartbeat;
use selvedge_core::rules::report::Fence;
use selvedge_core::rules::worker::{Depart, PutBack, PutBackReason};
use selvedge_core::session::{LISTED_MS, SessionEnd};
use selvedge_core::{Name, Refusal, Session, Timestamp};
use std::future::{Future, pending};
use std::time::Duration;
use tokio::time::Instant;

/// The maximum time between two renewals of a waiting heartbeat, in case a notification from another server is lost.
const RENEW_INTERVAL: Duration = Duration::from_secs(10);

/// The reply to a heartbeat.
#[derive(Clone, Debug, PartialEq)]
pub struct HeartbeatResult {
    /// Leases that were renewed.
    pub renewed: Vec<Fence>,
    /// Leases that the worker no longer holds, each with the reason. A lease that it ended by its own report is not among
    /// them.
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
    /// The sessions of the instance, newest first. Of a live worker only the live ones.
    pub sessions: Vec<Session>,
    /// The end of the worker; none if it is live.
    pub end: Option<SessionEnd>,
}

impl Namespace {
    /// Renews the sessions of these leases. With `wait` it stays open for that long and renews the sessions as often as
    /// needed. It returns early when a lease of the instance is lost or the worker is asked to cancel a lease or to drain.
    /// That includes leases that were claimed while it waits: if one of those is lost, the next heartbeat, which names it,
    /// says so.
    pub async fn heartbeat(
        &self,
        instance: &str,
        incarnation: Option<&str>,
        leases: Vec<Fence>,
        wait: Duration,
    ) -> Result<HeartbeatResult, Error> {
        self.heartbeat_until(instance, incarnation, leases, wait, pending()).await
    }

    /// [`Namespace::heartbeat`], whose wait also ends when `stop` completes. Calling again instead would lose what this call
    /// knows: which leases were claimed while it waits.
    pub async fn heartbeat_until(
        &self,
        instance: &str,
        incarnation: Option<&str>,
        leases: Vec<Fence>,
        wait: Duration,
        stop: impl Future<Output = ()>,
    ) -> Result<HeartbeatResult, Error> {
        let instance = Name::parse("/instance", instance, NAME_LIMIT)?;
        let incarnation = check_incarnation(incarnation)?;
        let mut deadline = Instant::now() + wait.min(WAIT_MAX);
        tokio::pin!(stop);
        let key = instance_key(self.id(), &instance);
        let waiter = self.inner().waiters.register_instance(key);
        let mut heartbeat =
            Heartbeat { namespace: self.id(), instance, incarnation, leases, waits_since: None };
        let mut orphaned = Vec::new();
        let mut notified = false;
        loop {
            let woken = waiter.woken();
            tokio::pin!(woken);
            woken.as_mut().enable();
            let beat = self.run(heartbeat.clone()).await??;
            if let Some(leases) = beat.of_predecessor {
                self.put_back(&leases, PutBackReason::WorkerDeparted).await?;
                continue;
            }
            if heartbeat.waits_since.is_none() {
                // Only in the first round: a lease claimed while this call waits could not be named in it.
                heartbeat.waits_since = Some(beat.now);
                if !beat.orphans.is_empty() {
                    orphaned = self.put_back(&beat.orphans, PutBackReason::Orphaned).await?;
                    // Putting them back wakes this call itself.
                    continue;
                }
            }
            let now = Instant::now();
            let (until, returns) = match self.inner().heartbeat_throttle.delay(key, &beat) {
                Some(delay) => (now + delay, true),
                // It was woken for a lease that it does not name.
                None if notified => (now, true),
                None => {
                    let renew = beat
                        .renew_within_ms
                        .map_or(RENEW_INTERVAL, |ms| Duration::from_millis(ms.max(1) as u64));
                    (now + renew.min(RENEW_INTERVAL), false)
                }
            };
            if until > now && deadline > now {
                tokio::select! {
                    () = &mut woken => {
                        notified = true;
                        continue;
                    }
                    // The call then returns, so `stop` is not polled again.
                    () = &mut stop => deadline = now,
                    () = tokio::time::sleep_until(until.min(deadline)) => {}
                }
            }
            if !returns && until < deadline {
                continue;
            }
            return Ok(HeartbeatResult {
                renewed: beat.renewed,
                lost: beat.lost,
                orphaned,
                cancel_requested: beat.cancel_requested,
                drain: beat.drain,
            });
        }
    }

    /// Puts leases back, without counting an interruption. Returns those that were still held.
    pub(in crate::namespace) async fn put_back(
        &self,
        fences: &[Fence],
        why: PutBackReason,
    ) -> Result<Vec<Fence>, Error> {
        let put_back = |fence: &Fence| PutBack { namespace: self.id(), fence: *fence, why };
        let replies = self.inner().committer.run_all(fences.iter().map(put_back)).await?;
        let held = fences.iter().zip(replies).filter(|(_, reply)| matches!(reply, Ok(true)));
        Ok(held.map(|(fence, _)| *fence).collect())
    }

    /// Asks a worker to drain. Its waiting claims and heartbeats return at once, on every server of the store.
    pub async fn drain_worker(&self, instance: &str, actor: &Name) -> Result<(), Error> {
        self.keyed(None).drain_worker(instance, actor).await.map(drop)
    }

    /// Ends the sessions of a departed worker. Puts its leases back, without counting an interruption, and returns
    /// them. Its waiting claims return at once and get nothing; a claim made after this registers the worker again.
    pub async fn remove_worker(
        &self,
        instance: &str,
        incarnation: Option<&str>,
    ) -> Result<Vec<Fence>, Error> {
        let instance = Name::parse("/instance", instance, NAME_LIMIT)?;
        let incarnation = check_incarnation(incarnation)?;
        let leases = self.run(Depart { namespace: self.id(), instance, incarnation }).await??;
        // A crash before this leaves leases on their first term: they expire when it ends.
        self.put_back(&leases, PutBackReason::WorkerDeparted).await
    }

    /// Returns the workers, one entry per instance, last seen first: the live ones, and those that ended in the last 15
    /// minutes.
    pub async fn workers(&self) -> Result<Vec<WorkerView>, Error> {
        let now = self.inner().store.now().await?;
        let mut sessions = self.inner().store.sessions(Some(self.id())).await?;
        sessions.sort_by(|a, b| a.instance.cmp(&b.instance).then(b.seen_at.cmp(&a.seen_at)));
        let mut workers: Vec<WorkerView> = sessions
            .chunk_by(|a, b| a.instance == b.instance)
            .map(|sessions| WorkerView::of(sessions, now))
            .filter(|worker| worker.end.is_none_or(|end| end.at.plus_ms(LISTED_MS) > now))
            .collect();
        workers.sort_by_key(|worker| std::cmp::Reverse(worker.seen_at()));
        Ok(workers)
    }
}

impl WorkerView {
    /// Returns the view of an instance with these sessions, newest first.
    fn of(sessions: &[Session], now: Timestamp) -> WorkerView {
        let live: Vec<Session> = sessions.iter().filter(|session| session.is_live(now)).cloned().collect();
        match live.is_empty() {
            false => WorkerView { sessions: live, end: None },
            true => {
                let ends = sessions.iter().filter_map(|session| session.end(now));
                WorkerView { sessions: sessions.to_vec(), end: ends.max_by_key(|end| end.at) }
            }
        }
    }

    /// The time at which the worker was last seen.
    pub fn seen_at(&self) -> Timestamp {
        self.sessions.iter().map(|session| session.seen_at).max().unwrap_or_default()
    }
}
