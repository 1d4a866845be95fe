//! Workers, claims and heartbeats: `routes::workers` and `wire::views`.

use super::executions::duplicate;
use super::{failure, fence, outcome, stale_lease};
use selvedge_api::schema::*;
use selvedge_core::rules::claim::{CLAIM_MAX, TTL_MAX_MS, TTL_MIN_MS};
use selvedge_core::submission::CAPABILITIES_LIMIT;
use selvedge_core::suspension::ResumedBy;
use selvedge_engine::LEASE_TTL_MS;
use serde_json::json;

pub fn shapes() -> Vec<(&'static str, Schema)> {
    vec![
        ("FenceRequest", request(fence())),
        ("Fence", answer(fence())),
        ("ClaimRequest", claim_request()),
        ("Claim", claim()),
        ("ClaimAnswer", claims()),
        ("HeartbeatAnswer", heartbeat()),
        ("Worker", worker()),
    ]
}

fn claim_request() -> Schema {
    let lanes = Schema(list(name()).0.with("minItems", 1));
    let incarnation = "New for each start of the process: separates it from its predecessor.";
    request(vec![
        always("worker", name().about("The name of the worker, for people.")),
        always("lanes", lanes.about("The lanes to claim from.")),
        optional("kinds", list(name()).about("The kinds to claim. Default: all.")),
        optional("capabilities", list_of_at_most(CAPABILITIES_LIMIT, label())),
        always("max", integer_within(1, CLAIM_MAX.into()).about("The maximum number of executions.")),
        optional("wait_ms", wait().about("The longest wait for work.")),
        optional(
            "lease_ttl_ms",
            integer_within(TTL_MIN_MS, TTL_MAX_MS)
                .default(json!(LEASE_TTL_MS))
                .about("The time to live of the leases. A server may have another default."),
        ),
        optional("incarnation", name().about(incarnation)),
    ])
}

fn claim() -> Schema {
    let ended = || {
        answer(vec![always("execution", id()), nullable("outcome", outcome()), nullable("error", failure())])
    };
    let record = answer(vec![
        always("kind", text().about("`step`, `sleep`, `wait`, `join` or `race`.")),
        always("attempt", count().about("The attempt that recorded it.")),
    ]);
    let child = answer(vec![nullable("outcome", outcome()), always("result", any())]);
    let signal = answer(vec![
        always("name", text()),
        always("payload", any()),
        always("source", text()),
        nullable("waitpoint", text()),
    ]);
    let resumed = [ResumedBy::Condition, ResumedBy::Operator, ResumedBy::Timeout].map(ResumedBy::as_str);
    answer(vec![
        always("execution", shape("Execution")),
        always("namespace", text()),
        always("attempt", count().about("Counted from 0.")),
        nullable("lease", shape("Lease")),
        nullable(
            "traceparent",
            text().about("The span of this attempt (W3C Trace Context), for the spans of the worker."),
        ),
        always("upstream", map(any()).about("The results of completed upstreams, by node.")),
        always("upstream_refs", map(id()).about("The upstreams whose results were left out, by node.")),
        always(
            "upstream_outcomes",
            map(ended()).about("Every upstream, by node, in the order of the edges."),
        ),
        always("children", map(child)),
        always("children_refs", map(id())),
        always("children_outcomes", map(ended()).about("Every child, by name, in the order of spawning.")),
        always("signals", list(signal).about("The signals that ended the latest suspension.")),
        always("steps", map(any()).about("The results of recorded steps, by name.")),
        always("step_records", map(record).about("The kinds of recorded steps, by name.")),
        nullable("resumed_by", word(resumed)),
    ])
}

fn claims() -> Schema {
    answer(vec![
        always("claims", list(shape("Claim")).about("In the order of the claim; empty if there is no work.")),
        always("drain", flag().about("True if the worker should claim nothing more.")),
        always("duplicate", duplicate()),
    ])
}

fn heartbeat() -> Schema {
    let mut lost = fence();
    lost.extend([always("reason", text()), always("code", text())]);
    lost.extend(stale_lease());
    let fences = || list(shape("Fence"));
    answer(vec![
        always("renewed", fences()),
        always("lost", list(answer(lost))),
        always("orphaned", fences().about("Leases of this instance that the heartbeat did not list.")),
        always("cancel_requested", fences()),
        always("drain", flag().about("True if the worker should claim nothing more.")),
    ])
}

fn worker() -> Schema {
    let superseded = answer(vec![always("incarnation", text()), always("ended_at", time())]);
    let session = answer(vec![
        always("lease_ttl_ms", integer()),
        always("registered_at", time()),
        always("seen_at", time()),
        nullable("renewed_at", time()),
        always("draining", flag()),
    ]);
    answer(vec![
        sometimes("instance", text()),
        sometimes("worker", text()),
        sometimes("lanes", list(text())),
        sometimes("kinds", list(text()).or_null()),
        sometimes("capabilities", list(text())),
        sometimes("incarnation", text().or_null()),
        always("live", flag()),
        nullable("ended_reason", word(["deleted", "expired", "superseded"])),
        nullable("ended_at", time()),
        always("draining", flag()),
        always("seen_at", time()),
        always("superseded", list(superseded)),
        always("sessions", list(session)),
    ])
}
