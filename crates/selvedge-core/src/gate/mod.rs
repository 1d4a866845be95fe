//! Gates: who may start now, and what it may cost.
//!
//! Lanes, concurrency keys, quotas, budgets and fairness keys are all gates: a row that counts what goes through it. A claim
//! decides with the rows of all gates of an execution locked, so no number of servers passes a limit together. What a gate
//! refuses is held by it, and goes on when the transaction that opens the gate lets it.

mod config;
pub mod draws;

pub use config::{BudgetScope, Config, LIMIT_MAX, LaneState, Limit, OnHard, Rate, WEIGHT_MAX};

use crate::amount::Amount;
use crate::execution::ClaimOrder;
use crate::window::Window;
use crate::{ExecutionId, Name, NamespaceId, Timestamp};
use config::is_default;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use xxhash_rust::xxh3::xxh3_64;

/// What a gate is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateKind {
    /// A queue.
    Lane,
    /// A concurrency key: at most so many active with the same value.
    Key,
    /// So many starts in a window, and so many at once, for whatever refers to it.
    Quota,
    /// What may be spent.
    Budget,
    /// A fairness key in a class: one of its waiting ones at a time may be claimed.
    Fair,
}

impl GateKind {
    /// Every kind.
    pub const ALL: [GateKind; 5] = [Self::Lane, Self::Key, Self::Quota, Self::Budget, Self::Fair];

    /// Its word in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lane => "lane",
            Self::Key => "concurrency",
            Self::Quota => "quota",
            Self::Budget => "budget",
            Self::Fair => "fairness_key",
        }
    }

    /// The number a store keeps. Stable for ever.
    pub fn code(self) -> i16 {
        match self {
            Self::Lane => 1,
            Self::Key => 2,
            Self::Quota => 3,
            Self::Budget => 4,
            Self::Fair => 5,
        }
    }

    /// The kind with this number.
    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

/// Names a gate by a number: a digest of its namespace, kind, name and part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GateId(pub i64);

/// Names a gate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GateName {
    /// The namespace.
    pub namespace: NamespaceId,
    /// What it is.
    pub kind: GateKind,
    /// Its name.
    pub name: Name,
    /// Which part of it, where it counts parts on their own: a flow or a lane of a budget, the class of a fairness key.
    pub part: Option<Name>,
}

impl GateName {
    /// A gate as a whole.
    pub fn new(namespace: NamespaceId, kind: GateKind, name: Name) -> Self {
        GateName { namespace, kind, name, part: None }
    }

    /// A part of it.
    pub fn part(mut self, part: Name) -> Self {
        self.part = Some(part);
        self
    }

    /// The bytes that a store keeps.
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_stdvec(self).unwrap_or_default()
    }

    /// From the bytes that a store kept.
    pub fn decode(bytes: &[u8]) -> Result<Self, postcard::Error> {
        postcard::from_bytes(bytes)
    }

    /// Its number.
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

/// Amounts by dimension.
pub type Amounts = BTreeMap<String, Amount>;

/// A gate's row.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    /// Its name.
    pub name: GateName,
    /// Grows by one with every change.
    pub version: u32,
    /// How it is configured; none where nobody has.
    pub config: Option<Config>,
    /// How many slots are taken; of a fairness key, how many may be claimed.
    pub active: u32,
    /// What else changes.
    pub state: GateState,
    /// When a reconciler is to look at it: its period ends, its window has room, or it is open and something is held by it.
    pub due_at: Option<Timestamp>,
}

/// What of a gate changes, besides how many slots are taken.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct GateState {
    /// When the newest starts were.
    #[serde(skip_serializing_if = "is_default")]
    pub starts: Window,
    /// What was spent in this period.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub used: Amounts,
    /// What those may spend that run.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub reserved: Amounts,
    /// Which period this is.
    #[serde(skip_serializing_if = "is_default")]
    pub period: u32,
    /// When it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resets_at: Option<Timestamp>,
    /// Of a budget that is used up: whether what runs is still to be stopped.
    #[serde(skip_serializing_if = "is_default")]
    pub stops: bool,
    /// Whether it may hold something. Lines, which say whose turn it is, do not tell.
    #[serde(skip_serializing_if = "is_default")]
    pub holds: bool,
    /// Of a concurrency key: no limit of what it holds is larger; none where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most: Option<u32>,
    /// Of a budget: whatever it holds asks for at least this; none where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least: Option<Amounts>,
    /// How far a look at what it holds has come, where not everything that is held asks for the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub looked: Option<Looked>,
}

