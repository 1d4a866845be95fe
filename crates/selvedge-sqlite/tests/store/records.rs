//! Signals, steps and waitpoints in the file: their deletion with the execution, unreadable rows, and their cost.

use crate::support::{Directory, harness, plain_connection, steps};
use rusqlite::params;
use rusqlite::types::Null;
use selvedge_core::rows::Needs;
use selvedge_core::rows::Queries;
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::report::{Fence, Op};
use selvedge_core::rules::step::StepDraft;
use selvedge_core::rules::suspend::Suspend;
use selvedge_core::rules::waitpoint::WaitpointDraft;
use selvedge_core::signal::Effect;
use selvedge_core::state::StateName;
use selvedge_core::step::{Step, StepKind};
use selvedge_core::suspension::{Condition, OnTimeout, WaitDraft};
use selvedge_core::table::Guarded;
use selvedge_core::token::TokenKeyId;
use selvedge_core::waitpoint::WaitpointState;
use selvedge_core::{Changes, Draft, Execution, Name, Signal, Waitpoint, WaitpointId};
use selvedge_sqlite::SqliteStore;
use selvedge_store::{SecretPlace, SecretStore, Transactions};
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// Returns changes that add a signal, a step and a waitpoint to an execution.
fn recording(row: &Execution) -> Changes {
    let signal = Signal {
        execution: row.id,
        number: 1,
        name: Name::trusted("approved"),
        source: Name::trusted("ann"),
        waitpoint: None,
        key: None,
        digest: u64::MAX,
        at: row.submitted_at,
        effect: Effect::Buffered,
        taken: None,
        payload: Some(b"{ }"[..].into()),
    };
    let step = Step {
        execution: row.id,
        number: 1,
        name: Name::trusted("charge"),
        kind: StepKind::Step,
        attempt: 0,
        started_at: row.submitted_at,
        recorded_at: None,
        result: None,
    };
    let waitpoint = Waitpoint {
        id: WaitpointId(Uuid::now_v7()),
        namespace: row.namespace,
        execution: row.id,
        number: 1,
        name: Name::trusted("approval"),
        source: Name::trusted("ann"),
        key: TokenKeyId(-1),
        created_at: row.submitted_at,
        expires_at: None,
        state: WaitpointState::Open,
        signals: Some(vec![Name::trusted("approval")]),
        prompt: None,
        issue: 0,
    };
    Changes { signals: vec![signal], steps: vec![step], waitpoints: vec![waitpoint], ..Changes::default() }
}

#[tokio::test]
async fn records_are_deleted_with_their_execution() {
    let directory = Directory::new();
    let harness = harness(&directory).await;
    let (goes, stays) = (harness.submit(Draft::new("kind")).await, harness.submit(Draft::new("kind")).await);
    let recorded = recording(&goes);
    let waitpoint = recorded.waitpoints[0].id;
    harness.save(recorded).await;
    harness.save(recording(&stays)).await;
    harness
        .save(Changes { executions: Guarded::deleting([(goes.id, goes.version)]), ..Changes::default() })
        .await;
    let other = plain_connection(&directory);
    for table in ["signals", "steps", "waitpoints"] {
        let left: Vec<[u8; 16]> = other
            .prepare(&format!("select execution from {table}"))
            .and_then(|mut all| all.query_map((), |row| row.get(0))?.collect())
            .expect("rows are read");
        assert_eq!(left, [*stays.id.0.as_bytes()], "{table}");
    }
    assert_eq!(harness.store.waitpoint(waitpoint).await.expect("waitpoints are read"), None);
}

