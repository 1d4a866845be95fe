//! What a condition means: trees of up to five leaves, under what may come in many orders, against a reference that looks at
//! the set of what has come.
//!
//! Exhaustive: of one, two and three leaves, every tree over all eleven leaves; of four and five leaves, every shape with
//! every placing of four and of three of them. Each under every subset of what may come; in every order for one leaf, and
//! for four and five leaves, where four and three things may come. `any` and `all` of a single part: every tree of up to
//! two leaves, over three of them. Sampled: the orders in which a subset comes to two and three leaves (each subset is the
//! beginning of at least one), and the trees whose bytes are read back.

mod checks;
mod reference;
mod trees;

use reference::{Came, Tables, everything, signal};
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

/// How often a walk saw that a condition held, and that it did not.
#[derive(Debug, Default)]
struct Seen {
    held: usize,
    waited: usize,
}

/// Lets everything come in each order, and holds the condition to the reference after each arrival.
fn walk(tree: &Tree, tables: &Tables<'_>, came: &[Came], orders: &[Vec<usize>], seen: &mut Seen) {
    let table = tables.of(tree);
    let fresh = suspension(tree.condition());
    assert_eq!(fresh.waits[0].condition.check(""), Ok(()), "{tree:?}");
    for order in orders {
        let mut suspension = fresh.clone();
        let (mut set, mut held) = (0, false);
        // What it has heard: everything until it holds, and after that only marks.
        let mut heard: Vec<usize> = Vec::with_capacity(order.len());
        for (index, place) in order.iter().enumerate() {
            if !held || came[*place].number().is_none() {
                heard.push(*place);
            }
            came[*place].tell(&mut suspension);
            set |= 1 << place;
            let holds = suspension.holds();
            assert_eq!(holds, Tables::holds(table, set), "{tree:?} under {:?}", &order[..=index]);
            assert!(holds || !held, "what holds goes on to hold: {tree:?} under {:?}", &order[..=index]);
            if holds && (!held || index + 1 == order.len()) {
                check_taken(tree, tables, &suspension, &heard);
            }
            held = holds;
            seen.held += usize::from(holds);
            seen.waited += usize::from(!holds);
        }
        let everything = suspension.clone();
        for one in came {
            assert!(!one.tell(&mut suspension), "the same again is no news: {tree:?} {one:?}");
        }
        assert_eq!(suspension, everything, "the same again changes nothing");
    }
}

/// The signals by which a condition holds are those that the reference names, and they are enough.
fn check_taken(tree: &Tree, tables: &Tables<'_>, suspension: &Suspension, heard: &[usize]) {
    let taken = suspension.waits[0].taken();
    let expected: Vec<u32> = tables.taken(tree, heard).into_iter().collect();
    assert_eq!(taken, expected, "{tree:?} under {heard:?}");
    let only = tables.only(heard, &taken);
    assert!(Tables::holds(tables.of(tree), only), "{taken:?} are enough for {tree:?} under {heard:?}");
}

/// Its bytes are read back as what was written: as it was asked for, and whatever it has heard.
fn survives_its_bytes(tree: &Tree, came: &[Came]) {
    let mut suspension = suspension(tree.condition());
    for one in came {
        one.tell(&mut suspension);
        let read = Suspension::decode(&suspension.encode()).expect("it can be read");
        assert_eq!(read, suspension, "{tree:?}");
    }
}

/// Walks all of these trees; gives how many there were.
fn walk_all(trees: &[Tree], leaves: &[Leaf], came: &[Came], orders: &[Vec<usize>]) -> usize {
    let tables = Tables::new(leaves, came);
    let mut seen = Seen::default();
    for tree in trees {
        assert!(tree.depth() <= DEPTH_MAX);
        walk(tree, &tables, came, orders, &mut seen);
    }
    assert!(seen.held > 0 && seen.waited > 0, "{seen:?}");
    trees.len()
}

#[test]
fn every_leaf_holds_in_every_order_exactly_when_what_it_waits_for_has_come() {
    let (leaves, came) = (all_leaves(), everything());
    let trees = trees(1, 0, &leaves, false);
    assert_eq!(walk_all(&trees, &leaves, &came, &all_orders(came.len())), 11);
}

