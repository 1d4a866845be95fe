//! Every statement that must stay fast uses the index it was written for, among 100 000 executions, whatever the planner
//! has been told about them: nothing, that the tables are empty, or the truth.

mod support;

use selvedge_postgres::testing;
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};
use support::Sandbox;
use support::plan_cases::{Case, SOME, gate_cases, record_cases};
use tokio_postgres::{Client, SimpleQueryMessage};

/// What the statements are asked among.
const FILL: &str = include_str!("support/plans_fill.sql");

/// Tells the planner what the tables hold.
const ANALYSE: &str = "analyze executions, class_priorities, tags, sessions, keys, history_pages, log, nodes, flows, flow_tags, \
                       outbox, streams, frames, signals, steps, waitpoints, gates, ledger";

/// The statistics stay as each test wants them.
const NO_AUTOVACUUM: &str = "
do $$
declare
  one regclass;
begin
  for one in select oid from pg_class where relnamespace = current_schema()::regnamespace and relkind = 'r' loop
    execute format('alter table %s set (autovacuum_enabled = off)', one);
  end loop;
end
$$;
";

const PAGE: &str = "2, '2026-01-02', 'ffffffff-ffff-ffff-ffff-ffffffffffff', '2020-01-01', '9999-01-01'";

/// Bounds of two pairs, one of which is found with another generation.
const BOUNDS: &str = "'{65536,65537}', '{0,1}', '{2026-01-01 12:00,2026-01-01 13:00}'";
/// What finds the first of a class.
const CLAIM: &[&str] = &["class_priorities_pkey", "executions_claim"];

/// Statements whose index has the order that they ask for.
const IN_ORDER: [&str; 17] = [
    "executions_due_of_kind",
    "executions_find_held",
    "executions_list",
    "executions_list_by_flow",
    "executions_lock_held",
    "flows_due_of_kind",
    "flows_list",
    "flows_list_by_tag",
    "frames_of",
    "gates_due",
    "gates_list",
    "log_after",
    "log_newest",
    "nodes_members",
    "outbox_of_kind",
    "signals_of",
    "waitpoints_of",
];

/// Statements that lock rows in the order of the array that names them, and the table.
const IN_ORDER_OF_ARRAY: [(&str, &str); 7] = [
    ("executions_update", "executions"),
    ("flows_add_counts", "flows"),
    ("flows_delete", "flows"),
    ("flows_update", "flows"),
    ("gates_delete", "gates"),
    ("gates_free", "gates"),
    ("gates_update", "gates"),
];

