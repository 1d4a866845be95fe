//! Partial changes of a configuration: JSON merge patches (RFC 7396) of lanes, quotas and budgets.
//!
//! A patch changes the fields that it names and leaves the others as they are. It is applied to the stored configuration
//! with the gate locked, so two concurrent patches of different fields both take effect.

use super::{BudgetScope, Config, GateKind, LaneState, Limit, OnHard, Rate};
use crate::Refusal;
use crate::amount::Amount;
use std::collections::BTreeMap;

/// The change of one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Change<T> {
    /// The patch does not name the field.
    #[default]
    Keep,
    /// The patch has null for the field, which returns it to its default.
    Clear,
    /// The patch has a value for the field.
    Set(T),
}

impl<T> Change<T> {
    /// Applies the change to an optional field.
    fn apply(self, field: &mut Option<T>) {
        match self {
            Change::Keep => {}
            Change::Clear => *field = None,
            Change::Set(value) => *field = Some(value),
        }
    }

    /// Applies the change to a field with a default.
    fn apply_or_default(self, field: &mut T)
    where
        T: Default,
    {
        match self {
            Change::Keep => {}
            Change::Clear => *field = T::default(),
            Change::Set(value) => *field = value,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct RatePatch {
    /// The change of [`Rate::count`].
    pub count: Change<u32>,
    /// The change of [`Rate::window_ms`].
    pub window_ms: Change<i64>,
}

/// The change of the limits of one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct LimitPatch {
    /// The change of [`Limit::hard`].
    pub hard: Change<Amount>,
    /// The change of [`Limit::soft`].
    pub soft: Change<Amount>,
}

/// The change of a configuration. Default: changes nothing.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct ConfigPatch {
    /// The change of [`Config::state`].
    pub state: Change<LaneState>,
    /// The change of [`Config::concurrency`].
    pub concurrency: Change<u32>,
    /// The change of [`Config::rate`].
    pub rate: Change<RatePatch>,
    /// The change of [`Config::weight`].
    pub weight: Change<u32>,
    /// The change of [`Config::limits`]: the changes of the named dimensions.
    pub limits: Change<BTreeMap<String, Change<LimitPatch>>>,
    /// The change of [`Config::scope`].
    pub scope: Change<BudgetScope>,
    /// The change of [`Config::period_ms`].
    pub period_ms: Change<i64>,
    /// The change of [`Config::on_hard`].
    pub on_hard: Change<OnHard>,
}

impl ConfigPatch {
    /// Returns a patch that changes nothing but the state of a lane.
    pub fn of_state(state: LaneState) -> Self {
        ConfigPatch { state: Change::Set(state), ..ConfigPatch::default() }
    }

