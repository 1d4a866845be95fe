//! The cases of gates that depend on time, on a manual clock, where windows end exactly.

use selvedge_conformance::{Subject, cases, run_case};
use selvedge_core::Timestamp;
use selvedge_memory::{Clock, MemoryStore};
use selvedge_store::Store;
use std::sync::Arc;

async fn on_a_manual_clock() -> Subject {
    let clock = Clock::manual(Timestamp::from_millis(1_700_000_000_000));
    let store: Arc<dyn Store> = Arc::new(MemoryStore::with_clock(clock.clone()));
    Subject::with_clock(store, move |ms| clock.advance_ms(ms))
}

/// Creates a test of each case, on a manual clock.
macro_rules! tests_on_a_manual_clock {
    ($($case:ident)*) => {
        $(#[test]
        fn $case() {
            run_case(on_a_manual_clock, async |harness| cases::$case(harness).await);
        })*
    };
}

tests_on_a_manual_clock! {
    a_lane_never_exceeds_its_rate_in_any_window
    the_rate_of_a_lane_is_fully_used_as_time_passes
    a_quota_never_exceeds_its_rate_in_any_window
    a_gate_whose_rate_refuses_is_checked_when_its_window_has_room
    the_end_of_a_period_resets_the_usage_and_releases
    every_end_of_a_lease_by_time_gives_back_its_slots
    held_executions_are_cancelled_and_expire_like_waiting_ones
    held_executions_are_released_in_bounded_chunks
    an_execution_that_a_scan_passed_is_released_when_the_promise_ends_that_kept_it
    an_execution_that_is_moved_before_a_pending_scan_is_released
    fairness_keys_take_turns_however_many_executions_one_of_them_has
}