fn cases() -> Vec<Case> {
    let case = |name, arguments: String, indexes, pages| Case { name, arguments, indexes, pages };
    vec![
        case("executions_candidates", format!("'{{1}}', {BOUNDS}, '{{1}}', '{{10}}', '{{}}'"), CLAIM, 120),
        case(
            "executions_candidates",
            format!("'{{1,4,7,11,12}}', {BOUNDS}, '{{1,1,1,2,2}}', '{{10,10,10,10,10}}', '{{}}'"),
            CLAIM,
            400,
        ),
        case("bounds_first", format!("'{{1,4,7,11,12}}', {BOUNDS}"), CLAIM, 200),
        case(
            "executions_ahead",
            "1, 2::smallint, '2026-01-01 12:00', '00000000-0000-7000-8000-000000001000', 1000".into(),
            CLAIM,
            300,
        ),
        case("executions_count_ready", "'{1,4,7}', 100".into(), &["executions_claim"], 300),
        case(
            "executions_due_of_kind",
            "1::smallint, '2026-01-01', '00000000-0000-0000-0000-000000000000', 100".into(),
            &["executions_due"],
            300,
        ),
        case(
            "executions_due_of_kind",
            "5::smallint, '2026-01-01', '00000000-0000-0000-0000-000000000000', 100".into(),
            &["executions_due"],
            300,
        ),
        case(
            "executions_lapsed",
            "'00000000-0000-0000-0000-000000000000', 100".into(),
            &["executions_lease", "sessions_pkey"],
            2_500,
        ),
        case(
            "overview",
            "3600000, '{1,2,3,4,5}', '{1,2}', 600000, '{1,2,3,4,5,6}'".into(),
            &[
                "executions_due",
                "executions_lease",
                "sessions_pkey",
                "keys_expired",
                "frames_old",
                "classes_pkey",
                "outbox_waiting",
                "flows_due",
                "gates_configured",
                "gates_due",
            ],
            500,
        ),
        case(
            "executions_list",
            format!("{PAGE}, null, null, 50"),
            &["executions_list", "sessions_pkey"],
            300,
        ),
        case(
            "executions_list",
            format!("{PAGE}, null, '{{10}}', 50"),
            &["executions_list", "sessions_pkey"],
            300,
        ),
        case(
            "executions_list_by_state",
            format!("{PAGE}, null, '{{11,12,13}}', 50"),
            &["executions_list_by_state", "sessions_pkey"],
            600,
        ),
        case(
            "executions_list_by_state",
            format!("{PAGE}, null, '{{4}}', 50"),
            &["executions_list_by_state", "sessions_pkey"],
            300,
        ),
        case(
            "executions_list_by_state",
            format!("{PAGE}, null, '{{5}}', 50"),
            &["executions_list_by_state", "sessions_pkey"],
            300,
        ),
        case(
            "executions_list_leased",
            format!("{PAGE}, null, null, 50"),
            &["sessions_instance", "executions_lease", "sessions_pkey"],
            2_500,
        ),
        case(
            "executions_list_ready",
            format!("{PAGE}, '{{1,4,7}}', null, 50"),
            &["executions_claim", "sessions_pkey"],
            600,
        ),
        case(
            "executions_list_by_flow",
            format!("{PAGE}, null, null, 50, '00000000-0000-7000-8000-000000000064', null"),
            &["nodes_in_order", "executions_pkey", "sessions_pkey", "tags_pkey"],
            100,
        ),
        case(
            "executions_list_alone",
            format!("{PAGE}, null, null, 50, '00000000-0000-7000-8000-000000000067', null"),
            &["executions_pkey", "sessions_pkey", "tags_pkey"],
            20,
        ),
        case(
            "executions_list_by_tag",
            format!("{PAGE}, null, null, 50, 'colour:7'"),
            &["tags_pkey", "executions_pkey", "sessions_pkey"],
            600,
        ),
        case("executions_lock", SOME.into(), &["executions_pkey"], 60),
        case("executions_lock_known", SOME.into(), &["executions_pkey"], 60),
        case("executions_lock_free", SOME.into(), &["executions_pkey"], 60),
        case("executions_look", SOME.into(), &["executions_pkey"], 60),
        case("executions_fetch", SOME.into(), &["executions_pkey", "sessions_pkey"], 60),
        case("executions_inputs", SOME.into(), &["executions_pkey"], 60),
        case("executions_relatives", SOME.into(), &["executions_pkey"], 60),
        case("executions_rewire", format!("{SOME}, {SOME}, '{{\"\",\"\",\"\"}}'"), &["executions_pkey"], 150),
        case("executions_delete", format!("{SOME}, '{{3,3,3}}'"), &["executions_pkey"], 100),
        case("executions_update", update(), &["executions_pkey"], 300),
        case(
            "history_pages_of",
            "'00000000-0000-7000-8000-000000000007'".into(),
            &["history_pages_pkey"],
            20,
        ),
        case("history_pages_delete", SOME.into(), &["history_pages_pkey"], 60),
        case("keys_find", "'{1,1}', '{1,3}', '{key2,key3}'".into(), &["keys_pkey"], 30),
        case("keys_delete", "'{1}', '{1}', '{key2}', '{null}'".into(), &["keys_pkey"], 60),
        case("keys_delete_expired", "50".into(), &["keys_expired", "keys_pkey"], 1_000),
        case("log_after", "7, 100".into(), &["log_window_pkey", "log_number"], 60),
        case("log_after", "12345, 100".into(), &["log_window_pkey", "log_number"], 60),
        case("log_newest", "".into(), &["log_window_pkey", "log_number"], 60),
        case("log_default_delete", "600000, 100".into(), &["log_default_at", "log_window_pkey"], 60),
        case("sessions_find", "'{1,2}'".into(), &["sessions_pkey"], 20),
        case("sessions_lock", "'{1,2}'".into(), &["sessions_pkey"], 30),
        case("sessions_delete", "'{1,2}'".into(), &["sessions_pkey"], 30),
        case("sessions_lock_instances", "'{2}', '{instance1}'".into(), &["sessions_instance"], 30),
        case(
            "sessions_leases",
            "'{2}', '{instance1}'".into(),
            &["sessions_instance", "executions_lease"],
            200,
        ),
        case("sessions_unseen", "3600000, 100".into(), &["sessions_pkey", "executions_lease"], 600),
        case("tags_delete", format!("'{{1}}', '{{colour:1}}', '{{2026-01-01}}', {SOME}"), &["tags_pkey"], 60),
        case("classes_after", "0".into(), &["classes_pkey"], 20),
    ]
    .into_iter()
    .chain(flow_cases())
    .chain(stream_cases())
    .chain(record_cases())
    .chain(gate_cases())
    .collect()
}

