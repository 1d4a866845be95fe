//! Every statement that must stay fast uses the index it was written for, among 100 000 executions, whatever statistics
//! the planner has: none, those of empty tables, or correct ones.

use super::plan_cases::{Case, cases};
use selvedge_postgres::{Settings, testing};
use selvedge_system_tests::cluster::Cluster;
use selvedge_system_tests::{LONG, Sandbox};
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};
use std::time::Instant;
use tokio_postgres::{Client, SimpleQueryMessage};

/// The rows among which the statements run.
const FILL: &str = include_str!("plans_fill.sql");

/// Updates the statistics.
const ANALYSE: &str = "analyze executions, class_priorities, tags, sessions, keys, history_pages, log, nodes, flows, flow_tags, rollups, \
                       outbox, streams, frames, signals, steps, waitpoints, gates, ledger, classes, schedules, projected_events, \
                       projected_attempts";

/// Disables autovacuum, so that the statistics stay as each test needs them.
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

/// Deletes all rows. Unlike `truncate` and `vacuum`, this makes no connection drop its plans.
const EMPTY: &str = "
delete from projected_events; delete from projected_attempts; delete from webhook_deliveries; delete from webhooks; delete from schedules; delete from ledger; delete from gates; delete from waitpoints; delete from steps; delete from signals; delete from outbox;
delete from flow_tags; delete from flows; delete from nodes; delete from frames; delete from streams; delete from log;
delete from history_pages; delete from keys; delete from sessions; delete from tags; delete from class_priorities;
delete from executions; delete from classes; delete from namespaces;
";

/// Statements whose index already has the requested order.
const IN_ORDER: [&str; 19] = [
    "executions/list_due",
    "executions/find_held",
    "executions/list",
    "executions/list_by_flow",
    "executions/lock_held",
    "flows/list_due",
    "flows/list",
    "flows/list_by_tag",
    "frames/list",
    "gates/list_due",
    "gates/list",
    "log/list",
    "log/list_newest",
    "nodes/list_members",
    "outbox/list_stale",
    "schedules/list",
    "schedules/list_due",
    "signals/list",
    "waitpoints/list",
];

/// Statements that lock rows in the order of an array, with their table.
const IN_ORDER_OF_ARRAY: [(&str, &str); 7] = [
    ("executions/update", "executions"),
    ("flows/add_counts", "flows"),
    ("flows/delete", "flows"),
    ("flows/update", "flows"),
    ("gates/delete", "gates"),
    ("gates/give_back", "gates"),
    ("gates/update", "gates"),
];

/// The parts of a plan that are checked.
#[derive(Debug, Default)]
pub struct Plan {
    nodes: Vec<String>,
    indexes: BTreeSet<String>,
    /// The number of pages that were touched.
    pub pages: i64,
    /// The plan as text.
    pub text: String,
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
        // Statements that need the time read its one row first.
        if name != "Index Scan store_clock" {
            self.nodes.push(name);
            self.indexes.extend(node["Index Name"].as_str().map(family));
        }
        for below in node["Plans"].as_array().into_iter().flatten() {
            self.walk(below, depth + 2);
        }
    }

    /// Reports whether it merges the partitions of the log, each read through its index.
    fn merges_the_log(&self) -> bool {
        self.nodes.iter().any(|node| node == "Merge Append")
            && !self.nodes.iter().any(|node| node.starts_with("Append") || node.starts_with("Sort"))
    }

    /// Reports whether no table is read as a whole, and no join changes the order of locks.
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
            "Seq Scan rollups",
        ];
        self.nodes.iter().all(|node| {
            !costly.contains(&node.as_str())
                && !node.starts_with("Seq Scan log")
                && !node.starts_with("Hash Join")
                && !node.starts_with("Merge Join")
                && !node.starts_with("Bitmap")
        })
    }

    /// Reports whether rows are locked in the order of the array: a loop over the array that finds each row by its id.
    fn visits_the_array_in_order(&self, table: &str) -> bool {
        let [change, find] = ["ModifyTable", "Index Scan"].map(|step| format!("{step} {table}"));
        let steps = [change.as_str(), "Nested Loop", "Function Scan", find.as_str()];
        self.nodes.windows(steps.len()).any(|window| window == steps)
    }
}

/// Returns the name of an index; for an index of a partition of the log, the name of the partitioned index.
fn family(index: &str) -> String {
    let of_a_partition = index.starts_with("log_") && index.ends_with("_number_idx");
    if of_a_partition { "log_number".to_owned() } else { index.to_owned() }
}

