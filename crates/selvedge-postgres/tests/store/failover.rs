//! Failover to a promoted standby. A synchronous one has everything that was acknowledged. An asynchronous one may have lost the
//! last commits: then no server works on with what never was.

use futures_util::future::join_all;
use selvedge_conformance::fault_proxy::{Fault, FaultProxy, Reach};
use selvedge_engine::core::rules::claim::ClaimDraft;
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::{Draft, ExecutionId};
use selvedge_engine::{Error, EventFilter, From, PublicEvent};
use selvedge_postgres::PostgresStore;
use selvedge_system_tests::cluster::Cluster;
use selvedge_system_tests::server::{Server, claim_of, claim_wait, complete_op, fence, ids, passive_options};
use selvedge_system_tests::{PlainConnection, Sandbox, wait_until};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The longest that a failover may stop a server.
const PROGRESS: Duration = Duration::from_secs(20);

/// A primary, its standby, and an address that leads to one of them.
struct Pair {
    primary: Arc<Cluster>,
    standby: Arc<Cluster>,
    sandbox: Sandbox,
    proxy: FaultProxy,
    url: String,
}

impl Pair {
    async fn start() -> Pair {
        let primary = Cluster::start();
        let standby = primary.standby();
        let sandbox = Sandbox::on(&primary.url("postgres"));
        let (proxy, url) = FaultProxy::start_for(&sandbox.url("server")).await;
        Pair { primary: Arc::new(primary), standby: Arc::new(standby), sandbox, proxy, url }
    }

    /// Starts a server behind the address.
    async fn server(&self) -> Server {
        let store = PostgresStore::connect_with(&self.url, self.sandbox.settings()).await;
        Server::new(Arc::new(store.expect("the store opens")), passive_options()).await
    }

    async fn on_primary(&self) -> PlainConnection {
        self.sandbox.plain().await
    }

    async fn on_standby(&self) -> PlainConnection {
        PlainConnection::connect(&self.standby.url("postgres"), &self.sandbox.schema).await
    }

    /// Waits until the standby has replayed everything.
    async fn catch_up(&self) {
        let primary = self.on_primary().await;
        let behind = "select count(*) from pg_stat_replication where replay_lsn >= pg_current_wal_lsn()";
        wait_until("the standby is level", async || primary.number(behind, &[]).await == 1).await;
    }

    /// Ends the replication: later commits exist on the primary alone.
    async fn disconnect(&self) {
        let standby = self.on_standby().await;
        standby.run("alter system set primary_conninfo = ''").await;
        standby.run("select pg_reload_conf()").await;
        let receivers = "select count(*) from pg_stat_wal_receiver";
        wait_until("the standby is alone", async || standby.number(receivers, &[]).await == 0).await;
    }

    /// Kills the primary, and leads the address to the promoted standby.
    async fn fail_over(&self) {
        let (primary, standby) = (self.primary.clone(), self.standby.clone());
        let promoted = tokio::task::spawn_blocking(move || {
            primary.kill();
            standby.promote();
        });
        promoted.await.expect("the standby is promoted");
        self.proxy.redirect(&self.standby.address());
        self.proxy.inject(Fault::Drop, Reach::Existing);
    }
}

/// Calls again while the store is unavailable.
async fn retried<T>(mut call: impl AsyncFnMut() -> Result<T, Error>) -> T {
    let deadline = Instant::now() + PROGRESS;
    loop {
        match call().await {
            Ok(done) => return done,
            Err(Error::Store(error)) => assert!(Instant::now() < deadline, "{error}"),
            Err(other) => panic!("{other}"),
        }
    }
}

fn in_lane(lane: &str) -> Draft {
    Draft { id: Some(uuid::Uuid::now_v7()), lane: lane.into(), ..Draft::new("kind") }
}

async fn submit(server: &Server, draft: Draft) -> ExecutionId {
    retried(async || server.namespace.submit(draft.clone()).await).await.execution.id
}

async fn claim(server: &Server, lane: &str) -> Vec<ExecutionId> {
    let claim = ClaimDraft { lanes: vec![lane.into()], ..claim_of("instance", 100) };
    ids(&retried(async || server.namespace.claim(claim_wait(claim.clone(), Duration::ZERO)).await).await)
}

