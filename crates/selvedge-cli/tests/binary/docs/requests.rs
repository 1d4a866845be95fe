//! A valid request for every endpoint that takes a body, and a valid form of every operation of a report.

use serde_json::{Value, json};

/// A request, and the object in its body that gets an unknown field.
pub struct Request {
    /// The method and the path as the router has them.
    pub endpoint: &'static str,
    pub body: Value,
    /// The JSON pointers of the objects in the body to extend.
    pub objects: &'static [&'static str],
}

fn request(endpoint: &'static str, body: Value, objects: &'static [&'static str]) -> Request {
    Request { endpoint, body, objects }
}

/// Returns the fence of a lease that does not exist.
pub fn fence() -> Value {
    let id = uuid::Uuid::nil();
    json!({"execution": id, "attempt": 0, "lease_id": id, "epoch": 1})
}

/// Returns the requests.
pub fn requests() -> Vec<Request> {
    let submission = json!({"kind": "k", "retry": {"backoff": {"type": "exponential"}}, "budgets": [{"name": "n"}],
        "concurrency": {"key": "k", "limit": 1}});
    let fixed = json!({"kind": "k", "retry": {"backoff": {"type": "fixed", "delay_ms": 1}}});
    let flow = json!({"nodes": [{"name": "a", "kind": "k"}], "edges": [{"from": "a", "to": "b"}],
        "groups": [{"node": "a", "policy": {"type": "quorum", "k": 1}}], "defaults": {}});
    let claim = json!({"worker": "w", "lanes": ["l"], "max": 1});
    let rate = json!({"rate": {"count": 1, "window_ms": 1}});
    let limits = json!({"limits": {"tokens": {"hard": 1}}});
    let schedule = json!({"interval_ms": 1000, "submit": {"execution": {"kind": "k"}}});
    let cancel = json!({"action": {"type": "cancel"}, "ids": []});
    let reschedule = json!({"action": {"type": "reschedule", "delay_ms": 1}, "ids": []});
    let by_filter = json!({"action": {"type": "cancel"}, "filter": {}});
    let webhook = json!({"url": "https://example.com/", "types": ["*"], "filter": {}});
    let submission_objects = &["", "/retry", "/retry/backoff", "/budgets/0", "/concurrency"];
    let flow_objects = &["", "/nodes/0", "/edges/0", "/groups/0", "/groups/0/policy"];
    vec![
        request("POST /v1/executions", submission, submission_objects),
        request("POST /v1/executions", fixed, &["/retry/backoff"]),
        request("POST /v1/executions/batch", json!({"executions": []}), &[""]),
        request("POST /v1/bulk-jobs", json!({"action": {"type": "replay"}, "all": true}), &[""]),
        request("POST /v1/executions/bulk", cancel, &["", "/action"]),
        request("POST /v1/executions/bulk", reschedule, &["/action"]),
        request("POST /v1/executions/bulk", by_filter, &["/filter"]),
        request("POST /v1/executions/{id}/signals", json!({"name": "s"}), &[""]),
        request("POST /v1/executions/{id}/cancel", json!({}), &[""]),
        request("POST /v1/executions/{id}/replay", json!({}), &[""]),
        request("POST /v1/executions/{id}/reschedule", json!({"delay_ms": 1}), &[""]),
        request("POST /v1/executions/{id}/priority", json!({"priority": 1}), &[""]),
        request("POST /v1/executions/{id}/tags", json!({}), &[""]),
        request("POST /v1/executions/{id}/revoke-lease", json!({}), &[""]),
        request("POST /v1/executions/{id}/resume", json!({}), &[""]),
        request("POST /v1/clock/advance", json!({"by_ms": 1}), &[""]),
        request("POST /v1/inbox/{number}/retry", json!({}), &[""]),
        request("POST /v1/waitpoints/{id}/signal", json!({"token": "t"}), &[""]),
        request("POST /v1/waitpoints/{id}/look", json!({"token": "t"}), &[""]),
        request("POST /v1/waitpoints/{id}/answer", json!({}), &[""]),
        request("POST /v1/waitpoints/{id}/reissue", json!({}), &[""]),
        request("POST /v1/waitpoints/{id}/revoke", json!({}), &[""]),
        request("POST /v1/admin/waitpoint-keys/rotate", json!({"grace_ms": 1}), &[""]),
        request("POST /v1/admin/keys", json!({"name": "n", "role": "reader", "namespaces": ["n"]}), &[""]),
        request("PUT /v1/admin/namespaces/{name}", json!({"suspension_timeout_ms": 1}), &[""]),
        request("POST /v1/flows", flow.clone(), flow_objects),
        request("POST /v1/flows/{id}/nodes", json!({"nodes": []}), &[""]),
        request("POST /v1/flows/{id}/cancel", json!({}), &[""]),
        request("POST /v1/workers/{instance}/claim", claim.clone(), &[""]),
        request("POST /v1/workers/{instance}/heartbeat", json!({"leases": [fence()]}), &["", "/leases/0"]),
        request("POST /v1/workers/{instance}/report", json!({"ops": [], "claim": claim}), &["", "/claim"]),
        request("POST /v1/workers/{instance}/drain", json!({}), &[""]),
        request("PUT /v1/lanes/{name}", rate.clone(), &["", "/rate"]),
        request("PATCH /v1/lanes/{name}", rate.clone(), &["", "/rate"]),
        request("POST /v1/lanes/{name}/pause", json!({}), &[""]),
        request("POST /v1/lanes/{name}/resume", json!({}), &[""]),
        request("PUT /v1/quotas/{name}", rate.clone(), &["", "/rate"]),
        request("PATCH /v1/quotas/{name}", rate, &["", "/rate"]),
        request("PUT /v1/budgets/{name}", limits.clone(), &["", "/limits/tokens"]),
        request("PATCH /v1/budgets/{name}", limits, &["", "/limits/tokens"]),
        request("POST /v1/budgets/{name}/usage", json!({"usage": {}}), &[""]),
        request("POST /v1/budgets/{name}/reset", json!({}), &[""]),
        request("PUT /v1/webhooks/{name}", webhook.clone(), &["", "/filter"]),
        request("PATCH /v1/webhooks/{name}", webhook, &["", "/filter"]),
        request("POST /v1/webhooks/{name}/rotate-secret", json!({"grace_ms": 1}), &[""]),
        request("POST /v1/webhooks/{name}/test", json!({}), &[""]),
        request("POST /v1/webhooks/{name}/deliveries/{id}/replay", json!({}), &[""]),
        request("PUT /v1/schedules/{name}", schedule, &["", "/submit", "/submit/execution"]),
        request("PATCH /v1/schedules/{name}", json!({}), &[""]),
        request("POST /v1/schedules/{name}/run", json!({}), &[""]),
    ]
}

/// Returns the operations, without their fences.
pub fn operations() -> Vec<Value> {
    vec![
        json!({"op": "complete"}),
        json!({"op": "fail", "message": "m"}),
        json!({"op": "cancelled"}),
        json!({"op": "progress"}),
        json!({"op": "delay", "delay_ms": 1}),
        json!({"op": "release"}),
        json!({"op": "waitpoint", "name": "w"}),
        json!({"op": "suspend", "condition": {"signal": "s"}}),
        json!({"op": "step", "name": "s"}),
        json!({"op": "frame", "kind": "stdout", "data": 1}),
        json!({"op": "usage", "budget": "b", "usage": {}}),
        json!({"op": "spawn", "nodes": []}),
    ]
}
