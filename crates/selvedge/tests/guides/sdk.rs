//! The Rust code of `docs/sdk-rust.md`, one test for each block.

use super::{TIMEOUT, ended, engine};
use selvedge::events::{EventFilter, From};
use selvedge::limits::BudgetSettings;
use selvedge::testing::TestEngine;
use selvedge::{Context, Failure, Signal, Submission, Worker};
use std::time::Duration;
use tokio::time::timeout;

#[tokio::test]
async fn a_program_connects_by_an_address() -> Result<(), selvedge::Error> {
    // region: connect
    let connection = selvedge::connect("memory:").await?;
    let namespace = connection.namespace("default").await?;
    // endregion: connect
    connection.close().await;
    drop(namespace);
    Ok(())
}

#[tokio::test]
async fn a_submission_is_awaited() -> Result<(), selvedge::Error> {
    let (engine, namespace) = engine().await;
    let worker = Worker::new(namespace.clone(), "w")
        .handler("resize", |ctx: Context| async move { Ok::<_, Failure>(ctx.input::<u32>()? / 2) })
        .start()?;
    // region: submit
    use selvedge::Submission;
    use std::time::Duration;

    let submission = Submission::new("resize")
        .input(&800)?
        .idempotency_key("image-7")
        .tag("customer", "42")
        .max_retries(5);
    let submitted = namespace.submit(submission).await?;
    if let Some(ended) = namespace.result(submitted.execution.id, Duration::from_secs(30)).await? {
        let width: u32 = ended.json()?;
        assert_eq!(width, 400);
    }
    // endregion: submit
    worker.drain().await;
    engine.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn a_task_has_the_types_of_its_input_and_output() -> Result<(), selvedge::Error> {
    let (engine, namespace) = engine().await;
    // region: tasks
    use selvedge::{Context, Failure, Submission, Task, Worker};

    struct Resize {
        service: String,
    }

    impl Task for Resize {
        const KIND: &'static str = "resize";
        type Input = (String, u32);
        type Output = String;

        async fn run(&self, ctx: Context, (image, width): (String, u32)) -> Result<String, Failure> {
            if width == 0 {
                return Err(Failure::permanent("an image cannot be 0 wide"));
            }
            Ok(format!("{}/{image}?width={width}&key={}", self.service, ctx.idempotency_key()))
        }
    }

    let worker = Worker::new(namespace.clone(), "images")
        .task(Resize { service: "https://images.example.org".into() })
        .handler("ping", |_: Context| async { Ok::<_, Failure>("pong") });
    let submission = Submission::task::<Resize>(&("cat.jpg".into(), 800))?;
    // endregion: tasks
    let worker = worker.lane("default").start()?;
    let id = namespace.submit(submission).await?.execution.id;
    assert!(
        ended(&namespace, id)
            .await
            .json::<String>()?
            .starts_with("https://images.example.org/cat.jpg?width=800")
    );
    worker.drain().await;
    engine.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn a_worker_has_settings_layers_and_batches() -> Result<(), selvedge::Error> {
    let (engine, namespace) = engine().await;
    // region: workers
    use selvedge::{Context, Failure, Next, Worker};
    use std::time::Duration;

    let worker = Worker::new(namespace.clone(), "images")
        .lane("images")
        .concurrency(20)
        .lease_ttl(Duration::from_secs(30))
        .grace(Duration::from_secs(10))
        .layer(|ctx: Context, next: Next| async move {
            let kind = ctx.kind().to_owned();
            let result = next.run(ctx).await;
            println!("{kind}: {}", if result.is_ok() { "ok" } else { "failed" });
            result
        })
        .handler("resize", |ctx: Context| async move {
            tokio::select! {
                done = async { Ok::<_, Failure>(1) } => done,
                () = ctx.cancelled() => Err(Failure::transient("cancelled")),
            }
        })
        .batch("embed", 16, |batch: Vec<Context>| async move {
            batch.iter().map(|ctx| ctx.input::<String>().map(|text| text.len())).collect()
        });
    // endregion: workers
    let worker = worker.start()?;
    let resize = Submission::new("resize").lane("images").submit(&namespace).await?.execution.id;
    let embed = Submission::new("embed").lane("images").input("abc")?.submit(&namespace).await?.execution.id;
    assert_eq!(ended(&namespace, resize).await.json::<u32>()?, 1);
    assert_eq!(ended(&namespace, embed).await.json::<u32>()?, 3);
    worker.drain().await;
    engine.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn a_handler_has_steps_and_waits() -> Result<(), selvedge::Error> {
    // region: steps
    use selvedge::{Context, Failure};
    use std::time::Duration;

    async fn order(ctx: Context) -> Result<String, Failure> {
        let item: String = ctx.input()?;
        let invoice: u32 = ctx.step("invoice", || async { Ok(7) }).await?;
        ctx.sleep("let the customer think", Duration::from_secs(3600)).await?;
        let paid =
            ctx.wait_for_signal("payment", "paid").timeout(Duration::from_secs(14 * 24 * 3600)).await?;
        match paid.signal() {
            Some(paid) => Ok(format!("{item} goes to {} for invoice {invoice}", paid.source)),
            None => Err(Failure::permanent("the invoice was not paid")),
        }
    }
    // endregion: steps
    let test = TestEngine::start().await?;
    let namespace = test.namespace();
    let worker = Worker::new(namespace.clone(), "w").handler("order", order).start()?;
    let id = Submission::new("order").input("tea")?.submit(namespace).await?.execution.id;
    test.advance(Duration::from_secs(3600)).await?;
    Signal::new("paid").source("ada").send(namespace, id).await?;
    assert_eq!(ended(namespace, id).await.json::<String>()?, "tea goes to ada for invoice 7");
    worker.drain().await;
    test.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn a_flow_takes_the_first_answer() -> Result<(), selvedge::Error> {
    let (engine, namespace) = engine().await;
    // region: flows
    use selvedge::{Context, Failure, Flow, Join};

    let flow = Flow::new()
        .name("answer")
        .node("fast", "ask")
        .node("thorough", "ask")
        .node("publish", "publish")
        .after("publish", ["fast", "thorough"])
        .join("publish", Join::any_of());

    async fn publish(ctx: Context) -> Result<String, Failure> {
        ctx.winner() // the result of the upstream that completed first
    }
    // endregion: flows
    let worker = Worker::new(namespace.clone(), "w")
        .handler("ask", |_: Context| async { Ok::<_, Failure>("certainly") })
        .handler("publish", publish)
        .start()?;
    let submitted = namespace.submit_flow(flow).await?;
    let result = submitted.result(TIMEOUT).await?.expect("the flow ends");
    assert_eq!(result.state, selvedge::FlowState::Completed);
    worker.drain().await;
    engine.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn a_handler_reports_while_it_runs() -> Result<(), selvedge::Error> {
    let (engine, namespace) = engine().await;
    // region: streams
    use selvedge::{Amount, Context, Failure};

    async fn ask(ctx: Context) -> Result<(), Failure> {
        ctx.progress(50.0, "asking the model").await?;
        ctx.frame("a token").await?;
        let breached = ctx.usage("tokens", [("output", Amount::whole(1))]).await?;
        assert!(breached.is_empty());
        Ok(())
    }
    // endregion: streams
    namespace.set_budget("tokens", BudgetSettings::new().limit("output", 10, None)).await?;
    let worker = Worker::new(namespace.clone(), "w").handler("ask", ask).start()?;
    let id = Submission::new("ask").budget("tokens").submit(&namespace).await?.execution.id;
    ended(&namespace, id).await.json::<()>()?;
    worker.drain().await;
    engine.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn an_operator_reschedules_explains_and_cancels() -> Result<(), selvedge::Error> {
    let (engine, namespace) = engine().await;
    let id = Submission::new("report").submit(&namespace).await?.execution.id;
    // region: operate
    use selvedge::{Submission, When};

    namespace.reschedule(id, When::AfterMs(60_000)).await?;
    println!("{}", namespace.explain(id).await?.reasons[0].message);
    namespace.cancel(id).reason("no longer needed").await?;
    // endregion: operate
    engine.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn a_schedule_submits() -> Result<(), selvedge::Error> {
    let (engine, namespace) = engine().await;
    // region: schedules
    use selvedge::Submission;
    use selvedge::schedules::{CatchUp, Overlap, ScheduleSettings};

    let nightly = ScheduleSettings::cron("0 2 * * *", Submission::new("report").input("Europe")?)
        .time_zone("Europe/Berlin")
        .overlap(Overlap::Skip)
        .catch_up(CatchUp::One);
    namespace.set_schedule("nightly", nightly).await?;
    println!("next: {:?}", namespace.schedule_times("nightly", 3).await?);
    let id = namespace.run_schedule("nightly").await?.execution(); // once now, beside the plan
    namespace.pause_schedule("nightly").await?;
    // endregion: schedules
    assert!(id.is_some());
    engine.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn a_webhook_has_secrets() -> Result<(), selvedge::Error> {
    let (engine, namespace) = engine().await;
    // region: webhooks
    use selvedge::webhooks::{DeliveryState, WebhookSettings};
    use std::time::Duration;

    let failures =
        WebhookSettings::new("https://example.com/hook").event_type("execution.failed").tag("customer", "42");
    let secret = namespace.set_webhook("failures", failures).await?.secret; // only when the webhook is created
    for delivery in
        namespace.webhook_deliveries("failures", Some(DeliveryState::Dead), None, 100).await?.items
    {
        namespace.replay_delivery("failures", delivery.id).await?;
    }
    let new_secret = namespace.rotate_webhook_secret("failures", Duration::from_secs(3600)).await?;
    // endregion: webhooks
    assert!(secret.is_some() && new_secret.is_some());
    engine.shutdown().await;
    Ok(())
}

/// Follows completions until it is dropped.
async fn follow(namespace: selvedge::Namespace, last: String) -> Result<(), selvedge::Error> {
    // region: events
    use selvedge::events::{EventFilter, From};

    let mut events = namespace.subscribe(EventFilter::completions(), From::Cursor(last)).await?;
    loop {
        let event = events.next().await?;
        println!("{} {:?}", event.kind, event.execution);
        // Store event.cursor with the effect of the event: the next subscription continues there.
    }
    // endregion: events
}

#[tokio::test]
async fn a_subscription_goes_on_from_a_cursor_until_it_is_dropped() -> Result<(), selvedge::Error> {
    let (engine, namespace) = engine().await;
    Submission::new("report").submit(&namespace).await?;
    let mut all = namespace.subscribe(EventFilter::default(), From::Beginning).await?;
    let cursor = all.next().await?.cursor;
    assert!(timeout(Duration::from_millis(50), follow(namespace, cursor)).await.is_err());
    drop(all);
    engine.shutdown().await;
    Ok(())
}

mod transaction {
    //! Compiled only; the tests of `submit_in` are in `tests/worker/transactions.rs`.
    #![allow(dead_code)]
    // region: transaction
    use selvedge::{Error, Submission};

    async fn order(client: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
        let transaction = client.transaction().await?;
        transaction.execute("insert into orders (id) values (7)", &[]).await?;
        Submission::new("ship").input(&7)?.submit_in(&transaction, "default").await?;
        transaction.commit().await?;
        Ok(())
    }

    async fn order_with_sqlx(pool: &sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
        let mut transaction = pool.begin().await?;
        sqlx::query("insert into orders (id) values (7)").execute(&mut *transaction).await?;
        match Submission::new("ship").input(&7)?.submit_in(&mut transaction, "default").await {
            Ok(_) => transaction.commit().await?,
            Err(Error::Invalid(refusal)) => println!("the submission is wrong: {refusal}"),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
    // endregion: transaction
}

#[tokio::test]
async fn three_days_pass_in_milliseconds() -> Result<(), selvedge::Error> {
    // region: tests
    use selvedge::testing::TestEngine;
    use selvedge::{Context, Failure, Submission, Worker};
    use std::time::Duration;

    let three_days = Duration::from_secs(3 * 24 * 3600);
    let test = TestEngine::start().await?;
    let worker = Worker::new(test.namespace().clone(), "w")
        .handler("remind", move |ctx: Context| async move {
            ctx.sleep("three days", three_days).await?;
            Ok::<_, Failure>(())
        })
        .start()?;
    let id = Submission::new("remind").submit(test.namespace()).await?.execution.id;
    test.advance(three_days).await?;
    assert!(test.namespace().result(id, Duration::from_secs(10)).await?.is_some());
    worker.drain().await;
    test.shutdown().await;
    // endregion: tests
    Ok(())
}
