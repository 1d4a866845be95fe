//! No number of servers passes a limit together: thirty-two claimers on four engines go through each kind of gate, and the log
//! is asked whether there were ever more. Everything is worked off in the end, and no two transactions wait for each other.

mod support;

use selvedge_engine::core::amount::Amount;
use selvedge_engine::core::gate::{Config, GateKind, GateName, LaneState};
use selvedge_engine::core::{Draft, Name, Policy};
use std::collections::BTreeSet;
use support::admission::{
    Crowd, Passage, at_once, at_once_done, configure, drawing, hard, keyed, rate, spend_some, spending,
    tokens,
};
use support::until;

const COUNT: usize = 300;

#[tokio::test(flavor = "multi_thread")]
async fn a_lane_never_has_more_active_than_its_limit() {
    let crowd = Crowd::gather().await;
    configure(crowd.first(), GateKind::Lane, "default", at_once(3)).await;
    let ids = crowd.first().submit_many(vec![Draft::new("kind"); COUNT]).await;
    crowd.work_off(COUNT, at_once_done).await;
    let passage = Passage::replay(&crowd.log().await, |_| true, 0);
    passage.did_each_once(&ids);
    assert_eq!(passage.most_active(), 3, "all slots are used, and no more");
    assert_eq!(passage.held, 0, "what waits in a lane stays as it is");
    println!("{} begun again", crowd.part().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lane_never_starts_more_in_a_window_than_its_rate() {
    let crowd = Crowd::gather().await;
    configure(crowd.first(), GateKind::Lane, "default", rate(25, 500)).await;
    let ids = crowd.first().submit_many(vec![Draft::new("kind"); COUNT]).await;
    crowd.work_off(COUNT, at_once_done).await;
    let passage = Passage::replay(&crowd.log().await, |_| true, 0);
    passage.did_each_once(&ids);
    assert_eq!(passage.most_starts(500), 25, "a window is used, and no more");
    assert_eq!(passage.held, 0, "what waits in a lane stays as it is");
    println!("{} begun again", crowd.part().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_concurrency_key_never_has_more_active_than_its_limit() {
    let crowd = Crowd::gather().await;
    let keys = ["a", "b", "c"];
    let drafts = (0..COUNT).map(|number| keyed(keys[number % 3], 2)).collect();
    let ids = crowd.first().submit_many(drafts).await;
    crowd.work_off(COUNT, at_once_done).await;
    let log = crowd.log().await;
    for key in 0..3 {
        let of_key: BTreeSet<_> = ids.iter().skip(key).step_by(3).copied().collect();
        let passage = Passage::replay(&log, |id| of_key.contains(&id), 0);
        passage.did_each_once(&of_key.iter().copied().collect::<Vec<_>>());
        assert_eq!(passage.most_active(), 2, "both slots are used, and no more");
        assert!(passage.held > 0, "what is refused is held");
    }
    assert_eq!(
        crowd.plain().await.number("select count(*) from gates", &[]).await,
        0,
        "nothing is left of them"
    );
    println!("{} begun again", crowd.part().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_never_has_more_active_than_its_limit() {
    let crowd = Crowd::gather().await;
    configure(crowd.first(), GateKind::Quota, "few", at_once(3)).await;
    let ids = crowd.first().submit_many(vec![drawing("few"); COUNT]).await;
    crowd.work_off(COUNT, at_once_done).await;
    let passage = Passage::replay(&crowd.log().await, |_| true, 0);
    passage.did_each_once(&ids);
    assert_eq!(passage.most_active(), 3, "all slots are used, and no more");
    assert!(passage.held > 0, "what is refused is held");
    println!("{} begun again", crowd.part().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_never_starts_more_in_a_window_than_its_rate() {
    let crowd = Crowd::gather().await;
    configure(crowd.first(), GateKind::Quota, "calls", rate(25, 500)).await;
    let ids = crowd.first().submit_many(vec![drawing("calls"); COUNT]).await;
    crowd.work_off(COUNT, at_once_done).await;
    let passage = Passage::replay(&crowd.log().await, |_| true, 0);
    passage.did_each_once(&ids);
    assert_eq!(passage.most_starts(500), 25, "a window is used, and no more");
    assert!(passage.held > 0, "what is refused is held");
    println!("{} begun again", crowd.part().await);
}

/// How many draw on the budget; what may be spent in a period, and what each may spend.
const DRAWING: usize = 120;
const HARD: u32 = 200;
const RESERVE: u32 = 40;

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_admits_nothing_beyond_its_hard_limit_and_equals_its_ledger() {
    let crowd = Crowd::gather().await;
    let config = Config { period_ms: Some(400), ..hard(HARD) };
    configure(crowd.first(), GateKind::Budget, "month", config).await;
    // One in three is deleted as soon as it has ended: what it has spent stays spent.
    let brief = Policy { retention_ms: 0, ..Policy::default() };
    let brief = Draft { policy: brief, ..spending("month", RESERVE) };
    let draft = |number| if number % 3 == 0 { brief.clone() } else { spending("month", RESERVE) };
    let ids = crowd.first().submit_many((0..DRAWING).map(draft).collect()).await;
    crowd.work_off(DRAWING, |side, claimed| spend_some(side, claimed, "month", RESERVE)).await;
    until("the brief ones are deleted", async || {
        let text = "select count(*) from executions";
        crowd.plain().await.number(text, &[]).await == (DRAWING - DRAWING.div_ceil(3)) as i64
    })
    .await;
    let passage = Passage::replay(&crowd.log().await, |_| true, RESERVE);
    passage.did_each_once(&ids);
    let hard = u64::from(HARD);
    for (used, reserved) in &passage.spent_at_claims {
        // Reserved is what it was before the claim, and what the claim added.
        assert!(used + reserved <= hard, "{used} used and {reserved} reserved");
        assert!(used + reserved - u64::from(RESERVE) < hard, "{used} used and {reserved} reserved");
    }
    assert!(passage.held > 0, "what is refused is held");
    assert!(passage.by_period.len() > 2, "there were several periods");
    let name = GateName::new(crowd.first().namespace.id(), GateKind::Budget, Name::trusted("month"));
    for (period, spent) in &passage.by_period {
        let ledger = crowd.store().ledger(name.id(), *period).await.expect("it is read");
        let entered = ledger.iter().filter_map(|entry| entry.spent.get("tokens").copied());
        assert_eq!(entered.fold(Amount::default(), |sum, one| sum + one), *spent, "period {period}");
        let brief: BTreeSet<_> = ids.iter().step_by(3).collect();
        let by_deleted = ledger.iter().filter(|entry| entry.execution.is_some_and(|id| brief.contains(&id)));
        assert_eq!(by_deleted.count(), 0, "a deleted one has no entry of its own");
    }
    let gate = crowd.store().fetch_gates(&[name.id()]).await.expect("it is read").remove(0);
    assert!(gate.state.reserved.is_empty(), "everything is given back: {:?}", gate.state);
    println!("{} begun again", crowd.part().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_that_is_spent_beyond_what_was_reserved_counts_everything() {
    let crowd = Crowd::gather().await;
    configure(crowd.first(), GateKind::Budget, "open", hard(1_000_000)).await;
    crowd.first().submit_many(vec![spending("open", 1); 100]).await;
    crowd.work_off(100, |side, claimed| spend_some(side, claimed, "open", 1000)).await;
    let passage = Passage::replay(&crowd.log().await, |_| true, 1);
    let name = GateName::new(crowd.first().namespace.id(), GateKind::Budget, Name::trusted("open"));
    let gate = crowd.store().fetch_gates(&[name.id()]).await.expect("it is read").remove(0);
    assert_eq!(gate.state.used.get("tokens"), passage.by_period.get(&0));
    assert!(gate.state.used["tokens"] > tokens(100)["tokens"], "more was spent than was reserved");
    println!("{} begun again", crowd.part().await);
}

/// The limits between which a gate changes, again and again.
fn flapping(kind: GateKind) -> [Config; 2] {
    match kind {
        GateKind::Lane => [at_once(6), Config { state: LaneState::Paused, ..at_once(6) }],
        _ => [at_once(6), at_once(1)],
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_whose_limit_is_raised_and_lowered_fifty_times_loses_and_repeats_nothing() {
    for kind in [GateKind::Lane, GateKind::Quota] {
        let crowd = Crowd::gather().await;
        let configs = flapping(kind);
        configure(crowd.first(), kind, "default", configs[0].clone()).await;
        let draft = if kind == GateKind::Lane { Draft::new("kind") } else { drawing("default") };
        let ids = crowd.first().submit_many(vec![draft; COUNT]).await;
        let flap = async {
            for turn in 1..=50 {
                configure(&crowd.sides[turn % 4], kind, "default", configs[turn % 2].clone()).await;
            }
        };
        tokio::join!(flap, crowd.work_off(COUNT, at_once_done));
        let passage = Passage::replay(&crowd.log().await, |_| true, 0);
        passage.did_each_once(&ids);
        for (active, configured) in passage.active_at_claims.iter().zip(&passage.configured) {
            let config = &configs[(configured - 1) % 2];
            let limit = if config.state == LaneState::Paused { Some(0) } else { config.concurrency };
            assert!(
                Some(*active as u32) <= limit,
                "{active} active after {configured} configurations: {config:?}"
            );
        }
        assert!(
            passage.configured.iter().collect::<BTreeSet<_>>().len() > 5,
            "it went on under different limits"
        );
        println!("{} begun again", crowd.part().await);
    }
}
