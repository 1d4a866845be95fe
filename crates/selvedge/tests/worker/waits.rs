//! Waits: the attempt is suspended meanwhile, and a later attempt continues after the wait.

use super::{
    ManualClockEnv, TIMEOUT, engine, engine_namespace, send_signal, state_of, submit, wait_for_end,
    wait_for_events, wait_for_suspensions,
};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use selvedge::State;
use selvedge::{
    Context, Effect, Failure, Nodes, Outcome, ResumedBy, Signal, SignalWaitResult, Submission, Timestamp,
    Until, Worker, WorkerSummary,
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

fn start_worker<F, Fut>(env: &ManualClockEnv, handler: F) -> selvedge::Handle
where
    F: Fn(Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Value, Failure>> + Send + 'static,
{
    Worker::new(env.namespace.clone(), "w").handler("k", handler).start().expect("the worker starts")
}

/// Describes the result of a wait for a signal.
fn describe(result: SignalWaitResult) -> Value {
    match result {
        SignalWaitResult::Signal(signal) => json!([signal.name, signal.source, signal.waitpoint]),
        SignalWaitResult::TimedOut => json!("env out"),
        SignalWaitResult::Operator => json!("operator"),
    }
}

#[tokio::test]
async fn a_sleep_suspends_the_attempt_until_its_time_has_passed() {
    let env = ManualClockEnv::new().await;
    let worker = start_worker(&env, |ctx| async move {
        ctx.sleep("nap", HOUR).await?;
        Ok(json!(ctx.attempt()))
    });
    let id = submit(&env.namespace, Submission::new("k")).await;
    wait_for_suspensions(&env.namespace, id, 1).await;
    env.advance(HOUR - Duration::from_millis(1)).await;
    assert_eq!(state_of(&env.namespace, id).await, State::Suspended);
    env.advance(Duration::from_millis(1)).await;
    assert_eq!(wait_for_end(&env.namespace, id).await, (Outcome::Completed, json!(1)));
    let row = env.namespace.get(id).await.expect("the execution is read");
    assert_eq!((row.retries, row.interruptions), (0, 0), "nothing is charged");
    let expected = WorkerSummary { completed: 1, suspended: 1, ..WorkerSummary::default() };
    assert_eq!(worker.drain().await, expected);
    env.engine.shutdown().await;
}

#[tokio::test]
async fn a_sleep_until_a_past_time_ends_at_once() {
    let env = ManualClockEnv::new().await;
    let worker = start_worker(&env, |ctx| async move {
        ctx.sleep_until("nap", Timestamp::from_millis(1)).await?;
        Ok(json!(ctx.attempt()))
    });
    let id = submit(&env.namespace, Submission::new("k")).await;
    assert_eq!(wait_for_end(&env.namespace, id).await, (Outcome::Completed, json!(1)));
    worker.drain().await;
    env.engine.shutdown().await;
}

#[tokio::test]
async fn a_wait_consumes_a_signal_that_arrives_before_or_after_it_begins() {
    let env = ManualClockEnv::new().await;
    let before = submit(&env.namespace, Submission::new("k")).await;
    assert_eq!(send_signal(&env.namespace, before, "go").await.effect, Effect::Buffered);
    let worker =
        start_worker(&env, |ctx| async move { Ok(describe(ctx.wait_for_signal("wait", "go").await?)) });
    let expected = json!(["go", "program", null]);
    assert_eq!(wait_for_end(&env.namespace, before).await, (Outcome::Completed, expected.clone()));
    let after = submit(&env.namespace, Submission::new("k")).await;
    wait_for_suspensions(&env.namespace, after, 1).await;
    assert_eq!(send_signal(&env.namespace, after, "other").await.effect, Effect::Buffered);
    assert_eq!(send_signal(&env.namespace, after, "go").await.effect, Effect::Resumed);
    assert_eq!(wait_for_end(&env.namespace, after).await, (Outcome::Completed, expected));
    worker.drain().await;
    env.engine.shutdown().await;
}

#[tokio::test]
async fn two_waits_for_the_same_signal_consume_one_each() {
    let env = ManualClockEnv::new().await;
    let worker = start_worker(&env, |ctx| async move {
        let first = ctx.wait_for_signal("first", "go").await?.signal();
        let second = ctx.wait_for_signal("second", "go").await?.signal();
        let payload =
            |signal: Option<selvedge::ReceivedSignal>| signal.map(|signal| signal.payload_json().to_owned());
        Ok(json!([payload(first), payload(second)]))
    });
    let id = submit(&env.namespace, Submission::new("k")).await;
    wait_for_suspensions(&env.namespace, id, 1).await;
    for number in 1..=2 {
        let go = Signal::new("go").payload(&number).expect("valid JSON");
        go.send(&env.namespace, id).await.expect("the signal is delivered");
        wait_for_suspensions(&env.namespace, id, 2).await;
    }
    assert_eq!(wait_for_end(&env.namespace, id).await, (Outcome::Completed, json!(["1", "2"])));
    worker.drain().await;
    env.engine.shutdown().await;
}

#[tokio::test]
async fn the_result_of_a_wait_shows_a_timeout_or_an_operators_resume() {
    let env = ManualClockEnv::new().await;
    let worker = start_worker(&env, |ctx| async move {
        Ok(describe(ctx.wait_for_signal("wait", "go").timeout(HOUR).await?))
    });
    let late = submit(&env.namespace, Submission::new("k")).await;
    wait_for_suspensions(&env.namespace, late, 1).await;
    env.advance(HOUR).await;
    assert_eq!(wait_for_end(&env.namespace, late).await, (Outcome::Completed, json!("env out")));
    let resumed = submit(&env.namespace, Submission::new("k")).await;
    wait_for_suspensions(&env.namespace, resumed, 1).await;
    env.namespace.resume(resumed).await.expect("the execution is resumed");
    assert_eq!(wait_for_end(&env.namespace, resumed).await, (Outcome::Completed, json!("operator")));
    worker.drain().await;
    env.engine.shutdown().await;
}

#[tokio::test]
async fn a_wait_returns_the_signals_that_satisfied_its_condition() {
    let env = ManualClockEnv::new().await;
    let worker = start_worker(&env, |ctx| async move {
        let two_people = Until::sources(2, ["yes"]);
        let until = Until::any([two_people, Until::all([Until::signal("a"), Until::signal("b")])]);
        let result = ctx.wait("wait", until).timeout(HOUR).await?;
        assert_eq!(result.resumed_by, ResumedBy::Condition);
        let signals = result.signals.into_iter().map(|signal| (signal.name, signal.source));
        Ok(json!(signals.collect::<Vec<_>>()))
    });
    let id = submit(&env.namespace, Submission::new("k")).await;
    wait_for_suspensions(&env.namespace, id, 1).await;
    let signals =
        [("yes", "ann", Effect::Counted), ("yes", "ann", Effect::Buffered), ("b", "ann", Effect::Counted)];
    for (name, source, effect) in signals {
        let delivered = Signal::new(name).source(source).send(&env.namespace, id).await;
        assert_eq!(delivered.expect("the signal is delivered").effect, effect);
    }
    let last = Signal::new("yes").source("bob").send(&env.namespace, id).await;
    assert_eq!(last.expect("the signal is delivered").effect, Effect::Resumed);
    let expected = json!([["yes", "ann"], ["yes", "bob"]]);
    assert_eq!(wait_for_end(&env.namespace, id).await, (Outcome::Completed, expected));
    worker.drain().await;
    env.engine.shutdown().await;
}

/// Waits for a signal and an hour and a half concurrently.
async fn signal_and_sleep(ctx: Context) -> Result<Value, Failure> {
    let waits = (ctx.wait_for_signal("signal", "go").into_future(), ctx.sleep("nap", HOUR + HOUR / 2));
    let (signal, ()) = tokio::try_join!(waits.0, waits.1)?;
    Ok(json!([describe(signal), ctx.attempt()]))
}

#[tokio::test]
async fn the_time_of_a_wait_counts_from_its_first_attempt() {
    let env = ManualClockEnv::new().await;
    let worker = start_worker(&env, signal_and_sleep);
    let id = submit(&env.namespace, Submission::new("k")).await;
    wait_for_suspensions(&env.namespace, id, 1).await;
    env.advance(HOUR).await;
    assert_eq!(send_signal(&env.namespace, id, "go").await.effect, Effect::Resumed);
    wait_for_suspensions(&env.namespace, id, 2).await;
    env.advance(HOUR / 2 - MINUTE).await;
    assert_eq!(state_of(&env.namespace, id).await, State::Suspended);
    env.advance(MINUTE).await;
    let expected = json!([["go", "program", null], 2]);
    assert_eq!(wait_for_end(&env.namespace, id).await, (Outcome::Completed, expected));
    worker.drain().await;
    env.engine.shutdown().await;
}

#[tokio::test]
async fn concurrent_waits_may_end_in_any_order_or_together() {
    let env = ManualClockEnv::new().await;
    let worker = start_worker(&env, signal_and_sleep);
    let id = submit(&env.namespace, Submission::new("k")).await;
    wait_for_suspensions(&env.namespace, id, 1).await;
    env.advance(2 * HOUR).await;
    wait_for_suspensions(&env.namespace, id, 2).await;
    assert_eq!(send_signal(&env.namespace, id, "go").await.effect, Effect::Resumed);
    let expected = json!([["go", "program", null], 2]);
    assert_eq!(wait_for_end(&env.namespace, id).await, (Outcome::Completed, expected));
    let together = submit(&env.namespace, Submission::new("k")).await;
    wait_for_suspensions(&env.namespace, together, 1).await;
    env.namespace.resume(together).await.expect("the execution is resumed");
    assert_eq!(wait_for_end(&env.namespace, together).await, (Outcome::Completed, json!(["operator", 1])));
    worker.drain().await;
    env.engine.shutdown().await;
}

#[tokio::test]
async fn the_wait_that_loses_a_select_is_no_longer_open() {
    let env = ManualClockEnv::new().await;
    let worker = start_worker(&env, |ctx| async move {
        tokio::select! {
            signal = ctx.wait_for_signal("signal", "go") => drop(signal?),
            slept = ctx.sleep("nap", HOUR) => slept?,
        }
        ctx.wait_for_signal("second", "more").await?;
        Ok(json!(ctx.attempt()))
    });
    let id = submit(&env.namespace, Submission::new("k")).await;
    wait_for_suspensions(&env.namespace, id, 1).await;
    send_signal(&env.namespace, id, "go").await;
    wait_for_suspensions(&env.namespace, id, 2).await;
    env.advance(HOUR).await;
    assert_eq!(state_of(&env.namespace, id).await, State::Suspended, "the end of the nap resumes nothing");
    send_signal(&env.namespace, id, "more").await;
    assert_eq!(wait_for_end(&env.namespace, id).await, (Outcome::Completed, json!(2)));
    worker.drain().await;
    env.engine.shutdown().await;
}

/// The ways in which a handler runs two futures concurrently.
#[derive(Clone, Copy, Debug)]
enum Concurrency {
    Join,
    Unordered,
    Task,
}

/// Runs a step concurrently with a wait, and asserts that the step runs once and to its end before the attempt is
/// suspended.
async fn step_is_not_interrupted(concurrency: Concurrency) {
    let env = ManualClockEnv::new().await;
    let (gate, done) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicU32::new(0)));
    let (started, mut starts) = mpsc::unbounded_channel();
    let worker = start_worker(&env, {
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
                match concurrency {
                    Concurrency::Join => drop(tokio::try_join!(wait, step)?),
                    Concurrency::Unordered => {
                        let mut both = FuturesUnordered::new();
                        both.push(Box::pin(wait) as std::pin::Pin<Box<dyn Future<Output = _> + Send>>);
                        both.push(Box::pin(step));
                        while let Some(ended) = both.next().await {
                            ended?;
                        }
                    }
                    Concurrency::Task => {
                        let step = tokio::spawn(step);
                        wait.await?;
                        step.await??;
                    }
                }
                Ok(json!(ctx.attempt()))
            }
        }
    });
    let id = submit(&env.namespace, Submission::new("k")).await;
    timeout(TIMEOUT, starts.recv()).await.expect("in time").expect("the step runs");
    if !matches!(concurrency, Concurrency::Task) {
        assert_eq!(state_of(&env.namespace, id).await, State::Active, "{concurrency:?}");
        assert_eq!(send_signal(&env.namespace, id, "go").await.effect, Effect::Buffered, "{concurrency:?}");
        gate.add_permits(1);
    } else {
        gate.add_permits(1);
        wait_for_suspensions(&env.namespace, id, 1).await;
        send_signal(&env.namespace, id, "go").await;
    }
    assert_eq!(wait_for_end(&env.namespace, id).await, (Outcome::Completed, json!(1)), "{concurrency:?}");
    assert_eq!(done.load(Ordering::SeqCst), 1, "{concurrency:?}");
    assert!(starts.try_recv().is_err(), "{concurrency:?}: the step begins once");
    worker.drain().await;
    env.engine.shutdown().await;
}

