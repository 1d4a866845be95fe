//! Every tree of conditions of a given size, and the orders in which what they wait for may come.

use selvedge_core::Name;
use selvedge_core::submission::When;
use selvedge_core::suspension::{Condition, Distinct};

/// The names that leaves speak of.
pub const NAMES: [&str; 2] = ["a", "b"];

/// What a leaf waits for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Leaf {
    /// A signal of this name.
    Signal(&'static str),
    /// So many distinct ones of [`NAMES`].
    Count(u32, Distinct),
    /// A time.
    Until,
    /// An operator's word.
    Operator,
    /// The end of the children.
    Children,
}

/// A tree of conditions, without what it has heard.
#[derive(Clone, Debug)]
pub enum Tree {
    Leaf(Leaf),
    Any(Vec<Tree>),
    All(Vec<Tree>),
}

/// Every leaf.
pub fn all_leaves() -> Vec<Leaf> {
    let mut leaves = vec![Leaf::Signal("a"), Leaf::Signal("b"), Leaf::Until, Leaf::Operator, Leaf::Children];
    for distinct in Distinct::ALL {
        leaves.extend([1, 2].map(|n| Leaf::Count(n, distinct)));
    }
    leaves
}

/// The time that leaves wait for.
pub fn the_time() -> selvedge_core::Timestamp {
    selvedge_core::Timestamp::from_millis(1_000)
}

impl Tree {
    /// As the code has it.
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

    /// How deep `any` and `all` are nested.
    pub fn depth(&self) -> usize {
        match self {
            Tree::Leaf(_) => 0,
            Tree::Any(trees) | Tree::All(trees) => 1 + trees.iter().map(Tree::depth).max().unwrap_or(0),
        }
    }
}

/// Every tree of so many leaves, all of these in every place, nested at most `depth` deep. Where `lone` says so, an `any`
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

/// Every way to write a number as a sum, in every order.
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

/// Every order of so many.
pub fn all_orders(of: usize) -> Vec<Vec<usize>> {
    let mut orders: Vec<Vec<usize>> = vec![Vec::new()];
    for _ in 0..of {
        let next = |order: &Vec<usize>| {
            let left = (0..of).filter(|place| !order.contains(place));
            left.map(|place| longer(order, place)).collect::<Vec<_>>()
        };
        orders = orders.iter().flat_map(next).collect();
    }
    orders
}

/// Orders of so many whose beginnings are all subsets of them, each at least once.
pub fn covering_orders(of: usize) -> Vec<Vec<usize>> {
    let bits = |order: &[usize]| order.iter().fold(0_usize, |set, place| set | 1 << place);
    let mut seen = vec![false; 1 << of];
    let mut orders = Vec::new();
    let mut by_size: Vec<usize> = (0..1 << of).collect();
    by_size.sort_by_key(|set| set.count_ones().abs_diff(of as u32 / 2));
    for middle in by_size {
        if seen[middle] {
            continue;
        }
        // Taken apart and completed so that it passes through what no order has passed through yet.
        let mut order: Vec<usize> = Vec::new();
        let mut set = middle;
        while set != 0 {
            let inside = (0..of).filter(|place| set & 1 << place != 0);
            let Some(last) = inside.max_by_key(|place| !seen[set & !(1 << place)]) else { break };
            set &= !(1 << last);
            order.insert(0, last);
        }
        while order.len() < of {
            let outside = (0..of).filter(|place| !order.contains(place));
            let Some(next) = outside.max_by_key(|place| !seen[bits(&order) | 1 << place]) else { break };
            order.push(next);
        }
        for length in 0..=of {
            seen[bits(&order[..length])] = true;
        }
        orders.push(order);
    }
    assert!(seen.iter().all(|seen| *seen), "every subset is the beginning of an order");
    orders
}
