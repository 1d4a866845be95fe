//! Claim classes: the interned (namespace, lane, kind, capability set) of an execution.
//!
//! A claim looks up the classes that its worker's scope covers and reads only those index ranges. So executions that
//! the worker cannot run never stand in front of those that it can run.
//!
//! A claim of any kind searches all classes of its lanes, which may be many thousands. So only the first
//! [`UNPOOLED`] classes of a lane and capability set are searched one by one. Every later one belongs to a *pool*: its
//! waiting executions are found through an index by pool as well, so that such a claim searches them as one range. A
//! claim that names kinds searches each class of these kinds. The id of a pool is a negative number where a class is
//! expected: minus the id of the first class in it.

use crate::{ClassId, Name, NamespaceId};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// The number of classes of a lane and capability set that belong to no pool.
pub const UNPOOLED: usize = 32;
/// A process may use the id of a class for this time after it interned the class. Then it interns the class again, which
/// records that the class is in use. In milliseconds.
pub const USED_EVERY_MS: i64 = 3_600_000;
/// A class that no execution refers to is removed after this time without use, in milliseconds: 7 days.
pub const UNUSED_MS: i64 = 7 * 24 * 3_600_000;

/// A claim class.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Class {
    pub namespace: NamespaceId,
    pub lane: Name,
    pub kind: Name,
    /// The capabilities that a worker must have.
    pub capabilities: BTreeSet<Name>,
    /// The pool of the class; none if claims search the class by itself. The store decides it when it interns the class
    /// for the first time. It is not part of the identity of a class.
    pub pool: Option<ClassId>,
}

impl Class {
    /// Returns the class as callers ask for it: without its pool.
    fn identity(&self) -> Class {
        Class { pool: None, ..self.clone() }
    }
}

/// The executions that a worker declares it can run.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimScope {
    pub namespace: NamespaceId,
    /// The lanes to claim from.
    pub lanes: Vec<Name>,
    /// The kinds to claim; none means all kinds.
    pub kinds: Option<Vec<Name>>,
    /// The worker's capabilities.
    pub capabilities: BTreeSet<Name>,
}

impl ClaimScope {
    /// Reports whether a worker with this scope may run executions of `class`.
    pub fn covers(&self, class: &Class) -> bool {
        self.namespace == class.namespace
            && self.lanes.contains(&class.lane)
            && self.kinds.as_ref().is_none_or(|kinds| kinds.contains(&class.kind))
            && class.capabilities.is_subset(&self.capabilities)
    }
}

/// A cache of interned classes. Classes are only added; a process forgets removed ones by building a new cache.
///
/// A copy is cheap however many classes there are: most of them are in a table that copies share.
#[derive(Clone, Debug, Default)]
pub struct Classes {
    settled: Arc<Table>,
    /// The newest classes, at most [`RECENT`].
    recent: Table,
    newest: i32,
}

/// The number of new classes that are copied with a [`Classes`].
const RECENT: usize = 256;

#[derive(Clone, Debug, Default)]
struct Table {
    by_id: HashMap<ClassId, Class>,
    by_class: HashMap<Class, ClassId>,
    by_lane: HashMap<(NamespaceId, Name), Lane>,
    lane_of_pool: HashMap<ClassId, Name>,
}

/// The classes of a lane.
#[derive(Clone, Debug, Default)]
struct Lane {
    /// The classes that belong to no pool.
    unpooled: Vec<ClassId>,
    /// The pools, with the capabilities that their classes share.
    pools: BTreeMap<ClassId, BTreeSet<Name>>,
    /// All classes, by kind.
    by_kind: HashMap<Name, Vec<ClassId>>,
}

impl Table {
    fn add(&mut self, id: ClassId, class: Class) {
        let lane = self.by_lane.entry((class.namespace, class.lane.clone())).or_default();
        lane.by_kind.entry(class.kind.clone()).or_default().push(id);
        match class.pool {
            None => lane.unpooled.push(id),
            Some(pool) => {
                lane.pools.entry(pool).or_insert_with(|| class.capabilities.clone());
                self.lane_of_pool.entry(pool).or_insert_with(|| class.lane.clone());
            }
        }
        self.by_class.insert(class.identity(), id);
        self.by_id.insert(id, class);
    }

