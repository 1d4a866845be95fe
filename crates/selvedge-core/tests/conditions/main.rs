//! The meaning of conditions: trees of up to five leaves, under many orders of occurrences, against a reference that
//! evaluates the set of occurrences.
//!
//! Exhaustive: for one, two and three leaves, every tree over all eleven leaves; for four and five leaves, every shape
//! over four and three leaves. Each is checked under every subset of the occurrences; in every order for one leaf, and
//! for four and five leaves, which have four and three occurrences. `any` and `all` with a single part: every tree of
//! up to two leaves, over three leaves. Sampled: the orders for two and three leaves (each subset is the prefix of at
//! least one order), and the trees whose encoding is checked.

mod checks;
mod reference;
mod trees;

use reference::{Occurrence, Tables, everything, signal};
use selvedge_core::fact::LeaseRef;
use selvedge_core::suspension::{Condition, DEPTH_MAX, Distinct, OnTimeout, Wait};
use selvedge_core::{LeaseId, Name, Suspension, Timestamp};
use trees::{Leaf, Tree, all_leaves, all_orders, covering_orders, the_time, trees};
use uuid::Uuid;

fn suspension(condition: Condition) -> Suspension {
    let [worker, instance] = ["worker", "instance"].map(Name::trusted);
    let wait =
        Wait { step: None, condition, timeout_at: None, on_timeout: OnTimeout::Fail, escalated: false };
    Suspension {
        number: 1,
        since: Timestamp::from_millis(0),
        lease: LeaseRef { id: LeaseId(Uuid::nil()), epoch: 1, worker, instance },
        waits: vec![wait],
    }
}

/// Counts how often a walk saw a condition hold and not hold.
#[derive(Debug, Default)]
struct Seen {
    held: usize,
    waited: usize,
}

/// Applies all occurrences in each order, and compares the condition with the reference after each.
fn walk(
    tree: &Tree,
    tables: &Tables<'_>,
    occurrences: &[Occurrence],
    orders: &[Vec<usize>],
    seen: &mut Seen,
) {
    let table = tables.of(tree);
    let fresh = suspension(tree.condition());
    assert_eq!(fresh.waits[0].condition.check(""), Ok(()), "{tree:?}");
    for order in orders {
        let mut suspension = fresh.clone();
        let (mut set, mut held) = (0, false);
        // The occurrences that the condition has received: all until it holds, and after that everything but signals.
        let mut received: Vec<usize> = Vec::with_capacity(order.len());
        for (position, index) in order.iter().enumerate() {
            if !held || occurrences[*index].number().is_none() {
                received.push(*index);
            }
            occurrences[*index].apply(&mut suspension);
            set |= 1 << index;
            let holds = suspension.holds();
            assert_eq!(holds, Tables::holds(table, set), "{tree:?} under {:?}", &order[..=position]);
            assert!(
                holds || !held,
                "a condition that holds keeps holding: {tree:?} under {:?}",
                &order[..=position]
            );
            if holds && (!held || position + 1 == order.len()) {
                check_taken(tree, tables, &suspension, &received);
            }
            held = holds;
            seen.held += usize::from(holds);
            seen.waited += usize::from(!holds);
        }
        let everything = suspension.clone();
        for one in occurrences {
            assert!(!one.apply(&mut suspension), "a repeated occurrence has no effect: {tree:?} {one:?}");
        }
        assert_eq!(suspension, everything, "repeated occurrences change nothing");
    }
}

/// Checks that the taken signals are those of the reference, and that they suffice.
fn check_taken(tree: &Tree, tables: &Tables<'_>, suspension: &Suspension, received: &[usize]) {
    let taken = suspension.waits[0].taken();
    let expected: Vec<u32> = tables.taken(tree, received).into_iter().collect();
    assert_eq!(taken, expected, "{tree:?} under {received:?}");
    let only = tables.only(received, &taken);
    assert!(Tables::holds(tables.of(tree), only), "{taken:?} suffice for {tree:?} under {received:?}");
}

/// Checks that the encoding round-trips after every occurrence.
fn check_encoding(tree: &Tree, occurrences: &[Occurrence]) {
    let mut suspension = suspension(tree.condition());
    for one in occurrences {
        one.apply(&mut suspension);
        let read = Suspension::decode(&suspension.encode()).expect("it can be read");
        assert_eq!(read, suspension, "{tree:?}");
    }
}

/// Walks all trees. Returns their number.
fn walk_all(trees: &[Tree], leaves: &[Leaf], occurrences: &[Occurrence], orders: &[Vec<usize>]) -> usize {
    let tables = Tables::new(leaves, occurrences);
    let mut seen = Seen::default();
    for tree in trees {
        assert!(tree.depth() <= DEPTH_MAX);
        walk(tree, &tables, occurrences, orders, &mut seen);
    }
    assert!(seen.held > 0 && seen.waited > 0, "{seen:?}");
    trees.len()
}

