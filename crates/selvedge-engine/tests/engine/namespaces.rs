//! Claims over several namespaces: the namespaces take turns by weight, and none starves behind a busy one.

use crate::test_server::{TestServer, claim_of, ids, operator};
use crate::{memory_server, soon};
use selvedge_engine::core::rules::CallKey;
use selvedge_engine::core::rules::claim::Claimed;
use selvedge_engine::core::rules::report::{Fence, Op};
use selvedge_engine::core::{Draft, ExecutionId, Name};
use selvedge_engine::{ClaimWait, Error, Namespace, Namespaces};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

async fn submit(namespace: &Namespace, count: usize) -> Vec<ExecutionId> {
    let drafts = (0..count).map(|_| Ok(Draft::new("kind"))).collect();
    let submitted = namespace.submit_many(drafts, None).await.expect("the submissions are answered");
    submitted.into_iter().map(|one| one.expect("the submission is accepted").execution.id).collect()
}

/// Creates two namespaces, and a group of both with these weights.
async fn two_namespaces(server: &TestServer, weights: [u32; 2]) -> (Namespace, Namespace, Arc<Namespaces>) {
    let a = server.engine.namespace("a").await.expect("the namespace is created");
    let b = server.engine.namespace("b").await.expect("the namespace is created");
    let both = server.engine.namespaces(vec![(a.clone(), weights[0]), (b.clone(), weights[1])]);
    (a, b, Arc::new(both))
}

fn claim_wait(max: u32, wait: Duration) -> ClaimWait {
    ClaimWait { claim: claim_of("one", max), wait, call_key: None }
}

async fn claim(both: &Namespaces, max: u32) -> Vec<Claimed> {
    both.claim(claim_wait(max, Duration::ZERO)).await.expect("the claim is answered")
}

/// Claims in the background. Returns once `waiters` claims wait; each such claim waits in both namespaces.
async fn claim_waiting(
    server: &TestServer,
    both: &Arc<Namespaces>,
    max: u32,
    waiters: usize,
) -> JoinHandle<Result<Vec<Claimed>, Error>> {
    let both = both.clone();
    let claim = tokio::spawn(async move { both.claim(claim_wait(max, Duration::from_secs(30))).await });
    server.wait_for_waiting_claims(waiters).await;
    claim
}

/// Counts the claimed executions of a namespace.
fn count_of(namespace: &Namespace, claimed: &[Claimed]) -> usize {
    claimed.iter().filter(|one| one.execution.namespace == namespace.id()).count()
}

#[tokio::test]
async fn namespaces_share_one_claim_and_many_claims_by_weight() {
    let (server, _) = memory_server().await;
    let (a, b, both) = two_namespaces(&server, [3, 1]).await;
    submit(&a, 100).await;
    submit(&b, 100).await;
    let at_once = claim(&both, 40).await;
    assert_eq!((count_of(&a, &at_once), count_of(&b, &at_once)), (30, 10));
    let mut one_by_one = Vec::new();
    for _ in 0..40 {
        one_by_one.extend(claim(&both, 1).await);
    }
    assert!((29..=31).contains(&count_of(&a, &one_by_one)), "{}", count_of(&a, &one_by_one));
}

#[tokio::test]
async fn shares_that_a_namespace_does_not_use_go_to_the_others() {
    let (server, _) = memory_server().await;
    let (a, b, both) = two_namespaces(&server, [1, 1]).await;
    submit(&a, 100).await;
    submit(&b, 3).await;
    let claimed = claim(&both, 40).await;
    assert_eq!((count_of(&a, &claimed), count_of(&b, &claimed)), (37, 3));
}

#[tokio::test]
async fn a_namespace_with_little_work_waits_at_most_one_turn_of_a_busy_one() {
    let (server, _) = memory_server().await;
    let (a, b, both) = two_namespaces(&server, [1, 1]).await;
    submit(&a, 200).await;
    claim(&both, 50).await;
    for _ in 0..10 {
        assert_eq!(count_of(&a, &claim(&both, 1).await), 1, "only the first namespace has work");
        let submitted = submit(&b, 1).await;
        let next = [claim(&both, 1).await, claim(&both, 1).await].concat();
        assert!(ids(&next).contains(&submitted[0]), "the new execution is among the next two");
    }
}

