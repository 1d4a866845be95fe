//! Gates on several servers with different reconciler scopes, and budgets with many parts.

use crate::test_server::{TestServer, claim_of, fence, ids, operator, passive_options};
use crate::{manual_clock, memory_server, soon};
use selvedge_engine::core::amount::Amount;
use selvedge_engine::core::gate::{
    Amounts, BudgetScope, Config, GateKind, LaneState, Limit, OnHard, Rate, RequiredGates,
};
use selvedge_engine::core::rules::CallKey;
use selvedge_engine::core::rules::gates::budget::Spend;
use selvedge_engine::core::rules::report::Op;
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::{Draft, ExecutionId, Name};
use selvedge_engine::{ClaimWait, EventFilter, From, Options, ReconcilerScope};
use selvedge_memory::{Clock, MemoryStore};
use std::sync::Arc;
use std::time::Duration;

/// Starts two servers on one store, the second with these options.
async fn two_servers(options: Options) -> (TestServer, TestServer, Clock) {
    let clock = manual_clock();
    let store = Arc::new(MemoryStore::with_clock(clock.clone()));
    (TestServer::new(store.clone(), passive_options()).await, TestServer::new(store, options).await, clock)
}

fn tokens(count: u32) -> Amounts {
    [("tokens".to_owned(), Amount::whole(count))].into()
}

fn spending(budget: &str, reserve: u32) -> Draft {
    let budgets = vec![(Name::trusted(budget), tokens(reserve))];
    Draft { required_gates: RequiredGates { budgets, ..RequiredGates::default() }, ..Draft::new("kind") }
}

fn hard(limit: u32, scope: BudgetScope) -> Config {
    let limit = Limit { hard: Some(Amount::whole(limit)), soft: None };
    Config { limits: [("tokens".to_owned(), limit)].into(), scope, ..Config::default() }
}

async fn configure(server: &TestServer, kind: GateKind, name: &str, config: Config) {
    let configured = server.namespace.configure(kind, name, Some(config), &operator()).await;
    configured.expect("the gate is configured");
}

async fn spend(server: &TestServer, budget: &str, count: u32, by: Option<ExecutionId>) {
    server.namespace.spend(budget, tokens(count), None, by).await.expect("the spending is counted");
}

fn draining() -> Config {
    Config { state: LaneState::Draining, ..Config::default() }
}

#[tokio::test]
async fn a_lane_exists_once_another_server_has_accepted_a_submission_to_it() {
    let (one, other, _) = two_servers(passive_options()).await;
    one.submit(Draft { lane: "fresh".into(), ..Draft::new("kind") }).await;
    let view = other.namespace.gate(GateKind::Lane, "fresh").await.expect("the gate exists");
    assert_eq!((view.waiting, view.active), (1, 0));
    one.submit(Draft { lane: "fresh".into(), ..Draft::new("another kind") }).await;
    let view = other.namespace.gate(GateKind::Lane, "fresh").await.expect("the gate exists");
    assert_eq!(view.waiting, 2, "executions of a class that this server has not read are counted too");
    assert!(
        other.namespace.gate(GateKind::Lane, "none").await.is_err(),
        "nothing was submitted to this lane"
    );
}