#[test]
fn every_leaf_holds_in_every_order_exactly_when_its_occurrence_has_come() {
    let (leaves, occurrences) = (all_leaves(), everything());
    let trees = trees(1, 0, &leaves, false);
    assert_eq!(walk_all(&trees, &leaves, &occurrences, &all_orders(occurrences.len())), 11);
}

#[test]
fn every_condition_of_two_leaves_holds_under_every_subset_exactly_when_it_should() {
    let (leaves, occurrences) = (all_leaves(), everything());
    let forwards = covering_orders(occurrences.len());
    let backwards = forwards.iter().map(|order| order.iter().rev().copied().collect());
    let orders: Vec<Vec<usize>> = forwards.iter().cloned().chain(backwards).collect();
    let trees = trees(2, DEPTH_MAX, &leaves, false);
    assert_eq!(walk_all(&trees, &leaves, &occurrences, &orders), 2 * 11 * 11);
    trees.iter().for_each(|tree| check_encoding(tree, &occurrences));
}

#[test]
fn every_condition_of_three_leaves_holds_under_every_subset_exactly_when_it_should() {
    let (leaves, occurrences) = (all_leaves(), everything());
    let trees = trees(3, DEPTH_MAX, &leaves, false);
    assert_eq!(
        walk_all(&trees, &leaves, &occurrences, &covering_orders(occurrences.len())),
        10 * 11 * 11 * 11
    );
    trees.iter().step_by(7).for_each(|tree| check_encoding(tree, &occurrences));
}

#[test]
fn every_shape_of_four_leaves_holds_in_every_order_exactly_when_it_should() {
    let leaves = [Leaf::Signal("a"), Leaf::Signal("b"), Leaf::Count(2, Distinct::Sources), Leaf::Until];
    let occurrences = [
        signal(1, "a", "ann", None),
        signal(2, "b", "ann", None),
        signal(3, "a", "bob", None),
        Occurrence::Time,
    ];
    let trees = trees(4, DEPTH_MAX, &leaves, false);
    assert_eq!(walk_all(&trees, &leaves, &occurrences, &all_orders(occurrences.len())), 62 * 4_usize.pow(4));
}

#[test]
fn every_shape_of_five_leaves_holds_in_every_order_exactly_when_it_should() {
    let leaves = [Leaf::Signal("a"), Leaf::Signal("b"), Leaf::Until];
    let occurrences = [signal(1, "a", "ann", None), signal(2, "b", "bob", None), Occurrence::Time];
    let trees = trees(5, DEPTH_MAX, &leaves, false);
    assert_eq!(walk_all(&trees, &leaves, &occurrences, &all_orders(occurrences.len())), 430 * 3_usize.pow(5));
}

#[test]
fn an_any_or_all_of_one_part_equals_that_part_at_any_depth() {
    let leaves = [Leaf::Signal("a"), Leaf::Count(2, Distinct::Signals), Leaf::Until];
    let occurrences = [signal(1, "a", "ann", None), signal(2, "b", "bob", None), Occurrence::Time];
    let orders = all_orders(occurrences.len());
    for size in 1..=2 {
        let trees = trees(size, DEPTH_MAX, &leaves, true);
        assert!(trees.iter().any(|tree| tree.depth() == DEPTH_MAX));
        walk_all(&trees, &leaves, &occurrences, &orders);
        trees.iter().step_by(5).for_each(|tree| check_encoding(tree, &occurrences));
    }
}

#[test]
fn receive_returns_true_exactly_when_a_leaf_keeps_the_signal() {
    let (leaves, occurrences) = (all_leaves(), everything());
    let tables = Tables::new(&leaves, &occurrences);
    let mut used = 0;
    for leaf in leaves.iter().copied() {
        let tree = Tree::Leaf(leaf);
        for order in all_orders(occurrences.len()) {
            let mut suspension = suspension(tree.condition());
            for length in 1..=order.len() {
                let (before, after) = (&order[..length - 1], &order[..length]);
                let mark = match occurrences[order[length - 1]] {
                    Occurrence::Signal { .. } => false,
                    Occurrence::Time => leaf == Leaf::Until,
                    Occurrence::Operator => leaf == Leaf::Operator,
                    Occurrence::Children => leaf == Leaf::Children,
                };
                let expected = mark || tables.taken(&tree, before) != tables.taken(&tree, after);
                assert_eq!(
                    occurrences[order[length - 1]].apply(&mut suspension),
                    expected,
                    "{leaf:?} under {after:?}"
                );
                used += usize::from(expected);
            }
        }
    }
    assert!(used > 0);
}

#[test]
fn a_time_has_passed_from_its_own_moment_on() {
    let mut suspension = suspension(Tree::Leaf(Leaf::Until).condition());
    assert_eq!(suspension.next_time(), Some(the_time()));
    assert!(!suspension.pass_times(Timestamp::from_micros(the_time().micros() - 1)));
    assert!(!suspension.holds());
    assert!(suspension.pass_times(the_time()));
    assert!(suspension.holds());
    assert_eq!(suspension.next_time(), None, "no time is waited for any more");
}
