//! Tests of the engine on the memory store, most of them on a clock that only the test advances.

mod admission;
mod altered_log;
mod cancel;
mod explain;
mod faults;
mod flows;
mod gates;
mod handover;
mod keys;
mod lists;
mod many_names;
mod metrics;
mod namespaces;
mod newest_events;
mod payloads;
mod records;
mod replay;
mod retention;
mod shutdown;
mod streams;
mod subscriptions;
mod supervision;
mod suspension;
mod test_server;
mod timers;
mod wake_ups;
mod workers;

use faults::Faults;
use selvedge_engine::core::{Draft, Policy, Timestamp};
use selvedge_memory::{Clock, MemoryStore};
use std::sync::Arc;
use std::time::{Duration, Instant};
use test_server::TestServer;

/// The timeout for everything that should happen.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Creates a clock that only the test advances.
fn manual_clock() -> Clock {
    Clock::manual(Timestamp::from_millis(1_700_000_000_000))
}

/// Starts a server on a memory store with a manual clock.
async fn memory_server() -> (TestServer, Clock) {
    let clock = manual_clock();
    let store = Arc::new(MemoryStore::with_clock(clock.clone()));
    (TestServer::new(store, test_server::passive_options()).await, clock)
}

/// Starts a server on a store with injectable faults and a manual clock.
async fn faulty_server() -> (TestServer, Arc<Faults>, Clock) {
    let clock = manual_clock();
    let (store, faults) = Faults::of(MemoryStore::with_clock(clock.clone()));
    (TestServer::new(store, test_server::passive_options()).await, faults, clock)
}

/// Creates a draft with this policy.
fn draft_with(policy: Policy) -> Draft {
    Draft { policy, ..Draft::new("kind") }
}

/// Polls a condition until it holds; fails with `what` after the timeout.
async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !holds().await {
        assert!(Instant::now() < deadline, "timed out: {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Awaits a future, with the timeout.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(TIMEOUT, future).await.expect("the future resolves in time")
}
