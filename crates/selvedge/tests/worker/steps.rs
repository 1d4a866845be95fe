//! Durable steps: each is done once, whenever the worker dies.

use super::cut_off::{CutOff, Line};
use super::{LONG, Timed, at_once, ended, engine, submit};
use selvedge::core::step::StepKind;
use selvedge::{Context, Engine, Failure, Namespace, Options, Outcome, Submission, Worker};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::future::{Future, pending};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Longer than the lease of a worker that has died.
const LAPSE: Duration = Duration::from_secs(31);

/// What the steps of a test have done, in that order.
#[derive(Clone, Default)]
struct Effects(Arc<Mutex<Vec<String>>>);

impl Effects {
    /// Notes one more; says how many there are.
    fn add(&self, effect: impl Into<String>) -> usize {
        let mut effects = self.0.lock().expect("is free");
        effects.push(effect.into());
        effects.len()
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().expect("is free").clone()
    }
}

/// A worker that dies when a handler says so: nothing of it is reported.
async fn until_killed<F, Fut, T>(namespace: &Namespace, handler: F, killed: impl Future)
where
    F: Fn(Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<T, Failure>> + Send + 'static,
    T: Serialize + Send + 'static,
{
    let worker = Worker::new(namespace.clone(), "w").handler("k", handler);
    let worker = tokio::spawn(worker.run(pending()));
    timeout(LONG, killed).await.expect("it comes that far in time");
    worker.abort();
    assert!(worker.await.expect_err("it was aborted").is_cancelled());
}

#[tokio::test]
async fn of_ten_steps_each_is_done_once_although_the_worker_dies_after_every_one() {
    let timed = Timed::new().await;
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
    let id = submit(&timed.namespace, Submission::new("k").backoff(at_once())).await;
    for number in 0..10 {
        let died = async { assert_eq!(reaches.recv().await, Some(number)) };
        until_killed(&timed.namespace, handler.clone(), died).await;
        timed.pass(LAPSE).await;
    }
    let worker = Worker::new(timed.namespace.clone(), "last").handler("k", handler).start();
    let worker = worker.expect("the worker starts");
    assert_eq!(ended(&timed.namespace, id).await, (Outcome::Completed, json!(45)));
    assert_eq!(effects.all(), (0..10).map(|number| number.to_string()).collect::<Vec<_>>());
    let attempts = timed.namespace.attempts(id).await.expect("they are kept");
    assert_eq!(attempts.len(), 11);
    worker.drain().await;
    timed.engine.shutdown().await;
}

#[tokio::test]
async fn a_step_whose_worker_dies_before_it_is_recorded_is_done_again() {
    let timed = Timed::new().await;
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
    let id = submit(&timed.namespace, Submission::new("k")).await;
    until_killed(&timed.namespace, handler.clone(), reaches.recv()).await;
    timed.pass(LAPSE).await;
    let worker = Worker::new(timed.namespace.clone(), "last").handler("k", handler).start();
    let worker = worker.expect("the worker starts");
    assert_eq!(ended(&timed.namespace, id).await, (Outcome::Completed, json!(1)));
    assert_eq!(effects.all(), ["attempt 0", "attempt 1"], "at least once is what can be promised");
    worker.drain().await;
    timed.engine.shutdown().await;
}

#[tokio::test]
async fn a_step_is_recorded_when_it_returns_and_listed_with_its_timing() {
    let (engine, namespace) = engine().await;
    let worker = Worker::new(namespace.clone(), "w")
        .handler("k", |ctx: Context| async move {
            let value: u32 = ctx.step("first", || async { Ok(7) }).await?;
            let steps = ctx.namespace().steps(ctx.execution(), 0, 10).await?;
            assert_eq!(steps.len(), 1);
            let step = &steps[0];
            assert_eq!((step.number, step.name.as_str(), step.kind), (1, "first", StepKind::Step));
            assert_eq!((step.attempt, step.result.as_deref()), (0, Some(b"7".as_slice())));
            assert!(step.recorded_at.expect("it is recorded") >= step.started_at);
            Ok::<_, Failure>(value)
        })
        .start()
        .expect("the worker starts");
    let id = submit(&namespace, Submission::new("k").max_retries(0)).await;
    assert_eq!(ended(&namespace, id).await, (Outcome::Completed, json!(7)));
    worker.drain().await;
    engine.shutdown().await;
}

/// Writes more than it reads.
#[derive(Serialize, Deserialize)]
struct Forgetful {
    kept: u32,
    #[serde(skip_deserializing)]
    lost: u32,
}

#[tokio::test]
async fn every_attempt_sees_the_same_value_also_the_one_that_ran_the_step() {
    let (engine, namespace) = engine().await;
    let (seen, mut sees) = mpsc::unbounded_channel();
    let worker = Worker::new(namespace.clone(), "w")
        .handler("k", move |ctx: Context| {
            let seen = seen.clone();
            async move {
                let value: Forgetful = ctx.step("a", || async { Ok(Forgetful { kept: 1, lost: 2 }) }).await?;
                seen.send((value.kept, value.lost))?;
                match ctx.attempt() {
                    0 => Err(Failure::transient("once more")),
                    _ => Ok(()),
                }
            }
        })
        .start()
        .expect("the worker starts");
    let id = submit(&namespace, Submission::new("k").backoff(at_once())).await;
    assert_eq!(ended(&namespace, id).await.0, Outcome::Completed);
    assert_eq!((sees.recv().await, sees.recv().await), (Some((1, 0)), Some((1, 0))));
    worker.drain().await;
    engine.shutdown().await;
}

#[tokio::test]
async fn a_step_that_fails_is_not_recorded_and_may_be_tried_again_in_the_same_attempt() {
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
                    let tried = ctx.step("a", || async {
                        effects.add("done");
                        Ok("done".to_owned())
                    });
                    tried.await
                }
            }
        })
        .start()
        .expect("the worker starts");
    let id = submit(&namespace, Submission::new("k").max_retries(0)).await;
    assert_eq!(ended(&namespace, id).await, (Outcome::Completed, json!("done")));
    assert_eq!(effects.all(), ["failed", "done"]);
    let steps = namespace.steps(id, 0, 10).await.expect("they are listed");
    assert_eq!(steps.len(), 1);
    worker.drain().await;
    engine.shutdown().await;
}