    /// Adds the ranges that a scope covers: classes, and pools where it covers all kinds.
    fn add_covered(&self, scope: &ClaimScope, ids: &mut Vec<ClassId>) {
        let lanes = scope.lanes.iter();
        for lane in lanes.filter_map(|lane| self.by_lane.get(&(scope.namespace, lane.clone()))) {
            let covers = |id: &ClassId| self.by_id.get(id).is_some_and(|class| scope.covers(class));
            match &scope.kinds {
                Some(kinds) => {
                    let of_kind = kinds.iter().filter_map(|kind| lane.by_kind.get(kind)).flatten();
                    ids.extend(of_kind.copied().filter(covers));
                }
                None => {
                    ids.extend(lane.unpooled.iter().copied().filter(covers));
                    let pools = lane.pools.iter();
                    let pools = pools.filter(|(_, required)| required.is_subset(&scope.capabilities));
                    ids.extend(pools.map(|(pool, _)| *pool));
                }
            }
        }
    }
}

impl Classes {
    /// Adds classes that the store interned.
    pub fn add(&mut self, classes: impl IntoIterator<Item = (ClassId, Class)>) {
        for (id, class) in classes {
            if self.get(id).is_none() {
                self.recent.add(id, class);
                self.newest = self.newest.max(id.0);
            }
        }
        if self.recent.by_id.len() > RECENT {
            let settled = Arc::make_mut(&mut self.settled);
            let mut recent: Vec<_> = std::mem::take(&mut self.recent).by_id.into_iter().collect();
            recent.sort_unstable_by_key(|(id, _)| *id);
            recent.into_iter().for_each(|(id, class)| settled.add(id, class));
        }
    }

    fn tables(&self) -> [&Table; 2] {
        [&self.recent, &self.settled]
    }

    /// Returns the number of classes.
    pub fn len(&self) -> usize {
        self.tables().iter().map(|table| table.by_id.len()).sum()
    }

    /// Reports whether there are no classes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the newest class in the cache; zero if the cache is empty.
    pub fn newest(&self) -> ClassId {
        ClassId(self.newest)
    }

    /// Returns the class with this id.
    pub fn get(&self, id: ClassId) -> Option<&Class> {
        self.tables().into_iter().find_map(|table| table.by_id.get(&id))
    }

    /// Returns the id of a class, if it is in the cache.
    pub fn find(&self, class: &Class) -> Option<ClassId> {
        let of =
            |class: &Class| self.tables().into_iter().find_map(|table| table.by_class.get(class)).copied();
        if class.pool.is_none() { of(class) } else { of(&class.identity()) }
    }

    /// Returns the classes with ids greater than `after`.
    pub fn after(&self, after: ClassId) -> Vec<(ClassId, Class)> {
        let all = self.tables().into_iter().flat_map(|table| table.by_id.iter());
        all.filter(|(id, _)| **id > after).map(|(id, class)| (*id, class.clone())).collect()
    }

    /// Returns the pool of a class, if it has one.
    pub fn pool_of(&self, id: ClassId) -> Option<ClassId> {
        self.get(id)?.pool
    }

    /// Returns the lane of a class or pool.
    pub fn lane_of(&self, id: ClassId) -> Option<&Name> {
        let of_pool = || self.tables().into_iter().find_map(|table| table.lane_of_pool.get(&id));
        self.get(id).map(|class| &class.lane).or_else(of_pool)
    }

