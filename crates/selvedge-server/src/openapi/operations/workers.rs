//! Workers: `routes::workers` and `routes::report`.

use crate::openapi::shapes::executions::duplicate;
use crate::wire::problem::Code;
use selvedge_api::description::{Description, operation};
use selvedge_api::schema::*;
use selvedge_core::rules::heartbeat::LEASES_MAX;
use selvedge_core::rules::report::OPS_MAX;
use selvedge_core::session::LISTED_MS;
use serde_json::json;

const TAG: &str = "Workers";
const EXAMPLE_ID: &str = "019a0000-0000-7000-8000-000000000001";

pub fn operations() -> Vec<Description> {
    vec![claim(), heartbeat(), report(), drain(), remove(), list_workers()]
        .into_iter()
        .map(|operation| operation.tag(TAG))
        .collect()
}

fn claim() -> Description {
    let example = json!({ "worker": "mailer", "lanes": ["default"], "kinds": ["greet"], "max": 10 });
    operation("post", "/v1/workers/{instance}/claim", "claim", "Claim executions")
        .about("Waits up to wait_ms for work. A repetition with its key returns the leases that it made and that still live.")
        .repeatable()
        .body(shape("ClaimRequest"), example)
        .answers(200, "The claimed executions.", shape("ClaimAnswer"))
        .also([Code::Superseded])
}

fn heartbeat() -> Description {
    let body = request(vec![
        always("leases", list_of_at_most(LEASES_MAX, shape("FenceRequest"))),
        optional("wait_ms", wait().about("Returns early when a lease is lost or asked to cancel.")),
        optional("incarnation", name()),
    ]);
    let example =
        json!({ "leases": [{ "execution": EXAMPLE_ID, "attempt": 0, "lease_id": EXAMPLE_ID, "epoch": 1 }] });
    operation("post", "/v1/workers/{instance}/heartbeat", "heartbeat", "Renew the leases of a worker")
        .body(body, example)
        .answers(200, "The renewed and lost leases.", shape("HeartbeatAnswer"))
        .also([Code::Superseded])
}

fn report() -> Description {
    let body = request(vec![
        always("ops", list_of_at_most(OPS_MAX, shape("Op"))),
        optional("claim", shape("ClaimRequest").about("The next claim, in the same round trip.")),
    ]);
    let example = json!({ "ops": [
        { "op": "complete", "execution": EXAMPLE_ID, "attempt": 0, "lease_id": EXAMPLE_ID, "epoch": 1, "result": "Hello, Ada!" },
    ] });
    let fields = vec![
        always("results", list(shape("OpResult"))),
        always("claims", list(shape("Claim"))),
        sometimes("drain", flag()),
        sometimes(
            "claim_error",
            shape("Problem").about("The refusal of the claim, after the reports were decided."),
        ),
    ];
    operation("post", "/v1/workers/{instance}/report", "report", "Report on leases, and claim")
        .about("Each operation succeeds or is refused on its own.")
        .body(body, example)
        .answers(200, "One result for each operation, in order, and the claims.", answer(fields))
        .also([Code::Superseded])
}

fn drain() -> Description {
    let fields =
        vec![always("instance", text()), always("draining", flag()), always("duplicate", duplicate())];
    operation("post", "/v1/workers/{instance}/drain", "drain_worker", "Ask a worker to claim nothing more")
        .repeatable()
        .body_if_any(request(Vec::new()), json!({}))
        .answers(200, "The worker will see drain: true.", answer(fields))
}

fn remove() -> Description {
    let released = always("released", list(shape("Fence")).about("The leases that were put back."));
    operation("delete", "/v1/workers/{instance}", "remove_worker", "Remove a worker, and put its leases back")
        .query("incarnation", name(), "The incarnation that leaves.")
        .answers(200, "It is gone.", answer(vec![always("instance", text()), released]))
        .also([Code::Superseded])
}

fn list_workers() -> Description {
    operation("get", "/v1/workers", "list_workers", "List the workers")
        .about(&format!(
            "Live workers, and those that ended in the last {}, ordered by instance.",
            period_text(LISTED_MS)
        ))
        .paged()
        .answers_page(shape("Worker"))
}
