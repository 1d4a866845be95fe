//! Gates as several servers see them, whatever each of them looks after, and what a budget with many parts does as one.

use crate::side::{Side, fence, ids, operator, quiet};
use crate::{clock, on_memory, soon};
use selvedge_engine::core::amount::Amount;
use selvedge_engine::core::gate::{
    Amounts, BudgetScope, Config, Draws, GateKind, LaneState, Limit, OnHard, Rate,
};
use selvedge_engine::core::rules::Operation;
use selvedge_engine::core::rules::gates::budget::Spend;
use selvedge_engine::core::rules::report::Op;
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::{Draft, ExecutionId, Name};
use selvedge_engine::{EventFilter, From, Options, ReconcilerScope};
use selvedge_memory::{Clock, MemoryStore};
use std::sync::Arc;
use std::time::Duration;

/// Two servers on one store, the second with these options.
async fn two_servers(options: Options) -> (Side, Side, Clock) {
    let clock = clock();
    let store = Arc::new(MemoryStore::with_clock(clock.clone()));
    (Side::new(store.clone(), quiet()).await, Side::new(store, options).await, clock)
}

fn tokens(count: u32) -> Amounts {
    [("tokens".to_owned(), Amount::whole(count))].into()
}

fn spending(budget: &str, reserve: u32) -> Draft {
    let budgets = vec![(Name::trusted(budget), tokens(reserve))];
    Draft { draws: Draws { budgets, ..Draws::default() }, ..Draft::new("kind") }
}

fn hard(limit: u32, scope: BudgetScope) -> Config {
    let limit = Limit { hard: Some(Amount::whole(limit)), soft: None };
    Config { limits: [("tokens".to_owned(), limit)].into(), scope, ..Config::default() }
}

async fn configure(side: &Side, kind: GateKind, name: &str, config: Config) {
    let configured = side.namespace.configure(kind, name, Some(config), &operator()).await;
    configured.expect("it is configured");
}

async fn spend(side: &Side, budget: &str, count: u32, by: Option<ExecutionId>) {
    side.namespace.spend(budget, tokens(count), None, by).await.expect("it is counted");
}

fn draining() -> Config {
    Config { state: LaneState::Draining, ..Config::default() }
}

#[tokio::test]
async fn a_lane_to_which_something_was_submitted_through_another_server_is_there() {
    let (one, other, _) = two_servers(quiet()).await;
    one.submit(Draft { lane: "fresh".into(), ..Draft::new("kind") }).await;
    let view = other.namespace.gate(GateKind::Lane, "fresh").await.expect("it is there");
    assert_eq!((view.waiting, view.active), (1, 0));
    one.submit(Draft { lane: "fresh".into(), ..Draft::new("another kind") }).await;
    let view = other.namespace.gate(GateKind::Lane, "fresh").await.expect("it is there");
    assert_eq!(view.waiting, 2, "what is of a class that this server has not met is counted too");
    assert!(other.namespace.gate(GateKind::Lane, "none").await.is_err(), "nothing was submitted to this one");
}

#[tokio::test]
async fn reconcilers_that_look_after_one_tag_look_at_the_gates_of_their_namespace_all_the_same() {
    let tag = Some(("team".to_owned(), "mine".to_owned()));
    let scope = ReconcilerScope { namespace: None, tag };
    let (one, tagged, clock) = two_servers(Options { scope, ..quiet() }).await;
    let rate = Some(Rate { count: 1, window_ms: 1000 });
    configure(&one, GateKind::Quota, "calls", Config { rate, ..Config::default() }).await;
    let draws = Draws { quotas: vec![Name::trusted("calls")], ..Draws::default() };
    let all = one.submit_many(vec![Draft { draws, ..Draft::new("kind") }; 2]).await;
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
    assert_eq!(one.state(id).await, StateName::Failed, "whoever stops what runs stops all of it");
    let elsewhere = one.engine.namespace("elsewhere").await.expect("it is there");
    let scope = ReconcilerScope { namespace: Some(elsewhere.id()), tag: None };
    let elsewhere = Side::new(one.engine.store().clone(), Options { scope, ..quiet() }).await;
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
    assert_eq!((tick.filtered, tick.done), (1, 0), "the gates of another namespace are not its own");
}

#[tokio::test]
async fn what_a_flows_part_of_a_budget_holds_goes_on_when_the_budget_counts_lanes_instead() {
    let (side, _) = on_memory().await;
    configure(&side, GateKind::Budget, "month", hard(10, BudgetScope::Flow)).await;
    let id = side.submit(spending("month", 1)).await;
    spend(&side, "month", 10, Some(id)).await;
    assert!(side.claim("one", 1).await.is_empty());
    assert_eq!(side.state(id).await, StateName::Held);
    configure(&side, GateKind::Budget, "month", hard(10, BudgetScope::Lane)).await;
    assert_eq!(ids(&side.claim("one", 1).await), [id], "nothing was spent by its lane");
    spend(&side, "month", 10, Some(id)).await;
    let next = side.submit(spending("month", 1)).await;
    assert!(side.claim("one", 1).await.is_empty());
    configure(&side, GateKind::Budget, "month", hard(10, BudgetScope::Flow)).await;
    assert_eq!(ids(&side.claim("one", 1).await), [next], "nothing was spent by its flow");
}

