//! Gates: limits on the executions that may start, and on the amounts they may spend.
//!
//! Lanes, concurrency keys, quotas, budgets and fairness lines are all gates: rows that count the executions they
//! admit. A claim decides with the rows of all gates of an execution locked, so several servers together never exceed a
//! limit. An execution that a gate refuses is held by it until a transaction that opens the gate releases it.

pub mod amount;
mod config;
pub mod draws;
pub mod patch;
pub mod shares;
pub mod window;

pub use config::{
    BudgetScope, Config, DIMENSIONS_MAX, LIMIT_MAX, LaneState, Limit, OnHard, Rate, WEIGHT_MAX,
};

use crate::amount::Amount;
use crate::execution::ClaimOrder;
use crate::text::duration;
use crate::window::Window;
use crate::{ExecutionId, Name, NamespaceId, Timestamp};
use config::is_default;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use xxhash_rust::xxh3::xxh3_64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateKind {
    /// A lane: a queue of executions.
    Lane,
    /// A concurrency key: limits the active executions with the same key.
    Key,
    /// A quota: limits the starts in a window, and the active executions, of all executions that name it.
    Quota,
    /// A budget: limits the amounts that may be spent.
    Budget,
    /// A fairness line, one for each fairness key and class: only the head of the line can be claimed.
    Fair,
}

impl GateKind {
    pub const ALL: [GateKind; 5] = [Self::Lane, Self::Key, Self::Quota, Self::Budget, Self::Fair];

    /// Returns the kind's name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lane => "lane",
            Self::Key => "concurrency",
            Self::Quota => "quota",
            Self::Budget => "budget",
            Self::Fair => "fairness_key",
        }
    }

    /// Returns the number that a store keeps. Never changes.
    pub fn code(self) -> i16 {
        match self {
            Self::Lane => 1,
            Self::Key => 2,
            Self::Quota => 3,
            Self::Budget => 4,
            Self::Fair => 5,
        }
    }

    /// Returns the kind with this number.
    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

/// The id of a gate: a digest of its namespace, kind, name and part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GateId(pub i64);

/// The full name of a gate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GateName {
    pub namespace: NamespaceId,
    pub kind: GateKind,
    /// The name of the lane, quota or budget, or the text of the key.
    pub name: Name,
    /// The part, if the gate counts parts separately: a flow or a lane of a budget, the class of a fairness line. None
    /// for the whole gate.
    pub part: Option<Name>,
}

impl GateName {
    /// Returns the name of a whole gate.
    pub fn new(namespace: NamespaceId, kind: GateKind, name: Name) -> Self {
        GateName { namespace, kind, name, part: None }
    }

    pub fn part(mut self, part: Name) -> Self {
        self.part = Some(part);
        self
    }

    /// Encodes the name for a store.
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("a gate name always serialises")
    }

    /// Decodes a name that a store kept.
    pub fn decode(bytes: &[u8]) -> Result<Self, postcard::Error> {
        crate::stored::decode(bytes)
    }

    pub fn id(&self) -> GateId {
        let mut bytes = Vec::with_capacity(128);
        bytes.extend(self.namespace.0.to_le_bytes());
        bytes.extend(self.kind.code().to_le_bytes());
        for text in [Some(&self.name), self.part.as_ref()].into_iter().flatten() {
            bytes.extend((text.len() as u64).to_le_bytes());
            bytes.extend(text.as_bytes());
        }
        GateId(xxh3_64(&bytes) as i64)
    }
}

impl fmt::Display for GateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.as_str(), self.name)?;
        match (&self.part, self.kind) {
            (Some(part), GateKind::Budget) => write!(f, " of {part}"),
            _ => Ok(()),
        }
    }
}

/// Amounts by dimension, such as tokens or a currency.
pub type Amounts = BTreeMap<String, Amount>;

/// The row of a gate.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    pub name: GateName,
    /// Version of the row. Every change raises it by one.
    pub version: u32,
    /// The configuration; none if the gate is not configured.
    pub config: Option<Config>,
    /// Number of slots taken. For a fairness line: number of heads, 0 or 1.
    pub active: u32,
    /// The counters and records of the gate.
    pub state: GateState,
    /// Time at which a reconciler checks the gate: its period ends, its window has room again, or it may admit
    /// executions that it holds.
    pub due_at: Option<Timestamp>,
}

