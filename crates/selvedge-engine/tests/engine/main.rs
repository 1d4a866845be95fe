//! What the engine promises, on the store in memory and mostly on a clock that the tests move.

mod admission;
mod cancel;
mod faulty;
mod flows;
mod gates;
mod hand_off;
mod keys;
mod limits;
mod lists;
mod namespaces;
mod replay;
mod retention;
mod shutdown;
mod side;
mod streams;
mod subscriptions;
mod supervision;
mod suspension;
mod waking;
mod workers;

use faulty::Faulty;
use selvedge_engine::core::{Draft, Policy, Timestamp};
use selvedge_memory::{Clock, MemoryStore};
use side::Side;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Long enough for anything that should happen.
const LONG: Duration = Duration::from_secs(20);

/// A clock that stands still.
fn clock() -> Clock {
    Clock::manual(Timestamp::from_millis(1_700_000_000_000))
}

/// An engine on a store in memory whose clock only the test moves.
async fn on_memory() -> (Side, Clock) {
    let clock = clock();
    let store = Arc::new(MemoryStore::with_clock(clock.clone()));
    (Side::new(store, side::quiet()).await, clock)
}

/// An engine on a store whose calls can be made to fail, on a clock that only the test moves.
async fn on_faulty() -> (Side, Arc<Faulty>, Clock) {
    let clock = clock();
    let store = Arc::new(Faulty::new(MemoryStore::with_clock(clock.clone())));
    (Side::new(store.clone(), side::quiet()).await, store, clock)
}

/// A draft with this policy.
fn with(policy: Policy) -> Draft {
    Draft { policy, ..Draft::new("kind") }
}

/// Looks again and again until it is so.
async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !is_so().await {
        assert!(Instant::now() < deadline, "in vain: {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// What a task came to, within a time that is long enough for anything.
async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, what).await.expect("it comes in time")
}