#[test]
fn every_condition_of_two_leaves_holds_under_every_subset_exactly_when_it_should() {
    let (leaves, came) = (all_leaves(), everything());
    let forwards = covering_orders(came.len());
    let backwards = forwards.iter().map(|order| order.iter().rev().copied().collect());
    let orders: Vec<Vec<usize>> = forwards.iter().cloned().chain(backwards).collect();
    let trees = trees(2, DEPTH_MAX, &leaves, false);
    assert_eq!(walk_all(&trees, &leaves, &came, &orders), 2 * 11 * 11);
    trees.iter().for_each(|tree| survives_its_bytes(tree, &came));
}

#[test]
fn every_condition_of_three_leaves_holds_under_every_subset_exactly_when_it_should() {
    let (leaves, came) = (all_leaves(), everything());
    let trees = trees(3, DEPTH_MAX, &leaves, false);
    assert_eq!(walk_all(&trees, &leaves, &came, &covering_orders(came.len())), 10 * 11 * 11 * 11);
    trees.iter().step_by(7).for_each(|tree| survives_its_bytes(tree, &came));
}

#[test]
fn every_shape_of_four_leaves_holds_in_every_order_exactly_when_it_should() {
    let leaves = [Leaf::Signal("a"), Leaf::Signal("b"), Leaf::Count(2, Distinct::Sources), Leaf::Until];
    let came =
        [signal(1, "a", "ann", None), signal(2, "b", "ann", None), signal(3, "a", "bob", None), Came::Time];
    let trees = trees(4, DEPTH_MAX, &leaves, false);
    assert_eq!(walk_all(&trees, &leaves, &came, &all_orders(came.len())), 62 * 4_usize.pow(4));
}

#[test]
fn every_shape_of_five_leaves_holds_in_every_order_exactly_when_it_should() {
    let leaves = [Leaf::Signal("a"), Leaf::Signal("b"), Leaf::Until];
    let came = [signal(1, "a", "ann", None), signal(2, "b", "bob", None), Came::Time];
    let trees = trees(5, DEPTH_MAX, &leaves, false);
    assert_eq!(walk_all(&trees, &leaves, &came, &all_orders(came.len())), 430 * 3_usize.pow(5));
}

#[test]
fn an_any_or_all_of_one_part_is_that_part_however_deep() {
    let leaves = [Leaf::Signal("a"), Leaf::Count(2, Distinct::Signals), Leaf::Until];
    let came = [signal(1, "a", "ann", None), signal(2, "b", "bob", None), Came::Time];
    let orders = all_orders(came.len());
    for size in 1..=2 {
        let trees = trees(size, DEPTH_MAX, &leaves, true);
        assert!(trees.iter().any(|tree| tree.depth() == DEPTH_MAX));
        walk_all(&trees, &leaves, &came, &orders);
        trees.iter().step_by(5).for_each(|tree| survives_its_bytes(tree, &came));
    }
}

#[test]
fn a_leaf_says_that_it_had_waited_for_a_signal_exactly_when_it_keeps_it() {
    let (leaves, came) = (all_leaves(), everything());
    let tables = Tables::new(&leaves, &came);
    let mut used = 0;
    for leaf in leaves.iter().copied() {
        let tree = Tree::Leaf(leaf);
        for order in all_orders(came.len()) {
            let mut suspension = suspension(tree.condition());
            for length in 1..=order.len() {
                let (before, after) = (&order[..length - 1], &order[..length]);
                let mark = match came[order[length - 1]] {
                    Came::Signal { .. } => false,
                    Came::Time => leaf == Leaf::Until,
                    Came::Operator => leaf == Leaf::Operator,
                    Came::Children => leaf == Leaf::Children,
                };
                let expected = mark || tables.taken(&tree, before) != tables.taken(&tree, after);
                assert_eq!(
                    came[order[length - 1]].tell(&mut suspension),
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
fn a_time_has_come_from_its_moment_on_and_not_before() {
    let mut suspension = suspension(Tree::Leaf(Leaf::Until).condition());
    assert_eq!(suspension.next_time(), Some(the_time()));
    assert!(!suspension.pass(Timestamp::from_micros(the_time().micros() - 1)));
    assert!(!suspension.holds());
    assert!(suspension.pass(the_time()));
    assert!(suspension.holds());
    assert_eq!(suspension.next_time(), None, "it is waited for no more");
}