/// The counters and records of a gate besides the number of slots taken.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct GateState {
    /// The latest starts, for the rate.
    #[serde(skip_serializing_if = "is_default")]
    pub starts: Window,
    /// Amounts spent in this period.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub used: Amounts,
    /// Amounts reserved by active executions.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub reserved: Amounts,
    /// Number of the period, from 0.
    #[serde(skip_serializing_if = "is_default")]
    pub period: u32,
    /// End of the period.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resets_at: Option<Timestamp>,
    /// For a budget that is used up: the active executions that draw on it are still to be stopped.
    #[serde(skip_serializing_if = "is_default")]
    pub stops: bool,
    /// The gate may hold executions. Fairness lines do not record this.
    #[serde(skip_serializing_if = "is_default")]
    pub holds: bool,
    /// For a concurrency key: upper bound of the limits that the held executions name; none if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most: Option<u32>,
    /// For a budget: lower bound of the amounts that the held executions reserve; none if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least: Option<Amounts>,
    /// The progress of a scan over the held executions, if it takes several transactions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub looked: Option<Looked>,
    /// For a fairness line: the execution that became its head last. It is the head while a slot is taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<ExecutionId>,
    /// For a lane: the progress in counting the executions that were active when its limit was set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adoption: Option<Adoption>,
    /// Slots and amounts that are kept for released executions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub promised: Vec<Promise>,
}

/// The progress of a lane in counting executions that were active when its limit was set: they have no slot yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Adoption {
    /// The lane gives slots to the active executions that have none, and admits nothing meanwhile.
    Counting,
    /// All were counted. A claim that began before the limit was set may commit after that, so they are counted once
    /// more.
    Recounting,
}

/// A slot, a start or an amount that a gate keeps for an execution that it has released. Executions that came later do
/// not get it before the released execution starts. A promise ends by itself: the execution may never start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Promise {
    /// The released execution.
    pub execution: ExecutionId,
    /// The end of the promise.
    pub until: Timestamp,
    /// For a budget: the amounts that the execution reserves.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reserve: Amounts,
}

/// The progress of a scan over the executions that a gate holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Looked {
    /// The scan continues behind this position in the claim order.
    pub after: ClaimOrder,
    /// The scan must start again when it ends: executions that it has passed may be released by now.
    pub again: bool,
}

/// A refusal by a gate.
#[derive(Clone, Debug, PartialEq)]
pub struct Shut {
    pub why: HoldReason,
    /// Time at which the gate may admit again, if known.
    pub until: Option<Timestamp>,
}

/// The limit because of which a gate refuses.
#[derive(Clone, Debug, PartialEq)]
pub enum HoldReason {
    /// The lane is paused.
    Paused,
    /// The lane has a new limit and counts the executions that are already active.
    Counting,
    /// The limit of active executions is reached.
    Concurrency {
        /// Number of active executions.
        active: u32,
        /// Number of released executions that are about to start.
        promised: u32,
        /// Maximum number of active executions.
        limit: u32,
    },
    /// The limit of starts in the window is reached.
    Rate(Rate),
    /// The hard limit of a budget leaves too little.
    Budget {
        dimension: String,
        /// Amount spent in this period.
        used: Amount,
        /// Amount reserved by active executions, and for released ones that are about to start.
        reserved: Amount,
        /// Amount that the execution asks to reserve.
        wanted: Amount,
        /// The hard limit.
        hard: Amount,
    },
}

impl GateState {
    /// Removes the promises that have ended at `now`. Executions that a pending scan has passed may be released then, so
    /// the scan starts again when it ends.
    pub fn remove_ended_promises(&mut self, now: Timestamp) {
        let before = self.promised.len();
        self.promised.retain(|promise| promise.until > now);
        if self.promised.len() < before {
            self.scan_again();
        }
    }

