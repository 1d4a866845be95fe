//! Filters of the feed: whatever happens, its events carry the namespace and the tags by which a subscriber asks for them.

mod support;

use selvedge_conformance::Sketch;
use selvedge_engine::core::amount::Amount;
use selvedge_engine::core::fact::EVENT_TYPES;
use selvedge_engine::core::flow::CancelMode;
use selvedge_engine::core::gate::{Config, GateKind, Limit};
use selvedge_engine::core::log::unpack;
use selvedge_engine::core::policy::{Backoff, Retry};
use selvedge_engine::core::rules::claim::Claimed;
use selvedge_engine::core::rules::operator::Action;
use selvedge_engine::core::rules::report::Op;
use selvedge_engine::core::rules::signal::SignalDraft;
use selvedge_engine::core::rules::step::StepDraft;
use selvedge_engine::core::rules::waitpoint::WaitpointDraft;
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::step::StepKind;
use selvedge_engine::core::submission::When;
use selvedge_engine::core::suspension::{Condition, OnTimeout, WaitDraft};
use selvedge_engine::core::{Draft, ExecutionId, Fact, Name, Policy};
use selvedge_engine::{EventFilter, From, Notice, Options, PublicEvent, Subscription};
use std::collections::BTreeSet;
use std::time::Duration;
use support::admission::{keyed, tokens};
use support::flows::{Flow, broken};
use support::test_server::{TestServer, claim_of, claim_wait, fail_op, fence, operator};
use support::{LONG, Sandbox, until};

/// Told of a worker, of a gate or of all tokens, not of an execution or a flow: only those have tags.
const UNTAGGED: [&str; 9] = [
    "lease.renewed",
    "operator.drain_requested",
    "operator.token_keys_rotated",
    "operator.gate_configured",
    "operator.gate_removed",
    "budget.used",
    "budget.soft_breach",
    "budget.hard_breach",
    "budget.reset",
];

/// A draft of a kind of its own, with the tag.
fn tagged(kind: &str) -> Draft {
    let mut draft = Draft::new(kind);
    tag(&mut draft.tags);
    draft
}

fn tag(tags: &mut std::collections::BTreeMap<String, String>) {
    tags.insert("team".into(), "blue".into());
}

/// A flow whose nodes are all of one kind, with the tag on it and on each of them.
fn flow(text: &str, kind: &str) -> Sketch {
    Sketch::from(text).of_kind(kind).each(|draft| tag(&mut draft.tags)).flow(|flow| tag(&mut flow.tags))
}

/// Claims one of a kind, as soon as there is one.
async fn claim(side: &TestServer, instance: &str, kind: &str, lease_ttl_ms: i64) -> Claimed {
    let mut draft = claim_of(instance, 1);
    (draft.kinds, draft.lease_ttl_ms) = (Some(vec![kind.into()]), lease_ttl_ms);
    let claimed = side.namespace.claim(claim_wait(draft, LONG)).await;
    claimed.expect("the claim is answered").pop().expect("there is work")
}

/// Claims one of a kind, and says this of it.
async fn run(side: &TestServer, kind: &str, op: Op) -> ExecutionId {
    let claimed = claim(side, kind, kind, 30_000).await;
    side.report(fence(&claimed), op).await.expect("it holds the lease");
    claimed.execution.id
}

async fn what_workers_do(side: &TestServer) {
    let id = side.submit(tagged("works")).await;
    let claimed = claim(side, "works", "works", 30_000).await;
    let progress = Op::Progress { percent: Some(50.0), message: None };
    side.report(fence(&claimed), progress).await.expect("it holds the lease");
    side.heartbeat("works", &[fence(&claimed)]).await;
    side.complete(fence(&claimed)).await.expect("it holds the lease");
    side.operate(id, Action::Replay).await.expect("it is replayed");
    side.cancel(id).await.expect("it is cancelled");
    let retry = Retry { backoff: Backoff::Fixed { delay_ms: 1 }, ..Retry::default() };
    let policy = Policy { retry, ..Policy::default() };
    side.submit(Draft { policy, ..tagged("fails") }).await;
    run(side, "fails", fail_op()).await;
    run(side, "fails", broken()).await;
    side.submit(tagged("delays")).await;
    run(side, "delays", Op::Delay { until: When::AfterMs(1) }).await;
    run(side, "delays", Op::Release).await;
    side.submit(Draft { policy: Policy { start_by_ms: Some(1), ..Policy::default() }, ..tagged("expires") })
        .await;
}