    /// Returns the configuration of a gate of this kind with the patch applied. Refuses a patch of a gate that is not
    /// configured, unless it is a lane: every lane has a configuration, if only the defaults. None if the defaults of a
    /// lane stay as they are.
    pub fn merge(
        &self,
        kind: GateKind,
        name: &str,
        before: Option<&Config>,
    ) -> Result<Option<Config>, Refusal> {
        let Some(known) = before.cloned().or((kind == GateKind::Lane).then(Config::default)) else {
            return Err(Refusal::NotFound { what: kind.as_str().into(), id: name.into() });
        };
        let mut config = known.clone();
        self.state.apply_or_default(&mut config.state);
        self.concurrency.apply(&mut config.concurrency);
        self.weight.apply(&mut config.weight);
        self.scope.apply_or_default(&mut config.scope);
        self.period_ms.apply(&mut config.period_ms);
        self.on_hard.apply_or_default(&mut config.on_hard);
        match self.rate {
            Change::Keep => {}
            Change::Clear => config.rate = None,
            Change::Set(patch) => config.rate = Some(patch.merge(config.rate)?),
        }
        match &self.limits {
            Change::Keep => {}
            Change::Clear => config.limits.clear(),
            Change::Set(limits) => merge_limits(&mut config.limits, limits),
        }
        let unchanged = before.is_none() && config == known;
        Ok((!unchanged).then_some(config))
    }
}

impl RatePatch {
    fn merge(self, before: Option<Rate>) -> Result<Rate, Refusal> {
        let (mut count, mut window_ms) = (before.map(|rate| rate.count), before.map(|rate| rate.window_ms));
        self.count.apply(&mut count);
        self.window_ms.apply(&mut window_ms);
        let missing = |field: &str| Refusal::field(&format!("/rate/{field}"), "is missing");
        Ok(Rate {
            count: count.ok_or_else(|| missing("count"))?,
            window_ms: window_ms.ok_or_else(|| missing("window_ms"))?,
        })
    }
}

/// Changes the limits of the named dimensions. A dimension whose last limit is lifted is removed.
fn merge_limits(limits: &mut BTreeMap<String, Limit>, patch: &BTreeMap<String, Change<LimitPatch>>) {
    for (dimension, change) in patch {
        let before = limits.get(dimension).copied();
        let Change::Set(change) = change else {
            if *change == Change::Clear {
                limits.remove(dimension);
            }
            continue;
        };
        let mut limit = before.unwrap_or_default();
        change.hard.apply(&mut limit.hard);
        change.soft.apply(&mut limit.soft);
        match before.is_some() && limit == Limit::default() {
            true => drop(limits.remove(dimension)),
            false => drop(limits.insert(dimension.clone(), limit)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(hard: u32, soft: u32) -> Limit {
        Limit { hard: Some(Amount::whole(hard)), soft: Some(Amount::whole(soft)) }
    }

    #[test]
    fn a_patch_changes_only_the_fields_that_it_names() {
        let before = Config {
            state: LaneState::Paused,
            concurrency: Some(5),
            rate: Some(Rate { count: 3, window_ms: 1000 }),
            weight: Some(2),
            ..Config::default()
        };
        let merge = |patch: ConfigPatch| patch.merge(GateKind::Lane, "lane", Some(&before));
        assert_eq!(merge(ConfigPatch::default()), Ok(Some(before.clone())));
        let resumed = Config { state: LaneState::Active, ..before.clone() };
        assert_eq!(merge(ConfigPatch::of_state(LaneState::Active)), Ok(Some(resumed)));
        let rate = Change::Set(RatePatch { count: Change::Set(9), ..RatePatch::default() });
        let patch = ConfigPatch { rate, concurrency: Change::Clear, ..ConfigPatch::default() };
        let changed =
            Config { concurrency: None, rate: Some(Rate { count: 9, window_ms: 1000 }), ..before.clone() };
        assert_eq!(merge(patch), Ok(Some(changed)));
        let rate = Change::Set(RatePatch { count: Change::Clear, ..RatePatch::default() });
        let refused = merge(ConfigPatch { rate, ..ConfigPatch::default() }).expect_err("a rate has a count");
        assert_eq!(refused.pointer(), Some("/rate/count"));
    }

    #[test]
    fn a_patch_of_limits_changes_the_named_dimensions() {
        let limits = [("cost".to_owned(), limit(10, 5)), ("tokens".to_owned(), limit(100, 50))];
        let before = Config { limits: limits.into(), ..Config::default() };
        let change = |hard, soft| Change::Set(LimitPatch { hard, soft });
        let patch = |limits: Vec<(&str, Change<LimitPatch>)>| {
            let limits = limits.into_iter().map(|(name, change)| (name.to_owned(), change)).collect();
            let patch = ConfigPatch { limits: Change::Set(limits), ..ConfigPatch::default() };
            let merged = patch.merge(GateKind::Budget, "month", Some(&before));
            merged.expect("it is merged").expect("it is configured").limits
        };
        let half = Change::Set(Amount::whole(60));
        let changed = patch(vec![("tokens", change(half, Change::Keep)), ("cost", Change::Clear)]);
        assert_eq!(changed, [("tokens".to_owned(), limit(60, 50))].into());
        let lifted = patch(vec![("tokens", change(Change::Clear, Change::Clear))]);
        assert_eq!(lifted, [("cost".to_owned(), limit(10, 5))].into());
    }

    #[test]
    fn only_a_lane_is_patched_without_a_configuration() {
        let patch = ConfigPatch { concurrency: Change::Set(3), ..ConfigPatch::default() };
        let config = Config { concurrency: Some(3), ..Config::default() };
        assert_eq!(patch.merge(GateKind::Lane, "lane", None), Ok(Some(config)));
        assert_eq!(ConfigPatch::of_state(LaneState::Active).merge(GateKind::Lane, "lane", None), Ok(None));
        let refused = patch.merge(GateKind::Quota, "calls", None).expect_err("there is no such quota");
        assert_eq!(refused.code(), "not_found");
    }
}