    /// Makes a pending scan start again when it ends: the gate may admit executions that the scan has passed.
    pub fn scan_again(&mut self) {
        if let Some(looked) = &mut self.looked {
            looked.again = true;
        }
    }
}

impl Gate {
    /// Returns an empty gate.
    pub fn new(name: GateName) -> Gate {
        Gate { name, version: 0, config: None, active: 0, state: GateState::default(), due_at: None }
    }

    pub fn id(&self) -> GateId {
        self.name.id()
    }

    /// Reports whether the row carries no information, so that it need not be stored. The state of a fairness line
    /// without a head names a former one.
    pub fn is_empty(&self) -> bool {
        self.config.is_none()
            && self.active == 0
            && (self.state == GateState::default() || self.name.kind == GateKind::Fair)
            && self.due_at.is_none()
    }

    /// Iterates over the promises to executions other than `execution` that hold at `now`.
    fn promised_to_others(
        &self,
        execution: Option<ExecutionId>,
        now: Timestamp,
    ) -> impl Iterator<Item = &Promise> {
        let promised = self.state.promised.iter();
        promised.filter(move |promise| promise.until > now && Some(promise.execution) != execution)
    }

    /// Returns the time at which the first promise ends that holds at `now`; none if there is none.
    pub fn promise_ends_at(&self, now: Timestamp) -> Option<Timestamp> {
        self.promised_to_others(None, now).map(|promise| promise.until).min()
    }

    /// Reports whether the gate has promised something to an execution.
    pub fn has_promise(&self, execution: ExecutionId) -> bool {
        self.state.promised.iter().any(|promise| promise.execution == execution)
    }

    /// Ends the promise to an execution that starts, or that will not start. A gate that has no promise left and holds
    /// nothing need not be checked.
    pub fn end_promise(&mut self, execution: ExecutionId) {
        if !self.has_promise(execution) {
            return;
        }
        self.state.promised.retain(|promise| promise.execution != execution);
        let counts_starts = matches!(self.name.kind, GateKind::Key | GateKind::Quota);
        if counts_starts && self.state.promised.is_empty() && !self.state.holds {
            self.due_at = None;
        }
    }

    /// Returns why the gate refuses one more start now, by state, concurrency and rate; none if it admits it. `limit`
    /// is the limit that the execution itself names. What is promised to other executions than `execution` counts as
    /// taken.
    pub fn refuses(
        &self,
        config: &Config,
        limit: Option<u32>,
        execution: Option<ExecutionId>,
        now: Timestamp,
    ) -> Option<Shut> {
        self.refusals(config, limit, execution, now).next()
    }

    /// Iterates over all limits because of which the gate refuses one more start of `execution` now: state, concurrency
    /// and rate.
    pub fn refusals(
        &self,
        config: &Config,
        limit: Option<u32>,
        execution: Option<ExecutionId>,
        now: Timestamp,
    ) -> impl Iterator<Item = Shut> + use<> {
        let shut = |why| Shut { why, until: None };
        let paused = (config.state == LaneState::Paused).then(|| shut(HoldReason::Paused));
        let counting = (self.state.adoption == Some(Adoption::Counting)).then(|| shut(HoldReason::Counting));
        let (active, promised) = (self.active, self.promised_to_others(execution, now).count() as u32);
        let taken = active.saturating_add(promised);
        let limit = config.concurrency.into_iter().chain(limit).min().filter(|limit| taken >= *limit);
        let full = limit.map(|limit| shut(HoldReason::Concurrency { active, promised, limit }));
        let started = config.rate.filter(|rate| self.state.starts.room(*rate, now) <= promised);
        let started = started.map(|rate| {
            // If the window has room for promised starts only: until they start, or the first promise ends.
            let until = self.state.starts.opens_at(rate, now).or_else(|| self.promise_ends_at(now));
            Shut { why: HoldReason::Rate(rate), until }
        });
        [paused, counting, full, started].into_iter().flatten()
    }

