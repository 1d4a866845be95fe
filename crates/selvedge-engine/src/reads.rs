//! What callers see of executions: one, many, what holds them, their attempts, what they spent, and how they ended.

use crate::namespace::WAIT_MAX;
use crate::{Error, Namespace};
use selvedge_core::explain::{is_paused, shown_state};
use selvedge_core::fact::{Fact, Failure};
use selvedge_core::filter::{Filter, Place};
use selvedge_core::gate::draws::lane_gate;
use selvedge_core::gate::{GateId, GateKind, GateName, HoldReason, LedgerEntry, Shut};
use selvedge_core::history::{Attempt, HistoryLine, attempts};
use selvedge_core::state::StateName;
use selvedge_core::{Class, ExecutionId, History, Name, Outcome, Refusal, State, Timestamp};
use selvedge_store::Stored;
use std::collections::HashSet;
use std::time::Duration;
use tokio::time::Instant;

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
    /// Whether its lane is paused, where that was looked at: of what is ready.
    pub lane_is_paused: bool,
}

/// What holds an execution.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldReason {
    /// The gate.
    pub gate: GateName,
    /// Why, in words.
    pub message: String,
    /// Until when, where that was known when it was held.
    pub until: Option<Timestamp>,
}

/// What an execution spent of a budget in a period.
#[derive(Clone, Debug, PartialEq)]
pub struct Spent {
    /// The budget, or the part of it; none where it is gone and the execution does not draw on it.
    pub budget: Option<GateName>,
    /// How much.
    pub entry: LedgerEntry,
}

impl View {
    /// Its state: what is ready in a lane that is paused is held by it.
    pub fn state(&self) -> StateName {
        shown_state(&self.stored.execution.state, self.lane_is_paused)
    }

