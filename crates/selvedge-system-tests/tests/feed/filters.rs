//! Filters of the feed: every event carries the namespace and the tags by which subscribers select it.

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
use selvedge_engine::core::rules::webhook::{RecordDeliveries, RetryPolicy, WebhookPatch};
use selvedge_engine::core::schedule::times::Timing;
use selvedge_engine::core::schedule::{CatchUp, Overlap, RunResult, ScheduleSpec, Template};
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::step::StepKind;
use selvedge_engine::core::submission::{Debounce, When};
use selvedge_engine::core::suspension::{Condition, OnTimeout, WaitDraft};
use selvedge_engine::core::webhook::{WebhookConfig, WebhookFilter};
use selvedge_engine::core::{Draft, ExecutionId, Fact, Name, Policy, Role};
use selvedge_engine::{
    ApiKeyDraft, BulkJobDraft, EventFilter, From, Notice, Options, PublicEvent, Subscription,
};
use selvedge_system_tests::flows::{Flow, permanent_failure};
use selvedge_system_tests::gate_load::{tokens, with_concurrency_key};
use selvedge_system_tests::server::{Server, claim_of, claim_wait, fail_op, fence, operator};
use selvedge_system_tests::{LONG, Sandbox, wait_until};
use std::collections::BTreeSet;
use std::time::Duration;

