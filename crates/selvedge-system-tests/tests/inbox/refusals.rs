//! What a server refuses stays in the inbox with its problem, and disturbs nothing else.

use crate::{count, refusal_events, submitted, take_in};
use selvedge_engine::Error;
use selvedge_engine::core::inbox::{InboxEntry, InboxNumber, InboxRow};
use selvedge_engine::core::rules::inbox::InboxChange;
use selvedge_engine::core::{ExecutionId, Refusal};
use selvedge_system_tests::Sandbox;

fn problem(entry: &InboxEntry) -> (&str, Option<&str>) {
    let (_, problem) = entry.row.refused.as_ref().expect("it was refused");
    (&problem.code, problem.pointer.as_deref())
}

#[tokio::test]
async fn a_refused_submission_keeps_its_problem_and_can_be_repeated() {
    let sandbox = Sandbox::new();
    let server = sandbox.server("server").await;
    let sql = sandbox.plain().await;
    let before = submitted(&sql, "submit('k')").await;
    let refused = submitted(&sql, "submit('k', quotas => array['mail'])").await;
    let after = submitted(&sql, "submit('k')").await;
    take_in(&server).await;
    for id in [before, after] {
        server.namespace.get(ExecutionId(id)).await.expect("it was taken in");
    }
    let listed = server.namespace.refused_inbox(None, 10).await.expect("the list is read");
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].id, refused);
    assert_eq!(problem(&listed[0]), ("unknown_quota", Some("/quotas/0")));
    let events = refusal_events(&server.namespace).await;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].data["id"], refused.to_string());
    assert_eq!(events[0].data["code"], "unknown_quota");
    assert!(events[0].actor.as_ref().is_some_and(|actor| actor.starts_with("sql:")));
    let row = sql.query_one("select problem->>'code' from inbox", &[]).await.expect("it is there");
    assert_eq!(row.get::<_, &str>(0), "unknown_quota");
    let counts = server.namespace.inbox_counts(100).await.expect("the rows are counted");
    assert_eq!((counts.pending, counts.refused), (0, 1));

    // Another namespace has no such row.
    let other = server.engine.namespace("other").await.expect("the namespace is created");
    let number = listed[0].row.number;
    let result = other.change_inbox_row(number, InboxChange::Delete).await;
    assert!(matches!(result, Err(Error::Refused(Refusal::NotFound { .. }))), "{result:?}");

    // Repeated, it is refused again while its reason remains, and taken in after that.
    server.namespace.change_inbox_row(number, InboxChange::Retry).await.expect("it waits again");
    let found = server.engine.store().glance().await.expect("the glance succeeds").due.of::<InboxRow>();
    assert!(found.is_some(), "a server that looked before finds it");
    take_in(&server).await;
    assert_eq!(refusal_events(&server.namespace).await.len(), 2);
    sql.run("update inbox set body = '{\"kind\": \"k\"}'").await;
    server.namespace.change_inbox_row(number, InboxChange::Retry).await.expect("it waits again");
    take_in(&server).await;
    server.namespace.get(ExecutionId(refused)).await.expect("it was taken in");
    assert_eq!(sql.number("select count(*) from inbox", &[]).await, 0);
}

#[tokio::test]
async fn whatever_passes_the_functions_is_refused_by_the_rules_of_http() {
    let sandbox = Sandbox::new();
    let server = sandbox.server("server").await;
    let sql = sandbox.plain().await;
    for (call, code, pointer) in [
        ("submit('k', retry => '{\"max\": 1}')", "unknown_field", "/retry/max"),
        ("submit('k', budgets => '[1]')", "invalid_field", "/budgets/0"),
        ("submit('k', budgets => '[\"none\"]')", "unknown_budget", "/budgets/0"),
        ("submit('k', tags => '{\"\": \"a\"}')", "invalid_field", "/tags/"),
        ("submit('k', delay_until_at => '0044-03-15 BC')", "invalid_field", "/delay_until_at"),
        ("submit_flow('{\"nodes\": [{\"name\": \"a\"}]}')", "invalid_field", "/nodes/0/kind"),
        (
            "submit_flow('{\"nodes\": [{\"name\": \"a\", \"kind\": \"k\", \"no\": 1}]}')",
            "unknown_field",
            "/nodes/0/no",
        ),
        ("submit_flow('{\"nodes\": [], \"nodes\": []}')", "invalid_field", "/nodes"),
    ] {
        submitted(&sql, call).await;
        take_in(&server).await;
        let listed = server.namespace.refused_inbox(None, 1).await.expect("the list is read");
        assert_eq!(problem(&listed[0]), (code, Some(pointer)), "{call}");
    }
    // A row that nobody can read as a request, written by the owner of the table.
    sql.run("insert into inbox (id, namespace, role, flow, body) values (gen_random_uuid(), 'default', 'a', false, '{')").await;
    sql.run("insert into inbox (id, namespace, role, flow, body) values (gen_random_uuid(), '', 'a', false, '{}')").await;
    let good = submitted(&sql, "submit('k')").await;
    take_in(&server).await;
    server.namespace.get(ExecutionId(good)).await.expect("it was taken in");
    assert_eq!(count(&server.namespace).await, 1);
    assert_eq!(refusal_events(&server.namespace).await.len(), 10);
}