#[tokio::test]
async fn a_budget_of_many_parts_is_configured_and_set_back_as_one() {
    let (side, _) = on_memory().await;
    configure(&side, GateKind::Budget, "month", hard(10, BudgetScope::Flow)).await;
    let all = side.submit_many(vec![spending("month", 1); 70]).await;
    for id in &all {
        spend(&side, "month", 10, Some(*id)).await;
    }
    assert!(side.claim("one", 100).await.is_empty());
    side.namespace.reset_budget("month", &operator()).await.expect("it is set back");
    let claimed = side.claim("one", 100).await;
    assert_eq!(claimed.len(), all.len());
    for one in &claimed {
        spend(&side, "month", 10, Some(one.execution.id)).await;
        side.report(fence(one), Op::Release).await.expect("it is put back");
    }
    assert!(side.claim("one", 100).await.is_empty());
    configure(&side, GateKind::Budget, "month", hard(20, BudgetScope::Flow)).await;
    assert_eq!(side.claim("one", 100).await.len(), all.len());
}

#[tokio::test]
async fn a_worker_that_waits_learns_at_once_that_a_budget_has_ended_its_lease() {
    for on_hard in [OnHard::Suspend, OnHard::Fail] {
        let (side, _) = on_memory().await;
        configure(&side, GateKind::Budget, "month", Config { on_hard, ..hard(10, BudgetScope::Namespace) })
            .await;
        side.submit(spending("month", 1)).await;
        let lease = fence(&side.claim_one("one").await);
        let namespace = side.namespace.clone();
        let beat = tokio::spawn(async move {
            namespace.heartbeat("one", vec![lease], Duration::from_secs(60)).await.expect("it is answered")
        });
        // It waits once its session is renewed.
        crate::until("it waits", async || {
            let workers = side.namespace.workers().await.expect("they are listed");
            workers.iter().flat_map(|worker| &worker.sessions).any(|session| session.renewed_at.is_some())
        })
        .await;
        spend(&side, "month", 10, None).await;
        side.tick("gate_release").await;
        let beat = tokio::time::timeout(Duration::from_secs(5), beat)
            .await
            .expect("it does not wait for its next look");
        assert_eq!(beat.expect("it does not panic").lost.len(), 1);
    }
}

#[tokio::test]
async fn a_server_that_has_never_seen_a_lane_takes_nothing_new_for_it_while_it_drains() {
    let (one, other, _) = two_servers(Options { reconcilers: true, ..quiet() }).await;
    one.submit(Draft::new("kind")).await;
    configure(&one, GateKind::Lane, "default", draining()).await;
    crate::until("it has heard of it", async || other.namespace.submit(Draft::new("kind")).await.is_err())
        .await;
    other.engine.shutdown().await;
}

#[tokio::test]
async fn a_keyed_submission_that_a_draining_lane_refuses_is_taken_when_it_is_made_again_later() {
    let (side, _) = on_memory().await;
    configure(&side, GateKind::Lane, "default", draining()).await;
    let operation = || Some(Operation { key: Name::trusted("call"), digest: 7 });
    let submit = async || {
        let replies = side.namespace.submit_many(vec![Ok(Draft::new("kind"))], operation()).await;
        replies.expect("they are answered").remove(0)
    };
    assert_eq!(submit().await.expect_err("it drains").code(), "lane_draining");
    configure(&side, GateKind::Lane, "default", Config::default()).await;
    let first = submit().await.expect("it takes something new");
    let again = submit().await.expect("it is the same call");
    assert_eq!((first.duplicate, again.duplicate), (false, true));
    assert_eq!(first.execution.id, again.execution.id);
}

#[tokio::test]
async fn what_an_execution_spent_is_found_among_its_events() {
    let (side, _) = on_memory().await;
    configure(&side, GateKind::Budget, "month", hard(10, BudgetScope::Namespace)).await;
    let id = side.submit(spending("month", 1)).await;
    let lease = fence(&side.claim_one("one").await);
    let usage = Spend {
        namespace: side.namespace.id(),
        budget: Name::trusted("month"),
        usage: tokens(3),
        dedup_key: None,
        execution: Some(id),
    };
    side.report(lease, Op::Usage(usage)).await.expect("it is counted");
    spend(&side, "month", 3, None).await;
    let filter = EventFilter { execution: Some(id), ..EventFilter::default() };
    let page = soon(side.namespace.events(&filter, From::Beginning, 100)).await.expect("they are read");
    let used = page.items.iter().filter(|event| event.kind == "budget.used").count();
    assert_eq!(used, 1, "its own, and not what somebody else spent");
}
