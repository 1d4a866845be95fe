//! A transaction takes effect as a whole or not at all and leaves no transaction open: if its caller goes away at any
//! await, if the connection is cut around the commit, and if a statement fails.

use selvedge_conformance::{Harness, RulePair, Worker, run_rule};
use selvedge_engine::core::rules::CallKey;
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::{Class, ClassId, Draft, ExecutionId, Name, Timestamp};
use selvedge_engine::store::{
    ClassStore, DueReads, Error, KeyStore, LogStore, NamespaceStore, Notification, SecretStore, Transactions,
};
use selvedge_engine::{Error as EngineError, Namespace};
use selvedge_postgres::{PostgresStore, Settings};
use selvedge_system_tests::proxy::{Cut, Proxy};
use selvedge_system_tests::server::{self, Server, claim_of, claim_wait, complete_op, fail_op, fence, ids};
use selvedge_system_tests::{PlainConnection, Sandbox, wait_until};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// Polls a future at most this number of times, then drops it. Returns none if it was not ready.
async fn polled<T>(future: impl Future<Output = T>, times: usize) -> Option<T> {
    let mut future = pin!(future);
    let mut left = times;
    poll_fn(move |context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        future.as_mut().poll(context).map(Some)
    })
    .await
}

/// Queries for the rows that a submission with a tag, a key and a lease leaves in each table.
const TRACES: [&str; 5] = [
    "select count(*) from executions where id = $1",
    "select count(*) from tags where execution = $1",
    "select count(*) from keys where subject = $1",
    "select count(*) from executions where id = $1 and state = 2 and version = 2",
    "select count(*) from log where position(uuid_send($1) in body) > 0",
];

/// Reports whether an execution exists with all its rows. Panics if only some exist.
async fn is_whole(plain: &PlainConnection, id: ExecutionId) -> bool {
    let mut counts = Vec::new();
    for text in TRACES {
        counts.push(plain.number(text, &[&id.0]).await);
    }
    assert!(counts == [1; 5] || counts == [0; 5], "{id} exists only in part: {counts:?}");
    counts == [1; 5]
}

/// Drops a transaction after 0, 1, 2 … polls until it finishes: on a new connection, or on one that has prepared every
/// statement before.
async fn is_dropped_at_every_await(on_a_used_connection: bool) {
    let sandbox = Sandbox::new();
    let settings = Settings { writers: 1, ..sandbox.settings() };
    let store = sandbox.store_with("store", settings).await;
    let plain = sandbox.plain().await;
    let harness = Harness::new(store.clone()).await;
    let attempt = async |lane: &str, times| {
        let draft = Draft {
            tags: [("a".into(), "b".into())].into(),
            unique_while_active: Some(lane.into()),
            lane: lane.into(),
            ..Draft::new("kind")
        };
        let submit = harness.submit_command(vec![draft]).await;
        let id = submit.items[0].id;
        let claim = harness.claim_command(&Worker::new("one").on(&[lane]), 1);
        (id, polled(run_rule(&harness.store, RulePair(submit, claim)), times).await)
    };
    let mut happened = 0;
    for times in 0.. {
        if on_a_used_connection {
            attempt(&format!("before {times}"), usize::MAX).await;
        }
        let (id, answer) = attempt(&times.to_string(), times).await;
        sandbox.is_idle("store").await;
        let exists = is_whole(&plain, id).await;
        happened += usize::from(exists);
        if let Some(answer) = answer {
            let ((submitted, claimed), _) = answer.expect("the changes are saved");
            assert!(submitted[0].is_ok() && claimed.is_ok());
            assert!(exists, "an answered transaction took effect");
            assert!(times > 1, "some tries were dropped");
            break;
        }
    }
    assert!(happened > 0);
    harness.submit(Draft::new("kind")).await;
    store.close().await;
}

#[tokio::test]
async fn a_transaction_whose_caller_goes_away_at_any_await_takes_effect_as_a_whole_or_not_at_all() {
    is_dropped_at_every_await(false).await;
}

#[tokio::test]
async fn a_transaction_on_a_used_connection_whose_caller_goes_away_takes_effect_as_a_whole_or_not_at_all() {
    is_dropped_at_every_await(true).await;
}

