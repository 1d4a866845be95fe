//! Waits: nothing is held meanwhile, and the handler goes on where it was.

use super::{LONG, Timed, ended, engine, happened, operate, send, state, submit, suspended};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use selvedge::core::state::StateName;
use selvedge::{
    Action, Context, Drained, Effect, Failure, Heard, Nodes, Outcome, ResumedBy, Signal, Submission,
    Timestamp, Until, Worker,
};
use serde_json::{Value, json};
use std::future::{Future, IntoFuture};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

fn worker<F, Fut>(timed: &Timed, handler: F) -> selvedge::Handle
where
    F: Fn(Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Value, Failure>> + Send + 'static,
{
    Worker::new(timed.namespace.clone(), "w").handler("k", handler).start().expect("the worker starts")
}

/// How the wait for a signal ended, in words.
fn told(heard: Heard) -> Value {
    match heard {
        Heard::Signal(signal) => json!([signal.name, signal.source, signal.waitpoint]),
        Heard::TimedOut => json!("timed out"),
        Heard::Operator => json!("operator"),
    }
}

#[tokio::test]
async fn a_sleep_holds_nothing_and_is_over_when_its_time_has_come() {
    let timed = Timed::new().await;
    let worker = worker(&timed, |ctx| async move {
        ctx.sleep("nap", HOUR).await?;
        Ok(json!(ctx.attempt()))
    });
    let id = submit(&timed.namespace, Submission::new("k")).await;
    suspended(&timed.namespace, id, 1).await;
    timed.pass(HOUR - Duration::from_millis(1)).await;
    assert_eq!(state(&timed.namespace, id).await, StateName::Suspended);
    timed.pass(Duration::from_millis(1)).await;
    assert_eq!(ended(&timed.namespace, id).await, (Outcome::Completed, json!(1)));
    let row = timed.namespace.get(id).await.expect("it is read").stored.execution;
    assert_eq!((row.detail.retries, row.detail.interruptions), (0, 0), "nothing is charged");
    let expected = Drained { completed: 1, suspended: 1, ..Drained::default() };
    assert_eq!(worker.drain().await, expected);
    timed.engine.shutdown().await;
}

#[tokio::test]
async fn a_sleep_until_a_time_that_has_passed_is_over_at_once() {
    let timed = Timed::new().await;
    let worker = worker(&timed, |ctx| async move {
        ctx.sleep_until("nap", Timestamp::from_millis(1)).await?;
        Ok(json!(ctx.attempt()))
    });
    let id = submit(&timed.namespace, Submission::new("k")).await;
    assert_eq!(ended(&timed.namespace, id).await, (Outcome::Completed, json!(1)));
    worker.drain().await;
    timed.engine.shutdown().await;
}

#[tokio::test]
async fn a_wait_takes_a_signal_that_came_before_it_and_one_that_comes_after() {
    let timed = Timed::new().await;
    let before = submit(&timed.namespace, Submission::new("k")).await;
    assert_eq!(send(&timed.namespace, before, "go").await.effect, Effect::Buffered);
    let worker = worker(&timed, |ctx| async move { Ok(told(ctx.wait_for_signal("wait", "go").await?)) });
    let expected = json!(["go", "program", null]);
    assert_eq!(ended(&timed.namespace, before).await, (Outcome::Completed, expected.clone()));
    let after = submit(&timed.namespace, Submission::new("k")).await;
    suspended(&timed.namespace, after, 1).await;
    assert_eq!(send(&timed.namespace, after, "other").await.effect, Effect::Buffered);
    assert_eq!(send(&timed.namespace, after, "go").await.effect, Effect::Resumed);
    assert_eq!(ended(&timed.namespace, after).await, (Outcome::Completed, expected));
    worker.drain().await;
    timed.engine.shutdown().await;
}

#[tokio::test]
async fn two_waits_for_the_same_signal_take_one_each() {
    let timed = Timed::new().await;
    let worker = worker(&timed, |ctx| async move {
        let first = ctx.wait_for_signal("first", "go").await?.signal();
        let second = ctx.wait_for_signal("second", "go").await?.signal();
        let payload =
            |signal: Option<selvedge::Received>| signal.map(|signal| signal.payload_json().to_owned());
        Ok(json!([payload(first), payload(second)]))
    });
    let id = submit(&timed.namespace, Submission::new("k")).await;
    suspended(&timed.namespace, id, 1).await;
    for number in 1..=2 {
        let go = Signal::new("go").payload(&number).expect("is JSON");
        go.send(&timed.namespace, id).await.expect("it is delivered");
        suspended(&timed.namespace, id, 2).await;
    }
    assert_eq!(ended(&timed.namespace, id).await, (Outcome::Completed, json!(["1", "2"])));
    worker.drain().await;
    timed.engine.shutdown().await;
}

#[tokio::test]
async fn a_wait_that_times_out_says_so_and_one_that_an_operator_ends_too() {
    let timed = Timed::new().await;
    let worker =
        worker(&timed, |ctx| async move { Ok(told(ctx.wait_for_signal("wait", "go").timeout(HOUR).await?)) });
    let late = submit(&timed.namespace, Submission::new("k")).await;
    suspended(&timed.namespace, late, 1).await;
    timed.pass(HOUR).await;
    assert_eq!(ended(&timed.namespace, late).await, (Outcome::Completed, json!("timed out")));
    let let_through = submit(&timed.namespace, Submission::new("k")).await;
    suspended(&timed.namespace, let_through, 1).await;
    operate(&timed.namespace, let_through, Action::Resume).await;
    assert_eq!(ended(&timed.namespace, let_through).await, (Outcome::Completed, json!("operator")));
    worker.drain().await;
    timed.engine.shutdown().await;
}

#[tokio::test]
async fn a_general_wait_gives_the_signals_by_which_it_holds() {
    let timed = Timed::new().await;
    let worker = worker(&timed, |ctx| async move {
        let two_people = Until::sources(2, ["yes"]);
        let until = Until::any([two_people, Until::all([Until::signal("a"), Until::signal("b")])]);
        let waited = ctx.wait("wait", until).timeout(HOUR).await?;
        assert_eq!(waited.resumed_by, ResumedBy::Condition);
        let told = waited.signals.into_iter().map(|signal| (signal.name, signal.source));
        Ok(json!(told.collect::<Vec<_>>()))
    });
    let id = submit(&timed.namespace, Submission::new("k")).await;
    suspended(&timed.namespace, id, 1).await;
    let said =
        [("yes", "ann", Effect::Counted), ("yes", "ann", Effect::Buffered), ("b", "ann", Effect::Counted)];
    for (name, source, effect) in said {
        let said = Signal::new(name).source(source).send(&timed.namespace, id).await;
        assert_eq!(said.expect("it is delivered").effect, effect);
    }
    let last = Signal::new("yes").source("bob").send(&timed.namespace, id).await;
    assert_eq!(last.expect("it is delivered").effect, Effect::Resumed);
    let expected = json!([["yes", "ann"], ["yes", "bob"]]);
    assert_eq!(ended(&timed.namespace, id).await, (Outcome::Completed, expected));
    worker.drain().await;
    timed.engine.shutdown().await;
}

/// Two waits at once, of which the second is a sleep of an hour and a half.
async fn both(ctx: Context) -> Result<Value, Failure> {
    let waits = (ctx.wait_for_signal("signal", "go").into_future(), ctx.sleep("nap", HOUR + HOUR / 2));
    let (heard, ()) = tokio::try_join!(waits.0, waits.1)?;
    Ok(json!([told(heard), ctx.attempt()]))
}

#[tokio::test]
async fn a_wait_that_is_suspended_again_counts_from_its_first_start() {
    let timed = Timed::new().await;
    let worker = worker(&timed, both);
    let id = submit(&timed.namespace, Submission::new("k")).await;
    suspended(&timed.namespace, id, 1).await;
    timed.pass(HOUR).await;
    assert_eq!(send(&timed.namespace, id, "go").await.effect, Effect::Resumed);
    suspended(&timed.namespace, id, 2).await;
    timed.pass(HOUR / 2 - MINUTE).await;
    assert_eq!(state(&timed.namespace, id).await, StateName::Suspended);
    timed.pass(MINUTE).await;
    let expected = json!([["go", "program", null], 2]);
    assert_eq!(ended(&timed.namespace, id).await, (Outcome::Completed, expected));
    worker.drain().await;
    timed.engine.shutdown().await;
}

#[tokio::test]
async fn two_waits_at_once_may_end_in_the_other_order_or_together() {
    let timed = Timed::new().await;
    let worker = worker(&timed, both);
    let id = submit(&timed.namespace, Submission::new("k")).await;
    suspended(&timed.namespace, id, 1).await;
    timed.pass(2 * HOUR).await;
    suspended(&timed.namespace, id, 2).await;
    assert_eq!(send(&timed.namespace, id, "go").await.effect, Effect::Resumed);
    let expected = json!([["go", "program", null], 2]);
    assert_eq!(ended(&timed.namespace, id).await, (Outcome::Completed, expected));
    let together = submit(&timed.namespace, Submission::new("k")).await;
    suspended(&timed.namespace, together, 1).await;
    operate(&timed.namespace, together, Action::Resume).await;
    assert_eq!(ended(&timed.namespace, together).await, (Outcome::Completed, json!(["operator", 1])));
    worker.drain().await;
    timed.engine.shutdown().await;
}

#[tokio::test]
async fn of_a_select_the_wait_that_lost_is_not_waited_for_any_more() {
    let timed = Timed::new().await;
    let worker = worker(&timed, |ctx| async move {
        tokio::select! {
            heard = ctx.wait_for_signal("signal", "go") => drop(heard?),
            slept = ctx.sleep("nap", HOUR) => slept?,
        }
        ctx.wait_for_signal("second", "more").await?;
        Ok(json!(ctx.attempt()))
    });
    let id = submit(&timed.namespace, Submission::new("k")).await;
    suspended(&timed.namespace, id, 1).await;
    send(&timed.namespace, id, "go").await;
    suspended(&timed.namespace, id, 2).await;
    timed.pass(HOUR).await;
    assert_eq!(state(&timed.namespace, id).await, StateName::Suspended, "the nap is over and wakes nobody");
    send(&timed.namespace, id, "more").await;
    assert_eq!(ended(&timed.namespace, id).await, (Outcome::Completed, json!(2)));
    worker.drain().await;
    timed.engine.shutdown().await;
}

/// How a handler does two things at once.
#[derive(Clone, Copy, Debug)]
enum Beside {
    Join,
    Unordered,
    Task,
}

/// A step runs while something else is waited for: it is done once, and the attempt is not suspended before.
async fn is_not_cut_off(beside: Beside) {
    let timed = Timed::new().await;
    let (gate, done) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicU32::new(0)));
    let (started, mut starts) = mpsc::unbounded_channel();
    let worker = worker(&timed, {
        let (gate, done) = (gate.clone(), done.clone());
        move |ctx| {
            let (gate, done, started) = (gate.clone(), done.clone(), started.clone());
            async move {
                let waiting = ctx.clone();
                let wait = async move { waiting.wait_for_signal("wait", "go").await.map(drop) };
                let stepping = ctx.clone();
                let step = async move {
                    let step = stepping.step("slow", || async {
                        started.send(())?;
                        gate.acquire().await?.forget();
                        done.fetch_add(1, Ordering::SeqCst);
                        Ok(())
                    });
                    step.await
                };
                match beside {
                    Beside::Join => drop(tokio::try_join!(wait, step)?),
                    Beside::Unordered => {
                        let mut both = FuturesUnordered::new();
                        both.push(Box::pin(wait) as std::pin::Pin<Box<dyn Future<Output = _> + Send>>);
                        both.push(Box::pin(step));
                        while let Some(ended) = both.next().await {
                            ended?;
                        }
                    }
                    Beside::Task => {
                        let step = tokio::spawn(step);
                        wait.await?;
                        step.await??;
                    }
                }
                Ok(json!(ctx.attempt()))
            }
        }
    });
    let id = submit(&timed.namespace, Submission::new("k")).await;
    timeout(LONG, starts.recv()).await.expect("in time").expect("the step runs");
    if !matches!(beside, Beside::Task) {
        assert_eq!(state(&timed.namespace, id).await, StateName::Active, "{beside:?}");
        assert_eq!(send(&timed.namespace, id, "go").await.effect, Effect::Buffered, "{beside:?}");
        gate.add_permits(1);
    } else {
        gate.add_permits(1);
        suspended(&timed.namespace, id, 1).await;
        send(&timed.namespace, id, "go").await;
    }
    assert_eq!(ended(&timed.namespace, id).await, (Outcome::Completed, json!(1)), "{beside:?}");
    assert_eq!(done.load(Ordering::SeqCst), 1, "{beside:?}");
    assert!(starts.try_recv().is_err(), "{beside:?}: it is begun once");
    worker.drain().await;
    timed.engine.shutdown().await;
}

