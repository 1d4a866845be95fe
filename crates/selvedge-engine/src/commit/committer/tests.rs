//! The parts of a failed batch share a time limit.

use super::*;

#[test]
fn parts_have_little_patience_only_after_a_wait() {
    let contention = Contention::default();
    let mut halving = contention.start();
    assert!(halving.fail(&StoreError::Failed("a defect".into())));
    assert_eq!((halving.patience(), halving.is_over().is_some()), (None, false));
    assert!(!halving.fail(&StoreError::Unavailable("away".into())));
    assert_eq!(halving.patience(), None);
    assert!(halving.fail(&StoreError::TooSlow("slow".into())));
    assert_eq!(halving.patience(), Some(PATIENCE));
    assert!(halving.is_over().is_none(), "the time limit has just begun");
}

#[test]
fn after_a_batch_that_met_only_locks_the_next_one_has_less_patience() {
    let contention = Contention::default();
    let mut halving = contention.start();
    halving.fail(&StoreError::Contended("locked".into()));
    drop(halving);
    let mut halving = contention.start();
    assert_eq!(halving.patience(), Some(CONTENDED_PATIENCE));
    halving.commit();
    drop(halving);
    assert_eq!(contention.start().patience(), None);
}
