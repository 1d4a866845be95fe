//! The guide to flows: the first of two answers, a node that handles a failure, children.

use crate::{ended, engine};
use selvedge::{
    Context, EdgeCondition, Error, Failure, Flow, FlowState, Join, Nodes, Outcome, Submission, Worker,
};
use std::time::Duration;

/// Stands for a model: the thorough one does not answer, and without a question both fail.
async fn ask(ctx: Context) -> Result<String, Failure> {
    let (model, question): (String, String) = ctx.input()?;
    if question.is_empty() {
        return Err(Failure::permanent("there is no question"));
    }
    if model == "thorough" {
        ctx.cancelled().await;
    }
    Ok(format!("{model} answers {question}"))
}

// region: answer
async fn publish(ctx: Context) -> Result<String, Failure> {
    ctx.winner() // the result of the upstream that completed first
}

fn answer(question: &str) -> Result<Flow, Error> {
    let ask = |model: &str| Submission::new("ask").input(&(model, question));
    Ok(Flow::new()
        .name("answer")
        .node("fast", ask("fast")?)
        .node("thorough", ask("thorough")?)
        .node("publish", "publish")
        .node("alert", "alert")
        .after("publish", ["fast", "thorough"])
        .join("publish", Join::any_of())
        .edge_when("publish", "alert", EdgeCondition::FailureOrSkipped))
}
// endregion: answer

// region: children
async fn summarise_all(ctx: Context) -> Result<u64, Failure> {
    let documents: Vec<String> = ctx.input()?;
    let mut children = Nodes::new();
    for (number, document) in documents.iter().enumerate() {
        children = children.node(format!("document-{number}"), Submission::new("summarise").input(document)?);
    }
    ctx.spawn(children).await?;
    let children = ctx.join("documents").await?; // holds no worker while the children run
    children.iter().map(|child| ctx.child::<u64>(&child.name)).sum()
}
// endregion: children

#[tokio::test]
async fn the_first_answer_wins_and_an_alert_handles_a_failure() -> Result<(), Error> {
    let (engine, namespace) = engine().await;
    let worker = Worker::new(namespace.clone(), "models")
        .handler("ask", ask)
        .handler("publish", publish)
        .handler("alert", |_: Context| async { Ok::<_, Failure>("no answer") })
        .start()?;
    let flow = namespace.submit_flow(answer("why")?).await?;
    let result = flow.result(Duration::from_secs(30)).await?.expect("the flow ends");
    assert_eq!(result.state, FlowState::Completed);
    let publish = flow.execution("publish").expect("the node exists");
    assert_eq!(ended(&namespace, publish).await.json::<String>()?, "fast answers why");
    let thorough = flow.execution("thorough").expect("the node exists");
    assert_eq!(ended(&namespace, thorough).await.outcome, Outcome::Cancelled);

    let flow = namespace.submit_flow(answer("")?).await?;
    let result = flow.result(Duration::from_secs(30)).await?.expect("the flow ends");
    assert_eq!(result.of::<String>("alert")?, "no answer");
    worker.drain().await;
    engine.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn a_parent_joins_its_children() -> Result<(), Error> {
    let (engine, namespace) = engine().await;
    let worker = Worker::new(namespace.clone(), "summaries")
        .handler("summarise-all", summarise_all)
        .handler("summarise", |ctx: Context| async move { Ok::<_, Failure>(ctx.input::<String>()?.len()) })
        .start()?;
    let id =
        Submission::new("summarise-all").input(&["a", "bb", "ccc"])?.submit(&namespace).await?.execution.id;
    assert_eq!(ended(&namespace, id).await.json::<u64>()?, 6);
    worker.drain().await;
    engine.shutdown().await;
    Ok(())
}