#[tokio::test]
async fn reconcilers_scoped_to_a_tag_still_handle_all_gates_of_their_namespace() {
    let tag = Some(("team".to_owned(), "mine".to_owned()));
    let scope = ReconcilerScope { namespace: None, tag };
    let (one, tagged, clock) = two_servers(Options { scope, ..passive_options() }).await;
    let rate = Some(Rate { count: 1, window_ms: 1000 });
    configure(&one, GateKind::Quota, "calls", Config { rate, ..Config::default() }).await;
    let required_gates = RequiredGates { quotas: vec![Name::trusted("calls")], ..RequiredGates::default() };
    let all = one.submit_many(vec![Draft { required_gates, ..Draft::new("kind") }; 2]).await;
    assert_eq!(ids(&one.claim("one", 2).await), all[..1]);
    clock.advance_ms(1011);
    assert_eq!(tagged.tick("gate_release").await.done, 1);
    assert_eq!(ids(&one.claim("one", 2).await), all[1..]);

    let config = Config { on_hard: OnHard::Fail, ..hard(10, BudgetScope::Namespace) };
    configure(&one, GateKind::Budget, "month", config).await;
    let id = one.submit(spending("month", 1)).await;
    assert_eq!(ids(&one.claim("one", 2).await), [id]);
    spend(&one, "month", 10, None).await;
    tagged.tick("gate_release").await;
    assert_eq!(
        one.state(id).await,
        StateName::Failed,
        "a scope with a tag still stops all executions of the budget"
    );
    let elsewhere = one.engine.namespace("elsewhere").await.expect("the namespace is created");
    let scope = ReconcilerScope { namespace: Some(elsewhere.id()), tag: None };
    let elsewhere = TestServer::new(one.engine.store().clone(), Options { scope, ..passive_options() }).await;
    configure(
        &one,
        GateKind::Budget,
        "year",
        Config { period_ms: Some(10), ..hard(10, BudgetScope::Namespace) },
    )
    .await;
    spend(&one, "year", 10, None).await;
    clock.advance_ms(10);
    let tick = elsewhere.tick("budget_reset").await;
    assert_eq!((tick.filtered, tick.done), (0, 0), "gates of another namespace are out of scope");
}

#[tokio::test]
async fn executions_held_by_a_part_of_a_budget_are_released_when_its_scope_changes() {
    let (server, _) = memory_server().await;
    configure(&server, GateKind::Budget, "month", hard(10, BudgetScope::Flow)).await;
    let id = server.submit(spending("month", 1)).await;
    spend(&server, "month", 10, Some(id)).await;
    assert!(server.claim("one", 1).await.is_empty());
    assert_eq!(server.state(id).await, StateName::Held);
    configure(&server, GateKind::Budget, "month", hard(10, BudgetScope::Lane)).await;
    assert_eq!(ids(&server.claim("one", 1).await), [id], "its lane has spent nothing");
    spend(&server, "month", 10, Some(id)).await;
    let next = server.submit(spending("month", 1)).await;
    assert!(server.claim("one", 1).await.is_empty());
    configure(&server, GateKind::Budget, "month", hard(10, BudgetScope::Flow)).await;
    assert_eq!(ids(&server.claim("one", 1).await), [next], "its flow has spent nothing");
}

#[tokio::test]
async fn a_budget_with_many_parts_is_configured_and_reset_as_one() {
    let (server, _) = memory_server().await;
    configure(&server, GateKind::Budget, "month", hard(10, BudgetScope::Flow)).await;
    let all = server.submit_many(vec![spending("month", 1); 70]).await;
    for id in &all {
        spend(&server, "month", 10, Some(*id)).await;
    }
    assert!(server.claim("one", 100).await.is_empty());
    server.namespace.reset_budget("month", &operator()).await.expect("the budget is reset");
    let claimed = server.claim("one", 100).await;
    assert_eq!(claimed.len(), all.len());
    for one in &claimed {
        spend(&server, "month", 10, Some(one.execution.id)).await;
        server.report(fence(one), Op::Release).await.expect("the lease is released");
    }
    assert!(server.claim("one", 100).await.is_empty());
    configure(&server, GateKind::Budget, "month", hard(20, BudgetScope::Flow)).await;
    assert_eq!(server.claim("one", 100).await.len(), all.len());
}

#[tokio::test]
async fn a_waiting_heartbeat_returns_at_once_when_a_budget_ends_its_lease() {
    for on_hard in [OnHard::Suspend, OnHard::Fail] {
        let (server, _) = memory_server().await;
        configure(&server, GateKind::Budget, "month", Config { on_hard, ..hard(10, BudgetScope::Namespace) })
            .await;
        server.submit(spending("month", 1)).await;
        let lease = fence(&server.claim_one("one").await);
        let namespace = server.namespace.clone();
        let beat = tokio::spawn(async move {
            namespace
                .heartbeat("one", None, vec![lease], Duration::from_secs(60))
                .await
                .expect("the heartbeat is answered")
        });
        // The heartbeat waits once its session is renewed.
        crate::until("the heartbeat waits", async || {
            let workers = server.namespace.workers().await.expect("the workers are listed");
            workers.iter().flat_map(|worker| &worker.sessions).any(|session| session.renewed_at.is_some())
        })
        .await;
        spend(&server, "month", 10, None).await;
        server.tick("gate_release").await;
        let beat = tokio::time::timeout(Duration::from_secs(5), beat)
            .await
            .expect("the heartbeat returns before its next renewal");
        assert_eq!(beat.expect("the task does not panic").lost.len(), 1);
    }
}

