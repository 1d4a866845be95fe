//! A deployment that waits until two of three people agree. Each person gets a token of their own; while the execution
//! waits, it occupies no worker. The address is the first argument.

use selvedge::{Context, Failure, Signal, Submission, Waitpoint, Worker};
use std::time::Duration;
use tokio::sync::mpsc;

const DAY: Duration = Duration::from_secs(24 * 3600);

async fn deploy(ctx: Context, mail: mpsc::UnboundedSender<Waitpoint>) -> Result<String, Failure> {
    let approval = ctx
        .approval("deploy")
        .of(["ann", "bob", "cleo"])
        .at_least(2)
        .within(3 * DAY)
        .ask(|_person, waitpoint| {
            let mail = mail.clone();
            async move { Ok(mail.send(waitpoint)?) }
        })
        .await?;
    let people: Vec<String> = approval.votes.iter().map(|vote| vote.person.clone()).collect();
    match approval.is_approved() {
        true => Ok(format!("deployed, approved by {}", people.join(" and "))),
        false => Err(Failure::permanent("not approved")),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "memory:".into());
    let connection = selvedge::connect(&address).await?;
    let namespace = connection.namespace("default").await?;
    let (mail, mut inbox) = mpsc::unbounded_channel();
    let worker = Worker::new(namespace.clone(), "releases")
        .handler("deploy", move |ctx: Context| deploy(ctx, mail.clone()))
        .start()?;
    let id = Submission::new("deploy").submit(&namespace).await?.execution.id;

    // Ann and Cleo agree, Bob declines.
    for answer in [Signal::for_waitpoint(), Signal::new("deploy/reject"), Signal::for_waitpoint()] {
        let waitpoint = inbox.recv().await.ok_or("nobody was asked")?;
        namespace.deliver(waitpoint.id, &waitpoint.token, answer).await?;
    }
    let ended = namespace.result(id, Duration::from_secs(30)).await?.ok_or("the execution has not ended")?;
    println!("{}", ended.json::<String>()?);

    worker.drain().await;
    connection.close().await;
    Ok(())
}