type Call<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Returns calls outside of transactions.
fn calls(store: &PostgresStore, number: usize) -> Vec<Call<'_>> {
    let name = move || Name::trusted(&format!("name{number}"));
    let class = move |namespace| Class {
        namespace,
        lane: name(),
        kind: name(),
        capabilities: [name()].into(),
        pool: None,
    };
    let notification = Notification { ready: vec![ClassId(1)], ..Notification::default() };
    vec![
        Box::pin(async move { drop(store.namespace(&name()).await) }),
        Box::pin(async move {
            let namespace = store.namespace(&Name::trusted("default")).await.expect("it exists");
            drop(store.intern(&[class(namespace)]).await)
        }),
        Box::pin(async move { drop(store.overview().await) }),
        Box::pin(async move { drop(store.log_after(0, 10).await) }),
        Box::pin(async move { drop(store.notify(notification).await) }),
        Box::pin(async move { drop(store.delete_expired_keys(10).await) }),
        Box::pin(async move { drop(store.root_secret(&[1; 32]).await) }),
    ]
}

#[tokio::test]
async fn any_other_call_whose_caller_goes_away_at_any_await_leaves_no_transaction_open() {
    let sandbox = Sandbox::new();
    let settings = Settings { readers: 1, ..sandbox.settings() };
    let store = sandbox.store_with("store", settings).await;
    let kinds = calls(&store, 0).len();
    for kind in 0..kinds {
        for times in 0.. {
            let call = calls(&store, kind * 1000 + times).swap_remove(kind);
            let done = polled(call, times).await.is_some();
            sandbox.is_idle("store").await;
            // There is one connection, so an open transaction would be noticed here.
            let namespace = store.namespace(&Name::trusted("other")).await;
            namespace.unwrap_or_else(|error| panic!("call {kind} cut off after {times} polls: {error}"));
            if done {
                break;
            }
        }
    }
    let ids: Vec<ClassId> = store
        .classes_after(ClassId(0))
        .await
        .expect("classes are read")
        .into_iter()
        .map(|(id, _)| id)
        .collect();
    let expected: Vec<ClassId> = (1..=ids.len() as i32).map(ClassId).collect();
    assert_eq!(ids, expected, "classes are numbered without gaps");
    store.close().await;
}

/// Starts a server whose connections go through a proxy, and interns the class that the tests use.
async fn behind_proxy(sandbox: &Sandbox) -> (Proxy, Server) {
    let proxy = Proxy::start(&sandbox.url("proxied")).await;
    let store = PostgresStore::connect_with(proxy.url(), sandbox.settings()).await;
    let server = Server::new(Arc::new(store.expect("the store opens")), server::passive_options()).await;
    let first = server.submit(Draft::new("kind")).await;
    server.cancel(first).await.expect("the cancellation succeeds");
    (proxy, server)
}

fn is_unavailable<T>(answer: Result<T, EngineError>) -> bool {
    matches!(answer, Err(EngineError::Store(Error::Unavailable(_))))
}

async fn count(plain: &PlainConnection) -> i64 {
    plain.number("select count(*) from executions where state <> 12", &[]).await
}

#[tokio::test]
async fn a_submission_whose_commit_is_not_answered_takes_effect_once_and_is_answered() {
    let sandbox = Sandbox::new();
    let (proxy, server) = behind_proxy(&sandbox).await;
    let plain = sandbox.plain().await;
    let entries = plain.number("select count(*) from log", &[]).await;
    proxy.cut_next(Cut::AfterCommit);
    let submitted = server.namespace.submit(Draft::new("kind")).await.expect("the request is accepted");
    assert_eq!(proxy.cuts(), 1);
    assert!(!submitted.duplicate, "the caller gets the first answer");
    assert_eq!(submitted.execution.version, 1);
    assert_eq!(count(&plain).await, 1);
    assert_eq!(plain.number("select count(*) from log", &[]).await, entries + 1);
    assert_eq!(server.row(submitted.execution.id).await, submitted.execution);
    server.engine.shutdown().await;
}

