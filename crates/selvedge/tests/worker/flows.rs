//! Flows run by a worker: results of upstreams, races and hedges, spawned children, growth and cancellation.

use super::{TIMEOUT, engine, no_delay};
use selvedge::{
    CancelMode, Context, EdgeCondition, ExecutionId, Failure, Flow, FlowResult, FlowState, Join, Namespace,
    Nodes, Outcome, Submission, SubmittedFlow, Worker,
};
use serde_json::{Value, json};
use std::future::pending;
use std::time::Duration;
use tokio::sync::mpsc;

async fn submit(namespace: &Namespace, flow: Flow) -> SubmittedFlow {
    flow.submit(namespace).await.expect("the flow is accepted")
}

async fn result(flow: &SubmittedFlow) -> FlowResult {
    flow.result(TIMEOUT).await.expect("the result is read").expect("the flow ends in time")
}

async fn outcome(namespace: &Namespace, id: ExecutionId) -> Option<Outcome> {
    let view = namespace.get(id).await.expect("the execution is read");
    view.outcome
}

/// Adds its input to the results of its upstreams.
async fn add(ctx: Context) -> Result<i64, Failure> {
    let mut sum = ctx.input::<Option<i64>>()?.unwrap_or_default();
    for upstream in ctx.upstreams() {
        sum += ctx.upstream::<i64>(&upstream.name)?;
    }
    Ok(sum)
}

fn number(number: i64) -> Submission {
    Submission::new("add").input(&number).expect("valid JSON")
}

#[tokio::test]
async fn a_diamond_gives_each_node_the_results_of_its_upstreams() {
    let (engine, namespace) = engine().await;
    let worker = Worker::new(namespace.clone(), "w").lane("sums").handler("add", add).start();
    let worker = worker.expect("the worker starts");
    let diamond = Flow::new()
        .name("diamond")
        .defaults(|submission| submission.lane("sums"))
        .node("start", number(1))
        .node("left", number(10))
        .node("right", number(100))
        .node("end", "add")
        .edge("start", "left")
        .edge("start", "right")
        .after("end", ["left", "right"]);
    let flow = submit(&namespace, diamond).await;
    assert_eq!(flow.executions().keys().collect::<Vec<_>>(), ["end", "left", "right", "start"]);
    let ended = result(&flow).await;
    assert_eq!(
        (ended.state, ended.of::<i64>("end").expect("the result is a number")),
        (FlowState::Completed, 112)
    );
    let error = ended.of::<i64>("left").expect_err("the node has a downstream");
    assert!(error.to_string().contains("there are results of end"), "{error}");
    assert_eq!(worker.drain().await.completed, 4);
    engine.shutdown().await;
}

#[tokio::test]
async fn submitting_a_flow_again_returns_the_existing_flow() {
    let (engine, namespace) = engine().await;
    let flow = || Flow::new().idempotency_key("tonight").node("a", number(1)).node("b", "add").edge("a", "b");
    let first = submit(&namespace, flow()).await;
    let again = submit(&namespace, flow()).await;
    assert!(again.duplicate() && !first.duplicate());
    assert_eq!((again.id(), again.executions()), (first.id(), first.executions()));
    let refused = flow().node("c", "add").submit(&namespace).await.map(drop);
    assert!(refused.expect_err("the content differs").to_string().contains("/idempotency_key"));
    engine.shutdown().await;
}

/// Returns its input; if the input is null, never ends.
async fn run(ctx: Context) -> Result<Value, Failure> {
    match ctx.input()? {
        Value::Null => pending().await,
        value => Ok(value),
    }
}

#[tokio::test]
async fn the_first_runner_to_complete_wins_a_race_and_the_others_are_cancelled() {
    let (engine, namespace) = engine().await;
    let worker = Worker::new(namespace.clone(), "w")
        .handler("run", run)
        .handler("winner", |ctx: Context| async move { ctx.winner::<String>() })
        .start()
        .expect("the worker starts");
    let fast = || Submission::new("run").input("fast").expect("valid JSON");
    let runners = [Submission::new("run"), fast(), Submission::new("run").capability("wings")];
    let flow = submit(&namespace, Flow::race("winner", runners)).await;
    let ended = result(&flow).await;
    assert_eq!(ended.state, FlowState::Completed);
    assert_eq!(ended.of::<String>("winner").expect("the result is a string"), "fast");
    for loser in ["runner-1", "runner-3"] {
        let id = flow.execution(loser).expect("the flow has this node");
        assert_eq!(outcome(&namespace, id).await, Some(Outcome::Cancelled), "{loser}");
    }
    worker.drain().await;
    engine.shutdown().await;
}

