//! Submissions inside a transaction of the program's own.

use super::place::{Place, Postgres};
use super::{block_on, wait_for_end};
use selvedge::{Context, Engine, Failure, Outcome, Submission, Worker};
use serde_json::json;
use tokio_postgres::NoTls;

#[test]
fn work_and_rows_commit_together_or_not_at_all_on_postgres() {
    let place = Postgres::new();
    block_on(async {
        let engine = Engine::open(&place.store()).await.expect("the engine starts");
        let namespace = engine.namespace("default").await.expect("the namespace opens");
        let connected = tokio_postgres::connect(&place.store(), NoTls).await;
        let (mut client, connection) = connected.expect("the database is reached");
        tokio::spawn(connection);
        client
            .batch_execute("create table orders (id integer primary key)")
            .await
            .expect("the table is created");
        let worker = Worker::new(namespace.clone(), "w")
            .handler("ship", |ctx: Context| async move { Ok::<_, Failure>(ctx.input::<u32>()? + 1) })
            .start()
            .expect("the worker starts");

        let mut ids = Vec::new();
        for commits in [false, true] {
            let transaction = client.transaction().await.expect("the transaction begins");
            transaction.execute("insert into orders values (1)", &[]).await.expect("the order is inserted");
            let ship =
                Submission::new("ship").input(&41).expect("valid JSON").tag("team", "blue").max_retries(1);
            ids.push(ship.submit_in(&transaction, "default").await.expect("the submission is accepted"));
            let ended = if commits { transaction.commit().await } else { transaction.rollback().await };
            ended.expect("the transaction ends");
        }
        // A submission is taken in after its commit.
        let found = async {
            while namespace.get(ids[1]).await.is_err() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(super::TIMEOUT, found).await.expect("the submission is taken in");
        assert_eq!(wait_for_end(&namespace, ids[1]).await, (Outcome::Completed, json!(42)));
        assert_eq!(namespace.get(ids[0]).await.expect_err("it was rolled back").code(), "not_found");
        let rows =
            client.query_one("select count(*) from orders", &[]).await.expect("the orders are counted");
        assert_eq!(rows.get::<_, i64>(0), 1);
        worker.drain().await;
        engine.shutdown().await;
    });
}
