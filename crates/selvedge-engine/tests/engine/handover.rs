//! Handover: an execution submitted while a claim waits is inserted already leased, and a claim whose caller left takes
//! nothing.

use crate::test_server::{TestServer, claim_of, fence, ids};
use crate::{faulty_server, memory_server, soon, until};
use selvedge_engine::core::Draft;
use selvedge_engine::core::fact::Fact;
use selvedge_engine::core::log::unpack;
use selvedge_engine::core::rules::report::Op;
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::submission::When;

#[tokio::test]
async fn a_submission_is_leased_by_the_transaction_that_inserts_it_when_a_claim_waits() {
    let (server, _) = memory_server().await;
    let claim = server.claim_waiting(claim_of("one", 1), 1).await;
    let before = server.engine.store().log_after(0, 10).await.expect("the log is read").upto;
    let id = server.submit(Draft::new("kind")).await;
    let claimed = soon(claim).await.expect("the task does not panic");
    assert_eq!(ids(&claimed), [id]);
    assert_eq!((claimed[0].execution.version, claimed[0].input.as_ref()), (2, &b"null"[..]));
    let log = server.engine.store().log_after(before, 10).await.expect("the log is read").entries;
    assert_eq!(log.len(), 1, "submission and claim share one commit");
    let facts: Vec<Fact> = unpack(&log[0].body)
        .expect("the log entry is readable")
        .into_iter()
        .map(|event| event.fact)
        .collect();
    assert!(matches!(facts[..], [Fact::Submitted { .. }, Fact::Claimed { .. }]), "{facts:?}");
    server.complete(fence(&claimed[0])).await.expect("the lease is current");
    assert_eq!(server.row(id).await.version, 3);
}

#[tokio::test]
async fn a_submission_of_many_is_handed_over_to_all_waiting_claims_and_the_rest_stays_waiting() {
    let (server, _) = memory_server().await;
    let mut claims = Vec::new();
    for number in 1..=3 {
        claims.push(server.claim_waiting(claim_of(&format!("worker{number}"), 2), number).await);
    }
    let submitted = server.submit_many(vec![Draft::new("kind"); 7]).await;
    let mut taken = Vec::new();
    for claim in claims {
        let claimed = soon(claim).await.expect("the task does not panic");
        assert_eq!(claimed.len(), 2);
        taken.extend(ids(&claimed));
    }
    taken.sort();
    assert_eq!(taken, submitted[..6]);
    assert_eq!(server.state(submitted[6]).await, StateName::Waiting);
    assert_eq!(ids(&server.claim("late", 9).await), submitted[6..]);
}

#[tokio::test]
async fn a_waiting_claim_is_handed_only_executions_that_its_worker_can_run() {
    let (server, _) = memory_server().await;
    let claim = server.claim_waiting(claim_of("one", 1), 1).await;
    let other_lane = Draft { lane: "elsewhere".into(), ..Draft::new("kind") };
    let gpu_only = Draft { capabilities: vec!["gpu".into()], ..Draft::new("kind") };
    for draft in [other_lane, gpu_only] {
        let id = server.submit(draft).await;
        assert_eq!((server.state(id).await, server.engine.activity().1), (StateName::Waiting, 1));
    }
    let id = server.submit(Draft::new("kind")).await;
    assert_eq!(ids(&soon(claim).await.expect("the task does not panic")), [id]);
}

#[tokio::test]
async fn a_delayed_submission_is_not_handed_over_to_a_waiting_claim() {
    let (server, clock) = memory_server().await;
    let claim = server.claim_waiting(claim_of("one", 1), 1).await;
    let id = server.submit(Draft { delay: Some(When::AfterMs(1000)), ..Draft::new("kind") }).await;
    server.wait_for_waiting_claims(1).await;
    assert_eq!(server.state(id).await, StateName::Delayed);
    clock.advance_ms(1000);
    assert_eq!(server.tick("delay_promoter").await.done, 1);
    assert_eq!(ids(&soon(claim).await.expect("the task does not panic")), [id]);
}

#[tokio::test]
async fn a_claim_dropped_while_it_waits_takes_nothing() {
    let (server, _) = memory_server().await;
    let claim = server.claim_waiting(claim_of("gone", 1), 1).await;
    claim.abort();
    server.wait_for_waiting_claims(0).await;
    let id = server.submit(Draft::new("kind")).await;
    let row = server.row(id).await;
    assert_eq!((row.state.name(), row.version), (StateName::Waiting, 1));
}

#[tokio::test]
async fn a_lease_handed_over_to_a_claim_dropped_meanwhile_is_put_back() {
    let (server, faults, _) = faulty_server().await;
    let claim = server.claim_waiting(claim_of("gone", 1), 1).await;
    faults.hold_replies();
    let submitter = server.clone();
    let submit = tokio::spawn(async move { submitter.submit(Draft::new("kind")).await });
    server.wait_for_waiting_claims(0).await;
    claim.abort();
    assert!(claim.await.is_err());
    faults.release_replies();
    let id = soon(submit).await.expect("the task does not panic");
    until("the lease is put back", async || server.row(id).await.version == 3).await;
    let row = server.row(id).await;
    assert_eq!((row.state.name(), row.detail.interruptions), (StateName::Waiting, 0));
    assert_eq!(server.attempts(id).await, [Some("orphaned")]);
}

#[tokio::test]
async fn a_report_and_the_next_claim_share_one_commit() {
    let (server, _) = memory_server().await;
    let [first, second] = server.submit_many(vec![Draft::new("kind"); 2]).await[..] else {
        panic!("two executions")
    };
    let lease = fence(&server.claim_one("one").await);
    let before = server.engine.activity().0;
    let complete = Op::Complete { result: "1".into() };
    let report = server.namespace.report(vec![Ok((lease, None, complete))], Some(claim_of("one", 1))).await;
    let (results, claimed) = report.expect("the report is answered");
    assert_eq!(results[0].as_ref().expect("the report is accepted").state, StateName::Completed);
    assert_eq!((ids(&claimed), server.engine.activity().0), (vec![second], before + 1));
    assert_eq!(server.stored(first).await.result.as_deref(), Some(&b"1"[..]));
}

async fn after_a_report_whose_claim_found_nothing() -> TestServer {
    let (server, _) = memory_server().await;
    server.submit(Draft::new("kind")).await;
    let lease = fence(&server.claim_one("one").await);
    let complete = Op::Complete { result: "1".into() };
    let report = server.namespace.report(vec![Ok((lease, None, complete))], Some(claim_of("one", 1))).await;
    assert!(report.expect("the report is answered").1.is_empty());
    server
}

#[tokio::test]
async fn a_claim_after_a_report_whose_claim_found_nothing_waits_without_asking_the_store() {
    let server = after_a_report_whose_claim_found_nothing().await;
    let before = server.engine.activity().0;
    let claim = server.claim_waiting(claim_of("one", 1), 1).await;
    assert_eq!(server.engine.activity().0, before, "the claim does not ask the store");
    let id = server.submit(Draft::new("kind")).await;
    assert_eq!(ids(&soon(claim).await.expect("the task does not panic")), [id]);
    // The next claim asks the store.
    let claim = server.claim_waiting(claim_of("one", 1), 1).await;
    assert_eq!(server.engine.activity().0, before + 2);
    claim.abort();
}

#[tokio::test]
async fn a_claim_asks_the_store_if_an_execution_became_claimable_after_the_report() {
    let server = after_a_report_whose_claim_found_nothing().await;
    let id = server.submit(Draft::new("kind")).await;
    assert_eq!(server.claim_one("one").await.execution.id, id);
}
