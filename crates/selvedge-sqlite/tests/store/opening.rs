//! Opening a file: one process at a time, which files are accepted, and the migration of earlier ones.

use crate::support::Directory;
use rusqlite::Connection;
use selvedge_conformance::Harness;
use selvedge_core::fact::LeaseRef;
use selvedge_core::flow::Counts;
use selvedge_core::gate::{GateKind, GateName};
use selvedge_core::rows::{Candidates, HeldBy, Payload, ResultChange, Updated};
use selvedge_core::rows::{Queries, UnreadWrites};
use selvedge_core::state::StateName;
use selvedge_core::table::Guarded;
use selvedge_core::{
    Changes, ClassId, Classes, Draft, Execution, ExecutionId, FlowId, LeaseId, Name, NamespaceId, Needs,
    Outcome, State, Suspension, Timestamp,
};
use selvedge_sqlite::SqliteStore;
use selvedge_store::{Error, KeyStore, Transactions};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

async fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(path).await.expect("the store opens")
}

async fn refusal(path: &Path) -> Error {
    SqliteStore::open(path).await.expect_err("the call is refused")
}

async fn harness(path: &Path) -> Harness {
    Harness::new(Arc::new(open(path).await)).await
}

#[tokio::test]
async fn a_second_process_learns_which_one_has_the_file() {
    let directory = Directory::new();
    let first = open(&directory.database()).await;
    let pid = std::process::id();
    let error = refusal(&directory.database()).await;
    assert!(matches!(error, Error::InUse(_)), "{error:?}");
    let text = error.to_string();
    assert!(text.contains(&format!("selvedge.db is already open in process {pid}; stop")), "{text}");

    first.set_address("http://127.0.0.1:7878");
    let text = refusal(&directory.database()).await.to_string();
    let expected = format!(
        "is already open in process {pid}, which listens on http://127.0.0.1:7878; connect to it, or stop it first"
    );
    assert!(text.ends_with(&expected), "{text}");
}

#[cfg(unix)]
#[tokio::test]
async fn two_names_of_one_file_have_the_same_lock() {
    let directory = Directory::new();
    let _first = open(&directory.database()).await;
    let alias = directory.path("alias.db");
    std::os::unix::fs::symlink(directory.database(), &alias).expect("the link is created");
    let error = refusal(&alias).await;
    assert!(matches!(error, Error::InUse(_)), "{error:?}");
}

#[tokio::test]
async fn a_dropped_or_closed_store_has_released_the_file() {
    let directory = Directory::new();
    drop(open(&directory.database()).await);
    let closed = open(&directory.database()).await;
    closed.close().await;
    let _reopened = open(&directory.database()).await;
    closed.close().await;
    let error = closed.ping().await.expect_err("the store is closed");
    assert!(matches!(error, Error::Unavailable(_)), "{error:?}");
    assert!(closed.delete_expired_keys(1).await.is_err(), "a closed store writes nothing");
}

#[tokio::test]
async fn closing_leaves_everything_in_one_file() {
    let directory = Directory::new();
    let harness = harness(&directory.database()).await;
    harness.submit(Draft::new("kind")).await;
    harness.store.close().await;
    let wal = std::fs::metadata(directory.path("selvedge.db-wal"));
    assert!(wal.is_err(), "the write-ahead log is deleted");
}

#[tokio::test]
async fn rows_are_unchanged_after_reopening() {
    let directory = Directory::new();
    let before = harness(&directory.database()).await;
    let row: Execution = before.submit(Draft::new("kind")).await;
    let claimed = before.claim(1).await.remove(0);
    let log = before.log().await;
    before.store.close().await;
    drop(before);

    let after = harness(&directory.database()).await;
    assert_eq!(after.row(row.id).await, claimed.execution);
    assert_eq!(after.log().await, log);
    assert_eq!(after.store.sessions(None).await.expect("sessions are read").len(), 1);
    after.complete(&claimed, b"1").await;
    let newest = after.log().await.last().map(|(number, _)| *number);
    assert_eq!(newest, log.last().map(|(number, _)| number + 1), "numbers continue");
}

#[tokio::test]
async fn answered_changes_are_in_the_files_that_a_crash_leaves() {
    let (directory, left) = (Directory::new(), Directory::new());
    let before = harness(&directory.database()).await;
    before.submit_all(vec![Draft::new("kind"); 50]).await;
    let claimed = before.claim(50).await;
    for name in ["selvedge.db", "selvedge.db-wal"] {
        std::fs::copy(directory.path(name), left.path(name)).expect("the file is copied");
    }

    let after = harness(&left.database()).await;
    for one in &claimed {
        assert_eq!(after.row(one.execution.id).await, one.execution);
    }
    assert_eq!(after.log().await, before.log().await);
}

