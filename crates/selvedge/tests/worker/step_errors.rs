//! Handlers whose steps do not fit the recorded steps fail permanently, with a message that names the step and the
//! remedy.

use super::{ManualClockEnv, engine, no_delay, send_signal, submit, wait_for_end, wait_for_suspensions};
use selvedge::{Context, Failure, FailureClass, Namespace, Outcome, Submission, Until, WaitResult, Worker};
use selvedge_core::suspension::WAITS_MAX;
use serde_json::{Value, json};
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

/// One version of a handler's code.
type Version =
    Box<dyn Fn(Context) -> Pin<Box<dyn Future<Output = Result<Value, Failure>> + Send>> + Send + Sync>;

fn version<F, Fut>(handler: F) -> Version
where
    F: Fn(Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Value, Failure>> + Send + 'static,
{
    Box::new(move |ctx| Box::pin(handler(ctx)))
}

/// Runs an execution whose handler changes between attempts: the first version returns, then the execution is retried
/// with the second. Returns the end of the execution.
async fn run_changed(first: Version, second: Version) -> (Outcome, Value) {
    let (engine, namespace) = engine().await;
    let (versions, returned) = (Arc::new((first, second)), Arc::new(AtomicBool::new(false)));
    let handler = move |ctx: Context| {
        let (versions, returned) = (versions.clone(), returned.clone());
        async move {
            if returned.load(Ordering::SeqCst) {
                return (versions.1)(ctx).await;
            }
            (versions.0)(ctx).await?;
            returned.store(true, Ordering::SeqCst);
            Err(Failure::transient("the next version follows"))
        }
    };
    let worker =
        Worker::new(namespace.clone(), "w").handler("k", handler).start().expect("the worker starts");
    let id = submit(&namespace, Submission::new("k").backoff(no_delay())).await;
    let end = wait_for_end(&namespace, id).await;
    check_permanent(&namespace, id, end.0).await;
    worker.drain().await;
    engine.shutdown().await;
    end
}

/// Asserts that a failed execution has failed permanently.
async fn check_permanent(namespace: &Namespace, id: selvedge::ExecutionId, outcome: Outcome) {
    let error = namespace.get(id).await.expect("the execution is read").error;
    if outcome == Outcome::Failed {
        assert_eq!(error.expect("a failed execution has an error").class, FailureClass::Permanent);
    }
}

/// Asserts that the execution has failed, and returns the error message.
fn error_message(end: (Outcome, Value)) -> String {
    assert_eq!(end.0, Outcome::Failed, "{}", end.1);
    end.1.as_str().expect("the value is a string").to_owned()
}

fn one_step() -> Version {
    version(|ctx| async move { ctx.step("one", || async { Ok(json!("text")) }).await })
}

#[tokio::test]
async fn a_recorded_result_of_another_type_fails() {
    let second = version(|ctx| async move {
        let number: u32 = ctx.step("one", || async { Ok(1) }).await?;
        Ok(json!(number))
    });
    let message = error_message(run_changed(one_step(), second).await);
    assert!(
        message.contains(
            "the recorded result of the step \"one\" is not what the handler expects: invalid type: string"
        ),
        "{message}"
    );
    assert!(message.contains("another name"), "{message}");
}

#[tokio::test]
async fn a_step_that_became_a_sleep_fails_and_so_does_a_sleep_that_became_a_step() {
    let sleep = || {
        version(|ctx| async move {
            ctx.sleep("one", Duration::ZERO).await?;
            Ok(json!(null))
        })
    };
    let message = error_message(run_changed(one_step(), sleep()).await);
    assert!(
        message.starts_with("the step \"one\" was recorded as a step by attempt 0 and is a sleep here"),
        "{message}"
    );
    let message = error_message(run_changed(sleep(), one_step()).await);
    assert!(
        message.starts_with("the step \"one\" was recorded as a sleep by attempt 0 and is a step here"),
        "{message}"
    );
}

#[tokio::test]
async fn a_vanished_step_fails_unless_vanished_steps_are_allowed() {
    let message = error_message(run_changed(one_step(), version(|_| async { Ok(json!(null)) })).await);
    assert!(
        message.starts_with("the handler returned without the step \"one\", which attempt 0 recorded"),
        "{message}"
    );
    let allowed = version(|ctx| async move {
        ctx.allow_vanished_steps();
        Ok(json!("fine"))
    });
    assert_eq!(run_changed(one_step(), allowed).await, (Outcome::Completed, json!("fine")));
    let unchanged = version(|ctx| async move { ctx.step("one", || async { Ok(json!("again")) }).await });
    assert_eq!(run_changed(one_step(), unchanged).await, (Outcome::Completed, json!("text")));
}

#[tokio::test]
async fn a_name_that_is_used_twice_in_one_attempt_fails() {
    let twice = version(|ctx| async move {
        ctx.step("one", || async { Ok(1) }).await?;
        ctx.step("one", || async { Ok(json!(2)) }).await
    });
    let message = error_message(run_changed(twice, one_step()).await);
    assert!(message.starts_with("the step \"one\" is used twice in one attempt"), "{message}");
}

#[tokio::test]
async fn invalid_names_and_conditions_fail_before_a_closure_runs() {
    let cases = [
        (
            version(|ctx| async move { ctx.step("", || async { panic!("the closure does not run") }).await }),
            "the step \"\" was refused: /name must not be empty",
        ),
        (
            version(|ctx| async move {
                let WaitResult { .. } = ctx.wait("one", Until::any([])).await?;
                Ok(json!(null))
            }),
            "the step \"one\" was refused: /condition/any is empty",
        ),
        (
            version(|ctx| async move {
                ctx.sleep("one", Duration::MAX).await?;
                Ok(json!(null))
            }),
            "the step \"one\" was refused: /condition/delay_ms is",
        ),
        (version(|ctx| async move { ctx.race("one").await }), "the race \"one\" has no branch"),
        (
            version(|ctx| async move {
                let twice = ctx.race("one").branch("a", |_| async { Ok(json!(1)) });
                twice.branch("a", |_| async { Ok(json!(2)) }).await
            }),
            "the race \"one\" has two branches \"a\"",
        ),
    ];
    for (first, expected) in cases {
        let message = error_message(run_changed(first, one_step()).await);
        assert!(message.starts_with(expected), "{message}");
    }
}

#[tokio::test]
async fn a_result_that_cannot_be_deserialised_or_is_too_large_fails() {
    let nan = version(|ctx| async move {
        let number: f64 = ctx.step("one", || async { Ok(f64::NAN) }).await?;
        Ok(json!(number))
    });
    let message = error_message(run_changed(nan, one_step()).await);
    assert!(
        message.starts_with("the result of the step \"one\" cannot be read back from its JSON"),
        "{message}"
    );
    let large = version(|ctx| async move {
        let text: String = ctx.step("one", || async { Ok("x".repeat(2 << 20)) }).await?;
        Ok(json!(text))
    });
    let message = error_message(run_changed(large, one_step()).await);
    assert!(message.starts_with("the step \"one\" was refused: "), "{message}");
    assert!(message.contains("/result has 2097154 bytes"), "{message}");
}

#[tokio::test]
async fn too_many_open_waits_fail() {
    let many = version(|ctx| async move {
        let mut waits = ctx.all("waits");
        for number in 0..=WAITS_MAX {
            waits = waits.branch(number.to_string(), |ctx| async move { ctx.sleep("nap", HOUR).await });
        }
        waits.await?;
        Ok(json!(null))
    });
    let message = error_message(run_changed(many, one_step()).await);
    assert!(
        message.starts_with("the step \"waits/100/nap\" exceeds the limit of 100 open waits"),
        "{message}"
    );
}

/// Runs an execution whose handler changes while the wait "one" is open: the first attempt also waits for a signal,
/// which resumes it, and the next attempt runs the second version. Returns the end of the execution.
async fn run_changed_with_open_wait(second: Version) -> (Outcome, Value) {
    let env = ManualClockEnv::new().await;
    let second = Arc::new(second);
    let handler = move |ctx: Context| {
        let second = second.clone();
        async move {
            if ctx.attempt() > 0 {
                ctx.wait_for_signal("go", "go").await?;
                return second(ctx).await;
            }
            let (slept, _) =
                tokio::try_join!(ctx.sleep("one", HOUR), ctx.wait_for_signal("go", "go").into_future())?;
            Ok(json!(slept))
        }
    };
    let worker =
        Worker::new(env.namespace.clone(), "w").handler("k", handler).start().expect("the worker starts");
    let id = submit(&env.namespace, Submission::new("k")).await;
    wait_for_suspensions(&env.namespace, id, 1).await;
    send_signal(&env.namespace, id, "go").await;
    let end = wait_for_end(&env.namespace, id).await;
    check_permanent(&env.namespace, id, end.0).await;
    worker.drain().await;
    env.engine.shutdown().await;
    end
}

#[tokio::test]
async fn an_open_wait_whose_name_another_operation_uses_fails() {
    let message = error_message(run_changed_with_open_wait(one_step()).await);
    assert!(message.contains("which attempt 0 began as a sleep, not as a step"), "{message}");
    let wait = version(|ctx| async move {
        ctx.wait_for_signal("one", "go again").await?;
        Ok(json!(null))
    });
    let message = error_message(run_changed_with_open_wait(wait).await);
    assert!(message.starts_with("the wait of the handler was refused"), "{message}");
    assert!(message.contains("which attempt 0 began as a sleep, not as a wait"), "{message}");
}

over_http_too! {
    a_recorded_result_of_another_type_fails,
    a_step_that_became_a_sleep_fails_and_so_does_a_sleep_that_became_a_step,
    a_vanished_step_fails_unless_vanished_steps_are_allowed,
    a_name_that_is_used_twice_in_one_attempt_fails,
    invalid_names_and_conditions_fail_before_a_closure_runs,
    a_result_that_cannot_be_deserialised_or_is_too_large_fails,
    too_many_open_waits_fail,
    an_open_wait_whose_name_another_operation_uses_fails,
}
