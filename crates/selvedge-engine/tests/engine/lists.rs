//! Lists and bulk actions.

use crate::memory_server;
use crate::test_server::{self, TestServer, fence};
use selvedge_engine::core::filter::{Filter, Payloads};
use selvedge_engine::core::rules::operator::Action;
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::{Draft, ExecutionId};
use selvedge_engine::{Bulk, BulkTarget};

/// Lists all matching executions, page by page.
async fn list_all(server: &TestServer, filter: &Filter, limit: u32) -> Vec<ExecutionId> {
    let (mut ids, mut after) = (Vec::new(), None);
    loop {
        let (page, next) =
            server.namespace.list(filter, after, limit, Payloads::NONE).await.expect("executions are listed");
        assert!(page.len() <= limit as usize);
        ids.extend(page.iter().map(|view| view.stored.execution.id));
        after = next;
        if after.is_none() {
            return ids;
        }
    }
}

#[tokio::test]
async fn a_list_returns_the_matching_executions_newest_first_page_by_page() {
    let (server, clock) = memory_server().await;
    let mut submitted = Vec::new();
    for number in 0..10 {
        let lane = if number % 2 == 0 { "even" } else { "odd" };
        submitted.push(server.submit(Draft { lane: lane.into(), ..Draft::new("kind") }).await);
        clock.advance_ms(1);
    }
    submitted.reverse();
    let all = Filter::all(server.namespace.id());
    for limit in [1, 3, 10, 50] {
        assert_eq!(list_all(&server, &all, limit).await, submitted);
    }
    let odd = server.namespace.filter(Some("odd"), None).await.expect("the filter is valid");
    let expected: Vec<ExecutionId> = submitted.iter().step_by(2).copied().collect();
    assert_eq!(list_all(&server, &odd, 2).await, expected);
    server.cancel(submitted[0]).await.expect("the execution is cancelled");
    let cancelled = Filter { states: vec![StateName::Cancelled], ..all.clone() };
    assert_eq!(list_all(&server, &cancelled, 2).await, submitted[..1]);
    assert_eq!(server.namespace.count(&all, 100).await.expect("the executions are counted"), 10);
    let unknown = server.namespace.filter(Some("unused"), None).await.expect("the filter is valid");
    assert!(list_all(&server, &unknown, 2).await.is_empty());
    let elsewhere = server.engine.namespace("elsewhere").await.expect("the namespace is created");
    let theirs = Filter::all(elsewhere.id());
    assert!(
        elsewhere.list(&theirs, None, 9, Payloads::NONE).await.expect("executions are listed").0.is_empty()
    );
    assert!(elsewhere.get(submitted[0]).await.is_err(), "executions of another namespace are not found");
}

#[tokio::test]
async fn a_bulk_action_applies_to_each_execution_that_allows_it_and_a_dry_run_changes_nothing() {
    let (server, _) = memory_server().await;
    let submitted = server.submit_many(vec![Draft::new("kind"); 5]).await;
    let lease = fence(&server.claim_one("one").await);
    server.complete(lease).await.expect("the lease is current");
    let cancel = Action::Cancel { reason: None, grace_ms: 0 };
    let bulk = |dry_run| {
        let target = BulkTarget::Filter(Box::new(Filter::all(server.namespace.id())));
        Bulk { action: cancel.clone(), target, dry_run }
    };
    let preview = server
        .namespace
        .bulk(bulk(true), &test_server::operator())
        .await
        .expect("the bulk action is answered");
    assert_eq!((preview.matched(), preview.changed.len(), preview.refused.len()), (5, 4, 1));
    assert_eq!(server.state(submitted[4]).await, StateName::Waiting);
    let applied = server
        .namespace
        .bulk(bulk(false), &test_server::operator())
        .await
        .expect("the bulk action is answered");
    assert_eq!((applied.matched(), applied.changed.len(), applied.refused.len()), (5, 4, 1));
    assert_eq!(applied.refused[0].0, lease.execution);
    let unknown = ExecutionId(uuid::Uuid::from_u128(7));
    let ids = vec![submitted[0], unknown, submitted[1]];
    let replay = Bulk { action: Action::Replay, target: BulkTarget::Ids(ids), dry_run: false };
    let replayed =
        server.namespace.bulk(replay, &test_server::operator()).await.expect("the bulk action is answered");
    assert_eq!((replayed.matched(), replayed.changed.len(), replayed.not_found), (2, 2, vec![unknown]));
    assert_eq!(server.state(submitted[0]).await, StateName::Waiting);
}