#[tokio::test]
async fn the_clock_does_not_go_back_behind_the_times_in_the_file() {
    let directory = Directory::new();
    let before = harness(&directory.database()).await;
    before.submit(Draft::new("kind")).await;
    let tomorrow = before.now().await.plus_ms(86_400_000).micros();
    before.store.close().await;
    drop(before);
    let other = Connection::open(directory.database()).expect("the file opens");
    other.execute("update log set at = ?1", [tomorrow]).expect("the row is updated");
    drop(other);

    let after = harness(&directory.database()).await;
    let first = after.now().await;
    assert!(first.micros() >= tomorrow);
    assert!(after.submit(Draft::new("kind")).await.submitted_at >= first);
}

#[tokio::test]
async fn a_schema_that_needs_a_newer_program_is_refused() {
    let directory = Directory::new();
    drop(open(&directory.database()).await);
    let other = Connection::open(directory.database()).expect("the file opens");
    let set = |version: i32, minimum: i32| {
        other
            .execute("update selvedge_schema set version = ?1, minimum_reader = ?2", [version, minimum])
            .expect("the row is updated");
    };
    set(99, 98);
    let error = refusal(&directory.database()).await;
    assert!(matches!(error, Error::SchemaTooNew { found: 99, minimum: 98, .. }), "{error:?}");
    set(99, 1);
    harness(&directory.database()).await.submit(Draft::new("kind")).await;
    let version: i32 = other
        .query_row("select version from selvedge_schema", (), |row| row.get(0))
        .expect("the row is read");
    assert_eq!(version, 99, "a newer schema that this program can use is left unchanged");
}

/// The migrations in order, up to the one before admission.
const MIGRATIONS: [&str; 11] = [
    include_str!("../../src/migrations/0001_names.sql"),
    include_str!("../../src/migrations/0002_executions.sql"),
    include_str!("../../src/migrations/0003_keys.sql"),
    include_str!("../../src/migrations/0004_sessions.sql"),
    include_str!("../../src/migrations/0005_log.sql"),
    include_str!("../../src/migrations/0006_wiring.sql"),
    include_str!("../../src/migrations/0007_flows.sql"),
    include_str!("../../src/migrations/0008_log_window.sql"),
    include_str!("../../src/migrations/0009_streams.sql"),
    include_str!("../../src/migrations/0010_suspension.sql"),
    include_str!("../../src/migrations/0011_records.sql"),
];

const SCHEMA: &str = "
create table selvedge_schema (version integer not null, minimum_reader integer not null) strict;
";

/// Creates a file as an earlier program left it, which knew this number of migrations, with these rows.
fn file_of(directory: &Directory, version: usize, rows: &str) -> Connection {
    let file = Connection::open(directory.database()).expect("the file opens");
    for part in MIGRATIONS.iter().take(version).chain([&SCHEMA, &rows]) {
        file.execute_batch(part).expect("the earlier schema is created");
    }
    file.execute("insert into selvedge_schema values (?1, ?1)", [version as i32])
        .expect("the row is inserted");
    file
}

fn id(last: u128) -> uuid::Uuid {
    uuid::Uuid::from_u128(0x0000_0000_0000_7000_8000_0000_0000_0000 + last)
}

fn counted(counts: &[(StateName, i32)]) -> Counts {
    let mut sum = Counts::default();
    counts.iter().for_each(|(state, more)| sum.add(*state, *more));
    sum
}

/// One completed execution.
const FIRST_ROWS: &str = "
insert into executions (
  place, id, partition, namespace, class, submitted_at, version, state, priority, ready_order, epoch, ended_at,
  history, input, result
)
values (7, x'00000000000070008000000000000001', 3, 1, 1, 10, 4, 10, 5, 10, 1, 20, x'', x'31', x'32');
";

#[tokio::test]
async fn a_file_of_the_first_schema_is_migrated_with_its_rows() {
    let directory = Directory::new();
    drop(file_of(&directory, 5, FIRST_ROWS));
    let harness = harness(&directory.database()).await;
    let kept = harness.stored(ExecutionId(id(1))).await;
    assert_eq!((&kept.input[..], kept.result.as_deref()), (&b"1"[..], Some(&b"2"[..])));
    let row = kept.execution;
    assert_eq!((row.version, row.priority, row.state), (4, 5, State::Terminal(Outcome::Completed)));
    assert!(row.wiring.is_none() && row.join.is_none());
    let next = harness.submit(Draft::new("kind")).await;
    assert_eq!(harness.row(next.id).await, next);
}