#[tokio::test]
async fn a_submission_whose_commit_never_arrives_takes_effect_once() {
    let sandbox = Sandbox::new();
    let (proxy, server) = behind_proxy(&sandbox).await;
    let plain = sandbox.plain().await;
    proxy.cut_next(Cut::BeforeCommit);
    let submitted = server.namespace.submit(Draft::new("kind")).await.expect("the request is accepted");
    assert_eq!((proxy.cuts(), submitted.duplicate), (1, false));
    assert_eq!(count(&plain).await, 1);
    assert_eq!(ids(&server.claim("one", 9).await), [submitted.execution.id]);
    server.engine.shutdown().await;
}

#[tokio::test]
async fn a_transaction_whose_commit_never_arrives_has_no_effect() {
    let sandbox = Sandbox::new();
    let (proxy, server) = behind_proxy(&sandbox).await;
    let plain = sandbox.plain().await;
    let draft = Draft {
        tags: [("a".into(), "b".into())].into(),
        unique_while_active: Some("key".into()),
        ..Draft::new("kind")
    };
    let harness = Harness::new(server.engine.store().clone()).await;
    let submit = harness.submit_command(vec![draft]).await;
    let claim = harness.claim_command(&Worker::new("one"), 1);
    let id = submit.items[0].id;
    proxy.cut_next(Cut::BeforeCommit);
    let answer = run_rule(&harness.store, RulePair(submit, claim)).await;
    assert!(matches!(answer, Err(Error::Unavailable(_))));
    assert_eq!(proxy.cuts(), 1);
    sandbox.is_idle("proxied").await;
    assert!(!is_whole(&plain, id).await);
    server.engine.shutdown().await;
}

/// Sends a report whose commit is not answered, and repeats it: the second answer is what the first would have been.
async fn is_reported_once(op: selvedge_engine::core::rules::report::Op, state: StateName) {
    let sandbox = Sandbox::new();
    let (proxy, server) = behind_proxy(&sandbox).await;
    let id = server.submit(Draft::new("kind")).await;
    let fence = fence(&server.claim_one("one").await);
    proxy.cut_next(Cut::AfterCommit);
    let lost = server.namespace.report(vec![Ok((fence, None, op.clone()))], None).await;
    assert!(is_unavailable(lost), "the answer is lost");
    assert_eq!(proxy.cuts(), 1);
    let row = server.row(id).await;
    assert_eq!((row.state.name(), row.version), (state, 3));
    for _ in 0..2 {
        let reported = server.report(fence, op.clone()).await.expect("a repeated report is accepted");
        assert_eq!(reported.state, state);
        let until = row.due().map(|due| due.at).filter(|_| state == StateName::Delayed);
        assert_eq!(reported.delayed_until, until);
    }
    assert_eq!(server.row(id).await, row, "the repetitions changed nothing");
    server.engine.shutdown().await;
}

#[tokio::test]
async fn a_completion_whose_answer_was_lost_gets_the_same_answer_when_it_is_repeated() {
    is_reported_once(complete_op(), StateName::Completed).await;
}

#[tokio::test]
async fn a_failure_whose_answer_was_lost_counts_one_retry_and_gets_the_same_answer_when_it_is_repeated() {
    is_reported_once(fail_op(), StateName::Delayed).await;
}

#[tokio::test]
async fn a_completion_whose_commit_never_arrived_has_no_effect_and_can_be_repeated() {
    let sandbox = Sandbox::new();
    let (proxy, server) = behind_proxy(&sandbox).await;
    let id = server.submit(Draft::new("kind")).await;
    let fence = fence(&server.claim_one("one").await);
    proxy.cut_next(Cut::BeforeCommit);
    let lost = server.namespace.report(vec![Ok((fence, None, complete_op()))], None).await;
    assert!(is_unavailable(lost));
    let row = server.row(id).await;
    assert_eq!((proxy.cuts(), row.state.name(), row.version), (1, StateName::Active, 2));
    assert_eq!(server.stored(id).await.result, None);
    server.complete(fence).await.expect("the lease is still held");
    assert_eq!(server.attempts(id).await, [Some("completed")]);
    server.engine.shutdown().await;
}

