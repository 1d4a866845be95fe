//! Limits, measured by those who work: what thirty-two workers on four engines have in hand between the answer to a claim and
//! their report, and what the log says while gates change at random under them.

mod support;

use selvedge_conformance::Sketch;
use selvedge_engine::core::gate::{BudgetScope, Config, GateKind, GateName, LaneState, RequiredGates};
use selvedge_engine::core::history::attempt_end;
use selvedge_engine::core::log::Event;
use selvedge_engine::core::rules::claim::{ClaimDraft, Claimed};
use selvedge_engine::core::{Draft, ExecutionId, Fact, Name};
use selvedge_engine::{Error, Options};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use support::admission::{CLAIMERS, Crowd, at_once, configure, hard, keyed, spending, tokens};
use support::test_server::{TestServer, claim_of, claim_wait, fence, operator, passive_options};
use support::{Sandbox, until};
use tokio::task::JoinSet;

/// How many of each thing are in hand now, and were at most.
#[derive(Clone, Default)]
struct InHand(Arc<Mutex<HashMap<String, (u32, u32)>>>);

impl InHand {
    fn take(&self, of: &[String]) {
        let mut counts = self.0.lock().expect("nobody panics with it");
        for one in of {
            let (now, most) = counts.entry(one.clone()).or_default();
            *now += 1;
            *most = (*most).max(*now);
        }
    }

    fn put(&self, of: &[String]) {
        let mut counts = self.0.lock().expect("nobody panics with it");
        for one in of {
            counts.get_mut(one).expect("it was taken").0 -= 1;
        }
    }

    /// The most that were in hand at once.
    fn most(&self, of: &str) -> u32 {
        self.0.lock().expect("nobody panics with it").get(of).map_or(0, |(_, most)| *most)
    }
}

