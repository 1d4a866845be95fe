//! The calls of a store: each is reported to its meter, and passes through an interceptor.

use crate::harness::runner::decision;
use crate::harness::{Harness, by_hand, new_id};
use async_trait::async_trait;
use selvedge_core::api_key::KeyDigest;
use selvedge_core::bulk_job::BulkJobId;
use selvedge_core::filter::{Filter, Payloads};
use selvedge_core::flow::{FlowFilter, FlowState};
use selvedge_core::gate::{GateId, GateKind, GateName};
use selvedge_core::outbox::OutboxKind;
use selvedge_core::rollup::RollupQuery;
use selvedge_core::rows::Members;
use selvedge_core::schedule::ScheduleName;
use selvedge_core::stream::{FrameRange, StreamName};
use selvedge_core::waitpoint::WaitpointFilter;
use selvedge_core::webhook::{WebhookId, WebhookName};
use selvedge_core::{ClassId, DueKind, Execution, FlowId, Name, NamespaceId, Needs, Timestamp, WaitpointId};
use selvedge_store::{
    CallObserver, Decision, DeliveryPage, Demand, Error, FlowDue, Interceptor, LogLimit, NamespaceSettings,
    Notification, ProjectionLease, ProjectionPage, ReconcilerScope, Store,
};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// A call that has not begun, by name.
type Call<'a> = (&'static str, Pin<Box<dyn Future<Output = Result<(), Error>> + Send + 'a>>);

/// Returns calls of a store, from their names and arguments.
macro_rules! calls {
    ($store:expr; $($name:ident($($argument:expr),*);)*) => {
        vec![$({
            let store = $store;
            (stringify!($name), Box::pin(async move { store.$name($($argument),*).await.map(drop) }))
        }),*]
    };
}

const ALL: ReconcilerScope = ReconcilerScope::ALL;
const NONE: Payloads = Payloads::NONE;
/// More than thirty years.
const AGES_MS: i64 = 1_000_000_000_000;

/// A decision that saves nothing.
fn idle() -> Box<dyn Decision> {
    decision(|_| Needs::default(), |_| Demand::Save(Box::default()))
}

fn of_the_store(store: &dyn Store) -> Vec<Call<'_>> {
    calls![store;
        now();
        bring_forward(Timestamp::default());
        transact(idle());
        notify(Notification::default());
        figures();
        coverage();
        ping();
        overview();
        glance();
        intern(&[]);
        classes_after(ClassId(0));
        remove_unused_classes(AGES_MS, 1);
        log_page(0, LogLimit::entries(1));
        drop_old_log(AGES_MS);
        root_secret(&[7; 32]);
        token_keys();
        delete_expired_keys(1);
        take_projection(ProjectionLease { owner: Uuid::nil(), ttl_ms: 1 });
        save_projection(ProjectionLease { owner: Uuid::max(), ttl_ms: 1 }, ProjectionPage::default());
        delete_old_projection(1);
        save_rollups(&[]);
        delete_old_rollups(AGES_MS, 1);
        delete_old_frames(1);
        delete_old_inbox(1);
    ]
}

fn of_executions(store: &dyn Store, namespace: NamespaceId, row: Execution) -> Vec<Call<'_>> {
    let id = row.id;
    calls![store;
        fetch(&[id], NONE);
        payload_sizes(&[id], NONE);
        head(id);
        list(&Filter::all(namespace), None, 1, NONE);
        count(&Filter::all(namespace), 1);
        count_lanes(namespace, &[vec![ClassId(1)]], 1);
        depths(namespace, &[ClassId(1)], 1);
        history_pages(id);
        ahead_of(&row, 1);
        due(&ALL, DueKind::Delay, None, 1);
        expired_leases(&ALL, None, 1);
        outbox(&ALL, OutboxKind::Edges, 0, None, 1);
        sessions(Some(namespace));
        unseen_sessions(1, 1);
        frames(StreamName { execution: id, attempt: 0 }, FrameRange::default(), 1);
        stream(StreamName { execution: id, attempt: 0 });
        signals(id, 0, 1);
        steps(id, 0, 1);
        waitpoints(id, 0, 1);
        list_waitpoints(&WaitpointFilter::all(namespace), None, 1);
        waitpoint(WaitpointId(id.0));
        ledger_of(id);
        fetch_flows(&[FlowId(id.0)]);
        list_flows(&FlowFilter::all(namespace), None, 1);
        count_flows(namespace, FlowState::Running, 1);
        members(Members { flow: FlowId(id.0), skip: 0, limit: 1 });
        due_flows(&ALL, FlowDue::Settle, None, 1);
    ]
}

