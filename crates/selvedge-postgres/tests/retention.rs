//! Retention leaves nothing of an execution in any table.

mod support;

use selvedge_engine::core::rules::operator::Action;
use selvedge_engine::core::rules::report::Op;
use selvedge_engine::core::rules::signal::SignalDraft;
use selvedge_engine::core::rules::step::StepDraft;
use selvedge_engine::core::rules::waitpoint::WaitpointDraft;
use selvedge_engine::core::step::StepKind;
use selvedge_engine::core::stream::{FrameKind, FrameMode};
use selvedge_engine::core::{Draft, Name, Policy};
use support::test_server::fence;
use support::{Sandbox, until};

const TABLES: [&str; 9] = [
    "select count(*) from executions where id = $1",
    "select count(*) from tags where execution = $1",
    "select count(*) from keys where execution = $1",
    "select count(*) from history_pages where execution = $1",
    "select count(*) from streams where execution = $1",
    "select count(*) from frames where execution = $1",
    "select count(*) from signals where execution = $1",
    "select count(*) from steps where execution = $1",
    "select count(*) from waitpoints where execution = $1",
];

#[tokio::test]
async fn an_execution_that_was_kept_long_enough_leaves_every_table_and_nothing_else_does() {
    let sandbox = Sandbox::new();
    let (side, plain) = (sandbox.side("side").await, sandbox.plain().await);
    let with_everything = |key: &str, retention_ms| Draft {
        tags: [("a".into(), "b".into())].into(),
        unique_while_active: Some(key.into()),
        policy: Policy { retention_ms, ..Policy::default() },
        ..Draft::new("kind")
    };
    let mut ids = Vec::new();
    for (key, retention_ms) in [("short", 1), ("long", 60_000)] {
        let id = side.submit(with_everything(key, retention_ms)).await;
        for round in 0..60 {
            let set = [("note".to_string(), format!("{round:0400}"))].into();
            side.operate(id, Action::Tag { set, remove: vec![] }).await.expect("it is tagged");
        }
        let lease = fence(&side.claim_one("one").await);
        let frame = Op::Frame { kind: FrameKind::Stdout, mode: FrameMode::Durable, data: "1".into() };
        side.report(lease, frame).await.expect("it is appended");
        let name = Name::trusted("name");
        let step = StepDraft { name: name.clone(), kind: StepKind::Step, result: "1".into(), duration_ms: 0 };
        side.report(lease, Op::Step(step)).await.expect("it is recorded");
        let waitpoint = side.namespace.waitpoint(WaitpointDraft::new(name.clone()));
        side.report(lease, waitpoint).await.expect("it is made");
        let signal = SignalDraft { name: Some("name".into()), payload: "1".into(), key: None };
        side.namespace.signal(id, signal, &name).await.expect("it is delivered");
        side.complete(lease).await.expect("it holds the lease");
        ids.push(id);
    }
    for id in &ids {
        for table in TABLES {
            assert!(plain.number(table, &[&id.0]).await > 0, "{table}");
        }
    }
    until("it is deleted", async || side.tick("retention").await.done == 1).await;
    for table in TABLES {
        assert_eq!(plain.number(table, &[&ids[0].0]).await, 0, "{table}");
        assert!(plain.number(table, &[&ids[1].0]).await > 0, "{table}");
    }
    assert!(side.is_deleted(ids[0]).await);
    let again = side.namespace.submit(with_everything("short", 1)).await.expect("it is accepted");
    assert!(!again.duplicate, "its key is free");
    side.engine.shutdown().await;
}
