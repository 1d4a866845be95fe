//! Admission through the engine: lanes, concurrency keys and quotas, and what they hold goes on by itself.

use crate::side::{Side, claim_of, fence, ids, operator};
use crate::{on_memory, soon};
use selvedge_engine::core::amount::Amount;
use selvedge_engine::core::gate::{Amounts, Config, Draws, GateKind, LaneState, Limit, OnHard, Rate};
use selvedge_engine::core::rules::gates::budget::Spend;
use selvedge_engine::core::rules::report::Op;
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::{Draft, Name};

fn keyed(key: &str, limit: u32) -> Draft {
    let concurrency = Some((Name::trusted(key), limit));
    Draft { draws: Draws { concurrency, ..Draws::default() }, ..Draft::new("kind") }
}

fn drawing(quota: &str) -> Draft {
    Draft { draws: Draws { quotas: vec![Name::trusted(quota)], ..Draws::default() }, ..Draft::new("kind") }
}

async fn lane(side: &Side, config: Config) {
    let configured = side.namespace.configure(GateKind::Lane, "default", Some(config), &operator()).await;
    configured.expect("it is configured");
}

async fn quota(side: &Side, name: &str, config: Config) {
    let configured = side.namespace.configure(GateKind::Quota, name, Some(config), &operator()).await;
    configured.expect("it is configured");
}

#[tokio::test]
async fn a_paused_lane_gives_nothing_out_and_changes_no_row_and_goes_on_when_it_is_active_again() {
    let (side, _) = on_memory().await;
    let id = side.submit(Draft::new("kind")).await;
    lane(&side, Config { state: LaneState::Paused, ..Config::default() }).await;
    assert!(side.claim("one", 5).await.is_empty());
    assert_eq!(side.row(id).await.version, 1);
    let waiting = side.claim_waiting(claim_of("one", 5), 1).await;
    lane(&side, Config::default()).await;
    assert_eq!(ids(&soon(waiting).await.expect("it is answered")), [id]);
}

#[tokio::test]
async fn a_lane_never_has_more_active_than_its_limit_and_wakes_a_claim_when_one_ends() {
    let (side, _) = on_memory().await;
    lane(&side, Config { concurrency: Some(2), ..Config::default() }).await;
    side.submit_many(vec![Draft::new("kind"); 5]).await;
    let first = side.claim("one", 10).await;
    assert_eq!(first.len(), 2);
    assert!(side.claim("one", 10).await.is_empty());
    let waiting = side.claim_waiting(claim_of("two", 10), 1).await;
    side.complete(fence(&first[0])).await.expect("it holds the lease");
    assert_eq!(soon(waiting).await.expect("it is answered").len(), 1);
    assert_eq!(side.namespace.gate(GateKind::Lane, "default").await.expect("it is there").gate.active, 2);
}

#[tokio::test]
async fn a_lane_starts_no_more_in_a_window_than_its_rate() {
    let (side, clock) = on_memory().await;
    lane(&side, Config { rate: Some(Rate { count: 3, window_ms: 1000 }), ..Config::default() }).await;
    side.submit_many(vec![Draft::new("kind"); 9]).await;
    assert_eq!(side.claim("one", 10).await.len(), 3);
    assert!(side.claim("one", 10).await.is_empty());
    clock.advance_ms(1011);
    assert_eq!(side.claim("one", 10).await.len(), 3);
}

#[tokio::test]
async fn what_a_concurrency_key_refuses_is_held_and_goes_on_with_the_end_that_makes_room() {
    let (side, _) = on_memory().await;
    let same = side.submit_many(vec![keyed("tenant-a", 1); 3]).await;
    let other = side.submit(keyed("tenant-b", 1)).await;
    let claimed = side.claim("one", 10).await;
    assert_eq!(ids(&claimed), [same[0], other]);
    assert_eq!(side.state(same[1]).await, StateName::Held);
    assert_eq!(side.state(same[2]).await, StateName::Held);
    side.complete(fence(&claimed[0])).await.expect("it holds the lease");
    assert_eq!(side.state(same[1]).await, StateName::Waiting);
    assert_eq!(side.state(same[2]).await, StateName::Held);
    let next = side.claim("one", 10).await;
    assert_eq!(ids(&next), [same[1]]);
    side.complete(fence(&next[0])).await.expect("it holds the lease");
    assert_eq!(ids(&side.claim("one", 10).await), [same[2]]);
}