#[tokio::test]
async fn a_suspension_does_not_interrupt_a_running_step() {
    step_is_not_interrupted(Concurrency::Join).await;
    step_is_not_interrupted(Concurrency::Unordered).await;
    step_is_not_interrupted(Concurrency::Task).await;
}

#[tokio::test]
async fn a_parent_waits_for_its_children_and_sees_their_outcomes() {
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
    assert_eq!(wait_for_end(&namespace, id).await, (Outcome::Completed, expected));
    wait_for_events(&namespace, id, "execution.suspended", 1).await;
    worker.drain().await;
    engine.shutdown().await;
}

#[tokio::test]
async fn a_waitpoint_is_the_same_in_every_attempt_even_after_its_delivery() {
    let env = ManualClockEnv::new().await;
    let (created, mut waitpoints) = mpsc::unbounded_channel();
    let worker = start_worker(&env, move |ctx| {
        let created = created.clone();
        async move {
            let waitpoint = ctx.waitpoint("letter").source("ann").expires_after(HOUR).await?;
            // Over HTTP the token of a used waitpoint is empty.
            let shown = format!("{waitpoint:?}");
            assert!(waitpoint.token.is_empty() || !shown.contains(&waitpoint.token), "Debug omits the token");
            created.send(waitpoint)?;
            let answer = ctx.wait_for_signal("answer", "letter").await?;
            ctx.sleep("nap", MINUTE).await?;
            Ok(describe(answer))
        }
    });
    let id = submit(&env.namespace, Submission::new("k")).await;
    wait_for_suspensions(&env.namespace, id, 1).await;
    let first = waitpoints.recv().await.expect("the waitpoint is created");
    let yes = || Signal::for_waitpoint().payload(&1).expect("valid JSON");
    let delivered =
        yes().deliver(&env.namespace, first.id, &first.token).await.expect("the delivery is accepted");
    assert_eq!((delivered.effect, delivered.duplicate), (Effect::Resumed, false));
    wait_for_suspensions(&env.namespace, id, 2).await;
    env.advance(MINUTE).await;
    assert_eq!(
        wait_for_end(&env.namespace, id).await,
        (Outcome::Completed, json!(["letter", "ann", "letter"]))
    );
    for later in [waitpoints.recv().await, waitpoints.recv().await] {
        assert_eq!(later.expect("each attempt has the waitpoint").id, first.id);
    }
    let stored =
        engine_namespace(&env.engine).await.waitpoints(id, 0, 10).await.expect("the waitpoints are listed");
    assert_eq!(stored.len(), 1);
    let again =
        yes().deliver(&env.namespace, first.id, &first.token).await.expect("the delivery is repeated");
    assert!(again.duplicate);
    let forged = yes().deliver(&env.namespace, first.id, "forged").await.expect_err("the token is refused");
    assert!(forged.to_string().contains("token"), "{forged}");
    worker.drain().await;
    env.engine.shutdown().await;
}

