//! No number of servers exceeds a limit together: thirty-two claimers on four servers claim through each kind of gate,
//! and a replay of the log measures the largest use. All executions complete, and no transactions deadlock.

use selvedge_engine::core::amount::Amount;
use selvedge_engine::core::gate::{Config, GateKind, GateName, LaneState};
use selvedge_engine::core::{Draft, Name, Policy};
use selvedge_system_tests::gate_load::{
    Fleet, GateReplay, complete_at_once, concurrency_limit, configure, hard_limit, spend_some, start_rate,
    tokens, with_budget, with_concurrency_key, with_quota,
};
use selvedge_system_tests::wait_until;
use std::collections::BTreeSet;

const COUNT: usize = 300;

#[tokio::test(flavor = "multi_thread")]
async fn a_lane_never_has_more_active_than_its_limit() {
    let fleet = Fleet::start().await;
    configure(fleet.first(), GateKind::Lane, "default", concurrency_limit(3)).await;
    let ids = fleet.first().submit_many(vec![Draft::new("kind"); COUNT]).await;
    fleet.process_all(COUNT, complete_at_once).await;
    let replay = GateReplay::replay(&fleet.log().await, |_| true, 0);
    replay.assert_each_ran_once(&ids);
    assert_eq!(replay.most_active(), 3, "all slots are used, and no more");
    assert_eq!(replay.held, 0, "a lane holds nothing: refused executions stay waiting");
    println!("{} retries", fleet.check_and_stop().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lane_never_starts_more_in_a_window_than_its_rate() {
    let fleet = Fleet::start().await;
    configure(fleet.first(), GateKind::Lane, "default", start_rate(25, 500)).await;
    let ids = fleet.first().submit_many(vec![Draft::new("kind"); COUNT]).await;
    fleet.process_all(COUNT, complete_at_once).await;
    let replay = GateReplay::replay(&fleet.log().await, |_| true, 0);
    replay.assert_each_ran_once(&ids);
    assert_eq!(replay.most_starts(500), 25, "a window is used, and no more");
    assert_eq!(replay.held, 0, "a lane holds nothing: refused executions stay waiting");
    println!("{} retries", fleet.check_and_stop().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_concurrency_key_never_has_more_active_than_its_limit() {
    let fleet = Fleet::start().await;
    let keys = ["a", "b", "c"];
    let drafts = (0..COUNT).map(|number| with_concurrency_key(keys[number % 3], 2)).collect();
    let ids = fleet.first().submit_many(drafts).await;
    fleet.process_all(COUNT, complete_at_once).await;
    let log = fleet.log().await;
    for key in 0..3 {
        let of_key: BTreeSet<_> = ids.iter().skip(key).step_by(3).copied().collect();
        let replay = GateReplay::replay(&log, |id| of_key.contains(&id), 0);
        replay.assert_each_ran_once(&of_key.iter().copied().collect::<Vec<_>>());
        assert_eq!(replay.most_active(), 2, "both slots are used, and no more");
        assert!(replay.held > 0, "refused executions are held");
    }
    assert_eq!(
        fleet.plain().await.number("select count(*) from gates", &[]).await,
        0,
        "all gates are deleted"
    );
    println!("{} retries", fleet.check_and_stop().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_never_has_more_active_than_its_limit() {
    let fleet = Fleet::start().await;
    configure(fleet.first(), GateKind::Quota, "few", concurrency_limit(3)).await;
    let ids = fleet.first().submit_many(vec![with_quota("few"); COUNT]).await;
    fleet.process_all(COUNT, complete_at_once).await;
    let replay = GateReplay::replay(&fleet.log().await, |_| true, 0);
    replay.assert_each_ran_once(&ids);
    assert_eq!(replay.most_active(), 3, "all slots are used, and no more");
    assert!(replay.held > 0, "refused executions are held");
    println!("{} retries", fleet.check_and_stop().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_never_starts_more_in_a_window_than_its_rate() {
    let fleet = Fleet::start().await;
    configure(fleet.first(), GateKind::Quota, "calls", start_rate(25, 500)).await;
    let ids = fleet.first().submit_many(vec![with_quota("calls"); COUNT]).await;
    fleet.process_all(COUNT, complete_at_once).await;
    let replay = GateReplay::replay(&fleet.log().await, |_| true, 0);
    replay.assert_each_ran_once(&ids);
    assert_eq!(replay.most_starts(500), 25, "a window is used, and no more");
    assert!(replay.held > 0, "refused executions are held");
    println!("{} retries", fleet.check_and_stop().await);
}

/// The number of executions with the budget.
const BUDGETED: usize = 120;
/// The hard limit of tokens in a period.
const HARD: u32 = 200;
/// The tokens that each execution reserves.
const RESERVE: u32 = 40;

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_admits_nothing_beyond_its_hard_limit_and_equals_its_ledger() {
    let fleet = Fleet::start().await;
    let config = Config { period_ms: Some(400), ..hard_limit(HARD) };
    configure(fleet.first(), GateKind::Budget, "month", config).await;
    // One in three is deleted as soon as it has ended; its usage stays counted.
    let brief = Policy { retention_ms: 0, ..Policy::default() };
    let brief = Draft { policy: brief, ..with_budget("month", RESERVE) };
    let draft = |number| if number % 3 == 0 { brief.clone() } else { with_budget("month", RESERVE) };
    let ids = fleet.first().submit_many((0..BUDGETED).map(draft).collect()).await;
    fleet.process_all(BUDGETED, |server, claimed| spend_some(server, claimed, "month", RESERVE)).await;
    wait_until("executions without retention are deleted", async || {
        let text = "select count(*) from executions";
        fleet.plain().await.number(text, &[]).await == (BUDGETED - BUDGETED.div_ceil(3)) as i64
    })
    .await;
    let replay = GateReplay::replay(&fleet.log().await, |_| true, RESERVE);
    replay.assert_each_ran_once(&ids);
    let hard_limit = u64::from(HARD);
    for (used, reserved) in &replay.spent_at_claims {
        // The reservations include that of the claim itself.
        assert!(used + reserved <= hard_limit, "{used} used and {reserved} reserved");
        assert!(used + reserved - u64::from(RESERVE) < hard_limit, "{used} used and {reserved} reserved");
    }
    assert!(replay.held > 0, "refused executions are held");
    assert!(replay.by_period.len() > 2, "the run spans several periods");
    let name = GateName::new(fleet.first().namespace.id(), GateKind::Budget, Name::trusted("month"));
    for (period, spent) in &replay.by_period {
        let ledger = fleet.store().ledger(name.id(), *period).await.expect("the read succeeds");
        let entries = ledger.iter().filter_map(|entry| entry.spent.get("tokens").copied());
        assert_eq!(entries.fold(Amount::default(), |sum, one| sum + one), *spent, "period {period}");
        let brief: BTreeSet<_> = ids.iter().step_by(3).collect();
        let by_deleted = ledger.iter().filter(|entry| entry.execution.is_some_and(|id| brief.contains(&id)));
        assert_eq!(by_deleted.count(), 0, "a deleted execution has no entry of its own");
    }
    let gate = fleet.store().fetch_gates(&[name.id()]).await.expect("the read succeeds").remove(0);
    assert!(gate.state.reserved.is_empty(), "all reservations are given back: {:?}", gate.state);
    println!("{} retries", fleet.check_and_stop().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_counts_usage_beyond_the_reservation() {
    let fleet = Fleet::start().await;
    configure(fleet.first(), GateKind::Budget, "open", hard_limit(1_000_000)).await;
    fleet.first().submit_many(vec![with_budget("open", 1); 100]).await;
    fleet.process_all(100, |server, claimed| spend_some(server, claimed, "open", 1000)).await;
    let replay = GateReplay::replay(&fleet.log().await, |_| true, 1);
    let name = GateName::new(fleet.first().namespace.id(), GateKind::Budget, Name::trusted("open"));
    let gate = fleet.store().fetch_gates(&[name.id()]).await.expect("the read succeeds").remove(0);
    assert_eq!(gate.state.used.get("tokens"), replay.by_period.get(&0));
    assert!(gate.state.used["tokens"] > tokens(100)["tokens"], "the usage exceeds the reservations");
    println!("{} retries", fleet.check_and_stop().await);
}

/// Returns the two configurations between which a gate alternates.
fn alternating(kind: GateKind) -> [Config; 2] {
    match kind {
        GateKind::Lane => [concurrency_limit(6), Config { state: LaneState::Paused, ..concurrency_limit(6) }],
        _ => [concurrency_limit(6), concurrency_limit(1)],
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_whose_limit_changes_fifty_times_loses_and_repeats_nothing() {
    for kind in [GateKind::Lane, GateKind::Quota] {
        let fleet = Fleet::start().await;
        let configs = alternating(kind);
        configure(fleet.first(), kind, "default", configs[0].clone()).await;
        let draft = if kind == GateKind::Lane { Draft::new("kind") } else { with_quota("default") };
        let ids = fleet.first().submit_many(vec![draft; COUNT]).await;
        let reconfigure = async {
            for turn in 1..=50 {
                configure(&fleet.servers[turn % 4], kind, "default", configs[turn % 2].clone()).await;
            }
        };
        tokio::join!(reconfigure, fleet.process_all(COUNT, complete_at_once));
        let replay = GateReplay::replay(&fleet.log().await, |_| true, 0);
        replay.assert_each_ran_once(&ids);
        for (active, configured) in replay.active_at_claims.iter().zip(&replay.configured) {
            let config = &configs[(configured - 1) % 2];
            let limit = if config.state == LaneState::Paused { Some(0) } else { config.concurrency };
            assert!(
                Some(*active as u32) <= limit,
                "{active} active after {configured} configurations: {config:?}"
            );
        }
        assert!(
            replay.configured.iter().collect::<BTreeSet<_>>().len() > 5,
            "claims happened under several configurations"
        );
        println!("{} retries", fleet.check_and_stop().await);
    }
}
