//! A reference for conditions, written from the specification: it evaluates the set of occurrences from scratch and
//! shares no code with the implementation.

use super::trees::{Leaf, NAMES, Tree, the_time};
use selvedge_core::suspension::{Distinct, IncomingSignal};
use selvedge_core::{Name, Suspension};
use std::collections::BTreeSet;

/// Something that a condition may wait for.
#[derive(Clone, Debug)]
pub enum Occurrence {
    /// A signal.
    Signal {
        /// The signal's number.
        number: u32,
        /// The signal's name.
        name: Name,
        /// The sender.
        source: Name,
        /// The name of the waitpoint through which it is delivered.
        waitpoint: Option<Name>,
    },
    /// The time.
    Time,
    /// The resumption by an operator.
    Operator,
    /// The end of the children.
    Children,
}

/// Returns a signal.
pub fn signal(number: u32, name: &str, source: &str, waitpoint: Option<&str>) -> Occurrence {
    let [name, source] = [name, source].map(Name::trusted);
    Occurrence::Signal { number, name, source, waitpoint: waitpoint.map(Name::trusted) }
}

/// Returns every occurrence that makes a difference: signals of two names from two sources, sent directly and through
/// waitpoints of the same and of another name; and the time, the operator and the children.
pub fn everything() -> Vec<Occurrence> {
    vec![
        signal(1, "a", "ann", None),
        signal(2, "b", "bob", Some("b")),
        signal(3, "a", "bob", Some("a")),
        signal(4, "other", "ann", Some("b")),
        Occurrence::Time,
        Occurrence::Operator,
        Occurrence::Children,
    ]
}

impl Occurrence {
    /// Applies the occurrence to a suspension. Returns true if the suspension was waiting for it.
    pub fn apply(&self, suspension: &mut Suspension) -> bool {
        match self {
            Occurrence::Signal { number, name, source, waitpoint } => suspension.receive(IncomingSignal {
                number: *number,
                name,
                source,
                waitpoint: waitpoint.as_ref(),
            }),
            Occurrence::Time => suspension.pass_times(the_time()),
            Occurrence::Operator => suspension.resume_by_operator(),
            Occurrence::Children => suspension.children_ended(),
        }
    }

    /// Returns the number of a signal.
    pub fn number(&self) -> Option<u32> {
        match self {
            Occurrence::Signal { number, .. } => Some(*number),
            Occurrence::Time | Occurrence::Operator | Occurrence::Children => None,
        }
    }
}

/// Returns the value by which a count distinguishes a signal, if the signal counts.
fn counted(distinct: Distinct, occurrences: &Occurrence) -> Option<&str> {
    let Occurrence::Signal { name, source, waitpoint, .. } = occurrences else { return None };
    let known = |name: &Name| NAMES.contains(&name.as_str());
    match distinct {
        Distinct::Signals => known(name).then_some(name),
        Distinct::Sources => known(name).then_some(source),
        Distinct::Waitpoints => {
            waitpoint.as_ref().filter(|through| known(through) || known(name)).map(Name::as_str)
        }
    }
}

/// Reports whether a leaf holds after all these occurrences, in whatever order.
fn leaf_holds(leaf: Leaf, occurrences: &[&Occurrence]) -> bool {
    match leaf {
        Leaf::Signal(wanted) => occurrences
            .iter()
            .any(|one| matches!(one, Occurrence::Signal { name, .. } if name.as_str() == wanted)),
        Leaf::Count(n, distinct) => {
            let counted: BTreeSet<&str> =
                occurrences.iter().filter_map(|one| counted(distinct, one)).collect();
            counted.len() >= n as usize
        }
        Leaf::Until => occurrences.iter().any(|one| matches!(one, Occurrence::Time)),
        Leaf::Operator => occurrences.iter().any(|one| matches!(one, Occurrence::Operator)),
        Leaf::Children => occurrences.iter().any(|one| matches!(one, Occurrence::Children)),
    }
}

/// The subsets of the occurrences under which each leaf holds. A subset is a number whose bits are the indices of its
/// members.
pub struct Tables<'a> {
    occurrences: &'a [Occurrence],
    leaves: Vec<(Leaf, u128)>,
}

impl<'a> Tables<'a> {
    /// Creates the tables of these leaves. There may be at most seven occurrences.
    pub fn new(leaves: &[Leaf], occurrences: &'a [Occurrence]) -> Self {
        assert!(occurrences.len() <= 7, "a subset is one bit of 128");
        let table = |leaf: Leaf| {
            let subsets = 0..1_usize << occurrences.len();
            subsets
                .filter(|set| leaf_holds(leaf, &chosen(occurrences, *set)))
                .fold(0, |table, set| table | 1 << set)
        };
        Tables { occurrences, leaves: leaves.iter().map(|leaf| (*leaf, table(*leaf))).collect() }
    }

    /// Returns the subsets under which a tree holds.
    pub fn of(&self, tree: &Tree) -> u128 {
        match tree {
            Tree::Any(trees) => trees.iter().fold(0, |table, tree| table | self.of(tree)),
            Tree::All(trees) => trees.iter().fold(u128::MAX, |table, tree| table & self.of(tree)),
            Tree::Leaf(leaf) => {
                let known = self.leaves.iter().find(|(known, _)| known == leaf);
                known.expect("the leaf has a table").1
            }
        }
    }

    /// Reports whether a tree with this table holds under a subset.
    pub fn holds(table: u128, set: usize) -> bool {
        table & 1 << set != 0
    }

    /// Returns the subset of the received occurrences without the signals that were not taken.
    pub fn only(&self, received: &[usize], taken: &[u32]) -> usize {
        let stays = |index: &&usize| {
            let number = self.occurrences[**index].number();
            number.is_none_or(|number| taken.contains(&number))
        };
        received.iter().filter(stays).fold(0, |set, index| set | 1 << index)
    }

    /// Returns the signals that make a tree hold under this order of occurrences: of an `any`, those of its first part
    /// that holds; of a count, the first of each distinct value.
    pub fn taken(&self, tree: &Tree, order: &[usize]) -> BTreeSet<u32> {
        let set = order.iter().fold(0, |set, index| set | 1 << index);
        let occurrences = order.iter().map(|index| &self.occurrences[*index]);
        match tree {
            Tree::Any(trees) => {
                let first = trees.iter().find(|tree| Self::holds(self.of(tree), set));
                first.map(|tree| self.taken(tree, order)).unwrap_or_default()
            }
            Tree::All(trees) => trees.iter().flat_map(|tree| self.taken(tree, order)).collect(),
            Tree::Leaf(Leaf::Signal(wanted)) => {
                let named = |one: &&Occurrence| matches!(one, Occurrence::Signal { name, .. } if name.as_str() == *wanted);
                occurrences.filter(named).filter_map(Occurrence::number).take(1).collect()
            }
            Tree::Leaf(Leaf::Count(n, distinct)) => {
                let mut seen = BTreeSet::new();
                let first =
                    occurrences.filter(|one| counted(*distinct, one).is_some_and(|key| seen.insert(key)));
                first.filter_map(Occurrence::number).take(*n as usize).collect()
            }
            Tree::Leaf(Leaf::Until | Leaf::Operator | Leaf::Children) => BTreeSet::new(),
        }
    }
}

/// Returns the members of a subset.
fn chosen(occurrences: &[Occurrence], set: usize) -> Vec<&Occurrence> {
    occurrences.iter().enumerate().filter(|(index, _)| set & 1 << index != 0).map(|(_, one)| one).collect()
}