    /// Returns the state after the gate holds an execution that names this limit or asks for this reserve; none if the
    /// state is unchanged.
    pub fn state_with_held(&self, limit: Option<u32>, reserve: Option<&Amounts>) -> Option<GateState> {
        let mut state = GateState { holds: true, ..self.state.clone() };
        state.most = limit.into_iter().chain(state.most).max();
        if let Some(reserve) = reserve {
            let lower_bound = |known: &Amounts| -> Amounts {
                let in_both = reserve.iter().filter_map(|(dimension, amount)| {
                    Some((dimension.clone(), (*amount).min(*known.get(dimension)?)))
                });
                in_both.collect()
            };
            state.least = Some(state.least.as_ref().map_or_else(|| reserve.clone(), lower_bound));
        }
        (state != self.state).then_some(state)
    }

    /// Reports whether, by its recorded bounds, the gate refuses every execution that it holds once `more` others have
    /// started.
    pub fn refuses_all_held(&self, limits: &BTreeMap<String, Limit>, more: u32, now: Timestamp) -> bool {
        match self.name.kind {
            GateKind::Key => {
                let promised = self.promised_to_others(None, now).count() as u32;
                let taken = self.active.saturating_add(promised).saturating_add(more);
                self.state.most.is_some_and(|most| taken >= most)
            }
            GateKind::Budget => {
                let none = Amounts::new();
                let least = self.state.least.as_ref().unwrap_or(&none);
                self.refuses_to_spend(limits, least, None, now).is_some()
            }
            GateKind::Lane | GateKind::Quota | GateKind::Fair => false,
        }
    }

    /// Returns how many more executions may start now, by state, concurrency and rate; none if there is no limit.
    pub fn room(&self, config: &Config, now: Timestamp) -> Option<u32> {
        if config.state == LaneState::Paused || self.state.adoption == Some(Adoption::Counting) {
            return Some(0);
        }
        let promised = self.promised_to_others(None, now).count() as u32;
        let slots = config.concurrency.map(|limit| limit.saturating_sub(self.active));
        let starts = config.rate.map(|rate| self.state.starts.room(rate, now));
        slots.into_iter().chain(starts).min().map(|room| room.saturating_sub(promised))
    }

    /// Returns the hard or soft limits that spending `more` reaches and that were not reached before.
    pub fn newly_reached(
        &self,
        limits: &BTreeMap<String, Limit>,
        more: &Amounts,
        hard: bool,
    ) -> Vec<(String, Amount)> {
        let reached = |(dimension, limit): (&String, &Limit)| {
            let limit = if hard { limit.hard } else { limit.soft }?;
            let used = self.state.used.get(dimension).copied().unwrap_or_default();
            let more = more.get(dimension).copied().unwrap_or_default();
            (used < limit && used + more >= limit && !more.is_zero()).then(|| (dimension.clone(), limit))
        };
        limits.iter().filter_map(reached).collect()
    }

    /// Reports whether the spent amounts reach a hard limit.
    pub fn is_used_up(&self, limits: &BTreeMap<String, Limit>) -> bool {
        let used = |dimension: &String| self.state.used.get(dimension).copied().unwrap_or_default();
        limits.iter().any(|(dimension, limit)| limit.hard.is_some_and(|hard| used(dimension) >= hard))
    }

    /// Returns why a claim of `execution` that reserves `wanted` may not start now; none if it may. It may start if the
    /// sum of used and reserved is below every hard limit, and with `wanted` at most the limit. What is promised to other
    /// executions counts as reserved.
    pub fn refuses_to_spend(
        &self,
        limits: &BTreeMap<String, Limit>,
        wanted: &Amounts,
        execution: Option<ExecutionId>,
        now: Timestamp,
    ) -> Option<HoldReason> {
        self.refusals_to_spend(limits, wanted, execution, now).next()
    }