/// The statements about flows, nodes and the outbox.
fn flow_cases() -> Vec<Case> {
    let case = |name, arguments: String, indexes, pages| Case { name, arguments, indexes, pages };
    let none = "'{null,null,null}'";
    let three = |what: &str| format!("'{{{what},{what},{what}}}'");
    let counts = [three("0"), three("1"), three("0"), three("0"), three("0"), three("0")].join(", ");
    let ended = [three("0"), three("0"), three("0"), three("0"), three("0"), three("1")].join(", ");
    vec![
        case("flows_lock", SOME.into(), &["flows_pkey"], 30),
        case("flows_fetch", SOME.into(), &["flows_pkey"], 30),
        case("flows_list", format!("{PAGE}, null, 50"), &["flows_list"], 60),
        case("flows_list", format!("{PAGE}, 'even', 50"), &["flows_list"], 100),
        case("flows_list_by_state", format!("{PAGE}, null, 50, '{{0,2}}'"), &["flows_list_by_state"], 200),
        case(
            "flows_list_by_tag",
            format!("{PAGE}, null, 50, null, 'colour:7'"),
            &["flow_tags_pkey", "flows_pkey"],
            200,
        ),
        case(
            "flows_due_of_kind",
            "2::smallint, '2026-01-01', '00000000-0000-0000-0000-000000000000', 100".into(),
            &["flows_due"],
            60,
        ),
        case("flows_add_counts", format!("{SOME}, {counts}, {ended}"), &["flows_pkey"], 100),
        case(
            "flows_update",
            [
                SOME,
                &three("1"),
                none,
                none,
                &three("\"{}\""),
                &three("2"),
                &three("1"),
                &three("2026-01-01"),
                &three("2026-01-02"),
                none,
            ]
            .join(", "),
            &["flows_pkey"],
            200,
        ),
        case("flows_delete", format!("{SOME}, {}", three("1")), &["flows_pkey"], 60),
        case("flow_tags_delete", SOME.into(), &["flows_pkey", "flow_tags_pkey"], 80),
        case(
            "nodes_find",
            "'{00000000-0000-7000-8000-000000000064}', \
             '{node00000000-0000-7000-8000-00000000006e}'"
                .into(),
            &["nodes_pkey"],
            20,
        ),
        case(
            "nodes_members",
            "'{00000000-0000-7000-8000-000000000064,00000000-0000-7000-8000-0000000000c8}', '{0,3}', \
             '{4294967295,2}'"
                .into(),
            &["nodes_in_order", "executions_pkey"],
            100,
        ),
        case(
            "nodes_delete",
            "'{00000000-0000-7000-8000-000000000064}', \
             '{node00000000-0000-7000-8000-00000000006e}'"
                .into(),
            &["nodes_pkey"],
            20,
        ),
        case("outbox_lock", format!("{SOME}, '{{4,4,1}}'"), &["outbox_pkey"], 30),
        case("outbox_delete", format!("{SOME}, '{{4,4,1}}'"), &["outbox_pkey"], 30),
        case(
            "outbox_of_kind",
            "1::smallint, 1000, '2026-01-01', '00000000-0000-0000-0000-000000000000', 100".into(),
            &["outbox_waiting"],
            60,
        ),
    ]
}

