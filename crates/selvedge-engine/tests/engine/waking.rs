//! Claims that wait are woken by whatever makes something ready. The slow poll is a day away here: what is not woken hangs.

use crate::faulty::Faulty;
use crate::side::{self, Side, claim_of, done, fence, ids, waiting};
use crate::{LONG, on_faulty, on_memory, soon};
use selvedge_conformance::invariants;
use selvedge_engine::Error;
use selvedge_engine::core::rules::Operation;
use selvedge_engine::core::rules::claim::ClaimDraft;
use selvedge_engine::core::rules::operator::Action;
use selvedge_engine::core::rules::report::Op;
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::submission::When;
use selvedge_engine::core::{Draft, Name};
use selvedge_memory::MemoryStore;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

async fn dawdle() {
    for _ in 0..fastrand::usize(..4) {
        tokio::task::yield_now().await;
    }
}

/// A worker that waits for work, and now and then puts it back before it does it, until all is done.
async fn work(side: Side, instance: String, left: Arc<AtomicUsize>) {
    while left.load(Ordering::SeqCst) > 0 {
        let claim = claim_of(&instance, fastrand::u32(1..=3));
        let claimed = match side.namespace.claim(waiting(claim, Duration::from_secs(60))).await {
            Err(Error::Closed) => return,
            claimed => claimed.expect("the claim is answered"),
        };
        for one in claimed {
            dawdle().await;
            let back = fastrand::u8(..4) == 0;
            let op = if back { Op::Release } else { done() };
            side.report(fence(&one), op).await.expect("it holds the lease");
            if !back && left.fetch_sub(1, Ordering::SeqCst) == 1 {
                side.engine.shutdown().await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_wake_up_is_lost_between_asking_and_waiting() {
    for _ in 0..20 {
        let side = Side::new(Arc::new(MemoryStore::new()), side::quiet()).await;
        let total = 60;
        let left = Arc::new(AtomicUsize::new(total));
        let workers: Vec<_> = (0..5)
            .map(|number| tokio::spawn(work(side.clone(), format!("worker{number}"), left.clone())))
            .collect();
        for _ in 0..total {
            side.submit(Draft::new("kind")).await;
            dawdle().await;
        }
        for worker in workers {
            let ended = tokio::time::timeout(LONG, worker).await;
            let left = left.load(Ordering::SeqCst);
            let waiting = side.engine.activity().1;
            let ended = ended.unwrap_or_else(|_| panic!("{left} are left, {waiting} claims wait in vain"));
            ended.expect("nobody panics");
        }
        assert_eq!(left.load(Ordering::SeqCst), 0);
        let broken = invariants::check(&**side.engine.store()).await;
        assert!(broken.is_empty(), "invariants are broken: {broken:#?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_time_makes_ready_is_never_missed_by_a_claim_that_is_about_to_wait() {
    let (side, clock) = on_memory().await;
    for round in 0..300 {
        let id = side.submit(Draft { delay: Some(When::AfterMs(10)), ..Draft::new("kind") }).await;
        clock.advance_ms(10);
        let claimer = side.clone();
        let claim = tokio::spawn(async move {
            dawdle().await;
            let claim = waiting(claim_of("one", 1), Duration::from_secs(60));
            claimer.namespace.claim(claim).await.expect("it is answered")
        });
        dawdle().await;
        assert_eq!(side.tick("delay_promoter").await.done, 1);
        let claimed = soon(claim).await.unwrap_or_else(|error| panic!("round {round}: {error}"));
        assert_eq!(ids(&claimed), [id]);
        side.complete(fence(&claimed[0])).await.expect("it holds the lease");
    }
}

#[tokio::test]
async fn what_becomes_ready_in_one_commit_wakes_as_many_claims_as_it_needs() {
    let (side, clock) = on_memory().await;
    let later = Draft { delay: Some(When::AfterMs(10)), ..Draft::new("kind") };
    let mut submitted = side.submit_many(vec![later; 5]).await;
    let mut claims = Vec::new();
    for number in 1..=5 {
        claims.push(side.claim_waiting(claim_of(&format!("worker{number}"), 1), number).await);
    }
    clock.advance_ms(10);
    assert_eq!(side.tick("delay_promoter").await.done, 5);
    let mut taken = Vec::new();
    for claim in claims {
        taken.extend(ids(&soon(claim).await.expect("it is answered")));
    }
    taken.sort();
    submitted.sort();
    assert_eq!(taken, submitted);
}

#[tokio::test]
async fn everything_that_makes_an_execution_ready_again_wakes_a_claim_that_waits() {
    let (side, _) = on_memory().await;
    let id = side.submit(Draft::new("kind")).await;
    let mut lease = fence(&side.claim_one("one").await);
    let at_once = Op::Fail {
        message: String::new(),
        class: selvedge_engine::core::FailureClass::Transient,
        retry_after_ms: Some(0),
    };
    let delayed = Op::Delay { until: When::AfterMs(0) };
    for op in [Op::Release, at_once, delayed] {
        let claim = side.claim_waiting(claim_of("two", 1), 1).await;
        side.report(lease, op).await.expect("it holds the lease");
        lease = fence(&soon(claim).await.expect("it is answered")[0]);
    }
    let claim = side.claim_waiting(claim_of("three", 1), 1).await;
    side.operate(id, Action::Revoke { reason: None }).await.expect("it is revoked");
    lease = fence(&soon(claim).await.expect("it is answered")[0]);
    side.complete(lease).await.expect("it holds the lease");
    let claim = side.claim_waiting(claim_of("four", 1), 1).await;
    side.operate(id, Action::Replay).await.expect("it is replayed");
    assert_eq!(ids(&soon(claim).await.expect("it is answered")), [id]);
}

#[tokio::test]
async fn a_head_of_line_execution_that_nobody_can_run_hides_nothing_behind_it() {
    let (side, _) = on_memory().await;
    let demanding = Draft { capabilities: vec!["gpu".into()], priority: 9, ..Draft::new("kind") };
    let hidden = side.submit_many(vec![demanding.clone(); 50]).await;
    let plain = side.submit(Draft::new("kind")).await;
    assert_eq!(ids(&side.claim("plain", 9).await), [plain]);
    let claim = side.claim_waiting(claim_of("plain", 1), 1).await;
    side.submit(demanding).await;
    let second = side.submit(Draft::new("kind")).await;
    assert_eq!(ids(&soon(claim).await.expect("it is answered")), [second]);
    let why = side.namespace.explain(hidden[0]).await.expect("it is explained");
    assert_eq!(why.reasons[0].code, "no_capable_worker");
    let capable = ClaimDraft { capabilities: vec!["gpu".into(), "eu".into()], ..claim_of("capable", 1) };
    assert_eq!(ids(&side.claim_as(capable).await), hidden[..1]);
}

/// Makes two claims go in one batch, the one on more lanes first.
async fn claim_together(side: &Side, store: &Faulty) -> Vec<usize> {
    store.shut();
    let blocker = side.clone();
    let blocked = tokio::spawn(async move { blocker.beat("nobody", &[]).await });
    tokio::task::yield_now().await;
    let mut claims = Vec::new();
    for (instance, lanes) in [("both", vec!["a".into(), "b".into()]), ("one", vec!["a".into()])] {
        let (side, claim) = (side.clone(), ClaimDraft { lanes, ..claim_of(instance, 1) });
        claims.push(tokio::spawn(async move { side.claim_as(claim).await.len() }));
        tokio::task::yield_now().await;
    }
    store.open();
    soon(blocked).await.expect("it is answered");
    let mut counts = Vec::new();
    for claim in claims {
        counts.push(soon(claim).await.expect("it is answered"));
    }
    counts
}

#[tokio::test]
async fn claims_of_one_batch_that_may_take_the_same_do_not_leave_each_other_empty_handed() {
    let (side, store, _) = on_faulty().await;
    side.submit_many(vec![Draft { lane: "a".into(), ..Draft::new("kind") }; 2]).await;
    side.submit(Draft { lane: "b".into(), delay: Some(When::AfterMs(9)), ..Draft::new("kind") }).await;
    assert_eq!(claim_together(&side, &store).await, [1, 1]);
}

#[tokio::test]
async fn a_worker_that_drains_does_not_swallow_a_wake_up() {
    let (side, clock) = on_memory().await;
    let draining = side.claim_waiting(claim_of("draining", 1), 1).await;
    side.namespace.drain_worker("draining", &side::operator()).await.expect("it is asked");
    let there = side.claim_waiting(claim_of("there", 1), 2).await;
    let id = side.submit(Draft { delay: Some(When::AfterMs(10)), ..Draft::new("kind") }).await;
    clock.advance_ms(10);
    assert_eq!(side.tick("delay_promoter").await.done, 1);
    assert_eq!(ids(&soon(there).await.expect("it is answered")), [id]);
    draining.abort();
}

#[tokio::test]
async fn a_worker_that_drains_and_waits_does_not_ask_again_and_again() {
    let (side, _) = on_memory().await;
    assert!(side.claim("draining", 1).await.is_empty());
    side.namespace.drain_worker("draining", &side::operator()).await.expect("it is asked");
    let id = side.submit(Draft::new("kind")).await;
    let claim = side.claim_waiting(claim_of("draining", 1), 0).await;
    is_quiet(&side).await;
    assert_eq!(side.state(id).await, StateName::Waiting);
    assert!(!claim.is_finished());
    claim.abort();
}

#[tokio::test]
async fn a_keyed_claim_whose_leases_are_over_does_not_ask_again_and_again() {
    let (side, _) = on_memory().await;
    side.submit_many(vec![Draft::new("kind"); 2]).await;
    let keyed = || {
        let mut claim = waiting(claim_of("one", 1), Duration::from_secs(60));
        claim.operation = Some(Operation { key: Name::trusted("key"), digest: 1 });
        let namespace = side.namespace.clone();
        tokio::spawn(async move { namespace.claim(claim).await.expect("it is answered") })
    };
    let first = soon(keyed()).await.expect("it is answered");
    side.complete(fence(&first[0])).await.expect("it holds the lease");
    let repeated = keyed();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    is_quiet(&side).await;
    assert!(!repeated.is_finished() || repeated.await.expect("it is answered").is_empty());
}

/// Nothing is committed by itself.
async fn is_quiet(side: &Side) {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let before = side.engine.activity().0;
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(side.engine.activity().0, before, "nothing happens, so nothing is asked");
}

#[tokio::test]
async fn a_poll_finds_what_no_wake_up_told_of() {
    let store = Arc::new(MemoryStore::new());
    let options = selvedge_engine::Options { poll: Duration::from_millis(20), ..side::quiet() };
    let polling = Side::new(store.clone(), options).await;
    let other = Side::new(store, side::quiet()).await;
    let claim = polling.claim_waiting(claim_of("one", 1), 1).await;
    let id = other.submit(Draft::new("kind")).await;
    assert_eq!(ids(&soon(claim).await.expect("it is answered")), [id]);
}