#[tokio::test]
async fn a_suspended_execution_can_be_cancelled() {
    let env = ManualClockEnv::new().await;
    let worker = start_worker(&env, |ctx| async move {
        ctx.sleep("nap", HOUR).await?;
        Ok(json!("slept"))
    });
    let id = submit(&env.namespace, Submission::new("k")).await;
    wait_for_suspensions(&env.namespace, id, 1).await;
    env.namespace.cancel(id).await.expect("the execution is cancelled");
    assert_eq!(wait_for_end(&env.namespace, id).await.0, Outcome::Cancelled);
    assert_eq!(worker.drain().await.suspended, 1);
    env.engine.shutdown().await;
}

over_http_too! {
    a_sleep_suspends_the_attempt_until_its_time_has_passed,
    a_sleep_until_a_past_time_ends_at_once,
    a_wait_consumes_a_signal_that_arrives_before_or_after_it_begins,
    two_waits_for_the_same_signal_consume_one_each,
    the_result_of_a_wait_shows_a_timeout_or_an_operators_resume,
    a_wait_returns_the_signals_that_satisfied_its_condition,
    the_time_of_a_wait_counts_from_its_first_attempt,
    concurrent_waits_may_end_in_any_order_or_together,
    the_wait_that_loses_a_select_is_no_longer_open,
    a_suspension_does_not_interrupt_a_running_step,
    a_parent_waits_for_its_children_and_sees_their_outcomes,
    a_waitpoint_is_the_same_in_every_attempt_even_after_its_delivery,
    a_suspended_execution_can_be_cancelled,
}
