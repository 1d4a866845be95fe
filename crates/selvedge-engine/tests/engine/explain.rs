//! Explain: the reasons why an execution does not run.

use crate::test_server::{self, TestServer, claim_of, fence};
use crate::{draft_with, memory_server};
use selvedge_engine::core::explain::{Explanation, Reference, ReferenceKind};
use selvedge_engine::core::rules::claim::ClaimDraft;
use selvedge_engine::core::rules::operator::Action;
use selvedge_engine::core::submission::When;
use selvedge_engine::core::{Draft, ExecutionId, Policy};

async fn explain(server: &TestServer, id: ExecutionId) -> Explanation {
    server.namespace.explain(id).await.expect("the execution is explained")
}

#[tokio::test]
async fn explain_names_the_missing_worker_kind_or_capability() {
    let (server, clock) = memory_server().await;
    let constrained = Draft { capabilities: vec!["gpu".into(), "eu".into()], ..Draft::new("kind") };
    let id = server.submit(constrained).await;
    let why = explain(&server, id).await;
    assert_eq!((why.state, why.reasons[0].code.as_str()), ("waiting", "no_worker_in_lane"));
    let other = ClaimDraft { kinds: Some(vec!["other".into()]), ..claim_of("other", 1) };
    server.claim_as(other).await;
    assert_eq!(explain(&server, id).await.reasons[0].code.as_str(), "no_worker_of_kind");
    let european = ClaimDraft { capabilities: vec!["eu".into()], ..claim_of("european", 1) };
    server.claim_as(european).await;
    let why = explain(&server, id).await;
    assert_eq!(why.reasons[0].code.as_str(), "no_capable_worker");
    assert!(why.reasons[0].message.contains("gpu") && !why.reasons[0].message.contains("eu,"));
    clock.advance_ms(91_000);
    assert_eq!(
        explain(&server, id).await.reasons[0].code.as_str(),
        "no_worker_in_lane",
        "the sessions are no longer live"
    );
}

#[tokio::test]
async fn explain_names_the_lease_holder_and_the_expiry() {
    let (server, clock) = memory_server().await;
    let id = server.submit(Draft::new("kind")).await;
    let behind = server.submit(Draft::new("kind")).await;
    let lease = fence(&server.claim_one("one").await);
    let claimed_at = clock.now();
    let why = explain(&server, id).await;
    assert_eq!((why.state, why.reasons[0].code.as_str()), ("active", "active"));
    assert!(why.reasons[0].message.contains("instance one"), "{}", why.reasons[0].message);
    assert_eq!(why.reasons[0].reference, Some(Reference::new(ReferenceKind::Lease, lease.lease_id)));
    assert_eq!(why.reasons[0].until, Some(claimed_at.plus_ms(30_000)));
    assert_eq!(why.next_change, Some(claimed_at.plus_ms(30_000)));
    clock.advance_ms(10_000);
    server.heartbeat("one", &[lease]).await;
    assert_eq!(explain(&server, id).await.reasons[0].until, Some(claimed_at.plus_ms(40_000)));
    let view = server.namespace.get(id).await.expect("the execution exists");
    assert_eq!(view.lease_until(), Some(claimed_at.plus_ms(40_000)));
    let why = explain(&server, behind).await;
    assert_eq!(why.reasons[0].code.as_str(), "waiting_for_worker");
    assert!(why.reasons[0].message.contains("it is next"), "{}", why.reasons[0].message);
    let cancel = Action::Cancel { reason: None, grace_ms: 5000 };
    server.operate(id, cancel).await.expect("the cancel request is accepted");
    let why = explain(&server, id).await;
    assert_eq!(why.reasons[1].code.as_str(), "cancel_requested");
    assert_eq!(why.next_change, Some(clock.now().plus_ms(5000)));
}

#[tokio::test]
async fn explain_names_the_delay_the_deadline_and_the_back_off() {
    let (server, clock) = memory_server().await;
    let now = clock.now();
    let policy = Policy { deadline_ms: Some(60_000), ..Policy::default() };
    let id = server.submit(Draft { delay: Some(When::AfterMs(1000)), ..draft_with(policy) }).await;
    let why = explain(&server, id).await;
    assert_eq!((why.state, why.reasons[0].code.as_str()), ("delayed", "delayed"));
    assert_eq!((why.reasons[0].until, why.next_change), (Some(now.plus_ms(1000)), Some(now.plus_ms(1000))));
    clock.advance_ms(1000);
    server.tick("delay_promoter").await;
    let why = explain(&server, id).await;
    let deadline =
        why.reasons.iter().find(|reason| reason.code.as_str() == "deadline").expect("the deadline is named");
    assert_eq!(deadline.until, Some(now.plus_ms(60_000)));
    let lease = fence(&server.claim_one("one").await);
    server.report(lease, test_server::fail_op()).await.expect("the lease is current");
    assert_eq!(explain(&server, id).await.reasons[0].code.as_str(), "backoff");
    server.cancel(id).await.expect("the execution is cancelled");
    let why = explain(&server, id).await;
    assert_eq!((why.state, why.reasons[0].code.as_str()), ("cancelled", "ended"));
}