#[tokio::test]
async fn a_step_that_runs_while_something_is_waited_for_is_not_cut_off() {
    is_not_cut_off(Beside::Join).await;
    is_not_cut_off(Beside::Unordered).await;
    is_not_cut_off(Beside::Task).await;
}

#[tokio::test]
async fn a_parent_waits_for_its_children_and_sees_how_they_ended() {
    let (engine, namespace) = engine().await;
    let worker = Worker::new(namespace.clone(), "w")
        .handler("parent", |ctx: Context| async move {
            let fails = Submission::new("child").input(&0)?.max_retries(0);
            let children = Nodes::new().node("good", Submission::new("child").input(&5)?).node("bad", fails);
            ctx.spawn(children).await?;
            let detached = Nodes::new().node("free", Submission::new("child").lane("nobody's"));
            ctx.spawn_detached(detached).await?;
            let ended = ctx.join("children").await?;
            let outcomes: Vec<_> =
                ended.iter().map(|child| (child.name.to_string(), child.outcome)).collect();
            Ok::<_, Failure>(json!([outcomes, ctx.child::<u32>("good")?, ctx.attempt()]))
        })
        .handler("child", |ctx: Context| async move {
            let number: u32 = ctx.input()?;
            100_u32.checked_div(number).ok_or_else(|| Failure::permanent("division by nothing"))
        })
        .start()
        .expect("the worker starts");
    let id = submit(&namespace, Submission::new("parent")).await;
    let expected = json!([[["good", "completed"], ["bad", "failed"], ["free", null]], 20, 1]);
    assert_eq!(ended(&namespace, id).await, (Outcome::Completed, expected));
    happened(&namespace, id, "execution.suspended", 1).await;
    worker.drain().await;
    engine.shutdown().await;
}

