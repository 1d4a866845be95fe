//! Typed tasks, layers, batch handlers, usage, and acknowledged cancellations.

use super::{engine, lock, submit, wait_for_end};
use selvedge::limits::BudgetSettings;
use selvedge::{
    Amount, Context, Error, ExecutionFilter, Failure, Next, Outcome, Return, Submission, Task, Worker,
    WorkerSummary,
};
use serde_json::json;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Semaphore;

struct Add {
    to: i64,
}

impl Task for Add {
    const KIND: &'static str = "add";
    type Input = i64;
    type Output = i64;

    async fn run(&self, _ctx: Context, number: i64) -> Result<i64, Failure> {
        Ok(self.to + number)
    }
}

#[tokio::test]
async fn a_task_gets_its_input_and_its_fields() {
    let (engine, namespace) = engine().await;
    let worker = Worker::new(namespace.clone(), "w").task(Add { to: 40 }).start().expect("the worker starts");
    let id = submit(&namespace, Submission::task::<Add>(&2).expect("valid JSON")).await;
    assert_eq!(wait_for_end(&namespace, id).await, (Outcome::Completed, json!(42)));
    let wrong = submit(&namespace, Submission::new("add").input("two").expect("valid JSON")).await;
    assert_eq!(wait_for_end(&namespace, wrong).await.0, Outcome::Failed, "an input of another type fails");
    worker.drain().await;
    engine.shutdown().await;
}

#[tokio::test]
async fn layers_run_around_the_handler_the_first_outermost() {
    let (engine, namespace) = engine().await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let layer = |name: &'static str| {
        let seen = seen.clone();
        move |ctx: Context, next: Next| {
            let seen = seen.clone();
            async move {
                lock(&seen).push(format!("{name} before"));
                let result = next.run(ctx).await;
                lock(&seen).push(format!("{name} after"));
                result
            }
        }
    };
    let worker = Worker::new(namespace.clone(), "w")
        .layer(layer("outer"))
        .layer(layer("inner"))
        .handler("k", |_: Context| async { Ok::<_, Failure>(1) })
        .start()
        .expect("the worker starts");
    let id = submit(&namespace, Submission::new("k")).await;
    assert_eq!(wait_for_end(&namespace, id).await, (Outcome::Completed, json!(1)));
    assert_eq!(*lock(&seen), ["outer before", "inner before", "inner after", "outer after"]);
    worker.drain().await;
    engine.shutdown().await;
}

#[tokio::test]
async fn a_batch_handler_answers_each_execution_alone() {
    let (engine, namespace) = engine().await;
    let numbers =
        (0..5).map(|number| Submission::new("k").input(&number).expect("valid JSON").max_retries(0));
    let submitted = namespace.submit_many(numbers).await.expect("the submissions are accepted");
    let sizes = Arc::new(Mutex::new(Vec::new()));
    let seen = sizes.clone();
    let worker = Worker::new(namespace.clone(), "w")
        .batch("k", 3, move |batch: Vec<Context>| {
            lock(&seen).push(batch.len());
            async move {
                let answer = |ctx: &Context| match ctx.input::<u32>()? {
                    2 => Err(Failure::permanent("two is refused")),
                    number => Ok(number * 10),
                };
                // The last execution of a batch of three gets no answer if it is number 4.
                batch.iter().filter(|ctx| ctx.input::<u32>() != Ok(4)).map(answer).collect()
            }
        })
        .start()
        .expect("the worker starts");
    let expected = [
        (Outcome::Completed, json!(0)),
        (Outcome::Completed, json!(10)),
        (Outcome::Failed, json!("two is refused")),
        (Outcome::Completed, json!(30)),
        (Outcome::Failed, json!("the batch handler answered fewer than its 2 executions")),
    ];
    for (submitted, expected) in submitted.into_iter().zip(expected) {
        let id = submitted.expect("the submission is accepted").execution.id;
        assert_eq!(wait_for_end(&namespace, id).await, expected);
    }
    assert_eq!(*lock(&sizes), [3, 2]);
    worker.drain().await;
    engine.shutdown().await;
}

#[tokio::test]
async fn a_batch_handler_that_panics_fails_its_executions() {
    let (engine, namespace) = engine().await;
    let worker = Worker::new(namespace.clone(), "w")
        .batch("k", 10, |_: Vec<Context>| async { panic!("no embeddings today") as Vec<Result<(), Failure>> })
        .start()
        .expect("the worker starts");
    let id = submit(&namespace, Submission::new("k").max_retries(0)).await;
    assert_eq!(wait_for_end(&namespace, id).await, (Outcome::Failed, json!("the batch handler panicked")));
    worker.drain().await;
    engine.shutdown().await;
}