#[tokio::test]
async fn a_namespace_without_work_is_not_asked_again_until_it_may_have_some() {
    let (server, _) = memory_server().await;
    let (a, _, both) = two_namespaces(&server, [1, 1]).await;
    submit(&a, 10).await;
    both.claim(claim_wait(2, Duration::from_secs(30))).await.expect("the claim is answered");
    let before = server.engine.activity().0;
    for _ in 0..5 {
        let claimed = both.claim(claim_wait(1, Duration::from_secs(30))).await;
        assert_eq!(claimed.expect("the claim is answered").len(), 1);
    }
    assert_eq!(server.engine.activity().0 - before, 5, "one batch per claim");
}

#[tokio::test]
async fn a_waiting_claim_over_several_namespaces_takes_the_first_execution_of_any() {
    let (server, _) = memory_server().await;
    let (a, b, both) = two_namespaces(&server, [1, 1]).await;
    for namespace in [&a, &b, &a] {
        let claim = claim_waiting(&server, &both, 1, 2).await;
        let id = submit(namespace, 1).await;
        let claimed = soon(claim).await.expect("the task does not panic").expect("the task does not panic");
        assert_eq!(ids(&claimed), id);
        let namespace = both.of(&claimed[0]).expect("the execution belongs to a member namespace");
        let fence = Fence::of(&claimed[0].execution).expect("a claimed execution has a lease");
        let complete = Op::Complete { result: "1".into() };
        let (results, _) =
            namespace.report(vec![Ok((fence, None, complete))], None).await.expect("the report is answered");
        assert!(results[0].is_ok());
    }
}

#[tokio::test]
async fn waiting_claims_over_several_namespaces_lose_no_wake_up() {
    let (server, _) = memory_server().await;
    let (a, b, both) = two_namespaces(&server, [1, 1]).await;
    let mut claims = Vec::new();
    for number in 1..=4 {
        claims.push(claim_waiting(&server, &both, 1, 2 * number).await);
    }
    let mut expected = submit(&a, 2).await;
    expected.extend(submit(&b, 2).await);
    let mut taken = Vec::new();
    for claim in claims {
        taken.extend(ids(&soon(claim)
            .await
            .expect("the task does not panic")
            .expect("the task does not panic")));
    }
    taken.sort();
    expected.sort();
    assert_eq!(taken, expected);
}

#[tokio::test]
async fn a_dropped_claim_over_several_namespaces_takes_nothing_and_passes_its_wake_up_on() {
    let (server, _) = memory_server().await;
    let (a, _, both) = two_namespaces(&server, [1, 1]).await;
    let dropped = claim_waiting(&server, &both, 1, 2).await;
    let kept = claim_waiting(&server, &both, 1, 4).await;
    dropped.abort();
    let id = submit(&a, 1).await;
    assert_eq!(
        ids(&soon(kept).await.expect("the task does not panic").expect("the task does not panic")),
        id
    );
}

#[tokio::test]
async fn a_claim_over_several_namespaces_with_an_idempotency_key_is_answered_once() {
    let (server, _) = memory_server().await;
    let (a, b, both) = two_namespaces(&server, [1, 1]).await;
    submit(&a, 1).await;
    submit(&b, 1).await;
    let keyed = async |key: &str| {
        let call_key = Some(CallKey { key: Name::trusted(key), digest: 1 });
        ids(&both
            .claim(ClaimWait { call_key, ..claim_wait(2, Duration::from_secs(30)) })
            .await
            .expect("the claim is answered"))
    };
    let (first, second) = (keyed("one").await, keyed("two").await);
    assert_eq!((first.len(), second.len()), (1, 1), "each call claims from one namespace");
    assert_ne!(first, second);
    assert_eq!((keyed("one").await, keyed("two").await), (first, second));
}

#[tokio::test]
async fn a_waiting_claim_over_several_namespaces_ends_when_its_worker_departs_or_drains() {
    let (server, _) = memory_server().await;
    let (a, b, both) = two_namespaces(&server, [1, 1]).await;
    // The second claim knows from the first one that both namespaces are empty, and does not ask them.
    assert!(claim(&both, 1).await.is_empty());
    let waiting = claim_waiting(&server, &both, 1, 2).await;
    a.remove_worker("one", None).await.expect("the worker is known");
    let claimed = soon(waiting).await.expect("the task does not panic").expect("the claim is answered");
    assert!(claimed.is_empty());
    let id = submit(&a, 1).await[0];
    assert_eq!(claim(&both, 1).await[0].execution.id, id, "a later claim registers the worker again");

    let waiting = claim_waiting(&server, &both, 1, 2).await;
    for namespace in [&a, &b] {
        namespace.drain_worker("one", &operator()).await.expect("the worker is known");
    }
    let claimed = soon(waiting).await.expect("the task does not panic").expect("the claim is answered");
    assert!(claimed.is_empty());
}
