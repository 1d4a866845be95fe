//! Tests of the worker: on the memory store, and on the other stores where they may differ. Most run twice: with the engine
//! embedded, and over HTTP with a server in the process of the test.

/// Runs tests of this module a second time, over HTTP.
macro_rules! over_http_too {
    ($($test:ident),* $(,)?) => {
        mod over_http {
            $(
                #[test]
                fn $test() {
                    crate::OVER_HTTP.set(true);
                    super::$test();
                }
            )*
        }
    };
}

mod approvals;
mod branches;
mod every_store;
mod flows;
mod handlers;
mod killed_process;
mod misbehaving;
#[allow(dead_code, reason = "not every test needs all of it")]
#[path = "../../../selvedge-cli/tests/binary/support/place.rs"]
mod place;
mod schedules;
mod step_errors;
mod steps;
mod stopping;
mod store_outage;
mod streams;
mod subscriptions;
mod tasks;
mod transactions;
mod unreliable_store;
mod waits;
mod webhooks;

use selvedge::events::{EventFilter, From};
use selvedge::{
    Backoff, Client, Delivered, Engine, ExecutionId, Namespace, Options, Outcome, Signal, State, Submission,
    Timestamp,
};
use selvedge_memory::{Clock, MemoryStore};
use serde_json::Value;
use std::cell::Cell;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::time::timeout;

thread_local! {
    /// True if the test of this thread calls its engine over HTTP.
    static OVER_HTTP: Cell<bool> = const { Cell::new(false) };
}

/// Upper bound for everything that is expected to happen.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Starts an engine on a memory store.
async fn engine() -> (Engine, Namespace) {
    let engine = Engine::open("memory:").await.expect("the engine starts");
    let namespace = namespace_of(&engine).await;
    (engine, namespace)
}

/// Returns the namespace of a test: embedded, or over HTTP through a server that runs as long as the test.
async fn namespace_of(engine: &Engine) -> Namespace {
    if !OVER_HTTP.get() {
        return engine.namespace("default").await.expect("the namespace opens");
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("the listener has an address");
    tokio::spawn(selvedge_server::serve(engine.clone().into_inner(), listener, pending()));
    let client = Client::new(&format!("http://{address}")).expect("the address is valid");
    client.namespace("default").expect("the namespace is valid")
}

/// Returns the engine's own handle of the namespace, for what programs cannot see.
async fn engine_namespace(engine: &Engine) -> selvedge_engine::Namespace {
    engine.clone().into_inner().namespace("default").await.expect("the namespace opens")
}

async fn submit(namespace: &Namespace, submission: Submission) -> ExecutionId {
    let submitted = submission.submit(namespace).await.expect("the submission is accepted");
    submitted.execution.id
}

/// Waits for the end of an execution, and returns its outcome with its result or error message.
async fn wait_for_end(namespace: &Namespace, id: ExecutionId) -> (Outcome, Value) {
    let ended = namespace.result(id, TIMEOUT).await.expect("the result is read");
    let ended = ended.expect("the execution ends in time");
    let value = match (ended.result, ended.error) {
        (Some(result), _) => serde_json::from_slice(&result).expect("the result is JSON"),
        (None, Some(error)) => Value::from(error.message),
        (None, None) => Value::Null,
    };
    (ended.outcome, value)
}

/// A retry without a delay.
fn no_delay() -> Backoff {
    Backoff::Fixed { delay_ms: 0 }
}

async fn state_of(namespace: &Namespace, id: ExecutionId) -> State {
    namespace.get(id).await.expect("the execution is read").state
}

async fn send_signal(namespace: &Namespace, id: ExecutionId, name: &str) -> Delivered {
    Signal::new(name).send(namespace, id).await.expect("the signal is delivered")
}

/// Waits until an execution has had this many events of this type since its submission.
async fn wait_for_events(namespace: &Namespace, id: ExecutionId, event: &str, count: usize) {
    let filter = EventFilter { types: vec![event.into()], execution: Some(id), ..EventFilter::default() };
    let mut events = namespace.subscribe(filter, From::Beginning).await.expect("the subscription starts");
    for _ in 0..count {
        let next = timeout(TIMEOUT, events.next()).await.expect("the event is published in time");
        next.expect("the event is read");
    }
}

/// Waits until an execution has been suspended this many times.
async fn wait_for_suspensions(namespace: &Namespace, id: ExecutionId, count: usize) {
    wait_for_events(namespace, id, "execution.suspended", count).await;
}

/// Runs a future on a runtime of its own, for tests that must not run inside one.
fn block_on(future: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.expect("the runtime starts").block_on(future);
}

/// Locks a mutex even if a failed assertion has poisoned it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An engine without background reconcilers, on a memory store whose clock only the test moves.
struct ManualClockEnv {
    engine: Engine,
    namespace: Namespace,
    clock: Clock,
}

impl ManualClockEnv {
    async fn new() -> ManualClockEnv {
        let clock = Clock::manual(Timestamp::from_millis(1_700_000_000_000));
        let store = Arc::new(MemoryStore::with_clock(clock.clone()));
        let options = Options { reconcilers: false, ..Options::default() };
        let engine = Engine::start(store, options).await.expect("the engine starts");
        let namespace = namespace_of(&engine).await;
        ManualClockEnv { engine, namespace, clock }
    }

    /// Advances the clock, and runs the reconcilers that process what has become due.
    async fn advance(&self, time: Duration) {
        self.clock.advance_ms(time.as_millis() as i64);
        for reconciler in ["lease_expiry", "delay_promoter", "suspension_timeout"] {
            self.engine.tick(reconciler).await.expect("the reconciler runs");
        }
    }
}
