//! What a condition means, written from the specification: it is evaluated freshly from the set of what has come, and
//! shares nothing with the code.

use super::trees::{Leaf, NAMES, Tree, the_time};
use selvedge_core::suspension::{Distinct, IncomingSignal};
use selvedge_core::{Name, Suspension};
use std::collections::BTreeSet;

/// Something that comes.
#[derive(Clone, Debug)]
pub enum Came {
    /// A signal.
    Signal {
        /// Its number.
        number: u32,
        /// Its name.
        name: Name,
        /// Who sent it.
        source: Name,
        /// The name of the waitpoint through which it came.
        waitpoint: Option<Name>,
    },
    /// The time.
    Time,
    /// An operator's word.
    Operator,
    /// The end of the children.
    Children,
}

/// A signal that comes.
pub fn signal(number: u32, name: &str, source: &str, waitpoint: Option<&str>) -> Came {
    let [name, source] = [name, source].map(Name::trusted);
    Came::Signal { number, name, source, waitpoint: waitpoint.map(Name::trusted) }
}

/// Everything that can come and makes a difference: two names, from two sources, alone and through waitpoints of the same
/// and of another name; and each mark.
pub fn everything() -> Vec<Came> {
    vec![
        signal(1, "a", "ann", None),
        signal(2, "b", "bob", Some("b")),
        signal(3, "a", "bob", Some("a")),
        signal(4, "other", "ann", Some("b")),
        Came::Time,
        Came::Operator,
        Came::Children,
    ]
}

impl Came {
    /// Tells a suspension; says what that answers.
    pub fn tell(&self, suspension: &mut Suspension) -> bool {
        match self {
            Came::Signal { number, name, source, waitpoint } => suspension.receive(IncomingSignal {
                number: *number,
                name,
                source,
                waitpoint: waitpoint.as_ref(),
            }),
            Came::Time => suspension.pass(the_time()),
            Came::Operator => suspension.allow(),
            Came::Children => suspension.children_ended(),
        }
    }

    /// The number of a signal.
    pub fn number(&self) -> Option<u32> {
        match self {
            Came::Signal { number, .. } => Some(*number),
            Came::Time | Came::Operator | Came::Children => None,
        }
    }
}

/// What a count tells a signal apart by, if it is one of those that it counts.
fn counted(distinct: Distinct, came: &Came) -> Option<&str> {
    let Came::Signal { name, source, waitpoint, .. } = came else { return None };
    let known = |name: &Name| NAMES.contains(&name.as_str());
    match distinct {
        Distinct::Signals => known(name).then_some(name),
        Distinct::Sources => known(name).then_some(source),
        Distinct::Waitpoints => {
            waitpoint.as_ref().filter(|through| known(through) || known(name)).map(Name::as_str)
        }
    }
}

/// Whether a leaf holds once all this has come, in whatever order.
fn leaf_holds(leaf: Leaf, came: &[&Came]) -> bool {
    match leaf {
        Leaf::Signal(wanted) => {
            came.iter().any(|one| matches!(one, Came::Signal { name, .. } if name.as_str() == wanted))
        }
        Leaf::Count(n, distinct) => {
            let counted: BTreeSet<&str> = came.iter().filter_map(|one| counted(distinct, one)).collect();
            counted.len() >= n as usize
        }
        Leaf::Until => came.iter().any(|one| matches!(one, Came::Time)),
        Leaf::Operator => came.iter().any(|one| matches!(one, Came::Operator)),
        Leaf::Children => came.iter().any(|one| matches!(one, Came::Children)),
    }
}

/// Under which subsets of what may come each leaf holds: a subset is a number whose bits are the places of what is in it.
pub struct Tables<'a> {
    came: &'a [Came],
    leaves: Vec<(Leaf, u128)>,
}

impl<'a> Tables<'a> {
    /// The tables of these leaves. At most seven things may come.
    pub fn new(leaves: &[Leaf], came: &'a [Came]) -> Self {
        assert!(came.len() <= 7, "a subset is one bit of 128");
        let table = |leaf: Leaf| {
            let subsets = 0..1_usize << came.len();
            subsets.filter(|set| leaf_holds(leaf, &chosen(came, *set))).fold(0, |table, set| table | 1 << set)
        };
        Tables { came, leaves: leaves.iter().map(|leaf| (*leaf, table(*leaf))).collect() }
    }

    /// Under which subsets a tree holds.
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

    /// Whether a tree with this table holds under a subset.
    pub fn holds(table: u128, set: usize) -> bool {
        table & 1 << set != 0
    }

    /// The subset of what was heard that has the marks, and of the signals only those that were taken.
    pub fn only(&self, heard: &[usize], taken: &[u32]) -> usize {
        let stays = |place: &&usize| {
            let number = self.came[**place].number();
            number.is_none_or(|number| taken.contains(&number))
        };
        heard.iter().filter(stays).fold(0, |set, place| set | 1 << place)
    }

    /// The signals by which a tree holds, when all this has come in this order: of an `any`, those of its first part that
    /// holds; of a count, the first of each that it tells apart.
    pub fn taken(&self, tree: &Tree, order: &[usize]) -> BTreeSet<u32> {
        let set = order.iter().fold(0, |set, place| set | 1 << place);
        let came = order.iter().map(|place| &self.came[*place]);
        match tree {
            Tree::Any(trees) => {
                let first = trees.iter().find(|tree| Self::holds(self.of(tree), set));
                first.map(|tree| self.taken(tree, order)).unwrap_or_default()
            }
            Tree::All(trees) => trees.iter().flat_map(|tree| self.taken(tree, order)).collect(),
            Tree::Leaf(Leaf::Signal(wanted)) => {
                let named =
                    |one: &&Came| matches!(one, Came::Signal { name, .. } if name.as_str() == *wanted);
                came.filter(named).filter_map(Came::number).take(1).collect()
            }
            Tree::Leaf(Leaf::Count(n, distinct)) => {
                let mut seen = BTreeSet::new();
                let first = came.filter(|one| counted(*distinct, one).is_some_and(|key| seen.insert(key)));
                first.filter_map(Came::number).take(*n as usize).collect()
            }
            Tree::Leaf(Leaf::Until | Leaf::Operator | Leaf::Children) => BTreeSet::new(),
        }
    }
}

/// What is in a subset.
fn chosen(came: &[Came], set: usize) -> Vec<&Came> {
    came.iter().enumerate().filter(|(place, _)| set & 1 << place != 0).map(|(_, one)| one).collect()
}
