//! Connections that swallow data: no call hangs, and the next one gets a connection that works.

use futures_util::future::join_all;
use selvedge_conformance::fault_proxy::{Fault, FaultProxy, Reach};
use selvedge_engine::Options;
use selvedge_engine::core::Draft;
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::submission::When;
use selvedge_engine::core::{Class, Name};
use selvedge_engine::store::{ClassStore, DueReads, Error, NamespaceStore, Notification, Transactions};
use selvedge_postgres::{PostgresStore, Settings};
use selvedge_system_tests::server::{Server, passive_options};
use selvedge_system_tests::{LONG, Sandbox, wait_until};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Returns settings with deadlines that are short, but longer than a busy disk stalls.
fn impatient(sandbox: &Sandbox) -> Settings {
    Settings {
        lock_timeout: Duration::from_millis(600),
        statement_timeout: Duration::from_millis(1200),
        answer_timeout: Duration::from_millis(2500),
        connect_timeout: Duration::from_millis(2500),
        listen_check: Duration::from_millis(100),
        ..sandbox.settings()
    }
}

/// The longest that a call or a recovery may take with these settings, on a busy machine.
const SOON: Duration = Duration::from_secs(20);

async fn store_behind(url: &str, sandbox: &Sandbox) -> Arc<PostgresStore> {
    let store = PostgresStore::connect_with(url, impatient(sandbox)).await;
    Arc::new(store.expect("the store opens"))
}

/// Starts a server behind a proxy, with several open connections.
async fn server_behind(sandbox: &Sandbox, options: Options) -> (FaultProxy, Server) {
    let (proxy, url) = FaultProxy::start_for(&sandbox.url("proxied")).await;
    let server = Server::new(store_behind(&url, sandbox).await, options).await;
    join_all((0..20).map(|_| server.submit(Draft::new("kind")))).await;
    (proxy, server)
}

async fn soon<T>(call: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, call).await.expect("the call returns in time")
}

#[tokio::test]
async fn submissions_and_reads_continue_soon_after_their_connections_swallowed_data() {
    let sandbox = Sandbox::new();
    let (proxy, server) = server_behind(&sandbox, passive_options()).await;
    for _ in 0..2 {
        proxy.inject(Fault::Swallow, Reach::Existing);
        let since = Instant::now();
        let opened = proxy.accepted();
        // The engine retries, on a new connection.
        let id = soon(server.submit(Draft::new("kind"))).await;
        assert!(proxy.accepted() > opened, "the connection was silent");
        // The silence of one connection has made all others suspect, those for reads too.
        let state = soon(server.state(id)).await;
        assert_eq!(state, StateName::Waiting);
        assert!(since.elapsed() < SOON, "{:?}", since.elapsed());
    }
    server.engine.shutdown().await;
}

#[tokio::test]
async fn a_read_alone_notices_that_its_connection_swallows_data() {
    let sandbox = Sandbox::new();
    let (proxy, url) = FaultProxy::start_for(&sandbox.url("proxied")).await;
    let store = store_behind(&url, &sandbox).await;
    store.ping().await.expect("the store answers");
    proxy.inject(Fault::Swallow, Reach::Existing);
    let answer = soon(store.ping()).await;
    assert!(matches!(answer, Err(Error::Unavailable(_))), "{answer:?}");
    soon(store.ping()).await.expect("a new connection answers");
    store.close().await;
}

#[tokio::test]
async fn a_connection_that_cannot_be_set_up_is_given_up_in_time() {
    let sandbox = Sandbox::new();
    let (proxy, url) = FaultProxy::start_for(&sandbox.url("proxied")).await;
    let store = store_behind(&url, &sandbox).await;
    proxy.inject(Fault::Swallow, Reach::All);
    // The first call finds the silent connection, the others cannot open a new one.
    for _ in 0..3 {
        let answer = soon(store.ping()).await;
        assert!(matches!(answer, Err(Error::Unavailable(_))), "{answer:?}");
    }
    proxy.inject(Fault::Swallow, Reach::Existing);
    soon(store.ping()).await.expect("a new connection answers");
    let opened = soon(async {
        proxy.inject(Fault::Swallow, Reach::All);
        PostgresStore::connect_with(&url, impatient(&sandbox)).await
    })
    .await;
    assert!(matches!(opened.err(), Some(Error::Unavailable(_))), "a store does not open on it");
    store.close().await;
}

