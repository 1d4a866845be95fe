//! The sample flow: small, and with an example of each feature of flows. `selvedge dev` submits it once, to an empty store; every
//! execution of the kind `demo.sample` submits it again.
//!
//! ```text
//! near ─┐ any_of
//!       ├────────> fetched ─┬─> check ────────────────────┐ all_of
//! far ──┘                   └─> print ── on failure ─> alert ┴──> report
//! ```
//!
//! `near` and `far` are a hedge: `near` completes first, so `far` is cancelled. `check` fails once and is retried; `print` fails
//! permanently, so `alert` runs; `report` returns the results of both branches.

use selvedge::{Backoff, EdgeCondition, Error, ExecutionFilter, Flow, FlowId, Join, Namespace, Submission};
use serde_json::json;

/// The name of the flow.
const NAME: &str = "sample";
/// The tag of the flow and of each of its nodes, by which lists can leave them out.
const TAG: (&str, &str) = ("demo", "sample");
/// The idempotency key: two `dev` servers that start on the same store at the same time submit one flow.
const KEY: &str = "selvedge dev: sample";

/// Submits the sample flow, unless the namespace has executions already.
pub async fn submit_if_empty(namespace: &Namespace) -> Result<Option<FlowId>, Error> {
    if !namespace.list(&ExecutionFilter::default(), None, 1).await?.items.is_empty() {
        return Ok(None);
    }
    Ok(Some(flow()?.idempotency_key(KEY).submit(namespace).await?.id()))
}

/// Returns the sample flow.
pub fn flow() -> Result<Flow, Error> {
    let sleep = |ms: u64| Submission::new("demo.sleep").input(&json!({"ms": ms}));
    let backoff = Backoff::Fixed { delay_ms: 500 };
    let check = Submission::new("demo.flaky").input(&json!({"failures": 1}))?.backoff(backoff);
    let print =
        Submission::new("demo.fail").input(&json!({"message": "out of paper", "class": "permanent"}))?;
    Ok(Flow::new()
        .name(NAME)
        .tag(TAG.0, TAG.1)
        .defaults(|node| node.tag(TAG.0, TAG.1))
        .node("near", sleep(300)?)
        .node("far", sleep(600_000)?)
        .node("fetched", "demo.echo")
        .after("fetched", ["near", "far"])
        .join("fetched", Join::any_of())
        .node("check", check)
        .node("print", print)
        .edge("fetched", "check")
        .edge("fetched", "print")
        .node("alert", "demo.echo")
        .edge_when("print", "alert", EdgeCondition::Failure)
        .node("report", "demo.echo")
        .after("report", ["check", "alert"]))
}