#[tokio::test]
async fn a_server_that_has_never_read_a_lane_refuses_submissions_while_the_lane_drains() {
    let (one, other, _) = two_servers(Options { reconcilers: true, ..passive_options() }).await;
    one.submit(Draft::new("kind")).await;
    configure(&one, GateKind::Lane, "default", draining()).await;
    crate::until("the other server has read the lane", async || {
        other.namespace.submit(Draft::new("kind")).await.is_err()
    })
    .await;
    other.engine.shutdown().await;
}

#[tokio::test]
async fn a_keyed_submission_refused_by_a_draining_lane_is_accepted_when_retried_later() {
    let (server, _) = memory_server().await;
    configure(&server, GateKind::Lane, "default", draining()).await;
    let call_key = || Some(CallKey { key: Name::trusted("call"), digest: 7 });
    let submit = async || {
        let replies = server.namespace.submit_many(vec![Ok(Draft::new("kind"))], call_key()).await;
        replies.expect("the submissions are answered").remove(0)
    };
    assert_eq!(submit().await.expect_err("the lane drains").code(), "lane_draining");
    configure(&server, GateKind::Lane, "default", Config::default()).await;
    let first = submit().await.expect("an active lane accepts submissions");
    let again = submit().await.expect("the repeated call is answered");
    assert_eq!((first.duplicate, again.duplicate), (false, true));
    assert_eq!(first.execution.id, again.execution.id);
}

#[tokio::test]
async fn spending_by_an_execution_is_among_its_events() {
    let (server, _) = memory_server().await;
    configure(&server, GateKind::Budget, "month", hard(10, BudgetScope::Namespace)).await;
    let id = server.submit(spending("month", 1)).await;
    let lease = fence(&server.claim_one("one").await);
    let usage = Spend {
        namespace: server.namespace.id(),
        budget: Name::trusted("month"),
        usage: tokens(3),
        dedup_key: None,
        execution: Some(id),
    };
    server.report(lease, Op::Usage(usage)).await.expect("the spending is counted");
    spend(&server, "month", 3, None).await;
    let filter = EventFilter { execution: Some(id), ..EventFilter::default() };
    let page =
        soon(server.namespace.events(&filter, From::Beginning, 100)).await.expect("the events are read");
    let used = page.items.iter().filter(|event| event.kind == "budget.used").count();
    assert_eq!(used, 1, "its own spending and no other");
}

#[tokio::test]
async fn a_claim_behind_thousands_that_a_gate_refuses_takes_a_few_transactions() {
    let (server, _) = memory_server().await;
    let quota = |name: &str| {
        let quotas = vec![Name::trusted(name)];
        Draft { required_gates: RequiredGates { quotas, ..RequiredGates::default() }, ..Draft::new("kind") }
    };
    for (name, limit) in [("full", 1), ("free", 10)] {
        configure(&server, GateKind::Quota, name, Config { concurrency: Some(limit), ..Config::default() })
            .await;
    }
    server.submit(quota("full")).await;
    server.claim_one("first").await;
    for _ in 0..5 {
        server.submit_many(vec![quota("full"); 1000]).await;
    }
    let behind = server.submit(quota("free")).await;
    let before = server.engine.activity().0;
    let claim = ClaimWait { claim: claim_of("second", 1), wait: Duration::from_secs(20), call_key: None };
    let claimed = soon(server.namespace.claim(claim)).await.expect("the claim is answered");
    assert_eq!(ids(&claimed), [behind]);
    let transactions = server.engine.activity().0 - before;
    assert!(transactions <= 3, "{transactions} transactions: 5000 in front of it, 500 held in each");
}
