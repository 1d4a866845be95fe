//! The views show executions and flows as the API does, and the examples of the documentation run.

use crate::submitted;
use crate::take_in;
use selvedge_engine::Options;
use selvedge_engine::core::filter::{Filter, Payloads};
use selvedge_engine::core::flow::FlowFilter;
use selvedge_engine::core::gate::{Config, GateKind, LaneState};
use selvedge_engine::core::rules::operator::Action;
use selvedge_engine::core::rules::report::Op;
use selvedge_engine::core::rules::waitpoint::WaitpointDraft;
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::{Draft, ExecutionId, FailureClass, Name, Policy, Retry};
use selvedge_engine::{FlowView, View};
use selvedge_postgres::Settings;
use selvedge_system_tests::server::{Server, claim_of, claim_wait, complete_op, fail_op, fence, operator};
use selvedge_system_tests::{PlainConnection, Sandbox, stop, wait_until};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

/// Returns the rows of a view as JSON objects, by id.
async fn rows(sql: &PlainConnection, view: &str) -> Vec<Value> {
    let text = format!("select row_to_json(shown)::text from {view} as shown order by id");
    let rows = sql.query(&text, &[]).await.expect("the view is read");
    rows.iter().map(|row| serde_json::from_str(row.get(0)).expect("a row is JSON")).collect()
}

/// Returns the milliseconds of a time of Postgres.
async fn millis(sql: &PlainConnection, time: &Value) -> Option<i64> {
    let text = time.as_str()?;
    let row = sql
        .query_one("select floor(extract(epoch from $1::text::timestamptz) * 1000)::bigint", &[&text])
        .await;
    Some(row.expect("it is a time").get(0))
}

/// Makes an execution of every state, and flows.
async fn run_all(server: &Server, sql: &PlainConnection) {
    let namespace = &server.namespace;
    let retry = Retry { max_retries: 0, ..Retry::default() };
    let failing =
        Policy { retry, deadline_ms: Some(86_400_000), start_by_ms: Some(86_400_000), ..Policy::default() };
    for (kind, policy) in [("completes", Policy::default()), ("fails", failing), ("runs", Policy::default())]
    {
        let tags = [("team".to_owned(), "blue".to_owned())].into();
        let draft = Draft { policy, tags, input: "{\"a\":  1}".into(), priority: 3, ..Draft::new(kind) };
        server.submit(draft).await;
    }
    for _ in 0..3 {
        let claim = claim_wait(claim_of("w", 1), std::time::Duration::ZERO);
        let claimed = namespace.claim(claim).await.expect("the claim is answered").remove(0);
        let kind = namespace.get(claimed.execution.id).await.expect("it exists").class.kind;
        let op: Op = match kind.as_str() {
            "completes" => complete_op(),
            "fails" => fail_op(),
            _ => continue,
        };
        server.report(fence(&claimed), op).await.expect("the lease is held");
    }
    submitted(
        sql,
        "submit('delayed', delay_ms => 86400000, idempotency_key => 'key', unique_while_active => 'only')",
    )
    .await;
    submitted(
        sql,
        "submit('waits', lane => 'free', capabilities => array['gpu'], fairness_key => 'f', priority => 9)",
    )
    .await;
    submitted(sql, "submit('waits', lane => 'paused')").await;
    let flow = r#"{"name": "f", "tags": {"a": "b"}, "deadline_ms": 86400000, "defaults": {"kind": "never", "lane": "free"},
        "nodes": [{"name": "a"}, {"name": "b"}], "edges": [{"from": "a", "to": "b"}]}"#;
    submitted(sql, &format!("submit_flow('{flow}')")).await;
    take_in(server).await;
    let paused = Some(Config { state: LaneState::Paused, ..Config::default() });
    namespace.configure(GateKind::Lane, "paused", paused, &operator()).await.expect("the lane is paused");
    let cancelled = server.submit(Draft::new("cancelled")).await;
    let cancel = Action::Cancel { reason: None, grace_ms: 0 };
    server.operate(cancelled, cancel).await.expect("it is cancelled");
}

