//! Bounded counts for an overview of a namespace: executions by state, and live executions by class with the age of the oldest.
//!
//! Every count comes from an index and stops at a bound, so that its cost does not grow with the number of executions.

use crate::Error;
use crate::namespace::Namespace;
use futures_util::future::try_join_all;
use selvedge_core::class::Class;
use selvedge_core::filter::Filter;
use selvedge_core::state::StateName;
use selvedge_core::{ClassId, Name, Timestamp};
use std::collections::HashSet;

/// The most classes and pools that are looked at.
const RANGES_MAX: usize = 2000;
/// The most waiting executions that [`Namespace::depths`] looks at, over all classes.
const LOOKED_AT: usize = 50_000;
/// The most executions of one class, and of one other state, that [`Namespace::depths`] looks at.
const LOOKED_AT_OF_CLASS: usize = 1000;
/// The states that an index by state has and that matter to an operator.
const BY_STATE: [StateName; 6] = [
    StateName::WaitingDependencies,
    StateName::Delayed,
    StateName::Held,
    StateName::Suspended,
    StateName::Failed,
    StateName::Expired,
];

/// The number of executions in a state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StateCount {
    /// The state, as callers see it: an execution that waits in a paused lane is held.
    pub state: StateName,
    /// The number, up to the bound.
    pub count: u64,
    /// True if there may be more.
    pub may_be_more: bool,
}

/// The live executions of a class in a state.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassDepth {
    pub lane: Name,
    /// The class; none for a pool of classes.
    pub class: Option<Class>,
    /// The state as it is stored: a paused lane does not change it.
    pub state: StateName,
    /// The number, up to a bound.
    pub count: u64,
    /// True if there may be more.
    pub may_be_more: bool,
    /// The time since which the oldest waits (`waiting`), has been claimed (`active`) or was submitted (the other states). Where
    /// there may be more, an older one may be missing.
    pub oldest_at: Timestamp,
}

impl Namespace {
    /// Counts the live executions in each state, and the failed and expired ones, up to `bound`, in the order of [`StateName::ALL`].
    pub async fn count_by_state(&self, bound: u64) -> Result<Vec<StateCount>, Error> {
        let all = Filter::all(self.id());
        let indexed = BY_STATE.map(|state| {
            let filter = Filter { states: vec![state], ..all.clone() };
            async move { Ok::<_, Error>((state, self.inner().store.count(&filter, bound).await?)) }
        });
        let indexed = try_join_all(indexed).await?;
        let paused: HashSet<Name> = self.paused_lanes().await?.into_iter().collect();
        let (ranges, is_cut) = self.ranges().await?;
        let is_paused = |(lane, _): &(Name, ClassId)| paused.contains(lane);
        let (held, waiting): (Vec<_>, Vec<_>) = ranges.into_iter().partition(is_paused);
        let lanes = [waiting, held].map(|part| part.into_iter().map(|(_, range)| range).collect());
        let counts = self.inner().store.count_lanes(self.id(), &lanes, bound).await?;
        let in_paused = counts.get(1).map_or(0, |paused| paused.waiting);
        let active = counts.iter().map(|lane| lane.active).sum::<u64>();
        let waiting = counts.first().map_or(0, |lane| lane.waiting);
        let of = |state| indexed.iter().find(|(other, _)| *other == state).map(|(_, count)| *count);
        let counted = |state| match state {
            StateName::Waiting => Some((waiting, is_cut)),
            StateName::Active => Some((active, is_cut)),
            StateName::Held => of(state).map(|count| (count + in_paused, is_cut && !paused.is_empty())),
            other => of(other).map(|count| (count, false)),
        };
        let counts = StateName::ALL.into_iter().filter_map(|state| {
            let (count, is_cut) = counted(state)?;
            let (count, may_be_more) = (count.min(bound), is_cut || count >= bound);
            Some(StateCount { state, count, may_be_more })
        });
        Ok(counts.collect())
    }

    /// Counts live executions by class and state, each up to a bound that depends on the number of classes, and at most 1000.
    pub async fn depths(&self) -> Result<Vec<ClassDepth>, Error> {
        let (ranges, _) = self.ranges().await?;
        let ranges: Vec<ClassId> = ranges.into_iter().map(|(_, range)| range).collect();
        let bound = (LOOKED_AT / ranges.len().max(1)).clamp(1, LOOKED_AT_OF_CLASS) as u64;
        let depths = self.inner().store.depths(self.id(), &ranges, bound).await?;
        let classes = self.inner().registry.classes();
        let depths = depths.into_iter().filter_map(|depth| {
            Some(ClassDepth {
                // A class that another server interned is known a little later.
                lane: classes.lane_of(depth.range)?.clone(),
                class: classes.get(depth.range).cloned(),
                state: depth.state,
                count: depth.count,
                may_be_more: depth.count >= bound,
                oldest_at: depth.oldest_at,
            })
        });
        Ok(depths.collect())
    }

    /// Returns the classes and pools of all lanes, each with its lane, and whether there are more than are looked at.
    async fn ranges(&self) -> Result<(Vec<(Name, ClassId)>, bool), Error> {
        self.inner().registry.refresh_classes().await?;
        let classes = self.inner().registry.classes();
        let of_lane = |lane: Name| {
            let ranges = classes.ranges_of(self.id(), &lane);
            ranges.into_iter().map(move |range| (lane.clone(), range)).collect::<Vec<_>>()
        };
        let mut ranges: Vec<(Name, ClassId)> =
            classes.lanes(self.id()).into_iter().flat_map(of_lane).take(RANGES_MAX + 1).collect();
        let is_cut = ranges.len() > RANGES_MAX;
        ranges.truncate(RANGES_MAX);
        Ok((ranges, is_cut))
    }
}
