//! A step is recorded once, by the holder of the lease, whatever a worker that lost its lease still does.

use super::{Block, Race};
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::{Draft, ExecutionId};
use selvedge_system_tests::server::fence;
use selvedge_system_tests::suspensions::{for_signal, recorded_as, step};

/// Returns the steps of an execution: names, results, and the attempts that recorded them.
async fn recorded(race: &Race, id: ExecutionId) -> Vec<(String, String, u32)> {
    let steps = race.b.steps(id).await.into_iter();
    let recorded = steps.map(|step| {
        let result = String::from_utf8(step.result.unwrap_or_default().to_vec()).expect("a result is text");
        (step.name.to_string(), result, step.attempt)
    });
    recorded.collect()
}

fn charged(result: &str, attempt: u32) -> Vec<(String, String, u32)> {
    vec![("charge".into(), result.into(), attempt)]
}

#[tokio::test]
async fn a_step_of_a_lease_that_expired_and_was_reclaimed_is_refused() {
    let race = Race::new().await;
    let id = race.a.submit(Draft::new("kind")).await;
    let zombie = fence(&race.a.claim_with_short_lease("zombie").await);
    race.b.lease_has_expired(id).await;
    assert_eq!(race.b.tick("lease_expiry").await.done, 1);
    let lease = fence(&race.b.claim_again(id).await);
    // Both workers have run the same step: the row is locked until both want to record it.
    let of_zombie = ("a", race.a.report(zombie, step("charge", "\"zombie\"")));
    let of_holder = ("b", race.b.report(lease, step("charge", "\"holder\"")));
    let (zombies, holders) = race.in_turn(Block::Row(id), of_zombie, of_holder).await;
    assert_eq!(zombies.expect_err("the lease has ended").code(), "stale_lease");
    holders.expect("the lease is held");
    assert_eq!(recorded(&race, id).await, charged("\"holder\"", 1));
    // A repetition is refused too, with the same or another result.
    for result in ["\"holder\"", "\"zombie\""] {
        let late = race.a.report(zombie, step("charge", result)).await.expect_err("the lease has ended");
        assert_eq!(late.code(), "stale_lease");
    }
    assert_eq!(race.a.count_events(id, "step.recorded").await, 1);
    race.b.complete(lease).await.expect("the lease is held");
    race.check_and_stop().await;
}

#[tokio::test]
async fn a_step_recorded_before_its_lease_expires_is_not_run_again() {
    let race = Race::new().await;
    let id = race.a.submit(Draft::new("kind")).await;
    let late = fence(&race.a.claim_with_short_lease("late").await);
    race.b.lease_has_expired(id).await;
    let records = ("a", race.a.report(late, step("charge", "1")));
    let (recorded_late, tick) = race.meanwhile(Block::Commits, records, race.b.tick("lease_expiry")).await;
    recorded_late.expect("the lease has not been reclaimed yet");
    assert_eq!((tick.scanned, tick.done, tick.superseded), (1, 0, 1), "the other transaction has locked it");
    assert_eq!(race.b.tick("lease_expiry").await.done, 1);
    let claimed = race.b.claim_again(id).await;
    assert_eq!(claimed.steps.len(), 1, "the next attempt does not run it again");
    let other =
        race.b.report(fence(&claimed), step("charge", "2")).await.expect_err("the step has another result");
    assert_eq!(other.code(), "idempotency_mismatch");
    race.b.report(fence(&claimed), step("charge", "1")).await.expect("a repetition is accepted");
    assert_eq!(recorded(&race, id).await, charged("1", 0));
    assert_eq!(race.a.count_events(id, "step.recorded").await, 1);
    race.check_and_stop().await;
}

#[tokio::test]
async fn a_step_that_waits_for_the_expiry_of_its_lease_is_refused() {
    let race = Race::new().await;
    let id = race.a.submit(Draft::new("kind")).await;
    let late = fence(&race.a.claim_with_short_lease("late").await);
    race.b.lease_has_expired(id).await;
    let expiry = ("b", race.b.tick("lease_expiry"));
    let records = ("a", race.a.report(late, step("charge", "1")));
    let (tick, refused) = race.in_turn(Block::Commits, expiry, records).await;
    assert_eq!(tick.done, 1);
    assert_eq!(refused.expect_err("the lease has ended").code(), "stale_lease");
    assert!(recorded(&race, id).await.is_empty());
    assert!(race.b.claim_again(id).await.steps.is_empty(), "the next attempt runs it");
    race.check_and_stop().await;
}

/// A worker whose call was not answered repeats it through another server.
#[tokio::test]
async fn a_step_recorded_through_two_servers_at_once_is_recorded_once() {
    let race = Race::new().await;
    for (second, same) in [("1", true), ("2", false)] {
        let (id, lease) = race.a.leased().await;
        let first = ("a", race.a.report(lease, step("charge", "1")));
        let again = ("b", race.b.report(lease, step("charge", second)));
        let (first, again) = race.in_turn(Block::Row(id), first, again).await;
        first.expect("the lease is held");
        match same {
            true => drop(again.expect("a repetition is accepted")),
            false => {
                assert_eq!(again.expect_err("the step has another result").code(), "idempotency_mismatch")
            }
        }
        assert_eq!(recorded(&race, id).await, charged("1", 0));
        race.b.complete(lease).await.expect("the lease is held");
    }
    race.check_and_stop().await;
}

/// The server that handed out the first lease has cached the row. Meanwhile another server has reclaimed the execution,
/// and the next holder has recorded a step of this name.
#[tokio::test]
async fn a_zombie_that_suspends_for_a_step_that_the_holder_recorded_gets_a_stale_lease() {
    let race = Race::new().await;
    let id = race.a.submit(Draft::new("kind")).await;
    let zombie = fence(&race.a.claim_with_short_lease("zombie").await);
    race.b.lease_has_expired(id).await;
    assert_eq!(race.b.tick("lease_expiry").await.done, 1);
    let lease = fence(&race.b.claim_again(id).await);
    race.b.report(lease, step("charge", "1")).await.expect("the lease is held");
    let refused = race
        .a
        .suspend(zombie, recorded_as("charge", for_signal("go")))
        .await
        .expect_err("the lease has ended");
    assert_eq!(refused.code(), "stale_lease", "{refused}");
    assert_eq!(race.a.state(id).await, StateName::Active);
    assert_eq!(recorded(&race, id).await, charged("1", 1));
    race.check_and_stop().await;
}
