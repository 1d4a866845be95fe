//! Statements that must stay fast use the indexes they were written for, among many rows, with and without statistics.

use crate::support::{Directory, text};
use rusqlite::Connection;
use selvedge_sqlite::SqliteStore;
use selvedge_store::Transactions;

/// 100 000 executions of 50 classes in every state, with 20 sessions; one in ten is the member of a flow.
const FILL: &str = "
with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < 100000)
insert into executions (
  id, partition, namespace, class, flow, submitted_at, version, state, claim_priority, ready_order, rank, epoch, due_kind,
  due_at, session, lease_id, until_at, ended_at, gate, history, suspension, held_by
)
select
  randomblob(16), 0, 1 + n % 3, 1 + n % 50, iif(n % 10 = 0, randomblob(16), null), n, 1,
  iif(n % 7 > 3, 10 + n % 5, iif(n % 7 = 3, 4 + n % 2, n % 7)), n % 4, n, n - n % 4 * 3600000000, 1, 1 + n % 6, n,
  iif(n % 7 = 2, n % 20, null), iif(n % 7 = 2, randomblob(16), null), iif(n % 7 in (1, 2), n, null),
  iif(n % 7 > 3, n, null), iif(n % 7 = 3 and n % 2 = 1, n % 9, null), x'',
  iif(n % 7 = 3 and n % 2 = 0, x'', null), iif(n % 7 = 3 and n % 2 = 1, x'', null)
from numbers;
insert into tags select namespace, 'colour:' || (place % 10), submitted_at, id from executions;
insert into nodes select flow, 'node', submitted_at, id from executions where flow is not null;
insert into outbox select id, 1 + place % 5, submitted_at, 0, namespace, null from executions where place % 10 = 0;
insert into flows (
  id, namespace, submitted_at, spec, version, state, due_kind, due_at,
  waiting_dependencies, waiting, delayed, active, completed, failed, cancelled, expired, skipped
)
select
  flow, namespace, submitted_at, '{}', 1, place % 4, iif(place % 3 = 0, 1 + place % 2, null),
  iif(place % 3 = 0, submitted_at, null), 0, 0, 0, 0, 1, 0, 0, 0, 0
from executions
where flow is not null;
insert into flow_tags select namespace, 'colour:' || (place % 10), submitted_at, id from flows;
insert into log (at, body) select submitted_at, x'' from executions;
insert into streams select id, 1, 1, 0, 0, 0, 0 from executions;
insert into frames select id, 1, 0, 1, place % 2, submitted_at, x'31', null from executions;
insert into signals
select id, 1, 'approved', 'ann', null, null, iif(place % 2 = 0, 'key', null), 0, 1, 0, iif(place % 3 = 0, null, 1), x'31'
from executions;
insert into steps select id, 1, 'charge', 0, 0, 1, 1, x'31' from executions;
insert into waitpoints
select
  id, 1, randomblob(16), namespace, 'approval', 'person ' || (place % 100), 1, submitted_at, null, iif(place % 2 = 0, 0, 2),
  null, null, null, null, 0
from executions;
insert into gates
select
  place, namespace, 1 + place % 5, 'gate ' || (place % 100), iif(place % 3 = 0, 'part ' || place, null), 1,
  iif(place % 4 = 0, '{}', null), 1, null, iif(place % 5 = 0, submitted_at, null)
from executions;
insert into ledger (gate, period, execution, spent)
select place % 100, place % 10, iif(place > 1000, id, null), '{}' from executions where true
on conflict do nothing;
";

struct Case {
    /// The path of the statement: `noun/verb`.
    statement: &'static str,
    /// Parts of the plan, in any order. Nothing else may scan or sort.
    uses: &'static [&'static str],
}