#[tokio::test]
async fn a_keyed_submission_whose_answer_was_lost_returns_the_first_when_it_is_repeated() {
    let sandbox = Sandbox::new();
    let (proxy, server) = behind_proxy(&sandbox).await;
    let plain = sandbox.plain().await;
    let keyed = Draft { idempotency_key: Some("key".into()), ..Draft::new("kind") };
    let with_id = Draft { id: Some(uuid::Uuid::now_v7()), ..Draft::new("kind") };
    for (draft, cut) in [(keyed, Cut::AfterCommit), (with_id, Cut::AfterCommit)] {
        let before = count(&plain).await;
        proxy.cut_next(cut);
        let first = server.submit(draft.clone()).await;
        let repeated = server.namespace.submit(draft).await.expect("the request is accepted");
        assert_eq!((repeated.execution.id, repeated.duplicate), (first, true));
        assert_eq!(count(&plain).await, before + 1);
    }
    assert_eq!(proxy.cuts(), 2);
    server.engine.shutdown().await;
}

#[tokio::test]
async fn a_keyed_call_whose_answer_was_lost_gets_the_first_answer_when_it_is_repeated() {
    let sandbox = Sandbox::new();
    let (proxy, server) = behind_proxy(&sandbox).await;
    let plain = sandbox.plain().await;
    let call_key = |key: &str| Some(CallKey { key: Name::trusted(key), digest: 7 });
    proxy.cut_next(Cut::AfterCommit);
    let submit = async |namespace: &Namespace| {
        let drafts = vec![Ok(Draft::new("kind")), Ok(Draft::new("kind"))];
        let submitted =
            namespace.submit_many(drafts, call_key("submit")).await.expect("the call is answered");
        let submitted = submitted.into_iter().map(|one| one.expect("the request is accepted").execution.id);
        submitted.collect::<Vec<_>>()
    };
    let first = submit(&server.namespace).await;
    assert_eq!(submit(&server.namespace).await, first);
    assert_eq!(count(&plain).await, 2);

    let claim = || {
        let mut claim = claim_wait(claim_of("one", 1), Duration::ZERO);
        claim.call_key = call_key("claim");
        server.namespace.claim(claim)
    };
    proxy.cut_next(Cut::AfterCommit);
    assert!(is_unavailable(claim().await));
    let claimed = claim().await.expect("the call is answered");
    assert_eq!(ids(&claimed), [first[0]]);
    server.complete(fence(&claimed[0])).await.expect("the lease is held");
    assert_eq!(proxy.cuts(), 2);
    server.engine.shutdown().await;
}

#[tokio::test]
async fn a_statement_that_cannot_be_prepared_in_time_leaves_no_transaction_open() {
    let sandbox = Sandbox::new();
    let settings = Settings { writers: 1, lock_timeout: Duration::from_millis(50), ..sandbox.settings() };
    let store = sandbox.store_with("store", settings).await;
    let plain = sandbox.plain().await;
    let harness = Harness::new(store.clone()).await;
    let submit = harness.submit_command(vec![Draft::new("kind")]).await;
    // No other connection can even prepare a statement about the log, which is the last one of a transaction.
    plain.run("begin; lock table log in access exclusive mode").await;
    let answer = run_rule(&harness.store, submit).await;
    assert!(matches!(answer, Err(Error::Contended(_))), "the lock was in the way");
    sandbox.is_idle("store").await;
    plain.release().await;
    harness.submit(Draft::new("kind")).await;
    store.close().await;
}

#[tokio::test]
async fn terminated_connections_fail_only_the_calls_in_flight() {
    let sandbox = Sandbox::new();
    let server = sandbox.server("server").await;
    let plain = sandbox.plain().await;
    let id = server.submit(Draft::new("kind")).await;
    let fence = fence(&server.claim_one("one").await);
    let end_all = "select count(pg_terminate_backend(pid)) from pg_stat_activity where application_name = $1";
    let ended = plain.number(end_all, &[&format!("{}_server", sandbox.schema)]).await;
    assert!(ended > 0);
    // A lost connection may be noticed only when it is used.
    wait_until("the execution is completed", async || {
        let report = server.namespace.report(vec![Ok((fence, None, complete_op()))], None).await;
        assert!(report.is_ok() || is_unavailable(report.clone()), "{report:?}");
        report.is_ok()
    })
    .await;
    assert_eq!(server.state(id).await, StateName::Completed);
    assert_eq!(server.row(id).await.version, 3);
    assert!(server.row(id).await.ended_at > Some(Timestamp::default()));
    server.engine.shutdown().await;
}
