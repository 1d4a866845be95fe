//! The statements that must stay fast use the indexes they were made for, with many rows and with or without statistics.

mod support;

use rusqlite::Connection;
use selvedge_sqlite::SqliteStore;
use selvedge_store::Store;
use support::Directory;

/// 100 000 executions of 50 classes in every state, of 20 sessions.
const FILL: &str = "
with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < 100000)
insert into executions (
  id, partition, namespace, class, flow, submitted_at, version, state, priority, ready_order, epoch, due_kind, due_at,
  session, lease_id, until_at, ended_at, history
)
select
  randomblob(16), 0, 1 + n % 3, 1 + n % 50, iif(n % 10 = 0, randomblob(16), null), n, 1,
  iif(n % 7 > 2, 10 + n % 5, n % 7), n % 4, n, 1, 1 + n % 4, n,
  iif(n % 7 = 2, n % 20, null), iif(n % 7 = 2, randomblob(16), null), iif(n % 7 in (1, 2), n, null),
  iif(n % 7 > 2, n, null), x''
from numbers;
insert into tags select namespace, 'colour:' || (place % 10), submitted_at, id from executions;
";

struct Case {
    statement: &'static str,
    /// What the plan says, in any order; nothing else may scan or sort.
    uses: &'static [&'static str],
}

const CASES: [Case; 11] = [
    Case {
        statement: include_str!("../src/sql/candidate_find.sql"),
        uses: &["SEARCH executions USING COVERING INDEX executions_claim (class=?)"],
    },
    Case {
        statement: include_str!("../src/sql/candidate_ahead.sql"),
        uses: &[
            "COVERING INDEX executions_claim (class=? AND priority>?)",
            "COVERING INDEX executions_claim (class=? AND priority=? AND (ready_order,id)<(?,?))",
        ],
    },
    Case {
        statement: include_str!("../src/sql/due_find.sql"),
        uses: &["SEARCH executions USING INDEX executions_due (due_kind=? AND "],
    },
    Case {
        statement: include_str!("../src/sql/due_next.sql"),
        uses: &["SEARCH executions USING COVERING INDEX executions_due (due_kind=?"],
    },
    Case {
        statement: include_str!("../src/sql/list_all.sql"),
        uses: &["SEARCH executions USING INDEX executions_list (namespace=? AND "],
    },
    Case {
        statement: include_str!("../src/sql/list_of_state.sql"),
        uses: &["SEARCH executions USING INDEX executions_by_state (namespace=? AND state=? AND "],
    },
    Case {
        statement: include_str!("../src/sql/list_of_tag.sql"),
        uses: &[
            "SEARCH tags USING PRIMARY KEY (namespace=? AND tag=? AND ",
            "SEARCH executions USING INDEX sqlite_autoindex_executions_1 (id=?)",
        ],
    },
    Case {
        statement: include_str!("../src/sql/lease_list.sql"),
        uses: &[
            "SEARCH executions USING INDEX executions_session (session=?)",
            "USE TEMP B-TREE FOR ORDER BY",
        ],
    },
    Case {
        statement: include_str!("../src/sql/execution_update.sql"),
        uses: &["SEARCH executions USING INDEX sqlite_autoindex_executions_1 (id=?)"],
    },
    Case {
        statement: include_str!("../src/sql/key_delete_expired.sql"),
        uses: &["SEARCH keys USING ", "SEARCH keys USING COVERING INDEX keys_expires (expires_at"],
    },
    Case {
        statement: include_str!("../src/sql/execution_fetch.sql"),
        uses: &[
            "SEARCH executions USING INDEX sqlite_autoindex_executions_1 (id=?)",
            "SEARCH inputs USING INDEX sqlite_autoindex_inputs_1 (execution=?)",
            "SEARCH sessions USING INTEGER PRIMARY KEY (rowid=?)",
        ],
    },
];

/// The statements of `walk` find lapsed leases by stepping from session to session.
const WALKS: [&str; 2] =
    [include_str!("../src/sql/lapsed_find.sql"), include_str!("../src/sql/overview_read.sql")];

async fn filled(directory: &Directory) -> Connection {
    let store = SqliteStore::open(&directory.database()).await;
    store.expect("the store opens").close().await;
    let connection = Connection::open(directory.database()).expect("the file opens");
    connection.execute_batch(FILL).expect("the file is filled");
    connection
}

fn plan(connection: &Connection, statement: &str) -> Vec<String> {
    let mut explain =
        connection.prepare(&format!("explain query plan {statement}")).expect("the statement is understood");
    let mut rows = explain.raw_query();
    let mut plan = Vec::new();
    while let Some(row) = rows.next().expect("the plan is read") {
        plan.push(row.get::<_, String>(3).expect("a step has a text"));
    }
    plan
}

fn check(connection: &Connection) {
    for case in &CASES {
        let plan = plan(connection, case.statement);
        for used in case.uses {
            assert!(plan.iter().any(|step| step.contains(used)), "{used} in\n{}\n{plan:#?}", case.statement);
        }
        let costly = |step: &&String| {
            (step.starts_with("SCAN") && !step.contains("json_each") && !step.contains("(subquery"))
                || step.contains("TEMP B-TREE")
        };
        for step in plan.iter().filter(costly) {
            let meant = case.uses.iter().any(|used| step.contains(used));
            assert!(meant, "{step} in\n{}\n{plan:#?}", case.statement);
        }
    }
    for walk in WALKS {
        let plan = plan(connection, walk);
        let of_executions = |step: &&String| step.contains("executions") || step.contains("further");
        for step in plan.iter().filter(of_executions) {
            assert!(
                step.starts_with("SEARCH") && step.contains("INDEX executions_session"),
                "{step} in\n{walk}\n{plan:#?}"
            );
        }
    }
}

#[tokio::test]
async fn claim_due_and_list_statements_use_their_indexes_among_100_000_rows() {
    let directory = Directory::new();
    let connection = filled(&directory).await;
    check(&connection);
    connection.execute_batch("analyze").expect("statistics are gathered");
    check(&connection);
}