/// Works off so many executions of these lanes with all claimers at once, and counts what they have in hand.
async fn work_off(
    crowd: &Crowd,
    lanes: &[&str],
    count: usize,
    goes_through: impl Fn(&Claimed) -> Vec<String> + Clone + Send + Sync + 'static,
) -> InHand {
    let (in_hand, done) = (InHand::default(), Arc::new(AtomicUsize::new(0)));
    let mut claimers = JoinSet::new();
    for number in 0..CLAIMERS {
        let (side, in_hand, done) = (crowd.sides[number % 4].clone(), in_hand.clone(), done.clone());
        let (goes_through, lanes) =
            (goes_through.clone(), lanes.iter().map(ToString::to_string).collect::<Vec<_>>());
        claimers.spawn(async move {
            while done.load(Ordering::SeqCst) < count {
                let instance = format!("worker{number}");
                let claim = ClaimDraft { lanes: lanes.clone(), ..claim_of(&instance, fastrand::u32(1..4)) };
                let claimed = side.namespace.claim(claim_wait(claim, Duration::from_millis(300))).await;
                let claimed = claimed.expect("the claim is answered");
                claimed.iter().for_each(|one| in_hand.take(&goes_through(one)));
                for one in &claimed {
                    // Others get to claim while it is in hand.
                    tokio::task::yield_now().await;
                    in_hand.put(&goes_through(one));
                    side.complete(fence(one)).await.expect("it holds the lease");
                    done.fetch_add(1, Ordering::SeqCst);
                }
            }
        });
    }
    let all = async {
        while let Some(ended) = claimers.join_next().await {
            ended.expect("a claimer does not panic");
        }
    };
    if tokio::time::timeout(support::LONG * 2, all).await.is_err() {
        panic!("{} of {count} are done", done.load(Ordering::SeqCst));
    }
    assert_eq!(done.load(Ordering::SeqCst), count);
    in_hand
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_never_have_more_in_hand_than_every_limit_together_allows() {
    let crowd = Crowd::gather().await;
    configure(crowd.first(), GateKind::Lane, "one", at_once(4)).await;
    configure(crowd.first(), GateKind::Lane, "two", Config { weight: Some(3), ..at_once(5) }).await;
    configure(crowd.first(), GateKind::Quota, "few", at_once(3)).await;
    configure(crowd.first(), GateKind::Budget, "month", hard(100)).await;
    let draft = |number: usize| {
        let required_gates = RequiredGates {
            quotas: number.is_multiple_of(2).then(|| Name::trusted("few")).into_iter().collect(),
            concurrency: number.is_multiple_of(3).then(|| (Name::trusted("key"), 2)),
            budgets: number
                .is_multiple_of(5)
                .then(|| (Name::trusted("month"), tokens(40)))
                .into_iter()
                .collect(),
            fairness_key: number.is_multiple_of(7).then(|| Name::trusted(["x", "y"][number % 2])),
        };
        Draft {
            lane: ["one", "two"][number % 2].into(),
            required_gates,
            ..Draft::new(["k", "l"][number % 11 % 2])
        }
    };
    let count = 420;
    let ids = crowd.first().submit_many((0..count).map(draft).collect()).await;
    let lanes: BTreeMap<ExecutionId, &str> =
        ids.iter().enumerate().map(|(n, id)| (*id, ["one", "two"][n % 2])).collect();
    let in_hand = work_off(&crowd, &["one", "two"], count, move |one| {
        let required_gates = &one.execution.spec.required_gates;
        let mut through = vec![lanes[&one.execution.id].to_owned()];
        through.extend(required_gates.quotas.iter().map(Name::to_string));
        through.extend(required_gates.concurrency.iter().map(|(key, _)| key.to_string()));
        through.extend(required_gates.budgets.iter().map(|(budget, _)| budget.to_string()));
        through
    })
    .await;
    for (gate, limit) in [("one", 4), ("two", 5), ("few", 3), ("key", 2), ("month", 2)] {
        let most = in_hand.most(gate);
        assert!((1..=limit).contains(&most), "{most} of {gate}, which allows {limit}");
    }
    let plain = crowd.plain().await;
    assert_eq!(
        plain.number("select coalesce(sum(active), 0) from gates", &[]).await,
        0,
        "all slots are given back"
    );
    println!("{} begun again", crowd.part().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_parts_of_a_budget_are_limited_each_on_its_own_however_many_claim() {
    let crowd = Crowd::gather().await;
    configure(crowd.first(), GateKind::Budget, "flow", Config { scope: BudgetScope::Flow, ..hard(100) })
        .await;
    configure(crowd.first(), GateKind::Budget, "lane", Config { scope: BudgetScope::Lane, ..hard(200) })
        .await;
    let required_gates = RequiredGates {
        budgets: ["flow", "lane"].map(|name| (Name::trusted(name), tokens(40))).to_vec(),
        ..RequiredGates::default()
    };
    let mut flows = Vec::new();
    for _ in 0..12 {
        let sketch = Sketch::from("a b c d e f g h -> z")
            .of_kind("kind")
            .each(|one| one.required_gates = required_gates.clone());
        flows.push(crowd.first().flow_of(sketch.0).await);
    }
    let in_hand = work_off(&crowd, &["default"], 12 * 9, |one| {
        let flow = one.execution.flow().to_string();
        vec![flow, "lane".into()]
    })
    .await;
    for flow in &flows {
        let most = in_hand.most(&flow.id.to_string());
        assert!((1..=2).contains(&most), "{most} of one flow, of which two may run");
    }
    assert!(
        (1..=5).contains(&in_hand.most("lane")),
        "{} of the lane, of which five may run",
        in_hand.most("lane")
    );
    for event in crowd.log().await {
        assert!(!matches!(event.fact, Fact::LimitReached { .. }), "nothing was spent");
    }
    println!("{} begun again", crowd.part().await);
}

/// How a gate may be configured at random; never twice the same in a row.
fn any_config(kind: GateKind, before: Option<&Config>) -> Option<Config> {
    loop {
        let config = match kind {
            GateKind::Lane => Some(match fastrand::u8(..4) {
                0 => Config { state: LaneState::Paused, ..at_once(5) },
                1 => at_once(0),
                _ => at_once(fastrand::u32(1..6)),
            }),
            GateKind::Quota => match fastrand::u8(..5) {
                0 => None,
                1 => Some(at_once(0)),
                _ => Some(at_once(fastrand::u32(1..6))),
            },
            _ => match fastrand::u8(..5) {
                0 => None,
                1 => Some(hard(0)),
                _ => Some(hard(40 * fastrand::u32(1..6))),
            },
        };
        if config.as_ref() != before {
            return config;
        }
    }
}

/// Configures a gate that is open at random again and again until it is over, and says with what, in order.
async fn flap(crowd: &Crowd, kind: GateKind, over: Arc<AtomicBool>) -> Vec<Option<Config>> {
    let mut configs: Vec<Option<Config>> = vec![Some(open(kind))];
    while !over.load(Ordering::SeqCst) && configs.len() < 40 {
        let next = any_config(kind, configs.last().and_then(Option::as_ref));
        set(&crowd.sides[fastrand::usize(..4)], kind, next.clone()).await;
        configs.push(next);
    }
    if configs.last().and_then(Option::as_ref) != Some(&open(kind)) {
        set(crowd.first(), kind, Some(open(kind))).await;
        configs.push(Some(open(kind)));
    }
    configs
}

/// Under this everything comes to its end.
fn open(kind: GateKind) -> Config {
    match kind {
        GateKind::Budget => hard(280),
        _ => at_once(7),
    }
}

async fn set(side: &TestServer, kind: GateKind, config: Option<Config>) {
    until("it is configured", async || {
        match side.namespace.configure(kind, "default", config.clone(), &operator()).await {
            Ok(_) => true,
            Err(Error::Store(error)) if error.is_transient() => false,
            Err(error) => panic!("it is configured: {error}"),
        }
    })
    .await;
}

/// Asserts that at each claim as many were active as the newest configuration in the log allows, and that each was claimed and
/// completed once.
fn followed(log: &[Event], gate: &GateName, configs: &[Option<Config>], each: u32, count: usize) {
    let mut configs = configs.iter();
    let mut config: Option<&Config> = None;
    let (mut active, mut claims, mut held) = (0_u32, 0, 0);
    for event in log {
        match &event.fact {
            Fact::GateConfigured { gate: of } | Fact::GateRemoved { gate: of } if of == gate => {
                config = configs.next().expect("it was configured as often").as_ref();
                let removed = matches!(event.fact, Fact::GateRemoved { .. });
                assert_eq!(removed, config.is_none(), "the log tells of it in the order of the calls");
            }
            Fact::Claimed { .. } => {
                (active, claims) = (active + 1, claims + 1);
                let Some(config) = config else { continue };
                let limit = match gate.kind {
                    GateKind::Budget => {
                        let limit = config.limits["tokens"].hard.map_or(i64::MAX, |hard| hard.millionths());
                        limit / 1_000_000
                    }
                    _ if config.state == LaneState::Paused => 0,
                    _ => i64::from(config.concurrency.unwrap_or(u32::MAX)),
                };
                assert!(i64::from(active * each) <= limit, "{active} active under {config:?}");
            }
            Fact::Held { .. } => held += 1,
            fact if attempt_end(fact).is_some() => active -= 1,
            _ => {}
        }
    }
    assert_eq!(configs.next(), None, "the log tells of every configuration");
    assert_eq!((active, claims), (0, count), "each was claimed once, and has ended");
    assert_eq!(held > 0, gate.kind != GateKind::Lane, "{held} were held");
}

#[tokio::test(flavor = "multi_thread")]
async fn gates_that_are_shut_opened_removed_and_made_anew_at_random_lose_and_repeat_nothing() {
    for kind in [GateKind::Lane, GateKind::Quota, GateKind::Budget] {
        let crowd = Crowd::gather().await;
        let draft = match kind {
            GateKind::Lane => Draft::new("kind"),
            GateKind::Quota => support::admission::drawing("default"),
            _ => spending("default", 40),
        };
        let count = 200;
        let over = Arc::new(AtomicBool::new(false));
        let ids = crowd.first().submit_many(vec![draft; count]).await;
        configure(crowd.first(), kind, "default", open(kind)).await;
        let work = async {
            work_off(&crowd, &["default"], count, |_| vec!["it".into()]).await;
            over.store(true, Ordering::SeqCst);
        };
        let (configs, ()) = tokio::join!(flap(&crowd, kind, over.clone()), work);
        let gate = GateName::new(crowd.first().namespace.id(), kind, Name::trusted("default"));
        let each = if kind == GateKind::Budget { 40 } else { 1 };
        followed(&crowd.log().await, &gate, &configs, each, ids.len());
        let gate = crowd.store().fetch_gates(&[gate.id()]).await.expect("it is read").remove(0);
        assert_eq!((gate.active, gate.state.reserved.len()), (0, 0), "everything is given back");
        println!("{kind:?}: {} configurations, {} begun again", configs.len(), crowd.part().await);
    }
}

#[tokio::test]
async fn one_that_asks_for_little_goes_on_behind_thousands_that_ask_for_more_than_is_left() {
    let sandbox = Sandbox::new();
    let side = sandbox.side_with("side", Options { reconcilers: true, ..passive_options() }).await;
    configure(&side, GateKind::Budget, "month", hard(100)).await;
    let runs = side.submit(spending("month", 100)).await;
    let lease = fence(&side.claim_one("one").await);
    assert_eq!(lease.execution, runs);
    let many = 3000;
    for _ in 0..many / 1000 {
        side.submit_many(vec![spending("month", 80); 1000]).await;
    }
    let small = side.submit(spending("month", 10)).await;
    let budget = GateName::new(side.namespace.id(), GateKind::Budget, Name::trusted("month"));
    until("all are held", async || {
        assert!(side.claim("one", 1000).await.is_empty());
        let held = side.engine.store().held_by(budget.id(), 10_000).await;
        held.expect("they are counted") == many as u64 + 1
    })
    .await;
    side.namespace.spend("month", tokens(60), None, None).await.expect("it is counted");
    side.complete(lease).await.expect("it holds the lease");
    until("it is claimed", async || {
        let claimed = side.claim("one", 1).await;
        assert!(
            claimed.iter().all(|one| one.execution.id == small),
            "40 are left, and the others ask for 80"
        );
        !claimed.is_empty()
    })
    .await;
    side.engine.shutdown().await;
}

#[tokio::test]
async fn a_gate_that_cannot_be_read_costs_little_and_keeps_no_other_from_its_turn() {
    let sandbox = Sandbox::new();
    let side = sandbox.side_with("side", Options { reconcilers: true, ..passive_options() }).await;
    let all = side.submit_many(vec![keyed("bad", 1); 2]).await;
    assert_eq!(side.claim("one", 2).await.len(), 1);
    let plain = sandbox.plain().await;
    plain.run("update gates set state = '{', due_at = now() - interval '1 hour'").await;
    let before = side.tally("gate_release").ticks;
    until("it was looked at", async || side.tally("gate_release").ticks > before).await;
    let (looks, began) = (side.tally("gate_release").ticks, Instant::now());
    until("it was looked at twice more", async || side.tally("gate_release").ticks >= looks + 2).await;
    assert!(began.elapsed() > Duration::from_millis(1500), "two more looks in {:?}", began.elapsed());
    // Another gate that is due is looked at all the same.
    configure(&side, GateKind::Budget, "month", Config { period_ms: Some(50), ..hard(10) }).await;
    side.namespace.spend("month", tokens(10), None, None).await.expect("it is counted");
    let id = side.submit(spending("month", 1)).await;
    until("it is claimed", async || side.claim("two", 9).await.iter().any(|one| one.execution.id == id))
        .await;
    assert_eq!(side.state(all[1]).await, selvedge_engine::core::state::StateName::Held);
    side.engine.shutdown().await;
}
