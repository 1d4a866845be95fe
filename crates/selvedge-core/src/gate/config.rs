//! How gates are configured: what people set, and what of it is accepted.

use crate::amount::Amount;
use crate::name::NAME_LIMIT;
use crate::submission::check_duration;
use crate::{Name, Refusal};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The largest concurrency or rate that is accepted.
pub const LIMIT_MAX: u32 = 1_000_000_000;
/// The largest weight of a lane.
pub const WEIGHT_MAX: u32 = 1_000_000;

/// Whether a lane gives out what waits in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaneState {
    /// It does.
    #[default]
    Active,
    /// It does not.
    Paused,
    /// It does, and takes nothing new.
    Draining,
}

impl LaneState {
    /// Every state.
    pub const ALL: [LaneState; 3] = [Self::Active, Self::Paused, Self::Draining];

    /// Its word in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Draining => "draining",
        }
    }

    /// The state with this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }
}

/// So many starts in a sliding window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Rate {
    /// How many.
    pub count: u32,
    /// In how long.
    pub window_ms: i64,
}

/// Limits of one dimension of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Limit {
    /// Beyond this nothing starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hard: Option<Amount>,
    /// Beyond this an event says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soft: Option<Amount>,
}

/// What a budget counts on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetScope {
    /// The whole namespace.
    #[default]
    Namespace,
    /// Each flow.
    Flow,
    /// Each lane.
    Lane,
}

impl BudgetScope {
    /// Every scope.
    pub const ALL: [BudgetScope; 3] = [Self::Namespace, Self::Flow, Self::Lane];

    /// Its word in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Namespace => "namespace",
            Self::Flow => "flow",
            Self::Lane => "lane",
        }
    }

    /// The scope with this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == word)
    }
}

/// What happens to running executions when a budget is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnHard {
    /// They run on; only new claims are held.
    #[default]
    Hold,
    /// They are suspended until there is room again, or an operator lets them go on.
    Suspend,
    /// They fail.
    Fail,
}

impl OnHard {
    /// Every one.
    pub const ALL: [OnHard; 3] = [Self::Hold, Self::Suspend, Self::Fail];

    /// Its word in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::Suspend => "suspend",
            Self::Fail => "fail",
        }
    }

    /// The one with this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == word)
    }
}

/// How a gate is configured: what people set. By default nothing is limited.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Config {
    /// Of a lane: whether it gives out what waits in it.
    #[serde(skip_serializing_if = "is_default")]
    pub state: LaneState,
    /// Of a lane or a quota: how many may be active at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// Of a lane or a quota: how many may start in a window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Of a lane: its share among the lanes of a claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// Of a budget: its limits by dimension.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, Limit>,
    /// Of a budget: what it counts on its own.
    #[serde(skip_serializing_if = "is_default")]
    pub scope: BudgetScope,
    /// Of a budget: how often its usage is set back to nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period_ms: Option<i64>,
    /// Of a budget: what happens to what runs when it is used up.
    #[serde(skip_serializing_if = "is_default")]
    pub on_hard: OnHard,
}

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Config {
    /// Checks every field; the first wrong one is named.
    pub fn check(&self) -> Result<(), Refusal> {
        let within = |pointer: &str, value: Option<u32>, least: u32, most: u32| match value {
            Some(value) if !(least..=most).contains(&value) => {
                let detail = format!("is {value}; it must lie between {least} and {most}");
                Err(Refusal::field(pointer, detail))
            }
            Some(_) | None => Ok(()),
        };
        within("/concurrency", self.concurrency, 0, LIMIT_MAX)?;
        within("/weight", self.weight, 1, WEIGHT_MAX)?;
        if let Some(rate) = self.rate {
            within("/rate/count", Some(rate.count), 0, LIMIT_MAX)?;
            check_period("/rate/window_ms", rate.window_ms)?;
        }
        if let Some(period_ms) = self.period_ms {
            check_period("/period_ms", period_ms)?;
        }
        for (dimension, limit) in &self.limits {
            let pointer = format!("/limits/{}", dimension.replace('~', "~0").replace('/', "~1"));
            Name::parse(&pointer, dimension, NAME_LIMIT)?;
            if limit.hard.is_none() && limit.soft.is_none() {
                return Err(Refusal::field(&pointer, "has neither hard nor soft; give one of them"));
            }
        }
        Ok(())
    }

    /// Whether active ones or starts are limited.
    pub fn limits_starts(&self) -> bool {
        self.concurrency.is_some() || self.rate.is_some()
    }
}

fn check_period(pointer: &str, ms: i64) -> Result<(), Refusal> {
    check_duration(pointer, ms)?;
    if ms == 0 {
        return Err(Refusal::field(pointer, "is 0; it must be at least one millisecond"));
    }
    Ok(())
}
