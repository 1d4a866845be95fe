//! Many lanes, kinds and expired keys: the number of calls of the store stays bounded.

use crate::test_server::{TestServer, claim_of, ids, passive_options};
use async_trait::async_trait;
use selvedge_engine::core::class::UNPOOLED;
use selvedge_engine::core::gate::GateKind;
use selvedge_engine::core::rules::claim::ClaimDraft;
use selvedge_engine::core::{ClassId, Draft};
use selvedge_engine::store::{Error as StoreError, Interceptor, Transactions};
use selvedge_memory::MemoryStore;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of expired keys that a tick of retention deletes at once.
const KEYS_AT_ONCE: usize = 2_000;

/// Counts some calls, and shows a store with expired keys.
#[derive(Default)]
struct Counts {
    counts: AtomicUsize,
    interns: AtomicUsize,
    expired_keys: AtomicUsize,
    key_pages: AtomicUsize,
}

#[async_trait]
impl Interceptor for Counts {
    async fn before(&self, call: &'static str) -> Result<(), StoreError> {
        let counter = match call {
            "count" | "count_lanes" => &self.counts,
            "intern" => &self.interns,
            "delete_expired_keys" => &self.key_pages,
            _ => return Ok(()),
        };
        counter.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    async fn after(&self, call: &'static str, returned: &mut (dyn Any + Send)) -> Result<(), StoreError> {
        if let ("delete_expired_keys", Some(deleted)) = (call, returned.downcast_mut::<u64>()) {
            let left = self.expired_keys.load(Ordering::Relaxed);
            *deleted = left.min(KEYS_AT_ONCE) as u64;
            self.expired_keys.store(left - left.min(KEYS_AT_ONCE), Ordering::Relaxed);
        }
        Ok(())
    }
}

async fn start() -> (TestServer, Arc<Counts>) {
    let (store, seen) = (MemoryStore::new(), Arc::new(Counts::default()));
    store.meter().intercept(seen.clone());
    (TestServer::new(Arc::new(store), passive_options()).await, seen)
}

fn draft(lane: &str, kind: usize) -> Draft {
    Draft { lane: lane.into(), ..Draft::new(format!("kind {kind}")) }
}

#[tokio::test]
async fn the_lanes_of_a_page_are_counted_by_one_call() {
    let (server, seen) = start().await;
    for lane in 0..300 {
        server.submit(draft(&format!("lane {lane:03}"), 0)).await;
    }
    for kind in 0..UNPOOLED + 10 {
        server.submit(draft("lane 007", kind)).await;
    }
    let claim = ClaimDraft { lanes: vec!["lane 007".into()], ..claim_of("one", 40) };
    assert_eq!(server.claim_as(claim).await.len(), 40);
    seen.counts.store(0, Ordering::Relaxed);
    let (views, more) = server.namespace.gates(GateKind::Lane, None, 100).await.expect("the page is read");
    assert_eq!((views.len(), more), (100, true));
    assert_eq!((views[7].active, views[7].waiting), (40, (UNPOOLED + 11 - 40) as u64));
    assert!(
        views.iter().enumerate().all(|(index, view)| index == 7 || (view.active, view.waiting) == (0, 1))
    );
    assert_eq!(seen.counts.load(Ordering::Relaxed), 1);
    let after = views.last().map(|view| view.gate.name.name.clone());
    let (views, more) =
        server.namespace.gates(GateKind::Lane, after.as_ref(), 500).await.expect("the page is read");
    assert_eq!((views.len(), more), (200, false));
    server.engine.shutdown().await;
}

#[tokio::test]
async fn a_waiting_claim_of_any_kind_is_handed_an_execution_of_a_new_kind_in_a_crowded_lane() {
    let (server, _) = start().await;
    for kind in 0..UNPOOLED + 10 {
        server.submit(draft("crowded", kind)).await;
    }
    let claim = |max| ClaimDraft { lanes: vec!["crowded".into()], ..claim_of("one", max) };
    assert_eq!(server.claim_as(claim(100)).await.len(), UNPOOLED + 10);
    let waiting = server.claim_waiting(claim(1), 1).await;
    let id = server.submit(draft("crowded", UNPOOLED + 5)).await;
    assert_eq!(ids(&waiting.await.expect("the claim does not panic")), [id]);
    let waiting = server.claim_waiting(claim(1), 1).await;
    let id = server.submit(draft("crowded", 1_000)).await;
    assert_eq!(ids(&waiting.await.expect("the claim does not panic")), [id]);
    // One of another kind is not handed over.
    let by_kind = ClaimDraft { kinds: Some(vec!["kind 1".into()]), ..claim(1) };
    let waiting = server.claim_waiting(by_kind, 1).await;
    server.submit(draft("crowded", UNPOOLED + 5)).await;
    let id = server.submit(draft("crowded", 1)).await;
    assert_eq!(ids(&waiting.await.expect("the claim does not panic")), [id]);
    server.engine.shutdown().await;
}

#[tokio::test]
async fn a_server_interns_a_class_that_it_knows_before_it_uses_it_for_the_first_time() {
    let (server, seen) = start().await;
    for _ in 0..3 {
        server.submit(draft("lane", 0)).await;
    }
    assert_eq!(seen.interns.load(Ordering::Relaxed), 1);
    // It reads the class when it starts. That does not record a use, so the class could be removed meanwhile.
    let other = TestServer::new(server.engine.store().clone(), passive_options()).await;
    for _ in 0..3 {
        let id = other.submit(draft("lane", 0)).await;
        assert_eq!(other.row(id).await.class, ClassId(1));
    }
    assert_eq!(seen.interns.load(Ordering::Relaxed), 2);
    assert_eq!(other.tick("unused_classes").await.done, 0, "it is used");
    for server in [server, other] {
        server.engine.shutdown().await;
    }
}

#[tokio::test]
async fn a_tick_of_retention_deletes_keys_until_none_is_left() {
    let (server, seen) = start().await;
    seen.expired_keys.store(1_000_000, Ordering::Relaxed);
    assert_eq!(server.tick("retention").await.done, 1_000_000);
    assert_eq!(seen.key_pages.load(Ordering::Relaxed), 501);
    assert_eq!(server.tick("retention").await.done, 0);
    server.engine.shutdown().await;
}