/// A flow with two members, one waiting and one completed.
const ROWS_BEFORE_SUSPENSION: &str = "
insert into executions (
  id, partition, namespace, class, flow, submitted_at, version, state, priority, ready_order, epoch, due_kind, due_at,
  session, lease_id, until_at, ended_at, history, input, result
)
values
  (x'00000000000070008000000000000002', 3, 1, 1, x'00000000000070008000000000000001', 10, 2, 0, 5, 10, 1, 2, 99,
    null, null, null, null, x'', x'31', null),
  (x'00000000000070008000000000000003', 3, 1, 1, x'00000000000070008000000000000001', 10, 4, 10, 5, 10, 1, null, null,
    null, null, null, 20, x'', x'31', x'32');
insert into flows (
  id, namespace, submitted_at, spec, version, state, blocked, waiting, delayed, active, completed, failed, cancelled,
  expired, skipped
)
values (x'00000000000070008000000000000001', 1, 10, '{}', 7, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0);
";

#[tokio::test]
async fn a_file_of_the_schema_before_suspension_is_migrated_with_its_rows() {
    let directory = Directory::new();
    drop(file_of(&directory, 9, ROWS_BEFORE_SUSPENSION));
    let harness = harness(&directory.database()).await;
    let (ready, ended) = (harness.stored(ExecutionId(id(2))).await, harness.stored(ExecutionId(id(3))).await);
    assert_eq!((ready.execution.version, ready.execution.state), (2, State::Waiting));
    assert_eq!(ended.execution.state, State::Terminal(Outcome::Completed));
    assert_eq!((&ended.input[..], ended.result.as_deref()), (&b"1"[..], Some(&b"2"[..])));

    let flow = FlowId(id(1));
    let kept = harness.store.fetch_flows(&[flow]).await.expect("flows are read").remove(0);
    assert_eq!(kept.counts, counted(&[(StateName::Waiting, 1), (StateName::Completed, 1)]));
    let suspends = counted(&[(StateName::Waiting, -1), (StateName::Suspended, 1)]);
    let saved = harness
        .save(Changes {
            unread: UnreadWrites { flow_counts: vec![(flow, suspends)], ..UnreadWrites::default() },
            ..Changes::default()
        })
        .await;
    assert_eq!(saved.emptied, [], "a flow with a suspended member is not emptied");
    let ends = counted(&[(StateName::Suspended, -1), (StateName::Failed, 1)]);
    let saved = harness
        .save(Changes {
            unread: UnreadWrites { flow_counts: vec![(flow, ends)], ..UnreadWrites::default() },
            ..Changes::default()
        })
        .await;
    assert_eq!(saved.emptied, [flow]);
}

/// A flow whose only live member is suspended, and a waiting execution without a flow and with a separate input.
const ROWS_BEFORE_ADMISSION: &str = "
insert into executions (
  place, id, partition, namespace, class, flow, submitted_at, version, state, priority, ready_order, epoch, ended_at,
  history, joined, wiring, input, result, suspension
)
values
  (5, x'00000000000070008000000000000002', 3, 1, 1, x'00000000000070008000000000000001', 10, 2, 4, 5, 10, 1, null,
    x'', null, null, x'31', null, x''),
  (7, x'00000000000070008000000000000003', 3, 1, 1, x'00000000000070008000000000000001', 10, 4, 10, 5, 10, 1, 20,
    x'', null, null, x'31', x'32', null),
  (8, x'00000000000070008000000000000004', 3, 1, 1, null, 11, 1, 0, 5, 11, 0, null, x'', null, null, null, null, null);
insert into inputs values (x'00000000000070008000000000000004', x'33');
insert into flows (
  id, namespace, submitted_at, spec, version, state, blocked, waiting, delayed, active, suspended, completed, failed,
  cancelled, expired, skipped
)
values (x'00000000000070008000000000000001', 1, 10, '{}', 7, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0);
";

