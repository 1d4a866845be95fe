//! The guide to testing: two weeks in milliseconds.

// region: task
use selvedge::testing::TestEngine;
use selvedge::{Context, Error, Failure, Signal, Submission, Worker};
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 3600);

async fn invoice(ctx: Context) -> Result<&'static str, Failure> {
    let paid = ctx.wait_for_signal("payment", "paid").timeout(14 * DAY).await?;
    Ok(if paid.signal().is_some() { "paid" } else { "overdue" })
}
// endregion: task

// region: test
#[tokio::test]
async fn an_invoice_is_overdue_after_two_weeks() -> Result<(), Error> {
    let test = TestEngine::start().await?;
    let worker = Worker::new(test.namespace().clone(), "billing").handler("invoice", invoice).start()?;
    let unpaid = Submission::new("invoice").submit(test.namespace()).await?.execution.id;
    let paid = Submission::new("invoice").submit(test.namespace()).await?.execution.id;

    test.advance(13 * DAY).await?;
    Signal::new("paid").send(test.namespace(), paid).await?;
    test.advance(DAY).await?;

    for (id, expected) in [(unpaid, "overdue"), (paid, "paid")] {
        let ended = test.namespace().result(id, Duration::from_secs(10)).await?.expect("the invoice ends");
        assert_eq!(ended.json::<String>()?, expected);
    }
    worker.drain().await;
    test.shutdown().await;
    Ok(())
}
// endregion: test
