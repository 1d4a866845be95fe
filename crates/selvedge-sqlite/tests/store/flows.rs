//! Flows in the file: the answers of transactions that share a commit, and the rows that are deleted with a flow.

use crate::support::{Directory, harness};
use rusqlite::Connection;
use selvedge_conformance::{Harness, decision};
use selvedge_core::flow::{Counts, FlowFilter, FlowState};
use selvedge_core::rows::UnreadWrites;
use selvedge_core::rows::{Members, NodeEntry, ResultChange, Updated};
use selvedge_core::state::StateName;
use selvedge_core::table::{Entries, Guarded};
use selvedge_core::wiring::Child;
use selvedge_core::{Changes, Draft, Execution, Flow, FlowId, Name, Needs, Wiring};
use selvedge_store::{Decision, Demand, FlowDue, ReconcilerScope};
use std::sync::Arc;
use std::sync::mpsc::channel;
use uuid::Uuid;

fn counts(of: &[(StateName, i32)]) -> Counts {
    let mut counts = Counts::default();
    of.iter().for_each(|(state, more)| counts.add(*state, *more));
    counts
}

/// Returns a flow with one waiting member.
async fn flow(harness: &Harness) -> Flow {
    Flow {
        id: FlowId(Uuid::now_v7()),
        namespace: harness.namespace,
        submitted_at: harness.now().await,
        name: Some(Name::trusted("nightly")),
        tags: [("colour".to_owned(), "blue".to_owned())].into(),
        spec: Default::default(),
        version: 1,
        state: FlowState::Running,
        ended_at: None,
        detail: Default::default(),
        counts: counts(&[(StateName::Waiting, 1)]),
    }
}

fn counting(flow: FlowId, more: Counts) -> Box<dyn Decision> {
    let changes = Changes {
        unread: UnreadWrites { flow_counts: vec![(flow, more)], ..UnreadWrites::default() },
        ..Changes::default()
    };
    decision(|_| Needs::default(), move |_| Demand::Save(Box::new(changes.clone())))
}

#[tokio::test]
async fn transactions_that_share_a_commit_each_get_the_flows_they_emptied() {
    let directory = Directory::new();
    let harness = harness(&directory).await;
    let (first, second) = (flow(&harness).await, flow(&harness).await);
    harness
        .save(Changes { flows: Guarded::inserting([first.clone(), second.clone()]), ..Changes::default() })
        .await;
    let (proceed, blocked) = channel();
    let wait = decision(
        move |_| {
            blocked.recv().expect("the test lets the decision continue");
            Needs::default()
        },
        |_| Demand::Save(Box::default()),
    );
    let ends = counts(&[(StateName::Waiting, -1), (StateName::Completed, 1)]);
    let begins = counts(&[(StateName::Waiting, 1)]);
    let (_, one, two, three, _) = tokio::join!(
        harness.store.transact(wait),
        harness.store.transact(counting(first.id, ends)),
        harness.store.transact(counting(second.id, ends)),
        harness.store.transact(counting(second.id, begins)),
        async { proceed.send(()).expect("the writer is waiting") },
    );
    let emptied = [one, two, three].map(|saved| saved.expect("the changes are saved").emptied);
    assert_eq!(emptied, [vec![first.id], vec![second.id], vec![]]);
    let due = harness
        .store
        .due_flows(&ReconcilerScope::ALL, FlowDue::Settle, None, 9)
        .await
        .expect("due flows are read");
    assert_eq!(due.iter().map(|due| due.flow).collect::<Vec<_>>(), [first.id]);
}

#[tokio::test]
async fn the_tag_entries_of_a_flow_change_and_are_deleted_with_it() {
    let directory = Directory::new();
    let harness = harness(&directory).await;
    let flow = flow(&harness).await;
    let entries = || -> i64 {
        Connection::open(directory.database())
            .and_then(|other| other.query_row("select count(*) from flow_tags", (), |row| row.get(0)))
            .expect("rows are counted")
    };
    harness.save(Changes { flows: Guarded::inserting([flow.clone()]), ..Changes::default() }).await;
    assert_eq!(entries(), 1);
    let tagged = FlowFilter { tag: Some("colour:blue".into()), ..FlowFilter::all(harness.namespace) };
    let found = harness.store.list_flows(&tagged, None, 9).await.expect("flows are listed");
    assert_eq!(found, std::slice::from_ref(&flow));
    let green = Flow { tags: [("colour".into(), "green".into())].into(), version: 2, ..flow.clone() };
    harness.save(Changes { flows: Guarded::updating([(green, 1)]), ..Changes::default() }).await;
    let found = harness.store.list_flows(&tagged, None, 9).await.expect("flows are listed");
    assert_eq!((found, entries()), (Vec::new(), 1));
    harness.save(Changes { flows: Guarded::deleting([(flow.id, 2)]), ..Changes::default() }).await;
    assert_eq!(entries(), 0);
}

#[tokio::test]
async fn a_rewired_row_is_found_with_its_flow_and_another_keeps_its_own() {
    let directory = Directory::new();
    let harness = harness(&directory).await;
    let lone = harness.submit(Draft::new("kind")).await;
    let flow = FlowId(lone.id.0);
    let child = Child { execution: lone.id, detached: true };
    let wired = Execution {
        flow: Some(flow),
        wiring: Some(Arc::new(Wiring { children: vec![child], ..Wiring::default() })),
        version: 2,
        ..lone.clone()
    };
    let changes = |execution: &Execution, rewired| Changes {
        executions: Guarded::updating([Updated {
            execution: execution.clone(),
            expected_version: 1,
            result: ResultChange::Keep,
            rewired,
            input: None,
        }]),
        nodes: Entries::writing([NodeEntry {
            flow,
            name: Name::trusted("root"),
            submitted_at: lone.submitted_at,
            execution: lone.id,
        }]),
        ..Changes::default()
    };
    harness.save(changes(&wired, true)).await;
    assert_eq!(harness.row(lone.id).await, wired);
    let page = Members { flow, skip: 0, limit: u32::MAX };
    let members = harness.store.members(page).await.expect("members are read");
    assert_eq!(members, std::slice::from_ref(&wired));

    let plain = harness.submit(Draft::new("kind")).await;
    let kept = Execution { version: 2, ..plain.clone() };
    let other = Execution { flow: wired.flow, wiring: wired.wiring.clone(), ..kept.clone() };
    let changes = Changes { nodes: Entries::writing(Vec::new()), ..changes(&other, false) };
    harness.save(changes).await;
    assert_eq!(harness.row(plain.id).await, kept);
}
