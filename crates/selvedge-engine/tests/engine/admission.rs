//! Admission through the engine: lanes, concurrency keys, quotas and budgets hold executions and release them.

use crate::test_server::{TestServer, claim_of, fence, ids, operator};
use crate::{memory_server, soon};
use selvedge_engine::core::amount::Amount;
use selvedge_engine::core::gate::{
    Adoption, Amounts, Config, GateKind, LaneState, Limit, OnHard, Rate, RequiredGates,
};
use selvedge_engine::core::rules::gates::budget::Spend;
use selvedge_engine::core::rules::report::Op;
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::{Draft, Name};

fn keyed(key: &str, limit: u32) -> Draft {
    let concurrency = Some((Name::trusted(key), limit));
    Draft { required_gates: RequiredGates { concurrency, ..RequiredGates::default() }, ..Draft::new("kind") }
}

fn drawing(quota: &str) -> Draft {
    Draft {
        required_gates: RequiredGates { quotas: vec![Name::trusted(quota)], ..RequiredGates::default() },
        ..Draft::new("kind")
    }
}

async fn lane(server: &TestServer, config: Config) {
    let configured = server.namespace.configure(GateKind::Lane, "default", Some(config), &operator()).await;
    configured.expect("the gate is configured");
}

async fn quota(server: &TestServer, name: &str, config: Config) {
    let configured = server.namespace.configure(GateKind::Quota, name, Some(config), &operator()).await;
    configured.expect("the gate is configured");
}

#[tokio::test]
async fn a_paused_lane_admits_nothing_and_changes_no_row_until_it_is_active_again() {
    let (server, _) = memory_server().await;
    let id = server.submit(Draft::new("kind")).await;
    lane(&server, Config { state: LaneState::Paused, ..Config::default() }).await;
    assert!(server.claim("one", 5).await.is_empty());
    assert_eq!(server.row(id).await.version, 1);
    let waiting = server.claim_waiting(claim_of("one", 5), 1).await;
    lane(&server, Config::default()).await;
    assert_eq!(ids(&soon(waiting).await.expect("the task does not panic")), [id]);
}

#[tokio::test]
async fn a_lane_never_exceeds_its_concurrency_and_wakes_a_claim_when_an_execution_ends() {
    let (server, _) = memory_server().await;
    lane(&server, Config { concurrency: Some(2), ..Config::default() }).await;
    server.submit_many(vec![Draft::new("kind"); 5]).await;
    let first = server.claim("one", 10).await;
    assert_eq!(first.len(), 2);
    assert!(server.claim("one", 10).await.is_empty());
    let waiting = server.claim_waiting(claim_of("two", 10), 1).await;
    server.complete(fence(&first[0])).await.expect("the lease is current");
    assert_eq!(soon(waiting).await.expect("the task does not panic").len(), 1);
    assert_eq!(
        server.namespace.gate(GateKind::Lane, "default").await.expect("the gate exists").gate.active,
        2
    );
}

#[tokio::test]
async fn a_lane_starts_no_more_executions_per_window_than_its_rate() {
    let (server, clock) = memory_server().await;
    lane(&server, Config { rate: Some(Rate { count: 3, window_ms: 1000 }), ..Config::default() }).await;
    server.submit_many(vec![Draft::new("kind"); 9]).await;
    assert_eq!(server.claim("one", 10).await.len(), 3);
    assert!(server.claim("one", 10).await.is_empty());
    clock.advance_ms(1011);
    assert_eq!(server.claim("one", 10).await.len(), 3);
}