fn of_a_namespace(store: &dyn Store, namespace: NamespaceId) -> Vec<Call<'_>> {
    fn name() -> Name {
        Name::trusted("name")
    }
    let rollups = RollupQuery {
        namespace,
        lane: None,
        from: Timestamp::default(),
        to: Timestamp::default(),
        after: None,
    };
    let page =
        DeliveryPage { webhook: WebhookId(Uuid::nil()), state: None, before: None, limit: 1, bodies: false };
    calls![store;
        namespace(&name());
        find_namespace(&name());
        namespaces();
        namespace_settings(namespace);
        configure_namespace(namespace, NamespaceSettings::default());
        delete_rest_of_namespace(NamespaceId(i32::MAX), 1);
        fetch_gates(&[GateId(1)]);
        list_gates(namespace, GateKind::Lane, None, 1);
        due_gates(&ALL, None, 1);
        parts_of(&GateName::new(namespace, GateKind::Budget, name()), 1);
        ledger(GateId(1), 0);
        held_by(GateId(1), 1);
        api_key(&KeyDigest([7; 32]));
        api_keys(None, 1);
        touch_api_keys(&[]);
        bulk_job(BulkJobId(Uuid::nil()));
        bulk_jobs(namespace, None, 1);
        due_bulk_jobs(&ALL, 1);
        webhook(&WebhookName { namespace, name: name() });
        webhooks(Some(namespace), None, 1);
        deliveries(&page);
        schedule(&ScheduleName { namespace, name: name() });
        schedules(namespace, None, 1);
        due_schedules(&ALL, None, 1);
        rollups(&rollups, 1);
        pending_inbox(Some(&name()), None, 1);
        refused_inbox(&name(), None, 1);
        count_inbox(None, 1);
    ]
}

/// Returns every call of the store.
async fn every_call(harness: &Harness) -> Vec<Call<'_>> {
    let (store, namespace) = (&*harness.store, harness.namespace);
    let class = harness.class("default", "kind").await;
    let row = by_hand::row(harness, class, harness.now().await);
    let mut calls = of_the_store(store);
    calls.extend(of_executions(store, namespace, Execution { id: new_id(), ..row }));
    calls.extend(of_a_namespace(store, namespace));
    calls
}

/// Returns the names of the methods of the contract that may fail, except shorthands of others.
fn methods_of_the_contract() -> BTreeSet<String> {
    let contract = Path::new(env!("CARGO_MANIFEST_DIR")).join("../selvedge-store/src/contract");
    let files = std::fs::read_dir(contract).expect("the contract is read");
    let mut methods = BTreeSet::new();
    for file in files {
        let source = std::fs::read_to_string(file.expect("the contract is read").path());
        for method in source.expect("the contract is read").split("async fn ").skip(1) {
            let signature = method.split([';', '{']).next().unwrap_or_default();
            let name = method.split('(').next().unwrap_or_default();
            if signature.contains("Result<") && name != "log_after" {
                methods.insert(name.to_owned());
            }
        }
    }
    methods
}

tokio::task_local! {
    /// The names of the calls that the current task has made.
    static HEARD: RefCell<Vec<&'static str>>;
}

/// Notes the calls of the current task.
struct Listener;

impl CallObserver for Listener {
    fn observe(&self, call: &'static str, _took: Duration, _failed: bool) {
        let _ = HEARD.try_with(|heard| heard.borrow_mut().push(call));
    }
}

pub async fn every_call_is_reported_once_under_its_name(harness: &Harness) {
    harness.store.meter().add(Arc::new(Listener));
    let calls = every_call(harness).await;
    let names: BTreeSet<String> = calls.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names, methods_of_the_contract());
    for (name, call) in calls {
        let reported = HEARD.scope(RefCell::default(), async {
            call.await.unwrap_or_else(|error| panic!("{name}: {error}"));
            HEARD.with(RefCell::take)
        });
        assert_eq!(reported.await, [name]);
    }
}

/// Fails the calls of tasks that listen, and counts their decisions as calls.
struct Refusal;

#[async_trait]
impl Interceptor for Refusal {
    async fn before(&self, call: &'static str) -> Result<(), Error> {
        match HEARD.try_with(|_| ()) {
            Ok(()) => Err(Error::Failed(format!("{call} is refused"))),
            Err(_) => Ok(()),
        }
    }

    fn decision(&self, decision: Box<dyn Decision>) -> Box<dyn Decision> {
        let _ = HEARD.try_with(|heard| heard.borrow_mut().push("decision"));
        decision
    }
}

pub async fn an_interceptor_sees_every_decision_and_fails_any_call(harness: &Harness) {
    harness.store.meter().intercept(Arc::new(Refusal));
    for (name, call) in every_call(harness).await {
        let refused = HEARD.scope(RefCell::default(), async { (call.await, HEARD.with(RefCell::take)) });
        let (result, heard) = refused.await;
        let refusal = result.expect_err("the call is refused").to_string();
        assert_eq!(refusal, Error::Failed(format!("{name} is refused")).to_string());
        assert_eq!(heard.contains(&"decision"), name == "transact");
    }
}