async fn is_done_once_when_the_line_is_up_again(line: Line) {
    let store = CutOff::new(selvedge::open("memory:").await.expect("it opens"));
    let options = Options { reconcilers: false, ..Options::default() };
    let engine = Engine::start(store.clone(), options).await.expect("it starts");
    let namespace = engine.namespace("default").await.expect("it is there");
    let effects = Effects::default();
    let worker = Worker::new(namespace.clone(), "w").handler("k", {
        let (store, effects) = (store.clone(), effects.clone());
        move |ctx: Context| {
            let (store, effects) = (store.clone(), effects.clone());
            async move {
                let step = ctx.step("a", || async {
                    effects.add("a");
                    store.set(line);
                    Ok(())
                });
                let mend = async {
                    store.failures(3).await;
                    store.set(Line::Up);
                };
                let (done, ()) = tokio::join!(step, mend);
                done?;
                Ok::<_, Failure>(ctx.attempt())
            }
        }
    });
    let worker = worker.start().expect("the worker starts");
    let id = submit(&namespace, Submission::new("k")).await;
    assert_eq!(ended(&namespace, id).await, (Outcome::Completed, json!(0)));
    assert_eq!(effects.all(), ["a"]);
    let steps = namespace.steps(id, 0, 10).await.expect("they are listed");
    assert_eq!(steps.len(), 1);
    worker.drain().await;
    engine.shutdown().await;
}

#[tokio::test]
async fn a_record_that_does_not_reach_the_store_is_repeated() {
    is_done_once_when_the_line_is_up_again(Line::Down).await;
}

#[tokio::test]
async fn a_record_whose_answer_was_lost_is_repeated_and_there_once() {
    is_done_once_when_the_line_is_up_again(Line::Mute).await;
}

#[tokio::test]
async fn a_replay_goes_on_where_the_execution_failed() {
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
    assert_eq!(ended(&namespace, id).await.0, Outcome::Failed);
    super::operate(&namespace, id, selvedge::Action::Replay).await;
    assert_eq!(ended(&namespace, id).await.0, Outcome::Completed);
    assert_eq!(effects.all(), ["one", "two"]);
    worker.drain().await;
    engine.shutdown().await;
}
