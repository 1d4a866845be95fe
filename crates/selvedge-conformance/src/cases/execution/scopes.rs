//! Scopes of reconcilers: every scan finds the rows of its scope, however many others are before them.

use crate::harness::Harness;
use crate::harness::by_hand::{self, counts};
use selvedge_core::gate::{Gate, GateKind};
use selvedge_core::outbox::{OutboxKind, OutboxName, OutboxRow};
use selvedge_core::state::StateName;
use selvedge_core::table::{Entries, Guarded};
use selvedge_core::{Changes, DueKind, Execution, Flow, State, Timestamp};
use selvedge_store::{FlowDue, ReconcilerScope};
use std::collections::BTreeMap;
use uuid::Uuid;

type Tags = BTreeMap<String, String>;

/// Inserts one row of each kind, all due since `at`. Returns the ids in the order of the scans: a delayed execution, an
/// expired lease, a flow, an outbox row and a gate.
async fn insert(harness: &Harness, name: &str, tags: &Tags, at: Timestamp) -> [String; 5] {
    let class = harness.class("default", "kind").await;
    let row = || Execution { tags: tags.clone(), ..by_hand::row(harness, class, at) };
    let delayed = Execution { state: State::Delayed { until: at }, ..row() };
    let session = by_hand::session(harness, name, 1, at);
    let leased = by_hand::with_lease(row(), &session, at);
    by_hand::insert(harness, &[delayed.clone(), leased.clone()]).await;
    let flow = Flow {
        tags: tags.clone(),
        counts: counts(&[(StateName::Completed, 1)]),
        ..by_hand::flow(harness, at)
    };
    by_hand::insert_flows(harness, std::slice::from_ref(&flow)).await;
    let outbox = OutboxRow {
        name: OutboxName { id: Uuid::now_v7(), kind: OutboxKind::Edges },
        at,
        position: 0,
        namespace: harness.namespace,
        tags: tags.clone(),
    };
    let gate = Gate { version: 1, due_at: Some(at), ..Gate::new(harness.named(GateKind::Quota, name)) };
    let changes = Changes {
        outbox: Entries::writing(vec![outbox.clone()]),
        gates: Guarded::writing(vec![(gate.clone(), None)]),
        ..Changes::default()
    };
    harness.save(changes).await;
    [
        format!("{:?}", delayed.id),
        format!("{:?}", leased.id),
        format!("{:?}", flow.id),
        format!("{:?}", outbox.name.id),
        format!("{:?}", gate.id()),
    ]
}

/// Returns the ids that each scan finds, in the order of `insert`.
async fn scan(harness: &Harness, scope: &ReconcilerScope, limit: u32) -> [Vec<String>; 5] {
    let store = &harness.store;
    let due = store.due(scope, DueKind::Delay, None, limit).await.expect("rows are read");
    let leases = store.expired_leases(scope, None, limit).await.expect("rows are read");
    let flows = store.due_flows(scope, FlowDue::Settle, None, limit).await.expect("flows are read");
    let outbox = store.outbox(scope, OutboxKind::Edges, 0, None, limit).await.expect("the outbox is read");
    let gates = store.due_gates(scope, None, limit).await.expect("gates are read");
    [
        due.iter().map(|row| format!("{:?}", row.execution)).collect(),
        leases.iter().map(|row| format!("{:?}", row.execution)).collect(),
        flows.iter().map(|flow| format!("{:?}", flow.flow)).collect(),
        outbox.iter().map(|row| format!("{:?}", row.name.id)).collect(),
        gates.iter().map(|gate| format!("{:?}", gate.id())).collect(),
    ]
}

pub async fn a_scan_finds_the_rows_of_its_scope_behind_those_of_others(harness: &Harness) {
    let elsewhere = harness.in_namespace("elsewhere").await;
    let now = harness.now().await;
    let tags = |team: &str| Tags::from([("area \"x\"".into(), "é".into()), ("team".into(), team.into())]);
    for number in 0..5 {
        let at = now.minus_ms(60_000 - number);
        insert(&elsewhere, &format!("elsewhere {number}"), &tags("mine"), at).await;
    }
    let others = insert(harness, "others", &tags("others"), now.minus_ms(50_000)).await;
    let untagged = insert(harness, "untagged", &Tags::new(), now.minus_ms(40_000)).await;
    let mine = insert(harness, "mine", &tags("mine"), now.minus_ms(30_000)).await;
    let everything = scan(harness, &ReconcilerScope::default(), 100).await;
    assert!(everything.iter().all(|found| found.len() == 8), "{everything:?}");

    let namespace = ReconcilerScope { namespace: Some(harness.namespace), tag: None };
    let found = scan(harness, &namespace, 3).await;
    for (kind, found) in found.iter().enumerate() {
        let mut expected = [&others, &untagged, &mine].map(|ids| ids[kind].clone()).to_vec();
        let mut found = found.clone();
        // Leases come in the order of their ids.
        expected.sort();
        found.sort();
        assert_eq!(found, expected, "scan {kind}");
    }
    for (name, value) in [("team", "mine"), ("area \"x\"", "é")] {
        let scope = ReconcilerScope { tag: Some((name.into(), value.into())), ..namespace.clone() };
        let found = scan(harness, &scope, 2).await;
        for (kind, found) in found[..4].iter().enumerate() {
            assert!(found.contains(&mine[kind]), "scan {kind}: {found:?}");
            assert!(!found.contains(&untagged[kind]), "scan {kind}: {found:?}");
            assert_eq!(found.contains(&others[kind]), name != "team", "scan {kind}: {found:?}");
        }
        assert_eq!(found[4], [others[4].clone(), untagged[4].clone()], "gates have no tags");
    }
    let nobody = ReconcilerScope { tag: Some(("team".into(), "nobody".into())), namespace: None };
    assert!(scan(harness, &nobody, 9).await[..4].iter().all(Vec::is_empty));
}
