//! Tests of the event log, its live feed, and the streams of executions.

mod feed;
mod log;
mod streams;

use crate::support::{Server, op};
use serde_json::Value;

/// The types of the events of an execution that completes in its first attempt.
const COMPLETED_EVENTS: [&str; 5] =
    ["execution.submitted", "lease.acquired", "execution.started", "attempt.ended", "execution.completed"];

/// Submits an execution and completes it. Returns its id.
async fn submit_and_complete(server: &Server, body: Value) -> String {
    let id = server.submit(body).await;
    let claim = server.claim("i", 1).await.remove(0);
    assert_eq!(server.report("i", op("complete", &claim)).await["ok"], true);
    id
}
