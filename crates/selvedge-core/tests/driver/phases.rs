//! The order in which a transaction decides its rules, and the time of the transaction.

use super::rules::{BoxedTask, InPhase, PHASES, TestRule, claim, report, task};
use super::table::{Table, active, id, run};
use selvedge_core::driver::{Alone, Driver};
use selvedge_core::rule::Phase;
use selvedge_core::rules::report::Op;
use selvedge_core::state::StateName;
use std::sync::{Arc, Mutex, PoisonError};

/// The decided rules, in order: their phase, and their index in the batch.
type Decided = Arc<Mutex<Vec<(Phase, usize)>>>;

/// Creates a rule of a phase, given its index in the batch.
type Create = fn(usize, &Decided) -> BoxedTask;

/// Returns a rule of the phase at this index that notes when it is decided.
fn noting<const PHASE: usize>(batch_index: usize, decided: &Decided) -> BoxedTask {
    let decided = decided.clone();
    task(InPhase::<PHASE>(TestRule::asking(|_, _| {}).deciding(move |_| {
        decided.lock().unwrap_or_else(PoisonError::into_inner).push((PHASES[PHASE], batch_index));
    })))
}

#[test]
fn rules_are_decided_in_the_order_of_their_phases_whatever_the_order_of_the_batch() {
    let create: [Create; 12] = [
        noting::<0>,
        noting::<1>,
        noting::<2>,
        noting::<3>,
        noting::<4>,
        noting::<5>,
        noting::<6>,
        noting::<7>,
        noting::<8>,
        noting::<9>,
        noting::<10>,
        noting::<11>,
    ];
    assert!(PHASES.is_sorted());
    let batches: [Vec<usize>; 3] = [
        (0..PHASES.len()).collect(),
        (0..PHASES.len()).rev().collect(),
        // Each twice, shuffled.
        (0..2 * PHASES.len()).map(|index| (index * 7 + 5) % PHASES.len()).collect(),
    ];
    for batch in batches {
        let decided = Decided::default();
        let tasks = batch.iter().enumerate().map(|(index, phase)| create[*phase](index, &decided));
        let run = run(&mut Driver::new(Alone::default(), tasks.collect()), &Table::default());
        assert!(run.changes().is_empty());
        let decided = decided.lock().unwrap_or_else(PoisonError::into_inner);
        let mut expected: Vec<(Phase, usize)> =
            batch.iter().enumerate().map(|(index, phase)| (PHASES[*phase], index)).collect();
        expected.sort();
        assert_eq!(*decided, expected, "within a phase, in the order of the batch");
    }
}

#[test]
fn the_time_of_a_transaction_does_not_move_once_a_rule_was_decided() {
    let row = active(1);
    let release = task(report(&row, Op::Release));
    // The input for the claim is loaded only once the execution is claimable.
    let mut driver = Driver::new(Alone::default(), vec![task(claim("claimer", 1)), release]);
    let run = run(&mut driver, &Table::of([row]));
    let last = run.loads.len() - 1;
    assert_eq!(run.loads_of(|needs| !needs.inputs.is_empty()), [last]);
    let before = run.loads[last - 1].1;
    assert!(before < run.loads[last].1 && run.loads[0].1 < before, "it moves while rows are loaded");
    let claimed = &run.updated(id(1)).execution;
    assert_eq!(claimed.state.lease().map(|lease| lease.claimed_at), Some(before));
    assert_eq!(claimed.state.name(), StateName::Active);
    assert!(run.changes().events.iter().all(|event| event.at == before));
    assert_eq!(driver.take_effects().now, before);
}
