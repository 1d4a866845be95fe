//! Rows of flows: the cost of their counts, their locks, and their deletion.

use selvedge_engine::core::flow::{Counts, FlowDetail, FlowFilter, FlowSpec, FlowState};
use selvedge_engine::core::outbox::{OutboxKind, OutboxName, OutboxRow};
use selvedge_engine::core::rows::NodeEntry;
use selvedge_engine::core::rows::UnreadWrites;
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::table::{Access, Entries, Guarded, Request};
use selvedge_engine::core::{Changes, ExecutionId, Flow, FlowId, Name, NamespaceId, Needs, Rows, Timestamp};
use selvedge_engine::store::{
    Decision, Demand, DueReads, Error, FlowDue, FlowReads, NamespaceStore, ReconcilerScope, Transaction,
    Transactions,
};
use selvedge_postgres::{PostgresStore, testing};
use selvedge_system_tests::Sandbox;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use tokio::task::JoinHandle;
use uuid::Uuid;

/// A decision that loads some rows and saves fixed changes.
struct FixedDecision {
    needs: Needs,
    changes: Changes,
    seen: Arc<Mutex<Rows>>,
}

impl Decision for FixedDecision {
    fn begin(&mut self, _again: u32) -> Needs {
        self.needs.clone()
    }

    fn next(&mut self, rows: Rows) -> Demand {
        *self.seen.lock().expect("the mutex is not poisoned") = rows;
        Demand::Save(Box::new(self.changes.clone()))
    }
}

async fn run(store: &PostgresStore, needs: Needs, changes: Changes) -> Result<(Rows, Transaction), Error> {
    let seen = Arc::new(Mutex::new(Rows::default()));
    let done = store.transact(Box::new(FixedDecision { needs, changes, seen: seen.clone() })).await?;
    let rows = seen.lock().expect("the mutex is not poisoned").clone();
    Ok((rows, done))
}

async fn save(store: &PostgresStore, changes: Changes) -> Transaction {
    run(store, Needs::default(), changes).await.expect("the changes are saved").1
}

fn in_background_of(store: &Arc<PostgresStore>, needs: Needs, changes: Changes) -> JoinHandle<Transaction> {
    let store = store.clone();
    tokio::spawn(async move { run(&store, needs, changes).await.expect("the changes are saved").1 })
}

/// Returns an id; ids are in the order of their numbers.
fn id(number: u128) -> FlowId {
    FlowId(Uuid::from_u128(number))
}

fn counts(of: &[(StateName, i32)]) -> Counts {
    let mut counts = Counts::default();
    of.iter().for_each(|(state, more)| counts.add(*state, *more));
    counts
}

async fn flow(store: &PostgresStore, id: FlowId) -> Flow {
    Flow {
        id,
        namespace: store.namespace(&Name::trusted("default")).await.expect("the namespace is interned"),
        submitted_at: Timestamp::from_micros(1_800_000_000_000_000),
        name: Some(Name::trusted("named")),
        tags: BTreeMap::from([("colour".into(), "\"red\": \\é".into()), ("empty".into(), "".into())]),
        spec: FlowSpec { retention_ms: 1_000, ..FlowSpec::default() },
        version: 1,
        state: FlowState::Running,
        ended_at: None,
        detail: FlowDetail::default(),
        counts: counts(&[(StateName::Waiting, 2)]),
    }
}

async fn insert(store: &PostgresStore, ids: &[FlowId]) {
    let mut flows_inserted = Vec::new();
    for id in ids {
        flows_inserted.push(flow(store, *id).await);
    }
    save(store, Changes { flows: Guarded::inserting(flows_inserted), ..Changes::default() }).await;
}

async fn stored(store: &PostgresStore, id: FlowId) -> Flow {
    store.fetch_flows(&[id]).await.expect("the read succeeds").pop().expect("it exists")
}

fn claims(ids: &[FlowId]) -> Changes {
    let one = counts(&[(StateName::Waiting, -1), (StateName::Active, 1)]);
    Changes {
        unread: UnreadWrites {
            flow_counts: ids.iter().map(|id| (*id, one)).collect(),
            ..UnreadWrites::default()
        },
        ..Changes::default()
    }
}