#[tokio::test]
async fn usage_says_which_limits_are_reached() {
    let (engine, namespace) = engine().await;
    let budget = BudgetSettings::new().limit("tokens", 100, Some(50));
    namespace.set_budget("month", budget).await.expect("the budget is created");
    let worker = Worker::new(namespace.clone(), "w")
        .handler("k", |ctx: Context| async move {
            let half = ctx.usage("month", [("tokens", Amount::whole(60))]).await?;
            let once = ctx.usage_once("month", "call-1", [("tokens", Amount::whole(30))]).await?;
            let again = ctx.usage_once("month", "call-1", [("tokens", Amount::whole(30))]).await?;
            let full = ctx.usage("month", [("tokens", Amount::whole(10))]).await?;
            Ok::<_, Failure>(json!([half, once, again, full]))
        })
        .start()
        .expect("the worker starts");
    let id = submit(&namespace, Submission::new("k").budget("month")).await;
    let breached = json!([[], [], [], ["tokens"]]);
    assert_eq!(wait_for_end(&namespace, id).await, (Outcome::Completed, breached));
    let used = namespace.budget("month").await.expect("the budget is read");
    assert_eq!(used.usage["tokens"], Amount::whole(100));
    worker.drain().await;
    engine.shutdown().await;
}

#[tokio::test]
async fn a_handler_acknowledges_a_cancellation() {
    let (engine, namespace) = engine().await;
    let running = Arc::new(Semaphore::new(0));
    let started = running.clone();
    let worker = Worker::new(namespace.clone(), "w")
        .handler("k", move |ctx: Context| {
            started.add_permits(1);
            async move {
                ctx.cancelled().await;
                Ok::<_, Failure>(Return::Cancelled)
            }
        })
        .start()
        .expect("the worker starts");
    let id = submit(&namespace, Submission::new("k")).await;
    running.acquire().await.expect("the handler runs").forget();
    let cancelled = namespace.cancel(id).grace(Duration::from_secs(60)).await.expect("it is requested");
    assert!(cancelled.cancel_requested);
    assert_eq!(wait_for_end(&namespace, id).await.0, Outcome::Cancelled);
    assert_eq!(worker.drain().await, WorkerSummary { cancelled: 1, ..WorkerSummary::default() });
    engine.shutdown().await;
}

#[tokio::test]
async fn a_list_is_read_page_by_page() {
    let (engine, namespace) = engine().await;
    for kind in ["a", "b", "a", "a"] {
        submit(&namespace, Submission::new(kind).tag("team", "blue")).await;
    }
    let tags = [("team".to_owned(), "blue".to_owned())].into();
    let filter = ExecutionFilter { kind: Some("a".into()), tags, ..ExecutionFilter::default() };
    let first = namespace.list(&filter, None, 2).await.expect("the list is read");
    assert_eq!(first.items.len(), 2);
    let second = namespace.list(&filter, first.next_cursor.as_deref(), 2).await.expect("the list is read");
    assert_eq!((second.items.len(), second.next_cursor), (1, None));
    assert!(first.items.iter().chain(&second.items).all(|execution| execution.kind == "a"));
    let wrong = namespace.list(&filter, Some("nonsense"), 2).await.expect_err("the cursor is refused");
    assert_eq!(wrong.code(), "invalid_cursor");
    engine.shutdown().await;
}

#[tokio::test]
async fn a_refused_call_says_what_to_do() {
    let (engine, namespace) = engine().await;
    let id = submit(&namespace, Submission::new("k")).await;
    let refused = namespace.submit(Submission::new("k").budget("nothing")).await;
    assert!(
        matches!(&refused, Err(Error::Invalid(refusal)) if refusal.code == "unknown_budget"),
        "{refused:?}"
    );
    let refused = namespace.replay(id).await;
    assert!(
        matches!(&refused, Err(Error::Conflict(refusal)) if refusal.code == "wrong_state"),
        "{refused:?}"
    );
    let nobody = selvedge::ExecutionId(uuid::Uuid::nil());
    assert!(matches!(namespace.get(nobody).await, Err(Error::NotFound(_))));
    engine.shutdown().await;
}

over_http_too! {
    a_task_gets_its_input_and_its_fields,
    layers_run_around_the_handler_the_first_outermost,
    a_batch_handler_answers_each_execution_alone,
    a_batch_handler_that_panics_fails_its_executions,
    usage_says_which_limits_are_reached,
    a_handler_acknowledges_a_cancellation,
    a_list_is_read_page_by_page,
    a_refused_call_says_what_to_do,
}