/// Leases that lapse, are claimed again, taken away, and forgotten.
async fn what_becomes_of_leases(side: &TestServer) {
    let id = side.submit(tagged("lapses")).await;
    claim(side, "first", "lapses", 500).await;
    claim(side, "second", "lapses", 30_000).await;
    side.operate(id, Action::Revoke { reason: None }).await.expect("it is revoked");
    claim(side, "third", "lapses", 30_000).await;
    let cancel = Action::Cancel { reason: None, grace_ms: 60_000 };
    side.operate(id, cancel).await.expect("its worker is asked");
    side.submit_many(vec![tagged("forgotten"); 2]).await;
    let known = claim(side, "forgetful", "forgotten", 1000).await;
    claim(side, "forgetful", "forgotten", 1000).await;
    let known = fence(&known);
    until("a lease is orphaned", async || !side.heartbeat("forgetful", &[known]).await.orphaned.is_empty())
        .await;
}

async fn what_operators_do(side: &TestServer) {
    let id = side.submit(tagged("operated")).await;
    let set = [("size".to_owned(), "small".to_owned())].into();
    for action in [
        Action::Prioritise { priority: 7 },
        Action::Tag { set, remove: vec![] },
        Action::Reschedule { until: When::AfterMs(3_600_000) },
    ] {
        side.operate(id, action).await.expect("it is done");
    }
    side.namespace.drain_worker("forgetful", &operator()).await.expect("it is asked to drain");
}

async fn what_happens_to_flows(side: &TestServer) {
    let grows = side.flow_of(flow("a -> b", "node").0).await;
    let first = run(side, "node", broken()).await;
    // Only a flow whose end is settled is opened again.
    let ended = side.namespace.flow_result(grows.id, LONG).await.expect("it is read");
    assert!(ended.is_some(), "it ends");
    side.operate(first, Action::Replay).await.expect("it is replayed");
    grows.becomes("b", StateName::WaitingDependencies).await;
    let mut graph = grows.onto("b -> c");
    graph.nodes.iter_mut().for_each(|node| node.draft = tagged("node"));
    side.namespace.grow_flow(grows.id, graph, None).await.expect("it grows");
    for _ in 0..3 {
        run(side, "node", support::test_server::complete_op()).await;
    }
    let stopped: Flow = side.flow_of(flow("a -> b", "stopped").0).await;
    let cancelled = side.namespace.cancel_flow(stopped.id, CancelMode::All, None, &operator(), LONG).await;
    assert!(cancelled.expect("it is cancelled").1);
}

/// A suspension that is escalated, of which an operator's word is a part, and what is recorded along the way.
async fn what_is_waited_for(side: &TestServer) {
    let name = Name::trusted;
    let id = side.submit(tagged("waits")).await;
    let held = fence(&claim(side, "waits", "waits", 30_000).await);
    let step = StepDraft { name: name("charge"), kind: StepKind::Step, result: "1".into(), duration_ms: 1 };
    side.report(held, Op::Step(step)).await.expect("it holds the lease");
    let wait = WaitDraft {
        timeout_ms: Some(1),
        on_timeout: OnTimeout::Escalate,
        ..WaitDraft::new(Condition::All(vec![Condition::operator(), Condition::signal(name("go"))]))
    };
    let brief = WaitpointDraft { expires_ms: Some(1), ..WaitpointDraft::new(name("brief")) };
    let suspend = side.namespace.suspend(vec![wait], vec![brief, WaitpointDraft::new(name("open"))]);
    let suspended = side.report(held, suspend).await.expect("it holds the lease");
    let open = suspended.waitpoints.last().expect("there is one for each");
    side.namespace.revoke_waitpoint(open.id, &operator()).await.expect("it is revoked");
    side.operate(id, Action::Resume).await.expect("it is suspended");
    until("time has done what it does", async || {
        let row = side.row(id).await;
        let escalated = row.state.suspension().is_some_and(|suspension| suspension.waits[0].escalated);
        escalated && row.detail.record.expires_at.is_none()
    })
    .await;
    let go = SignalDraft { name: Some("go".into()), payload: "1".into(), key: None };
    side.namespace.signal(id, go, &operator()).await.expect("it is delivered");
    run(side, "waits", support::test_server::complete_op()).await;
    side.namespace.rotate_token_keys(1000, &operator()).await.expect("they are rotated");
}