#[tokio::test]
async fn adding_to_the_counts_of_a_flow_is_a_heap_only_update() {
    let sandbox = Sandbox::new();
    let store = sandbox.store("store").await;
    insert(&store, &[id(1)]).await;
    let client =
        testing::connect(&sandbox.url("plain"), &sandbox.settings()).await.expect("the connection opens");
    let statements: HashMap<_, _> = testing::statements().into_iter().collect();
    client
        .batch_execute(&format!("begin; prepare add as {}", statements["flows/add_counts"]))
        .await
        .expect("the transaction begins");
    let one_waits = "'{0}', '{1}', '{0}', '{0}', '{0}', '{0}', '{0}', '{0}', '{0}', '{0}', '{0}', '{1}'";
    for _ in 0..20 {
        let add = format!("execute add('{{{}}}', {one_waits})", id(1).0);
        client.batch_execute(&add).await.expect("the usage is counted");
    }
    let text = "select n_tup_upd, n_tup_hot_upd from pg_stat_xact_user_tables \
                where relname = 'flows' and schemaname = current_schema()";
    let row = client.query_one(text, &[]).await.expect("the read succeeds");
    client.batch_execute("rollback").await.expect("the flow ends");
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (20, 20));
}

#[tokio::test]
async fn two_transactions_that_count_in_the_same_flows_wait_for_the_first_flow_and_lock_no_other() {
    let sandbox = Sandbox::new();
    let store = sandbox.store("store").await;
    insert(&store, &[id(1), id(2)]).await;
    let (holder, other) = (sandbox.plain().await, sandbox.plain().await);
    holder.run(&format!("begin; select from flows where id = '{}' for update", id(1).0)).await;
    let first = in_background_of(&store, Needs::default(), claims(&[id(1), id(2)]));
    let second = in_background_of(&store, Needs::default(), claims(&[id(1), id(2)]));
    sandbox.waits_for_lock("store", 2).await;
    other.run(&format!("select from flows where id = '{}' for update nowait", id(2).0)).await;
    holder.release().await;
    first.await.expect("the task does not panic");
    second.await.expect("the task does not panic");
    assert_eq!(store.conflicts(), 0);
    for id in [id(1), id(2)] {
        let flow = stored(&store, id).await;
        assert_eq!((flow.version, flow.counts), (3, counts(&[(StateName::Active, 2)])));
    }
}

#[tokio::test]
async fn one_transaction_at_a_time_grows_a_flow_and_other_flows_grow_meanwhile() {
    let sandbox = Sandbox::new();
    let store = sandbox.store("store").await;
    insert(&store, &[id(1), id(2), id(3)]).await;
    let holder = sandbox.plain().await;
    holder.run(&format!("begin; select from flows where id = '{}' for update", id(3).0)).await;
    let grows = |flow: FlowId, flows: &[FlowId]| Needs {
        growing: Request::locking([flow]),
        flows: Request::locking(flows.to_vec()),
        ..Needs::default()
    };
    let first = in_background_of(&store, grows(id(1), &[id(3)]), Changes::default());
    sandbox.waits_for_lock("store", 1).await;
    let second = in_background_of(&store, grows(id(1), &[]), Changes::default());
    sandbox.waits_for_lock("store", 2).await;
    let third = in_background_of(&store, grows(id(2), &[]), Changes::default());
    assert_eq!(third.await.expect("the task does not panic").tries, 1);
    sandbox.waits_for_lock("store", 2).await;
    holder.release().await;
    for waiter in [first, second] {
        assert_eq!(waiter.await.expect("the task does not panic").tries, 1);
    }
}

