//! All condition trees of a given size, and orders of occurrences.

use selvedge_core::Name;
use selvedge_core::submission::When;
use selvedge_core::suspension::{Condition, Distinct};

/// The names of signals and waitpoints in leaves.
pub const NAMES: [&str; 2] = ["a", "b"];

/// A leaf of a condition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Leaf {
    /// Waits for a signal of this name.
    Signal(&'static str),
    /// Waits for this many distinct signals of [`NAMES`].
    Count(u32, Distinct),
    /// Waits for a time.
    Until,
    /// Waits for an operator.
    Operator,
    /// Waits for the end of the children.
    Children,
}

/// A condition without its fulfilment.
#[derive(Clone, Debug)]
pub enum Tree {
    Leaf(Leaf),
    Any(Vec<Tree>),
    All(Vec<Tree>),
}

/// Returns every leaf.
pub fn all_leaves() -> Vec<Leaf> {
    let mut leaves = vec![Leaf::Signal("a"), Leaf::Signal("b"), Leaf::Until, Leaf::Operator, Leaf::Children];
    for distinct in Distinct::ALL {
        leaves.extend([1, 2].map(|n| Leaf::Count(n, distinct)));
    }
    leaves
}

/// Returns the time that leaves wait for.
pub fn the_time() -> selvedge_core::Timestamp {
    selvedge_core::Timestamp::from_millis(1_000)
}

impl Tree {
    /// Returns the condition of the tree.
    pub fn condition(&self) -> Condition {
        let all = |trees: &[Tree]| trees.iter().map(Tree::condition).collect();
        match self {
            Tree::Any(trees) => Condition::Any(all(trees)),
            Tree::All(trees) => Condition::All(all(trees)),
            Tree::Leaf(Leaf::Signal(name)) => Condition::signal(Name::trusted(name)),
            Tree::Leaf(Leaf::Count(n, distinct)) => {
                Condition::count(*n, NAMES.map(Name::trusted).to_vec(), *distinct)
            }
            Tree::Leaf(Leaf::Until) => Condition::until(When::At(the_time())),
            Tree::Leaf(Leaf::Operator) => Condition::operator(),
            Tree::Leaf(Leaf::Children) => Condition::children(),
        }
    }

    /// Returns the nesting depth of `any` and `all`.
    pub fn depth(&self) -> usize {
        match self {
            Tree::Leaf(_) => 0,
            Tree::Any(trees) | Tree::All(trees) => 1 + trees.iter().map(Tree::depth).max().unwrap_or(0),
        }
    }
}

/// Returns every tree with this many leaves, each of them any of `of`, nested at most `depth` deep. If `lone`, an `any`
/// or `all` may have a single part.
pub fn trees(leaves: usize, depth: usize, of: &[Leaf], lone: bool) -> Vec<Tree> {
    let mut found = Vec::new();
    if leaves == 1 {
        found.extend(of.iter().map(|leaf| Tree::Leaf(*leaf)));
    }
    if depth == 0 {
        return found;
    }
    let fewest = if lone { 1 } else { 2 };
    for sizes in splits(leaves).into_iter().filter(|sizes| sizes.len() >= fewest) {
        let mut rows: Vec<Vec<Tree>> = vec![Vec::new()];
        for size in sizes {
            let next = trees(size, depth - 1, of, lone);
            rows = rows.iter().flat_map(|row| next.iter().map(|tree| longer(row, tree.clone()))).collect();
        }
        found.extend(rows.iter().cloned().map(Tree::Any));
        found.extend(rows.into_iter().map(Tree::All));
    }
    found
}

/// Returns every ordered sum of positive numbers that gives `number`.
fn splits(number: usize) -> Vec<Vec<usize>> {
    let mut found = Vec::new();
    for first in 1..number {
        let rest = splits(number - first).into_iter();
        found.extend(rest.map(|rest| [&[first], &rest[..]].concat()));
    }
    found.push(vec![number]);
    found
}

fn longer<T: Clone>(row: &[T], next: T) -> Vec<T> {
    let mut row = row.to_vec();
    row.push(next);
    row
}

/// Returns every order of this many indices.
pub fn all_orders(of: usize) -> Vec<Vec<usize>> {
    let mut orders: Vec<Vec<usize>> = vec![Vec::new()];
    for _ in 0..of {
        let next = |order: &Vec<usize>| {
            let left = (0..of).filter(|index| !order.contains(index));
            left.map(|index| longer(order, index)).collect::<Vec<_>>()
        };
        orders = orders.iter().flat_map(next).collect();
    }
    orders
}

/// Returns orders of this many indices whose prefixes cover all subsets.
pub fn covering_orders(of: usize) -> Vec<Vec<usize>> {
    let bits = |order: &[usize]| order.iter().fold(0_usize, |set, index| set | 1 << index);
    let mut seen = vec![false; 1 << of];
    let mut orders = Vec::new();
    let mut by_size: Vec<usize> = (0..1 << of).collect();
    by_size.sort_by_key(|set| set.count_ones().abs_diff(of as u32 / 2));
    for middle in by_size {
        if seen[middle] {
            continue;
        }
        // Prefer prefixes that no earlier order covers.
        let mut order: Vec<usize> = Vec::new();
        let mut set = middle;
        while set != 0 {
            let inside = (0..of).filter(|index| set & 1 << index != 0);
            let Some(last) = inside.max_by_key(|index| !seen[set & !(1 << index)]) else { break };
            set &= !(1 << last);
            order.insert(0, last);
        }
        while order.len() < of {
            let outside = (0..of).filter(|index| !order.contains(index));
            let Some(next) = outside.max_by_key(|index| !seen[bits(&order) | 1 << index]) else { break };
            order.push(next);
        }
        for length in 0..=of {
            seen[bits(&order[..length])] = true;
        }
        orders.push(order);
    }
    assert!(seen.iter().all(|seen| *seen), "every subset is the prefix of an order");
    orders
}