#[tokio::test]
async fn executions_refused_by_a_concurrency_key_are_held_and_released_when_an_execution_ends() {
    let (server, _) = memory_server().await;
    let same_key = server.submit_many(vec![keyed("tenant-a", 1); 3]).await;
    let other_key = server.submit(keyed("tenant-b", 1)).await;
    let claimed = server.claim("one", 10).await;
    assert_eq!(ids(&claimed), [same_key[0], other_key]);
    assert_eq!(server.state(same_key[1]).await, StateName::Held);
    assert_eq!(server.state(same_key[2]).await, StateName::Held);
    server.complete(fence(&claimed[0])).await.expect("the lease is current");
    assert_eq!(server.state(same_key[1]).await, StateName::Waiting);
    assert_eq!(server.state(same_key[2]).await, StateName::Held);
    let next = server.claim("one", 10).await;
    assert_eq!(ids(&next), [same_key[1]]);
    server.complete(fence(&next[0])).await.expect("the lease is current");
    assert_eq!(ids(&server.claim("one", 10).await), [same_key[2]]);
}

#[tokio::test]
async fn a_held_execution_is_handed_over_to_a_waiting_claim_by_the_commit_that_releases_it() {
    let (server, _) = memory_server().await;
    let same_key = server.submit_many(vec![keyed("tenant", 1); 2]).await;
    let claimed = server.claim("one", 10).await;
    assert_eq!(claimed.len(), 1);
    let waiting = server.claim_waiting(claim_of("two", 1), 1).await;
    server.complete(fence(&claimed[0])).await.expect("the lease is current");
    assert_eq!(ids(&soon(waiting).await.expect("the task does not panic")), [same_key[1]]);
}

#[tokio::test]
async fn a_quota_limits_its_executions_and_releases_them_when_its_window_has_room() {
    let (server, clock) = memory_server().await;
    quota(&server, "calls", Config { rate: Some(Rate { count: 2, window_ms: 1000 }), ..Config::default() })
        .await;
    let all = server.submit_many(vec![drawing("calls"); 5]).await;
    assert_eq!(ids(&server.claim("one", 10).await), all[..2]);
    assert_eq!(server.state(all[4]).await, StateName::Held);
    assert_eq!(server.tick("gate_release").await.done, 0);
    clock.advance_ms(1011);
    assert_eq!(server.tick("gate_release").await.done, 1);
    assert_eq!(ids(&server.claim("one", 10).await), all[2..4]);
    quota(&server, "calls", Config::default()).await;
    assert_eq!(ids(&server.claim("one", 10).await), all[4..]);
}

#[tokio::test]
async fn every_end_of_an_attempt_gives_its_slots_back() {
    let (server, clock) = memory_server().await;
    quota(&server, "few", Config { concurrency: Some(1), ..Config::default() }).await;
    for end in 0..4 {
        let id = server.submit(drawing("few")).await;
        let claimed = server.claim_with_short_lease("one").await;
        assert_eq!(claimed.execution.id, id);
        match end {
            0 => drop(server.complete(fence(&claimed)).await.expect("the lease is current")),
            1 => drop(server.cancel(id).await.expect("the execution is cancelled")),
            2 => {
                clock.advance_ms(600);
                assert_eq!(server.tick("lease_expiry").await.done, 1);
                server.cancel(id).await.expect("the execution is cancelled");
            }
            _ => {
                let op = server.namespace.suspend(
                    vec![selvedge_engine::core::suspension::WaitDraft::new(
                        selvedge_engine::core::suspension::Condition::operator(),
                    )],
                    vec![],
                );
                server.report(fence(&claimed), op).await.expect("the execution is suspended");
            }
        }
        assert_eq!(
            server.namespace.gate(GateKind::Quota, "few").await.expect("the gate exists").gate.active,
            0
        );
    }
}