/// How far a look at everything that a gate holds has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Looked {
    /// What is behind this place is to be looked at next.
    pub after: ClaimOrder,
    /// Whether something was given back since it began, so that it has to begin again.
    pub again: bool,
}

/// Why a gate refuses, and when to ask again where that is known.
#[derive(Clone, Debug, PartialEq)]
pub struct Shut {
    /// Since what is reached.
    pub why: HoldReason,
    /// When it may be open.
    pub until: Option<Timestamp>,
}

/// What is reached.
#[derive(Clone, Debug, PartialEq)]
pub enum HoldReason {
    /// The lane is paused.
    Paused,
    /// As many as may be are active.
    Concurrency {
        /// How many.
        active: u32,
        /// How many may be.
        limit: u32,
    },
    /// As many as may have started in the window.
    Rate(Rate),
    /// What may be spent is spent or reserved.
    Budget {
        /// The dimension.
        dimension: String,
        /// What was spent.
        used: Amount,
        /// What is reserved.
        reserved: Amount,
        /// What it asks for.
        wanted: Amount,
        /// What may be spent.
        hard: Amount,
    },
}

impl Gate {
    /// A gate that nothing went through yet.
    pub fn new(name: GateName) -> Gate {
        Gate { name, version: 0, config: None, active: 0, state: GateState::default(), due_at: None }
    }

    /// Its number.
    pub fn id(&self) -> GateId {
        self.name.id()
    }

    /// Whether there is nothing in it that is worth keeping.
    pub fn is_empty(&self) -> bool {
        self.config.is_none()
            && self.active == 0
            && self.state == GateState::default()
            && self.due_at.is_none()
    }

    /// Why one more may not start now, by concurrency and rate; `limit` is a limit of the execution's own.
    pub fn refuses(&self, config: &Config, limit: Option<u32>, now: Timestamp) -> Option<Shut> {
        if config.state == LaneState::Paused {
            return Some(Shut { why: HoldReason::Paused, until: None });
        }
        let active = self.active;
        if let Some(limit) =
            config.concurrency.into_iter().chain(limit).min().filter(|limit| active >= *limit)
        {
            return Some(Shut { why: HoldReason::Concurrency { active, limit }, until: None });
        }
        let rate = config.rate?;
        let until = self.state.starts.opens_at(rate, now)?;
        Some(Shut { why: HoldReason::Rate(rate), until: Some(until) })
    }

    /// Takes in that it holds one with this limit of its own, or that asks for this much. Says whether that changes anything.
    pub fn holds(&self, limit: Option<u32>, reserve: Option<&Amounts>) -> Option<GateState> {
        let mut state = GateState { holds: true, ..self.state.clone() };
        state.most = limit.into_iter().chain(state.most).max();
        if let Some(reserve) = reserve {
            let less = |known: &Amounts| -> Amounts {
                let both = reserve.iter().filter_map(|(dimension, amount)| {
                    Some((dimension.clone(), (*amount).min(*known.get(dimension)?)))
                });
                both.collect()
            };
            state.least = Some(state.least.as_ref().map_or_else(|| reserve.clone(), less));
        }
        (state != self.state).then_some(state)
    }

    /// Whether nothing that it holds may start after `more` others, by what these ask for.
    pub fn refuses_all_it_holds(&self, limits: &BTreeMap<String, Limit>, more: u32) -> bool {
        match self.name.kind {
            GateKind::Key => self.state.most.is_some_and(|most| self.active.saturating_add(more) >= most),
            GateKind::Budget => {
                let none = Amounts::new();
                self.refuses_to_spend(limits, self.state.least.as_ref().unwrap_or(&none)).is_some()
            }
            GateKind::Lane | GateKind::Quota | GateKind::Fair => false,
        }
    }

