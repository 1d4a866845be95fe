//! What gates do as time passes, on a clock that is moved: windows are used to the full, and not before.

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

/// Runs cases on a manual clock.
macro_rules! on_the_clock {
    ($($case:ident)*) => {
        $(#[test]
        fn $case() {
            run_case(on_a_manual_clock, async |harness| cases::$case(harness).await);
        })*
    };
}

on_the_clock! {
    a_lane_starts_no_more_in_any_window_than_its_rate
    a_rate_of_a_lane_is_used_to_the_full_when_time_moves_on
    a_quota_starts_no_more_in_any_window_than_its_rate
    what_a_rate_refuses_is_looked_at_when_the_window_has_room
    a_period_that_is_over_sets_the_usage_back_and_lets_go_on
    every_way_time_ends_a_lease_gives_back_what_it_has_taken
    what_is_held_is_cancelled_and_expires_like_what_waits
    what_is_held_goes_on_in_bounded_chunks
    keys_take_turns_however_many_wait_with_one_of_them
}