#[tokio::test]
async fn a_flow_without_live_members_is_due_to_be_settled_then_to_be_deleted_and_leaves_nothing() {
    let sandbox = Sandbox::new();
    let store = sandbox.store("store").await;
    let mut new = flow(&store, id(1)).await;
    let name = Name::trusted("node");
    let outbox = OutboxRow {
        name: OutboxName { id: id(1).0, kind: OutboxKind::Flow },
        at: new.submitted_at,
        position: 3,
        namespace: NamespaceId(1),
        tags: new.tags.clone(),
    };
    let node = NodeEntry {
        flow: id(1),
        name: name.clone(),
        submitted_at: new.submitted_at,
        execution: ExecutionId(Uuid::from_u128(7)),
    };
    save(
        &store,
        Changes {
            flows: Guarded::inserting([new.clone()]),
            nodes: Entries::writing([node.clone()]),
            outbox: Entries::writing([outbox.clone()]),
            ..Changes::default()
        },
    )
    .await;
    let needs = Needs {
        nodes: Request::reading([(id(1), name.clone())]),
        outbox: Request::locking([outbox.name]),
        flows: Request::default().and(Access::Lock, [id(1)]).and(Access::Read, [id(2)]),
        ..Needs::default()
    };
    let (rows, _) = run(&store, needs, Changes::default()).await.expect("the read succeeds");
    assert_eq!((rows.flows, rows.outbox), (vec![new.clone()], vec![outbox.clone()]));
    assert_eq!(rows.nodes, [(id(1), name.clone(), node.execution)]);
    assert_eq!(store.overview().await.expect("the read succeeds").flows, []);

    let ends = counts(&[(StateName::Waiting, -2), (StateName::Completed, 2)]);
    let changes = Changes {
        unread: UnreadWrites { flow_counts: vec![(id(1), ends), (id(9), ends)], ..UnreadWrites::default() },
        ..Changes::default()
    };
    assert_eq!(save(&store, changes).await.emptied, [id(1)]);
    let [(FlowDue::Settle, since)] = store.overview().await.expect("the read succeeds").flows[..] else {
        panic!("it is to be settled")
    };
    let due =
        store.due_flows(&ReconcilerScope::ALL, FlowDue::Settle, None, 10).await.expect("the read succeeds");
    assert_eq!(due.iter().map(|due| (due.flow, due.due_at)).collect::<Vec<_>>(), [(id(1), since)]);
    assert_eq!(due[0].tags, new.tags);

    (new.state, new.ended_at, new.version) = (FlowState::Completed, Some(new.submitted_at), 3);
    save(&store, Changes { flows: Guarded::updating([(new.clone(), 2)]), ..Changes::default() }).await;
    let delete_at = new.delete_at().expect("the execution has ended");
    let overview = store.overview().await.expect("the read succeeds");
    assert_eq!(overview.flows, [(FlowDue::Delete, delete_at)]);
    assert_eq!(overview.outbox, [(OutboxKind::Flow, outbox.at)]);
    for tag in ["colour:\"red\": \\é", "empty:"] {
        let filter = FlowFilter { tag: Some(tag.into()), ..FlowFilter::all(new.namespace) };
        assert_eq!(store.list_flows(&filter, None, 10).await.expect("the list is read").len(), 1, "{tag}");
    }
    let gone = Changes {
        flows: Guarded::deleting([(id(1), 3)]),
        nodes: Entries::removing([(id(1), name)]),
        outbox: Entries::removing([outbox.name]),
        ..Changes::default()
    };
    save(&store, gone).await;
    let left = "select (select count(*) from flows) + (select count(*) from flow_tags) \
                + (select count(*) from nodes) + (select count(*) from outbox)";
    assert_eq!(sandbox.plain().await.number(left, &[]).await, 0);
}

#[tokio::test]
async fn a_flow_that_reopens_with_a_live_member_is_no_longer_due() {
    let sandbox = Sandbox::new();
    let store = sandbox.store("store").await;
    let mut ended = flow(&store, id(1)).await;
    (ended.state, ended.ended_at) = (FlowState::Failed, Some(ended.submitted_at));
    ended.counts = counts(&[(StateName::Failed, 1)]);
    save(&store, Changes { flows: Guarded::inserting([ended.clone()]), ..Changes::default() }).await;
    let reopened = Flow { state: FlowState::Running, ended_at: None, version: 2, ..ended };
    let again = counts(&[(StateName::Failed, -1), (StateName::Waiting, 1)]);
    save(
        &store,
        Changes {
            flows: Guarded::updating([(reopened, 1)]),
            unread: UnreadWrites { flow_counts: vec![(id(1), again)], ..UnreadWrites::default() },
            ..Changes::default()
        },
    )
    .await;
    let flow = stored(&store, id(1)).await;
    assert_eq!((flow.state, flow.ended_at, flow.version), (FlowState::Running, None, 3));
    assert_eq!(store.overview().await.expect("the read succeeds").flows, []);
}

#[tokio::test]
async fn an_unreadable_flow_is_named_when_it_is_loaded_and_left_out_of_lists() {
    let sandbox = Sandbox::new();
    let store = sandbox.store("store").await;
    insert(&store, &[id(1), id(2), id(3)]).await;
    sandbox.plain().await.run(&format!("update flows set spec = '[' where id = '{}'", id(2).0)).await;
    let needs = Needs { flows: Request::locking([id(1), id(2)]), ..Needs::default() };
    let error = run(&store, needs, Changes::default()).await.err();
    let Some(Error::Failed(detail)) = error else { panic!("{error:?}") };
    assert!(detail.contains(&id(2).to_string()), "{detail}");
    let namespace = stored(&store, id(1)).await.namespace;
    let filter = FlowFilter { states: vec![FlowState::Running], ..FlowFilter::all(namespace) };
    let listed = store.list_flows(&filter, None, 2).await.expect("the list is read");
    assert_eq!(listed.iter().map(|flow| flow.id).collect::<Vec<_>>(), [id(3), id(1)]);
}
