//! The functions refuse at once what can be seen to be wrong, and pass everything else on unchanged.

use crate::{refused, submitted, take_in};
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::{Backoff, ExecutionId, FlowId};
use selvedge_system_tests::Sandbox;
use uuid::Uuid;

#[tokio::test]
async fn wrong_arguments_are_refused_at_once_and_leave_nothing() {
    let sandbox = Sandbox::new();
    let _store = sandbox.store("store").await;
    let sql = sandbox.plain().await;
    let long = "a".repeat(201);
    let huge = format!("submit('k', input => to_json(repeat('a', {})))", 1024 * 1024);
    for (call, message) in [
        ("submit(null)".to_owned(), "kind is missing"),
        ("submit('')".to_owned(), "kind must not be empty"),
        (format!("submit('{long}')"), "kind is 201 bytes long"),
        ("submit(E'a\\nb')".to_owned(), "kind contains a control character"),
        ("submit('k', lane => '')".to_owned(), "lane must not be empty"),
        ("submit('k', namespace => null)".to_owned(), "namespace is missing"),
        (format!("submit('k', namespace => '{long}')"), "namespace is 201 bytes long"),
        ("submit('k', idempotency_key => '')".to_owned(), "idempotency_key must not be empty"),
        ("submit('k', fairness_key => repeat('a', 513))".to_owned(), "fairness_key is 513 bytes long"),
        ("submit('k', priority => 101)".to_owned(), "priority is 101"),
        ("submit('k', priority => -101)".to_owned(), "priority is -101"),
        ("submit('k', deadline_ms => -1)".to_owned(), "must not be negative"),
        ("submit('k', delay_ms => 1, delay_until_at => now())".to_owned(), "cannot be combined"),
        ("submit('k', delay_until_at => 'infinity')".to_owned(), "delay_until_at must be a time"),
        ("submit('k', tags => '[]')".to_owned(), "tags must be an object"),
        ("submit('k', tags => '{\"a\": 1}')".to_owned(), "tags must be an object"),
        ("submit('k', capabilities => array['a', null])".to_owned(), "capabilities must not contain null"),
        ("submit('k', quotas => array[null])".to_owned(), "quotas must not contain null"),
        ("submit('k', retry => '[]')".to_owned(), "retry must be an object"),
        ("submit('k', concurrency => '1')".to_owned(), "concurrency must be an object"),
        ("submit('k', budgets => '{}')".to_owned(), "budgets must be an array"),
        (huge, "input is 1048578 bytes long"),
        (
            "submit('k', budgets => to_json(array[repeat('a', 3000000)]))".to_owned(),
            "all arguments together are",
        ),
        ("submit_flow(null)".to_owned(), "body must be an object"),
        ("submit_flow('[]')".to_owned(), "body must be an object"),
        ("submit_flow('{}')".to_owned(), "nodes must be an array"),
        ("submit_flow('{\"nodes\": [], \"kind\": 1}')".to_owned(), "body has a field \"kind\""),
        ("submit_flow('{\"nodes\": [], \"id\": \"x\"}')".to_owned(), "id must be a UUID"),
        ("submit_flow('{\"nodes\": []}', namespace => '')".to_owned(), "namespace must not be empty"),
    ] {
        let (state, found) = refused(&sql, &call).await;
        assert_eq!(state, "22023", "{call}: {found}");
        assert!(found.contains(message), "{call}: {found}");
    }
    let (state, _) = refused(&sql, "submit('k', input => '{')").await;
    assert_eq!(state, "22P02", "Postgres itself refuses text that is not JSON");
    assert_eq!(sql.number("select count(*) from inbox", &[]).await, 0);
}

