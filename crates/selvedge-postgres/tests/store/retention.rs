//! Retention deletes an execution from every table.

use selvedge_engine::Options;
use selvedge_engine::core::rules::operator::Action;
use selvedge_engine::core::rules::report::Op;
use selvedge_engine::core::rules::signal::SignalDraft;
use selvedge_engine::core::rules::step::StepDraft;
use selvedge_engine::core::rules::waitpoint::WaitpointDraft;
use selvedge_engine::core::step::StepKind;
use selvedge_engine::core::stream::{FrameKind, FrameMode};
use selvedge_engine::core::{Draft, Name, Policy};
use selvedge_system_tests::server::{Server, complete_op, fence};
use selvedge_system_tests::{Sandbox, wait_until};
use std::time::{Duration, Instant};

const TABLES: [&str; 9] = [
    "select count(*) from executions where id = $1",
    "select count(*) from tags where execution = $1",
    "select count(*) from keys where subject = $1",
    "select count(*) from history_pages where execution = $1",
    "select count(*) from streams where execution = $1",
    "select count(*) from frames where execution = $1",
    "select count(*) from signals where execution = $1",
    "select count(*) from steps where execution = $1",
    "select count(*) from waitpoints where execution = $1",
];

#[tokio::test]
async fn an_execution_past_its_retention_is_deleted_from_every_table_and_no_other_is() {
    let sandbox = Sandbox::new();
    let (server, plain) = (sandbox.server("server").await, sandbox.plain().await);
    let with_everything = |key: &str, retention_ms| Draft {
        tags: [("a".into(), "b".into())].into(),
        unique_while_active: Some(key.into()),
        policy: Policy { retention_ms, ..Policy::default() },
        ..Draft::new("kind")
    };
    let mut ids = Vec::new();
    for (key, retention_ms) in [("short", 1), ("long", 60_000)] {
        let id = server.submit(with_everything(key, retention_ms)).await;
        for round in 0..60 {
            let set = [("note".to_string(), format!("{round:0400}"))].into();
            server.operate(id, Action::Tag { set, remove: vec![] }).await.expect("the tag is set");
        }
        let lease = fence(&server.claim_one("one").await);
        let frame = Op::Frame {
            kind: FrameKind::Stdout,
            mode: FrameMode::Durable,
            data: "1".into(),
            correlation_id: None,
        };
        server.report(lease, frame).await.expect("the frame is appended");
        let name = Name::trusted("name");
        let step = StepDraft { name: name.clone(), kind: StepKind::Step, result: "1".into(), duration_ms: 0 };
        server.report(lease, Op::Step(step)).await.expect("the step is recorded");
        let waitpoint = server.namespace.waitpoint(WaitpointDraft::new(name.clone()));
        server.report(lease, waitpoint).await.expect("the waitpoint is created");
        let signal = SignalDraft { name: Some("name".into()), payload: "1".into(), key: None };
        server.namespace.signal(id, signal, &name).await.expect("the signal is delivered");
        server.complete(lease).await.expect("the lease is held");
        ids.push(id);
    }
    for id in &ids {
        for table in TABLES {
            assert!(plain.number(table, &[&id.0]).await > 0, "{table}");
        }
    }
    wait_until("the execution is deleted", async || server.tick("retention").await.done == 1).await;
    for table in TABLES {
        assert_eq!(plain.number(table, &[&ids[0].0]).await, 0, "{table}");
        assert!(plain.number(table, &[&ids[1].0]).await > 0, "{table}");
    }
    assert!(server.is_deleted(ids[0]).await);
    let again = server.namespace.submit(with_everything("short", 1)).await.expect("the request is accepted");
    assert!(!again.duplicate, "its key can be used again");
    server.engine.shutdown().await;
}

#[tokio::test]
async fn a_tick_deletes_expired_keys_and_unseen_sessions_page_by_page_until_none_is_left() {
    let sandbox = Sandbox::new();
    let (server, plain) = (sandbox.server("server").await, sandbox.plain().await);
    plain
        .run(
            "insert into keys
             select 1, 3, 'key' || n, null, 0, '', now() - interval '1 s' from generate_series(1, 20000) as n;
             insert into keys values (1, 3, 'kept', null, 0, '', now() + interval '1 h');
             insert into sessions (
               id, namespace, worker, instance, ttl_ms, lanes, kinds, capabilities, registered_at, seen_at, renewed_at,
               draining
             )
             select n, 1, 'worker', 'instance' || n, 30000, '{default}', null, '{}', now() - interval '3 h',
               now() - case when n <= 3000 then interval '2 h' else interval '1 s' end, null, false
             from generate_series(1, 3001) as n;",
        )
        .await;
    // A tick has a limit of time, which a busy machine may reach.
    let mut ticks = 0;
    while plain.number("select count(*) from keys", &[]).await > 1 {
        server.tick("retention").await;
        ticks += 1;
    }
    assert!(ticks <= 3, "{ticks} ticks for ten pages of keys");
    let mut ticks = 0;
    while plain.number("select count(*) from sessions", &[]).await > 1 {
        server.tick("worker_liveness").await;
        ticks += 1;
    }
    assert!(ticks <= 3, "{ticks} ticks for the sessions");
    server.engine.shutdown().await;
}

/// Submits, claims and completes executions with a short retention, as fast as the server can. Returns their number.
async fn churn(server: &Server, instance: &str, until: Instant) -> usize {
    let draft = Draft { policy: Policy { retention_ms: 1, ..Policy::default() }, ..Draft::new("kind") };
    let mut created = 0;
    while Instant::now() < until {
        created += server.submit_many(vec![draft.clone(); 50]).await.len();
        let claimed = server.claim(instance, 50).await;
        let completions = claimed.iter().map(|one| Ok((fence(one), None, complete_op()))).collect();
        let (results, _) = server.namespace.report(completions, None).await.expect("the report is answered");
        assert!(results.iter().all(Result::is_ok), "the leases are held");
    }
    created
}

#[tokio::test]
async fn slow_executions_are_deleted_at_least_half_as_fast_as_they_are_created_under_full_load() {
    let sandbox = Sandbox::new();
    let server = sandbox.server_with("server", Options::default()).await;
    let plain = sandbox.plain().await;
    let until = Instant::now() + Duration::from_secs(10);
    let churns = ["a", "b", "c", "d"].map(|instance| churn(&server, instance, until));
    let created: usize = futures_util::future::join_all(churns).await.into_iter().sum();
    let left = plain.number("select count(*) from executions", &[]).await as usize;
    println!("{created} created, {} deleted meanwhile", created - left);
    assert!(left * 2 <= created, "{created} were created and {left} are left");
    server.engine.shutdown().await;
}
