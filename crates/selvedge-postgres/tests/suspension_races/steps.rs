//! A step is recorded by whoever holds the lease, once, whatever a worker that lost its lease still does.

use super::support::suspensions::{known_as, on, step};
use super::support::test_server::fence;
use super::{Hold, Race};
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::{Draft, ExecutionId};

/// The steps of an execution: names, results, and the attempts that recorded them.
async fn recorded(race: &Race, id: ExecutionId) -> Vec<(String, String, u32)> {
    let steps = race.b.steps(id).await.into_iter();
    let told = steps.map(|step| {
        let result = String::from_utf8(step.result.unwrap_or_default().to_vec()).expect("a result is text");
        (step.name.to_string(), result, step.attempt)
    });
    told.collect()
}

fn charged(result: &str, attempt: u32) -> Vec<(String, String, u32)> {
    vec![("charge".into(), result.into(), attempt)]
}

#[tokio::test]
async fn a_step_of_a_lease_that_lapsed_and_was_claimed_again_is_refused() {
    let race = Race::new().await;
    let id = race.a.submit(Draft::new("kind")).await;
    let zombie = fence(&race.a.claim_with_short_lease("zombie").await);
    race.b.has_lapsed(id).await;
    assert_eq!(race.b.tick("lease_expiry").await.done, 1);
    let lease = fence(&race.b.claim_again(id).await);
    // Both have run the same step: the row is held until both want to record it.
    let of_zombie = ("a", race.a.report(zombie, step("charge", "\"zombie\"")));
    let of_holder = ("b", race.b.report(lease, step("charge", "\"holder\"")));
    let (zombies, holders) = race.in_turn(Hold::Row(id), of_zombie, of_holder).await;
    assert_eq!(zombies.expect_err("its lease is over").code(), "stale_lease");
    holders.expect("it holds the lease");
    assert_eq!(recorded(&race, id).await, charged("\"holder\"", 1));
    // Also with the same result, and also when it comes later.
    for result in ["\"holder\"", "\"zombie\""] {
        let late = race.a.report(zombie, step("charge", result)).await.expect_err("its lease is over");
        assert_eq!(late.code(), "stale_lease");
    }
    assert_eq!(race.a.times(id, "step.recorded").await, 1);
    race.b.complete(lease).await.expect("it holds the lease");
    race.end().await;
}

#[tokio::test]
async fn a_step_that_is_recorded_before_its_lease_lapses_is_not_run_again() {
    let race = Race::new().await;
    let id = race.a.submit(Draft::new("kind")).await;
    let late = fence(&race.a.claim_with_short_lease("late").await);
    race.b.has_lapsed(id).await;
    let records = ("a", race.a.report(late, step("charge", "1")));
    let (recorded_late, tick) = race.meanwhile(Hold::Log, records, race.b.tick("lease_expiry")).await;
    recorded_late.expect("nobody has taken its lease away yet");
    assert_eq!((tick.scanned, tick.done, tick.lost), (1, 0, 1), "the other has it");
    assert_eq!(race.b.tick("lease_expiry").await.done, 1);
    let claimed = race.b.claim_again(id).await;
    assert_eq!(claimed.steps.len(), 1, "the next attempt does not run it again");
    let other = race.b.report(fence(&claimed), step("charge", "2")).await.expect_err("it has a result");
    assert_eq!(other.code(), "idempotency_mismatch");
    race.b.report(fence(&claimed), step("charge", "1")).await.expect("it is the same");
    assert_eq!(recorded(&race, id).await, charged("1", 0));
    assert_eq!(race.a.times(id, "step.recorded").await, 1);
    race.end().await;
}

#[tokio::test]
async fn a_step_that_waits_for_the_lapse_of_its_lease_is_refused() {
    let race = Race::new().await;
    let id = race.a.submit(Draft::new("kind")).await;
    let late = fence(&race.a.claim_with_short_lease("late").await);
    race.b.has_lapsed(id).await;
    let lapse = ("b", race.b.tick("lease_expiry"));
    let records = ("a", race.a.report(late, step("charge", "1")));
    let (tick, refused) = race.in_turn(Hold::Log, lapse, records).await;
    assert_eq!(tick.done, 1);
    assert_eq!(refused.expect_err("its lease is over").code(), "stale_lease");
    assert!(recorded(&race, id).await.is_empty());
    assert!(race.b.claim_again(id).await.steps.is_empty(), "the next attempt runs it");
    race.end().await;
}

/// A worker whose call was not answered repeats it through another server.
#[tokio::test]
async fn a_step_that_is_recorded_through_two_servers_at_once_is_one() {
    let race = Race::new().await;
    for (second, same) in [("1", true), ("2", false)] {
        let (id, lease) = race.a.leased().await;
        let first = ("a", race.a.report(lease, step("charge", "1")));
        let again = ("b", race.b.report(lease, step("charge", second)));
        let (first, again) = race.in_turn(Hold::Row(id), first, again).await;
        first.expect("it holds the lease");
        match same {
            true => drop(again.expect("it is the same")),
            false => assert_eq!(again.expect_err("it has a result").code(), "idempotency_mismatch"),
        }
        assert_eq!(recorded(&race, id).await, charged("1", 0));
        race.b.complete(lease).await.expect("it holds the lease");
    }
    race.end().await;
}

/// The server that handed out the lease remembers the row as it was. Meanwhile another server gave the execution to another
/// worker, which recorded under this name.
#[tokio::test]
async fn a_zombie_that_suspends_for_a_step_that_the_holder_recorded_is_told_that_its_lease_is_over() {
    let race = Race::new().await;
    let id = race.a.submit(Draft::new("kind")).await;
    let zombie = fence(&race.a.claim_with_short_lease("zombie").await);
    race.b.has_lapsed(id).await;
    assert_eq!(race.b.tick("lease_expiry").await.done, 1);
    let lease = fence(&race.b.claim_again(id).await);
    race.b.report(lease, step("charge", "1")).await.expect("it holds the lease");
    let refused = race.a.suspend(zombie, known_as("charge", on("go"))).await.expect_err("its lease is over");
    assert_eq!(refused.code(), "stale_lease", "{refused}");
    assert_eq!(race.a.state(id).await, StateName::Active);
    assert_eq!(recorded(&race, id).await, charged("1", 1));
    race.end().await;
}
