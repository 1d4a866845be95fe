//! Waiting claims are woken by everything that makes an execution claimable. The poll interval is a day here, so a lost
//! wake-up makes a test time out.

use crate::faults::Faults;
use crate::test_server::{self, TestServer, claim_of, claim_wait, complete_op, fence, ids};
use crate::{TIMEOUT, faulty_server, memory_server, soon};
use selvedge_conformance::invariants;
use selvedge_engine::Error;
use selvedge_engine::core::rules::CallKey;
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

/// Yields a random number of times.
async fn yield_randomly() {
    for _ in 0..fastrand::usize(..4) {
        tokio::task::yield_now().await;
    }
}

/// Runs a worker that waits for work and sometimes releases it instead of completing it, until no work is left.
async fn work(server: TestServer, instance: String, left: Arc<AtomicUsize>) {
    while left.load(Ordering::SeqCst) > 0 {
        let claim = claim_of(&instance, fastrand::u32(1..=3));
        let claimed = match server.namespace.claim(claim_wait(claim, Duration::from_secs(60))).await {
            Err(Error::Closed) => return,
            claimed => claimed.expect("the claim is answered"),
        };
        for one in claimed {
            yield_randomly().await;
            let release = fastrand::u8(..4) == 0;
            let op = if release { Op::Release } else { complete_op() };
            server.report(fence(&one), op).await.expect("the lease is current");
            if !release && left.fetch_sub(1, Ordering::SeqCst) == 1 {
                server.engine.shutdown().await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_wake_up_is_lost_between_asking_the_store_and_waiting() {
    for _ in 0..20 {
        let server = TestServer::new(Arc::new(MemoryStore::new()), test_server::passive_options()).await;
        let total = 60;
        let left = Arc::new(AtomicUsize::new(total));
        let workers: Vec<_> = (0..5)
            .map(|number| tokio::spawn(work(server.clone(), format!("worker{number}"), left.clone())))
            .collect();
        for _ in 0..total {
            server.submit(Draft::new("kind")).await;
            yield_randomly().await;
        }
        for worker in workers {
            let ended = tokio::time::timeout(TIMEOUT, worker).await;
            let left = left.load(Ordering::SeqCst);
            let waiting = server.engine.activity().1;
            let ended =
                ended.unwrap_or_else(|_| panic!("{left} executions are left, {waiting} claims still wait"));
            ended.expect("the task does not panic");
        }
        assert_eq!(left.load(Ordering::SeqCst), 0);
        let broken = invariants::check(&**server.engine.store()).await;
        assert!(broken.is_empty(), "invariants are broken: {broken:#?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_execution_promoted_by_time_is_never_missed_by_a_claim_that_is_about_to_wait() {
    let (server, clock) = memory_server().await;
    for round in 0..300 {
        let id = server.submit(Draft { delay: Some(When::AfterMs(10)), ..Draft::new("kind") }).await;
        clock.advance_ms(10);
        let claimer = server.clone();
        let claim = tokio::spawn(async move {
            yield_randomly().await;
            let claim = claim_wait(claim_of("one", 1), Duration::from_secs(60));
            claimer.namespace.claim(claim).await.expect("the claim is answered")
        });
        yield_randomly().await;
        assert_eq!(server.tick("delay_promoter").await.done, 1);
        let claimed = soon(claim).await.unwrap_or_else(|error| panic!("round {round}: {error}"));
        assert_eq!(ids(&claimed), [id]);
        server.complete(fence(&claimed[0])).await.expect("the lease is current");
    }
}

#[tokio::test]
async fn executions_promoted_in_one_commit_wake_as_many_claims_as_they_need() {
    let (server, clock) = memory_server().await;
    let later = Draft { delay: Some(When::AfterMs(10)), ..Draft::new("kind") };
    let mut submitted = server.submit_many(vec![later; 5]).await;
    let mut claims = Vec::new();
    for number in 1..=5 {
        claims.push(server.claim_waiting(claim_of(&format!("worker{number}"), 1), number).await);
    }
    clock.advance_ms(10);
    assert_eq!(server.tick("delay_promoter").await.done, 5);
    let mut taken = Vec::new();
    for claim in claims {
        taken.extend(ids(&soon(claim).await.expect("the task does not panic")));
    }
    taken.sort();
    submitted.sort();
    assert_eq!(taken, submitted);
}

#[tokio::test]
async fn everything_that_makes_an_execution_claimable_again_wakes_a_waiting_claim() {
    let (server, _) = memory_server().await;
    let id = server.submit(Draft::new("kind")).await;
    let mut lease = fence(&server.claim_one("one").await);
    let at_once = Op::Fail {
        message: String::new(),
        class: selvedge_engine::core::FailureClass::Transient,
        retry_after_ms: Some(0),
    };
    let delayed = Op::Delay { until: When::AfterMs(0) };
    for op in [Op::Release, at_once, delayed] {
        let claim = server.claim_waiting(claim_of("two", 1), 1).await;
        server.report(lease, op).await.expect("the lease is current");
        lease = fence(&soon(claim).await.expect("the task does not panic")[0]);
    }
    let claim = server.claim_waiting(claim_of("three", 1), 1).await;
    server.operate(id, Action::Revoke { reason: None }).await.expect("the lease is revoked");
    lease = fence(&soon(claim).await.expect("the task does not panic")[0]);
    server.complete(lease).await.expect("the lease is current");
    let claim = server.claim_waiting(claim_of("four", 1), 1).await;
    server.operate(id, Action::Replay).await.expect("the execution is replayed");
    assert_eq!(ids(&soon(claim).await.expect("the task does not panic")), [id]);
}

#[tokio::test]
async fn an_execution_that_no_worker_can_run_does_not_block_those_behind_it() {
    let (server, _) = memory_server().await;
    let gpu_only = Draft { capabilities: vec!["gpu".into()], priority: 9, ..Draft::new("kind") };
    let unrunnable = server.submit_many(vec![gpu_only.clone(); 50]).await;
    let plain = server.submit(Draft::new("kind")).await;
    assert_eq!(ids(&server.claim("plain", 9).await), [plain]);
    let claim = server.claim_waiting(claim_of("plain", 1), 1).await;
    server.submit(gpu_only).await;
    let second = server.submit(Draft::new("kind")).await;
    assert_eq!(ids(&soon(claim).await.expect("the task does not panic")), [second]);
    let why = server.namespace.explain(unrunnable[0]).await.expect("the execution is explained");
    assert_eq!(why.reasons[0].code.as_str(), "no_capable_worker");
    let capable = ClaimDraft { capabilities: vec!["gpu".into(), "eu".into()], ..claim_of("capable", 1) };
    assert_eq!(ids(&server.claim_as(capable).await), unrunnable[..1]);
}

/// Runs two claims in one batch, the one on more lanes first. Returns how many executions each got.
async fn claim_together(server: &TestServer, faults: &Faults) -> Vec<usize> {
    faults.block_transactions();
    let blocker = server.clone();
    let blocked = tokio::spawn(async move { blocker.heartbeat("nobody", &[]).await });
    tokio::task::yield_now().await;
    let mut claims = Vec::new();
    for (instance, lanes) in [("two-lanes", vec!["a".into(), "b".into()]), ("one-lane", vec!["a".into()])] {
        let (server, claim) = (server.clone(), ClaimDraft { lanes, ..claim_of(instance, 1) });
        claims.push(tokio::spawn(async move { server.claim_as(claim).await.len() }));
        tokio::task::yield_now().await;
    }
    faults.unblock_transactions();
    soon(blocked).await.expect("the task does not panic");
    let mut counts = Vec::new();
    for claim in claims {
        counts.push(soon(claim).await.expect("the task does not panic"));
    }
    counts
}

#[tokio::test]
async fn overlapping_claims_of_one_batch_do_not_starve_each_other() {
    let (server, faults, _) = faulty_server().await;
    server.submit_many(vec![Draft { lane: "a".into(), ..Draft::new("kind") }; 2]).await;
    server.submit(Draft { lane: "b".into(), delay: Some(When::AfterMs(9)), ..Draft::new("kind") }).await;
    assert_eq!(claim_together(&server, &faults).await, [1, 1]);
}

#[tokio::test]
async fn a_draining_worker_does_not_consume_a_wake_up() {
    let (server, clock) = memory_server().await;
    let draining = server.claim_waiting(claim_of("draining", 1), 1).await;
    server
        .namespace
        .drain_worker("draining", &test_server::operator())
        .await
        .expect("the drain request is accepted");
    assert!(soon(draining).await.expect("the task does not panic").is_empty(), "it returns at once");
    let active = server.claim_waiting(claim_of("active", 1), 1).await;
    let id = server.submit(Draft { delay: Some(When::AfterMs(10)), ..Draft::new("kind") }).await;
    clock.advance_ms(10);
    assert_eq!(server.tick("delay_promoter").await.done, 1);
    assert_eq!(ids(&soon(active).await.expect("the task does not panic")), [id]);
}

#[tokio::test]
async fn a_claim_of_a_draining_worker_is_told_at_once_and_after_that_once_a_second() {
    let (server, _) = memory_server().await;
    assert!(server.claim("draining", 1).await.is_empty());
    server
        .namespace
        .drain_worker("draining", &test_server::operator())
        .await
        .expect("the drain request is accepted");
    let id = server.submit(Draft::new("kind")).await;
    let claim =
        || server.namespace.claim_as_worker(claim_wait(claim_of("draining", 1), Duration::from_secs(60)));
    let started = tokio::time::Instant::now();
    for _ in 0..2 {
        let result = soon(claim()).await.expect("the claim is answered");
        assert!(result.drain && result.claimed.is_empty());
    }
    assert!(started.elapsed() >= Duration::from_millis(900), "the second answer is delayed");
    assert_eq!(server.state(id).await, StateName::Waiting);
}

#[tokio::test]
async fn a_repeated_keyed_claim_whose_leases_have_ended_does_not_poll_the_store() {
    let (server, _) = memory_server().await;
    server.submit_many(vec![Draft::new("kind"); 2]).await;
    let keyed = || {
        let mut claim = claim_wait(claim_of("one", 1), Duration::from_secs(60));
        claim.call_key = Some(CallKey { key: Name::trusted("key"), digest: 1 });
        let namespace = server.namespace.clone();
        tokio::spawn(async move { namespace.claim(claim).await.expect("the claim is answered") })
    };
    let first = soon(keyed()).await.expect("the task does not panic");
    server.complete(fence(&first[0])).await.expect("the lease is current");
    let repeated = keyed();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_no_commits(&server).await;
    assert!(!repeated.is_finished() || repeated.await.expect("the task does not panic").is_empty());
}

/// Asserts that nothing is committed while no call is made.
async fn assert_no_commits(server: &TestServer) {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let before = server.engine.activity().0;
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(server.engine.activity().0, before, "no claim polls the store");
}

#[tokio::test]
async fn the_slow_poll_finds_executions_without_a_wake_up() {
    let store = Arc::new(MemoryStore::new());
    let options =
        selvedge_engine::Options { poll: Duration::from_millis(20), ..test_server::passive_options() };
    let polling = TestServer::new(store.clone(), options).await;
    let other = TestServer::new(store, test_server::passive_options()).await;
    let claim = polling.claim_waiting(claim_of("one", 1), 1).await;
    let id = other.submit(Draft::new("kind")).await;
    assert_eq!(ids(&soon(claim).await.expect("the task does not panic")), [id]);
}

#[tokio::test]
async fn a_claim_whose_worker_departed_on_another_server_leaves_its_execution_to_the_next_claim() {
    let store = Arc::new(MemoryStore::new());
    let here = TestServer::new(store.clone(), test_server::passive_options()).await;
    let other = TestServer::new(store, test_server::passive_options()).await;
    let gone = here.claim_waiting(claim_of("gone", 1), 1).await;
    let active = here.claim_waiting(claim_of("active", 1), 2).await;
    other.namespace.remove_worker("gone", None).await.expect("the worker is known");
    // The submission is offered to the claim that has waited longest, which may take nothing.
    let id = here.submit(Draft::new("kind")).await;
    assert!(soon(gone).await.expect("the task does not panic").is_empty());
    assert_eq!(ids(&soon(active).await.expect("the task does not panic")), [id]);
}