/// Compares a row of the view with the execution as the API shows it.
async fn compare(sql: &PlainConnection, row: &Value, view: &View) {
    let execution = &view.stored.execution;
    let (spec, detail) = (&execution.spec, &execution.detail);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("a payload is text");
    let error = detail.error.as_ref();
    let expected = json!({
        "id": execution.id, "namespace": view.namespace, "lane": view.class.lane, "kind": view.class.kind,
        "capabilities": view.class.capabilities, "state": view.state().as_str(), "outcome": execution.state.outcome(),
        "flow_id": execution.flow(), "node": execution.node(),
        "parent": spec.node.as_ref().and_then(|node| node.parent), "priority": execution.priority,
        "attempts": execution.epoch, "generation": detail.generation, "retries": detail.retries,
        "interruptions": detail.interruptions, "tags": execution.tags, "input": text(&view.stored.input),
        "result": view.stored.result.as_ref().map(|result| text(result)),
        "error_message": error.map(|error| &error.message), "error_class": error.map(|error| error.class.as_str()),
        "version": execution.version, "cancel_requested": detail.cancel.is_some(),
        "idempotency_key": spec.idempotency_key, "unique_while_active": spec.unique_while_active,
        "fairness_key": spec.required_gates.fairness_key,
        "attempt_timeout_ms": spec.policy.attempt_timeout_ms, "deadline_ms": spec.policy.deadline_ms,
        "start_by_ms": spec.policy.start_by_ms, "retention_ms": spec.policy.retention_ms,
    });
    let times = [
        ("submitted_at", Some(execution.submitted_at)),
        ("started_at", execution.started_at),
        ("ended_at", execution.ended_at),
        ("deadline_at", execution.deadline_at()),
    ];
    let shown = row.as_object().expect("a row is an object");
    for (name, value) in expected.as_object().expect("it is an object") {
        assert_eq!(&shown[name], value, "{name} of {row}");
    }
    for (name, time) in times {
        assert_eq!(millis(sql, &shown[name]).await, time.map(|time| time.millis()), "{name} of {row}");
    }
    assert_eq!(shown["delayed_until_at"].is_null(), view.state() != StateName::Delayed, "{row}");
    assert_eq!(shown.len(), expected.as_object().map_or(0, |all| all.len()) + times.len() + 1, "{row}");
}

#[tokio::test]
async fn the_views_show_what_the_api_shows_in_every_column() {
    let sandbox = Sandbox::new();
    let server = sandbox.server("server").await;
    let sql = sandbox.plain().await;
    run_all(&server, &sql).await;
    let namespace = &server.namespace;
    let listed = namespace.list(&Filter::all(namespace.id()), None, 500, Payloads::ALL).await;
    let mut views = listed.expect("the list is read").0;
    views.sort_by_key(|view| view.stored.execution.id);
    let shown = rows(&sql, "v1_executions").await;
    assert_eq!(shown.len(), views.len());
    for (row, view) in shown.iter().zip(&views) {
        compare(&sql, row, view).await;
    }
    let states: BTreeSet<&str> = views.iter().map(|view| view.state().as_str()).collect();
    let wanted =
        ["active", "cancelled", "completed", "delayed", "failed", "held", "waiting", "waiting_dependencies"];
    assert_eq!(states, BTreeSet::from(wanted));

    let filter = FlowFilter {
        namespace: namespace.id(),
        states: vec![],
        name: None,
        tag: None,
        submitted_after: None,
        submitted_before: None,
    };
    let flows = namespace.flows(&filter, None, 500).await.expect("the list is read").0;
    let shown = rows(&sql, "v1_flows").await;
    assert_eq!((flows.len(), shown.len()), (1, 1));
    let (row, FlowView { flow, .. }) = (&shown[0], &flows[0]);
    for (name, value) in [
        ("id", json!(flow.id)),
        ("name", json!(flow.name)),
        ("state", json!(flow.state.as_str())),
        ("total", json!(flow.counts.total())),
        ("tags", json!(flow.tags)),
        ("retention_ms", json!(flow.spec.retention_ms)),
        ("idempotency_key", json!(flow.spec.idempotency_key)),
        ("version", json!(flow.version)),
        ("cancel_requested", json!(false)),
    ] {
        assert_eq!(row[name], value, "{name} of {row}");
    }
    for state in StateName::ALL {
        assert_eq!(row[state.as_str()], json!(flow.counts.of(state)), "{row}");
    }
    for (name, time) in [("submitted_at", Some(flow.submitted_at)), ("deadline_at", flow.spec.deadline_at)] {
        assert_eq!(millis(&sql, &row[name]).await, time.map(|time| time.millis()), "{name} of {row}");
    }
}

