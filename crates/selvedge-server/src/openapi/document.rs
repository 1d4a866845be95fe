//! The whole document: the operations in the order of their groups, the shapes, and the form of authentication.

use crate::VERSION;
use crate::openapi::operations::all_operations;
use crate::openapi::shapes::all_shapes;
use crate::routes::{Route, all_routes};
use crate::wire::problem::Code;
use selvedge_api::description::{Access, Description};
use selvedge_api::node::Node;
use selvedge_api::tags;
use selvedge_core::{Permission, Role};

/// The conventions that hold for all operations.
const DESCRIPTION: &str = "The HTTP API of Selvedge, a durable execution engine.\n\n\
    Bodies are JSON in UTF-8. Times are RFC 3339 strings in fields named `…_at`, durations integer milliseconds in fields \
    named `…_ms`, ids UUIDs. An unknown field or parameter of a request is refused; answers may get more fields. An \
    optional field that is null counts as absent, except for payloads. A request that fails is answered with a problem \
    (RFC 9457) that has a stable `code`; `/docs/problems` explains every code.\n\n\
    Lengths of text count bytes of UTF-8.\n\n\
    A list has `items` and `next_cursor`, which is null at the end and only there: a page may have fewer items than its \
    limit because its size is bounded.";

/// Returns the document.
pub fn document() -> Node {
    let routes = all_routes();
    let operations = all_operations();
    let operations: Vec<&Description> = routes.operations().iter().chain(&operations).collect();
    let info = Node::object()
        .with("title", "Selvedge")
        .with("version", VERSION)
        .with("description", DESCRIPTION)
        .with("license", Node::object().with("name", "Apache-2.0").with("identifier", "Apache-2.0"));
    let tag = |(name, about): (&str, &str)| Node::object().with("name", name).with("description", about);
    let mut paths = Node::object();
    for (tag, _) in tags::ALL {
        for operation in operations.iter().filter(|operation| operation.tag == tag) {
            let access = access(operation, routes.table());
            let methods = paths.get(operation.path).cloned().unwrap_or_else(Node::object);
            paths.set(operation.path, methods.with(operation.method, operation.node(&access)));
        }
    }
    let mut schemas = Node::object();
    for (name, schema) in all_shapes() {
        schemas.set(name, schema.0);
    }
    let bearer = Node::object()
        .with("type", "http")
        .with("scheme", "bearer")
        .with("description", "An API key. Its namespace and role decide what the caller sees and may do.");
    Node::object()
        .with("openapi", "3.1.0")
        .with("info", info)
        .with("servers", vec![Node::object().with("url", "/")])
        .with("tags", tags::ALL.into_iter().map(tag).collect::<Vec<_>>())
        .with("paths", paths)
        .with(
            "components",
            Node::object()
                .with("schemas", schemas)
                .with("securitySchemes", Node::object().with("key", bearer)),
        )
}

/// Returns the role and credential that an operation needs, from the permission of its route.
fn access(operation: &Description, routes: &[Route]) -> Access {
    let is_same = |route: &&Route| {
        route.path == operation.path && route.method.as_str().eq_ignore_ascii_case(operation.method)
    };
    let permission = routes.iter().find(is_same).map_or(Permission::Open, |route| route.permission);
    if permission == Permission::Open {
        let security = Vec::<Node>::new().into();
        return Access { role: None, is_of_server: false, security, problems: Vec::new() };
    }
    let role = Role::ALL.into_iter().find(|role| role.has(permission)).unwrap_or(Role::Admin);
    // A server without keys needs no credential.
    let security = vec![Node::object().with("key", Vec::<Node>::new()), Node::object()];
    let is_of_server = permission == Permission::AdministerServer;
    let mut problems = credential_problems();
    problems.push(Code::UnknownNamespace);
    Access { role: Some(role.as_str()), is_of_server, security: security.into(), problems }
}

/// Returns the problems of a missing or invalid credential and of a role without the permission. The other codes with status
/// 401 and 403 are about tokens of waitpoints and about requests from web pages.
fn credential_problems() -> Vec<Code> {
    let others =
        [Code::InvalidToken, Code::TokenExpired, Code::TokenRevoked, Code::CrossOrigin, Code::WrongHost];
    let is_about_credentials = |code: &Code| {
        let info = code.info();
        (matches!(info.status, 401 | 403) && !others.contains(code)) || info.code == "namespace_required"
    };
    Code::ALL.into_iter().filter(is_about_credentials).collect()
}
