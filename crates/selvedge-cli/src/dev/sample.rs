//! The sample flow that `selvedge dev` submits to an empty store: small, and with an example of each feature of flows.
//!
//! ```text
//! near ─┐ any_of
//!       ├────────> fetched ─┬─> check ────────────────────┐ all_of
//! far ──┘                   └─> print ── on failure ─> alert ┴──> report
//! ```
//!
//! `near` completes first, so `far` is cancelled; `check` fails once and is retried; `print` fails permanently, so
//! `alert` runs; `report` returns the results of both branches.

use selvedge::{Backoff, EdgeCondition, Error, ExecutionFilter, Flow, FlowId, Join, Namespace, Submission};
use serde_json::json;

/// The idempotency key: two `dev` servers that start on the same store at the same time submit one flow.
const KEY: &str = "selvedge dev: sample";

/// Submits the sample flow, unless the namespace has executions already.
pub async fn submit_if_empty(namespace: &Namespace) -> Result<Option<FlowId>, Error> {
    if !namespace.list(&ExecutionFilter::default(), None, 1).await?.items.is_empty() {
        return Ok(None);
    }
    Ok(Some(sample()?.submit(namespace).await?.id()))
}

fn sample() -> Result<Flow, Error> {
    let sleep = |ms: u64| Submission::new("sleep").input(&json!({"ms": ms}));
    let backoff = Backoff::Fixed { delay_ms: 500 };
    let check = Submission::new("flaky").input(&json!({"failures": 1}))?.backoff(backoff);
    let print = Submission::new("fail").input(&json!({"message": "out of paper", "class": "permanent"}))?;
    Ok(Flow::new()
        .name("sample")
        .idempotency_key(KEY)
        .node("near", sleep(300)?)
        .node("far", sleep(600_000)?)
        .node("fetched", "echo")
        .after("fetched", ["near", "far"])
        .join("fetched", Join::any_of())
        .node("check", check)
        .node("print", print)
        .edge("fetched", "check")
        .edge("fetched", "print")
        .node("alert", "echo")
        .edge_when("print", "alert", EdgeCondition::Failure)
        .node("report", "echo")
        .after("report", ["check", "alert"]))
}