#[tokio::test]
async fn the_statements_of_the_documentation_run() {
    let sandbox = Sandbox::with_own_database().await;
    let store = sandbox.store_with("server", Settings::default()).await;
    let server = Server::new(store, Options { notifications: false, ..Options::default() }).await;
    let sql = PlainConnection::connect(&sandbox.url("plain"), "public").await;
    server.engine.namespace("orders").await.expect("the namespace of an example is created");
    let page = include_str!("../../../../docs/sql.md");
    let roles = "drop owned by shop, reporting; drop role shop, reporting";
    let mut blocks = 0;
    for block in page.split("\n```sql\n").skip(1) {
        let (statements, _) = block.split_once("\n```\n").expect("a block ends");
        sql.run(statements).await;
        blocks += 1;
    }
    assert_eq!(blocks, 6);
    sql.run(roles).await;
    wait_until("everything is taken in", async || {
        sql.number("select count(*) from selvedge.inbox", &[]).await == 0
    })
    .await;
    assert_eq!(sql.number("select count(*) from selvedge.v1_executions", &[]).await, 5);
    stop([&server.engine]).await;
}

#[tokio::test]
async fn an_error_with_the_character_zero_does_not_fail_the_views_and_old_rows_with_it_are_repaired() {
    let sandbox = Sandbox::new();
    let server = sandbox.server("server").await;
    let sql = sandbox.plain().await;
    let fail = async |message: &str| {
        let retry = Retry { max_retries: 0, ..Retry::default() };
        let draft = Draft { policy: Policy { retry, ..Policy::default() }, ..Draft::new("fails") };
        let id = server.submit(draft).await;
        let claim = claim_wait(claim_of("i", 1), Duration::ZERO);
        let claimed = server.namespace.claim(claim).await.expect("the claim is answered").remove(0);
        let fail = Op::Fail { message: message.into(), class: FailureClass::Permanent, retry_after_ms: None };
        server.report(fence(&claimed), fail).await.expect("the lease is held");
        id
    };
    let (new, old) = (fail("a\0b").await, fail("old").await);
    // An earlier build stored the text as it came; the last four characters are a backslash, u0000 and nothing else.
    let stored = r#"{"error":{"message":"x\u0000\u0000y \\u0000 \\\u0000","class":"permanent"}}"#;
    sql.query("update executions set detail = $2 where id = $1", &[&old.0, &stored])
        .await
        .expect("it is stored");
    sql.query("select count(*), max(error_message) from v1_executions", &[])
        .await
        .expect_err("the view fails");
    let migration = include_str!("../../../selvedge-postgres/src/migrations/0021_ended_waits.sql");
    for standard in ["on", "off"] {
        sql.run(&format!("set standard_conforming_strings = {standard}")).await;
        sql.run(migration).await;
    }
    sql.run("reset standard_conforming_strings").await;
    let shown = rows(&sql, "v1_executions").await;
    let message = |id: ExecutionId| {
        let row = shown.iter().find(|row| row["id"] == json!(id)).expect("it is listed");
        row["error_message"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(message(new), "a\u{fffd}b");
    assert_eq!(message(old), "x\u{fffd}\u{fffd}y \\u0000 \\\u{fffd}");
    stop([&server.engine]).await;
}

#[tokio::test]
async fn waitpoints_that_earlier_builds_left_open_are_closed() {
    let sandbox = Sandbox::new();
    let server = sandbox.server("server").await;
    let sql = sandbox.plain().await;
    for kind in ["ends", "lives"] {
        server.submit(Draft::new(kind)).await;
    }
    for _ in 0..2 {
        let claimed = server
            .namespace
            .claim(claim_wait(claim_of("i", 1), Duration::ZERO))
            .await
            .expect("it is answered")
            .remove(0);
        let waitpoint = server.namespace.waitpoint(WaitpointDraft::new(Name::trusted("w")));
        server.report(fence(&claimed), waitpoint).await.expect("the lease is held");
        let kind = server.namespace.get(claimed.execution.id).await.expect("it exists").class.kind;
        if kind.as_str() == "ends" {
            server.report(fence(&claimed), complete_op()).await.expect("the lease is held");
        }
    }
    assert_eq!(sql.number("select count(*) from waitpoints where state = 2", &[]).await, 1);
    sql.run("update waitpoints set state = 0").await;
    sql.run(include_str!("../../../selvedge-postgres/src/migrations/0021_ended_waits.sql")).await;
    let open = "select count(*) from waitpoints join executions on executions.id = waitpoints.execution
                where waitpoints.state = 0 and executions.state < 10";
    assert_eq!(sql.number(open, &[]).await, 1);
    assert_eq!(sql.number("select count(*) from waitpoints where state = 2", &[]).await, 1);
    stop([&server.engine]).await;
}
