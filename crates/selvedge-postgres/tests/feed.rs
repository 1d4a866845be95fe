//! The feed on Postgres: whatever the writers do and however often a subscriber goes and comes again, it is told every
//! event once, in one order for everybody.

mod support;

use selvedge_engine::core::Draft;
use selvedge_engine::{EventFilter, From, Notice};
use selvedge_postgres::Settings;
use support::storm::{Plan, storm};
use support::test_server::{TestServer, passive_options};
use support::{LONG, Sandbox, stop};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn slow_subscribers_that_go_and_come_again_are_told_everything_once_in_one_order_while_sixteen_write() {
    let sandbox = Sandbox::new();
    let outcome = storm(&sandbox, Plan { rounds: 100, ..Plan::default() }, async {}).await;
    outcome.holds();
    let (held, undone) = outcome.disturbed;
    assert!(held > 50 && undone > 5, "{held} transactions were held open, {undone} undone");
}

/// Makes transactions of the slow engine wait for a lock between their number and their commit.
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
async fn what_is_committed_after_a_subscription_from_now_is_told_also_where_its_number_is_the_lowest() {
    let sandbox = Sandbox::new();
    let quick = sandbox.side("quick").await;
    let settings = Settings { lock_timeout: LONG, ..sandbox.settings() };
    let slow = TestServer::new(sandbox.store_with("slow", settings).await, passive_options()).await;
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
    let mut subscription = subscribed.expect("it is subscribed");
    plain.release().await;
    let first = first.await.expect("it is accepted");
    let mut told = Vec::new();
    while told.last() != Some(&Some(second)) {
        match tokio::time::timeout(LONG, subscription.next()).await.expect("it is told") {
            Some(Notice::Event(event)) => told.push(event.execution),
            other => panic!("{other:?} is no event"),
        }
    }
    assert_eq!(told, [Some(first), Some(second)]);
    stop([&quick.engine, &slow.engine]).await;
}