#[tokio::test]
async fn what_is_held_is_handed_to_a_claim_that_waits_by_the_commit_that_makes_room() {
    let (side, _) = on_memory().await;
    let same = side.submit_many(vec![keyed("tenant", 1); 2]).await;
    let claimed = side.claim("one", 10).await;
    assert_eq!(claimed.len(), 1);
    let waiting = side.claim_waiting(claim_of("two", 1), 1).await;
    side.complete(fence(&claimed[0])).await.expect("it holds the lease");
    assert_eq!(ids(&soon(waiting).await.expect("it is answered")), [same[1]]);
}

#[tokio::test]
async fn a_quota_limits_whatever_refers_to_it_and_lets_go_on_when_its_window_has_room() {
    let (side, clock) = on_memory().await;
    quota(&side, "calls", Config { rate: Some(Rate { count: 2, window_ms: 1000 }), ..Config::default() })
        .await;
    let all = side.submit_many(vec![drawing("calls"); 5]).await;
    assert_eq!(ids(&side.claim("one", 10).await), all[..2]);
    assert_eq!(side.state(all[4]).await, StateName::Held);
    assert_eq!(side.tick("gate_release").await.done, 0);
    clock.advance_ms(1011);
    assert_eq!(side.tick("gate_release").await.done, 1);
    assert_eq!(ids(&side.claim("one", 10).await), all[2..4]);
    quota(&side, "calls", Config::default()).await;
    assert_eq!(ids(&side.claim("one", 10).await), all[4..]);
}

#[tokio::test]
async fn every_way_to_end_gives_its_slots_back() {
    let (side, clock) = on_memory().await;
    quota(&side, "few", Config { concurrency: Some(1), ..Config::default() }).await;
    for way in 0..4 {
        let id = side.submit(drawing("few")).await;
        let claimed = side.claim_briefly("one").await;
        assert_eq!(claimed.execution.id, id);
        match way {
            0 => drop(side.complete(fence(&claimed)).await.expect("it holds the lease")),
            1 => drop(side.cancel(id).await.expect("it is cancelled")),
            2 => {
                clock.advance_ms(600);
                assert_eq!(side.tick("lease_expiry").await.done, 1);
                side.cancel(id).await.expect("it is cancelled");
            }
            _ => {
                let op = side.namespace.suspend(
                    vec![selvedge_engine::core::suspension::WaitDraft::new(
                        selvedge_engine::core::suspension::Condition::operator(),
                    )],
                    vec![],
                );
                side.report(fence(&claimed), op).await.expect("it is suspended");
            }
        }
        assert_eq!(side.namespace.gate(GateKind::Quota, "few").await.expect("it is there").gate.active, 0);
    }
}

#[tokio::test]
async fn lanes_with_weights_share_claims_by_them() {
    let (side, _) = on_memory().await;
    for (name, weight) in [("a", 3), ("b", 1)] {
        let config = Config { weight: Some(weight), ..Config::default() };
        side.namespace
            .configure(GateKind::Lane, name, Some(config), &operator())
            .await
            .expect("it is configured");
        side.submit_many(vec![Draft { lane: name.into(), ..Draft::new("kind") }; 100]).await;
    }
    let mut of_a = 0;
    for _ in 0..40 {
        let mut claim = claim_of("one", 1);
        claim.lanes = vec!["a".into(), "b".into()];
        let claimed = side.claim_as(claim).await;
        let view = side.namespace.get(claimed[0].execution.id).await.expect("it is there");
        of_a += u32::from(view.class.lane.as_str() == "a");
    }
    assert_eq!(of_a, 30);
}

fn amounts(list: &[(&str, u32)]) -> Amounts {
    list.iter().map(|(name, count)| (name.to_string(), Amount::whole(*count))).collect()
}

fn spending(budget: &str, reserve: u32) -> Draft {
    let budgets = vec![(Name::trusted(budget), amounts(&[("tokens", reserve)]))];
    Draft { draws: Draws { budgets, ..Draws::default() }, ..Draft::new("kind") }
}

fn hard(limit: u32) -> Config {
    let limit = Limit { hard: Some(Amount::whole(limit)), soft: None };
    Config { limits: [("tokens".to_string(), limit)].into(), ..Config::default() }
}

async fn budget(side: &Side, name: &str, config: Config) {
    let configured = side.namespace.configure(GateKind::Budget, name, Some(config), &operator()).await;
    configured.expect("it is configured");
}

async fn spent(side: &Side, name: &str) -> (Option<Amount>, Option<Amount>) {
    let gate = side.namespace.gate(GateKind::Budget, name).await.expect("it is there").gate;
    let of = |amounts: &Amounts| amounts.get("tokens").copied();
    (of(&gate.state.used), of(&gate.state.reserved))
}