    /// What holds it, while it is held. Its own history says why; where that line has left the row, the gate alone does.
    pub fn held_reason(&self) -> Option<HeldReason> {
        let row = &self.stored.execution;
        match &row.state {
            State::Waiting if self.lane_is_paused => {
                let gate = lane_gate(row.namespace, &self.class.lane);
                let message = Shut { why: HoldReason::Paused, until: None }.describe(&gate);
                Some(HeldReason { gate, message, until: None })
            }
            State::Held(gate) => {
                let lines = row.history.lines().unwrap_or_default();
                let told = lines.into_iter().rev().find_map(|line| match line.fact {
                    Fact::Held { gate, reason, until } => Some(HeldReason { gate, message: reason, until }),
                    _ => None,
                });
                let gate = GateName::clone(gate);
                let unknown = || HeldReason { message: format!("{gate} refuses it"), gate, until: None };
                Some(told.unwrap_or_else(unknown))
            }
            State::WaitingDependencies
            | State::Waiting
            | State::Delayed { .. }
            | State::Active(_)
            | State::Suspended(_)
            | State::Terminal(_) => None,
        }
    }

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
        let mut view = self.seen(self.stored(id).await?).await?;
        self.look_at_lanes(std::slice::from_mut(&mut view)).await?;
        Ok(view)
    }

    async fn stored(&self, id: ExecutionId) -> Result<Stored, Error> {
        let stored = self.inner().store.fetch(&[id]).await?.pop();
        let ours = stored.filter(|stored| stored.execution.namespace == self.id());
        ours.ok_or_else(|| Refusal::no_execution(id).into())
    }

    /// Shows a row of this namespace that a call has just changed.
    pub async fn view(&self, stored: Stored) -> Result<View, Error> {
        let mut view = self.seen(stored).await?;
        self.look_if_configured(std::slice::from_mut(&mut view)).await?;
        Ok(view)
    }

    /// Shows rows of this namespace that a call has just changed, in order.
    pub async fn views(&self, rows: Vec<Stored>) -> Result<Vec<View>, Error> {
        let mut views = Vec::with_capacity(rows.len());
        for stored in rows {
            views.push(self.seen(stored).await?);
        }
        self.look_if_configured(&mut views).await?;
        Ok(views)
    }

    /// A call that changes something pays for a look at lanes only where some are known to be configured.
    async fn look_if_configured(&self, views: &mut [View]) -> Result<(), Error> {
        match self.inner().registry.has_lanes() {
            true => self.look_at_lanes(views).await,
            false => Ok(()),
        }
    }

    async fn seen(&self, stored: Stored) -> Result<View, Error> {
        let class = self.inner().registry.class(stored.execution.class).await?;
        Ok(View { stored, class, namespace: self.name().clone(), lane_is_paused: false })
    }

    /// Reads the lanes of those that are ready, once for all of them.
    async fn look_at_lanes(&self, views: &mut [View]) -> Result<(), Error> {
        let lane = |view: &View| lane_gate(self.id(), &view.class.lane).id();
        let ready = |view: &View| view.stored.execution.state == State::Waiting;
        let mut lanes: Vec<GateId> = views.iter().filter(|view| ready(view)).map(lane).collect();
        lanes.sort_unstable();
        lanes.dedup();
        if lanes.is_empty() {
            return Ok(());
        }
        let gates = self.inner().store.fetch_gates(&lanes).await?;
        let paused: HashSet<GateId> =
            gates.iter().filter(|gate| is_paused(gate)).map(|gate| gate.id()).collect();
        for view in views {
            view.lane_is_paused = ready(view) && paused.contains(&lane(view));
        }
        Ok(())
    }

    /// The store's time.
    pub async fn now(&self) -> Result<Timestamp, Error> {
        Ok(self.inner().store.overview().await?.now)
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
            views.push(self.seen(stored).await?);
        }
        self.look_at_lanes(&mut views).await?;
        Ok((views, last.filter(|_| more)))
    }

    /// How many executions match, counted up to `bound`.
    pub async fn count(&self, filter: &Filter, bound: u64) -> Result<u64, Error> {
        Ok(self.inner().store.count(filter, bound).await?)
    }

    /// The whole history of an execution, oldest first.
    pub async fn history(&self, id: ExecutionId) -> Result<(View, Vec<HistoryLine>), Error> {
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

    /// What an execution spent, by budget and period. A budget that is gone is known by name where the execution draws on it.
    pub async fn spent_by(&self, id: ExecutionId) -> Result<Vec<Spent>, Error> {
        let view = self.get(id).await?;
        let store = &self.inner().store;
        let entries = store.ledger_of(id).await?;
        let mut ids: Vec<GateId> = entries.iter().map(|entry| entry.gate).collect();
        ids.sort_unstable();
        ids.dedup();
        let mut names: Vec<GateName> =
            store.fetch_gates(&ids).await?.into_iter().map(|gate| gate.name).collect();
        names.extend(drawn(&view));
        let named = |entry: LedgerEntry| {
            let budget = names.iter().find(|name| name.id() == entry.gate).cloned();
            Spent { budget, entry }
        };
        let mut spent: Vec<Spent> = entries.into_iter().map(named).collect();
        spent.sort_by(|a, b| (&a.budget, a.entry.period).cmp(&(&b.budget, b.entry.period)));
        Ok(spent)
    }

    /// How an execution ended; waits for it, and gives none if it is still going.
    pub async fn result(&self, id: ExecutionId, wait: Duration) -> Result<Option<Ended>, Error> {
        let deadline = Instant::now() + wait.min(WAIT_MAX);
        let bell = self.inner().bells.wait_ended(id);
        loop {
            let rings = bell.rings();
            tokio::pin!(rings);
            rings.as_mut().enable();
            let stored = self.stored(id).await?;
            if let Some(outcome) = stored.execution.state.outcome() {
                let error = stored.execution.detail.error;
                return Ok(Some(Ended { outcome, result: stored.result, error }));
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

/// The budgets that an execution draws on, as wholes and as the parts that may count for it.
fn drawn(view: &View) -> Vec<GateName> {
    let row = &view.stored.execution;
    let parts = [None, Some(Name::trusted(&row.flow().to_string())), Some(view.class.lane.clone())];
    let budgets = row.spec.draws.budgets.iter();
    let of = |(name, _): &(Name, _)| {
        let whole = GateName::new(row.namespace, GateKind::Budget, name.clone());
        parts.clone().map(|part| GateName { part, ..whole.clone() })
    };
    budgets.flat_map(of).collect()
}
