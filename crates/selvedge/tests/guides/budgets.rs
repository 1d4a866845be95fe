//! The guide to budgets: a chapter exceeds the budget, and the book continues when the limit is raised.

use crate::{ended, engine, reaches};
use selvedge::limits::{BudgetSettings, OnHard};
use selvedge::{Amount, Context, Error, Failure, Namespace, State, Submission, Worker};
use serde::{Deserialize, Serialize};
use std::time::Duration;

#[derive(Deserialize, Serialize)]
struct Chapter {
    text: String,
    tokens: u32,
}

/// Stands for the call of a model.
async fn write_chapter(number: u32) -> Result<Chapter, Failure> {
    Ok(Chapter { text: format!("Chapter {number}."), tokens: 400 })
}

// region: budget
async fn set_budget(namespace: &Namespace, tokens: u32) -> Result<(), Error> {
    let settings = BudgetSettings::new()
        .limit("tokens", tokens, Some(tokens / 10 * 8)) // the soft limit publishes an event
        .period(Duration::from_secs(24 * 3600))
        .on_hard(OnHard::Suspend);
    namespace.set_budget("books", settings).await
}
// endregion: budget

// region: task
async fn write_book(ctx: Context) -> Result<String, Failure> {
    let chapters: u32 = ctx.input()?;
    let mut book = Vec::new();
    for number in 1..=chapters {
        let chapter = ctx.step(format!("chapter {number}"), || write_chapter(number)).await?;
        // The key counts the tokens of a chapter once, although later attempts come by here again.
        let key = format!("{}/{number}", ctx.idempotency_key());
        ctx.usage_once("books", key, [("tokens", Amount::whole(chapter.tokens))]).await?;
        book.push(chapter.text);
    }
    Ok(book.join(" "))
}
// endregion: task

#[tokio::test]
async fn a_book_that_exceeds_its_budget_waits_until_the_limit_is_raised() -> Result<(), Error> {
    let (engine, namespace) = engine().await;
    set_budget(&namespace, 1000).await?;
    let worker = Worker::new(namespace.clone(), "writers").handler("write-book", write_book).start()?;
    // region: submit
    let book =
        Submission::new("write-book").input(&4)?.budget_reserving("books", [("tokens", Amount::whole(400))]);
    let id = book.submit(&namespace).await?.execution.id;
    // endregion: submit
    reaches(&namespace, id, State::Suspended).await;
    assert_eq!(namespace.budget("books").await?.usage["tokens"], Amount::whole(1200));
    set_budget(&namespace, 5000).await?;
    assert_eq!(ended(&namespace, id).await.json::<String>()?, "Chapter 1. Chapter 2. Chapter 3. Chapter 4.");
    assert_eq!(namespace.budget("books").await?.usage["tokens"], Amount::whole(1600));
    worker.drain().await;
    engine.shutdown().await;
    Ok(())
}