    /// How many more may start now, by concurrency and rate; none for any number.
    pub fn room(&self, config: &Config, now: Timestamp) -> Option<u32> {
        if config.state == LaneState::Paused {
            return Some(0);
        }
        let slots = config.concurrency.map(|limit| limit.saturating_sub(self.active));
        let starts = config.rate.map(|rate| self.state.starts.room(rate, now));
        slots.into_iter().chain(starts).min()
    }

    /// Which of these limits `more` passes, hard or not, of those that were not passed before.
    pub fn passes(
        &self,
        limits: &BTreeMap<String, Limit>,
        more: &Amounts,
        hard: bool,
    ) -> Vec<(String, Amount)> {
        let passed = |(dimension, limit): (&String, &Limit)| {
            let limit = if hard { limit.hard } else { limit.soft }?;
            let used = self.state.used.get(dimension).copied().unwrap_or_default();
            let more = more.get(dimension).copied().unwrap_or_default();
            (used < limit && used + more >= limit && !more.is_zero()).then(|| (dimension.clone(), limit))
        };
        limits.iter().filter_map(passed).collect()
    }

    /// Whether a hard limit is reached.
    pub fn is_used_up(&self, limits: &BTreeMap<String, Limit>) -> bool {
        let used = |dimension: &String| self.state.used.get(dimension).copied().unwrap_or_default();
        limits.iter().any(|(dimension, limit)| limit.hard.is_some_and(|hard| used(dimension) >= hard))
    }

    /// Why a claim that may cost `wanted` may not start now: it may while used + reserved + wanted is at most the hard limit,
    /// and used + reserved is below it.
    pub fn refuses_to_spend(&self, limits: &BTreeMap<String, Limit>, wanted: &Amounts) -> Option<HoldReason> {
        let none = Amount::default();
        for (dimension, limit) in limits {
            let Some(hard) = limit.hard else { continue };
            let of = |amounts: &Amounts| amounts.get(dimension).copied().unwrap_or(none);
            let (used, reserved, wanted) = (of(&self.state.used), of(&self.state.reserved), of(wanted));
            let taken = used + reserved;
            if taken >= hard || taken + wanted > hard {
                return Some(HoldReason::Budget {
                    dimension: dimension.clone(),
                    used,
                    reserved,
                    wanted,
                    hard,
                });
            }
        }
        None
    }
}

impl Shut {
    /// In words.
    pub fn describe(&self, name: &GateName) -> String {
        match &self.why {
            HoldReason::Paused => format!("{name} is paused"),
            HoldReason::Concurrency { active, limit } => {
                format!("{name} has {active} active and allows {limit}")
            }
            HoldReason::Rate(Rate { count, window_ms }) => {
                format!("{name} allows {count} starts in {window_ms} ms, and as many were started")
            }
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

/// Takes amounts from others, dimension by dimension; what is nothing then is left out.
pub fn subtract(from: &mut Amounts, less: &Amounts) {
    for (dimension, amount) in less {
        if let Some(left) = from.get_mut(dimension) {
            *left = *left - *amount;
        }
    }
    from.retain(|_, amount| !amount.is_zero());
}

/// What an execution draws on.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Draws {
    /// Budgets, and what it may spend of each at most by its own estimate.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub budgets: Vec<(Name, Amounts)>,
    /// Quotas.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub quotas: Vec<Name>,
    /// At most so many active with this key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<(Name, u32)>,
    /// Whose turn it takes in its lane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fairness_key: Option<Name>,
}

impl Draws {
    /// Whether it draws on nothing.
    pub fn is_empty(&self) -> bool {
        *self == Draws::default()
    }

    /// Whether a claim takes something that its end gives back.
    pub fn takes(&self) -> bool {
        !self.budgets.is_empty() || !self.quotas.is_empty() || self.concurrency.is_some()
    }
}

/// What an execution spent of a budget in a period. Added up, these are what the budget has used.
#[derive(Clone, Debug, PartialEq)]
pub struct LedgerEntry {
    /// The budget, or the part of it.
    pub gate: GateId,
    /// The period.
    pub period: u32,
    /// Who spent it; none for what no execution did, or one that is deleted.
    pub execution: Option<ExecutionId>,
    /// How much.
    pub spent: Amounts,
}
