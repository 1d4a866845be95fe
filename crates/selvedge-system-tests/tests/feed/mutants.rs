//! Readers and writers of the log that are wrong on purpose: the check of the feed detects each of them.

use selvedge_system_tests::Sandbox;
use selvedge_system_tests::cluster::Cluster;
use selvedge_system_tests::feed::{Fault, FaultyReading, faults_of};
use selvedge_system_tests::feed_load::{EARLY, LoadPlan, run_load};

/// The number of runs in which a fault must show.
const TRIES: usize = 5;

/// Asserts that a reader shows this fault, while subscribers of the same run receive everything.
async fn is_detected(reading: FaultyReading, fault: Fault, sandbox: impl Fn() -> Sandbox) {
    let plan = LoadPlan { rounds: 12, faulty_reader: Some(reading), ..LoadPlan::default() };
    for _ in 0..TRIES {
        let outcome = run_load(&sandbox(), plan.clone(), async {}).await;
        outcome.holds();
        if faults_of(&outcome.faulty_reader, &outcome.log).contains_key(&fault) {
            return;
        }
    }
    panic!("{reading:?} is not detected");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_reader_by_numbers_alone_is_detected_by_missing_events() {
    is_detected(FaultyReading::ByNumberAlone, Fault::Missing, Sandbox::new).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_reader_by_transactions_is_detected_by_versions_out_of_order() {
    // On a shared server, transactions of other tests would delay such a reader (see `faults`).
    let cluster = Cluster::start();
    is_detected(FaultyReading::BelowXmin, Fault::VersionGap, || Sandbox::on(&cluster.url("postgres"))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn numbers_drawn_before_the_rows_are_locked_are_detected_by_versions_out_of_order() {
    for _ in 0..TRIES {
        let sandbox = Sandbox::new();
        let outcome =
            run_load(&sandbox, LoadPlan { rounds: 12, schema: EARLY, ..LoadPlan::default() }, async {}).await;
        let found = outcome.faults();
        assert!(found.iter().all(|found| !found.contains_key(&Fault::Missing)), "no reader misses an event");
        if found.iter().all(|found| found.contains_key(&Fault::VersionGap)) {
            return;
        }
    }
    panic!("early numbers are not detected");
}