#[tokio::test]
async fn a_hedge_starts_the_next_runner_only_when_the_first_takes_long() {
    let (engine, namespace) = engine().await;
    let worker = Worker::new(namespace.clone(), "w")
        .handler("run", run)
        .handler("winner", |ctx: Context| async move { ctx.winner::<String>() })
        .start()
        .expect("the worker starts");
    let fast = |word: &str| Submission::new("run").input(word).expect("valid JSON");
    let slow = || Submission::new("run");
    let after = Duration::from_millis(20);
    let flow = submit(&namespace, Flow::hedge("winner", after, [slow(), fast("second")])).await;
    assert_eq!(result(&flow).await.of::<String>("winner").expect("the result is a string"), "second");
    let hour = Duration::from_secs(3600);
    let flow = submit(&namespace, Flow::hedge("winner", hour, [fast("first"), fast("second")])).await;
    assert_eq!(result(&flow).await.of::<String>("winner").expect("the result is a string"), "first");
    let second = flow.execution("runner-2").expect("the flow has this node");
    let view = namespace.get(second).await.expect("the execution is read");
    assert_eq!(view.started_at, None);
    worker.drain().await;
    engine.shutdown().await;
}

#[tokio::test]
async fn a_failure_edge_runs_a_node_that_sees_the_error_of_its_upstream() {
    let (engine, namespace) = engine().await;
    let worker = Worker::new(namespace.clone(), "w")
        .handler("break", |_: Context| async { Err::<(), _>(Failure::permanent("out of paper")) })
        .handler("alert", |ctx: Context| async move {
            let no_result = ctx.upstream::<Value>("print").map_err(|failure| failure.to_string());
            let error = ctx.upstreams()[0].error.as_ref().map(|error| error.message.clone());
            Ok::<_, Failure>(json!([ctx.node(), ctx.upstream_outcome("print"), error, no_result]))
        })
        .handler("never", |_: Context| async { Ok::<_, Failure>(()) })
        .start()
        .expect("the worker starts");
    let flow = Flow::new()
        .node("print", "break")
        .node("bind", "never")
        .node("alert", "alert")
        .edge("print", "bind")
        .edge_when("print", "alert", EdgeCondition::Failure);
    let flow = submit(&namespace, flow).await;
    let ended = result(&flow).await;
    assert_eq!(ended.state, FlowState::Completed, "a handled failure does not fail the flow");
    let no_result = json!({"Err": "the upstream \"print\" has no result: it ended as failed"});
    let expected = json!(["alert", "failed", "out of paper", no_result]);
    assert_eq!(ended.of::<Value>("alert").expect("the result is a list"), expected);
    assert_eq!(ended.results["bind"].outcome, Outcome::Skipped);
    worker.drain().await;
    engine.shutdown().await;
}

#[tokio::test]
async fn spawning_the_same_children_again_changes_nothing() {
    let (engine, namespace) = engine().await;
    let worker = Worker::new(namespace.clone(), "w")
        .handler("split", |ctx: Context| async move {
            let children = || {
                let sum = Nodes::new().node("sum", "add").after("sum", ["one", "two"]);
                sum.node("one", number(1)).node("two", number(2))
            };
            ctx.spawn(children()).await?;
            if ctx.attempt() == 0 {
                return Err(Failure::transient("once more"));
            }
            ctx.spawn(children()).await?;
            Ok(ctx.children().len())
        })
        .handler("add", add)
        .start()
        .expect("the worker starts");
    let flow =
        submit(&namespace, Flow::new().node("split", Submission::new("split").backoff(no_delay()))).await;
    let ended = result(&flow).await;
    assert_eq!(ended.state, FlowState::Completed);
    assert_eq!(ended.of::<i64>("sum").expect("the result is a number"), 3);
    assert_eq!(
        ended.of::<usize>("split").expect("the result is a number"),
        3,
        "the second attempt sees the children"
    );
    worker.drain().await;
    engine.shutdown().await;
}

