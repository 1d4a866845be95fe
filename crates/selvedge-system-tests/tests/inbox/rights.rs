//! Roles of Postgres decide who may submit, and into which namespace.

use crate::{count, refused, submitted, take_in};
use selvedge_system_tests::{PlainConnection, Sandbox};
use uuid::Uuid;

/// A role that is dropped with its rights at the end of the test.
async fn new_role(sql: &PlainConnection) -> String {
    let role = format!("test_{}", Uuid::new_v4().simple());
    sql.run(&format!("create role {role}")).await;
    role
}

#[tokio::test]
async fn a_role_submits_only_into_the_namespaces_that_it_was_given() {
    let sandbox = Sandbox::new();
    let server = sandbox.server("server").await;
    let (owner, sql) = (sandbox.plain().await, sandbox.plain().await);
    let schema = &sandbox.schema;
    let role = new_role(&owner).await;
    let member = new_role(&owner).await;
    sql.run(&format!("set role {role}")).await;
    let denied = "42501";

    assert_eq!(refused(&sql, "submit('k')").await.0, "42883", "the schema is not visible to it");
    owner.run(&format!("grant usage on schema {schema} to {role}")).await;
    assert_eq!(refused(&sql, "submit('k')").await.0, denied, "it may not call the function");
    owner.run(&format!("grant execute on function {schema}.submit, {schema}.submit_flow to {role}")).await;
    let (state, message) = refused(&sql, "submit('k')").await;
    assert_eq!(state, denied);
    assert!(message.contains("may not submit into namespace 'default'"), "{message}");
    assert_eq!(refused(&sql, "submit_flow('{\"nodes\": []}')").await.0, denied);

    owner
        .run(&format!("insert into inbox_rights values ('{role}', 'orders'), ('no such role', 'default')"))
        .await;
    submitted(&sql, "submit('k', namespace => 'orders')").await;
    submitted(
        &sql,
        "submit_flow('{\"nodes\": [{\"name\": \"a\", \"kind\": \"k\"}]}', namespace => 'orders')",
    )
    .await;
    for namespace in ["default", "Orders", "orders ", "*"] {
        let call = format!("submit('k', namespace => '{namespace}')");
        assert_eq!(refused(&sql, &call).await.0, denied, "{namespace}");
    }
    // It sees and changes nothing else.
    for text in
        ["select count(*) from inbox", "select count(*) from executions", "select count(*) from inbox_rights"]
    {
        assert!(sql.query(text, &[]).await.is_err(), "{text}");
    }
    let insert = "insert into inbox (id, namespace, role, flow, body) values (gen_random_uuid(), 'default', 'a', false, '{}')";
    assert!(sql.batch_execute(insert).await.is_err());
    assert_eq!(refused(&sql, "inbox_caller('orders')").await.0, denied);

    // A member of the role has its rights.
    owner.run(&format!("grant {role} to {member}")).await;
    sql.run(&format!("reset role; set role {member}")).await;
    submitted(&sql, "submit('k', namespace => 'orders')").await;
    assert_eq!(refused(&sql, "submit('k')").await.0, denied);
    sql.run("reset role").await;

    let orders = server.engine.namespace("orders").await.expect("the namespace is created");
    take_in(&server).await;
    assert_eq!(count(&orders).await, 3);
    assert_eq!(count(&server.namespace).await, 0);

    owner.run(&format!("update inbox_rights set namespace = '*' where role = '{role}'")).await;
    sql.run(&format!("set role {role}")).await;
    submitted(&sql, "submit('k')").await;
    sql.run("reset role").await;
    for role in [role, member] {
        owner.run(&format!("drop owned by {role}; drop role {role}")).await;
    }
}

#[tokio::test]
async fn objects_of_the_caller_do_not_stand_in_for_those_of_the_functions() {
    let sandbox = Sandbox::new();
    let server = sandbox.server("server").await;
    let (owner, sql) = (sandbox.plain().await, sandbox.plain().await);
    let schema = &sandbox.schema;
    let role = new_role(&owner).await;
    owner
        .run(&format!(
            "grant usage on schema {schema} to {role}; grant execute on function {schema}.submit to {role}; \
             grant temporary on database {} to {role}",
            owner
                .query_one("select quote_ident(current_database())", &[])
                .await
                .expect("it is read")
                .get::<_, &str>(0)
        ))
        .await;
    sql.run(&format!("set role {role}")).await;
    sql.run(&format!(
        "create temporary table inbox_rights as select '{role}'::name as role, '*' as namespace"
    ))
    .await;
    sql.run("create temporary table inbox (like inbox_rights)").await;
    sql.run(
        "create function pg_temp.inbox_caller(text) returns text language sql as 'select ''postgres''::text'",
    )
    .await;
    sql.run(&format!("set search_path to pg_temp, {schema}, pg_catalog")).await;
    assert_eq!(refused(&sql, &format!("{schema}.submit('k')")).await.0, "42501");
    owner.run(&format!("insert into inbox_rights values ('{role}', 'default')")).await;
    submitted(&sql, &format!("{schema}.submit('k')")).await;
    sql.run("reset role; discard temp").await;
    take_in(&server).await;
    assert_eq!(count(&server.namespace).await, 1);
    owner.run(&format!("drop owned by {role}; drop role {role}")).await;
}
