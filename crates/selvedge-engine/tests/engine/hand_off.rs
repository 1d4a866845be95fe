//! Hand-off: what is submitted while a claim waits is inserted already leased, and a claimer that has gone takes nothing.

use crate::side::{Side, claim_of, fence, ids};
use crate::{on_faulty, on_memory, soon, until};
use selvedge_engine::core::Draft;
use selvedge_engine::core::fact::Fact;
use selvedge_engine::core::log::unpack;
use selvedge_engine::core::rules::report::Op;
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::submission::When;

#[tokio::test]
async fn a_submission_is_leased_by_the_transaction_that_inserts_it_when_a_claim_waits() {
    let (side, _) = on_memory().await;
    let claim = side.claim_waiting(claim_of("one", 1), 1).await;
    let before = side.engine.store().log_after(0, 10).await.expect("the log is read").upto;
    let id = side.submit(Draft::new("kind")).await;
    let claimed = soon(claim).await.expect("it is answered");
    assert_eq!(ids(&claimed), [id]);
    assert_eq!((claimed[0].execution.version, claimed[0].input.as_ref()), (2, &b"null"[..]));
    let log = side.engine.store().log_after(before, 10).await.expect("the log is read").entries;
    assert_eq!(log.len(), 1, "one commit");
    let facts: Vec<Fact> =
        unpack(&log[0].body).expect("it can be read").into_iter().map(|event| event.fact).collect();
    assert!(matches!(facts[..], [Fact::Submitted { .. }, Fact::Claimed { .. }]), "{facts:?}");
    side.complete(fence(&claimed[0])).await.expect("it holds the lease");
    assert_eq!(side.row(id).await.version, 3);
}

#[tokio::test]
async fn a_submission_of_many_goes_to_all_claims_that_wait_and_what_is_left_stays_ready() {
    let (side, _) = on_memory().await;
    let mut claims = Vec::new();
    for number in 1..=3 {
        claims.push(side.claim_waiting(claim_of(&format!("worker{number}"), 2), number).await);
    }
    let submitted = side.submit_many(vec![Draft::new("kind"); 7]).await;
    let mut taken = Vec::new();
    for claim in claims {
        let claimed = soon(claim).await.expect("it is answered");
        assert_eq!(claimed.len(), 2);
        taken.extend(ids(&claimed));
    }
    taken.sort();
    assert_eq!(taken, submitted[..6]);
    assert_eq!(side.state(submitted[6]).await, StateName::Waiting);
    assert_eq!(ids(&side.claim("late", 9).await), submitted[6..]);
}

#[tokio::test]
async fn a_claim_that_waits_gets_only_what_its_worker_can_run() {
    let (side, _) = on_memory().await;
    let claim = side.claim_waiting(claim_of("one", 1), 1).await;
    let elsewhere = Draft { lane: "elsewhere".into(), ..Draft::new("kind") };
    let demanding = Draft { capabilities: vec!["gpu".into()], ..Draft::new("kind") };
    for draft in [elsewhere, demanding] {
        let id = side.submit(draft).await;
        assert_eq!((side.state(id).await, side.engine.activity().1), (StateName::Waiting, 1));
    }
    let id = side.submit(Draft::new("kind")).await;
    assert_eq!(ids(&soon(claim).await.expect("it is answered")), [id]);
}

#[tokio::test]
async fn a_delayed_submission_is_not_handed_to_a_claim_that_waits() {
    let (side, clock) = on_memory().await;
    let claim = side.claim_waiting(claim_of("one", 1), 1).await;
    let id = side.submit(Draft { delay: Some(When::AfterMs(1000)), ..Draft::new("kind") }).await;
    side.has_waiters(1).await;
    assert_eq!(side.state(id).await, StateName::Delayed);
    clock.advance_ms(1000);
    assert_eq!(side.tick("delay_promoter").await.done, 1);
    assert_eq!(ids(&soon(claim).await.expect("it is answered")), [id]);
}

#[tokio::test]
async fn a_claimer_that_went_away_while_it_waited_takes_nothing() {
    let (side, _) = on_memory().await;
    let claim = side.claim_waiting(claim_of("gone", 1), 1).await;
    claim.abort();
    side.has_waiters(0).await;
    let id = side.submit(Draft::new("kind")).await;
    let row = side.row(id).await;
    assert_eq!((row.state.name(), row.version), (StateName::Waiting, 1));
}

#[tokio::test]
async fn a_claimer_that_goes_away_in_the_middle_of_a_hand_off_gets_its_lease_put_back() {
    let (side, store, _) = on_faulty().await;
    let claim = side.claim_waiting(claim_of("gone", 1), 1).await;
    store.hold_answers();
    let submitter = side.clone();
    let submit = tokio::spawn(async move { submitter.submit(Draft::new("kind")).await });
    side.has_waiters(0).await;
    claim.abort();
    assert!(claim.await.is_err());
    store.give_answers();
    let id = soon(submit).await.expect("it is accepted");
    until("the lease is put back", async || side.row(id).await.version == 3).await;
    let row = side.row(id).await;
    assert_eq!((row.state.name(), row.detail.interruptions), (StateName::Waiting, 0));
    assert_eq!(side.attempts(id).await, [Some("orphaned")]);
}

#[tokio::test]
async fn a_report_and_the_next_claim_share_one_commit() {
    let (side, _) = on_memory().await;
    let [first, second] = side.submit_many(vec![Draft::new("kind"); 2]).await[..] else { panic!("two") };
    let lease = fence(&side.claim_one("one").await);
    let before = side.engine.activity().0;
    let complete = Op::Complete { result: "1".into() };
    let report = side.namespace.report(vec![Ok((lease, None, complete))], Some(claim_of("one", 1))).await;
    let (results, claimed) = report.expect("it is answered");
    assert_eq!(results[0].as_ref().expect("it is accepted").state, StateName::Completed);
    assert_eq!((ids(&claimed), side.engine.activity().0), (vec![second], before + 1));
    assert_eq!(side.stored(first).await.result.as_deref(), Some(&b"1"[..]));
}

async fn after_a_report_whose_claim_found_nothing() -> Side {
    let (side, _) = on_memory().await;
    side.submit(Draft::new("kind")).await;
    let lease = fence(&side.claim_one("one").await);
    let complete = Op::Complete { result: "1".into() };
    let report = side.namespace.report(vec![Ok((lease, None, complete))], Some(claim_of("one", 1))).await;
    assert!(report.expect("it is answered").1.is_empty());
    side
}

#[tokio::test]
async fn a_claim_that_follows_a_report_whose_claim_found_nothing_waits_without_asking() {
    let side = after_a_report_whose_claim_found_nothing().await;
    let before = side.engine.activity().0;
    let claim = side.claim_waiting(claim_of("one", 1), 1).await;
    assert_eq!(side.engine.activity().0, before, "it does not ask");
    let id = side.submit(Draft::new("kind")).await;
    assert_eq!(ids(&soon(claim).await.expect("it is answered")), [id]);
    // The next one asks.
    let claim = side.claim_waiting(claim_of("one", 1), 1).await;
    assert_eq!(side.engine.activity().0, before + 2);
    claim.abort();
}

#[tokio::test]
async fn a_claim_asks_if_something_became_ready_after_the_report_whose_claim_found_nothing() {
    let side = after_a_report_whose_claim_found_nothing().await;
    let id = side.submit(Draft::new("kind")).await;
    assert_eq!(side.claim_one("one").await.execution.id, id);
}
