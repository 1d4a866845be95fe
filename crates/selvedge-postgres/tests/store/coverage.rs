//! Servers tell each other which namespaces their reconcilers handle.

use selvedge_engine::core::Name;
use selvedge_engine::store::{NamespaceStore, Transactions};
use selvedge_engine::{Options, ReconcilerScope};
use selvedge_system_tests::server::passive_options;
use selvedge_system_tests::{Sandbox, stop, wait_until};
use std::time::Duration;

/// Options of a server whose reconcilers handle a scope, and do nothing during a test.
fn options(scope: ReconcilerScope) -> Options {
    Options { reconcilers: true, scope, ..passive_options() }
}

#[tokio::test]
async fn an_announcement_lasts_as_long_as_its_session() {
    let sandbox = Sandbox::new();
    let (a, b) = (sandbox.store("a").await, sandbox.store("b").await);
    let namespace = a.namespace(&Name::trusted("some")).await.expect("the namespace is created");
    assert_eq!(b.coverage().await.expect("it is read"), []);
    let one = tokio::spawn({
        let a = a.clone();
        async move { a.announce_coverage(Some(namespace)).await }
    });
    wait_until("the announcement is seen", async || {
        b.coverage().await.expect("it is read") == [Some(namespace)]
    })
    .await;
    let all = tokio::spawn({
        let b = b.clone();
        async move { b.announce_coverage(None).await }
    });
    wait_until("both announcements are seen", async || {
        let mut seen = a.coverage().await.expect("it is read");
        seen.sort_unstable();
        seen == [None, Some(namespace)]
    })
    .await;
    one.abort();
    wait_until("one has ended", async || a.coverage().await.expect("it is read") == [None]).await;
    // Another schema of the same database has announcements of its own.
    let other = Sandbox::new();
    assert_eq!(other.store("c").await.coverage().await.expect("it is read"), []);
    // A session that is cut off begins anew.
    let plain = sandbox.plain().await;
    let cut = "select count(pg_terminate_backend(pid)) from pg_locks \
               where locktype = 'advisory' and objsubid = 2 and objid = 4294967295 \
                 and classid = (select (oid::bigint # 1129272914)::oid from pg_namespace where nspname = $1)";
    assert_eq!(plain.number(cut, &[&sandbox.schema]).await, 1);
    wait_until("it was announced again", async || {
        plain.number(cut, &[&sandbox.schema]).await == 1 && a.coverage().await.is_ok()
    })
    .await;
    all.abort();
    a.close().await;
    b.close().await;
}

#[tokio::test]
async fn a_restricted_server_knows_the_namespaces_that_no_server_handles() {
    let sandbox = Sandbox::new();
    let store = sandbox.store("names").await;
    let mut ids = Vec::new();
    for name in ["one", "two", "three"] {
        ids.push(store.namespace(&Name::trusted(name)).await.expect("the namespace is created"));
    }
    let only = |index: usize| ReconcilerScope { namespace: Some(ids[index]), ..ReconcilerScope::default() };
    let one = sandbox.server_with("one", options(only(0))).await;
    // Without the namespace that every server of these tests creates.
    let uncovered = async || {
        let names = one.engine.uncovered_namespaces().await.expect("they are read");
        let names = names.iter().map(|name| name.as_str().to_owned());
        names.filter(|name| name == "one" || name == "two" || name == "three").collect::<Vec<String>>()
    };
    wait_until("one is covered", async || uncovered().await == ["three", "two"]).await;
    let two = sandbox.server_with("two", options(only(1))).await;
    wait_until("two is covered", async || uncovered().await == ["three"]).await;
    let tag = Some(("team".to_owned(), "a".to_owned()));
    let tagged = options(ReconcilerScope { tag, ..ReconcilerScope::default() });
    let tagged = sandbox.server_with("tagged", tagged).await;
    let everything = sandbox.server_with("all", options(ReconcilerScope::default())).await;
    assert!(everything.engine.uncovered_namespaces().await.expect("they are read").is_empty());
    wait_until("everything is covered", async || uncovered().await.is_empty()).await;
    stop([&everything.engine]).await;
    wait_until("three is uncovered, as a tag covers nothing", async || uncovered().await == ["three"]).await;
    stop([&one.engine, &two.engine, &tagged.engine]).await;
    tokio::time::timeout(Duration::from_secs(30), store.close()).await.expect("the store is closed");
}
