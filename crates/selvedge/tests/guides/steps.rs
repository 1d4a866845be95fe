//! The guide to steps: a charge that runs once, a durable sleep and a signal.

use selvedge::testing::TestEngine;
use selvedge::{Context, Error, Failure, Signal, Submission, Worker};
use std::sync::Mutex;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// The keys with which the payment service was called.
static CHARGES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Stands for the payment service, which recognises a repeated key.
async fn charge(cents: u32, key: String) -> Result<String, Failure> {
    CHARGES.lock().expect("no test panicked").push(key);
    Ok(format!("receipt for {cents}"))
}

// region: order
async fn order(ctx: Context) -> Result<String, Failure> {
    let cents: u32 = ctx.input()?;
    let receipt = ctx.step("charge", || charge(cents, ctx.step_key("charge"))).await?;
    if ctx.attempt() == 0 {
        return Err(Failure::transient("the warehouse does not answer")); // the retry does not charge again
    }
    ctx.sleep("cooling-off", DAY).await?;
    let packed = ctx.wait_for_signal("packing", "packed").timeout(14 * DAY).await?;
    match packed.signal() {
        Some(packed) => Ok(format!("{receipt}, packed by {}", packed.source)),
        None => Err(Failure::permanent("nobody packed the order")),
    }
}
// endregion: order

#[tokio::test]
async fn an_order_is_charged_once_although_its_handler_runs_four_times() -> Result<(), Error> {
    let test = TestEngine::start().await?;
    let namespace = test.namespace();
    let worker = Worker::new(namespace.clone(), "shop").handler("order", order).start()?;
    let id = Submission::new("order").input(&990)?.submit(namespace).await?.execution.id;
    test.advance(2 * DAY).await?;
    // region: signal
    Signal::new("packed").source("ada").send(namespace, id).await?;
    // endregion: signal
    let ended = namespace.result(id, Duration::from_secs(30)).await?.expect("the order ends");
    assert_eq!(ended.json::<String>()?, "receipt for 990, packed by ada");
    assert_eq!(*CHARGES.lock().expect("no test panicked"), [format!("{id}/charge")]);
    assert_eq!(namespace.get(id).await?.attempts, 4);
    worker.drain().await;
    test.shutdown().await;
    Ok(())
}