/// The statements about streams and their frames.
fn stream_cases() -> Vec<Case> {
    let case = |name, arguments: String, indexes, pages| Case { name, arguments, indexes, pages };
    let three = |what: &str| format!("'{{{what},{what},{what}}}'");
    let upsert =
        [SOME, &three("1"), &three("90001"), &three("1"), &three("1"), &three("0"), "'{null,null,null}'"];
    vec![
        case("streams_find", format!("{SOME}, {}, true", three("1")), &["streams_pkey"], 20),
        case("streams_upsert", upsert.join(", "), &[], 60),
        case("streams_delete", SOME.into(), &["streams_pkey"], 30),
        case("frames_delete", "'{00000000-0000-7000-8000-0000000000ff}'".into(), &["frames_pkey"], 60),
        case(
            "frames_of",
            "'00000000-0000-7000-8000-000000000007', 1, 50000, 600000, 100".into(),
            &["frames_pkey"],
            60,
        ),
        case(
            "frames_drop",
            "'{00000000-0000-7000-8000-000000000007}', '{1}', '{90000}'".into(),
            &["streams_pkey", "frames_pkey"],
            200,
        ),
        case("frames_delete_old", "600000, 50".into(), &["frames_old", "frames_pkey"], 600),
    ]
}

/// Leases three finished ones.
fn update() -> String {
    let times = "'{2026-01-01,2026-01-01,2026-01-01}'";
    let none = "'{null,null,null}'";
    let three = |what: &str| format!("'{{{what},{what},{what}}}'");
    [
        SOME,
        &three("3"),
        &three("4"),
        &three("2"),
        &three("0"),
        &three("0"),
        none,
        times,
        none,
        none,
        none,
        none,
        none,
        none,
        none,
        none,
        &three(""),
        none,
        none,
        none,
        none,
        none,
        &three("true"),
    ]
    .join(", ")
    .replace("'{,,}'", "'{\"\",\"\",\"\"}'")
}

/// What a plan does.
#[derive(Debug, Default)]
struct Plan {
    nodes: Vec<String>,
    indexes: BTreeSet<String>,
    pages: i64,
    text: String,
}

impl Plan {
    fn of(explained: &Value) -> Plan {
        let root = &explained[0]["Plan"];
        let read = ["Shared Hit Blocks", "Shared Read Blocks"].map(|blocks| root[blocks].as_i64());
        let mut plan = Plan { pages: read.into_iter().flatten().sum(), ..Plan::default() };
        plan.walk(root, 0);
        plan
    }

    fn walk(&mut self, node: &Value, depth: usize) {
        let word = |field: &str| node[field].as_str().unwrap_or_default().to_owned();
        let name = format!("{} {}", word("Node Type"), word("Relation Name")).trim().to_owned();
        let pages = ["Shared Hit Blocks", "Shared Read Blocks"]
            .map(|blocks| node[blocks].as_i64().unwrap_or_default());
        let line = format!(
            "{:depth$}{name} {} {} {} ({} rows, {} pages)\n",
            "",
            word("Index Name"),
            word("Index Cond"),
            word("Filter"),
            node["Actual Rows"],
            pages[0] + pages[1],
        );
        self.text.push_str(&line);
        self.nodes.push(name);
        self.indexes.extend(node["Index Name"].as_str().map(family));
        for below in node["Plans"].as_array().into_iter().flatten() {
            self.walk(below, depth + 2);
        }
    }

    /// Whether it merges what the partitions of the log give, each read through its index.
    fn merges_the_log(&self) -> bool {
        self.nodes.iter().any(|node| node == "Merge Append")
            && !self.nodes.iter().any(|node| node.starts_with("Append") || node.starts_with("Sort"))
    }

    /// Nothing reads a whole table, or joins in an order that locks would follow.
    fn is_sound(&self) -> bool {
        let costly = [
            "Seq Scan executions",
            "Seq Scan class_priorities",
            "Seq Scan tags",
            "Seq Scan keys",
            "Seq Scan history_pages",
            "Seq Scan streams",
            "Seq Scan frames",
            "Seq Scan signals",
            "Seq Scan steps",
            "Seq Scan waitpoints",
            "Seq Scan nodes",
            "Seq Scan flows",
            "Seq Scan flow_tags",
            "Seq Scan outbox",
            "Seq Scan gates",
            "Seq Scan ledger",
        ];
        self.nodes.iter().all(|node| {
            !costly.contains(&node.as_str())
                && !node.starts_with("Seq Scan log")
                && !node.starts_with("Hash Join")
                && !node.starts_with("Merge Join")
                && !node.starts_with("Bitmap")
        })
    }

    /// Rows are locked in the order in which the array names them: a loop over the array, and the row of each by its id.
    fn visits_the_array_in_order(&self, table: &str) -> bool {
        let [change, find] = ["ModifyTable", "Index Scan"].map(|step| format!("{step} {table}"));
        let steps = [change.as_str(), "Nested Loop", "Function Scan", find.as_str()];
        self.nodes.windows(steps.len()).any(|window| window == steps)
    }
}

