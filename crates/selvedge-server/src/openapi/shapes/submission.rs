//! Submissions: `wire::submission`, `wire::draws` and `wire::graph`.

use selvedge_api::schema::*;
use selvedge_core::gate::LIMIT_MAX;
use selvedge_core::join::{EdgeCondition, OnSatisfied};
use selvedge_core::json::DEPTH_MAX;
use selvedge_core::plan::{EDGES_LIMIT, NODES_LIMIT};
use selvedge_core::policy::{DEFAULT_IDEMPOTENCY_WINDOW_MS, DEFAULT_RETENTION_MS};
use selvedge_core::submission::{CAPABILITIES_LIMIT, MULTIPLIERS, PAYLOAD_LIMIT, REQUIRED_GATES_LIMIT};
use selvedge_core::{Backoff, FailureClass, Retry};
use serde_json::json;

pub fn shapes() -> Vec<(&'static str, Schema)> {
    let node_name = || vec![always("name", name().about("The name, unique in the flow."))];
    vec![
        ("Submission", request(submission(true))),
        ("Defaults", request(defaults())),
        ("Node", request([node_name(), submission(true)].concat())),
        ("FlowNode", request([node_name(), submission(false)].concat())),
        ("Edge", edge()),
        ("Group", group()),
        ("JoinPolicy", join_policy()),
        ("Retry", retry()),
        ("Backoff", backoff()),
        ("Debounce", debounce()),
    ]
}

/// The fields of a submission; `has_kind` makes the kind required.
#[rustfmt::skip]
fn submission(has_kind: bool) -> Vec<Field> {
    let kind = name().about("The name of the handler that runs the execution.");
    let input = format!("Any JSON value of at most {}, nested at most {DEPTH_MAX} deep. Default: null.", size(PAYLOAD_LIMIT));
    vec![
        if has_kind { always("kind", kind) } else { optional("kind", kind) },
        sometimes("input", any().about(&input)),
        optional("lane", name().default(json!("default")).about("The lane in which it waits.")),
        optional("id", id().about("An id of the caller's choice, which makes the submission safe to repeat.")),
        optional("idempotency_key", key().about("Submitting again with this key returns the existing execution.")),
        optional("idempotency_window_ms", duration().default(json!(DEFAULT_IDEMPOTENCY_WINDOW_MS)).about("The time for which the key is kept; needs an idempotency_key. A server may have another default.")),
        optional("unique_while_active", key().about("Submitting again with this key returns the existing execution while it is not terminal.")),
        optional("debounce", shape("Debounce").about("Waits until no further submission with the key has come for a while.")),
        optional("priority", priority().default(json!(0)).about("Higher ones are claimed first.")),
        optional("fairness_key", key().about("Executions of different keys take turns.")),
        optional("capabilities", list_of_at_most(CAPABILITIES_LIMIT, label()).about("A worker must have all of them.")),
        optional("tags", tags().about("Names and values by which lists and events can be filtered.")),
        optional("delay_until_at", time().about("The earliest start. Cannot be combined with delay_ms.")),
        optional("delay_ms", duration().about("The delay of the start. Cannot be combined with delay_until_at.")),
        optional("start_by_ms", duration().about("The execution expires unless it starts within this time.")),
        optional("retry", shape("Retry").about("The retries after failures and interruptions. Without it, those of the server.")),
        optional("attempt_timeout_ms", period().about("The longest time of one attempt. Default: no limit.")),
        optional("deadline_ms", duration().about("The execution expires unless it ends within this time.")),
        optional("retention_ms", retention()),
        optional("budgets", list_of_at_most(REQUIRED_GATES_LIMIT, budget()).about("The budgets that it draws on: names, or objects with what it reserves.")),
        optional("quotas", list_of_at_most(REQUIRED_GATES_LIMIT, name()).about("The quotas that limit it.")),
        optional("concurrency", concurrency().about("At most this many executions with the same key are active.")),
    ]
}