#[tokio::test]
async fn a_file_of_the_schema_before_admission_is_migrated_with_its_rows() {
    let directory = Directory::new();
    let file = file_of(&directory, 11, ROWS_BEFORE_ADMISSION);
    let suspension = Suspension {
        number: 1,
        since: Timestamp::from_micros(15),
        lease: LeaseRef {
            id: LeaseId(id(9)),
            epoch: 1,
            worker: Name::trusted("ann"),
            instance: Name::trusted("one"),
        },
        waits: Vec::new(),
    };
    file.execute("update executions set suspension = ?1 where state = 4", [suspension.encode()])
        .expect("the row is updated");
    drop(file);
    let harness = harness(&directory.database()).await;
    let [suspended, ended, ready] = [2, 3, 4].map(|last| ExecutionId(id(last)));
    let waits = harness.stored(suspended).await.execution;
    assert_eq!((waits.version, &waits.state), (2, &State::Suspended(suspension.into())));
    let ended = harness.stored(ended).await;
    assert_eq!(ended.execution.state, State::Terminal(Outcome::Completed));
    assert_eq!((&ended.input[..], ended.result.as_deref()), (&b"1"[..], Some(&b"2"[..])));
    let found = harness.load(Needs {
        queries: Queries {
            candidates: vec![Candidates { classes: vec![ClassId(1)], limit: 9 }],
            ..Queries::default()
        },
        ..Needs::default()
    });
    assert_eq!(found.await.inputs, [(ready, Payload::Whole(b"3"[..].into()))]);

    let gate = GateName::new(waits.namespace, GateKind::Key, Name::trusted("tenant"));
    let held = Execution { state: State::Held(gate.clone().into()), version: 3, ..waits };
    let flow = FlowId(id(1));
    let changes = Changes {
        executions: Guarded::updating([Updated {
            execution: held.clone(),
            expected_version: 2,
            result: ResultChange::Keep,
            rewired: false,
            input: None,
        }]),
        unread: UnreadWrites {
            flow_counts: vec![(flow, counted(&[(StateName::Suspended, -1), (StateName::Held, 1)]))],
            ..UnreadWrites::default()
        },
        ..Changes::default()
    };
    let saved = harness.save(changes).await;
    assert_eq!(saved.emptied, [], "a flow with a held member is not emptied");
    assert_eq!(harness.row(suspended).await, held);
    let asked = HeldBy::first(gate.id(), 9);
    let found = harness
        .load(Needs { queries: Queries { held: vec![asked], ..Queries::default() }, ..Needs::default() })
        .await;
    assert_eq!((found.found.held, found.executions), (vec![(asked, vec![suspended])], vec![held]));
    let kept = harness.store.fetch_flows(&[flow]).await.expect("flows are read").remove(0);
    assert_eq!(kept.counts, counted(&[(StateName::Held, 1), (StateName::Completed, 1)]));
    let ends = counted(&[(StateName::Held, -1), (StateName::Failed, 1)]);
    let saved = harness
        .save(Changes {
            unread: UnreadWrites { flow_counts: vec![(flow, ends)], ..UnreadWrites::default() },
            ..Changes::default()
        })
        .await;
    assert_eq!(saved.emptied, [flow]);
}

#[tokio::test]
async fn a_file_without_pools_is_migrated_and_a_crowded_lane_is_claimed_in_order() {
    let directory = Directory::new();
    let rows = "
insert into namespaces (name) values ('default');
with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < 40)
insert into classes (namespace, lane, kind, capabilities) select 1, 'default', 'kind ' || n, '[]' from numbers;
with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < 40)
insert into executions (
  id, partition, namespace, class, submitted_at, version, state, priority, ready_order, epoch, history, input
)
select randomblob(16), 0, 1, n, n, 1, 0, 0, 100 - n, 0, x'', x'31' from numbers;
";
    drop(file_of(&directory, 11, rows));
    let store = SqliteStore::open(&directory.database()).await.expect("the store opens");
    let harness = Harness::new(Arc::new(store)).await;
    let mut classes = Classes::default();
    classes.add(harness.store.classes_after(ClassId(0)).await.expect("classes are read"));
    assert_eq!(classes.pool_of(ClassId(40)), Some(ClassId(-33)));
    assert_eq!(classes.pool_of(ClassId(32)), None);
    let ranges = classes.ranges_of(NamespaceId(1), &Name::trusted("default"));
    let candidates = vec![Candidates { classes: ranges, limit: 100 }];
    let found = harness
        .load(Needs { queries: Queries { candidates, ..Queries::default() }, ..Needs::default() })
        .await;
    let class_of: HashMap<_, _> = found.executions.iter().map(|row| (row.id, row.class.0)).collect();
    let found: Vec<i32> = found.found.candidates.iter().map(|id| class_of[id]).collect();
    assert_eq!(found, (1..=40).rev().collect::<Vec<i32>>());
}

#[tokio::test]
async fn a_path_that_cannot_be_a_store_is_refused_with_advice() {
    let directory = Directory::new();
    std::fs::write(directory.path("letter.txt"), "Dear reader, this is no database.".repeat(99))
        .expect("the file is written");
    Connection::open(directory.path("other.db"))
        .and_then(|other| other.execute_batch("create table recipes (name text)"))
        .expect("the other database is created");
    let others = || {
        ["letter.txt", "other.db"].map(|name| std::fs::read(directory.path(name)).expect("the file is read"))
    };
    let before = others();
    for (path, expected) in [
        (directory.path(""), "is a directory; name a file in it, such as"),
        (directory.path("no/where.db"), "does not exist; create it"),
        (directory.path("letter.txt"), "letter.txt: the file is not a database"),
        (directory.path("other.db"), "other.db: the file is a database of another program"),
        (":memory:".into(), "use the memory store"),
        ("".into(), "is not the path of a file"),
    ] {
        let error = refusal(&path).await;
        assert!(matches!(error, Error::BadAddress(_)), "{error:?}");
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert!(others() == before, "other files are not changed");
}
