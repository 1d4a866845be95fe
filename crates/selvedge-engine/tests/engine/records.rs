//! The record of an execution: everything that its page shows, with few calls of the store.

use crate::test_server::{TestServer, claim_of, fence, passive_options};
use selvedge_engine::core::rules::report::Op;
use selvedge_engine::core::rules::signal::SignalDraft;
use selvedge_engine::core::rules::waitpoint::WaitpointDraft;
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::stream::{FrameKind, FrameMode};
use selvedge_engine::core::suspension::{Condition, WaitDraft};
use selvedge_engine::core::{Draft, ExecutionId, Name};
use selvedge_engine::store::{CallObserver, Transactions};
use selvedge_memory::MemoryStore;
use std::mem;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The calls of a store, by name.
#[derive(Default)]
struct Calls(Mutex<Vec<&'static str>>);

impl CallObserver for Calls {
    fn observe(&self, call: &'static str, _: Duration, _: bool) {
        self.0.lock().expect("no observer panics").push(call);
    }
}

impl Calls {
    /// Returns the calls since the last time, sorted.
    fn take(&self) -> Vec<&'static str> {
        let mut calls = mem::take(&mut *self.0.lock().expect("no observer panics"));
        calls.sort_unstable();
        calls
    }
}

async fn metered_server() -> (TestServer, Arc<Calls>) {
    let (store, calls) = (MemoryStore::new(), Arc::new(Calls::default()));
    store.meter().add(calls.clone());
    (TestServer::new(Arc::new(store), passive_options()).await, calls)
}

/// Suspends an execution that has a step and a frame, with a waitpoint, and sends it a signal.
async fn with_everything(server: &TestServer) -> ExecutionId {
    let id = server.submit(Draft::new("kind")).await;
    let fence = fence(&server.claim_one("one").await);
    let frame = Op::Frame {
        kind: FrameKind::Stdout,
        mode: FrameMode::Durable,
        data: "\"a line\"".into(),
        correlation_id: None,
    };
    server.report(fence, frame).await.expect("the frame is appended");
    let waitpoint = WaitpointDraft::new(Name::trusted("approve"));
    let wait = WaitDraft::new(Condition::signal(Name::trusted("approve")));
    let suspend = server.namespace.suspend(vec![wait], vec![waitpoint]);
    server.report(fence, suspend).await.expect("it is suspended");
    let signal = SignalDraft { name: Some("remind".into()), payload: "1".into(), key: None };
    server.namespace.signal(id, signal, &Name::trusted("tester")).await.expect("the signal is delivered");
    id
}

#[tokio::test]
async fn a_record_has_what_the_single_calls_return() {
    let (server, _) = metered_server().await;
    let (id, namespace) = (with_everything(&server).await, &server.namespace);
    let record = namespace.record(id, 200, 200).await.expect("the record is read");
    let view = namespace.get(id).await.expect("it exists");
    assert_eq!(record.view.state(), StateName::Suspended);
    assert_eq!(record.view.stored.execution, view.stored.execution);
    assert_eq!(record.view.stored.input, view.stored.input);
    let explanation = namespace.explain(id).await.expect("it is explained");
    assert_eq!(record.explanation.reasons, explanation.reasons);
    assert_eq!(record.events, namespace.execution_events(id).await.expect("the events are read"));
    assert_eq!(record.steps, namespace.steps(id, 0, 200).await.expect("the steps are read").items);
    assert_eq!(record.signals, namespace.signals(id, 0, 200).await.expect("the signals are read").items);
    assert_eq!(record.waitpoints, namespace.waitpoints(id, 0, 200).await.expect("they are read"));
    let frames = namespace.frames(id, None, 0, 200).await.expect("the frames are read");
    let read = record.frames.expect("it has had an attempt");
    assert_eq!((read.frames, read.next, read.closed), (frames.frames, frames.next, frames.closed));
    assert_eq!((record.signals.len(), record.waitpoints.len()), (1, 1));
}

#[tokio::test]
async fn a_record_is_read_with_few_calls() {
    let (server, calls) = metered_server().await;
    let namespace = &server.namespace;
    let rich = with_everything(&server).await;
    let active = server.submit(Draft::new("kind")).await;
    let ended = server.submit(Draft::new("kind")).await;
    let claimed = server.claim_as(claim_of("two", 2)).await;
    let claimed = claimed.into_iter().find(|claimed| claimed.execution.id == ended);
    server.complete(fence(&claimed.expect("it is claimed"))).await.expect("it completes");
    let expected: [(ExecutionId, &[&str]); 3] = [
        (ended, &["fetch", "frames", "now", "stream"]),
        (active, &["fetch", "frames", "now", "sessions", "stream"]),
        (rich, &["fetch", "fetch_gates", "frames", "now", "sessions", "signals", "stream", "waitpoints"]),
    ];
    for (id, expected) in expected {
        calls.take();
        namespace.record(id, 200, 200).await.expect("the record is read");
        assert_eq!(calls.take(), expected);
    }
}