const CASES: [Case; 90] = [
    Case {
        statement: "executions/find_candidates",
        uses: &["SEARCH executions USING COVERING INDEX executions_claim (class=?)"],
    },
    Case {
        statement: "executions/find_pooled",
        uses: &["SEARCH executions USING COVERING INDEX executions_claim_pool (pool=?)"],
    },
    Case {
        statement: "executions/count_waiting",
        uses: &["SEARCH executions USING COVERING INDEX executions_claim (class=?)"],
    },
    Case {
        statement: "executions/count_pooled",
        uses: &["SEARCH executions USING COVERING INDEX executions_claim_pool (pool=?)"],
    },
    // Active executions are few.
    Case {
        statement: "executions/count_active",
        uses: &[
            "SEARCH executions USING INDEX executions_by_state (namespace=? AND state=?)",
            "USE TEMP B-TREE FOR GROUP BY",
            "SCAN ",
        ],
    },
    Case {
        statement: "executions/list_newest",
        uses: &["SEARCH executions USING INDEX executions_list (namespace=? AND ", "SCAN "],
    },
    Case {
        statement: "executions/list_oldest",
        uses: &["SEARCH executions USING INDEX executions_list (namespace=? AND submitted_at<?)"],
    },
    Case {
        statement: "projected_events/delete_old",
        uses: &[
            "SEARCH projected_events USING PRIMARY KEY (cursor=?)",
            "SEARCH projected_events USING PRIMARY KEY (cursor<?)",
            "SEARCH log_window USING INTEGER PRIMARY KEY (rowid=?)",
        ],
    },
    Case {
        statement: "projected_events/delete_rest",
        uses: &[
            "SEARCH projected_events USING PRIMARY KEY (cursor=?)",
            "SEARCH projected_events USING COVERING INDEX projected_events_namespace (namespace=?)",
        ],
    },
    Case {
        statement: "projected_attempts/delete",
        uses: &["SEARCH projected_attempts USING PRIMARY KEY (execution=?)"],
    },
    Case {
        statement: "projected_attempts/end",
        uses: &["SEARCH projected_attempts USING PRIMARY KEY (execution=? AND attempt=?)"],
    },
    Case { statement: "classes/list_unused", uses: &["SEARCH classes USING INDEX classes_used (used_at<?)"] },
    Case {
        statement: "executions/count_ahead",
        uses: &["SEARCH executions USING COVERING INDEX executions_claim (class=? AND (rank,id)<(?,?))"],
    },
    Case {
        statement: "executions/list_due",
        uses: &["SEARCH executions USING INDEX executions_due (due_kind=? AND "],
    },
    Case {
        statement: "executions/find_next_due",
        uses: &["SEARCH executions USING COVERING INDEX executions_due (due_kind=?"],
    },
    Case {
        statement: "executions/list",
        uses: &["SEARCH executions USING INDEX executions_list (namespace=? AND "],
    },
    Case {
        statement: "executions/list_by_state",
        uses: &["SEARCH executions USING INDEX executions_by_state (namespace=? AND state=? AND "],
    },
    Case {
        statement: "executions/list_by_tag",
        uses: &[
            "SEARCH tags USING PRIMARY KEY (namespace=? AND tag=? AND ",
            "SEARCH executions USING INDEX sqlite_autoindex_executions_1 (id=?)",
        ],
    },
    Case {
        statement: "leases/list",
        uses: &[
            "SEARCH executions USING INDEX executions_session (session=?)",
            "USE TEMP B-TREE FOR ORDER BY",
        ],
    },
    Case {
        statement: "executions/update",
        uses: &["SEARCH executions USING INDEX sqlite_autoindex_executions_1 (id=?)"],
    },
    Case {
        statement: "keys/delete_expired",
        uses: &["SEARCH keys USING ", "SEARCH keys USING COVERING INDEX keys_expires (expires_at"],
    },
    Case {
        statement: "executions/fetch",
        uses: &[
            "SEARCH executions USING INDEX sqlite_autoindex_executions_1 (id=?)",
            "SEARCH inputs USING INDEX sqlite_autoindex_inputs_1 (execution=?)",
            "SEARCH sessions USING INTEGER PRIMARY KEY (rowid=?)",
        ],
    },
    Case {
        statement: "executions/list_by_flow",
        uses: &[
            "SEARCH nodes USING COVERING INDEX nodes_members (flow=? AND ",
            "SEARCH executions USING INDEX sqlite_autoindex_executions_1 (id=?)",
        ],
    },
    Case {
        statement: "executions/list_lone",
        uses: &["SEARCH executions USING INDEX sqlite_autoindex_executions_1 (id=?)"],
    },
    Case {
        statement: "executions/rewire",
        uses: &["SEARCH executions USING INDEX sqlite_autoindex_executions_1 (id=?)"],
    },
    Case {
        statement: "executions/read_sizes",
        uses: &[
            "SEARCH executions USING INDEX sqlite_autoindex_executions_1 (id=?)",
            "SEARCH inputs USING INDEX sqlite_autoindex_inputs_1 (execution=?)",
        ],
    },
    Case {
        statement: "executions/read_relatives",
        uses: &["SEARCH executions USING INDEX sqlite_autoindex_executions_1 (id=?)"],
    },
    Case { statement: "nodes/find", uses: &["SEARCH nodes USING PRIMARY KEY (flow=? AND name=?)"] },
    Case { statement: "nodes/delete", uses: &["SEARCH nodes USING PRIMARY KEY (flow=? AND name=?)"] },
    Case {
        statement: "nodes/list_members",
        uses: &["SEARCH nodes USING COVERING INDEX nodes_members (flow=?)"],
    },
    Case { statement: "flows/read", uses: &["SEARCH flows USING INDEX sqlite_autoindex_flows_1 (id=?)"] },
    Case {
        statement: "flows/read_tags",
        uses: &["SEARCH flows USING INDEX sqlite_autoindex_flows_1 (id=?)"],
    },
    Case { statement: "flows/update", uses: &["SEARCH flows USING INDEX sqlite_autoindex_flows_1 (id=?)"] },
    Case {
        statement: "flows/add_counts",
        uses: &["SEARCH flows USING INDEX sqlite_autoindex_flows_1 (id=?)"],
    },
    Case { statement: "flows/delete", uses: &["SEARCH flows USING INDEX sqlite_autoindex_flows_1 (id=?)"] },
    Case { statement: "flows/list", uses: &["SEARCH flows USING INDEX flows_list (namespace=? AND "] },
    Case {
        statement: "flows/list_by_state",
        uses: &["SEARCH flows USING INDEX flows_by_state (namespace=? AND state=? AND "],
    },
    Case {
        statement: "flows/list_by_name",
        uses: &["SEARCH flows USING COVERING INDEX flows_by_name (namespace=? AND name=? AND state=? AND "],
    },
    Case {
        statement: "flows/list_by_tag",
        uses: &[
            "SEARCH flow_tags USING PRIMARY KEY (namespace=? AND tag=? AND ",
            "SEARCH flows USING INDEX sqlite_autoindex_flows_1 (id=?)",
        ],
    },
    Case { statement: "flows/list_due", uses: &["SEARCH flows USING INDEX flows_due (due_kind=? AND "] },
    Case {
        statement: "flows/find_next_due",
        uses: &["SEARCH flows USING COVERING INDEX flows_due (due_kind=?"],
    },
    Case { statement: "log/list", uses: &["SEARCH log USING INTEGER PRIMARY KEY (rowid>?)"] },
    // Reads only the requested number of the oldest entries.
    Case { statement: "log/find_cut", uses: &["SCAN log", "SCAN oldest"] },
    Case { statement: "log/delete_old", uses: &["SEARCH log USING INTEGER PRIMARY KEY (rowid<?)"] },
    Case {
        statement: "streams/read",
        uses: &[
            "SEARCH streams USING PRIMARY KEY (execution=? AND attempt=?)",
            "SEARCH summaries USING INDEX sqlite_autoindex_summaries_1 (execution=? AND attempt=?)",
        ],
    },
    Case { statement: "streams/delete", uses: &["SEARCH streams USING PRIMARY KEY (execution=?)"] },
    Case {
        statement: "streams/raise_best_effort_from",
        uses: &["SEARCH streams USING PRIMARY KEY (execution=? AND attempt=?)"],
    },
    Case {
        statement: "summaries/delete",
        uses: &["SEARCH summaries USING INDEX sqlite_autoindex_summaries_1 (execution=?)"],
    },
    Case {
        statement: "frames/list",
        uses: &["SEARCH frames USING PRIMARY KEY (execution=? AND attempt=? AND number>? AND number<?)"],
    },
    Case {
        statement: "frames/delete_before",
        uses: &["SEARCH frames USING PRIMARY KEY (execution=? AND attempt=? AND number>? AND number<?)"],
    },
    Case { statement: "frames/delete", uses: &["SEARCH frames USING PRIMARY KEY (execution=?)"] },
    Case {
        statement: "frames/delete_old",
        uses: &["SEARCH frames USING PRIMARY KEY", "SEARCH frames USING COVERING INDEX frames_old (at<?)"],
    },
    Case {
        statement: "signals/list",
        uses: &["SEARCH signals USING INDEX sqlite_autoindex_signals_1 (execution=? AND number>?)"],
    },
    Case {
        statement: "signals/list_untaken",
        uses: &["SEARCH signals USING INDEX signals_untaken (execution=?)"],
    },
    Case {
        statement: "signals/find",
        uses: &["SEARCH signals USING INDEX signals_key (execution=? AND key=?)"],
    },
    Case {
        statement: "signals/take",
        uses: &["SEARCH signals USING INDEX sqlite_autoindex_signals_1 (execution=? AND number=?)"],
    },
    Case {
        statement: "signals/delete",
        uses: &["SEARCH signals USING INDEX sqlite_autoindex_signals_1 (execution=?)"],
    },
    Case {
        statement: "steps/list",
        uses: &["SEARCH steps USING INDEX sqlite_autoindex_steps_1 (execution=? AND number>?)"],
    },
    Case { statement: "steps/find", uses: &["SEARCH steps USING INDEX steps_name (execution=? AND name=?)"] },
    Case { statement: "steps/delete", uses: &["SEARCH steps USING INDEX ", "(execution=?)"] },
    Case {
        statement: "waitpoints/list",
        uses: &["SEARCH waitpoints USING PRIMARY KEY (execution=? AND number>?)"],
    },
    Case {
        statement: "waitpoints/find",
        uses: &["SEARCH waitpoints USING INDEX sqlite_autoindex_waitpoints_1 (id=?)"],
    },
    Case {
        statement: "waitpoints/list_by_state",
        uses: &[
            "SEARCH waitpoints USING INDEX waitpoints_by_state (namespace=? AND state=? AND (created_at,id)<(?,?))",
        ],
    },
    Case {
        statement: "waitpoints/list_by_source",
        uses: &[
            "SEARCH waitpoints USING INDEX waitpoints_by_source (namespace=? AND source=? AND state=? AND (created_at,id)<(?,?))",
        ],
    },
    Case { statement: "waitpoints/delete", uses: &["SEARCH waitpoints USING PRIMARY KEY (execution=?)"] },
    Case {
        statement: "executions/find_held",
        uses: &["SEARCH executions USING COVERING INDEX executions_held (gate=? AND (rank,id)>(?,?))"],
    },
    Case { statement: "gates/delete_parts", uses: &["SEARCH gates USING INDEX gates_of_flow (part=?)"] },
    Case {
        statement: "ledger/delete_parts",
        uses: &[
            "SEARCH ledger USING COVERING INDEX ledger_entries (gate=?)",
            "LIST SUBQUERY 1",
            "SEARCH gates USING COVERING INDEX gates_of_flow (part=?)",
        ],
    },
    // Configured gates are few.
    Case {
        statement: "gates/has_lanes",
        uses: &["SCAN CONSTANT ROW", "SCALAR SUBQUERY 1", "gates USING INDEX gates_configured"],
    },
    Case {
        statement: "executions/count_held",
        uses: &["SEARCH executions USING COVERING INDEX executions_held (gate=?)"],
    },
    Case { statement: "gates/read", uses: &["SEARCH gates USING INTEGER PRIMARY KEY (rowid=?)"] },
    Case { statement: "gates/update", uses: &["SEARCH gates USING INTEGER PRIMARY KEY (rowid=?)"] },
    Case { statement: "gates/delete", uses: &["SEARCH gates USING INTEGER PRIMARY KEY (rowid=?)"] },
    Case { statement: "gates/give_back", uses: &["SEARCH gates USING INTEGER PRIMARY KEY (rowid=?)"] },
    Case {
        statement: "gates/list",
        uses: &["SEARCH gates USING INDEX gates_configured (namespace=? AND kind=? AND name>?)"],
    },
    Case {
        statement: "gates/list_parts",
        uses: &["SEARCH gates USING INDEX gates_parts (namespace=? AND kind=? AND name=?)"],
    },
    Case {
        statement: "gates/list_due",
        uses: &["SEARCH gates USING INDEX gates_due (due_at>? AND due_at<?)"],
    },
    Case { statement: "gates/find_next_due", uses: &["SEARCH gates USING COVERING INDEX gates_due"] },
    Case { statement: "schedules/list_due", uses: &["SEARCH schedules USING INDEX schedules_due"] },
    Case {
        statement: "schedules/find_next_due",
        uses: &["SEARCH schedules USING COVERING INDEX schedules_due"],
    },
    Case {
        statement: "schedules/read",
        uses: &["SEARCH schedules USING INDEX sqlite_autoindex_schedules_1 (namespace=? AND name=?)"],
    },
    Case {
        statement: "ledger/list",
        uses: &["SEARCH ledger USING INDEX ledger_entries (gate=? AND period=?)"],
    },
    Case {
        statement: "ledger/read",
        uses: &["SEARCH ledger USING INDEX ledger_entries (gate=? AND period=? AND <expr>=?)"],
    },
    // An execution has few ledger entries.
    Case {
        statement: "ledger/list_by_execution",
        uses: &["SEARCH ledger USING INDEX ledger_of (execution=?)", "USE TEMP B-TREE FOR ORDER BY"],
    },
    Case { statement: "ledger/delete", uses: &["SEARCH ledger USING INDEX ledger_of (execution=?)"] },
    Case { statement: "log/read_newest", uses: &["SEARCH log_window USING INTEGER PRIMARY KEY (rowid=?)"] },
    Case { statement: "outbox/read", uses: &["SEARCH outbox USING PRIMARY KEY (id=? AND kind=?)"] },
    Case { statement: "outbox/delete", uses: &["SEARCH outbox USING PRIMARY KEY (id=? AND kind=?)"] },
    Case { statement: "outbox/list_stale", uses: &["SEARCH outbox USING INDEX outbox_waiting (kind=? AND "] },
    Case {
        statement: "outbox/find_oldest",
        uses: &["SEARCH outbox USING COVERING INDEX outbox_waiting (kind=?)"],
    },
];

