//! The feed while others are in the way, or the database dies: it is not held back, and nobody is told too little or too much.

mod support;

use selvedge_engine::core::Draft;
use selvedge_engine::{EventFilter, From, Notice, Options, Subscription};
use std::time::{Duration, Instant};
use support::cluster::Cluster;
use support::feed::{Planted, PlantedReader};
use support::storm::{Plan, storm};
use support::test_server::{TestServer, passive_options};
use support::{Plain, Sandbox, WRITERS_KEY, stop, until};

/// How long an event may take to its subscribers, also on a machine that is busy.
const SOON: Duration = Duration::from_secs(3);

/// A transaction of somebody else that has written and stays open.
struct Foreign {
    plain: Plain,
    transaction: i64,
}

const TRANSACTION: &str = "select pg_current_xact_id()::text::bigint";

impl Foreign {
    async fn open(sandbox: &Sandbox) -> Foreign {
        let plain = sandbox.plain().await;
        plain
            .run("begin isolation level repeatable read; create table public.foreign_to_us (a integer)")
            .await;
        let transaction = plain.number(TRANSACTION, &[]).await;
        Foreign { plain, transaction }
    }

    /// Asserts that it was open all the time, and ends it.
    async fn end(self) {
        assert_eq!(self.plain.number(TRANSACTION, &[]).await, self.transaction, "it is still open");
        self.plain.release().await;
    }
}

async fn subscribe(side: &TestServer) -> Subscription {
    side.namespace.subscribe(EventFilter::default(), From::Now).await.expect("it is subscribed")
}

/// Draws a number for nothing, so that there is a gap that must be passed.
async fn leave_gap(plain: &Plain) {
    plain.run(&format!("begin; select pg_advisory_xact_lock_shared({WRITERS_KEY})")).await;
    plain.run("insert into log (at, body) values (clock_timestamp(), ''); rollback").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_foreign_transaction_here_or_in_another_database_does_not_hold_the_feed_back() {
    let cluster = Cluster::start();
    let (sandbox, elsewhere) =
        (Sandbox::on(&cluster.url("postgres")), Sandbox::on(&cluster.url("template1")));
    let foreign = [Foreign::open(&sandbox).await, Foreign::open(&elsewhere).await];
    let outcome = storm(&sandbox, Plan { rounds: 8, ..Plan::default() }, async {}).await;
    outcome.holds();
    let plain = sandbox.plain().await;
    plain.run("drop trigger hold on log").await;
    let told = sandbox.side_with("told", Options { notifications: true, ..passive_options() }).await;
    let untold = sandbox.side("untold").await;
    let mut subscriptions = [subscribe(&told).await, subscribe(&untold).await];
    for _ in 0..5 {
        leave_gap(&plain).await;
        let since = Instant::now();
        let id = told.submit(Draft::new("kind")).await;
        for subscription in &mut subscriptions {
            let notice = tokio::time::timeout(SOON, subscription.next()).await.expect("it comes soon");
            let came = matches!(&notice, Some(Notice::Event(event)) if event.execution == Some(id));
            assert!(came, "{notice:?}");
        }
        assert!(since.elapsed() < SOON, "{:?}", since.elapsed());
    }
    // The same check finds out whoever goes by transactions: it has seen nothing of all this.
    let mut by_transactions = PlantedReader::new(Planted::BelowXmin, &sandbox).await;
    assert_eq!(by_transactions.read().await, []);
    for foreign in foreign {
        foreign.end().await;
    }
    until("who goes by transactions goes on", async || !by_transactions.read().await.is_empty()).await;
    stop([&told.engine, &untold.engine]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn slow_a_feed_goes_on_after_postgres_was_killed_and_nothing_of_it_has_unhappened() {
    let cluster = Cluster::start();
    let sandbox = Sandbox::on(&cluster.url("postgres"));
    let plan = Plan { rounds: 8, ..Plan::default() };
    let outcome = storm(&sandbox, plan, async {
        for _ in 0..2 {
            // Something is under way when it dies, and something is written after it came back.
            let plain = sandbox.plain().await;
            let entries = "select count(*) from log";
            let before = plain.number(entries, &[]).await;
            until("it is written on", async || plain.number(entries, &[]).await > before + 40).await;
            cluster.kill();
            cluster.start_again();
        }
    })
    .await;
    outcome.holds();
    let breaks: usize = outcome.subscribers.iter().map(|seen| seen.breaks).sum();
    assert!(breaks > 0, "the subscribers noticed");
}
