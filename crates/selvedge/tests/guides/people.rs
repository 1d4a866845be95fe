//! The guide to waiting for people: two of three approve, or nobody answers for three days.

use selvedge::testing::TestEngine;
use selvedge::{Context, Error, Failure, Namespace, Signal, Submission, Verdict, Waitpoint, Worker};
use std::time::Duration;
use tokio::sync::mpsc;

const DAY: Duration = Duration::from_secs(24 * 3600);

// region: approval
async fn publish(ctx: Context, mail: mpsc::UnboundedSender<Waitpoint>) -> Result<String, Failure> {
    let article: String = ctx.input()?;
    let approval = ctx
        .approval("publish")
        .of(["ann", "bob", "cleo"])
        .at_least(2)
        .within(3 * DAY)
        .ask(|_person, waitpoint| {
            let sent = mail.send(waitpoint); // stands for an e-mail with a link that contains the token
            async move { Ok(sent?) }
        })
        .await?;
    match approval.verdict {
        Verdict::Approved => Ok(format!("{article} is published")),
        Verdict::TimedOut => Ok(format!("{article} is forgotten")),
        Verdict::Rejected | Verdict::Operator => Err(Failure::permanent("not approved")),
    }
}
// endregion: approval

// region: vote
async fn vote(namespace: &Namespace, waitpoint: &Waitpoint, agrees: bool) -> Result<(), Error> {
    let signal = if agrees { Signal::for_waitpoint() } else { Signal::new("publish/reject") };
    namespace.deliver(waitpoint.id, &waitpoint.token, signal).await.map(drop)
}
// endregion: vote

#[tokio::test]
async fn two_of_three_people_publish_an_article_and_silence_forgets_it() -> Result<(), Error> {
    let test = TestEngine::start().await?;
    let namespace = test.namespace();
    let (mail, mut inbox) = mpsc::unbounded_channel();
    let worker = Worker::new(namespace.clone(), "editors")
        .handler("publish", move |ctx: Context| publish(ctx, mail.clone()))
        .start()?;

    let id = Submission::new("publish").input("News")?.submit(namespace).await?.execution.id;
    for agrees in [true, false, true] {
        let waitpoint = inbox.recv().await.expect("every person gets a mail");
        vote(namespace, &waitpoint, agrees).await?;
    }
    let ended = namespace.result(id, Duration::from_secs(30)).await?.expect("the execution ends");
    assert_eq!(ended.json::<String>()?, "News is published");

    let id = Submission::new("publish").input("Old news")?.submit(namespace).await?.execution.id;
    for _ in 0..3 {
        inbox.recv().await.expect("every person gets a mail");
    }
    test.advance(3 * DAY).await?;
    let ended = namespace.result(id, Duration::from_secs(30)).await?.expect("the execution ends");
    assert_eq!(ended.json::<String>()?, "Old news is forgotten");
    worker.drain().await;
    test.shutdown().await;
    Ok(())
}
