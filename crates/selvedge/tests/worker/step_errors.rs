//! Handlers whose steps do not fit what was recorded fail for good, and say which step it is and what to do.

use super::{Timed, at_once, ended, engine, send, submit, suspended};
use selvedge::core::suspension::WAITS_MAX;
use selvedge::{Context, Failure, FailureClass, Namespace, Outcome, Submission, Until, Waited, Worker};
use serde_json::{Value, json};
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

/// What a handler does in one of its versions.
type Version =
    Box<dyn Fn(Context) -> Pin<Box<dyn Future<Output = Result<Value, Failure>> + Send>> + Send + Sync>;

fn version<F, Fut>(handler: F) -> Version
where
    F: Fn(Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Value, Failure>> + Send + 'static,
{
    Box::new(move |ctx| Box::pin(handler(ctx)))
}

/// How an execution ends whose handler is changed: the first version returns, and the execution is then tried again with the
/// second.
async fn changed(first: Version, second: Version) -> (Outcome, Value) {
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
    let worker = Worker::new(namespace.clone(), "w").handler("k", handler).start().expect("it starts");
    let id = submit(&namespace, Submission::new("k").backoff(at_once())).await;
    let ended = ended(&namespace, id).await;
    check_permanent(&namespace, id, ended.0).await;
    worker.drain().await;
    engine.shutdown().await;
    ended
}

/// A failure of this kind is not retried.
async fn check_permanent(namespace: &Namespace, id: selvedge::ExecutionId, outcome: Outcome) {
    let error = namespace.get(id).await.expect("it is read").stored.execution.detail.error;
    if outcome == Outcome::Failed {
        assert_eq!(error.expect("it has failed").class, FailureClass::Permanent);
    }
}

fn failed(ended: (Outcome, Value)) -> String {
    assert_eq!(ended.0, Outcome::Failed, "{}", ended.1);
    ended.1.as_str().expect("is text").to_owned()
}

fn one_step() -> Version {
    version(|ctx| async move { ctx.step("one", || async { Ok(json!("text")) }).await })
}

#[tokio::test]
async fn a_result_that_does_not_fit_its_type_any_more_fails() {
    let second = version(|ctx| async move {
        let number: u32 = ctx.step("one", || async { Ok(1) }).await?;
        Ok(json!(number))
    });
    let told = failed(changed(one_step(), second).await);
    assert!(
        told.contains("the step \"one\" is not what the handler expects: invalid type: string"),
        "{told}"
    );
    assert!(told.contains("another name"), "{told}");
}

#[tokio::test]
async fn a_step_that_became_a_sleep_fails_and_so_does_a_sleep_that_became_a_step() {
    let sleep = || {
        version(|ctx| async move {
            ctx.sleep("one", Duration::ZERO).await?;
            Ok(json!(null))
        })
    };
    let told = failed(changed(one_step(), sleep()).await);
    assert!(
        told.starts_with("the step \"one\" was recorded as a step by attempt 0 and is a sleep here"),
        "{told}"
    );
    let told = failed(changed(sleep(), one_step()).await);
    assert!(
        told.starts_with("the step \"one\" was recorded as a sleep by attempt 0 and is a step here"),
        "{told}"
    );
}

#[tokio::test]
async fn a_step_that_is_not_asked_for_any_more_fails_unless_that_is_allowed() {
    let told = failed(changed(one_step(), version(|_| async { Ok(json!(null)) })).await);
    assert!(
        told.starts_with("the step \"one\", which attempt 0 recorded, was not asked for any more"),
        "{told}"
    );
    let allowed = version(|ctx| async move {
        ctx.allow_vanished_steps();
        Ok(json!("fine"))
    });
    assert_eq!(changed(one_step(), allowed).await, (Outcome::Completed, json!("fine")));
    let asked = version(|ctx| async move { ctx.step("one", || async { Ok(json!("again")) }).await });
    assert_eq!(changed(one_step(), asked).await, (Outcome::Completed, json!("text")));
}

#[tokio::test]
async fn a_name_that_is_used_twice_in_one_attempt_fails() {
    let twice = version(|ctx| async move {
        ctx.step("one", || async { Ok(1) }).await?;
        ctx.step("one", || async { Ok(json!(2)) }).await
    });
    let told = failed(changed(twice, one_step()).await);
    assert!(told.starts_with("the step \"one\" is used twice in one attempt"), "{told}");
}

#[tokio::test]
async fn names_and_conditions_that_cannot_be_kept_fail_before_anything_is_done() {
    let cases = [
        (
            version(|ctx| async move { ctx.step("", || async { panic!("it does not run") }).await }),
            "the step \"\" was refused: /name must not be empty",
        ),
        (
            version(|ctx| async move {
                let Waited { .. } = ctx.wait("one", Until::any([])).await?;
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
        let told = failed(changed(first, one_step()).await);
        assert!(told.starts_with(expected), "{told}");
    }
}

#[tokio::test]
async fn a_result_that_cannot_be_read_back_or_is_too_large_fails() {
    let nan = version(|ctx| async move {
        let number: f64 = ctx.step("one", || async { Ok(f64::NAN) }).await?;
        Ok(json!(number))
    });
    let told = failed(changed(nan, one_step()).await);
    assert!(told.starts_with("the result of the step \"one\" cannot be read back from its JSON"), "{told}");
    let large = version(|ctx| async move {
        let text: String = ctx.step("one", || async { Ok("x".repeat(2 << 20)) }).await?;
        Ok(json!(text))
    });
    let told = failed(changed(large, one_step()).await);
    assert!(told.starts_with("the step \"one\" was refused: /result is 2097154 bytes long"), "{told}");
}

#[tokio::test]
async fn more_waits_than_a_suspension_takes_fail() {
    let many = version(|ctx| async move {
        let mut waits = ctx.all("waits");
        for number in 0..=WAITS_MAX {
            waits = waits.branch(number.to_string(), |ctx| async move { ctx.sleep("nap", HOUR).await });
        }
        waits.await?;
        Ok(json!(null))
    });
    let told = failed(changed(many, one_step()).await);
    assert!(told.starts_with("the step \"waits/100/nap\" would be one wait too many"), "{told}");
}

/// An execution that waits for an hour and for a signal, gets the signal, and is then given to the second version.
async fn changed_while_it_waits(second: Version) -> (Outcome, Value) {
    let timed = Timed::new().await;
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
    let worker = Worker::new(timed.namespace.clone(), "w").handler("k", handler).start().expect("it starts");
    let id = submit(&timed.namespace, Submission::new("k")).await;
    suspended(&timed.namespace, id, 1).await;
    send(&timed.namespace, id, "go").await;
    let ended = ended(&timed.namespace, id).await;
    check_permanent(&timed.namespace, id, ended.0).await;
    worker.drain().await;
    timed.engine.shutdown().await;
    ended
}

#[tokio::test]
async fn an_open_wait_that_became_something_else_fails() {
    let told = failed(changed_while_it_waits(one_step()).await);
    assert!(told.contains("which is a sleep of attempt 0 and not a step"), "{told}");
    let wait = version(|ctx| async move {
        ctx.wait_for_signal("one", "go again").await?;
        Ok(json!(null))
    });
    let told = failed(changed_while_it_waits(wait).await);
    assert!(told.starts_with("what the handler waits for was refused"), "{told}");
    assert!(told.contains("which is a sleep of attempt 0 and not a wait"), "{told}");
}
