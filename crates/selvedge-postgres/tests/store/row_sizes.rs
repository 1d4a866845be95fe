//! The size of an execution's row, which every change writes again, after many attempts with long errors.

use selvedge_engine::core::history::IN_ROW_LIMIT;
use selvedge_engine::core::policy::{Backoff, Policy, Retry};
use selvedge_engine::core::rules::report::Op;
use selvedge_engine::core::{Draft, FailureClass};
use selvedge_system_tests::Sandbox;
use selvedge_system_tests::server::fence;
use std::fmt::Write;
use tokio_postgres::SimpleQueryMessage;

/// The length of the errors.
const ERROR: usize = 30_000;
const ATTEMPTS: u32 = 20;

/// Returns text that does not compress well, different for every seed.
fn noise(seed: u32) -> String {
    let mut random = fastrand::Rng::with_seed(seed.into());
    let mut text = String::with_capacity(ERROR);
    while text.len() < ERROR {
        let _ = write!(text, "{:016x}", random.u64(..));
    }
    text.truncate(ERROR);
    text
}

#[tokio::test]
async fn a_row_stays_small_and_cheap_to_write_however_long_the_errors_of_its_attempts_are() {
    let sandbox = Sandbox::new();
    let server = sandbox.server("server").await;
    let plain = sandbox.plain().await;
    let retry = Retry { max_retries: ATTEMPTS, backoff: Backoff::Fixed { delay_ms: 0 }, ..Retry::default() };
    let id =
        server.submit(Draft { policy: Policy { retry, ..Policy::default() }, ..Draft::new("kind") }).await;
    let log_end = "select (pg_current_wal_insert_lsn() - '0/0')::bigint";
    let begin = plain.number(log_end, &[]).await;
    for attempt in 0..ATTEMPTS {
        let claimed = loop {
            match server.claim("one", 1).await.pop() {
                Some(claimed) => break claimed,
                None => drop(server.tick("delay_promoter").await),
            }
        };
        let fail = Op::Fail { message: noise(attempt), class: FailureClass::Transient, retry_after_ms: None };
        server.report(fence(&claimed), fail).await.expect("the failure is accepted");
        let history = "select octet_length(history)::bigint from executions where id = $1";
        let in_row = plain.number(history, &[&id.0]).await;
        assert!(in_row <= IN_ROW_LIMIT as i64, "{in_row} bytes of history after attempt {attempt}");
    }
    // Only shown: other tests of the same server write to its log, too.
    let written = (plain.number(log_end, &[]).await - begin) / i64::from(ATTEMPTS);
    eprintln!("{written} bytes of log for each attempt with an error of {ERROR} bytes");
    let whole = "select pg_column_size(executions.*)::bigint from executions where id = $1";
    let row = plain.number(whole, &[&id.0]).await;
    eprintln!("the row has {row} bytes");
    assert!(row <= 48 * 1024, "the row has {row} bytes, with an error of {ERROR}");
    // The log of the statement alone: the log of the whole server also has the writes of other tests. The least of
    // several measurements has no images of whole pages.
    let mut least = i64::MAX;
    for _ in 0..3 {
        let explain = format!(
            "explain (analyze, wal, format json) update executions
             set detail = detail || ' ', history = history || '' where id = '{}'",
            id.0
        );
        let answer = plain.simple_query(&explain).await.expect("the statement runs");
        let plan = answer.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        let plan: serde_json::Value =
            serde_json::from_str(plan.expect("there is a plan")).expect("the plan is JSON");
        least = least.min(plan[0]["Plan"]["WAL Bytes"].as_i64().expect("the plan has WAL Bytes"));
    }
    eprintln!("a change of the row writes {least} bytes of log");
    assert!(least <= 80 * 1024, "a change of the row writes {least} bytes of log");
    let attempts = server.namespace.attempts(id).await.expect("the attempts are read");
    let messages: Vec<usize> = attempts
        .iter()
        .filter_map(|attempt| attempt.error.as_ref())
        .map(|error| error.message.len())
        .collect();
    assert_eq!(messages.len(), ATTEMPTS as usize);
    let (latest, earlier) = messages.split_last().expect("there are attempts");
    assert_eq!(*latest, ERROR, "the latest error is whole");
    assert!(earlier.iter().all(|bytes| *bytes <= 1024), "earlier ones are shortened: {earlier:?}");
}