/// Types of events about a worker, a key, a gate, a bulk job, a webhook, a schedule, the inbox or all tokens. Only executions and flows have tags.
const UNTAGGED: [&str; 24] = [
    "inbox.refused",
    "operator.bulk_job_started",
    "operator.bulk_job_ended",
    "webhook.created",
    "webhook.changed",
    "webhook.deleted",
    "webhook.secret_rotated",
    "webhook.paused",
    "webhook.missed",
    "operator.schedule_saved",
    "operator.schedule_deleted",
    "schedule.skipped",
    "schedule.refused",
    "key.created",
    "key.revoked",
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

/// Returns a draft of this kind with the tag.
fn tagged(kind: &str) -> Draft {
    let mut draft = Draft::new(kind);
    tag(&mut draft.tags);
    draft
}

fn tag(tags: &mut std::collections::BTreeMap<String, String>) {
    tags.insert("team".into(), "blue".into());
}

/// Returns a flow with the tag, whose nodes all have one kind and the tag.
fn flow(text: &str, kind: &str) -> Sketch {
    Sketch::from(text).of_kind(kind).each(|draft| tag(&mut draft.tags)).flow(|flow| tag(&mut flow.tags))
}

/// Claims an execution of a kind, and waits for one if necessary.
async fn claim(server: &Server, instance: &str, kind: &str, lease_ttl_ms: i64) -> Claimed {
    let mut draft = claim_of(instance, 1);
    (draft.kinds, draft.lease_ttl_ms) = (Some(vec![kind.into()]), lease_ttl_ms);
    let claimed = server.namespace.claim(claim_wait(draft, LONG)).await;
    claimed.expect("the claim is answered").pop().expect("there is work")
}

/// Claims an execution of a kind and sends a report.
async fn run(server: &Server, kind: &str, op: Op) -> ExecutionId {
    let claimed = claim(server, kind, kind, 30_000).await;
    server.report(fence(&claimed), op).await.expect("the lease is held");
    claimed.execution.id
}

/// Reports of workers: progress, completion, failures, delays; then a replay, a cancel and an expiry.
async fn run_workers(server: &Server) {
    let id = server.submit(tagged("works")).await;
    let claimed = claim(server, "works", "works", 30_000).await;
    let progress = Op::Progress { percent: Some(50.0), message: None };
    server.report(fence(&claimed), progress).await.expect("the lease is held");
    server.heartbeat("works", &[fence(&claimed)]).await;
    server.complete(fence(&claimed)).await.expect("the lease is held");
    server.operate(id, Action::Replay).await.expect("the replay succeeds");
    server.cancel(id).await.expect("the cancellation succeeds");
    let retry = Retry { backoff: Backoff::Fixed { delay_ms: 1 }, ..Retry::default() };
    let policy = Policy { retry, ..Policy::default() };
    server.submit(Draft { policy, ..tagged("fails") }).await;
    run(server, "fails", fail_op()).await;
    run(server, "fails", permanent_failure()).await;
    server.submit(tagged("delays")).await;
    run(server, "delays", Op::Delay { until: When::AfterMs(1) }).await;
    run(server, "delays", Op::Release).await;
    server
        .submit(Draft { policy: Policy { start_by_ms: Some(1), ..Policy::default() }, ..tagged("expires") })
        .await;
}

/// Leases that expire, are reclaimed, revoked, and orphaned.
async fn run_leases(server: &Server) {
    let id = server.submit(tagged("expires_lease")).await;
    claim(server, "first", "expires_lease", 500).await;
    claim(server, "second", "expires_lease", 30_000).await;
    server.operate(id, Action::Revoke { reason: None }).await.expect("the revocation succeeds");
    claim(server, "third", "expires_lease", 30_000).await;
    let cancel = Action::Cancel { reason: None, grace_ms: 60_000 };
    server.operate(id, cancel).await.expect("the request to cancel is stored");
    server.submit_many(vec![tagged("forgotten"); 2]).await;
    let known = claim(server, "forgetful", "forgotten", 1000).await;
    claim(server, "forgetful", "forgotten", 1000).await;
    let known = fence(&known);
    wait_until("a lease is orphaned", async || {
        !server.heartbeat("forgetful", &[known]).await.orphaned.is_empty()
    })
    .await;
}

/// Actions of operators on an execution and on a worker.
async fn run_operators(server: &Server) {
    let id = server.submit(tagged("operated")).await;
    let set = [("size".to_owned(), "small".to_owned())].into();
    for action in [
        Action::Prioritise { priority: 7 },
        Action::Tag { set, remove: vec![] },
        Action::Reschedule { until: When::AfterMs(3_600_000) },
    ] {
        server.operate(id, action).await.expect("the action succeeds");
    }
    server.namespace.drain_worker("forgetful", &operator()).await.expect("the drain is requested");
    for _ in 0..2 {
        let debounce = Debounce { key: "quiet".into(), delay_ms: 3_600_000, max_ms: None };
        let draft = Draft { debounce: Some(debounce), ..tagged("debounced") };
        server.namespace.submit(draft).await.expect("the submission is accepted");
    }
    let filter = server.namespace.filter(Some("nothing"), None).await.expect("the filter is made");
    let draft = BulkJobDraft { action: Action::Replay, filter, asked: Default::default() };
    server.namespace.keyed(None).start_bulk_job(draft, &operator()).await.expect("the job starts");
}

/// A flow that fails, is replayed, grows and ends, and one that is cancelled.
async fn run_flows(server: &Server) {
    let grows = server.flow_of(flow("a -> b", "node").0).await;
    let first = run(server, "node", permanent_failure()).await;
    // Only a settled flow can be reopened.
    let ended = server.namespace.flow_result(grows.id, LONG).await.expect("the read succeeds");
    assert!(ended.is_some(), "the flow ends");
    server.operate(first, Action::Replay).await.expect("the replay succeeds");
    grows.reaches("b", StateName::WaitingDependencies).await;
    let mut graph = grows.onto("b -> c");
    graph.nodes.iter_mut().for_each(|node| node.draft = tagged("node"));
    server.namespace.grow_flow(grows.id, graph, None).await.expect("the growth is accepted");
    for _ in 0..3 {
        run(server, "node", selvedge_system_tests::server::complete_op()).await;
    }
    let stopped: Flow = server.flow_of(flow("a -> b", "stopped").0).await;
    let cancelled = server.namespace.cancel_flow(stopped.id, CancelMode::All, None, &operator(), LONG).await;
    assert!(cancelled.expect("the cancellation succeeds").1);
}

/// A suspension that is escalated and needs an operator, with a step, waitpoints and a rotation of the keys.
async fn run_suspensions(server: &Server) {
    let name = Name::trusted;
    let id = server.submit(tagged("waits")).await;
    let held = fence(&claim(server, "waits", "waits", 30_000).await);
    let step = StepDraft { name: name("charge"), kind: StepKind::Step, result: "1".into(), duration_ms: 1 };
    server.report(held, Op::Step(step)).await.expect("the lease is held");
    let wait = WaitDraft {
        timeout_ms: Some(1),
        on_timeout: OnTimeout::Escalate,
        ..WaitDraft::new(Condition::All(vec![Condition::operator(), Condition::signal(name("go"))]))
    };
    let brief = WaitpointDraft { expires_ms: Some(1), ..WaitpointDraft::new(name("brief")) };
    let suspend = server.namespace.suspend(vec![wait], vec![brief, WaitpointDraft::new(name("open"))]);
    let suspended = server.report(held, suspend).await.expect("the lease is held");
    let open = suspended.waitpoints.last().expect("there is one per draft");
    server.namespace.revoke_waitpoint(open.id, &operator()).await.expect("the revocation succeeds");
    let reissued = server.namespace.reissue_waitpoint(open.id, None, &operator()).await;
    reissued.expect("a new token is issued");
    server.operate(id, Action::Resume).await.expect("the execution is suspended");
    wait_until("the timeout and the expiry have acted", async || {
        let row = server.row(id).await;
        let escalated = row.state.suspension().is_some_and(|suspension| suspension.waits[0].escalated);
        escalated && row.detail.record.expires_at.is_none()
    })
    .await;
    let go = SignalDraft { name: Some("go".into()), payload: "1".into(), key: None };
    server.namespace.signal(id, go, &operator()).await.expect("the signal is delivered");
    run(server, "waits", selvedge_system_tests::server::complete_op()).await;
    server.namespace.rotate_token_keys(1000, &operator()).await.expect("the keys are rotated");
    let (name, namespaces) = ("ada".to_owned(), vec!["default".to_owned()]);
    let draft = ApiKeyDraft { name, role: Role::Reader, namespaces, expires_at: None };
    let created = server.namespace.keyed(None).create_api_key(draft, &operator()).await;
    let (key, _text) = created.expect("the key is created").done;
    server.namespace.revoke_api_key(key.id, None, &operator()).await.expect("the key is revoked");
}

/// A webhook that is created, changed, paused, misses an event, gets a new secret and is deleted.
async fn run_webhooks(server: &Server) {
    let (namespace, operator) = (&server.namespace, operator());
    let config = WebhookConfig {
        url: "https://example.com/".into(),
        types: Vec::new(),
        filter: WebhookFilter::default(),
    };
    let (created, _) = namespace.put_webhook("w", config, true, &operator).await.expect("it is created");
    let patch = WebhookPatch { url: Some("https://example.org/".into()), ..WebhookPatch::default() };
    namespace.patch_webhook("w", patch, &operator).await.expect("it is changed");
    let calls = namespace.keyed(None);
    calls.rotate_webhook_secret("w", 1000, &operator).await.expect("its secret is rotated");
    let record = RecordDeliveries {
        name: created.webhook.name,
        id: created.webhook.detail.id,
        fence: 0,
        passed: None,
        attempts: Vec::new(),
        missed: 1,
        policy: RetryPolicy { first_ms: 1, max_ms: 1, give_up_ms: 1, pause_ms: 1 },
    };
    let recorded = namespace.engine().record_deliveries(record).await.expect("the store answers");
    assert!(recorded.is_some());
    namespace.remove_webhook("w", &operator).await.expect("it is deleted");
}

/// A schedule that fires once and then skips, and one whose submissions are refused.
async fn run_schedules(server: &Server) {
    let (namespace, operator) = (&server.namespace, operator());
    let mut refused = tagged("scheduled");
    refused.required_gates.quotas = vec![Name::trusted("no such quota")];
    for (name, draft) in [("skips", tagged("scheduled")), ("refused", refused)] {
        let spec = ScheduleSpec {
            timing: Timing::Interval { interval_ms: 1000 },
            submit: Template::Execution(Box::new(draft)),
            submit_text: None,
            overlap: Overlap::Skip,
            catch_up: CatchUp::None,
            jitter_ms: 0,
            paused: false,
        };
        namespace.save_schedule(name, spec, None, &operator).await.expect("the schedule is saved");
    }
    let results = async |name: &str| {
        let runs = namespace.schedule_runs(name).await.expect("the runs are read");
        runs.into_iter().map(|view| view.run.result).collect::<Vec<_>>()
    };
    wait_until("a time was skipped", async || results("skips").await.contains(&RunResult::Skipped)).await;
    wait_until("a run was refused", async || !results("refused").await.is_empty()).await;
    for name in ["skips", "refused"] {
        namespace.delete_schedule(name, &operator).await.expect("the schedule is deleted");
    }
}

/// An execution that is held and released, a budget that is used up, reset and removed, and a lane that counts an active
/// execution when its limit is set.
async fn run_gates(server: &Server) {
    let draft = Draft { required_gates: with_concurrency_key("key", 1).required_gates, ..tagged("gated") };
    server.submit_many(vec![draft; 2]).await;
    let mut claim = claim_of("gated", 2);
    claim.kinds = Some(vec!["gated".into()]);
    let claimed = server.claim_as(claim).await;
    assert_eq!(claimed.len(), 1, "the other is held");
    server.complete(fence(&claimed[0])).await.expect("the lease is held");
    let limit = Limit { hard: Some(Amount::whole(10)), soft: Some(Amount::whole(5)) };
    let config = Config { limits: [("tokens".to_owned(), limit)].into(), ..Config::default() };
    let configure = |config| async {
        let configured = server.namespace.configure(GateKind::Budget, "spent", config, &operator()).await;
        configured.expect("the gate is configured");
    };
    configure(Some(config)).await;
    server.namespace.spend("spent", tokens(10), None, None).await.expect("the usage is counted");
    server.namespace.reset_budget("spent", &operator()).await.expect("the budget is reset");
    configure(None).await;
    let draft = Draft { lane: "adopting".into(), ..tagged("adopted") };
    server.submit(draft).await;
    let mut claim = claim_of("adopting", 1);
    claim.lanes = vec!["adopting".into()];
    let adopted = server.claim_as(claim).await;
    let lane = Some(Config { concurrency: Some(1), ..Config::default() });
    let configured = server.namespace.configure(GateKind::Lane, "adopting", lane, &operator()).await;
    configured.expect("the lane is configured");
    server.complete(fence(&adopted[0])).await.expect("the lease is held");
}

async fn next(subscription: &mut Subscription) -> PublicEvent {
    match tokio::time::timeout(LONG, subscription.next()).await.expect("an event arrives in time") {
        Some(Notice::Event(event)) => *event,
        other => panic!("not an event: {other:?}"),
    }
}

/// Reads until events of all types except these have arrived.
async fn receives_all_except(subscription: &mut Subscription, excluded: &[&str]) {
    let mut wanted: BTreeSet<&str> =
        EVENT_TYPES.iter().copied().filter(|kind| !excluded.contains(kind)).collect();
    while !wanted.is_empty() {
        let read = tokio::time::timeout(Duration::from_secs(10), next(subscription)).await;
        let event = read.unwrap_or_else(|_| panic!("never received: {wanted:?}"));
        assert_eq!(event.namespace.as_str(), "default");
        assert!(!excluded.contains(&event.kind), "{} has no tags", event.kind);
        wanted.remove(event.kind);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_of_every_type_reaches_subscribers_to_its_namespace_and_its_tag() {
    let sandbox = Sandbox::new();
    let server = sandbox.server_with("server", Options::default()).await;
    let elsewhere = server.engine.namespace("elsewhere").await.expect("it exists");
    let tag =
        |value: &str| EventFilter { tag: Some(("team".into(), value.into())), ..EventFilter::default() };
    let subscribe = async |filter| {
        server.namespace.subscribe(filter, From::Beginning).await.expect("the subscription starts")
    };
    let mut all = subscribe(EventFilter::default()).await;
    let mut blue = subscribe(tag("blue")).await;
    let mut green = subscribe(tag("green")).await;
    let mut others =
        elsewhere.subscribe(tag("blue"), From::Beginning).await.expect("the subscription starts");
    run_workers(&server).await;
    run_leases(&server).await;
    run_operators(&server).await;
    sandbox.plain().await.run("select submit('k', quotas => array['none'])").await;
    run_flows(&server).await;
    run_suspensions(&server).await;
    run_gates(&server).await;
    run_webhooks(&server).await;
    run_schedules(&server).await;
    receives_all_except(&mut all, &[]).await;
    receives_all_except(&mut blue, &UNTAGGED).await;
    // None of these events reaches subscribers to another tag or namespace.
    let mut draft = Draft::new("kind");
    draft.tags.insert("team".into(), "green".into());
    let here = server.submit(draft).await;
    assert_eq!(next(&mut green).await.execution, Some(here));
    let there = elsewhere.submit(tagged("kind")).await.expect("the request is accepted").execution.id;
    assert_eq!(next(&mut others).await.execution, Some(there));
    let plain = sandbox.plain().await;
    for row in plain.query("select body from log", &[]).await.expect("the log is read") {
        for event in unpack(row.get(0)).expect("the entry is readable") {
            let untagged = matches!(
                event.fact,
                Fact::Renewed { .. }
                    | Fact::DrainRequested { .. }
                    | Fact::TokenKeysRotated { .. }
                    | Fact::ApiKeyCreated { .. }
                    | Fact::ApiKeyRevoked { .. }
                    | Fact::BulkJobStarted { .. }
                    | Fact::BulkJobEnded { .. }
                    | Fact::WebhookChanged { .. }
                    | Fact::InboxRefused { .. }
                    | Fact::ScheduleSaved { .. }
                    | Fact::ScheduleDeleted { .. }
                    | Fact::ScheduleSkipped { .. }
                    | Fact::ScheduleRefused { .. }
                    | Fact::GateConfigured { .. }
                    | Fact::GateRemoved { .. }
                    | Fact::Spent { .. }
                    | Fact::LimitReached { .. }
                    | Fact::BudgetReset { .. }
            );
            assert_eq!(event.tags.contains_key("team"), !untagged, "{event:?}");
            let whose = if event.execution == Some(there) { elsewhere.id() } else { server.namespace.id() };
            assert_eq!(event.namespace, whose, "{event:?}");
        }
    }
    server.engine.shutdown().await;
}
