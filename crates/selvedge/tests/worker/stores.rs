//! One handler that does everything durably, on each store.

use super::place::{Place, Postgres, Sqlite};
use super::{LONG, ended, submit};
use selvedge::{Context, Engine, Failure, Nodes, Outcome, Signal, Submission, Until, Waitpoint, Worker};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;

const SOON: Duration = Duration::from_millis(5);

async fn story(ctx: Context, mail: mpsc::UnboundedSender<Waitpoint>) -> Result<Value, Failure> {
    let attempt: u32 = ctx.step("one", || async { Ok(ctx.attempt()) }).await?;
    ctx.sleep("nap", SOON).await?;
    let letter = ctx.waitpoint("letter").source("ann").await?;
    ctx.step("mail", || async { Ok(mail.send(letter)?) }).await?;
    let until = Until::all([Until::waitpoints(1, ["letter"]), Until::signal("go")]);
    let waited = ctx.wait("answers", until).timeout(LONG).await?;
    let sources: Vec<String> = waited.signals.into_iter().map(|signal| signal.source).collect();
    ctx.spawn(Nodes::new().node("child", Submission::new("child").input(&6)?)).await?;
    ctx.join("child").await?;
    let first = ctx
        .race("first")
        .branch("late", |ctx| async move {
            ctx.wait_for_signal("word", "never").await?;
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

async fn everything_is_durable(address: &str) {
    let engine = Engine::open(address).await.expect("the engine starts");
    let namespace = engine.namespace("default").await.expect("the namespace is there");
    let (mail, mut letters) = mpsc::unbounded_channel();
    let worker = Worker::new(namespace.clone(), "w")
        .handler("story", move |ctx: Context| story(ctx, mail.clone()))
        .handler("child", |ctx: Context| async move { Ok::<_, Failure>(7 * ctx.input::<u32>()?) })
        .start()
        .expect("the worker starts");
    let id = submit(&namespace, Submission::new("story")).await;
    let letter = timeout(LONG, letters.recv()).await.expect("in time").expect("a letter is sent");
    let go = Signal::new("go").source("bob").send(&namespace, id).await;
    assert!(!go.expect("it is delivered").duplicate);
    let answer = Signal::for_waitpoint().deliver(&engine, letter.id, &letter.token).await;
    assert_eq!(answer.expect("it is accepted").source.as_str(), "ann");
    let expected = json!([0, ["bob", "ann"], 42, "soon", [0, 1, 2]]);
    assert_eq!(ended(&namespace, id).await, (Outcome::Completed, expected));
    let drained = worker.drain().await;
    assert_eq!((drained.completed, drained.failed, drained.aborted), (2, 0, 0));
    assert!(drained.suspended >= 5, "{drained:?}");
    engine.shutdown().await;
}

fn block_on(future: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.expect("the runtime starts").block_on(future);
}

#[test]
fn a_handler_may_do_everything_durably_in_memory() {
    block_on(everything_is_durable("memory:"));
}

#[test]
fn a_handler_may_do_everything_durably_on_sqlite() {
    let place = Sqlite::new();
    block_on(everything_is_durable(&place.store()));
}

#[test]
fn a_handler_may_do_everything_durably_on_postgres() {
    let place = Postgres::new();
    block_on(everything_is_durable(&place.store()));
}