#[tokio::test]
async fn an_unreadable_signal_makes_its_execution_unreadable_and_no_other() {
    let directory = Directory::new();
    let harness = harness(&directory).await;
    let (bad, good) = (harness.submit(Draft::new("kind")).await, harness.submit(Draft::new("kind")).await);
    let recorded = recording(&good);
    harness.save(recording(&bad)).await;
    harness.save(recorded.clone()).await;
    plain_connection(&directory)
        .execute("update signals set effect = 77 where execution = ?1", [bad.id.0.as_bytes()])
        .expect("the row is updated");
    let rows = harness
        .load(Needs {
            queries: Queries { records: vec![bad.id, good.id], ..Queries::default() },
            ..Needs::default()
        })
        .await;
    assert_eq!(rows.found.records, [good.id]);
    assert_eq!((rows.signals, rows.steps), (recorded.signals, recorded.steps));
    let [(unreadable, why)] = &rows.unreadable[..] else { panic!("{:?}", rows.unreadable) };
    assert_eq!(*unreadable, bad.id);
    assert!(why.contains("signal 1 of execution") && why.contains("unknown effect 77"), "{why}");
    let error = harness.store.signals(bad.id, 0, 9).await.expect_err("the row is unreadable");
    assert!(error.to_string().contains(&bad.id.to_string()), "{error}");
}

#[tokio::test]
async fn a_suspended_execution_is_unchanged_after_reopening_and_resumes_with_its_steps() {
    let directory = Directory::new();
    let before = harness(&directory).await;
    let claimed = before.leased(Draft::new("kind")).await;
    let fence = Fence::of(&claimed.execution).expect("the execution is active");
    let charged = StepDraft {
        name: Name::trusted("charge"),
        kind: StepKind::Step,
        result: b"{ \"paid\": 1.0 }"[..].into(),
        duration_ms: 5,
    };
    before.report(fence, Op::Step(charged)).await.expect("a step is recorded");
    let wait = WaitDraft {
        step: Some((Name::trusted("approval"), StepKind::Wait)),
        condition: Condition::Any(vec![Condition::signal(Name::trusted("approved")), Condition::operator()]),
        timeout_ms: Some(3_600_000),
        on_timeout: OnTimeout::Escalate,
    };
    let suspend = Suspend {
        waits: vec![wait],
        waitpoints: vec![WaitpointDraft::new(Name::trusted("approval"))],
        fingerprint: i64::MIN,
        default_timeout_ms: None,
    };
    let reported =
        before.report(fence, Op::Suspend(Box::new(suspend))).await.expect("the execution is suspended");
    assert_eq!(reported.state, StateName::Suspended);
    let row = before.row(claimed.execution.id).await;
    before.store.close().await;
    drop(before);

    let after = harness(&directory).await;
    assert_eq!(after.row(row.id).await, row);
    let waitpoints = after.store.waitpoints(row.id, 0, 9).await.expect("waitpoints are read");
    assert_eq!(waitpoints, reported.waitpoints);
    let keys = after.store.token_keys().await.expect("keys are read");
    assert_eq!(
        keys.iter().map(|key| (key.id, key.fingerprint)).collect::<Vec<_>>(),
        [(waitpoints[0].key, i64::MIN)]
    );
    assert!(after.claim(1).await.is_empty(), "it is suspended");
    after.operate(row.id, Action::Resume).await.expect("the execution resumes");
    let again = after.claim(1).await.remove(0);
    let steps: Vec<_> =
        again.steps.iter().map(|step| (step.name.as_str(), step.recorded_at.is_some())).collect();
    assert_eq!(steps, [("charge", true), ("approval", true)]);
    assert_eq!(again.steps[0].result.as_deref(), Some(&b"{ \"paid\": 1.0 }"[..]));
}

#[tokio::test]
async fn the_first_secret_is_kept_beside_the_file_even_after_reopening() {
    let directory = Directory::new();
    // Whatever it ends with.
    for (number, secret) in
        [&b"the first secret"[..], b"another one\r", b"a third one\r\n", b"\n"].into_iter().enumerate()
    {
        let path = directory.path(&format!("{number}.db"));
        let file = PathBuf::from(format!("{}-secret", path.display()));
        let store = SqliteStore::open(&path).await.expect("the store opens");
        // A draft that a crash has left.
        std::fs::write(format!("{}-new", file.display()), "half").expect("the file is written");
        let kept = store.root_secret(secret).await.expect("the secret is kept");
        assert_eq!((&kept.bytes[..], &kept.place), (secret, &SecretPlace::File(file.clone())));
        store.close().await;
        drop(store);
        let store = SqliteStore::open(&path).await.expect("the store opens again");
        assert_eq!(store.root_secret(b"a further secret").await.expect("the secret is read"), kept);
        assert!(!Path::new(&format!("{}-new", file.display())).exists());
    }
}

