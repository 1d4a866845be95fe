//! Health, metrics and this document: `routes::health` and `openapi`.

use crate::openapi::shapes::executions::duplicate;
use crate::routes::clock::{ADVANCE_MAX_MS, RUNNING_MAX_MS, RUNNING_MS};
use selvedge_api::description::{Description, operation};
use selvedge_api::schema::*;
use selvedge_core::rollup::KEPT_MS;
use serde_json::json;

#[rustfmt::skip]
pub fn operations() -> Vec<Description> {
    let ready = answer(vec![always("status", text()), always("store", text()), nullable("uncovered_namespaces", total().about("The number of namespaces whose background work no server does; null if it cannot be read.")), always("clock_behind_ms", total().about("The milliseconds by which the clock of the store's database is behind the time of the store, after it stepped back; else 0. Leases, delays and schedules go on by the time of the store."))]);
    let document = map(any());
    let advance = request(vec![
        always("by_ms", integer_within(0, ADVANCE_MAX_MS).about("The time to advance by.")),
        optional("running_ms", integer_within(0, RUNNING_MAX_MS.into()).about(&format!("The longest real time to wait at each step until no execution is active. Default: {RUNNING_MS}."))),
    ]);
    let kept = format!("Minutes are kept for {}. Every server answers the same.", period_text(KEPT_MS));
    let spread = || answer(vec![always("count", total()), nullable("mean", number()), nullable("p50", number()), nullable("p95", number()), nullable("max", number())]);
    let counted = ["submitted", "started", "completed", "failed", "cancelled", "expired", "skipped", "retries"];
    let mut minute = vec![nullable("lane", text()), always("minute_at", time())];
    minute.extend(counted.map(|name| always(name, total())));
    minute.extend([always("queue_ms", spread().about("Times from ready to started.")), always("run_ms", spread().about("Times from started to ended."))]);
    vec![
        operation("get", "/v1/stats", "list_stats", "List minute rollups by lane, oldest first").about(&kept).tag("Server")
            .query("lane", name(), "Only this lane.").query("from", time(), "The earliest minute.").query("to", time(), "The time before which the last minute begins.")
            .paged().answers_page(answer(minute)),
        operation("get", "/v1/clock", "get_clock", "Show the time of the store").tag("Server").answers(200, "The time.", answer(vec![always("now_at", time()), always("manual", flag().about("True if the clock moves only when it is advanced."))])),
        operation("post", "/v1/clock/advance", "advance_clock", "Advance a manual clock").about("For tests, on a server that was started with `selvedge dev --store memory: --manual-clock`. Everything that becomes due happens at its time; the clock stands still while executions are active.").tag("Server").repeatable()
            .body(advance, json!({ "by_ms": 86_400_000 }))
            .answers(200, "The clock has advanced.", answer(vec![always("now_at", time()), always("reached", flag().about("False if the call took too long: advance by the rest.")), always("duplicate", duplicate())])),
        operation("get", "/healthz", "get_health", "Succeeds while the process responds").tag("Server").answers(200, "It responds.", answer(vec![always("status", text()), always("version", text())])),
        operation("get", "/readyz", "get_readiness", "Succeeds if the server is ready for requests").about("Checks that the store accepts writes. Fails while the server shuts down.").tag("Server").answers(200, "It is ready.", ready),
        operation("get", "/metrics", "get_metrics", "Metrics in the Prometheus text format").tag("Server").answers_as(200, "The metrics.", vec![("text/plain; version=0.0.4; charset=utf-8", text())]),
        operation("get", "/openapi.json", "get_openapi", "This document").tag("Server").answers(200, "The document.", document),
    ]
}
