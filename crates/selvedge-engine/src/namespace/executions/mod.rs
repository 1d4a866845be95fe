//! Reads of executions: one, lists, holds, attempts, spending and results.

mod counts;
mod explain;
mod operator_actions;
mod record;
mod record_pages;
mod relatives;
mod signals;
mod streams;
mod submissions;

pub use counts::*;
pub use operator_actions::*;
pub use record::ExecutionRecord;
pub use record_pages::RecordPage;
pub use relatives::Relation;
pub use signals::*;
pub use streams::*;

use crate::Error;
use crate::namespace::{Namespace, WAIT_MAX};
use selvedge_core::explain::{is_paused, shown_state};
use selvedge_core::fact::{self, Fact, Failure};
use selvedge_core::filter::{Filter, ListPosition, Payloads};
use selvedge_core::gate::draws::lane_gate;
use selvedge_core::gate::{GateId, GateKind, GateName, HoldReason, LedgerEntry, Shut};
use selvedge_core::history::{Attempt, HistoryLine, attempts};
use selvedge_core::state::StateName;
use selvedge_core::{Class, Execution, ExecutionId, History, Name, Outcome, Refusal, State, Timestamp};
use selvedge_store::{Head, ListPage, Stored};
use std::collections::HashSet;
use std::time::Duration;
use tokio::time::Instant;

/// The maximum time between two reads of a waiting call, in case the notification of an end is lost.
const READ_INTERVAL: Duration = Duration::from_secs(1);
/// The number of lanes per read.
const LANES_PER_READ: u32 = 500;

/// An execution as callers see it.
#[derive(Clone, Debug)]
pub struct View {
    /// The row and its payloads.
    pub stored: Stored,
    /// The lane, kind and capabilities of the execution.
    pub class: Class,
    pub namespace: Name,
    /// True if the execution is waiting and its lane is paused. Read only for waiting executions.
    pub lane_is_paused: bool,
}

/// The gate that holds an execution, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldReason {
    pub gate: GateName,
    /// The reason, for people.
    pub message: String,
    /// The expected end of the hold, if it was known when the hold began.
    pub until: Option<Timestamp>,
}

/// The amounts that an execution spent of a budget in one period.
#[derive(Clone, Debug, PartialEq)]
pub struct Spent {
    /// The budget, or its part. None if the budget was deleted and the execution does not draw on it.
    pub budget: Option<GateName>,
    /// The amounts and the period.
    pub entry: LedgerEntry,
}

impl View {
    /// The public state: a waiting execution in a paused lane is shown as held.
    pub fn state(&self) -> StateName {
        shown_state(&self.stored.execution.state, self.lane_is_paused)
    }

    /// Returns the gate that holds the execution and the reason, while it is held. The reason comes from the
    /// execution's history. If that line has moved to an older page or cannot be read, only the gate is named.
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
                let recorded = lines.into_iter().rev().find_map(|line| match line.fact {
                    Fact::Held(fact::Held { gate, reason, until }) => {
                        Some(HeldReason { gate, message: reason, until })
                    }
                    _ => None,
                });
                let gate = GateName::clone(gate);
                let unrecorded = || HeldReason { message: format!("{gate} refuses it"), gate, until: None };
                Some(recorded.unwrap_or_else(unrecorded))
            }
            State::WaitingDependencies
            | State::Waiting
            | State::Delayed { .. }
            | State::Active(_)
            | State::Suspended(_)
            | State::Terminal(_) => None,
        }
    }

    /// Returns the expiry of the lease: the end of its first term or, if later, one time to live after the last renewal
    /// of its session.
    pub fn lease_until(&self) -> Option<Timestamp> {
        let lease = self.stored.execution.state.lease()?;
        let renewed = self.stored.renewed_at.map(|renewed| renewed.plus_ms(lease.ttl_ms));
        Some(renewed.map_or(lease.first_term(), |renewed| renewed.max(lease.first_term())))
    }
}

/// The end of an execution.
#[derive(Clone, Debug)]
pub struct Ended {
    pub outcome: Outcome,
    /// The result, if the execution completed with one.
    pub result: Option<bytes::Bytes>,
    /// The last error, if there was one.
    pub error: Option<Failure>,
}

