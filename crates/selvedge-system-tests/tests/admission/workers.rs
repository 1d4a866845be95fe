//! Limits, measured by the workers: the leases that thirty-two workers on four servers hold between the answer to a
//! claim and their report, and the log while gates are reconfigured at random.

use selvedge_conformance::Sketch;
use selvedge_engine::core::fact;
use selvedge_engine::core::gate::{BudgetScope, Config, GateKind, GateName, LaneState, RequiredGates};
use selvedge_engine::core::history::attempt_end;
use selvedge_engine::core::log::Event;
use selvedge_engine::core::rules::claim::{ClaimDraft, Claimed};
use selvedge_engine::core::{Draft, ExecutionId, Fact, Name};
use selvedge_engine::{Error, Options};
use selvedge_system_tests::gate_load::{
    CLAIMERS, Fleet, concurrency_limit, configure, hard_limit, tokens, with_budget, with_concurrency_key,
};
use selvedge_system_tests::server::{Server, claim_of, claim_wait, fence, operator, passive_options};
use selvedge_system_tests::{Sandbox, wait_until};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// For each gate, the number of leases that workers hold now, and the largest number so far.
#[derive(Clone, Default)]
struct UseCounts(Arc<Mutex<HashMap<String, (u32, u32)>>>);

impl UseCounts {
    fn increment(&self, of: &[String]) {
        let mut counts = self.0.lock().expect("the mutex is not poisoned");
        for one in of {
            let (now, most) = counts.entry(one.clone()).or_default();
            *now += 1;
            *most = (*most).max(*now);
        }
    }

    fn decrement(&self, of: &[String]) {
        let mut counts = self.0.lock().expect("the mutex is not poisoned");
        for one in of {
            counts.get_mut(one).expect("the count was raised before").0 -= 1;
        }
    }

    /// Returns the largest number of leases that were held at once.
    fn most(&self, of: &str) -> u32 {
        self.0.lock().expect("the mutex is not poisoned").get(of).map_or(0, |(_, most)| *most)
    }
}