#[tokio::test]
async fn a_budget_reserves_at_the_claim_and_settles_with_what_was_spent() {
    let (side, _) = on_memory().await;
    budget(&side, "month", hard(100)).await;
    let all = side.submit_many(vec![spending("month", 40); 4]).await;
    let claimed = side.claim("one", 10).await;
    assert_eq!(ids(&claimed), all[..2]);
    assert_eq!(spent(&side, "month").await, (None, Some(Amount::whole(80))));
    assert_eq!(side.state(all[2]).await, StateName::Held);
    let spend = Spend {
        namespace: side.namespace.id(),
        budget: Name::trusted("month"),
        usage: amounts(&[("tokens", 10)]),
        dedup_key: Some(Name::trusted("call-1")),
        execution: Some(all[0]),
    };
    for _ in 0..2 {
        side.report(fence(&claimed[0]), Op::Usage(spend.clone())).await.expect("it is counted once");
    }
    side.complete(fence(&claimed[0])).await.expect("it holds the lease");
    assert_eq!(spent(&side, "month").await, (Some(Amount::whole(10)), Some(Amount::whole(40))));
    let next = side.claim("one", 10).await;
    assert_eq!(ids(&next), all[2..3]);
    assert_eq!(side.state(all[3]).await, StateName::Held);
    let late = Spend { dedup_key: None, ..spend };
    side.report(fence(&claimed[0]), Op::Usage(late)).await.expect("an attempt that has ended may say so too");
    assert_eq!(spent(&side, "month").await.0, Some(Amount::whole(20)));
    let spent_by = side.namespace.spent_by(all[0]).await.expect("it is read");
    assert_eq!(spent_by[0].entry.spent, amounts(&[("tokens", 20)]));
    budget(&side, "month", hard(1000)).await;
    assert_eq!(ids(&side.claim("one", 10).await), all[3..]);
}

#[tokio::test]
async fn a_budget_of_nothing_admits_nothing_and_a_reset_lets_go_on() {
    let (side, clock) = on_memory().await;
    budget(&side, "none", hard(0)).await;
    let id = side.submit(spending("none", 0)).await;
    assert!(side.claim("one", 10).await.is_empty());
    assert_eq!(side.state(id).await, StateName::Held);
    side.cancel(id).await.expect("it is cancelled");
    budget(&side, "daily", Config { period_ms: Some(1000), ..hard(5) }).await;
    side.namespace.spend("daily", amounts(&[("tokens", 9)]), None, None).await.expect("it is counted");
    let id = side.submit(spending("daily", 0)).await;
    assert!(side.claim("one", 10).await.is_empty());
    clock.advance_ms(1000);
    assert_eq!(side.tick("budget_reset").await.done, 1);
    assert_eq!(ids(&side.claim("one", 10).await), [id]);
}

#[tokio::test]
async fn a_budget_that_is_used_up_stops_what_runs_as_its_policy_says() {
    let (side, _) = on_memory().await;
    for (on_hard, state) in [(OnHard::Suspend, StateName::Suspended), (OnHard::Fail, StateName::Failed)] {
        let name = on_hard.as_str();
        budget(&side, name, Config { on_hard, ..hard(10) }).await;
        let id = side.submit(spending(name, 1)).await;
        let claimed = side.claim_one("one").await;
        side.namespace.spend(name, amounts(&[("tokens", 10)]), None, None).await.expect("it is counted");
        assert_eq!(side.tick("gate_release").await.done, 1);
        assert_eq!(side.state(id).await, state);
        assert!(side.complete(fence(&claimed)).await.is_err(), "its lease is over");
        assert_eq!(spent(&side, name).await.1, None);
        if on_hard == OnHard::Suspend {
            budget(&side, name, hard(100)).await;
            assert_eq!(side.claim_one("one").await.execution.id, id);
        }
    }
}

#[tokio::test]
async fn fairness_keys_take_turns_however_many_wait_with_one_of_them() {
    let (side, clock) = on_memory().await;
    let with = |key: &str| {
        let fairness_key = Some(Name::trusted(key));
        Draft { draws: Draws { fairness_key, ..Draws::default() }, ..Draft::new("kind") }
    };
    let many = side.submit_many(vec![with("many"); 50]).await;
    let few = side.submit_many(vec![with("few"); 2]).await;
    let mut order = Vec::new();
    for _ in 0..6 {
        clock.advance_ms(1);
        order.push(side.claim_one("one").await.execution.id);
    }
    assert_eq!(order, [many[0], few[0], many[1], few[1], many[2], many[3]]);
    let rest = side.claim("one", 100).await;
    let mut got = rest.len();
    loop {
        let more = side.claim("one", 100).await;
        if more.is_empty() {
            break;
        }
        got += more.len();
    }
    assert_eq!(got, 46);
}
