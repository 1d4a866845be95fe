//! Claims over several namespaces: they take turns by weight, and none waits because another has much to do.

use crate::side::{Side, claim_of, ids};
use crate::{on_memory, soon};
use selvedge_engine::core::rules::Operation;
use selvedge_engine::core::rules::claim::Claimed;
use selvedge_engine::core::rules::report::{Fence, Op};
use selvedge_engine::core::{Draft, ExecutionId, Name};
use selvedge_engine::{ClaimWait, Error, Namespace, Namespaces};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

async fn submit(namespace: &Namespace, count: usize) -> Vec<ExecutionId> {
    let drafts = (0..count).map(|_| Ok(Draft::new("kind"))).collect();
    let submitted = namespace.submit_many(drafts, None).await.expect("they are taken");
    submitted.into_iter().map(|one| one.expect("it is taken").execution.id).collect()
}

/// Two namespaces, and both by these weights.
async fn two(side: &Side, weights: [u32; 2]) -> (Namespace, Namespace, Arc<Namespaces>) {
    let a = side.engine.namespace("a").await.expect("it is there");
    let b = side.engine.namespace("b").await.expect("it is there");
    let both = side.engine.namespaces(vec![(a.clone(), weights[0]), (b.clone(), weights[1])]);
    (a, b, Arc::new(both))
}

fn wanted(max: u32, wait: Duration) -> ClaimWait {
    ClaimWait { claim: claim_of("one", max), wait, operation: None }
}

async fn claim(both: &Namespaces, max: u32) -> Vec<Claimed> {
    both.claim(wanted(max, Duration::ZERO)).await.expect("it is answered")
}

/// A claim that waits; returns when it does, in both namespaces.
async fn waiting(
    side: &Side,
    both: &Arc<Namespaces>,
    max: u32,
    waiters: usize,
) -> JoinHandle<Result<Vec<Claimed>, Error>> {
    let both = both.clone();
    let claim = tokio::spawn(async move { both.claim(wanted(max, Duration::from_secs(30))).await });
    side.has_waiters(waiters).await;
    claim
}

fn of(namespace: &Namespace, claimed: &[Claimed]) -> usize {
    claimed.iter().filter(|one| one.execution.namespace == namespace.id()).count()
}

#[tokio::test]
async fn namespaces_share_a_claim_and_many_claims_by_their_weights() {
    let (side, _) = on_memory().await;
    let (a, b, both) = two(&side, [3, 1]).await;
    submit(&a, 100).await;
    submit(&b, 100).await;
    let at_once = claim(&both, 40).await;
    assert_eq!((of(&a, &at_once), of(&b, &at_once)), (30, 10));
    let mut one_by_one = Vec::new();
    for _ in 0..40 {
        one_by_one.extend(claim(&both, 1).await);
    }
    assert!((29..=31).contains(&of(&a, &one_by_one)), "{}", of(&a, &one_by_one));
}

#[tokio::test]
async fn what_one_namespace_does_not_need_goes_to_the_others() {
    let (side, _) = on_memory().await;
    let (a, b, both) = two(&side, [1, 1]).await;
    submit(&a, 100).await;
    submit(&b, 3).await;
    let claimed = claim(&both, 40).await;
    assert_eq!((of(&a, &claimed), of(&b, &claimed)), (37, 3));
}

#[tokio::test]
async fn one_that_has_little_waits_for_no_more_than_a_turn_of_one_that_has_much() {
    let (side, _) = on_memory().await;
    let (a, b, both) = two(&side, [1, 1]).await;
    submit(&a, 200).await;
    claim(&both, 50).await;
    for _ in 0..10 {
        assert_eq!(of(&a, &claim(&both, 1).await), 1, "only it has something");
        let few = submit(&b, 1).await;
        let next = [claim(&both, 1).await, claim(&both, 1).await].concat();
        assert!(ids(&next).contains(&few[0]), "it is among the next two");
    }
}

#[tokio::test]
async fn one_that_had_nothing_is_not_asked_until_something_of_it_may_be_ready() {
    let (side, _) = on_memory().await;
    let (a, _, both) = two(&side, [1, 1]).await;
    submit(&a, 10).await;
    claim(&both, 2).await;
    let before = side.engine.activity().0;
    for _ in 0..5 {
        assert_eq!(claim(&both, 1).await.len(), 1);
    }
    assert_eq!(side.engine.activity().0 - before, 5, "one batch for each claim");
}

#[tokio::test]
async fn a_claim_that_waits_for_several_namespaces_takes_what_comes_first_in_any() {
    let (side, _) = on_memory().await;
    let (a, b, both) = two(&side, [1, 1]).await;
    for namespace in [&a, &b, &a] {
        let claim = waiting(&side, &both, 1, 2).await;
        let id = submit(namespace, 1).await;
        let claimed = soon(claim).await.expect("it ends").expect("it is answered");
        assert_eq!(ids(&claimed), id);
        let holder = both.of(&claimed[0]).expect("it is one of them");
        let fence = Fence::of(&claimed[0].execution).expect("it is leased");
        let complete = Op::Complete { result: "1".into() };
        let (done, _) = holder.report(vec![Ok((fence, None, complete))], None).await.expect("it is answered");
        assert!(done[0].is_ok());
    }
}

#[tokio::test]
async fn claims_that_wait_for_several_namespaces_lose_no_wake_up() {
    let (side, _) = on_memory().await;
    let (a, b, both) = two(&side, [1, 1]).await;
    let mut claims = Vec::new();
    for number in 1..=4 {
        claims.push(waiting(&side, &both, 1, 2 * number).await);
    }
    let mut expected = submit(&a, 2).await;
    expected.extend(submit(&b, 2).await);
    let mut taken = Vec::new();
    for claim in claims {
        taken.extend(ids(&soon(claim).await.expect("it ends").expect("it is answered")));
    }
    taken.sort();
    expected.sort();
    assert_eq!(taken, expected);
}

#[tokio::test]
async fn a_claim_over_several_namespaces_that_goes_away_takes_nothing_and_leaves_its_wake_up() {
    let (side, _) = on_memory().await;
    let (a, _, both) = two(&side, [1, 1]).await;
    let gone = waiting(&side, &both, 1, 2).await;
    let stays = waiting(&side, &both, 1, 4).await;
    gone.abort();
    let id = submit(&a, 1).await;
    assert_eq!(ids(&soon(stays).await.expect("it ends").expect("it is answered")), id);
}

#[tokio::test]
async fn a_key_for_a_claim_over_several_namespaces_is_refused() {
    let (side, _) = on_memory().await;
    let (_, _, both) = two(&side, [1, 1]).await;
    let operation = Some(Operation { key: Name::trusted("k"), digest: 1 });
    let refused = both.claim(ClaimWait { operation, ..wanted(1, Duration::ZERO) }).await;
    assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
}
