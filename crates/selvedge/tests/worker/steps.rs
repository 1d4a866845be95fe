//! Durable steps: each recorded step runs once, whenever the worker dies.

use super::unreliable_store::{Link, UnreliableLink};
use super::{ManualClockEnv, TIMEOUT, engine, engine_namespace, lock, no_delay, submit, wait_for_end};
use selvedge::{Context, Engine, Failure, Namespace, Options, Outcome, Submission, Worker};
use selvedge_core::step::StepKind;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::future::{Future, pending};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Longer than the time to live of a dead worker's lease.
const LEASE_EXPIRY: Duration = Duration::from_secs(31);

/// The effects of a test's steps, in order.
#[derive(Clone, Default)]
struct Effects(Arc<Mutex<Vec<String>>>);

impl Effects {
    /// Adds an effect, and returns the number of effects.
    fn add(&self, effect: impl Into<String>) -> usize {
        let mut effects = lock(&self.0);
        effects.push(effect.into());
        effects.len()
    }

    fn all(&self) -> Vec<String> {
        lock(&self.0).clone()
    }
}

/// Runs a worker until `killed` resolves, then aborts it, so that it reports nothing.
async fn run_until_killed<F, Fut, T>(namespace: &Namespace, handler: F, killed: impl Future)
where
    F: Fn(Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<T, Failure>> + Send + 'static,
    T: Serialize + Send + 'static,
{
    let worker = Worker::new(namespace.clone(), "w").handler("k", handler);
    let worker = tokio::spawn(worker.run(pending()));
    timeout(TIMEOUT, killed).await.expect("the handler reaches its stop in time");
    worker.abort();
    assert!(worker.await.expect_err("the worker was aborted").is_cancelled());
}

#[tokio::test]
async fn recorded_steps_run_once_although_the_worker_dies_after_each() {
    let env = ManualClockEnv::new().await;
    let (effects, (reached, mut reaches)) = (Effects::default(), mpsc::unbounded_channel());
    let handler = {
        let effects = effects.clone();
        move |ctx: Context| {
            let (effects, reached) = (effects.clone(), reached.clone());
            async move {
                let mut sum = 0;
                for number in 0..10 {
                    let step = ctx.step(format!("step-{number}"), || async {
                        effects.add(number.to_string());
                        Ok(number)
                    });
                    sum += step.await?;
                    if ctx.attempt() == number {
                        reached.send(number)?;
                        pending::<()>().await;
                    }
                }
                Ok::<_, Failure>(sum)
            }
        }
    };
    let id = submit(&env.namespace, Submission::new("k").backoff(no_delay())).await;
    for number in 0..10 {
        let killed = async { assert_eq!(reaches.recv().await, Some(number)) };
        run_until_killed(&env.namespace, handler.clone(), killed).await;
        env.advance(LEASE_EXPIRY).await;
    }
    let worker = Worker::new(env.namespace.clone(), "last").handler("k", handler).start();
    let worker = worker.expect("the worker starts");
    assert_eq!(wait_for_end(&env.namespace, id).await, (Outcome::Completed, json!(45)));
    assert_eq!(effects.all(), (0..10).map(|number| number.to_string()).collect::<Vec<_>>());
    let attempts = engine_namespace(&env.engine).await.attempts(id).await.expect("the attempts are listed");
    assert_eq!(attempts.len(), 11);
    worker.drain().await;
    env.engine.shutdown().await;
}

#[tokio::test]
async fn a_step_whose_worker_dies_before_it_is_recorded_runs_again() {
    let env = ManualClockEnv::new().await;
    let (effects, (reached, mut reaches)) = (Effects::default(), mpsc::unbounded_channel());
    let handler = {
        let effects = effects.clone();
        move |ctx: Context| {
            let (effects, reached) = (effects.clone(), reached.clone());
            async move {
                let attempt = ctx.attempt();
                let step = ctx.step("charge", || async move {
                    effects.add(format!("attempt {attempt}"));
                    if attempt == 0 {
                        reached.send(())?;
                        pending::<()>().await;
                    }
                    Ok(attempt)
                });
                step.await
            }
        }
    };
    let id = submit(&env.namespace, Submission::new("k")).await;
    run_until_killed(&env.namespace, handler.clone(), reaches.recv()).await;
    env.advance(LEASE_EXPIRY).await;
    let worker = Worker::new(env.namespace.clone(), "last").handler("k", handler).start();
    let worker = worker.expect("the worker starts");
    assert_eq!(wait_for_end(&env.namespace, id).await, (Outcome::Completed, json!(1)));
    assert_eq!(effects.all(), ["attempt 0", "attempt 1"], "an unrecorded step runs at least once");
    worker.drain().await;
    env.engine.shutdown().await;
}

#[tokio::test]
async fn a_step_is_recorded_when_it_returns_and_listed_with_its_timing() {
    let (engine, namespace) = engine().await;
    let rows = engine_namespace(&engine).await;
    let worker = Worker::new(namespace.clone(), "w")
        .handler("k", move |ctx: Context| {
            let rows = rows.clone();
            async move {
                let value: u32 = ctx.step("first", || async { Ok(7) }).await?;
                let steps = rows.steps(ctx.execution(), 0, 10).await?.items;
                assert_eq!(steps.len(), 1);
                let step = &steps[0];
                assert_eq!((step.number, step.name.as_str(), step.kind), (1, "first", StepKind::Step));
                assert_eq!((step.attempt, step.result.as_deref()), (0, Some(b"7".as_slice())));
                assert!(step.recorded_at.expect("the step is recorded") >= step.started_at);
                Ok::<_, Failure>(value)
            }
        })
        .start()
        .expect("the worker starts");
    let id = submit(&namespace, Submission::new("k").max_retries(0)).await;
    assert_eq!(wait_for_end(&namespace, id).await, (Outcome::Completed, json!(7)));
    worker.drain().await;
    engine.shutdown().await;
}

/// Serialises a field that it does not deserialise.
#[derive(Serialize, Deserialize)]
struct Lossy {
    kept: u32,
    #[serde(skip_deserializing)]
    lost: u32,
}

#[tokio::test]
async fn every_attempt_sees_the_same_value_including_the_one_that_ran_the_step() {
    let (engine, namespace) = engine().await;
    let (sender, mut values) = mpsc::unbounded_channel();
    let worker = Worker::new(namespace.clone(), "w")
        .handler("k", move |ctx: Context| {
            let sender = sender.clone();
            async move {
                let value: Lossy = ctx.step("a", || async { Ok(Lossy { kept: 1, lost: 2 }) }).await?;
                sender.send((value.kept, value.lost))?;
                match ctx.attempt() {
                    0 => Err(Failure::transient("once more")),
                    _ => Ok(()),
                }
            }
        })
        .start()
        .expect("the worker starts");
    let id = submit(&namespace, Submission::new("k").backoff(no_delay())).await;
    assert_eq!(wait_for_end(&namespace, id).await.0, Outcome::Completed);
    assert_eq!((values.recv().await, values.recv().await), (Some((1, 0)), Some((1, 0))));
    worker.drain().await;
    engine.shutdown().await;
}

#[tokio::test]
async fn a_step_that_fails_is_not_recorded_and_may_be_retried_in_the_same_attempt() {
    let (engine, namespace) = engine().await;
    let effects = Effects::default();
    let worker = Worker::new(namespace.clone(), "w")
        .handler("k", {
            let effects = effects.clone();
            move |ctx: Context| {
                let effects = effects.clone();
                async move {
                    let failed = ctx.step("a", || async {
                        effects.add("failed");
                        Err::<u32, _>(Failure::transient("no"))
                    });
                    let failure = failed.await.expect_err("the closure failed");
                    assert_eq!(failure, Failure::transient("no"));
                    let retried = ctx.step("a", || async {
                        effects.add("done");
                        Ok("done".to_owned())
                    });
                    retried.await
                }
            }
        })
        .start()
        .expect("the worker starts");
    let id = submit(&namespace, Submission::new("k").max_retries(0)).await;
    assert_eq!(wait_for_end(&namespace, id).await, (Outcome::Completed, json!("done")));
    assert_eq!(effects.all(), ["failed", "done"]);
    let steps = engine_namespace(&engine).await.steps(id, 0, 10).await.expect("the steps are listed").items;
    assert_eq!(steps.len(), 1);
    worker.drain().await;
    engine.shutdown().await;
}

async fn runs_once_despite_an_outage(link: Link) {
    let store = selvedge::open("memory:").await.expect("the store opens");
    let unreliable = UnreliableLink::to(&*store);
    let options = Options { reconcilers: false, ..Options::default() };
    let engine = Engine::start(store, options).await.expect("the engine starts");
    let namespace = engine.namespace("default").await.expect("the namespace opens");
    let effects = Effects::default();
    let worker = Worker::new(namespace.clone(), "w").handler("k", {
        let (unreliable, effects) = (unreliable.clone(), effects.clone());
        move |ctx: Context| {
            let (unreliable, effects) = (unreliable.clone(), effects.clone());
            async move {
                let step = ctx.step("a", || async {
                    effects.add("a");
                    unreliable.set_link(link);
                    Ok(())
                });
                let restore = async {
                    unreliable.wait_for_failures(3).await;
                    unreliable.set_link(Link::Up);
                };
                let (done, ()) = tokio::join!(step, restore);
                done?;
                Ok::<_, Failure>(ctx.attempt())
            }
        }
    });
    let worker = worker.start().expect("the worker starts");
    let id = submit(&namespace, Submission::new("k")).await;
    assert_eq!(wait_for_end(&namespace, id).await, (Outcome::Completed, json!(0)));
    assert_eq!(effects.all(), ["a"]);
    let steps = engine_namespace(&engine).await.steps(id, 0, 10).await.expect("the steps are listed").items;
    assert_eq!(steps.len(), 1);
    worker.drain().await;
    engine.shutdown().await;
}

#[tokio::test]
async fn a_record_that_does_not_reach_the_store_is_retried() {
    runs_once_despite_an_outage(Link::Down).await;
}

#[tokio::test]
async fn a_record_whose_answer_was_lost_is_retried_and_stored_once() {
    runs_once_despite_an_outage(Link::AnswersLost).await;
}

#[tokio::test]
async fn a_replay_continues_after_the_last_recorded_step() {
    let (engine, namespace) = engine().await;
    let effects = Effects::default();
    let worker = Worker::new(namespace.clone(), "w")
        .handler("k", {
            let effects = effects.clone();
            move |ctx: Context| {
                let effects = effects.clone();
                async move {
                    for name in ["one", "two"] {
                        ctx.step(name, || async { Ok(effects.add(name)) }).await?;
                        if name == "one" && ctx.generation() == 0 {
                            return Err(Failure::permanent("no"));
                        }
                    }
                    Ok(())
                }
            }
        })
        .start()
        .expect("the worker starts");
    let id = submit(&namespace, Submission::new("k")).await;
    assert_eq!(wait_for_end(&namespace, id).await.0, Outcome::Failed);
    namespace.replay(id).await.expect("the execution is replayed");
    assert_eq!(wait_for_end(&namespace, id).await.0, Outcome::Completed);
    assert_eq!(effects.all(), ["one", "two"]);
    worker.drain().await;
    engine.shutdown().await;
}

over_http_too! {
    recorded_steps_run_once_although_the_worker_dies_after_each,
    a_step_whose_worker_dies_before_it_is_recorded_runs_again,
    a_step_is_recorded_when_it_returns_and_listed_with_its_timing,
    every_attempt_sees_the_same_value_including_the_one_that_ran_the_step,
    a_step_that_fails_is_not_recorded_and_may_be_retried_in_the_same_attempt,
    a_record_that_does_not_reach_the_store_is_retried,
    a_record_whose_answer_was_lost_is_retried_and_stored_once,
    a_replay_continues_after_the_last_recorded_step,
}