/// The name of an index; that of the partitioned one for an index of a partition of the log.
fn family(index: &str) -> String {
    let of_a_partition = index.starts_with("log_") && index.ends_with("_number_idx");
    if of_a_partition { "log_number".to_owned() } else { index.to_owned() }
}

async fn explain(client: &Client, statement: &str, arguments: &str) -> Plan {
    let execute = match arguments {
        "" => "execute asked".to_owned(),
        arguments => format!("execute asked({arguments})"),
    };
    let text = format!(
        "begin; prepare asked as {statement}; explain (analyze, buffers, timing off, format json) {execute};
         deallocate asked; rollback"
    );
    let answers = client.simple_query(&text).await;
    let answers = answers.unwrap_or_else(|error| panic!("{error:?}\n{statement}\n{arguments}"));
    let row = answers.iter().find_map(|answer| match answer {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    Plan::of(&serde_json::from_str(&row.expect("there is a plan")).expect("a plan is JSON"))
}

/// Checks every case on a connection that is as the store's own are.
async fn check(sandbox: &Sandbox) {
    let client = testing::connect(&sandbox.url("plans"), &sandbox.settings()).await;
    let client = client.expect("it connects");
    let statements: HashMap<_, _> = testing::statements().into_iter().collect();
    let mut wrong = Vec::new();
    for case in cases() {
        let plan = explain(&client, statements[case.name], &case.arguments).await;
        wrong.extend(faults(&case, &plan).map(|fault| format!("{}: {fault}\n{}", case.name, plan.text)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn faults(case: &Case, plan: &Plan) -> impl Iterator<Item = String> {
    let used: BTreeSet<&str> = plan.indexes.iter().map(String::as_str).collect();
    let meant = case.indexes.iter().copied().collect();
    let sorts = plan.nodes.iter().any(|node| node.starts_with("Sort"));
    [
        (used != meant).then(|| format!("uses {used:?}, not {meant:?}")),
        (!plan.is_sound()).then(|| "reads a whole table or joins by hashing or merging".to_owned()),
        (plan.pages > case.pages).then(|| format!("reads {} pages, not {}", plan.pages, case.pages)),
        (["log_after", "log_newest"].contains(&case.name) && !plan.merges_the_log())
            .then(|| "does not merge the partitions".to_owned()),
        (sorts && IN_ORDER.contains(&case.name)).then(|| "sorts".to_owned()),
        IN_ORDER_OF_ARRAY
            .iter()
            .any(|(name, table)| case.name == *name && !plan.visits_the_array_in_order(table))
            .then(|| "does not visit the rows in the order of the array".to_owned()),
    ]
    .into_iter()
    .flatten()
}

async fn filled(before: &str, after: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.store("store").await;
    let plain = sandbox.plain().await;
    for text in [NO_AUTOVACUUM, before, FILL, after] {
        plain.run(text).await;
    }
    sandbox
}

#[tokio::test]
async fn slow_statements_use_their_indexes_among_100_000_rows_that_were_never_analysed() {
    let sandbox = filled("", "").await;
    check(&sandbox).await;
}

#[tokio::test]
async fn slow_statements_use_their_indexes_among_100_000_rows_where_statistics_say_there_are_none() {
    let sandbox = filled(ANALYSE, "").await;
    check(&sandbox).await;
}

#[tokio::test]
async fn slow_statements_use_their_indexes_among_100_000_rows_with_true_statistics() {
    let sandbox = filled("", ANALYSE).await;
    check(&sandbox).await;
}

#[tokio::test]
async fn every_statement_is_checked_but_those_that_only_insert_or_read_small_tables() {
    let checked: BTreeSet<&str> = cases().iter().map(|case| case.name).collect();
    let left: Vec<&str> = testing::statements()
        .into_iter()
        .map(|(name, _)| name)
        .filter(|name| !checked.contains(name) && !name.ends_with("_insert"))
        .collect();
    assert_eq!(
        left,
        [
            "bounds_begun",
            "classes_find",
            "class_priorities_upsert",
            "flows_lock_growing",
            "log_append",
            "log_days_missing",
            "log_days_old",
            "log_writers",
            "outbox_upsert",
            "sessions_list",
            "sessions_upsert",
            "token_keys_delete",
            "token_keys_list",
            "token_keys_upsert"
        ]
    );
}
