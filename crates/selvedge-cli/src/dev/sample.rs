//! The sample flow that `selvedge dev` submits to an empty store: small enough to be read at a glance, and with one of
//! each thing a flow can do.
//!
//! ```text
//! near ─┐ any_of
//!       ├────────> fetched ─┬─> check ────────────────────┐ all_of
//! far ──┘                   └─> print ── on failure ─> alert ┴──> report
//! ```
//!
//! `near` wins over `far`, which is cancelled; `check` fails once and is retried; `print` fails for good, which `alert`
//! makes up for; `report` shows what came of it all.

use selvedge::core::filter::Filter;
use selvedge::{Backoff, EdgeCondition, Error, Flow, FlowId, Join, Namespace, Submission};
use serde_json::json;

/// A second `dev` that starts on the same store at the same time submits the same flow.
const KEY: &str = "selvedge dev: sample";

/// Submits it, unless the store holds something already.
pub async fn submit_if_empty(namespace: &Namespace) -> Result<Option<FlowId>, Error> {
    if namespace.count(&Filter::all(namespace.id()), 1).await? > 0 {
        return Ok(None);
    }
    Ok(Some(sample()?.submit(namespace).await?.id()))
}

fn sample() -> Result<Flow, Error> {
    let sleep = |ms: u64| Submission::new("sleep").input(&json!({"ms": ms}));
    let again_soon = Backoff::Fixed { delay_ms: 500 };
    let check = Submission::new("flaky").input(&json!({"failures": 1}))?.backoff(again_soon);
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
