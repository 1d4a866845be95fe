//! The roles as the frame of the API promises them, written down apart from the server's own table: the tests of both the
//! library and the binary compare the server with it.

use selvedge_server::{Role, Route};
use serde_json::{Value, json};

/// The routes that need no key.
pub const OPEN: &[&str] = &[
    "/approve/{id}",
    "/assets/{name}",
    "/docs",
    "/docs/problems",
    "/healthz",
    "/login",
    "/logout",
    "/openapi.json",
    "/readyz",
    "/v1/waitpoints/{id}/look",
    "/v1/waitpoints/{id}/signal",
];
/// The calls of submitters.
const SUBMIT: &[&str] = &[
    "/v1/executions",
    "/v1/executions/batch",
    "/v1/executions/{id}/signals",
    "/v1/flows",
    "/v1/flows/{id}/nodes",
];

/// The routes of administrators that act on the whole server or show the names of all namespaces, so that they need a key of every
/// namespace. Every other route under `/v1/admin` acts on keys and namespaces that the key of the caller has.
pub const OF_SERVER: &[&str] = &["/metrics", "/v1/admin/waitpoint-keys", "/v1/admin/waitpoint-keys/rotate"];

/// Reports whether a key with a role may use a route.
pub fn is_allowed(role: Role, is_of_every_namespace: bool, route: &Route) -> bool {
    has_role(role, route) && (is_of_every_namespace || !OF_SERVER.contains(&route.path))
}

/// Reports whether the documented frame of the API lets a role use a route.
fn has_role(role: Role, route: &Route) -> bool {
    let reads = route.method.as_str() == "GET";
    let administers = route.path.starts_with("/v1/admin") || route.path == "/metrics";
    let submits = route.method.as_str() == "POST" && SUBMIT.contains(&route.path);
    let works = route.path.starts_with("/v1/workers");
    match role {
        Role::Admin => true,
        Role::Reader => reads && !administers,
        Role::Submitter => (reads || submits) && !administers,
        Role::Worker => (reads || submits || works) && !administers,
        Role::Operator => !administers,
    }
}

/// Returns a path of the route with ids that do not exist, and a body.
pub fn example(route: &Route) -> (String, Value) {
    let path = route.path.replace("{id}", "0190aaaa-bbbb-7ccc-8ddd-eeeeffff0001");
    // An administrator configures the namespaces of its key only.
    let path = path.replace("/namespaces/{name}", "/namespaces/default");
    let path = path.replace("{name}", "nothing").replace("{instance}", "nobody").replace("{number}", "1");
    assert!(!path.contains('{'), "{path} has a parameter that this test does not know");
    let body = if route.method.as_str() == "GET" || route.method.as_str() == "DELETE" {
        Value::Null
    } else {
        json!({})
    };
    (path, body)
}