/// The history of an execution, as far as it can be read.
pub(in crate::namespace) struct ReadHistory {
    /// The lines, oldest first.
    pub lines: Vec<HistoryLine>,
    /// The places where unreadable lines are missing.
    pub gaps: Vec<HistoryGap>,
}

/// A place in a history where unreadable lines are missing.
pub(in crate::namespace) struct HistoryGap {
    /// The version of the line before the gap.
    pub after: u32,
    /// The time of the line before the gap.
    pub at: Timestamp,
    /// The reason why the first missing line is unreadable.
    pub detail: String,
}

impl ReadHistory {
    /// Reads the lines of a row and of the pages that were moved out of it.
    fn new(row: &Execution, pages: Vec<Vec<u8>>) -> ReadHistory {
        let pages = pages.into_iter().map(History::from_bytes);
        let (mut lines, mut gaps) = (Vec::new(), Vec::new());
        for page in pages.chain([row.history.clone()]) {
            let (readable, error) = page.readable_lines();
            let last = readable.last().or(lines.last()).map(|line: &HistoryLine| (line.version, line.at));
            lines.extend(readable);
            if let Some(error) = error {
                let (after, at) = last.unwrap_or((0, row.submitted_at));
                gaps.push(HistoryGap { after, at, detail: error.to_string() });
            }
        }
        lines.sort_by_key(|line| line.version);
        ReadHistory { lines, gaps }
    }

    /// Fails if a line is unreadable.
    fn check(&self, id: ExecutionId) -> Result<(), Refusal> {
        match self.gaps.first() {
            None => Ok(()),
            Some(gap) => Err(Refusal::Unreadable { execution: id, detail: gap.detail.clone() }),
        }
    }
}

impl Namespace {
    /// Returns one execution with its payloads.
    pub async fn get(&self, id: ExecutionId) -> Result<View, Error> {
        self.get_with(id, Payloads::ALL).await
    }

    /// Returns one execution with the payloads asked for.
    pub async fn get_with(&self, id: ExecutionId, payloads: Payloads) -> Result<View, Error> {
        let mut view = self.view_row(self.stored(id, payloads).await?).await?;
        self.load_lane_pauses(std::slice::from_mut(&mut view)).await?;
        Ok(view)
    }

    /// Returns the row of one execution, without payloads.
    pub(in crate::namespace) async fn row(&self, id: ExecutionId) -> Result<Execution, Error> {
        Ok(self.stored(id, Payloads::NONE).await?.execution)
    }

    /// Returns the head of an execution.
    pub(in crate::namespace) async fn head(&self, id: ExecutionId) -> Result<Head, Error> {
        let head = self.inner().store.head(id).await?.filter(|head| head.namespace == self.id());
        head.ok_or_else(|| Refusal::no_execution(id).into())
    }

    async fn stored(&self, id: ExecutionId, payloads: Payloads) -> Result<Stored, Error> {
        let stored = self.inner().store.fetch(&[id], payloads).await?.pop();
        let ours = stored.filter(|stored| stored.execution.namespace == self.id());
        ours.ok_or_else(|| Refusal::no_execution(id).into())
    }

    /// Returns the view of a row of this namespace that a call has just changed.
    pub async fn view(&self, stored: Stored) -> Result<View, Error> {
        let mut view = self.view_row(stored).await?;
        self.load_lane_pauses_if_any(std::slice::from_mut(&mut view)).await?;
        Ok(view)
    }

    /// Returns the views of rows of this namespace that a call has just changed, in order.
    pub async fn views(&self, rows: Vec<Stored>) -> Result<Vec<View>, Error> {
        let mut views = Vec::with_capacity(rows.len());
        for stored in rows {
            views.push(self.view_row(stored).await?);
        }
        self.load_lane_pauses_if_any(&mut views).await?;
        Ok(views)
    }

    /// Reads lanes only if some are known to be configured, so that calls that change rows stay cheap.
    async fn load_lane_pauses_if_any(&self, views: &mut [View]) -> Result<(), Error> {
        match self.inner().registry.has_lanes() {
            true => self.load_lane_pauses(views).await,
            false => Ok(()),
        }
    }

    async fn view_row(&self, stored: Stored) -> Result<View, Error> {
        let class = self.inner().registry.class(stored.execution.class).await?;
        Ok(View { stored, class, namespace: self.name().clone(), lane_is_paused: false })
    }

