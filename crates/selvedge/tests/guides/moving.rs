//! The guide to moving from SQLite to Postgres: one program works for the old and the new store until the old one is empty.

use crate::ended;
use selvedge::{
    Context, Error, ExecutionFilter, Failure, Handle, Namespace, Outcome, State, Submission, Worker,
};

// region: both
fn greeter(namespace: &Namespace) -> Result<Handle, Error> {
    Worker::new(namespace.clone(), "greeter")
        .handler("greet", |ctx: Context| async move {
            let name: String = ctx.input()?;
            Ok::<_, Failure>(format!("Hello, {name}!"))
        })
        .start()
}

async fn is_empty(namespace: &Namespace) -> Result<bool, Error> {
    use State::{Active, Delayed, Held, Suspended, Waiting, WaitingDependencies};
    let states = vec![WaitingDependencies, Waiting, Delayed, Active, Suspended, Held];
    let filter = ExecutionFilter { states, ..ExecutionFilter::default() };
    let mut cursor = None;
    loop {
        let page = namespace.list(&filter, cursor.as_deref(), 100).await?;
        cursor = page.next_cursor;
        if !page.items.is_empty() || cursor.is_none() {
            return Ok(page.items.is_empty()); // a page may be short before the end of the list
        }
    }
}
// endregion: both

#[tokio::test]
async fn the_old_store_drains_while_the_new_one_takes_what_is_submitted() -> Result<(), Error> {
    let old = selvedge::connect("memory:").await?;
    let new = selvedge::connect("memory:").await?;
    let (old_names, new_names) = (old.namespace("default").await?, new.namespace("default").await?);
    let before = Submission::new("greet").input("Ada")?.submit(&old_names).await?.execution.id;
    let after = Submission::new("greet").input("Bob")?.submit(&new_names).await?.execution.id;
    assert!(!is_empty(&old_names).await?);
    let workers = [greeter(&old_names)?, greeter(&new_names)?];
    assert_eq!(ended(&old_names, before).await.outcome, Outcome::Completed);
    assert_eq!(ended(&new_names, after).await.outcome, Outcome::Completed);
    assert!(is_empty(&old_names).await?);
    for worker in workers {
        worker.drain().await;
    }
    old.close().await;
    new.close().await;
    Ok(())
}