/// Statements that find expired leases by stepping from session to session.
const WALKS: [&str; 2] = ["leases/list_expired", "overview/read"];

async fn filled(directory: &Directory) -> Connection {
    let store = SqliteStore::open(&directory.database()).await;
    store.expect("the store opens").close().await;
    let connection = Connection::open(directory.database()).expect("the file opens");
    connection.execute_batch(FILL).expect("the file is filled");
    connection
}

fn plan(connection: &Connection, name: &str) -> Vec<String> {
    let statement = text(name);
    let mut explain =
        connection.prepare(&format!("explain query plan {statement}")).expect("the statement is valid");
    let mut rows = explain.raw_query();
    let mut plan = Vec::new();
    while let Some(row) = rows.next().expect("the plan is read") {
        plan.push(row.get::<_, String>(3).expect("a step of a plan has a text"));
    }
    plan
}

fn check_case(connection: &Connection, case: &Case) {
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

fn check(connection: &Connection) {
    CASES.iter().for_each(|case| check_case(connection, case));
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

#[tokio::test]
async fn slow_lists_and_counts_use_their_indexes_among_a_million_executions() {
    let directory = Directory::new();
    let store = SqliteStore::open(&directory.database()).await;
    store.expect("the store opens").close().await;
    let connection = Connection::open(directory.database()).expect("the file opens");
    let executions = FILL.replacen("n < 100000", "n < 1000000", 1);
    // The executions with their tags and nodes.
    let (executions, _) = executions.split_once("insert into outbox").expect("the outbox comes next");
    connection.execute_batch(&format!("begin; {executions}; commit")).expect("the file is filled");
    connection.execute_batch("analyze").expect("statistics are gathered");
    let of_executions = |case: &&Case| case.statement.starts_with("executions/");
    CASES.iter().filter(of_executions).for_each(|case| check_case(&connection, case));
}
