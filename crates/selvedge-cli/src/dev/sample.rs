//! The sample flow that `selvedge dev` submits to an empty store, and again while somebody looks at its pages: small, and with an
//! example of each feature of flows.
//!
//! ```text
//! near ─┐ any_of
//!       ├────────> fetched ─┬─> check ────────────────────┐ all_of
//! far ──┘                   └─> print ── on failure ─> alert ┴──> report
//! ```
//!
//! `near` and `far` are a hedge: `near` completes first, so `far` is cancelled. `check` fails once and is retried; `print` fails
//! permanently, so `alert` runs; `report` returns the results of both branches. Further runs draw on a budget, and some have a node
//! `sign-off` before `report`, which waits until a person answers.

use selvedge::{Backoff, EdgeCondition, Error, ExecutionFilter, Flow, FlowId, Join, Namespace, Submission};
use serde_json::json;

/// The name of the flow.
const NAME: &str = "sample";
/// The idempotency key: two `dev` servers that start on the same store at the same time submit one flow.
const KEY: &str = "selvedge dev: sample";

/// Submits the sample flow, unless the namespace has executions already.
pub async fn submit_if_empty(namespace: &Namespace) -> Result<Option<FlowId>, Error> {
    if !namespace.list(&ExecutionFilter::default(), None, 1).await?.items.is_empty() {
        return Ok(None);
    }
    Ok(Some(sample(false)?.idempotency_key(KEY).submit(namespace).await?.id()))
}

/// Reports whether the newest execution of the namespace belongs to a sample: nobody else uses the store.
pub async fn is_newest(namespace: &Namespace) -> Result<bool, Error> {
    let newest = namespace.list(&ExecutionFilter::default(), None, 1).await?;
    let Some(execution) = newest.items.first() else { return Ok(false) };
    Ok(namespace.flow(execution.flow).await?.name.is_some_and(|name| name == NAME))
}

/// The budget of further runs.
pub const BUDGET: &str = "sample";
/// The time for which a question waits for an answer, in milliseconds.
const ANSWER_MS: u64 = 120_000;

/// Returns another run of the sample; `asks` adds a question to a person.
pub fn again(asks: bool) -> Result<Flow, Error> {
    let flow = sample(true)?;
    if !asks {
        return Ok(flow);
    }
    let question = json!({"question": "Send the report of the sample?", "within_ms": ANSWER_MS});
    Ok(flow
        .node("sign-off", Submission::new("question").input(&question)?)
        .edge("check", "sign-off")
        .edge("sign-off", "report"))
}

fn sample(has_budget: bool) -> Result<Flow, Error> {
    let sleep = |ms: u64| {
        let sleep = Submission::new("sleep").input(&json!({"ms": ms}))?;
        Ok::<_, Error>(if has_budget { sleep.budget(BUDGET) } else { sleep })
    };
    let backoff = Backoff::Fixed { delay_ms: 500 };
    let check = Submission::new("flaky").input(&json!({"failures": 1}))?.backoff(backoff);
    let print = Submission::new("fail").input(&json!({"message": "out of paper", "class": "permanent"}))?;
    Ok(Flow::new()
        .name(NAME)
        .node("near", sleep(if has_budget { 900 } else { 300 })?)
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
