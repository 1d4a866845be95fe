//! What the embedded worker promises: on the store in memory, and where it matters on the others.

mod approvals;
mod branches;
mod cut_off;
mod flows;
mod killed;
#[allow(dead_code, reason = "not every test needs all of it")]
#[path = "../../../selvedge-cli/tests/binary/support/place.rs"]
mod place;
mod runs;
mod step_errors;
mod steps;
mod stops;
mod store_away;
mod stores;
mod streams;
mod subscriptions;
mod waits;

use selvedge::core::state::StateName;
use selvedge::events::{EventFilter, From, Notice};
use selvedge::{
    Action, Backoff, Delivered, Engine, ExecutionId, Name, Namespace, Options, Outcome, Signal, Submission,
    Timestamp,
};
use selvedge_memory::{Clock, MemoryStore};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Long enough for anything that should happen.
const LONG: Duration = Duration::from_secs(30);

async fn engine() -> (Engine, Namespace) {
    let engine = Engine::open("memory:").await.expect("the engine starts");
    let namespace = engine.namespace("default").await.expect("the namespace is there");
    (engine, namespace)
}

async fn submit(namespace: &Namespace, submission: Submission) -> ExecutionId {
    let submitted = submission.submit(namespace).await.expect("it is accepted");
    submitted.execution.id
}

/// How an execution ended: its outcome, and its result or its error.
async fn ended(namespace: &Namespace, id: ExecutionId) -> (Outcome, Value) {
    let ended = namespace.result(id, LONG).await.expect("it can be read");
    let ended = ended.expect("it ends in time");
    let told = match (ended.result, ended.error) {
        (Some(result), _) => serde_json::from_slice(&result).expect("the result is JSON"),
        (None, Some(error)) => Value::from(error.message),
        (None, None) => Value::Null,
    };
    (ended.outcome, told)
}

fn at_once() -> Backoff {
    Backoff::Fixed { delay_ms: 0 }
}

fn operator() -> Name {
    Name::trusted("operator")
}

async fn operate(namespace: &Namespace, id: ExecutionId, action: Action) {
    let done = namespace.operate(id, action, None, &operator()).await;
    done.expect("the action applies");
}

async fn state(namespace: &Namespace, id: ExecutionId) -> StateName {
    namespace.get(id).await.expect("it can be read").stored.execution.state.name()
}

async fn send(namespace: &Namespace, id: ExecutionId, name: &str) -> Delivered {
    Signal::new(name).send(namespace, id).await.expect("it is delivered")
}

/// Waits until an event of this type has happened so often to an execution.
async fn happened(namespace: &Namespace, id: ExecutionId, event: &str, times: usize) {
    let filter = EventFilter { types: vec![event.into()], execution: Some(id), ..EventFilter::default() };
    let mut events = namespace.subscribe(filter, From::Beginning).await.expect("it subscribes");
    for _ in 0..times {
        match timeout(LONG, events.next()).await.expect("it happens in time") {
            Some(Notice::Event(_)) => {}
            other => panic!("an event comes, and not {other:?}"),
        }
    }
}

async fn suspended(namespace: &Namespace, id: ExecutionId, times: usize) {
    happened(namespace, id, "execution.suspended", times).await;
}

/// An engine whose clock a test moves, and which does by itself nothing that has to do with time.
struct Timed {
    engine: Engine,
    namespace: Namespace,
    clock: Clock,
}

impl Timed {
    async fn new() -> Timed {
        let clock = Clock::manual(Timestamp::from_millis(1_700_000_000_000));
        let store = Arc::new(MemoryStore::with_clock(clock.clone()));
        let options = Options { reconcilers: false, ..Options::default() };
        let engine = Engine::start(store, options).await.expect("the engine starts");
        let namespace = engine.namespace("default").await.expect("the namespace is there");
        Timed { engine, namespace, clock }
    }

    /// This much time passes, and what became due is dealt with.
    async fn pass(&self, time: Duration) {
        self.clock.advance_ms(time.as_millis() as i64);
        for reconciler in ["lease_expiry", "delay_promoter", "suspension_timeout"] {
            self.engine.tick(reconciler).await.expect("the reconciler runs");
        }
    }
}
