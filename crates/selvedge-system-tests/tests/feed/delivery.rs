//! Delivery: whatever the writers do and however often a subscriber reconnects, it receives every event once, and all
//! subscribers receive them in the same order.

use selvedge_engine::core::Draft;
use selvedge_engine::{EventFilter, From, Notice};
use selvedge_postgres::Settings;
use selvedge_system_tests::feed_load::{LoadPlan, run_load};
use selvedge_system_tests::server::{Server, passive_options};
use selvedge_system_tests::{LONG, Sandbox, stop};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn slow_subscribers_that_reconnect_receive_every_event_once_in_one_order_from_sixteen_writers() {
    let sandbox = Sandbox::new();
    let outcome = run_load(&sandbox, LoadPlan { rounds: 100, ..LoadPlan::default() }, async {}).await;
    outcome.holds();
    let (held, undone) = outcome.disturbed;
    assert!(held > 50 && undone > 5, "{held} transactions stayed open, {undone} rolled back");
}

/// Makes transactions of the slow server wait for a lock between their number and their commit.
const WAIT: &str = "
create function wait() returns trigger language plpgsql as $$
begin
  if current_setting('application_name') like '%\\_slow' then
    perform pg_advisory_xact_lock(42, 0);
  end if;
  return null;
end
$$;
create trigger wait after insert on log for each row execute function wait();
";

#[tokio::test]
async fn an_event_committed_after_a_subscription_from_now_is_delivered_even_with_the_lowest_number() {
    let sandbox = Sandbox::new();
    let quick = sandbox.server("quick").await;
    let settings = Settings { lock_timeout: LONG, ..sandbox.settings() };
    let slow = Server::new(sandbox.store_with("slow", settings).await, passive_options()).await;
    let plain = sandbox.plain().await;
    plain.run(WAIT).await;
    plain.run("begin; select pg_advisory_xact_lock(42, 0)").await;
    let first = tokio::spawn({
        let slow = slow.clone();
        async move { slow.submit(Draft::new("kind")).await }
    });
    sandbox.waits_for_lock("slow", 1).await;
    let second = quick.submit(Draft::new("other")).await;
    let subscribed = quick.namespace.subscribe(EventFilter::default(), From::Now).await;
    let mut subscription = subscribed.expect("the subscription starts");
    plain.release().await;
    let first = first.await.expect("the request is accepted");
    let mut received = Vec::new();
    while received.last() != Some(&Some(second)) {
        match tokio::time::timeout(LONG, subscription.next()).await.expect("the read succeeds") {
            Some(Notice::Event(event)) => received.push(event.execution),
            other => panic!("not an event: {other:?}"),
        }
    }
    assert_eq!(received, [Some(first), Some(second)]);
    stop([&quick.engine, &slow.engine]).await;
}
