//! Claim classes: the interned (namespace, lane, kind, capability set) of an execution.
//!
//! A claim looks up the classes that its worker's scope covers and reads only those index ranges. So executions that
//! the worker cannot run never stand in front of those that it can run.

use crate::{ClassId, Name, NamespaceId};
use std::collections::{BTreeSet, HashMap};

/// A claim class.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Class {
    /// The namespace.
    pub namespace: NamespaceId,
    /// The lane.
    pub lane: Name,
    /// The kind.
    pub kind: Name,
    /// The capabilities that a worker must have.
    pub capabilities: BTreeSet<Name>,
}

/// The executions that a worker declares it can run.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimScope {
    /// The namespace.
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

/// A cache of interned classes. Classes are only added, in the order of their ids.
#[derive(Clone, Debug, Default)]
pub struct Classes {
    by_id: HashMap<ClassId, Class>,
    by_class: HashMap<Class, ClassId>,
    by_lane: HashMap<(NamespaceId, Name), Vec<ClassId>>,
    newest: i32,
}

impl Classes {
    /// Adds classes that the store interned.
    pub fn add(&mut self, classes: impl IntoIterator<Item = (ClassId, Class)>) {
        for (id, class) in classes {
            if self.by_id.insert(id, class.clone()).is_none() {
                self.by_lane.entry((class.namespace, class.lane.clone())).or_default().push(id);
                self.by_class.insert(class, id);
                self.newest = self.newest.max(id.0);
            }
        }
    }

    /// Returns the newest class in the cache; zero if the cache is empty.
    pub fn newest(&self) -> ClassId {
        ClassId(self.newest)
    }

    /// Returns the class with this id.
    pub fn get(&self, id: ClassId) -> Option<&Class> {
        self.by_id.get(&id)
    }

    /// Returns the id of a class, if it is in the cache.
    pub fn find(&self, class: &Class) -> Option<ClassId> {
        self.by_class.get(class).copied()
    }

    /// Returns the classes that this scope covers, in id order.
    pub fn covered(&self, scope: &ClaimScope) -> Vec<ClassId> {
        let mut ids: Vec<ClassId> = scope
            .lanes
            .iter()
            .filter_map(|lane| self.by_lane.get(&(scope.namespace, lane.clone())))
            .flatten()
            .copied()
            .filter(|id| self.by_id.get(id).is_some_and(|class| scope.covers(class)))
            .collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Returns the classes of a namespace, in id order. `lane` and `kind` narrow them down.
    pub fn of(&self, namespace: NamespaceId, lane: Option<&str>, kind: Option<&str>) -> Vec<ClassId> {
        let mut ids: Vec<ClassId> = self
            .by_id
            .iter()
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

    #[test]
    fn a_worker_takes_a_class_only_if_it_has_all_required_capabilities() {
        let class = |lane: &str, kind: &str, capabilities: &[&str]| Class {
            namespace: NamespaceId(1),
            lane: Name::trusted(lane),
            kind: Name::trusted(kind),
            capabilities: names(capabilities),
        };
        let mut classes = Classes::default();
        classes.add([
            (ClassId(1), class("a", "k", &[])),
            (ClassId(2), class("a", "k", &["gpu"])),
            (ClassId(3), class("a", "k", &["gpu", "eu"])),
            (ClassId(4), class("b", "k", &[])),
            (ClassId(5), class("a", "other", &[])),
            (ClassId(6), Class { namespace: NamespaceId(2), ..class("a", "k", &[]) }),
        ]);
        let covered = |lanes: &[&str], kinds: Option<&[&str]>, capabilities: &[&str]| {
            classes.covered(&ClaimScope {
                namespace: NamespaceId(1),
                lanes: names(lanes).into_iter().collect(),
                kinds: kinds.map(|kinds| names(kinds).into_iter().collect()),
                capabilities: names(capabilities),
            })
        };
        assert_eq!(covered(&["a"], None, &[]), [ClassId(1), ClassId(5)]);
        assert_eq!(covered(&["a"], Some(&["k"]), &["gpu"]), [ClassId(1), ClassId(2)]);
        assert_eq!(covered(&["a", "b"], Some(&["k"]), &["gpu", "eu", "x"]), [1, 2, 3, 4].map(ClassId));
        assert_eq!(covered(&["c"], None, &[]), []);
    }
}