#[tokio::test]
async fn a_call_that_finds_no_free_connection_is_refused_in_time() {
    let sandbox = Sandbox::new();
    let settings =
        Settings { background: 1, lock_timeout: LONG, answer_timeout: LONG, ..impatient(&sandbox) };
    let store = sandbox.store_with("store", settings).await;
    let namespace = store.namespace(&Name::trusted("default")).await.expect("it is created");
    let plain = sandbox.plain().await;
    plain.run("begin; lock table classes in access exclusive mode").await;
    let name = || Name::trusted("name");
    let class = Class { namespace, lane: name(), kind: name(), capabilities: [].into(), pool: None };
    let interning = tokio::spawn({
        let store = store.clone();
        async move { store.intern(&[class]).await }
    });
    sandbox.waits_for_lock("store", 1).await;
    let answer = soon(store.overview()).await;
    assert!(matches!(answer, Err(Error::Unavailable(_))), "{answer:?}");
    plain.release().await;
    interning.await.expect("the task does not panic").expect("the class is interned");
    store.overview().await.expect("the connection is free again");
    store.close().await;
}

#[tokio::test]
async fn a_listener_whose_connection_swallows_data_listens_again() {
    let sandbox = Sandbox::new();
    let (proxy, url) = FaultProxy::start_for(&sandbox.url("proxied")).await;
    let (sender, receiver) = (sandbox.store("sender").await, store_behind(&url, &sandbox).await);
    let notification = Notification { logged: true, ..Notification::default() };
    for _ in 0..2 {
        let received = tokio::spawn({
            let receiver = receiver.clone();
            async move { receiver.next_notification().await }
        });
        wait_until("the notification arrives", async || {
            sender.notify(notification.clone()).await.expect("the notification is sent");
            received.is_finished()
        })
        .await;
        proxy.inject(Fault::Swallow, Reach::Existing);
    }
    receiver.close().await;
    sender.close().await;
}

#[tokio::test]
async fn reconcilers_continue_soon_after_their_connections_swallowed_data() {
    let sandbox = Sandbox::new();
    let options = Options { reconcilers: true, ..passive_options() };
    let (proxy, server) = server_behind(&sandbox, options).await;
    let id = server.submit(Draft { delay: Some(When::AfterMs(1500)), ..Draft::new("kind") }).await;
    proxy.inject(Fault::Swallow, Reach::Existing);
    let observer = sandbox.server("observer").await;
    let since = Instant::now();
    wait_until("the delay is over", async || observer.state(id).await == StateName::Waiting).await;
    assert!(since.elapsed() < 2 * SOON, "{:?}", since.elapsed());
    server.engine.shutdown().await;
    observer.engine.shutdown().await;
}

#[tokio::test]
async fn a_shutdown_ends_within_its_grace_period_although_all_connections_swallow_data() {
    let sandbox = Sandbox::new();
    let grace = Duration::from_secs(1);
    let settings = Settings { answer_timeout: LONG, ..impatient(&sandbox) };
    let (proxy, url) = FaultProxy::start_for(&sandbox.url("proxied")).await;
    let store = PostgresStore::connect_with(&url, settings).await.expect("the store opens");
    let options = Options { reconcilers: true, notifications: true, grace, ..passive_options() };
    let server = Server::new(Arc::new(store), options).await;
    server.submit(Draft::new("kind")).await;
    proxy.inject(Fault::Swallow, Reach::All);
    let stuck = server.clone();
    let submit = tokio::spawn(async move { stuck.namespace.submit(Draft::new("kind")).await });
    tokio::task::yield_now().await;
    let since = Instant::now();
    server.engine.shutdown().await;
    assert!(since.elapsed() < grace * 2, "{:?}", since.elapsed());
    submit.abort();
}
