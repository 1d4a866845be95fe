//! The row of an order and the e-mail about it commit in one SQL transaction, or not at all. Arguments: see `run`. The address is
//! that of a Postgres, or of a server on one; DATABASE_URL is the database of the store, which also has the table of the shop.

mod run;

use run::ExampleError;
use selvedge::events::{EventFilter, From};
use selvedge::{Context, ExecutionFilter, ExecutionId, Failure, Namespace, Submission, Worker};
use sqlx::{Connection, PgConnection, Postgres, Transaction};
use std::time::Duration;

async fn confirm(ctx: Context) -> Result<String, Failure> {
    let order: i32 = ctx.input()?;
    // The service recognises a repetition by ctx.idempotency_key().
    ctx.step("send", || async move { Ok(format!("order {order} is confirmed")) }).await
}

fn worker(namespace: Namespace) -> Worker {
    Worker::new(namespace, "mail").handler("confirm", confirm)
}

/// Inserts an order and submits its e-mail. The caller commits.
async fn place_order(
    transaction: &mut Transaction<'_, Postgres>,
    item: &str,
) -> Result<ExecutionId, ExampleError> {
    let insert = sqlx::query_scalar("insert into shop_orders (item) values ($1) returning id").bind(item);
    let order: i32 = insert.fetch_one(&mut **transaction).await?;
    Ok(Submission::new("confirm").input(&order)?.submit_in(transaction, "default").await?)
}

async fn program(namespace: Namespace) -> Result<(), ExampleError> {
    let mut connection = PgConnection::connect(&std::env::var("DATABASE_URL")?).await?;
    let table = "create table if not exists shop_orders (id serial primary key, item text not null)";
    sqlx::query(table).execute(&mut connection).await?;

    let mut transaction = connection.begin().await?;
    place_order(&mut transaction, "a lamp that is out of stock").await?;
    transaction.rollback().await?; // neither the order nor the e-mail exists
    let mut transaction = connection.begin().await?;
    let id = place_order(&mut transaction, "a lamp").await?;
    transaction.commit().await?; // both exist

    // A server takes the submission in after the commit.
    let submitted = EventFilter {
        types: vec!["execution.submitted".into()],
        execution: Some(id),
        ..EventFilter::default()
    };
    namespace.subscribe(submitted, From::Beginning).await?.next().await?;
    let ended = namespace.result(id, Duration::from_secs(30)).await?.ok_or("the execution has not ended")?;
    println!("{}", ended.json::<String>()?);
    let mails = ExecutionFilter { kind: Some("confirm".into()), ..ExecutionFilter::default() };
    println!("{} mail was sent", namespace.list(&mails, None, 100).await?.items.len());
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), ExampleError> {
    run::example(worker, program).await
}
