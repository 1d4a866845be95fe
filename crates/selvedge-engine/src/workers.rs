//! Workers: heartbeats that may wait, drain, leaving, and who is there.

use crate::batch::instance_key;
use crate::command::{Command, Reply};
use crate::committer::Pending;
use crate::namespace::WAIT_MAX;
use crate::{Error, Namespace, unexpected};
use selvedge_core::name::NAME_LIMIT;
use selvedge_core::rules::heartbeat::{Beat, Heartbeat};
use selvedge_core::rules::report::Fence;
use selvedge_core::rules::worker::{Depart, Drain, PutBack, Why};
use selvedge_core::{ExecutionId, Name, Refusal, Session, Timestamp};
use std::time::Duration;
use tokio::time::Instant;

/// The answer to a heartbeat.
#[derive(Clone, Debug, PartialEq)]
pub struct Heartbeaten {
    /// Leases that are renewed.
    pub renewed: Vec<Fence>,
    /// Leases that are gone, and why.
    pub lost: Vec<(Fence, Refusal)>,
    /// Leases that the worker did not know of; they were put back.
    pub orphaned: Vec<Fence>,
    /// Executions whose worker is asked to cancel.
    pub cancel_requested: Vec<ExecutionId>,
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
    /// Renews the sessions of these leases. With `wait` it returns at once when one is lost, asked to cancel or to
    /// drain, and after that long in any case.
    pub async fn heartbeat(
        &self,
        instance: &str,
        leases: Vec<Fence>,
        wait: Duration,
    ) -> Result<Heartbeaten, Error> {
        let instance = Name::parse("/instance", instance, NAME_LIMIT)?;
        let deadline = Instant::now() + wait.min(WAIT_MAX);
        let bell = self
            .inner()
            .bells
            .wait_instance(instance_key(self.id(), &instance));
        let heartbeat = Heartbeat {
            namespace: self.id(),
            instance: instance.clone(),
            leases,
        };
        loop {
            let rings = bell.rings();
            tokio::pin!(rings);
            rings.as_mut().enable();
            let beat = match self.run(Command::Heartbeat(heartbeat.clone())).await? {
                Reply::Heartbeat(beat) => beat,
                other => return Err(unexpected(&other)),
            };
            let quiet = beat.lost.is_empty() && beat.cancel_requested.is_empty() && !beat.drain;
            if !quiet || Instant::now() >= deadline {
                return self.answer(beat).await;
            }
            if !beat.orphans.is_empty() {
                self.put_back(&beat.orphans, Why::Orphaned).await?;
            }
            // News from another server may be lost: look again now and then.
            let look_again = Instant::now() + Duration::from_secs(5);
            tokio::select! {
                () = &mut rings => {}
                () = tokio::time::sleep_until(deadline.min(look_again)) => {}
            }
        }
    }

    async fn answer(&self, beat: Beat) -> Result<Heartbeaten, Error> {
        let orphaned = self.put_back(&beat.orphans, Why::Orphaned).await?;
        Ok(Heartbeaten {
            renewed: beat.renewed,
            lost: beat.lost,
            orphaned,
            cancel_requested: beat
                .cancel_requested
                .iter()
                .map(|fence| fence.execution)
                .collect(),
            drain: beat.drain,
        })
    }

    /// Puts leases back without charge; gives those that were still held.
    async fn put_back(&self, fences: &[Fence], why: Why) -> Result<Vec<Fence>, Error> {
        let (commands, replies): (Vec<_>, Vec<_>) = fences
            .iter()
            .map(|fence| {
                Pending::new(Command::PutBack(PutBack {
                    namespace: self.id(),
                    fence: *fence,
                    why,
                }))
            })
            .unzip();
        if commands.is_empty() {
            return Ok(Vec::new());
        }
        self.inner().committer.enqueue(commands)?;
        let mut back = Vec::new();
        for (fence, reply) in fences.iter().zip(replies) {
            if let Reply::PutBack(Ok(true)) = reply.await.unwrap_or(Err(Error::Closed))? {
                back.push(*fence);
            }
        }
        Ok(back)
    }

    /// Asks a worker to drain.
    pub async fn drain_worker(&self, instance: &str, actor: &Name) -> Result<(), Error> {
        let instance = Name::parse("/instance", instance, NAME_LIMIT)?;
        let key = instance_key(self.id(), &instance);
        let drain = Drain {
            namespace: self.id(),
            instance,
            actor: actor.clone(),
        };
        match self.run(Command::Drain(drain)).await? {
            Reply::Drain(done) => done?,
            other => return Err(unexpected(&other)),
        }
        self.inner().bells.ring_instance(key);
        Ok(())
    }

    /// A worker has gone: its sessions are over and its leases are put back without charge. Says which leases.
    pub async fn remove_worker(&self, instance: &str) -> Result<Vec<Fence>, Error> {
        let instance = Name::parse("/instance", instance, NAME_LIMIT)?;
        let depart = Depart { namespace: self.id(), instance };
        let leases = match self.run(Command::Depart(depart)).await? {
            Reply::Depart(leases) => leases?,
            other => return Err(unexpected(&other)),
        };
        self.put_back(&leases, Why::Gone).await
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
        self.sessions
            .iter()
            .map(|session| session.seen_at)
            .max()
            .unwrap_or_default()
    }
}
