//! The writer: jobs that share a commit, and failing jobs and unreadable rows that affect no other.

use crate::support::{Directory, harness};
use rusqlite::Connection;
use selvedge_conformance::{Harness, decision, decision_of};
use selvedge_core::filter::Payloads;
use selvedge_core::rows::Queries;
use selvedge_core::rows::{Candidates, Inserted};
use selvedge_core::table::Guarded;
use selvedge_core::{Changes, Draft, Needs};
use selvedge_store::{Decision, Demand, Error};
use std::sync::mpsc::{Sender, channel};

/// Returns a decision that keeps the writer busy until the sender is used, so that all jobs sent meanwhile form one
/// group.
fn busy() -> (Box<dyn Decision>, Sender<()>) {
    let (proceed, blocked) = channel();
    let wait = decision(
        move |_| {
            blocked.recv().expect("the test lets the decision continue");
            Needs::default()
        },
        |_| Demand::Save(Box::default()),
    );
    (wait, proceed)
}

async fn submission(harness: &Harness) -> Box<dyn Decision> {
    let command = harness.submit_command(vec![Draft::new("kind")]).await;
    decision_of(command)
}

async fn commits(harness: &Harness) -> i64 {
    let figures = harness.store.figures().await.expect("figures are read");
    figures.expect("the store counts commits").0
}

#[tokio::test]
async fn queued_jobs_share_one_commit() {
    let directory = Directory::new();
    let harness = harness(&directory).await;
    let (one, two, three) =
        (submission(&harness).await, submission(&harness).await, submission(&harness).await);
    let before = commits(&harness).await;
    let (wait, proceed) = busy();
    let (_, one, two, three, _) = tokio::join!(
        harness.store.transact(wait),
        harness.store.transact(one),
        harness.store.transact(two),
        harness.store.transact(three),
        async { proceed.send(()).expect("the writer is waiting") },
    );
    let entries = [one, two, three]
        .map(|saved| saved.expect("the changes are saved").entry.expect("the transaction has events"));
    assert_eq!(entries, [entries[0], entries[0] + 1, entries[0] + 2], "one entry per transaction");
    assert_eq!(commits(&harness).await, before + 1);
}

#[tokio::test]
async fn a_panicking_decision_fails_alone_in_its_group() {
    let directory = Directory::new();
    let harness = harness(&directory).await;
    let (one, two) = (submission(&harness).await, submission(&harness).await);
    let (wait, proceed) = busy();
    let panicking = decision(|_| Needs::default(), |_| panic!("on purpose"));
    let (_, one, failed, two, _) = tokio::join!(
        harness.store.transact(wait),
        harness.store.transact(one),
        harness.store.transact(panicking),
        harness.store.transact(two),
        async { proceed.send(()).expect("the writer is waiting") },
    );
    let error = failed.expect_err("the decision panicked");
    assert!(
        matches!(&error, Error::Failed(text) if text == "the decision panicked: on purpose"),
        "{error:?}"
    );
    assert!(one.is_ok() && two.is_ok());
    assert_eq!(harness.claim(9).await.len(), 2);
}

#[tokio::test]
async fn a_decision_whose_guard_always_fails_rolls_back_only_its_own_part_of_the_group() {
    let directory = Directory::new();
    let harness = harness(&directory).await;
    let command = harness.submit_command(vec![Draft::new("kind")]).await;
    let taken = harness.run(command).await.remove(0).expect("the request is accepted");
    let changes = Changes {
        executions: Guarded::inserting([Inserted {
            execution: taken.execution,
            input: Default::default(),
            result: None,
        }]),
        ..Changes::default()
    };
    let never = decision(|_| Needs::default(), move |_| Demand::Save(Box::new(changes.clone())));
    let (one, two) = (submission(&harness).await, submission(&harness).await);
    let (wait, proceed) = busy();
    let (_, one, contended, two, _) = tokio::join!(
        harness.store.transact(wait),
        harness.store.transact(one),
        harness.store.transact(never),
        harness.store.transact(two),
        async { proceed.send(()).expect("the writer is waiting") },
    );
    let error = contended.expect_err("the id is taken");
    assert!(matches!(error, Error::Contended(_)), "{error:?}");
    assert!(one.is_ok() && two.is_ok());
    assert_eq!(harness.claim(9).await.len(), 3);
    assert_eq!(harness.log().await.len(), 4);
}

#[tokio::test]
async fn an_unreadable_row_is_no_candidate_and_does_not_take_the_place_of_others() {
    let directory = Directory::new();
    let harness = harness(&directory).await;
    let rows = harness.submit_all(vec![Draft::new("kind"); 3]).await;
    let (bad, good) = (rows[0].id, [rows[1].id, rows[2].id]);
    Connection::open(directory.database())
        .and_then(|other| {
            other.execute("update executions set detail = '{' where id = ?1", [bad.0.as_bytes()])
        })
        .expect("the row is updated");
    let needs = |limit| Needs {
        queries: Queries {
            candidates: vec![Candidates { classes: vec![rows[0].class], limit }],
            ..Queries::default()
        },
        ..Needs::default()
    };
    let found = harness.load(needs(2)).await;
    assert_eq!(found.found.candidates, good);
    assert_eq!(found.inputs.len(), 2);
    assert_eq!(found.unreadable.len(), 1);
    assert_eq!(found.unreadable[0].0, bad);
    assert!(found.unreadable[0].1.contains("detail"), "{}", found.unreadable[0].1);
    let error = harness.store.fetch(&[bad], Payloads::ALL).await.expect_err("the row is unreadable");
    assert!(error.to_string().contains(&bad.to_string()), "{error}");
    assert_eq!(harness.claim(9).await.len(), 2);
}

#[tokio::test]
async fn a_long_input_is_returned_and_deleted_with_its_execution() {
    let directory = Directory::new();
    let harness = harness(&directory).await;
    let inputs = |path| -> i64 {
        Connection::open(path)
            .and_then(|other| other.query_row("select count(*) from inputs", (), |row| row.get(0)))
            .expect("rows are counted")
    };
    let input = format!("\"{}\"", "x".repeat(100_000));
    let draft = Draft { input: input.clone().into(), ..Draft::new("kind") };
    let row = harness.submit(draft).await;
    assert_eq!(inputs(directory.database()), 1);
    assert_eq!(harness.stored(row.id).await.input, input);
    let claimed = harness.claim(1).await.remove(0);
    assert_eq!(claimed.input, input);
    harness.complete(&claimed, b"1").await;
    let version = harness.row(row.id).await.version;
    harness.save(Changes { executions: Guarded::deleting([(row.id, version)]), ..Changes::default() }).await;
    assert_eq!(inputs(directory.database()), 0);
}
