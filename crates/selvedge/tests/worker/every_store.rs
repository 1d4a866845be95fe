//! A handler with every durable operation, on each store.

use super::place::{Place, Postgres, Sqlite};
use super::{TIMEOUT, block_on, submit, wait_for_end};
use selvedge::{Context, Engine, Failure, Nodes, Outcome, Signal, Submission, Until, Waitpoint, Worker};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;

const SOON: Duration = Duration::from_millis(5);

/// Uses every durable operation.
async fn everything(ctx: Context, mail: mpsc::UnboundedSender<Waitpoint>) -> Result<Value, Failure> {
    let attempt: u32 = ctx.step("one", || async { Ok(ctx.attempt()) }).await?;
    ctx.sleep("nap", SOON).await?;
    let waitpoint = ctx.waitpoint("letter").source("ann").await?;
    ctx.step("mail", || async { Ok(mail.send(waitpoint)?) }).await?;
    let until = Until::all([Until::waitpoints(1, ["letter"]), Until::signal("go")]);
    let wait = ctx.wait("answers", until).timeout(TIMEOUT).await?;
    let sources: Vec<String> = wait.signals.into_iter().map(|signal| signal.source).collect();
    ctx.spawn(Nodes::new().node("child", Submission::new("child").input(&6)?)).await?;
    ctx.join("child").await?;
    let first = ctx
        .race("first")
        .branch("late", |ctx| async move {
            ctx.wait_for_signal("wait", "never").await?;
            Ok("late")
        })
        .branch("soon", |ctx| async move {
            ctx.sleep("nap", SOON).await?;
            Ok("soon")
        })
        .await?;
    let mut naps = ctx.all("naps");
    for number in 0_u32..3 {
        naps = naps.branch(number.to_string(), move |ctx| async move {
            ctx.sleep("nap", SOON * number).await?;
            ctx.step("wake", || async { Ok(number) }).await
        });
    }
    Ok(json!([attempt, sources, ctx.child::<u32>("child")?, first, naps.await?]))
}

async fn every_durable_operation_works(address: &str) {
    let engine = Engine::open(address).await.expect("the engine starts");
    let namespace = engine.namespace("default").await.expect("the namespace opens");
    let (mail, mut inbox) = mpsc::unbounded_channel();
    let worker = Worker::new(namespace.clone(), "w")
        .handler("everything", move |ctx: Context| everything(ctx, mail.clone()))
        .handler("child", |ctx: Context| async move { Ok::<_, Failure>(7 * ctx.input::<u32>()?) })
        .start()
        .expect("the worker starts");
    let id = submit(&namespace, Submission::new("everything")).await;
    let waitpoint = timeout(TIMEOUT, inbox.recv()).await.expect("in time").expect("the waitpoint is mailed");
    let go = Signal::new("go").source("bob").send(&namespace, id).await;
    assert!(!go.expect("the signal is delivered").duplicate);
    let answer = Signal::for_waitpoint().deliver(&namespace, waitpoint.id, &waitpoint.token).await;
    answer.expect("the delivery is accepted");
    let expected = json!([0, ["bob", "ann"], 42, "soon", [0, 1, 2]]);
    assert_eq!(wait_for_end(&namespace, id).await, (Outcome::Completed, expected));
    let summary = worker.drain().await;
    assert_eq!((summary.completed, summary.failed, summary.aborted), (2, 0, 0));
    assert!(summary.suspended >= 5, "{summary:?}");
    engine.shutdown().await;
}

#[test]
fn every_durable_operation_works_in_memory() {
    block_on(every_durable_operation_works("memory:"));
}

#[test]
fn every_durable_operation_works_on_sqlite() {
    let place = Sqlite::new();
    block_on(every_durable_operation_works(&place.store()));
}

#[test]
fn every_durable_operation_works_on_postgres() {
    let place = Postgres::new();
    block_on(every_durable_operation_works(&place.store()));
}