#[tokio::test]
async fn refused_submissions_are_listed_in_pages_deleted_by_operators_and_after_seven_days() {
    let sandbox = Sandbox::new();
    let server = sandbox.server("server").await;
    let sql = sandbox.plain().await;
    sql.run("select submit('k', quotas => array['none']) from generate_series(1, 5)").await;
    take_in(&server).await;
    let mut numbers: Vec<InboxNumber> = Vec::new();
    loop {
        let page = server.namespace.refused_inbox(numbers.last().copied(), 2).await.expect("it is read");
        if page.is_empty() {
            break;
        }
        numbers.extend(page.iter().map(|entry| entry.row.number));
    }
    assert_eq!(numbers.len(), 5);
    assert!(numbers.is_sorted_by(|a, b| a > b), "newest first");
    server.namespace.change_inbox_row(numbers[0], InboxChange::Delete).await.expect("it is deleted");
    server.namespace.change_inbox_row(numbers[0], InboxChange::Delete).await.expect_err("it is gone");
    sql.run("update inbox set refused_at = now() - interval '6 days 23 hours'").await;
    assert_eq!(server.engine.tick("inbox").await.expect("the tick succeeds").done, 0);
    let overview = server.engine.store().overview().await.expect("the overview is read");
    assert!(
        overview.due.of::<InboxRow>().is_some_and(|at| at > overview.now),
        "it is due when it is to be deleted"
    );
    sql.run("update inbox set refused_at = now() - interval '8 days'").await;
    assert_eq!(server.engine.tick("inbox").await.expect("the tick succeeds").done, 4);
    assert_eq!(sql.number("select count(*) from inbox", &[]).await, 0);
}

#[tokio::test]
async fn a_submission_into_an_unknown_namespace_waits_for_an_operator_and_creates_none() {
    let sandbox = Sandbox::new();
    let server = sandbox.server("server").await;
    let sql = sandbox.plain().await;
    let mut ids = Vec::new();
    for namespace in ["typo", "*"] {
        ids.push(submitted(&sql, &format!("submit('k', namespace => '{namespace}')")).await);
    }
    take_in(&server).await;
    let names = server.engine.store().namespaces().await.expect("namespaces are read");
    let names: Vec<&str> = names.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(names, ["default"], "none was created");
    let codes = refusal_events(&server.namespace).await;
    let codes: Vec<&str> = codes.iter().filter_map(|event| event.data["code"].as_str()).collect();
    assert_eq!(codes, ["unknown_namespace"; 2]);

    // Another server, and an administrator who creates the namespace there.
    let other = sandbox.server("other").await;
    let typo = other.engine.namespace("typo").await.expect("the namespace is created");
    let refused = typo.refused_inbox(None, 9).await.expect("the list is read");
    assert_eq!((refused.len(), problem(&refused[0]).0), (1, "unknown_namespace"));
    typo.change_inbox_row(refused[0].row.number, InboxChange::Retry).await.expect("it waits again");
    take_in(&server).await;
    typo.get(ExecutionId(ids[0])).await.expect("it was taken in");

    // An id of another namespace is refused without a word about what has it.
    sql.run(&format!("insert into inbox (id, namespace, role, flow, body) values ('{}', 'default', 'a', false, '{{\"kind\": \"k\"}}')", ids[0])).await;
    take_in(&server).await;
    let listed = server.namespace.refused_inbox(None, 1).await.expect("the list is read");
    assert_eq!(problem(&listed[0]), ("id_taken", Some("/id")));
}
