//! Branches of a handler: races, whose winner is the same in every attempt, and groups that end together.

use super::{
    ManualClockEnv, engine, engine_namespace, lock, send_signal, state_of, submit, wait_for_end,
    wait_for_suspensions,
};
use selvedge::State;
use selvedge::{Context, Effect, ExecutionId, Failure, Outcome, Submission, Worker};
use selvedge_core::step::StepKind;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};

const HOUR: Duration = Duration::from_secs(3600);

/// Counters by name.
#[derive(Clone, Default)]
struct Counts(Arc<Mutex<BTreeMap<&'static str, u32>>>);

impl Counts {
    fn add(&self, name: &'static str) -> u32 {
        let mut counts = lock(&self.0);
        let count = counts.entry(name).or_default();
        *count += 1;
        *count
    }

    fn of(&self, name: &str) -> u32 {
        lock(&self.0).get(name).copied().unwrap_or_default()
    }
}

fn start_worker<F, Fut>(env: &ManualClockEnv, handler: F) -> selvedge::Handle
where
    F: Fn(Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Value, Failure>> + Send + 'static,
{
    Worker::new(env.namespace.clone(), "w").handler("k", handler).start().expect("the worker starts")
}

/// Races a signal, after a step, against a sleep, before a step; then sleeps again.
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

async fn recorded_steps(env: &ManualClockEnv, id: ExecutionId) -> Vec<(String, StepKind)> {
    let steps =
        engine_namespace(&env.engine).await.steps(id, 0, 100).await.expect("the steps are listed").items;
    let recorded = steps.into_iter().filter(|step| step.recorded_at.is_some());
    recorded.map(|step| (step.name.to_string(), step.kind)).collect()
}

#[tokio::test]
async fn the_winner_of_a_race_is_recorded_and_later_attempts_run_only_the_winner() {
    let env = ManualClockEnv::new().await;
    let counts = Counts::default();
    let worker = start_worker(&env, {
        let counts = counts.clone();
        move |ctx| signal_or_sleep(ctx, counts.clone())
    });
    let id = submit(&env.namespace, Submission::new("k")).await;
    wait_for_suspensions(&env.namespace, id, 1).await;
    env.advance(HOUR).await;
    wait_for_suspensions(&env.namespace, id, 2).await;
    assert_eq!(send_signal(&env.namespace, id, "go").await.effect, Effect::Buffered, "the race is over");
    env.advance(HOUR).await;
    assert_eq!(wait_for_end(&env.namespace, id).await, (Outcome::Completed, json!("sleep")));
    let begins = ["signal begins", "sleep begins", "prepare", "yawn"].map(|name| counts.of(name));
    assert_eq!(begins, [2, 3, 1, 1], "the last attempt does not start the losing branch");
    let mut recorded = recorded_steps(&env, id).await;
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
    env.engine.shutdown().await;
}

#[tokio::test]
async fn a_signal_that_arrives_before_the_sleep_ends_wins_the_race() {
    let env = ManualClockEnv::new().await;
    let counts = Counts::default();
    let worker = start_worker(&env, {
        let counts = counts.clone();
        move |ctx| signal_or_sleep(ctx, counts.clone())
    });
    let id = submit(&env.namespace, Submission::new("k")).await;
    wait_for_suspensions(&env.namespace, id, 1).await;
    assert_eq!(send_signal(&env.namespace, id, "go").await.effect, Effect::Resumed);
    wait_for_suspensions(&env.namespace, id, 2).await;
    env.advance(HOUR).await;
    assert_eq!(wait_for_end(&env.namespace, id).await, (Outcome::Completed, json!("signal")));
    assert_eq!((counts.of("prepare"), counts.of("yawn")), (1, 0));
    worker.drain().await;
    env.engine.shutdown().await;
}

#[tokio::test]
async fn a_race_whose_recorded_winner_no_longer_exists_fails() {
    let env = ManualClockEnv::new().await;
    let worker = start_worker(&env, |ctx| async move {
        let first = if ctx.attempt() == 0 { "old" } else { "new" };
        let won = ctx.race("first").branch(first, |_| async move { Ok(first) }).await?;
        ctx.sleep("nap", HOUR).await?;
        Ok(json!(won))
    });
    let id = submit(&env.namespace, Submission::new("k")).await;
    wait_for_suspensions(&env.namespace, id, 1).await;
    env.advance(HOUR).await;
    let (outcome, message) = wait_for_end(&env.namespace, id).await;
    assert_eq!(outcome, Outcome::Failed);
    let expected =
        "the race \"first\" was won by its branch \"old\", which no longer exists; restore the branch";
    assert_eq!(message, json!(expected));
    worker.drain().await;
    env.engine.shutdown().await;
}

/// Waits for two signals in two branches, each followed by a step.
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
async fn branches_of_a_group_may_end_in_any_order() {
    let env = ManualClockEnv::new().await;
    let worker = start_worker(&env, two_signals);
    for (first, second) in [("a", "b"), ("b", "a")] {
        let id = submit(&env.namespace, Submission::new("k")).await;
        wait_for_suspensions(&env.namespace, id, 1).await;
        assert_eq!(send_signal(&env.namespace, id, first).await.effect, Effect::Resumed);
        wait_for_suspensions(&env.namespace, id, 2).await;
        assert_eq!(state_of(&env.namespace, id).await, State::Suspended);
        assert_eq!(send_signal(&env.namespace, id, second).await.effect, Effect::Resumed);
        let attempt_of = |name: &str| if name == first { 1 } else { 2 };
        let expected = ["a", "b"].map(|name| format!("{name} in attempt {}", attempt_of(name)));
        assert_eq!(wait_for_end(&env.namespace, id).await, (Outcome::Completed, json!(expected)));
    }
    assert_eq!(worker.drain().await.suspended, 4);
    env.engine.shutdown().await;
}

/// Lets a branch fail while a step of another branch runs, in the handler itself or in a task that it spawned, and
/// asserts that the running step ends and no other begins.
async fn running_steps_end(in_a_task: bool) {
    let env = ManualClockEnv::new().await;
    let (gate, counts) = (Arc::new(Semaphore::new(0)), Counts::default());
    let (failing, mut fails) = mpsc::unbounded_channel();
    let worker = start_worker(&env, {
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
                // With a wait, the end of the step in the task would wake the handler anyway.
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
    let id = submit(&env.namespace, Submission::new("k")).await;
    fails.recv().await.expect("a branch fails");
    gate.add_permits(1);
    assert_eq!(wait_for_end(&env.namespace, id).await, (Outcome::Failed, json!("out of paper")));
    assert_eq!((counts.of("one"), counts.of("two")), (1, 0));
    let recorded = recorded_steps(&env, id).await;
    assert_eq!(recorded, [("all/runs/one".to_owned(), StepKind::Step)]);
    worker.drain().await;
    env.engine.shutdown().await;
}

#[tokio::test]
async fn after_a_branch_fails_running_steps_end_and_no_other_step_begins() {
    running_steps_end(false).await;
    running_steps_end(true).await;
}

#[tokio::test]
async fn branches_may_be_nested() {
    let env = ManualClockEnv::new().await;
    let worker = start_worker(&env, |ctx| async move {
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
    let id = submit(&env.namespace, Submission::new("k")).await;
    wait_for_suspensions(&env.namespace, id, 1).await;
    env.advance(HOUR).await;
    wait_for_suspensions(&env.namespace, id, 2).await;
    send_signal(&env.namespace, id, "go").await;
    assert_eq!(wait_for_end(&env.namespace, id).await, (Outcome::Completed, json!([2, 3])));
    let recorded = recorded_steps(&env, id).await;
    assert!(recorded.contains(&("outer/race/inner/sleep/wait".to_owned(), StepKind::Sleep)), "{recorded:?}");
    worker.drain().await;
    env.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_step_of_a_branch_begins_twice_with_many_threads() {
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
                                let step = (ctx.execution(), number, name);
                                *lock(&begun).entry(step).or_default() += 1;
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
        assert_eq!(wait_for_end(&namespace, id).await, (Outcome::Completed, Value::Null));
    }
    let summary = worker.drain().await;
    assert_eq!((summary.failed, summary.aborted), (0, 0), "{summary:?}");
    let begun = lock(&begun).clone();
    assert_eq!(begun.len() as u32, EXECUTIONS * BRANCHES * 2);
    assert!(begun.values().all(|times| *times == 1), "{begun:?}");
    engine.shutdown().await;
}

over_http_too! {
    the_winner_of_a_race_is_recorded_and_later_attempts_run_only_the_winner,
    a_signal_that_arrives_before_the_sleep_ends_wins_the_race,
    a_race_whose_recorded_winner_no_longer_exists_fails,
    branches_of_a_group_may_end_in_any_order,
    after_a_branch_fails_running_steps_end_and_no_other_step_begins,
    branches_may_be_nested,
    no_step_of_a_branch_begins_twice_with_many_threads,
}