#[tokio::test]
async fn a_file_that_has_a_secret_goes_on_using_it() {
    let directory = Directory::new();
    drop(harness(&directory).await);
    let insert = "insert into kept_secret (single, secret) values (1, ?1)";
    plain_connection(&directory).execute(insert, [b"an old secret"]).expect("the row is inserted");
    let kept =
        harness(&directory).await.store.root_secret(b"a new secret").await.expect("the secret is read");
    assert_eq!((&kept.bytes[..], kept.place), (&b"an old secret"[..], SecretPlace::Store));
}

/// Inserts suspended executions of class 1, each with a due time for its timeout.
const SUSPENDED: &str = "
with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < ?1)
insert into executions (
  id, partition, namespace, class, submitted_at, version, state, claim_priority, ready_order, rank, epoch, due_kind, due_at,
  history, suspension
)
select randomblob(16), 0, 1, 1, n, 1, 4, 0, n, n, 1, 5, 1000000 + n, x'', x'00'
from numbers
";

/// Inserts one waiting execution of class 1.
const READY: &str = "
insert into executions (
  id, partition, namespace, class, submitted_at, version, state, claim_priority, ready_order, rank, epoch, history, input
)
values (randomblob(16), 0, 1, 1, 5, 1, 0, 0, 5, 5, 0, x'', x'31')
";

#[tokio::test]
async fn slow_a_claim_takes_as_many_steps_among_a_million_suspended_as_among_one() {
    let directory = Directory::new();
    let store = SqliteStore::open(&directory.database()).await;
    store.expect("the store opens").close().await;
    let connection = plain_connection(&directory);
    connection.execute(READY, ()).expect("the row is inserted");
    let place = connection.last_insert_rowid();
    let claim = || {
        [
            steps(&connection, "executions/find_candidates", [1]),
            steps(&connection, "executions/read_candidate", [place, 1000]),
            steps(&connection, "executions/count_ahead", params![1, 6, b"", 100]),
            steps(&connection, "leases/list_expired", params![9, b"", 100, Null, Null]),
            steps(&connection, "executions/list_due", params![5, 9, -1, b"", 100, Null, Null]),
        ]
    };
    connection.execute(SUSPENDED, [1]).expect("the row is inserted");
    let among_one = claim();
    connection.execute(SUSPENDED, [1_000_000]).expect("the rows are inserted");
    assert_eq!(claim(), among_one);
}

/// Execution 1 has one untaken signal, execution 2 has one after 50 000 taken ones.
const SIGNALS: &str = "
with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < 50001)
insert into signals
select cast(zeroblob(15) || x'02' as blob), n, 'tick', 'ann', null, null, 'key ' || n, 0, 1, 0, iif(n < 50001, n, null),
  x'31'
from numbers;
insert into signals
values (cast(zeroblob(15) || x'01' as blob), 1, 'tick', 'ann', null, null, 'key 1', 0, 1, 0, null, x'31');
";

#[tokio::test]
async fn a_wait_takes_as_many_steps_after_one_signal_as_after_fifty_thousand() {
    let directory = Directory::new();
    let store = SqliteStore::open(&directory.database()).await;
    store.expect("the store opens").close().await;
    let connection = plain_connection(&directory);
    connection.execute_batch(SIGNALS).expect("the file is filled");
    let wait = |execution: u8, number: u32| {
        let mut id = [0; 16];
        id[15] = execution;
        [
            steps(&connection, "signals/list_untaken", [id]),
            steps(&connection, "signals/find", params![id, format!("key {number}")]),
            steps(&connection, "signals/take", params![id, number, 7]),
        ]
    };
    assert_eq!(wait(2, 50_001), wait(1, 1));
}
