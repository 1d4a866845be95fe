//! The time of the store goes on while the clock of the database is behind: with a clock that tests move, and with a Postgres
//! server whose machine clock steps back.

use selvedge_engine::Options;
use selvedge_engine::core::rules::claim::ClaimDraft;
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::submission::When;
use selvedge_engine::core::{Draft, ExecutionId, Timestamp};
use selvedge_postgres::PostgresStore;
use selvedge_store::{DueReads, Transactions};
use selvedge_system_tests::cluster::Cluster;
use selvedge_system_tests::server::{Server, claim_of};
use selvedge_system_tests::{LONG, PlainConnection, Sandbox, stop, wait_until};
use std::sync::Arc;
use std::time::Instant;

const SECOND_MS: i64 = 1000;
const MINUTE_MS: i64 = 60 * SECOND_MS;
const HOUR_MS: i64 = 60 * MINUTE_MS;

/// A clock that stands still until a test moves it. The search path of the store begins with the schema.
const TEST_CLOCK: &str = "
create table test_clock (at timestamptz not null);
insert into test_clock values (pg_catalog.clock_timestamp());
create function clock_timestamp() returns timestamptz language sql volatile as 'select at from {schema}.test_clock';
";

/// A store whose clock the test moves.
struct Moved {
    sandbox: Sandbox,
    plain: PlainConnection,
    store: Arc<PostgresStore>,
    begun: Timestamp,
}

impl Moved {
    async fn start() -> Moved {
        let sandbox = Sandbox::new();
        sandbox.store("first").await.close().await;
        let plain = sandbox.plain().await;
        plain.run(&TEST_CLOCK.replace("{schema}", &sandbox.schema)).await;
        let store = sandbox.store("store").await;
        let begun = store.now().await.expect("the time is read");
        Moved { sandbox, plain, store, begun }
    }

    async fn move_by(&self, ms: i64) {
        let text = "update test_clock set at = at + $1::bigint * interval '1 millisecond'";
        self.plain.execute(text, &[&ms]).await.expect("the clock is moved");
    }

    /// Returns the time of the store, in milliseconds since the beginning.
    async fn now(&self) -> i64 {
        self.store.now().await.expect("the time is read").millis() - self.begun.millis()
    }

    /// Returns the time of the store and its lead over the clock, as the query of the reconcilers does.
    async fn glance(&self) -> (i64, i64) {
        let overview = self.store.glance().await.expect("the overview is read");
        (overview.now.millis() - self.begun.millis(), overview.ahead_ms)
    }

    async fn bring_forward(&self, ms: i64) -> bool {
        self.store.bring_forward(self.begun.plus_ms(ms)).await.expect("the call is answered")
    }
}

#[tokio::test]
async fn the_time_goes_on_a_tenth_slower_until_the_clock_has_caught_up() {
    let clock = Moved::start().await;
    assert_eq!(clock.glance().await, (0, 0));
    clock.move_by(-20 * SECOND_MS).await;
    assert_eq!(clock.now().await, -20 * SECOND_MS, "nobody has noticed the step");
    assert!(clock.bring_forward(0).await);
    assert_eq!(clock.glance().await, (0, 20 * SECOND_MS));
    let mut before = 0;
    for second in 1..=190 {
        clock.move_by(SECOND_MS).await;
        let (now, ahead) = clock.glance().await;
        assert!((900 * second - 1..=900 * second + 1).contains(&now), "{now} ms after {second} s");
        assert!(now > before && (ahead - (20_000 - 100 * second)).abs() <= 1, "{ahead} ms after {second} s");
        before = now;
    }
    clock.move_by(20 * SECOND_MS).await;
    assert_eq!(clock.glance().await, (190 * SECOND_MS, 0), "the two agree");
    let overview = clock.store.overview().await.expect("the overview is read");
    assert_eq!(overview.ahead_ms, 0);
}

#[tokio::test]
async fn servers_that_notice_the_same_step_bring_the_time_forward_once() {
    let clock = Moved::start().await;
    let other = clock.sandbox.store("other").await;
    clock.move_by(-HOUR_MS).await;
    for _ in 0..3 {
        let both = tokio::join!(
            clock.store.bring_forward(clock.begun.plus_ms(1500)),
            other.bring_forward(clock.begun.plus_ms(1400)),
        );
        assert!(matches!(both, (Ok(true), Ok(true))), "{both:?}");
        assert_eq!(clock.now().await, 1500);
    }
}

#[tokio::test]
async fn a_further_step_back_stops_the_time_for_a_moment_and_never_turns_it_back() {
    let clock = Moved::start().await;
    clock.move_by(-MINUTE_MS).await;
    assert!(clock.bring_forward(0).await);
    clock.move_by(-HOUR_MS).await;
    assert_eq!(clock.glance().await.0, 0);
    clock.move_by(SECOND_MS).await;
    assert_eq!(clock.glance().await, (900, HOUR_MS + MINUTE_MS - 100));
}

