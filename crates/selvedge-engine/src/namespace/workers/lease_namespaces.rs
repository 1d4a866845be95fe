//! Heartbeats and reports of a worker whose key has several namespaces: each lease is looked after in its own namespace.
//!
//! The namespace of a stored execution never changes, so it is remembered when the execution is claimed. After a restart, or
//! on another server, it is read from the store once.

use crate::Error;
use crate::locking::lock;
use crate::namespace::{HeartbeatResult, Namespaces};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use selvedge_core::filter::Payloads;
use selvedge_core::rules::claim::Claimed;
use selvedge_core::rules::report::Fence;
use selvedge_core::{ExecutionId, NamespaceId};
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;
use tokio::sync::watch;

/// The maximum number of remembered executions. Beyond it all are forgotten, and read again when they are needed.
const HOMES_MAX: usize = 100_000;
/// The number of executions that are read at once.
const PAGE: usize = 500;

/// The namespaces of claimed executions.
#[derive(Default)]
pub(in crate::namespace) struct Homes(Mutex<HashMap<ExecutionId, NamespaceId>>);

impl Homes {
    /// Remembers the namespaces of claimed executions.
    pub fn learn(&self, claimed: &[Claimed]) {
        self.add(claimed.iter().map(|claimed| (claimed.execution.id, claimed.execution.namespace)));
    }

    fn add(&self, known: impl Iterator<Item = (ExecutionId, NamespaceId)>) {
        let mut homes = lock(&self.0);
        for (id, namespace) in known {
            if homes.len() >= HOMES_MAX {
                homes.clear();
            }
            homes.insert(id, namespace);
        }
    }
}

impl Namespaces {
    /// Returns the index of each execution's namespace among the members; none for an execution of no member.
    pub async fn indexes_of(&self, ids: &[ExecutionId]) -> Result<Vec<Option<usize>>, Error> {
        // Copied, because others may forget the remembered ones meanwhile.
        let mut homes: HashMap<ExecutionId, NamespaceId> = {
            let known = lock(&self.homes.0);
            ids.iter().filter_map(|id| Some((*id, *known.get(id)?))).collect()
        };
        let unknown: Vec<ExecutionId> = ids.iter().filter(|id| !homes.contains_key(id)).copied().collect();
        for page in unknown.chunks(PAGE) {
            let found = self.engine.inner.store.fetch(page, Payloads::NONE).await?;
            let found = found.iter().map(|stored| (stored.execution.id, stored.execution.namespace));
            self.homes.add(found.clone());
            homes.extend(found);
        }
        let index = |id: &ExecutionId| {
            let home = homes.get(id)?;
            self.members.iter().position(|(member, _)| member.id() == *home)
        };
        Ok(ids.iter().map(index).collect())
    }

    /// Renews leases of several namespaces. With `wait` it returns early when something happens in any of them, or when `stop`
    /// completes. The worker is asked to drain if it is in all of them. See
    /// [`Namespace::heartbeat_until`](crate::Namespace::heartbeat_until).
    pub async fn heartbeat_until(
        &self,
        instance: &str,
        incarnation: Option<&str>,
        leases: Vec<Fence>,
        wait: Duration,
        stop: impl Future<Output = ()>,
    ) -> Result<HeartbeatResult, Error> {
        let ids: Vec<ExecutionId> = leases.iter().map(|fence| fence.execution).collect();
        let mut parts: Vec<Vec<Fence>> = vec![Vec::new(); self.members.len()];
        for (index, fence) in self.indexes_of(&ids).await?.into_iter().zip(leases) {
            // The first namespace says that an execution which is in none of them is lost.
            parts[index.unwrap_or(0)].push(fence);
        }
        let (ended, _) = watch::channel(false);
        let mut beats: FuturesUnordered<_> = self
            .members
            .iter()
            .zip(parts)
            .map(|((member, _), part)| {
                let mut ended = ended.subscribe();
                let first_answer = async move { drop(ended.wait_for(|ended| *ended).await) };
                member.heartbeat_until(instance, incarnation, part, wait, first_answer)
            })
            .collect();
        tokio::pin!(stop);
        let mut answers = Vec::with_capacity(self.members.len());
        // The first answer ends the waits of the others, which then say how things are now.
        while answers.len() < self.members.len() {
            tokio::select! {
                Some(answer) = beats.next() => answers.push(answer),
                () = &mut stop, if !*ended.borrow() => {}
            }
            ended.send_replace(true);
        }
        let mut merged = HeartbeatResult {
            renewed: Vec::new(),
            lost: Vec::new(),
            orphaned: Vec::new(),
            cancel_requested: Vec::new(),
            drain: true,
        };
        for answer in answers {
            let answer = answer?;
            merged.renewed.extend(answer.renewed);
            merged.lost.extend(answer.lost);
            merged.orphaned.extend(answer.orphaned);
            merged.cancel_requested.extend(answer.cancel_requested);
            merged.drain &= answer.drain;
        }
        Ok(merged)
    }
}