    /// Iterates over all dimensions because of which a claim of `execution` that reserves `wanted` may not start now.
    pub fn refusals_to_spend<'a>(
        &'a self,
        limits: &'a BTreeMap<String, Limit>,
        wanted: &'a Amounts,
        execution: Option<ExecutionId>,
        now: Timestamp,
    ) -> impl Iterator<Item = HoldReason> + 'a {
        limits.iter().filter_map(move |(dimension, limit)| {
            let hard = limit.hard?;
            let of = |amounts: &Amounts| amounts.get(dimension).copied().unwrap_or_default();
            let promised = self.promised_to_others(execution, now).map(|promise| of(&promise.reserve));
            let reserved = promised.fold(of(&self.state.reserved), |sum, more| sum + more);
            let (used, wanted) = (of(&self.state.used), of(wanted));
            let taken = used + reserved;
            let refuses = taken >= hard || taken + wanted > hard;
            let dimension = dimension.clone();
            refuses.then_some(HoldReason::Budget { dimension, used, reserved, wanted, hard })
        })
    }
}

impl Shut {
    /// Describes the refusal by the gate with this name, for a person.
    pub fn describe(&self, name: &GateName) -> String {
        match &self.why {
            HoldReason::Paused => format!("{name} is paused"),
            HoldReason::Counting => {
                format!("{name} has a new limit and counts the executions that are already active")
            }
            HoldReason::Concurrency { active, promised: 0, limit } => {
                format!("{name} has {active} active and allows {limit}")
            }
            HoldReason::Concurrency { active, promised, limit } => {
                format!("{name} has {active} active, {promised} about to start, and allows {limit}")
            }
            HoldReason::Rate(Rate { count, window_ms }) => {
                let (starts, window) = (if *count == 1 { "start" } else { "starts" }, duration(*window_ms));
                format!("{name} allows {count} {starts} in {window}, and as many were started")
            }
            HoldReason::Budget { dimension, wanted, hard, .. } if wanted > hard => format!(
                "{name} allows {hard} {dimension} and it asks for {wanted}, so it cannot start before the limit is raised"
            ),
            HoldReason::Budget { dimension, used, reserved, wanted, hard } => format!(
                "{name} allows {hard} {dimension}: {used} are used, {reserved} reserved, and it asks for {wanted}"
            ),
        }
    }
}

/// Adds amounts to others, dimension by dimension.
pub fn add(into: &mut Amounts, more: &Amounts) {
    for (dimension, amount) in more.iter().filter(|(_, amount)| !amount.is_zero()) {
        *into.entry(dimension.clone()).or_default() += *amount;
    }
}

/// Subtracts amounts from others, dimension by dimension. Removes the dimensions that become zero.
pub fn subtract(from: &mut Amounts, less: &Amounts) {
    for (dimension, amount) in less {
        if let Some(left) = from.get_mut(dimension) {
            *left = *left - *amount;
        }
    }
    from.retain(|_, amount| !amount.is_zero());
}

/// The gates besides its lane that an execution draws on.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RequiredGates {
    /// Budgets, each with the amounts to reserve: the estimated maximum that the execution spends.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub budgets: Vec<(Name, Amounts)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub quotas: Vec<Name>,
    /// The concurrency key, and the maximum number of active executions with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<(Name, u32)>,
    /// The fairness key: executions with different keys take turns in their lane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fairness_key: Option<Name>,
}

impl RequiredGates {
    /// Reports whether the execution draws on no gate besides its lane.
    pub fn is_empty(&self) -> bool {
        *self == RequiredGates::default()
    }

    /// Reports whether a gate of this name is among them.
    pub fn names(&self, name: &Name) -> bool {
        self.budgets.iter().any(|(budget, _)| budget == name)
            || self.quotas.contains(name)
            || self.concurrency.as_ref().is_some_and(|(key, _)| key == name)
    }

    /// Reports whether a claim takes slots or reserves amounts, which the end of the attempt gives back.
    pub fn takes(&self) -> bool {
        !self.budgets.is_empty() || !self.quotas.is_empty() || self.concurrency.is_some()
    }
}

/// Amounts that an execution spent from a budget in a period. The entries of a period add up to the amounts used.
#[derive(Clone, Debug, PartialEq)]
pub struct LedgerEntry {
    /// The budget, or a part of it.
    pub gate: GateId,
    pub period: u32,
    /// The execution that spent them; none if there was no execution, or it is deleted.
    pub execution: Option<ExecutionId>,
    pub spent: Amounts,
}