    /// Sets `lane_is_paused` of waiting executions. Each lane is read once.
    async fn load_lane_pauses(&self, views: &mut [View]) -> Result<(), Error> {
        let lane = |view: &View| lane_gate(self.id(), &view.class.lane).id();
        let is_waiting = |view: &View| view.stored.execution.state == State::Waiting;
        let mut lanes: Vec<GateId> = views.iter().filter(|view| is_waiting(view)).map(lane).collect();
        lanes.sort_unstable();
        lanes.dedup();
        if lanes.is_empty() {
            return Ok(());
        }
        let gates = self.inner().store.fetch_gates(&lanes).await?;
        let paused: HashSet<GateId> =
            gates.iter().filter(|gate| is_paused(gate)).map(|gate| gate.id()).collect();
        for view in views {
            view.lane_is_paused = is_waiting(view) && paused.contains(&lane(view));
        }
        Ok(())
    }

    /// Returns the store's time.
    pub async fn now(&self) -> Result<Timestamp, Error> {
        Ok(self.inner().store.now().await?)
    }

    /// Creates a filter for lists and bulk actions, limited to a lane and a kind if given.
    pub async fn filter(&self, lane: Option<&str>, kind: Option<&str>) -> Result<Filter, Error> {
        self.inner().registry.refresh_classes().await?;
        let narrows = lane.is_some() || kind.is_some();
        let classes = narrows.then(|| self.inner().registry.of(self.id(), lane, kind));
        Ok(Filter { classes, ..Filter::all(self.id()) })
    }

    /// Returns a page of executions, newest first, and the place to continue from; none at the end of the list. A page
    /// may be short, or empty, before the end. The shown state of every item matches the filter.
    pub async fn list(
        &self,
        filter: &Filter,
        after: Option<ListPosition>,
        limit: u32,
        payloads: Payloads,
    ) -> Result<(Vec<View>, Option<ListPosition>), Error> {
        let filter = self.with_paused_lanes(filter).await?;
        let ListPage { mut rows, mut next } =
            self.inner().store.list(&filter, after, limit + 1, payloads).await?;
        if rows.len() > limit as usize {
            rows.truncate(limit as usize);
            next = rows.last().map(|stored| ListPosition::of(&stored.execution));
        }
        let mut views = Vec::with_capacity(rows.len());
        for stored in rows {
            views.push(self.view_row(stored).await?);
        }
        match tells_paused_lanes(&filter) {
            // Lanes may have changed since: the items are shown as the filter found them.
            true => views.iter_mut().for_each(|view| {
                let row = &view.stored.execution;
                view.lane_is_paused =
                    row.state == State::Waiting && filter.paused.binary_search(&row.class).is_ok();
            }),
            false => self.load_lane_pauses(&mut views).await?,
        }
        Ok((views, next))
    }

    /// Counts the matching executions, up to `bound`.
    pub async fn count(&self, filter: &Filter, bound: u64) -> Result<u64, Error> {
        let filter = self.with_paused_lanes(filter).await?;
        Ok(self.inner().store.count(&filter, bound).await?)
    }

    /// Adds what the store needs for a filter on the state waiting: the classes, by which the store finds waiting
    /// executions, and the classes of paused lanes, if the filter tells waiting executions from held ones.
    pub(in crate::namespace) async fn with_paused_lanes(&self, filter: &Filter) -> Result<Filter, Error> {
        let mut filter = filter.clone();
        let lanes = match tells_paused_lanes(&filter) {
            true => self.paused_lanes().await?,
            false => Vec::new(),
        };
        if lanes.is_empty() && !filter.states.contains(&StateName::Waiting) {
            return Ok(filter);
        }
        let registry = &self.inner().registry;
        registry.refresh_classes().await?;
        let classes = filter.classes.take().unwrap_or_else(|| registry.of(self.id(), None, None));
        filter.classes = Some(classes);
        filter.paused =
            lanes.iter().flat_map(|lane| registry.of(self.id(), Some(lane.as_str()), None)).collect();
        filter.paused.sort_unstable();
        Ok(filter)
    }

