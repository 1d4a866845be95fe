//! The feed next to foreign transactions, and across a crash of the database: it is not delayed, and loses and repeats
//! nothing.

use selvedge_engine::core::Draft;
use selvedge_engine::{EventFilter, From, Notice, Options, Subscription};
use selvedge_system_tests::cluster::Cluster;
use selvedge_system_tests::feed::{FaultyReader, FaultyReading};
use selvedge_system_tests::feed_load::{LoadPlan, run_load};
use selvedge_system_tests::server::{Server, passive_options};
use selvedge_system_tests::{PlainConnection, Sandbox, WRITERS_KEY, stop, wait_until};
use std::time::{Duration, Instant};

/// The longest latency of an event, on a busy machine.
const SOON: Duration = Duration::from_secs(3);

/// A transaction of another program that has written and stays open.
struct ForeignTransaction {
    plain: PlainConnection,
    transaction: i64,
}

const TRANSACTION: &str = "select pg_current_xact_id()::text::bigint";

impl ForeignTransaction {
    async fn open(sandbox: &Sandbox) -> ForeignTransaction {
        let plain = sandbox.plain().await;
        plain
            .run("begin isolation level repeatable read; create table public.foreign_to_us (a integer)")
            .await;
        let transaction = plain.number(TRANSACTION, &[]).await;
        ForeignTransaction { plain, transaction }
    }

    /// Asserts that the transaction stayed open, and ends it.
    async fn end(self) {
        assert_eq!(self.plain.number(TRANSACTION, &[]).await, self.transaction, "it is still open");
        self.plain.release().await;
    }
}

async fn subscribe(server: &Server) -> Subscription {
    server.namespace.subscribe(EventFilter::default(), From::Now).await.expect("the subscription starts")
}

/// Draws a number and rolls back, which leaves a gap in the log.
async fn leave_gap(plain: &PlainConnection) {
    plain.run(&format!("begin; select pg_advisory_xact_lock_shared({WRITERS_KEY})")).await;
    plain.run("insert into log (at, body) values (clock_timestamp(), ''); rollback").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_foreign_transaction_here_or_in_another_database_does_not_delay_the_feed() {
    let cluster = Cluster::start();
    let (sandbox, elsewhere) =
        (Sandbox::on(&cluster.url("postgres")), Sandbox::on(&cluster.url("template1")));
    let foreign = [ForeignTransaction::open(&sandbox).await, ForeignTransaction::open(&elsewhere).await];
    let outcome = run_load(&sandbox, LoadPlan { rounds: 8, ..LoadPlan::default() }, async {}).await;
    outcome.holds();
    let plain = sandbox.plain().await;
    plain.run("drop trigger hold on log").await;
    let notified =
        sandbox.server_with("notified", Options { notifications: true, ..passive_options() }).await;
    let polling = sandbox.server("polling").await;
    let mut subscriptions = [subscribe(&notified).await, subscribe(&polling).await];
    for _ in 0..5 {
        leave_gap(&plain).await;
        let since = Instant::now();
        let id = notified.submit(Draft::new("kind")).await;
        for subscription in &mut subscriptions {
            let notice =
                tokio::time::timeout(SOON, subscription.next()).await.expect("the event arrives in time");
            let came = matches!(&notice, Some(Notice::Event(event)) if event.execution == Some(id));
            assert!(came, "{notice:?}");
        }
        assert!(since.elapsed() < SOON, "{:?}", since.elapsed());
    }
    // The same test detects a reader by transactions: it has received nothing of all this.
    let mut by_transactions = FaultyReader::new(FaultyReading::BelowXmin, &sandbox).await;
    assert_eq!(by_transactions.read().await, []);
    for foreign in foreign {
        foreign.end().await;
    }
    wait_until("the reader by transactions continues", async || !by_transactions.read().await.is_empty())
        .await;
    stop([&notified.engine, &polling.engine]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn slow_a_feed_continues_after_postgres_was_killed_and_no_delivered_event_is_undone() {
    let cluster = Cluster::start();
    let sandbox = Sandbox::on(&cluster.url("postgres"));
    let plan = LoadPlan { rounds: 8, ..LoadPlan::default() };
    let outcome = run_load(&sandbox, plan, async {
        for _ in 0..2 {
            // Transactions are open when the database dies, and entries are written after it has restarted.
            let plain = sandbox.plain().await;
            let entries = "select count(*) from log";
            let before = plain.number(entries, &[]).await;
            wait_until("more entries are written", async || plain.number(entries, &[]).await > before + 40)
                .await;
            cluster.kill();
            cluster.start_again();
        }
    })
    .await;
    outcome.holds();
    let breaks: usize = outcome.subscribers.iter().map(|received| received.breaks).sum();
    assert!(breaks > 0, "the subscribers noticed the crash");
}
