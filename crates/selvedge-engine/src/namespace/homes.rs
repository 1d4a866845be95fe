//! Heartbeats and reports of a worker whose key has several namespaces: each lease is looked after in its own namespace.
//!
//! The namespace of an execution never changes, so it is remembered when the execution is claimed. After a restart, or on
//! another server, it is read from the store once.

use super::{HeartbeatResult, Namespaces};
use crate::Error;
use crate::sync::lock;
use futures_util::future::{join_all, select_all};
use selvedge_core::filter::Payloads;
use selvedge_core::rules::claim::Claimed;
use selvedge_core::rules::report::Fence;
use selvedge_core::{ExecutionId, NamespaceId};
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

/// The maximum number of remembered executions. Beyond it all are forgotten, and read again when they are needed.
const HOMES_MAX: usize = 100_000;
/// The number of executions that are read at once.
const PAGE: usize = 500;

/// The namespaces of claimed executions.
#[derive(Default)]
pub(super) struct Homes(Mutex<HashMap<ExecutionId, NamespaceId>>);

impl Homes {
    /// Remembers the namespaces of claimed executions.
    pub fn learn(&self, claimed: &[Claimed]) {
        self.add(claimed.iter().map(|claimed| (claimed.execution.id, claimed.execution.namespace)));
    }

    fn add(&self, known: impl Iterator<Item = (ExecutionId, NamespaceId)>) {
        let mut homes = lock(&self.0);
        if homes.len() >= HOMES_MAX {
            homes.clear();
        }
        homes.extend(known);
    }
}

impl Namespaces {
    /// Returns the index of each execution's namespace among the members. An execution of no member, or of none at all,
    /// counts as one of the first, where it is not found.
    pub async fn indexes_of(&self, ids: &[ExecutionId]) -> Result<Vec<usize>, Error> {
        let unknown: Vec<ExecutionId> = {
            let homes = lock(&self.homes.0);
            ids.iter().filter(|id| !homes.contains_key(id)).copied().collect()
        };
        let mut read = HashMap::new();
        for page in unknown.chunks(PAGE) {
            let found = self.engine.inner.store.fetch(page, Payloads::NONE).await?;
            read.extend(found.iter().map(|stored| (stored.execution.id, stored.execution.namespace)));
        }
        self.homes.add(read.iter().map(|(id, namespace)| (*id, *namespace)));
        let homes = lock(&self.homes.0);
        let index = |id: &ExecutionId| {
            let home = read.get(id).or_else(|| homes.get(id))?;
            self.members.iter().position(|(member, _)| member.id() == *home)
        };
        Ok(ids.iter().map(|id| index(id).unwrap_or(0)).collect())
    }

    /// Renews leases of several namespaces. With `wait` it returns early when something happens in any of them. The worker is
    /// asked to drain if it is in all of them. See [`Namespace::heartbeat`](super::Namespace::heartbeat).
    pub async fn heartbeat(
        &self,
        instance: &str,
        incarnation: Option<&str>,
        leases: Vec<Fence>,
        wait: Duration,
    ) -> Result<HeartbeatResult, Error> {
        let ids: Vec<ExecutionId> = leases.iter().map(|fence| fence.execution).collect();
        let mut parts: Vec<Vec<Fence>> = vec![Vec::new(); self.members.len()];
        for (index, fence) in self.indexes_of(&ids).await?.into_iter().zip(leases) {
            parts[index].push(fence);
        }
        let beat = |index: usize, wait: Duration| {
            let (member, part) = (&self.members[index].0, parts[index].clone());
            async move { (index, member.heartbeat(instance, incarnation, part, wait).await) }
        };
        let all = 0..self.members.len();
        let mut answers = Vec::with_capacity(self.members.len());
        if !wait.is_zero() {
            let waiting = all.clone().map(|index| Box::pin(beat(index, wait)));
            answers.push(select_all(waiting).await.0);
        }
        // The first answer ends the call: the others say how things are now.
        let answered = answers.first().map(|(index, _)| *index);
        let rest = all.filter(|index| answered != Some(*index)).map(|index| beat(index, Duration::ZERO));
        answers.extend(join_all(rest).await);
        let mut merged = HeartbeatResult {
            renewed: Vec::new(),
            lost: Vec::new(),
            orphaned: Vec::new(),
            cancel_requested: Vec::new(),
            drain: true,
        };
        for (_, answer) in answers {
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