#[tokio::test]
async fn lanes_share_claims_by_weight() {
    let (server, _) = memory_server().await;
    for (name, weight) in [("a", 3), ("b", 1)] {
        let config = Config { weight: Some(weight), ..Config::default() };
        server
            .namespace
            .configure(GateKind::Lane, name, Some(config), &operator())
            .await
            .expect("the gate is configured");
        server.submit_many(vec![Draft { lane: name.into(), ..Draft::new("kind") }; 100]).await;
    }
    let mut of_a = 0;
    for _ in 0..40 {
        let mut claim = claim_of("one", 1);
        claim.lanes = vec!["a".into(), "b".into()];
        let claimed = server.claim_as(claim).await;
        let view = server.namespace.get(claimed[0].execution.id).await.expect("the execution exists");
        of_a += u32::from(view.class.lane.as_str() == "a");
    }
    assert_eq!(of_a, 30);
}

fn amounts(list: &[(&str, u32)]) -> Amounts {
    list.iter().map(|(name, count)| (name.to_string(), Amount::whole(*count))).collect()
}

fn spending(budget: &str, reserve: u32) -> Draft {
    let budgets = vec![(Name::trusted(budget), amounts(&[("tokens", reserve)]))];
    Draft { required_gates: RequiredGates { budgets, ..RequiredGates::default() }, ..Draft::new("kind") }
}

fn hard(limit: u32) -> Config {
    let limit = Limit { hard: Some(Amount::whole(limit)), soft: None };
    Config { limits: [("tokens".to_string(), limit)].into(), ..Config::default() }
}

async fn budget(server: &TestServer, name: &str, config: Config) {
    let configured = server.namespace.configure(GateKind::Budget, name, Some(config), &operator()).await;
    configured.expect("the gate is configured");
}

/// Returns the used and the reserved tokens of a budget.
async fn used_and_reserved(server: &TestServer, name: &str) -> (Option<Amount>, Option<Amount>) {
    let gate = server.namespace.gate(GateKind::Budget, name).await.expect("the gate exists").gate;
    let tokens = |amounts: &Amounts| amounts.get("tokens").copied();
    (tokens(&gate.state.used), tokens(&gate.state.reserved))
}

#[tokio::test]
async fn a_budget_reserves_at_the_claim_and_settles_with_the_amounts_spent() {
    let (server, _) = memory_server().await;
    budget(&server, "month", hard(100)).await;
    let all = server.submit_many(vec![spending("month", 40); 4]).await;
    let claimed = server.claim("one", 10).await;
    assert_eq!(ids(&claimed), all[..2]);
    assert_eq!(used_and_reserved(&server, "month").await, (None, Some(Amount::whole(80))));
    assert_eq!(server.state(all[2]).await, StateName::Held);
    let spend = Spend {
        namespace: server.namespace.id(),
        budget: Name::trusted("month"),
        usage: amounts(&[("tokens", 10)]),
        dedup_key: Some(Name::trusted("call-1")),
        execution: Some(all[0]),
    };
    for _ in 0..2 {
        server
            .report(fence(&claimed[0]), Op::Usage(spend.clone()))
            .await
            .expect("the usage report is accepted");
    }
    server.complete(fence(&claimed[0])).await.expect("the lease is current");
    assert_eq!(used_and_reserved(&server, "month").await, (Some(Amount::whole(10)), Some(Amount::whole(40))));
    let next = server.claim("one", 10).await;
    assert_eq!(ids(&next), all[2..3]);
    assert_eq!(server.state(all[3]).await, StateName::Held);
    let late = Spend { dedup_key: None, ..spend };
    server
        .report(fence(&claimed[0]), Op::Usage(late))
        .await
        .expect("usage may be reported after the attempt has ended");
    assert_eq!(used_and_reserved(&server, "month").await.0, Some(Amount::whole(20)));
    let spent_by = server.namespace.spent_by(all[0]).await.expect("the ledger is read");
    assert_eq!(spent_by[0].entry.spent, amounts(&[("tokens", 20)]));
    budget(&server, "month", hard(1000)).await;
    assert_eq!(ids(&server.claim("one", 10).await), all[3..]);
}