/// Claims and completes this number of executions of these lanes with all claimers, and counts the leases that they hold.
async fn process_all(
    fleet: &Fleet,
    lanes: &[&str],
    count: usize,
    gates_of: impl Fn(&Claimed) -> Vec<String> + Clone + Send + Sync + 'static,
) -> UseCounts {
    let (used, done) = (UseCounts::default(), Arc::new(AtomicUsize::new(0)));
    let mut claimers = JoinSet::new();
    for number in 0..CLAIMERS {
        let (server, used, done) = (fleet.servers[number % 4].clone(), used.clone(), done.clone());
        let (gates_of, lanes) = (gates_of.clone(), lanes.iter().map(ToString::to_string).collect::<Vec<_>>());
        claimers.spawn(async move {
            while done.load(Ordering::SeqCst) < count {
                let instance = format!("worker{number}");
                let claim = ClaimDraft { lanes: lanes.clone(), ..claim_of(&instance, fastrand::u32(1..4)) };
                let claimed = server.namespace.claim(claim_wait(claim, Duration::from_millis(300))).await;
                let claimed = claimed.expect("the claim is answered");
                claimed.iter().for_each(|one| used.increment(&gates_of(one)));
                for one in &claimed {
                    // Lets other workers claim while this lease is held.
                    tokio::task::yield_now().await;
                    used.decrement(&gates_of(one));
                    server.complete(fence(one)).await.expect("the lease is held");
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
    if tokio::time::timeout(selvedge_system_tests::LONG * 2, all).await.is_err() {
        panic!("{} of {count} are completed", done.load(Ordering::SeqCst));
    }
    assert_eq!(done.load(Ordering::SeqCst), count);
    used
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_never_hold_more_leases_than_all_limits_together_allow() {
    let fleet = Fleet::start().await;
    configure(fleet.first(), GateKind::Lane, "one", concurrency_limit(4)).await;
    configure(fleet.first(), GateKind::Lane, "two", Config { weight: Some(3), ..concurrency_limit(5) }).await;
    configure(fleet.first(), GateKind::Quota, "few", concurrency_limit(3)).await;
    configure(fleet.first(), GateKind::Budget, "month", hard_limit(100)).await;
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
    let ids = fleet.first().submit_many((0..count).map(draft).collect()).await;
    let lanes: BTreeMap<ExecutionId, &str> =
        ids.iter().enumerate().map(|(n, id)| (*id, ["one", "two"][n % 2])).collect();
    let used = process_all(&fleet, &["one", "two"], count, move |one| {
        let required_gates = &one.execution.spec.required_gates;
        let mut through = vec![lanes[&one.execution.id].to_owned()];
        through.extend(required_gates.quotas.iter().map(Name::to_string));
        through.extend(required_gates.concurrency.iter().map(|(key, _)| key.to_string()));
        through.extend(required_gates.budgets.iter().map(|(budget, _)| budget.to_string()));
        through
    })
    .await;
    for (gate, limit) in [("one", 4), ("two", 5), ("few", 3), ("key", 2), ("month", 2)] {
        let most = used.most(gate);
        assert!((1..=limit).contains(&most), "{most} of {gate}, which allows {limit}");
    }
    let plain = fleet.plain().await;
    assert_eq!(
        plain.number("select coalesce(sum(active), 0) from gates", &[]).await,
        0,
        "all slots are given back"
    );
    println!("{} retries", fleet.check_and_stop().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_part_of_a_budget_has_its_own_limit_however_many_claim() {
    let fleet = Fleet::start().await;
    configure(
        fleet.first(),
        GateKind::Budget,
        "flow",
        Config { scope: BudgetScope::Flow, ..hard_limit(100) },
    )
    .await;
    configure(
        fleet.first(),
        GateKind::Budget,
        "lane",
        Config { scope: BudgetScope::Lane, ..hard_limit(200) },
    )
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
        flows.push(fleet.first().flow_of(sketch.0).await);
    }
    let used = process_all(&fleet, &["default"], 12 * 9, |one| {
        let flow = one.execution.flow().to_string();
        vec![flow, "lane".into()]
    })
    .await;
    for flow in &flows {
        let most = used.most(&flow.id.to_string());
        assert!((1..=2).contains(&most), "{most} of one flow, which allows two");
    }
    assert!((1..=5).contains(&used.most("lane")), "{} of the lane, which allows five", used.most("lane"));
    for event in fleet.log().await {
        assert!(!matches!(event.fact, Fact::LimitReached { .. }), "there was no usage");
    }
    println!("{} retries", fleet.check_and_stop().await);
}

/// Returns a random configuration, which differs from the one before.
fn random_config(kind: GateKind, before: Option<&Config>) -> Option<Config> {
    loop {
        let config = match kind {
            GateKind::Lane => Some(match fastrand::u8(..4) {
                0 => Config { state: LaneState::Paused, ..concurrency_limit(5) },
                1 => concurrency_limit(0),
                _ => concurrency_limit(fastrand::u32(1..6)),
            }),
            GateKind::Quota => match fastrand::u8(..5) {
                0 => None,
                1 => Some(concurrency_limit(0)),
                _ => Some(concurrency_limit(fastrand::u32(1..6))),
            },
            _ => match fastrand::u8(..5) {
                0 => None,
                1 => Some(hard_limit(0)),
                _ => Some(hard_limit(40 * fastrand::u32(1..6))),
            },
        };
        if config.as_ref() != before {
            return config;
        }
    }
}

/// Reconfigures a gate at random until `over`, and opens it at the end. Returns all configurations, in order.
async fn reconfigure_at_random(fleet: &Fleet, kind: GateKind, over: Arc<AtomicBool>) -> Vec<Option<Config>> {
    let mut configs: Vec<Option<Config>> = vec![Some(open(kind))];
    while !over.load(Ordering::SeqCst) && configs.len() < 40 {
        let next = random_config(kind, configs.last().and_then(Option::as_ref));
        set(&fleet.servers[fastrand::usize(..4)], kind, next.clone()).await;
        configs.push(next);
    }
    if configs.last().and_then(Option::as_ref) != Some(&open(kind)) {
        set(fleet.first(), kind, Some(open(kind))).await;
        configs.push(Some(open(kind)));
    }
    configs
}

/// Returns a configuration under which all executions can complete.
fn open(kind: GateKind) -> Config {
    match kind {
        GateKind::Budget => hard_limit(280),
        _ => concurrency_limit(7),
    }
}

async fn set(server: &Server, kind: GateKind, config: Option<Config>) {
    wait_until("the gate is configured", async || {
        match server.namespace.configure(kind, "default", config.clone(), &operator()).await {
            Ok(_) => true,
            Err(Error::Store(error)) if error.is_transient() => false,
            Err(error) => panic!("the gate is not configured: {error}"),
        }
    })
    .await;
}

/// Asserts that at each claim the number of active executions was within the newest configuration in the log, and that
/// each execution was claimed and ended once.
fn assert_limits_held(log: &[Event], gate: &GateName, configs: &[Option<Config>], each: u32, count: usize) {
    let mut configs = configs.iter();
    let mut config: Option<&Config> = None;
    let (mut active, mut claims, mut held) = (0_u32, 0, 0);
    for event in log {
        match &event.fact {
            Fact::GateConfigured(fact::GateConfigured { gate: of })
            | Fact::GateRemoved(fact::GateRemoved { gate: of })
                if of == gate =>
            {
                config = configs.next().expect("there is a configuration for every event").as_ref();
                let removed = matches!(event.fact, Fact::GateRemoved { .. });
                assert_eq!(
                    removed,
                    config.is_none(),
                    "the log has the configurations in the order of the calls"
                );
            }
            Fact::Claimed { .. } => {
                (active, claims) = (active + 1, claims + 1);
                let Some(config) = config else { continue };
                let limit = match gate.kind {
                    GateKind::Budget => {
                        let limit = config.limits["tokens"]
                            .hard
                            .map_or(i64::MAX, |hard_limit| hard_limit.millionths());
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
    assert_eq!(configs.next(), None, "the log has every configuration");
    assert_eq!((active, claims), (0, count), "each execution was claimed once and has ended");
    assert_eq!(held > 0, gate.kind != GateKind::Lane, "{held} were held");
}

#[tokio::test(flavor = "multi_thread")]
async fn gates_that_are_closed_opened_removed_and_recreated_at_random_lose_and_repeat_nothing() {
    for kind in [GateKind::Lane, GateKind::Quota, GateKind::Budget] {
        let fleet = Fleet::start().await;
        let draft = match kind {
            GateKind::Lane => Draft::new("kind"),
            GateKind::Quota => selvedge_system_tests::gate_load::with_quota("default"),
            _ => with_budget("default", 40),
        };
        let count = 200;
        let over = Arc::new(AtomicBool::new(false));
        configure(fleet.first(), kind, "default", open(kind)).await;
        let ids = fleet.first().submit_many(vec![draft; count]).await;
        let work = async {
            process_all(&fleet, &["default"], count, |_| vec!["it".into()]).await;
            over.store(true, Ordering::SeqCst);
        };
        let (configs, ()) = tokio::join!(reconfigure_at_random(&fleet, kind, over.clone()), work);
        let gate = GateName::new(fleet.first().namespace.id(), kind, Name::trusted("default"));
        let each = if kind == GateKind::Budget { 40 } else { 1 };
        assert_limits_held(&fleet.log().await, &gate, &configs, each, ids.len());
        let gate = fleet.store().fetch_gates(&[gate.id()]).await.expect("the read succeeds").remove(0);
        assert_eq!(
            (gate.active, gate.state.reserved.len()),
            (0, 0),
            "all slots and reservations are given back"
        );
        println!("{kind:?}: {} configurations, {} retries", configs.len(), fleet.check_and_stop().await);
    }
}

#[tokio::test]
async fn a_small_reservation_is_released_behind_thousands_that_exceed_the_rest_of_the_budget() {
    let sandbox = Sandbox::new();
    let server = sandbox.server_with("server", Options { reconcilers: true, ..passive_options() }).await;
    configure(&server, GateKind::Budget, "month", hard_limit(100)).await;
    let runs = server.submit(with_budget("month", 100)).await;
    let lease = fence(&server.claim_one("one").await);
    assert_eq!(lease.execution, runs);
    let many = 3000;
    for _ in 0..many / 1000 {
        server.submit_many(vec![with_budget("month", 80); 1000]).await;
    }
    let small = server.submit(with_budget("month", 10)).await;
    let budget = GateName::new(server.namespace.id(), GateKind::Budget, Name::trusted("month"));
    wait_until("all are held", async || {
        assert!(server.claim("one", 1000).await.is_empty());
        let held = server.engine.store().held_by(budget.id(), 10_000).await;
        held.expect("the count succeeds") == many as u64 + 1
    })
    .await;
    server.namespace.spend("month", tokens(60), None, None).await.expect("the usage is counted");
    server.complete(lease).await.expect("the lease is held");
    wait_until("the execution is claimed", async || {
        let claimed = server.claim("one", 1).await;
        assert!(
            claimed.iter().all(|one| one.execution.id == small),
            "40 tokens are left, and the others reserve 80"
        );
        !claimed.is_empty()
    })
    .await;
    server.engine.shutdown().await;
}

#[tokio::test]
async fn an_unreadable_gate_costs_little_and_does_not_delay_other_gates() {
    let sandbox = Sandbox::new();
    let server = sandbox.server_with("server", Options { reconcilers: true, ..passive_options() }).await;
    let all = server.submit_many(vec![with_concurrency_key("bad", 1); 2]).await;
    assert_eq!(server.claim("one", 2).await.len(), 1);
    let plain = sandbox.plain().await;
    plain.run("update gates set state = '{', due_at = now()").await;
    let before = server.tally("gate_release").ticks;
    wait_until("the reconciler has ticked", async || server.tally("gate_release").ticks > before).await;
    let (ticks, began) = (server.tally("gate_release").ticks, Instant::now());
    wait_until("the reconciler has ticked twice more", async || {
        server.tally("gate_release").ticks >= ticks + 2
    })
    .await;
    assert!(began.elapsed() > Duration::from_millis(1500), "two more ticks in {:?}", began.elapsed());
    // Another due gate is processed meanwhile.
    configure(&server, GateKind::Budget, "month", Config { period_ms: Some(50), ..hard_limit(10) }).await;
    server.namespace.spend("month", tokens(10), None, None).await.expect("the usage is counted");
    let id = server.submit(with_budget("month", 1)).await;
    wait_until("the execution is claimed", async || {
        server.claim("two", 9).await.iter().any(|one| one.execution.id == id)
    })
    .await;
    assert_eq!(server.state(all[1]).await, selvedge_engine::core::state::StateName::Held);
    server.engine.shutdown().await;
}
