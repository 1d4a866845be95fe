//! Branches of a handler: a race takes the same winner in every attempt, and all end together.

use super::{Timed, ended, engine, send, state, submit, suspended};
use selvedge::core::state::StateName;
use selvedge::core::step::StepKind;
use selvedge::{Context, Effect, ExecutionId, Failure, Outcome, Submission, Worker};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};

const HOUR: Duration = Duration::from_secs(3600);

/// How often something was done, by name.
#[derive(Clone, Default)]
struct Counts(Arc<Mutex<BTreeMap<&'static str, u32>>>);

impl Counts {
    fn add(&self, name: &'static str) -> u32 {
        let mut counts = self.0.lock().expect("is free");
        let count = counts.entry(name).or_default();
        *count += 1;
        *count
    }

    fn of(&self, name: &str) -> u32 {
        self.0.lock().expect("is free").get(name).copied().unwrap_or_default()
    }
}

fn worker<F, Fut>(timed: &Timed, handler: F) -> selvedge::Handle
where
    F: Fn(Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Value, Failure>> + Send + 'static,
{
    Worker::new(timed.namespace.clone(), "w").handler("k", handler).start().expect("the worker starts")
}

/// A signal against a sleep, then another sleep. The branch of the signal has done something before it waits.
async fn signal_or_sleep(ctx: Context, counts: Counts) -> Result<Value, Failure> {
    let winner = ctx
        .race("first")
        .branch("signal", |ctx| {
            let counts = counts.clone();
            async move {
                counts.add("signal begins");
                ctx.step("prepare", || async { Ok(counts.add("prepare")) }).await?;
                ctx.wait_for_signal("wait", "go").await?;
                Ok("signal")
            }
        })
        .branch("sleep", |ctx| {
            let counts = counts.clone();
            async move {
                counts.add("sleep begins");
                ctx.sleep("wait", HOUR).await?;
                ctx.step("yawn", || async { Ok(counts.add("yawn")) }).await?;
                Ok("sleep")
            }
        })
        .await?;
    ctx.sleep("wait", HOUR).await?;
    Ok(json!(winner))
}

async fn names_of_steps(timed: &Timed, id: ExecutionId) -> Vec<(String, StepKind)> {
    let steps = timed.namespace.steps(id, 0, 100).await.expect("they are listed");
    let recorded = steps.into_iter().filter(|step| step.recorded_at.is_some());
    recorded.map(|step| (step.name.to_string(), step.kind)).collect()
}

#[tokio::test]
async fn the_winner_of_a_race_is_recorded_and_a_later_attempt_runs_it_alone() {
    let timed = Timed::new().await;
    let counts = Counts::default();
    let worker = worker(&timed, {
        let counts = counts.clone();
        move |ctx| signal_or_sleep(ctx, counts.clone())
    });
    let id = submit(&timed.namespace, Submission::new("k")).await;
    suspended(&timed.namespace, id, 1).await;
    timed.pass(HOUR).await;
    suspended(&timed.namespace, id, 2).await;
    assert_eq!(send(&timed.namespace, id, "go").await.effect, Effect::Buffered, "the race is over");
    timed.pass(HOUR).await;
    assert_eq!(ended(&timed.namespace, id).await, (Outcome::Completed, json!("sleep")));
    let begins = ["signal begins", "sleep begins", "prepare", "yawn"].map(|name| counts.of(name));
    assert_eq!(begins, [2, 3, 1, 1], "the last attempt does not begin the branch that lost");
    let mut recorded = names_of_steps(&timed, id).await;
    recorded.sort();
    let expected = [
        ("first", StepKind::Race),
        ("first/signal/prepare", StepKind::Step),
        ("first/sleep/wait", StepKind::Sleep),
        ("first/sleep/yawn", StepKind::Step),
        ("wait", StepKind::Sleep),
    ];
    assert_eq!(recorded, expected.map(|(name, kind)| (name.to_owned(), kind)));
    worker.drain().await;
    timed.engine.shutdown().await;
}

#[tokio::test]
async fn the_signal_wins_a_race_if_it_comes_first() {
    let timed = Timed::new().await;
    let counts = Counts::default();
    let worker = worker(&timed, {
        let counts = counts.clone();
        move |ctx| signal_or_sleep(ctx, counts.clone())
    });
    let id = submit(&timed.namespace, Submission::new("k")).await;
    suspended(&timed.namespace, id, 1).await;
    assert_eq!(send(&timed.namespace, id, "go").await.effect, Effect::Resumed);
    suspended(&timed.namespace, id, 2).await;
    timed.pass(HOUR).await;
    assert_eq!(ended(&timed.namespace, id).await, (Outcome::Completed, json!("signal")));
    assert_eq!((counts.of("prepare"), counts.of("yawn")), (1, 0));
    worker.drain().await;
    timed.engine.shutdown().await;
}

#[tokio::test]
async fn a_race_whose_winner_has_gone_fails_and_says_which_branch_it_was() {
    let timed = Timed::new().await;
    let worker = worker(&timed, |ctx| async move {
        let first = if ctx.attempt() == 0 { "old" } else { "new" };
        let won = ctx.race("first").branch(first, |_| async move { Ok(first) }).await?;
        ctx.sleep("nap", HOUR).await?;
        Ok(json!(won))
    });
    let id = submit(&timed.namespace, Submission::new("k")).await;
    suspended(&timed.namespace, id, 1).await;
    timed.pass(HOUR).await;
    let (outcome, told) = ended(&timed.namespace, id).await;
    assert_eq!(outcome, Outcome::Failed);
    let expected =
        "the race \"first\" was won by its branch \"old\", which it does not have any more; bring it back";
    assert_eq!(told, json!(expected));
    worker.drain().await;
    timed.engine.shutdown().await;
}

/// Two signals, each followed by a step.
async fn two_signals(ctx: Context) -> Result<Value, Failure> {
    let mut both = ctx.all("both");
    for name in ["a", "b"] {
        both = both.branch(name, move |ctx| async move {
            ctx.wait_for_signal("wait", name).await?;
            ctx.step("note", || async { Ok(format!("{name} in attempt {}", ctx.attempt())) }).await
        });
    }
    Ok(json!(both.await?))
}

#[tokio::test]
async fn all_branches_end_in_whatever_order_their_waits_do() {
    let timed = Timed::new().await;
    let worker = worker(&timed, two_signals);
    for (first, second) in [("a", "b"), ("b", "a")] {
        let id = submit(&timed.namespace, Submission::new("k")).await;
        suspended(&timed.namespace, id, 1).await;
        assert_eq!(send(&timed.namespace, id, first).await.effect, Effect::Resumed);
        suspended(&timed.namespace, id, 2).await;
        assert_eq!(state(&timed.namespace, id).await, StateName::Suspended);
        assert_eq!(send(&timed.namespace, id, second).await.effect, Effect::Resumed);
        let attempt_of = |name: &str| if name == first { 1 } else { 2 };
        let expected = ["a", "b"].map(|name| format!("{name} in attempt {}", attempt_of(name)));
        assert_eq!(ended(&timed.namespace, id).await, (Outcome::Completed, json!(expected)));
    }
    assert_eq!(worker.drain().await.suspended, 4);
    timed.engine.shutdown().await;
}

/// A branch fails while a step of another runs, in the handler itself or in a task that it has spawned.
async fn lets_running_steps_end(in_a_task: bool) {
    let timed = Timed::new().await;
    let (gate, counts) = (Arc::new(Semaphore::new(0)), Counts::default());
    let (failing, mut fails) = mpsc::unbounded_channel();
    let worker = worker(&timed, {
        let (gate, counts) = (gate.clone(), counts.clone());
        move |ctx| {
            let (gate, counts, failing) = (gate.clone(), counts.clone(), failing.clone());
            async move {
                let began = Arc::new(Semaphore::new(0));
                let all = ctx.all("all").branch("runs", |ctx| {
                    let (gate, counts, began) = (gate.clone(), counts.clone(), began.clone());
                    async move {
                        let steps = async move {
                            let runs = ctx.step("one", || async {
                                began.add_permits(1);
                                gate.acquire().await?.forget();
                                Ok(counts.add("one"))
                            });
                            runs.await?;
                            ctx.step("two", || async { Ok(counts.add("two")) }).await.map(drop)
                        };
                        if in_a_task { tokio::spawn(steps).await? } else { steps.await }
                    }
                });
                // A wait would have the handler looked at again when the step in the task ends.
                let all = match in_a_task {
                    true => all,
                    false => all.branch("waits", |ctx| async move { ctx.sleep("nap", HOUR).await }),
                };
                let all = all.branch("fails", |_| {
                    let began = began.clone();
                    async move {
                        began.acquire().await?.forget();
                        failing.send(())?;
                        Err(Failure::permanent("out of paper"))
                    }
                });
                all.await?;
                Ok(json!(null))
            }
        }
    });
    let id = submit(&timed.namespace, Submission::new("k")).await;
    fails.recv().await.expect("a branch fails");
    gate.add_permits(1);
    assert_eq!(ended(&timed.namespace, id).await, (Outcome::Failed, json!("out of paper")));
    assert_eq!((counts.of("one"), counts.of("two")), (1, 0));
    let recorded = names_of_steps(&timed, id).await;
    assert_eq!(recorded, [("all/runs/one".to_owned(), StepKind::Step)]);
    worker.drain().await;
    timed.engine.shutdown().await;
}

#[tokio::test]
async fn a_failed_branch_lets_running_steps_end_and_no_other_begin() {
    lets_running_steps_end(false).await;
    lets_running_steps_end(true).await;
}

#[tokio::test]
async fn branches_may_have_branches() {
    let timed = Timed::new().await;
    let worker = worker(&timed, |ctx| async move {
        let outer = ctx.all("outer").branch("race", |ctx| async move {
            let inner = ctx.race("inner").branch("never", |ctx| async move {
                ctx.wait_for_signal("wait", "never").await?;
                Ok(1)
            });
            let inner = inner.branch("sleep", |ctx| async move {
                ctx.sleep("wait", HOUR).await?;
                Ok(2)
            });
            inner.await
        });
        let outer = outer.branch("signal", |ctx| async move {
            ctx.wait_for_signal("wait", "go").await?;
            Ok(3)
        });
        Ok(json!(outer.await?))
    });
    let id = submit(&timed.namespace, Submission::new("k")).await;
    suspended(&timed.namespace, id, 1).await;
    timed.pass(HOUR).await;
    suspended(&timed.namespace, id, 2).await;
    send(&timed.namespace, id, "go").await;
    assert_eq!(ended(&timed.namespace, id).await, (Outcome::Completed, json!([2, 3])));
    let recorded = names_of_steps(&timed, id).await;
    assert!(recorded.contains(&("outer/race/inner/sleep/wait".to_owned(), StepKind::Sleep)), "{recorded:?}");
    worker.drain().await;
    timed.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn on_many_threads_no_step_of_any_branch_is_begun_twice() {
    const EXECUTIONS: u32 = 40;
    const BRANCHES: u32 = 5;
    let (engine, namespace) = engine().await;
    let begun = Arc::new(Mutex::new(BTreeMap::<(ExecutionId, u32, &str), u32>::new()));
    let handler = {
        let begun = begun.clone();
        move |ctx: Context| {
            let begun = begun.clone();
            async move {
                let mut all = ctx.all("all");
                for number in 0..BRANCHES {
                    let begun = begun.clone();
                    all = all.branch(number.to_string(), move |ctx| async move {
                        let soon = Duration::from_millis(u64::from(number % 3));
                        for name in ["one", "two"] {
                            let step = ctx.step(name, || async {
                                let of = (ctx.execution(), number, name);
                                *begun.lock().expect("is free").entry(of).or_default() += 1;
                                tokio::time::sleep(soon).await;
                                Ok(())
                            });
                            step.await?;
                            ctx.sleep(format!("after {name}"), soon).await?;
                        }
                        Ok(())
                    });
                }
                all.await?;
                Ok::<_, Failure>(())
            }
        }
    };
    let worker = Worker::new(namespace.clone(), "w").concurrency(16).handler("k", handler).start();
    let worker = worker.expect("the worker starts");
    let mut ids = Vec::new();
    for _ in 0..EXECUTIONS {
        ids.push(submit(&namespace, Submission::new("k")).await);
    }
    for id in ids {
        assert_eq!(ended(&namespace, id).await, (Outcome::Completed, Value::Null));
    }
    let drained = worker.drain().await;
    assert_eq!((drained.failed, drained.aborted), (0, 0), "{drained:?}");
    let begun = begun.lock().expect("is free").clone();
    assert_eq!(begun.len() as u32, EXECUTIONS * BRANCHES * 2);
    assert!(begun.values().all(|times| *times == 1), "{begun:?}");
    engine.shutdown().await;
}