#[tokio::test]
async fn a_zero_budget_admits_nothing_and_a_reset_releases_held_executions() {
    let (server, clock) = memory_server().await;
    budget(&server, "none", hard(0)).await;
    let id = server.submit(spending("none", 0)).await;
    assert!(server.claim("one", 10).await.is_empty());
    assert_eq!(server.state(id).await, StateName::Held);
    server.cancel(id).await.expect("the execution is cancelled");
    budget(&server, "daily", Config { period_ms: Some(1000), ..hard(5) }).await;
    server
        .namespace
        .spend("daily", amounts(&[("tokens", 9)]), None, None)
        .await
        .expect("the spending is counted");
    let id = server.submit(spending("daily", 0)).await;
    assert!(server.claim("one", 10).await.is_empty());
    clock.advance_ms(1000);
    assert_eq!(server.tick("budget_reset").await.done, 1);
    assert_eq!(ids(&server.claim("one", 10).await), [id]);
}

#[tokio::test]
async fn a_used_up_budget_stops_active_executions_as_configured() {
    let (server, _) = memory_server().await;
    for (on_hard, state) in [(OnHard::Suspend, StateName::Suspended), (OnHard::Fail, StateName::Failed)] {
        let name = on_hard.as_str();
        budget(&server, name, Config { on_hard, ..hard(10) }).await;
        let id = server.submit(spending(name, 1)).await;
        let claimed = server.claim_one("one").await;
        server
            .namespace
            .spend(name, amounts(&[("tokens", 10)]), None, None)
            .await
            .expect("the spending is counted");
        assert_eq!(server.tick("gate_release").await.done, 1);
        assert_eq!(server.state(id).await, state);
        assert!(server.report(fence(&claimed), Op::Release).await.is_err(), "the lease has ended");
        assert_eq!(used_and_reserved(&server, name).await.1, None);
        if on_hard == OnHard::Suspend {
            budget(&server, name, hard(100)).await;
            assert_eq!(server.claim_one("one").await.execution.id, id);
        }
    }
}

#[tokio::test]
async fn fairness_keys_take_turns_however_many_executions_one_of_them_has() {
    let (server, clock) = memory_server().await;
    let with_key = |key: &str| {
        let fairness_key = Some(Name::trusted(key));
        Draft {
            required_gates: RequiredGates { fairness_key, ..RequiredGates::default() },
            ..Draft::new("kind")
        }
    };
    let many = server.submit_many(vec![with_key("many"); 50]).await;
    let few = server.submit_many(vec![with_key("few"); 2]).await;
    let mut order = Vec::new();
    for _ in 0..6 {
        clock.advance_ms(1);
        order.push(server.claim_one("one").await.execution.id);
    }
    assert_eq!(order, [many[0], few[0], many[1], few[1], many[2], many[3]]);
    let rest = server.claim("one", 100).await;
    let mut claimed = rest.len();
    loop {
        let more = server.claim("one", 100).await;
        if more.is_empty() {
            break;
        }
        claimed += more.len();
    }
    assert_eq!(claimed, 46);
}

#[tokio::test]
async fn a_lane_with_a_new_limit_counts_what_is_active_and_counts_once_more_later() {
    let (server, clock) = memory_server().await;
    server.submit_many(vec![Draft::new("kind"); 4]).await;
    let active = server.claim("one", 2).await;
    lane(&server, Config { concurrency: Some(2), ..Config::default() }).await;
    let gate = async || server.namespace.gate(GateKind::Lane, "default").await.expect("the lane exists").gate;
    assert_eq!((gate().await.active, gate().await.state.adoption), (2, Some(Adoption::Recounting)));
    assert!(server.claim("one", 2).await.is_empty());
    clock.advance_ms(6000);
    server.tick("gate_release").await;
    let counted = gate().await;
    assert_eq!((counted.active, counted.state.adoption, counted.due_at), (2, None, None));
    server.complete(fence(&active[0])).await.expect("the lease is held");
    assert_eq!(server.claim("one", 2).await.len(), 1);
}