/// The values of fields that the nodes of a flow leave out. The fields about one execution are known, but refused.
fn defaults() -> Vec<Field> {
    submission(false)
}

/// The retention of an execution or flow. Its default depends on the namespace.
pub fn retention() -> Schema {
    let default = period_text(DEFAULT_RETENTION_MS);
    duration().about(&format!(
        "The time for which it is kept after its end. Default: that of the namespace, or {default}."
    ))
}

fn budget() -> Schema {
    one_of(vec![name(), request(vec![always("name", name()), optional("reserve", amounts())])])
}

fn concurrency() -> Schema {
    request(vec![always("key", key()), always("limit", integer_within(1, LIMIT_MAX.into()))])
}

fn debounce() -> Schema {
    request(vec![
        always("key", key()),
        always("delay_ms", period().about("The time without a further submission after which it may start.")),
        optional(
            "max_ms",
            period().about("The time from the first submission after which it may start in any case."),
        ),
    ])
}

fn retry() -> Schema {
    let classes = word(FailureClass::ALL.map(FailureClass::as_str));
    let interruptions = "The maximum number of retries after interruptions without progress between them: a recorded step, or the end of a wait that has a step. 0: at most one attempt.";
    let default = Retry::default();
    let retried = default.retry_on.iter().map(|class| class.as_str()).collect::<Vec<_>>();
    request(vec![
        optional(
            "max_retries",
            count()
                .default(json!(default.max_retries))
                .about("The maximum number of retries after failures."),
        ),
        optional("max_interruptions", count().default(json!(default.max_interruptions)).about(interruptions)),
        optional("retry_on", list(classes).default(json!(retried))),
        optional("backoff", shape("Backoff")),
    ])
}

fn backoff() -> Schema {
    let fixed = request(vec![always("type", only("fixed")), always("delay_ms", duration())]);
    let default = json!(Backoff::default());
    let (least, most) = (*MULTIPLIERS.start() as i64, *MULTIPLIERS.end() as i64);
    let multiplier = Schema(number().0.with("minimum", least).with("maximum", most));
    let exponential = request(vec![
        always("type", only("exponential")),
        optional("initial_ms", duration().default(default["initial_ms"].clone())),
        optional("multiplier", multiplier.default(default["multiplier"].clone())),
        optional("max_ms", duration().default(default["max_ms"].clone())),
        optional("jitter", flag().default(default["jitter"].clone())),
    ]);
    one_of(vec![fixed, exponential])
}

/// The fields `nodes`, `edges` and `groups`, with nodes of the shape `node`.
pub fn graph(node: &str) -> Vec<Field> {
    vec![
        optional("nodes", list_of_at_most(NODES_LIMIT, shape(node))),
        optional("edges", list_of_at_most(EDGES_LIMIT, shape("Edge"))),
        optional("groups", list_of_at_most(NODES_LIMIT, shape("Group"))),
    ]
}

fn edge() -> Schema {
    let conditions = EdgeCondition::ALL.map(EdgeCondition::as_str);
    request(vec![
        always("from", text().about("The name of the upstream.")),
        always("to", text().about("The name of the downstream.")),
        optional("when", word(conditions).default(json!("success"))),
    ])
}

fn group() -> Schema {
    let node = text().about("The downstream whose upstreams the policy is about.");
    request(vec![always("node", node), always("policy", shape("JoinPolicy"))])
}

fn join_policy() -> Schema {
    let on_satisfied = || {
        let words = [OnSatisfied::CancelRemaining, OnSatisfied::LetRun].map(OnSatisfied::as_str);
        optional("on_satisfied", word(words).default(json!("cancel_remaining")))
    };
    let policies = vec![
        request(vec![always("type", only("all_of"))]),
        request(vec![always("type", only("any_of")), on_satisfied()]),
        request(vec![always("type", only("quorum")), always("k", count()), on_satisfied()]),
    ];
    one_of(policies)
}