/// Runs a statement, rolls it back, and returns its plan.
pub async fn explain(client: &Client, statement: &str, arguments: &str) -> Plan {
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

/// Checks every case on a connection with the settings of the store's own.
async fn check(sandbox: &Sandbox) {
    check_cases(sandbox, cases().into_iter()).await;
}

async fn check_cases(sandbox: &Sandbox, cases: impl Iterator<Item = Case>) {
    let client = testing::connect(&sandbox.url("plans"), &sandbox.settings()).await;
    let client = client.expect("the connection opens");
    let statements: HashMap<_, _> = testing::statements().into_iter().collect();
    let mut wrong = Vec::new();
    for case in cases {
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
        (["log/list", "log/list_newest"].contains(&case.name) && !plan.merges_the_log())
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
async fn slow_statements_use_their_indexes_among_100_000_rows_with_statistics_of_empty_tables() {
    let sandbox = filled(ANALYSE, "").await;
    check(&sandbox).await;
}

#[tokio::test]
async fn slow_statements_use_their_indexes_among_100_000_rows_with_correct_statistics() {
    let sandbox = filled("", ANALYSE).await;
    check(&sandbox).await;
}

#[tokio::test]
async fn every_statement_is_checked_except_inserts_and_reads_of_small_tables() {
    let checked: BTreeSet<&str> = cases().iter().map(|case| case.name).collect();
    let left: Vec<&str> = testing::statements()
        .into_iter()
        .map(|(name, _)| name)
        .filter(|name| !checked.contains(name) && !name.ends_with("/insert"))
        .collect();
    assert_eq!(
        left,
        [
            "api_keys/find",
            "api_keys/list",
            "api_keys/lock",
            "api_keys/touch",
            "api_keys/upsert",
            "bulk_jobs/delete",
            "bulk_jobs/list",
            "bulk_jobs/list_due",
            "bulk_jobs/lock",
            "bulk_jobs/read",
            "bulk_jobs/upsert",
            "class_priorities/upsert",
            "classes/mark_removal",
            "classes/read_removal",
            "classes/restore",
            "coverage/list",
            "diagnosis/count_stale",
            "diagnosis/list_bloat",
            "diagnosis/list_dead_rows",
            "diagnosis/list_invalid_indexes",
            "diagnosis/list_settings",
            "diagnosis/list_snapshots",
            "diagnosis/read_secret",
            "diagnosis/read_server",
            "flows/lock_growth",
            "inbox/count",
            "inbox/delete",
            "inbox/delete_old",
            "inbox/list_refused",
            "inbox/lock",
            "inbox/update",
            "log/append",
            "log/list_missing_days",
            "log/list_old_days",
            "namespaces/continue",
            "namespaces/delete_rest",
            "namespaces/find",
            "namespaces/list",
            "namespaces/read",
            "namespaces/restore",
            "namespaces/restore_retired",
            "namespaces/retire",
            "namespaces/update",
            "outbox/upsert",
            "projection/lock",
            "projection/share",
            "rollups/upsert",
            "server/identify",
            "server/now",
            "sessions/list",
            "sessions/upsert",
            "store_clock/bring_forward",
            "store_clock/keep_pace",
            "tables/read_sizes",
            "token_keys/delete",
            "token_keys/list",
            "token_keys/upsert",
            "webhook_deliveries/upsert",
            "writers/find_oldest",
            "writers/list"
        ]
    );
}

/// Reports whether a statement serves a list, a count or the search for due rows. Those that visit every active execution are
/// left out: these are as many as workers run at a time. So is the list of waiting executions where they are few.
fn stays_bounded(case: &Case) -> bool {
    let verb = case.name.split('/').next_back().unwrap_or_default();
    let visits_all =
        ["executions/list_active", "executions/list_waiting", "leases/list", "leases/list_expired"];
    let is_claim = ["executions/lock_candidates", "bounds/find_first_waiting"].contains(&case.name);
    !visits_all.contains(&case.name)
        && (verb.starts_with("list") || verb.starts_with("count") || verb == "glance" || is_claim)
}

#[tokio::test]
async fn slow_lists_counts_and_claims_touch_as_many_pages_among_a_million_executions_as_among_100_000() {
    let sandbox = Sandbox::new();
    sandbox.store("store").await;
    let plain = sandbox.plain().await;
    let million = FILL.replacen("generate_series(1, 100000)", "generate_series(1, 1000000)", 1);
    for text in [NO_AUTOVACUUM, &million, ANALYSE] {
        plain.run(text).await;
    }
    assert_eq!(plain.number("select count(*) from executions", &[]).await, 1_000_000);
    check_cases(&sandbox, cases().into_iter().filter(stays_bounded)).await;
}

/// A statement that reads all executions of a namespace: the estimated cost of its plan shows for which size it was made.
const SIZED: &str =
    "select count(*) from executions where namespace = 1 and state <> 2 and submitted_at >= '2020-01-01'";
/// More than the plan of [`SIZED`] costs among twenty rows, and less than among 100 000.
const LARGE: f64 = 1_000.0;

/// Returns the estimated cost of the plan that a connection has for [`SIZED`].
async fn planned_cost(client: &Client) -> f64 {
    let answers =
        client.simple_query("explain (format json) execute sized").await.expect("the plan is shown");
    let row = answers.iter().find_map(|answer| match answer {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    let plan: Value = serde_json::from_str(&row.expect("there is a plan")).expect("a plan is JSON");
    plan[0]["Plan"]["Total Cost"].as_f64().expect("a plan has a cost")
}

/// Prepares and plans every statement on a connection.
async fn prepare_all(client: &Client) {
    client.batch_execute(&format!("prepare sized as {SIZED}")).await.expect("the statement is valid");
    planned_cost(client).await;
    let statements: HashMap<_, _> = testing::statements().into_iter().collect();
    for (index, case) in cases().iter().enumerate() {
        let prepare = format!("prepare case_{index} as {}", statements[case.name]);
        client.batch_execute(&prepare).await.unwrap_or_else(|error| panic!("{}: {error:?}", case.name));
        let plan = format!("explain {}", execution(index, case));
        client.batch_execute(&plan).await.unwrap_or_else(|error| panic!("{}: {error:?}", case.name));
    }
}

/// Returns the text that runs a prepared statement.
fn execution(index: usize, case: &Case) -> String {
    match case.arguments.as_str() {
        "" => format!("execute case_{index}"),
        arguments => format!("execute case_{index}({arguments})"),
    }
}

/// Runs a statement that the connection has prepared, rolls it back, and returns its plan.
async fn execute_prepared(client: &Client, index: usize, case: &Case) -> Plan {
    let execute = execution(index, case);
    let text = format!("begin; explain (analyze, buffers, timing off, format json) {execute}; rollback");
    let answers = client.simple_query(&text).await;
    let answers = answers.unwrap_or_else(|error| panic!("{}: {error:?}", case.name));
    let row = answers.iter().find_map(|answer| match answer {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    Plan::of(&serde_json::from_str(&row.expect("there is a plan")).expect("a plan is JSON"))
}

/// Returns the prepared statements that read too many pages.
async fn slow(client: &Client) -> Vec<String> {
    let mut slow = Vec::new();
    for (index, case) in cases().iter().enumerate() {
        let plan = execute_prepared(client, index, case).await;
        if plan.pages > case.pages {
            slow.push(format!("{} reads {} pages, not {}", case.name, plan.pages, case.pages));
        }
    }
    slow
}

#[tokio::test]
async fn open_connections_drop_the_plans_that_they_made_while_the_tables_were_small() {
    // On a shared server, changes of other schemas make connections drop their plans by themselves.
    let cluster = Cluster::start();
    let sandbox = Sandbox::on(&cluster.url("postgres"));
    let settings = Settings { writers: 1, readers: 1, ..sandbox.settings() };
    let store = sandbox.store_with("store", settings).await;
    let plain = sandbox.plain().await;
    // The plans are made while statistics say that the tables have twenty rows, which is what they have.
    let few = [", 100000)", ", 50000)", ", 20000)", ", 5000)", ", 1000)"].iter();
    let few = few.fold(FILL.to_owned(), |text, count| text.replace(count, ", 20)"));
    for text in [NO_AUTOVACUUM, &few, ANALYSE] {
        plain.run(text).await;
    }
    let unpooled = testing::connect(&sandbox.url("unpooled"), &sandbox.settings()).await;
    let unpooled = unpooled.expect("the connection opens");
    prepare_all(&unpooled).await;
    for pooled in testing::pooled(&store).await.expect("the connections open") {
        prepare_all(&pooled).await;
    }
    plain.run(EMPTY).await;
    plain.run(FILL).await;
    let kept = planned_cost(&unpooled).await;
    assert!(kept < LARGE, "a connection that is not asked to keeps its plans: {kept}");
    let deadline = Instant::now() + LONG;
    loop {
        let mut left = Vec::new();
        for pooled in testing::pooled(&store).await.expect("the connections are open") {
            left.extend(slow(&pooled).await);
            let cost = planned_cost(&pooled).await;
            left.extend((cost < LARGE).then(|| format!("a plan of small tables is left: {cost}")));
        }
        if left.is_empty() {
            break;
        }
        assert!(Instant::now() < deadline, "{}", left.join("\n"));
    }
}
