//! A deployment that waits until two of three people agree. Each person gets a token of their own; while the execution
//! waits, it occupies no worker. Arguments: see `run`.

mod run;

use run::ExampleError;
use selvedge::events::{EventFilter, From};
use selvedge::waitpoints::WaitpointFilter;
use selvedge::{Context, ExecutionId, Failure, Namespace, Signal, Submission, Waitpoint, Worker};
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Stands for a mail with a link. Whoever has the token needs nothing else to answer.
async fn send_mail(person: String, waitpoint: Waitpoint) -> Result<(), Failure> {
    eprintln!("mail to {person}: please answer {}", waitpoint.id);
    Ok(())
}

async fn deploy(ctx: Context) -> Result<String, Failure> {
    let approval = ctx
        .approval("deploy")
        .of(["ann", "bob", "cleo"])
        .at_least(2)
        .within(3 * DAY)
        .ask(|person, waitpoint| send_mail(person.to_string(), waitpoint))
        .await?;
    let people: Vec<String> = approval.votes.iter().map(|vote| vote.person.clone()).collect();
    match approval.is_approved() {
        true => Ok(format!("deployed, approved by {}", people.join(" and "))),
        false => Err(Failure::permanent("not approved")),
    }
}

fn worker(namespace: Namespace) -> Worker {
    Worker::new(namespace, "releases").handler("deploy", deploy)
}

async fn program(namespace: Namespace) -> Result<(), ExampleError> {
    let id = Submission::new("deploy").submit(&namespace).await?.execution.id;
    vote(&namespace, id, "ann", Signal::for_waitpoint()).await?;
    vote(&namespace, id, "bob", Signal::new("deploy/reject")).await?;
    vote(&namespace, id, "cleo", Signal::for_waitpoint()).await?;
    let ended = namespace.result(id, Duration::from_secs(30)).await?.ok_or("the execution has not ended")?;
    println!("{}", ended.json::<String>()?);
    Ok(())
}

/// Answers as the person would. An operator may answer without the token.
async fn vote(
    namespace: &Namespace,
    execution: ExecutionId,
    person: &str,
    answer: Signal,
) -> Result<(), ExampleError> {
    let created = EventFilter {
        types: vec!["waitpoint.created".into()],
        execution: Some(execution),
        ..EventFilter::default()
    };
    let mut created = namespace.subscribe(created, From::Beginning).await?;
    let asked = WaitpointFilter {
        execution: Some(execution),
        source: Some(person.into()),
        ..WaitpointFilter::default()
    };
    loop {
        created.next().await?;
        if let Some(waitpoint) = namespace.waitpoints(&asked, None, 1).await?.items.pop() {
            namespace.answer(waitpoint.id, answer).await?;
            return Ok(());
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), ExampleError> {
    run::example(worker, program).await
}