#[tokio::test]
async fn a_clock_that_is_set_right_again_makes_nothing_due_early_and_leads_the_time() {
    let clock = Moved::start().await;
    clock.move_by(-HOUR_MS).await;
    assert!(clock.bring_forward(0).await);
    clock.move_by(HOUR_MS).await;
    let (now, ahead) = clock.glance().await;
    assert_eq!((now, ahead), (9 * SECOND_MS, 9 * SECOND_MS), "not an hour");
    // A tenth of the lead is gone after each tenth of the time.
    for _ in 0..90 {
        clock.move_by(SECOND_MS).await;
        clock.glance().await;
    }
    assert_eq!(clock.glance().await, (90 * SECOND_MS, 0));
    clock.move_by(HOUR_MS).await;
    assert_eq!(clock.now().await, HOUR_MS + 90 * SECOND_MS, "from then on the clock alone counts");
}

#[tokio::test]
async fn the_time_outlives_servers_and_waits_for_the_next_one() {
    let clock = Moved::start().await;
    clock.move_by(-HOUR_MS).await;
    assert!(clock.bring_forward(0).await);
    clock.store.close().await;
    clock.move_by(5 * MINUTE_MS).await;
    let store = clock.sandbox.store("next").await;
    let clock = Moved { store, ..clock };
    assert_eq!(clock.glance().await.0, 9 * SECOND_MS);
    clock.move_by(SECOND_MS).await;
    assert_eq!(clock.now().await, 9 * SECOND_MS + 900);
}

#[tokio::test]
async fn a_clock_that_was_days_ahead_is_followed_back() {
    let clock = Moved::start().await;
    clock.move_by(-25 * HOUR_MS).await;
    assert!(!clock.bring_forward(0).await);
    assert_eq!(clock.glance().await, (-25 * HOUR_MS, 0));
}

/// A Postgres server whose processes read their clock through libfaketime, from a file.
fn faked(cluster: &Cluster, offset_s: i64) {
    cluster.write("clock", &format!("{offset_s:+}\n"));
}

async fn fires(server: &Server, id: ExecutionId) {
    wait_until("the delay is over", async || server.state(id).await == StateName::Waiting).await;
}

async fn submit_delayed(server: &Server, delay_ms: i64) -> ExecutionId {
    server
        .submit(Draft { delay: Some(When::AfterMs(delay_ms)), lane: "delayed".into(), ..Draft::new("kind") })
        .await
}

#[tokio::test]
async fn leases_and_delays_go_on_within_seconds_after_the_machine_of_postgres_loses_an_hour() {
    let cluster = Cluster::start_faked();
    let sandbox = Sandbox::on(&cluster.url("postgres"));
    let servers = [
        sandbox.server_with("one", Options::default()).await,
        sandbox.server_with("two", Options::default()).await,
    ];
    let leased = servers[0].submit(Draft::new("kind")).await;
    let brief = ClaimDraft { lease_ttl_ms: 3000, ..claim_of("lost", 1) };
    assert_eq!(servers[0].claim_as(brief).await.len(), 1);
    let delayed = submit_delayed(&servers[1], 3000).await;
    let soon = submit_delayed(&servers[1], 1).await;
    fires(&servers[1], soon).await;
    let (begun, before) = (Instant::now(), servers[0].engine.store_time());
    faked(&cluster, -3600);
    fires(&servers[0], delayed).await;
    let taken =
        wait_until("the lease expires", async || servers[1].state(leased).await == StateName::Waiting);
    taken.await;
    assert!(begun.elapsed() < LONG);
    let read = async |store: &PostgresStore| store.now().await.expect("the time is read");
    let store = sandbox.store("reader").await;
    let passed = read(&store).await.millis() - before.millis();
    let elapsed = begun.elapsed().as_millis() as i64;
    assert!((0..=elapsed + 1000).contains(&passed), "{passed} ms of {elapsed} ms passed");

    // Also for work that is submitted later, and after a restart of the servers and of Postgres.
    stop(servers.iter().map(|server| &server.engine)).await;
    let servers = [sandbox.server_with("three", Options::default()).await];
    let delayed = submit_delayed(&servers[0], 1000).await;
    fires(&servers[0], delayed).await;
    cluster.kill();
    cluster.start_again();
    let mut before = before;
    wait_until("the time is read again", async || match store.now().await {
        Ok(now) => {
            assert!(now >= before);
            before = now;
            true
        }
        Err(_) => false,
    })
    .await;

    // The clock is set right: nothing that is due in half an hour becomes due.
    let servers = [servers[0].clone(), sandbox.server_with("four", Options::default()).await];
    let later = submit_delayed(&servers[1], 30 * MINUTE_MS).await;
    let before = read(&store).await;
    let begun = Instant::now();
    faked(&cluster, 0);
    let soon = submit_delayed(&servers[1], 1000).await;
    fires(&servers[1], soon).await;
    let passed = read(&store).await.millis() - before.millis();
    let elapsed = begun.elapsed().as_millis() as i64;
    assert!((0..=elapsed + 10 * SECOND_MS).contains(&passed), "{passed} ms of {elapsed} ms passed");
    assert_eq!(servers[1].state(later).await, StateName::Delayed);
    stop(servers.iter().map(|server| &server.engine)).await;
}
