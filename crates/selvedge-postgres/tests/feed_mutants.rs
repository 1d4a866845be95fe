//! Readers and writers of the log that are wrong on purpose: the check that the feed passes finds each of them out.

mod support;

use support::Sandbox;
use support::cluster::Cluster;
use support::feed::{Broken, Planted, broken};
use support::storm::{EARLY, Plan, storm};

/// How often it is tried to find one out.
const TRIES: usize = 5;

/// Asserts that a reader is found out to break this, while the subscribers beside it are told everything.
async fn is_found_out(planted: Planted, breaks: Broken, sandbox: impl Fn() -> Sandbox) {
    let plan = Plan { rounds: 12, planted: Some(planted), ..Plan::default() };
    for _ in 0..TRIES {
        let outcome = storm(&sandbox(), plan.clone(), async {}).await;
        outcome.holds();
        if broken(&outcome.planted, &outcome.log).contains_key(&breaks) {
            return;
        }
    }
    panic!("{planted:?} is not found out");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cursor_that_goes_by_numbers_alone_is_found_out_by_what_it_misses() {
    is_found_out(Planted::NumberAlone, Broken::Missing, Sandbox::new).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cursor_that_goes_by_transactions_is_found_out_by_versions_that_fall() {
    // Where others run, their transactions hold such a reader back: `feed_faults` shows that.
    let cluster = Cluster::start();
    is_found_out(Planted::BelowXmin, Broken::Versions, || Sandbox::on(&cluster.url("postgres"))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn numbers_that_are_drawn_before_the_rows_are_locked_are_found_out_by_versions_that_fall() {
    for _ in 0..TRIES {
        let sandbox = Sandbox::new();
        let outcome = storm(&sandbox, Plan { rounds: 12, schema: EARLY, ..Plan::default() }, async {}).await;
        let found = outcome.broken();
        assert!(
            found.iter().all(|found| !found.contains_key(&Broken::Missing)),
            "readers still miss nothing"
        );
        if found.iter().all(|found| found.contains_key(&Broken::Versions)) {
            return;
        }
    }
    panic!("numbers that are drawn early are not found out");
}
