//! Submissions inside a transaction of the program's own, with tokio-postgres and with sqlx.

use super::place::{Place, Postgres};
use super::{TIMEOUT, block_on, wait_for_end};
use selvedge::{Context, Engine, Error, ExecutionId, Failure, Flow, Namespace, Outcome, Submission, Worker};
use serde_json::json;
use sqlx::{Connection, PgConnection};
use std::time::Duration;
use tokio::time::timeout;
use tokio_postgres::NoTls;

/// Returns an engine on a database that also has the table of a shop.
async fn shop(place: &Postgres) -> (Engine, Namespace, tokio_postgres::Client) {
    let engine = Engine::open(&place.store()).await.expect("the engine starts");
    let namespace = engine.namespace("default").await.expect("the namespace opens");
    let connected = tokio_postgres::connect(&place.store(), NoTls).await;
    let (client, connection) = connected.expect("the database is reached");
    tokio::spawn(connection);
    let table = "create table orders (id integer primary key)";
    client.batch_execute(table).await.expect("the table is created");
    (engine, namespace, client)
}

fn ship() -> Submission {
    Submission::new("ship").input(&41).expect("valid JSON").tag("team", "blue").max_retries(1)
}

/// Asserts that of two orders, of which the first was rolled back, one row and one execution exist.
async fn only_the_second_order_exists(
    namespace: &Namespace,
    client: &tokio_postgres::Client,
    ids: [ExecutionId; 2],
) {
    // A submission is taken in after its commit.
    let found = async {
        while namespace.get(ids[1]).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    timeout(TIMEOUT, found).await.expect("the submission is taken in");
    assert_eq!(wait_for_end(namespace, ids[1]).await, (Outcome::Completed, json!(42)));
    assert_eq!(namespace.get(ids[0]).await.expect_err("it was rolled back").code(), "not_found");
    let rows = client.query_one("select count(*) from orders", &[]).await.expect("the orders are counted");
    assert_eq!(rows.get::<_, i64>(0), 1);
}

fn shipper(namespace: &Namespace) -> selvedge::Handle {
    Worker::new(namespace.clone(), "w")
        .handler("ship", |ctx: Context| async move { Ok::<_, Failure>(ctx.input::<u32>()? + 1) })
        .start()
        .expect("the worker starts")
}

#[test]
fn work_and_rows_commit_together_or_not_at_all_with_tokio_postgres() {
    let place = Postgres::new();
    block_on(async {
        let (engine, namespace, mut client) = shop(&place).await;
        let worker = shipper(&namespace);
        let mut ids = Vec::new();
        for commits in [false, true] {
            let transaction = client.transaction().await.expect("the transaction begins");
            transaction.execute("insert into orders values (1)", &[]).await.expect("the order is inserted");
            ids.push(ship().submit_in(&transaction, "default").await.expect("the submission is accepted"));
            let ended = if commits { transaction.commit().await } else { transaction.rollback().await };
            ended.expect("the transaction ends");
        }
        only_the_second_order_exists(&namespace, &client, [ids[0], ids[1]]).await;
        worker.drain().await;
        engine.shutdown().await;
    });
}

#[test]
fn work_and_rows_commit_together_or_not_at_all_with_sqlx() {
    let place = Postgres::new();
    block_on(async {
        let (engine, namespace, client) = shop(&place).await;
        let worker = shipper(&namespace);
        let mut connection = PgConnection::connect(&place.store()).await.expect("the database is reached");
        let mut ids = Vec::new();
        for commits in [false, true] {
            let mut transaction = connection.begin().await.expect("the transaction begins");
            let inserted = sqlx::query("insert into orders values (1)").execute(&mut *transaction).await;
            inserted.expect("the order is inserted");
            ids.push(
                ship().submit_in(&mut transaction, "default").await.expect("the submission is accepted"),
            );
            let ended = if commits { transaction.commit().await } else { transaction.rollback().await };
            ended.expect("the transaction ends");
        }
        only_the_second_order_exists(&namespace, &client, [ids[0], ids[1]]).await;
        worker.drain().await;
        engine.shutdown().await;
    });
}

#[test]
fn a_flow_is_submitted_in_a_transaction_of_either_driver() {
    let place = Postgres::new();
    block_on(async {
        let (engine, namespace, client) = shop(&place).await;
        let worker = shipper(&namespace);
        let mut connection = PgConnection::connect(&place.store()).await.expect("the database is reached");
        let flow = || {
            Flow::new().name("order").node("first", ship()).node("second", ship()).after("second", ["first"])
        };
        let flows = [
            flow().submit_in(&client, "default").await.expect("tokio-postgres submits the flow"),
            flow().submit_in(&mut connection, "default").await.expect("sqlx submits the flow"),
        ];
        for id in flows {
            let found = async {
                while namespace.flow(id).await.is_err() {
                    tokio::task::yield_now().await;
                }
            };
            timeout(TIMEOUT, found).await.expect("the flow is taken in");
            let ended = namespace.flow_result(id, TIMEOUT).await.expect("the result is read");
            assert_eq!(ended.expect("the flow ends").of::<u32>("second").expect("it completes"), 42);
        }
        worker.drain().await;
        engine.shutdown().await;
    });
}

/// The errors of a call, the same with both drivers.
#[derive(Debug, PartialEq)]
enum Refused {
    Invalid(String),
    Denied,
    NoStore,
    Other(String),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Refused {
        match error {
            Error::Invalid(refusal) => Refused::Invalid(refusal.message),
            Error::Denied(_) => Refused::Denied,
            Error::Address(_) => Refused::NoStore,
            other => Refused::Other(other.to_string()),
        }
    }
}

#[test]
fn a_refused_submission_is_an_error_that_a_caller_can_match() {
    let place = Postgres::new();
    block_on(async {
        let (engine, _, client) = shop(&place).await;
        let mut connection = PgConnection::connect(&place.store()).await.expect("the database is reached");
        let role = format!("clerk_{}", uuid::Uuid::new_v4().simple());
        let rights = format!(
            "create role {role}; grant usage on schema selvedge to {role}; grant {role} to current_user; \
             grant execute on function selvedge.submit, selvedge.submit_flow to {role}"
        );
        client.batch_execute(&rights).await.expect("the role is created");
        let act_as = [format!("set role {role}"), "reset role".to_owned()];

        let priority = || ship().priority(1000);
        let expected = || Refused::Invalid("priority is 1000; it must be between -100 and 100".into());
        let with_tokio = priority().submit_in(&client, "default").await.expect_err("it is refused");
        let with_sqlx = priority().submit_in(&mut connection, "default").await.expect_err("it is refused");
        assert_eq!([with_tokio.code(), with_sqlx.code()], ["invalid_field"; 2]);
        assert_eq!((Refused::from(with_tokio), Refused::from(with_sqlx)), (expected(), expected()));

        // Refused before anything is sent.
        let debounced = ship().debounce("key", Duration::from_secs(1)).submit_in(&client, "default").await;
        assert!(
            matches!(debounced, Err(Error::Invalid(refusal)) if refusal.pointer.as_deref() == Some("/debounce"))
        );

        client.batch_execute(&act_as[0]).await.expect("the role is set");
        sqlx::raw_sql(sqlx::AssertSqlSafe(act_as[0].clone()))
            .execute(&mut connection)
            .await
            .expect("the role is set");
        let with_tokio = ship().submit_in(&client, "default").await.expect_err("it is denied");
        let with_sqlx = ship().submit_in(&mut connection, "default").await.expect_err("it is denied");
        assert_eq!((Refused::from(with_tokio), Refused::from(with_sqlx)), (Refused::Denied, Refused::Denied));
        client.batch_execute(&act_as[1]).await.expect("the role is reset");

        engine.shutdown().await;
        let dropped = format!("drop schema selvedge cascade; drop owned by {role}; drop role {role}");
        client.batch_execute(&dropped).await.expect("the schema is dropped");
        let with_tokio = ship().submit_in(&client, "default").await.expect_err("there is no store");
        assert_eq!(Refused::from(with_tokio), Refused::NoStore);
    });
}
