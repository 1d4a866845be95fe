//! Flows in the file: what a transaction is told when it shares its commit, and what goes with a flow.

mod support;

use rusqlite::Connection;
use selvedge_conformance::{Harness, decision};
use selvedge_core::flow::{Counts, FlowFilter, FlowState};
use selvedge_core::rows::UnreadWrites;
use selvedge_core::rows::{Members, NodeEntry, ResultChange, Updated};
use selvedge_core::state::StateName;
use selvedge_core::table::{Entries, Guarded};
use selvedge_core::wiring::Child;
use selvedge_core::{Changes, Draft, Execution, Flow, FlowId, Name, Needs, Wiring};
use selvedge_sqlite::SqliteStore;
use selvedge_store::{Decision, Demand, FlowDue};
use std::sync::Arc;
use std::sync::mpsc::channel;
use support::Directory;
use uuid::Uuid;

async fn harness(directory: &Directory) -> Harness {
    let store = SqliteStore::open(&directory.database()).await;
    Harness::new(Arc::new(store.expect("the store opens"))).await
}

fn counts(of: &[(StateName, i32)]) -> Counts {
    let mut counts = Counts::default();
    of.iter().for_each(|(state, more)| counts.add(*state, *more));
    counts
}

/// A flow with one ready member.
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
async fn transactions_that_share_a_commit_are_each_told_what_they_emptied() {
    let directory = Directory::new();
    let harness = harness(&directory).await;
    let (first, second) = (flow(&harness).await, flow(&harness).await);
    harness
        .save(Changes { flows: Guarded::inserting([first.clone(), second.clone()]), ..Changes::default() })
        .await;
    let (go_on, told) = channel();
    let wait = decision(
        move |_| {
            told.recv().expect("it is told to go on");
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
        async { go_on.send(()).expect("the writer waits") },
    );
    let emptied = [one, two, three].map(|saved| saved.expect("it is saved").emptied);
    assert_eq!(emptied, [vec![first.id], vec![second.id], vec![]]);
    let due = harness.store.due_flows(FlowDue::Settle, None, 9).await.expect("due flows are read");
    assert_eq!(due.iter().map(|due| due.flow).collect::<Vec<_>>(), [first.id]);
}

#[tokio::test]
async fn the_entries_of_its_tags_change_and_go_with_a_flow() {
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
async fn a_row_that_is_wired_anew_is_found_with_its_flow_and_one_that_is_not_keeps_its_own() {
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