#[tokio::test]
async fn the_children_of_a_failed_parent_are_cancelled_unless_they_are_detached() {
    let (engine, namespace) = engine().await;
    let worker = Worker::new(namespace.clone(), "w")
        .handler("split", |ctx: Context| async move {
            ctx.spawn(Nodes::new().node("bound", Submission::new("add").lane("later"))).await?;
            ctx.spawn_detached(Nodes::new().node("free", Submission::new("add").lane("later"))).await?;
            Err::<(), _>(Failure::permanent("no"))
        })
        .start()
        .expect("the worker starts");
    let flow = submit(&namespace, Flow::new().node("split", "split")).await;
    let split = flow.execution("split").expect("the flow has this node");
    assert_eq!(super::wait_for_end(&namespace, split).await.0, Outcome::Failed);
    let later = Worker::new(namespace.clone(), "later").lane("later").handler("add", add).start();
    let later = later.expect("the worker starts");
    let ended = result(&flow).await;
    assert_eq!(ended.results["bound"].outcome, Outcome::Cancelled);
    assert_eq!(ended.results["free"].outcome, Outcome::Completed);
    assert_eq!(ended.state, FlowState::Failed);
    worker.drain().await;
    later.drain().await;
    engine.shutdown().await;
}

#[tokio::test]
async fn a_flow_grows_while_it_runs_and_can_be_cancelled() {
    let (engine, namespace) = engine().await;
    let (started, mut starts) = mpsc::unbounded_channel();
    let worker = Worker::new(namespace.clone(), "w")
        .handler("stay", move |_: Context| {
            let started = started.clone();
            async move {
                started.send(())?;
                pending::<()>().await;
                Ok::<_, Failure>(())
            }
        })
        .handler("add", add)
        .start()
        .expect("the worker starts");
    let mut flow = submit(&namespace, Flow::new().node("stay", "stay").node("a", number(1))).await;
    starts.recv().await.expect("the handler runs");
    let nodes = Nodes::new().node("b", number(2)).node("c", "add").after("c", ["a", "b"]);
    flow.grow(nodes.node("last", "add").edge("stay", "last").join("last", Join::any_of()))
        .await
        .expect("the flow grows");
    let c = flow.execution("c").expect("the flow has grown");
    assert_eq!(super::wait_for_end(&namespace, c).await, (Outcome::Completed, json!(3)));
    let cancelled = flow.cancel(CancelMode::All, TIMEOUT).await;
    assert!(cancelled.expect("the cancellation is accepted"));
    assert_eq!(result(&flow).await.state, FlowState::Cancelled);
    assert!(flow.grow(Nodes::new().node("late", "add")).await.is_err());
    worker.drain().await;
    engine.shutdown().await;
}

/// Returns the total length of the results of its upstreams, which are read one by one if the claim left them out.
async fn total(ctx: Context) -> Result<Value, Failure> {
    let mut bytes = 0;
    for upstream in ctx.upstreams() {
        bytes += ctx.fetch_upstream::<String>(&upstream.name).await?.len();
    }
    let left_out = ctx.upstreams().iter().filter(|upstream| upstream.left_out);
    let refused = left_out.clone().filter(|upstream| ctx.upstream::<String>(&upstream.name).is_err());
    Ok(json!({ "bytes": bytes, "left_out": left_out.count(), "refused": refused.count() }))
}

#[tokio::test]
async fn results_that_do_not_fit_into_the_claim_are_read_one_by_one() {
    const LARGE: usize = 1_000_000;
    let (engine, namespace) = engine().await;
    let worker = Worker::new(namespace.clone(), "w")
        .handler("large", |_: Context| async { Ok::<_, Failure>("x".repeat(LARGE)) })
        .handler("total", total)
        .start()
        .expect("the worker starts");
    let names: Vec<String> = (0..7).map(|number| format!("n{number}")).collect();
    let flow = names.iter().fold(Flow::new(), |flow, name| flow.node(name, "large"));
    let flow = submit(&namespace, flow.node("total", "total").after("total", &names)).await;
    let total = result(&flow).await.of::<Value>("total").expect("the result is an object");
    assert_eq!(total, json!({ "bytes": 7 * LARGE, "left_out": 3, "refused": 3 }));
    worker.drain().await;
    engine.shutdown().await;
}

over_http_too! {
    a_diamond_gives_each_node_the_results_of_its_upstreams,
    submitting_a_flow_again_returns_the_existing_flow,
    the_first_runner_to_complete_wins_a_race_and_the_others_are_cancelled,
    a_hedge_starts_the_next_runner_only_when_the_first_takes_long,
    a_failure_edge_runs_a_node_that_sees_the_error_of_its_upstream,
    spawning_the_same_children_again_changes_nothing,
    the_children_of_a_failed_parent_are_cancelled_unless_they_are_detached,
    a_flow_grows_while_it_runs_and_can_be_cancelled,
    results_that_do_not_fit_into_the_claim_are_read_one_by_one,
}
