//! The settings of lanes, quotas and budgets.

use crate::Timestamp;
use crate::submission::millis;
use crate::wire::values::optional_time;
use selvedge_core::gate::{Amounts, Config};
use serde::Deserialize;
use std::time::Duration;

pub use selvedge_core::amount::Amount;
pub use selvedge_core::gate::{BudgetScope, LaneState, Limit, OnHard, Rate};

/// The settings of a lane. Default: active and without limits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LaneSettings {
    /// A paused lane starts nothing, a draining one takes no submissions. Default: active.
    pub state: LaneState,
    /// The most active executions. Default: no limit.
    pub concurrency: Option<u32>,
    /// The most starts in a window. Default: no limit.
    pub rate: Option<Rate>,
    /// The weight among the lanes of a claim. Default: 1.
    pub weight: Option<u32>,
}

/// The settings of a quota, which limits the executions that name it. Default: no limits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QuotaSettings {
    /// The most active executions. Default: no limit.
    pub concurrency: Option<u32>,
    /// The most starts in a window. Default: no limit.
    pub rate: Option<Rate>,
}

/// The settings of a budget.
///
/// ```
/// use selvedge::limits::{BudgetSettings, OnHard};
/// use std::time::Duration;
///
/// let tokens = BudgetSettings::new()
///     .limit("tokens", 1_000_000, Some(800_000))
///     .period(Duration::from_secs(24 * 3600))
///     .on_hard(OnHard::Suspend);
/// # drop(tokens);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BudgetSettings(Config);

impl BudgetSettings {
    /// Creates the settings of a budget without limits.
    pub fn new() -> BudgetSettings {
        BudgetSettings::default()
    }

    /// Sets the limits of a dimension: at `hard` nothing more starts, at `soft` an event is published. Default: none.
    pub fn limit(mut self, dimension: impl Into<String>, hard: u32, soft: Option<u32>) -> BudgetSettings {
        let limit = Limit { hard: Some(Amount::whole(hard)), soft: soft.map(Amount::whole) };
        self.0.limits.insert(dimension.into(), limit);
        self
    }

    /// Sets the time after which the usage begins at zero again. Default: never.
    pub fn period(mut self, period: Duration) -> BudgetSettings {
        self.0.period_ms = Some(millis(period));
        self
    }

    /// Sets what happens to active executions at a hard limit. Default: they continue, and only further claims are held.
    pub fn on_hard(mut self, on_hard: OnHard) -> BudgetSettings {
        self.0.on_hard = on_hard;
        self
    }

    /// Sets the parts that the budget counts separately. Default: one count for the namespace.
    pub fn scope(mut self, scope: BudgetScope) -> BudgetSettings {
        self.0.scope = scope;
        self
    }
}

/// The use of a budget.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct BudgetUse {
    /// The amounts spent in this period, by dimension.
    pub usage: Amounts,
    /// The amounts reserved by active executions, by dimension.
    pub reserved: Amounts,
    /// The end of the period.
    #[serde(rename = "next_reset_at", deserialize_with = "optional_time")]
    pub next_reset: Option<Timestamp>,
}

impl From<LaneSettings> for Config {
    fn from(lane: LaneSettings) -> Config {
        let LaneSettings { state, concurrency, rate, weight } = lane;
        Config { state, concurrency, rate, weight, ..Config::default() }
    }
}

impl From<QuotaSettings> for Config {
    fn from(quota: QuotaSettings) -> Config {
        Config { concurrency: quota.concurrency, rate: quota.rate, ..Config::default() }
    }
}

impl From<BudgetSettings> for Config {
    fn from(budget: BudgetSettings) -> Config {
        budget.0
    }
}