#[tokio::test]
async fn a_waitpoint_is_the_same_in_every_attempt_also_after_its_delivery() {
    let timed = Timed::new().await;
    let (seen, mut sees) = mpsc::unbounded_channel();
    let worker = worker(&timed, move |ctx| {
        let seen = seen.clone();
        async move {
            let waitpoint = ctx.waitpoint("letter").source("ann").expires_after(HOUR).await?;
            assert!(!format!("{waitpoint:?}").contains(&waitpoint.token), "a token is not shown by accident");
            seen.send(waitpoint)?;
            let heard = ctx.wait_for_signal("answer", "letter").await?;
            ctx.sleep("nap", MINUTE).await?;
            Ok(told(heard))
        }
    });
    let id = submit(&timed.namespace, Submission::new("k")).await;
    suspended(&timed.namespace, id, 1).await;
    let first = sees.recv().await.expect("it was made");
    let yes = || Signal::for_waitpoint().payload(&1).expect("is JSON");
    let delivered = yes().deliver(&timed.engine, first.id, &first.token).await.expect("it is accepted");
    assert_eq!((delivered.effect, delivered.duplicate), (Effect::Resumed, false));
    suspended(&timed.namespace, id, 2).await;
    timed.pass(MINUTE).await;
    assert_eq!(ended(&timed.namespace, id).await, (Outcome::Completed, json!(["letter", "ann", "letter"])));
    assert_eq!((sees.recv().await, sees.recv().await), (Some(first.clone()), Some(first.clone())));
    let made = timed.namespace.waitpoints(id, 0, 10).await.expect("they are listed");
    assert_eq!(made.len(), 1);
    let again = yes().deliver(&timed.engine, first.id, &first.token).await.expect("it gets the same answer");
    assert!(again.duplicate);
    let forged = yes().deliver(&timed.engine, first.id, "forged").await.expect_err("it is refused");
    assert!(forged.to_string().contains("token"), "{forged}");
    worker.drain().await;
    timed.engine.shutdown().await;
}

#[tokio::test]
async fn an_execution_that_waits_can_be_cancelled() {
    let timed = Timed::new().await;
    let worker = worker(&timed, |ctx| async move {
        ctx.sleep("nap", HOUR).await?;
        Ok(json!("slept"))
    });
    let id = submit(&timed.namespace, Submission::new("k")).await;
    suspended(&timed.namespace, id, 1).await;
    operate(&timed.namespace, id, Action::Cancel { reason: None, grace_ms: 0 }).await;
    assert_eq!(ended(&timed.namespace, id).await.0, Outcome::Cancelled);
    assert_eq!(worker.drain().await.suspended, 1);
    timed.engine.shutdown().await;
}