/// One is held and goes on, and a budget is spent, set back and removed.
async fn what_gates_do(side: &TestServer) {
    let draft = Draft { required_gates: keyed("key", 1).required_gates, ..tagged("gated") };
    side.submit_many(vec![draft; 2]).await;
    let mut claim = claim_of("gated", 2);
    claim.kinds = Some(vec!["gated".into()]);
    let claimed = side.claim_as(claim).await;
    assert_eq!(claimed.len(), 1, "the other is held");
    side.complete(fence(&claimed[0])).await.expect("it holds the lease");
    let limit = Limit { hard: Some(Amount::whole(10)), soft: Some(Amount::whole(5)) };
    let config = Config { limits: [("tokens".to_owned(), limit)].into(), ..Config::default() };
    let configure = |config| async {
        let configured = side.namespace.configure(GateKind::Budget, "spent", config, &operator()).await;
        configured.expect("it is configured");
    };
    configure(Some(config)).await;
    side.namespace.spend("spent", tokens(10), None, None).await.expect("it is counted");
    side.namespace.reset_budget("spent", &operator()).await.expect("it is set back");
    configure(None).await;
}

async fn next(subscription: &mut Subscription) -> PublicEvent {
    match tokio::time::timeout(LONG, subscription.next()).await.expect("there is something") {
        Some(Notice::Event(event)) => *event,
        other => panic!("{other:?} is no event"),
    }
}

/// Reads until every type has come but these.
async fn comes_but(subscription: &mut Subscription, not: &[&str]) {
    let mut wanted: BTreeSet<&str> = EVENT_TYPES.iter().copied().filter(|kind| !not.contains(kind)).collect();
    while !wanted.is_empty() {
        let read = tokio::time::timeout(Duration::from_secs(10), next(subscription)).await;
        let event = read.unwrap_or_else(|_| panic!("does not come: {wanted:?}"));
        assert_eq!(event.namespace.as_str(), "default");
        assert!(!not.contains(&event.kind), "{} has no tags", event.kind);
        wanted.remove(event.kind);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_of_every_type_reaches_who_asks_for_its_namespace_and_its_tag() {
    let sandbox = Sandbox::new();
    let side = sandbox.side_with("side", Options::default()).await;
    let elsewhere = side.engine.namespace("elsewhere").await.expect("it is there");
    let tag =
        |value: &str| EventFilter { tag: Some(("team".into(), value.into())), ..EventFilter::default() };
    let subscribe =
        async |filter| side.namespace.subscribe(filter, From::Beginning).await.expect("it is subscribed");
    let mut all = subscribe(EventFilter::default()).await;
    let mut blue = subscribe(tag("blue")).await;
    let mut green = subscribe(tag("green")).await;
    let mut others = elsewhere.subscribe(tag("blue"), From::Beginning).await.expect("it is subscribed");
    what_workers_do(&side).await;
    what_becomes_of_leases(&side).await;
    what_operators_do(&side).await;
    what_happens_to_flows(&side).await;
    what_is_waited_for(&side).await;
    what_gates_do(&side).await;
    comes_but(&mut all, &[]).await;
    comes_but(&mut blue, &UNTAGGED).await;
    // Of all that, nothing reaches those who asked for something else.
    let mut draft = Draft::new("kind");
    draft.tags.insert("team".into(), "green".into());
    let here = side.submit(draft).await;
    assert_eq!(next(&mut green).await.execution, Some(here));
    let there = elsewhere.submit(tagged("kind")).await.expect("it is accepted").execution.id;
    assert_eq!(next(&mut others).await.execution, Some(there));
    let plain = sandbox.plain().await;
    for row in plain.query("select body from log", &[]).await.expect("the log is read") {
        for event in unpack(row.get(0)).expect("it can be read") {
            let untagged = matches!(
                event.fact,
                Fact::Renewed { .. }
                    | Fact::DrainRequested { .. }
                    | Fact::TokenKeysRotated { .. }
                    | Fact::GateConfigured { .. }
                    | Fact::GateRemoved { .. }
                    | Fact::Spent { .. }
                    | Fact::LimitReached { .. }
                    | Fact::BudgetReset { .. }
            );
            assert_eq!(event.tags.contains_key("team"), !untagged, "{event:?}");
            let whose = if event.execution == Some(there) { elsewhere.id() } else { side.namespace.id() };
            assert_eq!(event.namespace, whose, "{event:?}");
        }
    }
    side.engine.shutdown().await;
}
