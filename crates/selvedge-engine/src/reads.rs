//! What callers see of executions: one, many, their attempts, why they do not run, and how they ended.

use crate::namespace::WAIT_MAX;
use crate::{Error, Namespace};
use selvedge_core::explain::{Explanation, Surroundings, explain};
use selvedge_core::fact::Failure;
use selvedge_core::filter::{Filter, Place};
use selvedge_core::history::{Attempt, Line, attempts};
use selvedge_core::join::Resolution;
use selvedge_core::{Class, Execution, ExecutionId, History, Name, Outcome, Refusal, State, Timestamp};
use selvedge_store::Stored;
use std::time::Duration;
use tokio::time::Instant;

/// How far explain counts the executions that come before.
const AHEAD_BOUND: u64 = 1000;
/// How many of the upstreams that it waits for explain names.
const UPSTREAMS_MAX: usize = 10;
/// How often a waiter looks, should the news of an end be lost.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// An execution as callers see it.
#[derive(Clone, Debug)]
pub struct View {
    /// Its row and payloads.
    pub stored: Stored,
    /// Its lane, kind and capabilities.
    pub class: Class,
    /// The name of its namespace.
    pub namespace: Name,
}

impl View {
    /// Until when its lease lives: the later of its own first term and its session's last renewal.
    pub fn lease_until(&self) -> Option<Timestamp> {
        let lease = self.stored.execution.state.lease()?;
        let renewed = self.stored.renewed_at.map(|renewed| renewed.plus_ms(lease.ttl_ms));
        Some(renewed.map_or(lease.first_term(), |renewed| renewed.max(lease.first_term())))
    }
}

/// How an execution ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Its outcome.
    pub outcome: Outcome,
    /// Its result.
    pub result: Option<bytes::Bytes>,
    /// Its error.
    pub error: Option<Failure>,
}

impl Namespace {
    /// One execution.
    pub async fn get(&self, id: ExecutionId) -> Result<View, Error> {
        let stored = self.inner().store.fetch(&[id]).await?.pop();
        match stored.filter(|stored| stored.execution.namespace == self.id()) {
            Some(stored) => self.view(stored).await,
            None => Err(Refusal::no_execution(id).into()),
        }
    }

    /// Shows a stored row of this namespace.
    pub async fn view(&self, stored: Stored) -> Result<View, Error> {
        let class = self.inner().registry.class(stored.execution.class).await?;
        Ok(View { stored, class, namespace: self.name().clone() })
    }

    /// The filter for lists and bulk actions, from the words of a request.
    pub async fn filter(&self, lane: Option<&str>, kind: Option<&str>) -> Result<Filter, Error> {
        self.inner().registry.refresh().await?;
        let classes = Some(self.inner().registry.of(self.id(), lane, kind));
        Ok(Filter { classes, ..Filter::all(self.id()) })
    }

    /// A page of executions, newest first, and the place to go on from; none at the end.
    pub async fn list(
        &self,
        filter: &Filter,
        after: Option<Place>,
        limit: u32,
    ) -> Result<(Vec<View>, Option<Place>), Error> {
        let mut rows = self.inner().store.list(filter, after, limit + 1).await?;
        let more = rows.len() > limit as usize;
        rows.truncate(limit as usize);
        let last = rows
            .last()
            .map(|stored| Place { submitted_at: stored.execution.submitted_at, id: stored.execution.id });
        let mut views = Vec::with_capacity(rows.len());
        for stored in rows {
            views.push(self.view(stored).await?);
        }
        Ok((views, last.filter(|_| more)))
    }

    /// How many executions match, counted up to `bound`.
    pub async fn count(&self, filter: &Filter, bound: u64) -> Result<u64, Error> {
        Ok(self.inner().store.count(filter, bound).await?)
    }

    /// The whole history of an execution, oldest first.
    pub async fn history(&self, id: ExecutionId) -> Result<(View, Vec<Line>), Error> {
        let view = self.get(id).await?;
        let unreadable = |error: String| Refusal::Unreadable { execution: id, detail: error };
        let mut lines = Vec::new();
        if view.stored.execution.detail.history_pages > 0 {
            for page in self.inner().store.history_pages(id).await? {
                let page =
                    History::from_bytes(page).lines().map_err(|error| unreadable(error.to_string()))?;
                lines.extend(page);
            }
        }
        let newest = view.stored.execution.history.lines().map_err(|error| unreadable(error.to_string()))?;
        lines.extend(newest);
        lines.sort_by_key(|line| line.version);
        Ok((view, lines))
    }

    /// The attempts of an execution, oldest first.
    pub async fn attempts(&self, id: ExecutionId) -> Result<Vec<Attempt>, Error> {
        let (_, lines) = self.history(id).await?;
        Ok(attempts(&lines))
    }

    /// Why an execution does not run, and when that will change.
    pub async fn explain(&self, id: ExecutionId) -> Result<Explanation, Error> {
        let view = self.get(id).await?;
        let store = &self.inner().store;
        let row = &view.stored.execution;
        let sessions = store.sessions(Some(self.id())).await?;
        let ahead = match row.state {
            selvedge_core::State::Ready => Some(store.ahead_of(row, AHEAD_BOUND).await?),
            _ => None,
        };
        let now = store.overview().await?.now;
        let upstreams = self.open_upstreams(row).await?;
        let around = Surroundings {
            class: &view.class,
            sessions: &sessions,
            upstreams: &upstreams,
            ahead: ahead.filter(|ahead| *ahead < AHEAD_BOUND),
            now,
        };
        Ok(explain(row, &around))
    }

    /// The first upstreams that a blocked execution still waits for.
    async fn open_upstreams(&self, row: &Execution) -> Result<Vec<Execution>, Error> {
        let Some(join) = row.join.as_ref().filter(|_| row.state == State::Blocked) else {
            return Ok(Vec::new());
        };
        let edges = row.wiring().upstreams.iter().zip(&join.edges);
        let open = edges.filter(|(_, edge)| edge.resolution == Resolution::Pending);
        let ids: Vec<ExecutionId> =
            open.map(|(upstream, _)| upstream.execution).take(UPSTREAMS_MAX).collect();
        Ok(self.inner().store.fetch(&ids).await?.into_iter().map(|stored| stored.execution).collect())
    }

    /// How an execution ended; waits for it, and gives none if it is still going.
    pub async fn result(&self, id: ExecutionId, wait: Duration) -> Result<Option<Ended>, Error> {
        let deadline = Instant::now() + wait.min(WAIT_MAX);
        let bell = self.inner().bells.wait_ended(id);
        loop {
            let rings = bell.rings();
            tokio::pin!(rings);
            rings.as_mut().enable();
            let view = self.get(id).await?;
            if let Some(outcome) = view.stored.execution.state.outcome() {
                let error = view.stored.execution.detail.error;
                return Ok(Some(Ended { outcome, result: view.stored.result, error }));
            }
            if Instant::now() >= deadline || self.inner().committer.is_closed() {
                return Ok(None);
            }
            tokio::select! {
                () = &mut rings => {}
                () = tokio::time::sleep_until(deadline.min(Instant::now() + LOOK_EVERY)) => {}
            }
        }
    }
}