    /// Returns the names of the paused lanes.
    pub async fn paused_lanes(&self) -> Result<Vec<Name>, Error> {
        let (mut paused, mut after): (Vec<Name>, Option<Name>) = (Vec::new(), None);
        loop {
            let store = &self.inner().store;
            let gates = store.list_gates(self.id(), GateKind::Lane, after.as_ref(), LANES_PER_READ).await?;
            after = gates.last().map(|gate| gate.name.name.clone());
            let more = gates.len() == LANES_PER_READ as usize;
            paused.extend(gates.into_iter().filter(is_paused).map(|gate| gate.name.name));
            if !more {
                return Ok(paused);
            }
        }
    }

    /// Returns an execution and the readable lines of its history.
    pub(in crate::namespace) async fn read_history(
        &self,
        id: ExecutionId,
    ) -> Result<(Execution, ReadHistory), Error> {
        let row = self.row(id).await?;
        let history = ReadHistory::new(&row, self.history_pages(&row).await?);
        Ok((row, history))
    }

    async fn history_pages(&self, row: &Execution) -> Result<Vec<Vec<u8>>, Error> {
        match row.detail.history_pages {
            0 => Ok(Vec::new()),
            _ => Ok(self.inner().store.history_pages(row.id).await?),
        }
    }

    /// Returns the attempts of an execution, oldest first. An unreadable line of its history fails the call.
    pub async fn attempts(&self, id: ExecutionId) -> Result<Vec<Attempt>, Error> {
        let (row, history) = self.read_history(id).await?;
        history.check(id)?;
        Ok(attempts(&history.lines, row.detail.error.as_ref()))
    }

    /// Returns the amounts that an execution spent, by budget and period. A deleted budget is still named if the
    /// execution draws on it.
    pub async fn spent_by(&self, id: ExecutionId) -> Result<Vec<Spent>, Error> {
        let view = self.get_with(id, Payloads::NONE).await?;
        let store = &self.inner().store;
        let entries = store.ledger_of(id).await?;
        let mut ids: Vec<GateId> = entries.iter().map(|entry| entry.gate).collect();
        ids.sort_unstable();
        ids.dedup();
        let mut names: Vec<GateName> =
            store.fetch_gates(&ids).await?.into_iter().map(|gate| gate.name).collect();
        names.extend(drawn_budgets(&view));
        let named = |entry: LedgerEntry| {
            let budget = names.iter().find(|name| name.id() == entry.gate).cloned();
            Spent { budget, entry }
        };
        let mut spent: Vec<Spent> = entries.into_iter().map(named).collect();
        spent.sort_by(|a, b| (&a.budget, a.entry.period).cmp(&(&b.budget, b.entry.period)));
        Ok(spent)
    }

    /// Waits for the end of an execution and returns it. None if it has not ended within `wait`.
    pub async fn result(&self, id: ExecutionId, wait: Duration) -> Result<Option<Ended>, Error> {
        let deadline = Instant::now() + wait.min(WAIT_MAX);
        let waiter = self.inner().waiters.register_end(id);
        loop {
            let woken = waiter.woken();
            tokio::pin!(woken);
            woken.as_mut().enable();
            let stored = self.stored(id, Payloads { input: false, result: true }).await?;
            if let Some(outcome) = stored.execution.state.outcome() {
                let error = stored.execution.detail.error;
                return Ok(Some(Ended { outcome, result: stored.result, error }));
            }
            if Instant::now() >= deadline || self.inner().committer.is_closed() {
                return Ok(None);
            }
            tokio::select! {
                () = &mut woken => {}
                () = tokio::time::sleep_until(deadline.min(Instant::now() + READ_INTERVAL)) => {}
            }
        }
    }
}

/// Reports whether a filter selects waiting executions but not held ones, or held ones but not waiting ones.
fn tells_paused_lanes(filter: &Filter) -> bool {
    filter.states.contains(&StateName::Waiting) != filter.states.contains(&StateName::Held)
}

/// Returns the budgets that an execution draws on: each as a whole, and its parts for the execution's flow and lane.
pub(in crate::namespace) fn drawn_budgets(view: &View) -> Vec<GateName> {
    let row = &view.stored.execution;
    let parts = [None, Some(Name::trusted(&row.flow().to_string())), Some(view.class.lane.clone())];
    let budgets = row.spec.required_gates.budgets.iter();
    let with_parts = |(name, _): &(Name, _)| {
        let whole = GateName::new(row.namespace, GateKind::Budget, name.clone());
        parts.clone().map(|part| GateName { part, ..whole.clone() })
    };
    budgets.flat_map(with_parts).collect()
}
