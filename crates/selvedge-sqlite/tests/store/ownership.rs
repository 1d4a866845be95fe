//! The ownership of a file: a process that has lost it commits nothing more. Damaged files are refused.

use crate::support::{Directory, harness, plain_connection};
use selvedge_conformance::{Harness, decision_of};
use selvedge_core::{Draft, Execution};
use selvedge_sqlite::SqliteStore;
use selvedge_store::{Decision, Error, Transactions};
use std::path::Path;

async fn submission(harness: &Harness) -> Box<dyn Decision> {
    decision_of(harness.submit_command(vec![Draft::new("kind")]).await)
}

#[tokio::test]
async fn a_hard_link_is_the_same_file_also_in_one_process() {
    let directory = Directory::new();
    let harness = harness(&directory).await;
    let link = directory.path("link.db");
    std::fs::hard_link(directory.database(), &link).expect("the link is created");
    let error = SqliteStore::open(&link).await.expect_err("the file is in use");
    assert!(matches!(error, Error::InUse(_)), "{error:?}");
    harness.submit(Draft::new("kind")).await;
}

#[tokio::test]
async fn a_name_is_refused_while_the_log_of_another_name_holds_commits() {
    let directory = Directory::new();
    let harness = harness(&directory).await;
    harness.submit(Draft::new("kind")).await;
    harness.store.close().await;
    let link = directory.path("link.db");
    std::fs::hard_link(directory.database(), &link).expect("the link is created");
    std::fs::write(directory.path("selvedge.db-wal"), "commits").expect("the log is written");
    let error = SqliteStore::open(&link).await.expect_err("the other name has a log");
    assert!(error.to_string().ends_with("open the store under that name"), "{error}");
    SqliteStore::open(&directory.database()).await.expect("the right name is accepted").close().await;
    SqliteStore::open(&link).await.expect("the log is gone").close().await;
}

#[tokio::test]
async fn each_opening_raises_the_epoch() {
    let directory = Directory::new();
    let mut epochs: Vec<i32> = Vec::new();
    for _ in 0..3 {
        let harness = harness(&directory).await;
        harness.store.ping().await.expect("the store accepts writes");
        harness.store.close().await;
        let epoch = plain_connection(&directory).query_row("pragma user_version", (), |row| row.get(0));
        epochs.push(epoch.expect("the epoch is read"));
    }
    assert_eq!(epochs, [1, 2, 3]);
}

#[tokio::test]
async fn a_store_whose_epoch_was_raised_by_another_process_never_commits_again() {
    let directory = Directory::new();
    let harness = harness(&directory).await;
    harness.submit(Draft::new("kind")).await;
    let submissions = [submission(&harness).await, submission(&harness).await];
    let log = harness.log().await;
    let other = plain_connection(&directory);
    other.execute_batch("pragma user_version = 2").expect("the epoch is raised");
    for submission in submissions {
        let error = harness.store.transact(submission).await.expect_err("the write is refused");
        assert!(matches!(&error, Error::Unavailable(text) if text.contains("another process")), "{error:?}");
        // The refusal lasts, even if the epoch is set back.
        other.execute_batch("pragma user_version = 1").expect("the epoch is set");
    }
    assert!(harness.store.ping().await.is_err(), "the store is not ready");
    assert_eq!(harness.log().await, log);
}

/// Writes pseudorandom bytes over a page.
fn damage(path: &Path, original: &[u8], page: usize, random: &mut impl FnMut() -> u64) {
    let mut bytes = original.to_vec();
    for byte in &mut bytes[page * 4096..(page + 1) * 4096] {
        *byte = (random() >> 33) as u8;
    }
    std::fs::write(path, bytes).expect("the file is written");
}

#[tokio::test]
async fn a_randomly_damaged_page_is_found_at_the_start_or_does_no_harm() {
    let directory = Directory::new();
    let first = harness(&directory).await;
    let input = format!("\"{}\"", "x".repeat(3000));
    let drafts = (0..100).map(|_| Draft { input: input.clone().into(), ..Draft::new("kind") });
    let rows: Vec<Execution> = first.submit_all(drafts.collect()).await;
    first.store.close().await;
    let original = std::fs::read(directory.database()).expect("the file is read");
    let pages = original.len() / 4096;
    let mut state = 7_u64;
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state
    };
    let mut refused = 0;
    for page in (0..pages).step_by(pages / 40) {
        let damaged = Directory::new();
        damage(&damaged.database(), &original, page, &mut random);
        match SqliteStore::open(&damaged.database()).await {
            Err(error) => {
                assert!(error.to_string().contains("restore it from a backup"), "page {page}: {error}");
                refused += 1;
            }
            Ok(store) => {
                let harness = Harness::new(std::sync::Arc::new(store)).await;
                for row in &rows {
                    let stored = harness.stored(row.id).await;
                    assert_eq!(
                        (&stored.execution, &stored.input[..]),
                        (row, input.as_bytes()),
                        "page {page}"
                    );
                }
            }
        }
    }
    assert!(refused > 30, "{refused} of about 40 damaged files were refused");
}