    /// Returns the classes that this scope covers, in id order. Where it covers all kinds, the pool stands for its
    /// classes.
    pub fn covered(&self, scope: &ClaimScope) -> Vec<ClassId> {
        let mut ids = Vec::new();
        self.tables().iter().for_each(|table| table.add_covered(scope, &mut ids));
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Returns the classes of a lane that belong to no pool, and its pools: together they have all its executions once.
    pub fn ranges_of(&self, namespace: NamespaceId, lane: &Name) -> Vec<ClassId> {
        let key = (namespace, lane.clone());
        let lanes = self.tables().into_iter().filter_map(|table| table.by_lane.get(&key));
        let mut ids: Vec<ClassId> =
            lanes.flat_map(|lane| lane.unpooled.iter().chain(lane.pools.keys())).copied().collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    pub fn lanes(&self, namespace: NamespaceId) -> BTreeSet<Name> {
        let lanes = self.tables().into_iter().flat_map(|table| table.by_lane.keys());
        lanes.filter(|(of, _)| *of == namespace).map(|(_, lane)| lane.clone()).collect()
    }

    /// Returns the classes of a namespace, in id order. `lane` and `kind` narrow them down.
    pub fn of(&self, namespace: NamespaceId, lane: Option<&str>, kind: Option<&str>) -> Vec<ClassId> {
        let all = self.tables().into_iter().flat_map(|table| table.by_id.iter());
        let mut ids: Vec<ClassId> = all
            .filter(|(_, class)| {
                class.namespace == namespace
                    && lane.is_none_or(|lane| class.lane.as_str() == lane)
                    && kind.is_none_or(|kind| class.kind.as_str() == kind)
            })
            .map(|(id, _)| *id)
            .collect();
        ids.sort_unstable();
        ids
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(words: &[&str]) -> BTreeSet<Name> {
        words.iter().map(|word| Name::trusted(word)).collect()
    }

    fn class(lane: &str, kind: &str, capabilities: &[&str]) -> Class {
        Class {
            namespace: NamespaceId(1),
            lane: Name::trusted(lane),
            kind: Name::trusted(kind),
            capabilities: names(capabilities),
            pool: None,
        }
    }

    fn covered(classes: &Classes, lanes: &[&str], kinds: Option<&[&str]>, own: &[&str]) -> Vec<ClassId> {
        classes.covered(&ClaimScope {
            namespace: NamespaceId(1),
            lanes: names(lanes).into_iter().collect(),
            kinds: kinds.map(|kinds| names(kinds).into_iter().collect()),
            capabilities: names(own),
        })
    }

    #[test]
    fn a_worker_takes_a_class_only_if_it_has_all_required_capabilities() {
        let mut classes = Classes::default();
        classes.add([
            (ClassId(1), class("a", "k", &[])),
            (ClassId(2), class("a", "k", &["gpu"])),
            (ClassId(3), class("a", "k", &["gpu", "eu"])),
            (ClassId(4), class("b", "k", &[])),
            (ClassId(5), class("a", "other", &[])),
            (ClassId(6), Class { namespace: NamespaceId(2), ..class("a", "k", &[]) }),
        ]);
        assert_eq!(covered(&classes, &["a"], None, &[]), [ClassId(1), ClassId(5)]);
        assert_eq!(covered(&classes, &["a"], Some(&["k"]), &["gpu"]), [ClassId(1), ClassId(2)]);
        assert_eq!(
            covered(&classes, &["a", "b"], Some(&["k"]), &["gpu", "eu", "x"]),
            [1, 2, 3, 4].map(ClassId)
        );
        assert_eq!(covered(&classes, &["c"], None, &[]), []);
    }

    #[test]
    fn a_claim_of_any_kind_searches_pools_and_a_claim_of_kinds_their_classes() {
        let mut classes = Classes::default();
        classes.add([(ClassId(1), class("a", "first", &[]))]);
        for id in 2..1000 {
            let gpu: &[&str] = if id % 2 == 0 { &["gpu"] } else { &[] };
            let pool = Some(ClassId(if id % 2 == 0 { -2 } else { -3 }));
            classes.add([(ClassId(id), Class { pool, ..class("a", &format!("kind {id}"), gpu) })]);
        }
        assert_eq!(classes.len(), 999);
        assert_eq!(covered(&classes, &["a"], None, &[]), [-3, 1].map(ClassId));
        assert_eq!(covered(&classes, &["a"], None, &["gpu"]), [-3, -2, 1].map(ClassId));
        assert_eq!(covered(&classes, &["a"], Some(&["kind 7", "kind 8"]), &[]), [ClassId(7)]);
        assert_eq!(classes.ranges_of(NamespaceId(1), &Name::trusted("a")), [-3, -2, 1].map(ClassId));
        assert_eq!(classes.find(&class("a", "kind 9", &[])), Some(ClassId(9)), "whatever its pool");
        assert_eq!(classes.lane_of(ClassId(-3)), Some(&Name::trusted("a")));
    }
}
