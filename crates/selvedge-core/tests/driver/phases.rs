//! The order in which a transaction decides its rules, and its time.

use super::rules::{ByHand, InPhase, PHASES, claim, report, task};
use super::table::{Table, id, leased, run};
use selvedge_core::driver::{Alone, Driver};
use selvedge_core::rule::{Phase, Task};
use selvedge_core::rules::report::Op;
use selvedge_core::state::StateName;
use std::sync::{Arc, Mutex, PoisonError};

/// The rules that were decided, in order: their phase, and their place in the batch.
type Decided = Arc<Mutex<Vec<(Phase, usize)>>>;

/// Makes a rule of a phase, given its place in the batch.
type Make = fn(usize, &Decided) -> Box<dyn Task>;

/// A rule in the phase at this place that notes when it is decided.
fn noting<const PLACE: usize>(batch_place: usize, decided: &Decided) -> Box<dyn Task> {
    let decided = decided.clone();
    task(InPhase::<PLACE>(ByHand::asking(|_, _| {}).deciding(move |_| {
        decided.lock().unwrap_or_else(PoisonError::into_inner).push((PHASES[PLACE], batch_place));
    })))
}

#[test]
fn rules_are_decided_in_the_order_of_their_phases_whatever_the_order_of_the_batch() {
    let make: [Make; 12] = [
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
        // Each twice, in no order.
        (0..2 * PHASES.len()).map(|place| (place * 7 + 5) % PHASES.len()).collect(),
    ];
    for batch in batches {
        let decided = Decided::default();
        let tasks = batch.iter().enumerate().map(|(place, phase)| make[*phase](place, &decided));
        let run = run(&mut Driver::new(Alone::default(), tasks.collect()), &Table::default());
        assert!(run.changes().is_empty());
        let decided = decided.lock().unwrap_or_else(PoisonError::into_inner);
        let mut expected: Vec<(Phase, usize)> =
            batch.iter().enumerate().map(|(place, phase)| (PHASES[*phase], place)).collect();
        expected.sort();
        assert_eq!(*decided, expected, "within a phase, in the order of the batch");
    }
}

#[test]
fn the_time_of_a_transaction_does_not_move_once_a_rule_was_decided() {
    let row = leased(1);
    let release = task(report(&row, Op::Release));
    // Only once the execution is ready is it known that the claim carries its input.
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
    assert_eq!(driver.summary().now, before);
}