async fn events(server: &Server, from: From) -> Result<Vec<PublicEvent>, Error> {
    let page = server.namespace.events(&EventFilter::default(), from, usize::MAX).await;
    page.map(|page| page.items)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_a_promoted_synchronous_standby_has_everything_that_was_acknowledged() {
    let pair = Pair::start().await;
    let primary = pair.on_primary().await;
    primary.run("alter system set synchronous_standby_names = '*'").await;
    primary.run("select pg_reload_conf()").await;
    let synchronous = "select count(*) from pg_stat_replication where sync_state = 'sync'";
    wait_until("the standby is synchronous", async || primary.number(synchronous, &[]).await == 1).await;
    let server = pair.server().await;

    // Submits until the failover is over.
    let is_over = AtomicBool::new(false);
    let submitting = join_all((0..4).map(async |_| {
        let mut acknowledged = Vec::new();
        while !is_over.load(Ordering::SeqCst) {
            acknowledged.push(submit(&server, in_lane("default")).await);
        }
        acknowledged
    }));
    let failing_over = async {
        let count = "select count(*) from executions";
        wait_until("work is submitted", async || primary.number(count, &[]).await > 100).await;
        let since = Instant::now();
        pair.fail_over().await;
        let standby = pair.on_standby().await;
        let before = standby.number(count, &[]).await;
        wait_until("work is submitted again", async || standby.number(count, &[]).await > before + 100).await;
        assert!(since.elapsed() < PROGRESS, "{:?}", since.elapsed());
        is_over.store(true, Ordering::SeqCst);
    };
    let (acknowledged, ()) = tokio::join!(submitting, failing_over);
    let acknowledged: BTreeSet<ExecutionId> = acknowledged.into_iter().flatten().collect();
    let mut claimed = BTreeSet::new();
    wait_until("everything is claimed", async || {
        let more = claim(&server, "default").await;
        let is_empty = more.is_empty();
        claimed.extend(more);
        is_empty
    })
    .await;
    assert_eq!(claimed, acknowledged, "each acknowledged submission is there once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_after_a_failover_that_lost_commits_no_server_works_with_what_was_lost() {
    let pair = Pair::start().await;
    let server = pair.server().await;
    let kept = submit(&server, in_lane("kept")).await;
    let claimed_kept = submit(&server, in_lane("default")).await;
    pair.catch_up().await;
    pair.disconnect().await;
    let kept_events = events(&server, From::Beginning).await.expect("the log is read");

    // Lost: a lease of a row that is kept, a whole execution, two classes, and entries of the log.
    let lease = server.claim_one("instance").await;
    assert_eq!(lease.execution.id, claimed_kept);
    let lost = submit(&server, in_lane("lost")).await;
    let lost_too = submit(&server, in_lane("lost too")).await;
    let last = events(&server, From::Beginning).await.expect("the log is read").pop().expect("it has events");
    pair.fail_over().await;

    // A cached lease is not believed.
    let report = || vec![Ok((fence(&lease), None, complete_op()))];
    let (mut results, _) = retried(async || server.namespace.report(report(), None).await).await;
    let done = results.remove(0);
    assert!(done.is_err(), "{done:?}");
    assert_eq!(server.state(claimed_kept).await, StateName::Waiting);
    for id in [lost, lost_too] {
        assert!(server.is_deleted(id).await);
    }

    // A cursor beyond the end is refused, also once others have used its number; a kept one continues.
    let expect_unknown = async |what: &str| {
        let read = events(&server, From::Cursor(last.cursor.clone())).await;
        assert!(matches!(read, Err(Error::CursorUnknown)), "{what}: {read:?}");
    };
    expect_unknown("beyond the end").await;
    let mut other = Vec::new();
    for number in 0..10 {
        other.push(submit(&server, in_lane(&format!("other {number}"))).await);
    }
    expect_unknown("of another entry").await;
    let cursor = kept_events.last().expect("the log has events").cursor.clone();
    let later = events(&server, From::Cursor(cursor)).await.expect("the cursor is known");
    assert_eq!(later.iter().filter_map(|event| event.execution).collect::<Vec<_>>(), other);

    // No lane gets the work of another one, from this server or from a new one.
    let restarted = pair.server().await;
    for server in [&server, &restarted] {
        assert_eq!(claim(server, "lost").await, []);
        assert_eq!(claim(server, "lost too").await, []);
    }
    assert_eq!(claim(&restarted, "kept").await, [kept]);
    for (number, id) in other.into_iter().enumerate() {
        let server = [&server, &restarted][number % 2];
        assert_eq!(claim(server, &format!("other {number}")).await, [id]);
    }
}
