//! The configuration of gates, and its validation.

use crate::amount::Amount;
use crate::name::NAME_LIMIT;
use crate::submission::check_duration;
use crate::{Name, Refusal};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Maximum accepted concurrency and rate.
pub const LIMIT_MAX: u32 = 1_000_000_000;
/// Maximum weight of a lane.
pub const WEIGHT_MAX: u32 = 1_000_000;

/// Maximum number of dimensions of a budget, and of a set of amounts.
pub const DIMENSIONS_MAX: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaneState {
    /// The lane accepts submissions, and its executions can be claimed.
    #[default]
    Active,
    /// The lane accepts submissions, but its executions cannot be claimed.
    Paused,
    /// The executions of the lane can be claimed, but submissions are refused.
    Draining,
}

impl LaneState {
    pub const ALL: [LaneState; 3] = [Self::Active, Self::Paused, Self::Draining];

    /// Returns the state's name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Draining => "draining",
        }
    }

    /// Returns the state with this name.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }
}

/// A limit of starts in a sliding window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Rate {
    /// Maximum number of starts in any window.
    pub count: u32,
    /// Length of the window, in milliseconds.
    pub window_ms: i64,
}

/// The limits of one dimension of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Limit {
    /// Amount at which nothing more starts. Default: no hard limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hard: Option<Amount>,
    /// Amount at which an event is emitted. Default: no soft limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soft: Option<Amount>,
}

/// The parts that a budget counts separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetScope {
    /// One count for the whole namespace.
    #[default]
    Namespace,
    /// One count for each flow.
    Flow,
    /// One count for each lane.
    Lane,
}

impl BudgetScope {
    pub const ALL: [BudgetScope; 3] = [Self::Namespace, Self::Flow, Self::Lane];

    /// Returns the scope's name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Namespace => "namespace",
            Self::Flow => "flow",
            Self::Lane => "lane",
        }
    }

    /// Returns the scope with this name.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == word)
    }
}

/// The policy for active executions when a budget is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnHard {
    /// Active executions continue; only new claims are held.
    #[default]
    Hold,
    /// Active executions are suspended until the budget has room again or an operator resumes them.
    Suspend,
    /// Active executions fail.
    Fail,
}

impl OnHard {
    pub const ALL: [OnHard; 3] = [Self::Hold, Self::Suspend, Self::Fail];

    /// Returns the policy's name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::Suspend => "suspend",
            Self::Fail => "fail",
        }
    }

    /// Returns the policy with this name.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.as_str() == word)
    }
}

/// The configuration of a gate. Default: no limits.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Config {
    /// For a lane: its state. Default: active.
    #[serde(skip_serializing_if = "is_default")]
    pub state: LaneState,
    /// For a lane or a quota: maximum number of active executions. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// For a lane or a quota: maximum number of starts in a window. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// For a lane: its weight in the fair share between the lanes of a claim. Default: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// For a budget: the limits by dimension.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, Limit>,
    /// For a budget: the parts that it counts separately. Default: the whole namespace.
    #[serde(skip_serializing_if = "is_default")]
    pub scope: BudgetScope,
    /// For a budget: length of a period, in milliseconds. The usage is reset at its end. Default: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period_ms: Option<i64>,
    /// For a budget: the policy for active executions when it is used up. Default: they continue.
    #[serde(skip_serializing_if = "is_default")]
    pub on_hard: OnHard,
}

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Config {
    /// Checks every field. The refusal names the first invalid one.
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
        if self.limits.len() > DIMENSIONS_MAX {
            let detail = format!("has {} entries; at most {DIMENSIONS_MAX} are allowed", self.limits.len());
            return Err(Refusal::field("/limits", detail));
        }
        for (dimension, limit) in &self.limits {
            let pointer = format!("/limits/{}", dimension.replace('~', "~0").replace('/', "~1"));
            Name::parse(&pointer, dimension, NAME_LIMIT)?;
            if limit.hard.is_none() && limit.soft.is_none() {
                return Err(Refusal::field(&pointer, "has neither hard nor soft; give one of them"));
            }
            if let (Some(hard), Some(soft)) = (limit.hard, limit.soft)
                && soft > hard
            {
                let detail = format!(
                    "is {soft}, above hard, which is {hard}; the soft limit must not exceed the hard limit"
                );
                return Err(Refusal::field(&format!("{pointer}/soft"), detail));
            }
        }
        Ok(())
    }

    /// Reports whether active executions or starts are limited.
    pub fn limits_starts(&self) -> bool {
        self.concurrency.is_some() || self.rate.is_some()
    }
}

/// Checks a duration that must be at least one millisecond.
fn check_period(pointer: &str, ms: i64) -> Result<(), Refusal> {
    check_duration(pointer, ms)?;
    if ms == 0 {
        return Err(Refusal::field(pointer, "is 0; it must be at least one millisecond"));
    }
    Ok(())
}