#[tokio::test]
async fn every_argument_arrives_and_the_input_keeps_its_bytes() {
    let sandbox = Sandbox::new();
    let server = sandbox.server("server").await;
    let sql = sandbox.plain().await;
    let id = Uuid::now_v7();
    let call = format!(
        "submit('k', input => '{{\"b\": 1.50,  \"a\":[1e2,\"\\u00e9\"]}}', lane => 'l', id => '{id}', \
         idempotency_key => 'key', idempotency_window_ms => 60000, unique_while_active => 'only', priority => 7, \
         capabilities => array['gpu'], tags => '{{\"t\": \"v\"}}', delay_until_at => '2190-01-01 00:00+00', \
         start_by_ms => 1, retry => '{{\"max_retries\": 9, \"backoff\": {{\"type\": \"fixed\", \"delay_ms\": 5}}}}', \
         attempt_timeout_ms => 2, deadline_ms => 9999999999, retention_ms => 4, \
         concurrency => '{{\"key\": \"c\", \"limit\": 3}}', fairness_key => 'f')"
    );
    assert_eq!(submitted(&sql, &call).await, id);
    take_in(&server).await;
    let view = server.namespace.get(ExecutionId(id)).await.expect("it was taken in");
    assert_eq!(view.stored.input, "{\"b\": 1.50,  \"a\":[1e2,\"\\u00e9\"]}");
    assert_eq!((view.class.kind.as_str(), view.class.lane.as_str()), ("k", "l"));
    assert_eq!(view.class.capabilities.iter().map(|one| one.as_str()).collect::<Vec<_>>(), ["gpu"]);
    assert_eq!(view.state(), StateName::Delayed);
    let row = view.stored.execution;
    assert_eq!(row.priority, 7);
    assert_eq!(row.tags["t"], "v");
    assert_eq!(row.spec.idempotency_key.as_deref(), Some("key"));
    assert_eq!(row.spec.idempotency_window_ms, Some(60_000));
    assert_eq!(row.spec.unique_while_active.as_deref(), Some("only"));
    let policy = &row.spec.policy;
    assert_eq!((policy.start_by_ms, policy.attempt_timeout_ms), (Some(1), Some(2)));
    assert_eq!((policy.deadline_ms, policy.retention_ms), (Some(9_999_999_999), 4));
    assert_eq!(policy.retry.max_retries, 9);
    assert_eq!(policy.retry.backoff, Backoff::Fixed { delay_ms: 5 });
    assert_eq!(
        row.spec.required_gates.concurrency.as_ref().map(|(key, limit)| (&**key, *limit)),
        Some(("c", 3))
    );
    assert_eq!(row.spec.required_gates.fairness_key.as_deref(), Some("f"));
}

#[tokio::test]
async fn a_flow_is_taken_in_with_its_graph() {
    let sandbox = Sandbox::new();
    let server = sandbox.server("server").await;
    let sql = sandbox.plain().await;
    let body = r#"{"name": "f", "defaults": {"kind": "k"}, "nodes": [{"name": "a"}, {"name": "b"}],
                   "edges": [{"from": "a", "to": "b"}]}"#;
    let id = submitted(&sql, &format!("submit_flow('{body}')")).await;
    let chosen = Uuid::now_v7();
    let body = format!(r#"{{"id": "{chosen}", "nodes": [{{"name": "a", "kind": "k"}}]}}"#);
    assert_eq!(submitted(&sql, &format!("submit_flow('{body}')")).await, chosen);
    take_in(&server).await;
    let flow = server.namespace.flow(FlowId(id)).await.expect("it was taken in").flow;
    assert_eq!((flow.name.as_deref(), flow.counts.total()), (Some("f"), 2));
    server.namespace.flow(FlowId(chosen)).await.expect("it was taken in");
}

#[tokio::test]
async fn hostile_text_is_only_text() {
    let sandbox = Sandbox::new();
    let server = sandbox.server("server").await;
    let sql = sandbox.plain().await;
    let kinds = [
        "'; drop table inbox; --",
        "\"quoted\"",
        "back\\slash",
        "$$ select 1 $$",
        "{\"kind\": \"other\"}",
        "a\",\"priority\":100,\"x\":\"",
        "null",
        "é漢🧵",
        "%s %I",
    ];
    let mut ids = Vec::new();
    for kind in kinds {
        let text =
            "select submit($1, lane => $1, tags => jsonb_build_object('t', $1::text), idempotency_key => $1)";
        let row = sql.query_one(text, &[&kind]).await.expect("it is accepted");
        ids.push(ExecutionId(row.get(0)));
    }
    take_in(&server).await;
    for (kind, id) in kinds.into_iter().zip(ids) {
        let view = server.namespace.get(id).await.expect("it was taken in");
        assert_eq!((view.class.kind.as_str(), view.class.lane.as_str()), (kind, kind));
        assert_eq!(view.stored.execution.tags["t"], kind);
        assert_eq!(view.stored.execution.priority, 0);
    }
}
