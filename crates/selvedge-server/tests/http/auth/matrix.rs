//! Every route with every role, cell by cell.

use super::frame::{OF_SERVER, OPEN, example, is_allowed};
use super::{call_in, key, start};
use axum::http::Method;
use selvedge_server::{Permission, Role, route_table};
use std::collections::BTreeSet;

#[tokio::test]
async fn every_route_is_open_to_the_roles_and_scopes_that_may_use_it_and_to_no_other() {
    let server = start().await;
    let table = route_table();
    let scopes = Role::ALL.map(|role| (role, vec!["default"])).into_iter();
    let scopes = scopes.chain([(Role::Admin, vec!["default", "other"]), (Role::Admin, vec!["*"])]);
    for (role, namespaces) in scopes {
        let name = format!("{} of {}", role.as_str(), namespaces.join(" and "));
        let key = key(&server, &name, role.as_str(), &namespaces).await;
        let is_of_every = namespaces == ["*"];
        for route in table.iter().filter(|route| route.permission != Permission::Open) {
            let (path, body) = example(route);
            let reply = call_in(&server, &key, Some("default"), route.method.as_str(), &path, body).await;
            let cell = format!("{} {} as {name}: {}", route.method, route.path, reply.text());
            assert_ne!(reply.status, 401, "{cell}");
            assert_eq!(reply.status != 403, is_allowed(role, is_of_every, route), "{cell}");
            assert_ne!(reply.status, 500, "{cell}");
        }
    }
}

#[test]
fn the_permission_for_the_whole_server_is_that_of_the_routes_without_a_namespace() {
    for route in route_table() {
        let is_of_server = route.permission == Permission::AdministerServer;
        assert_eq!(is_of_server, OF_SERVER.contains(&route.path), "{route:?}");
    }
}

#[tokio::test]
async fn every_route_needs_a_key_except_those_that_are_open_on_purpose() {
    let server = start().await;
    for route in route_table() {
        let (path, body) = example(&route);
        let body = if body.is_null() { Vec::new() } else { body.to_string().into() };
        let reply = server.send(route.method.as_str(), &path, &[], body).await;
        let cell = format!("{} {}: {} {}", route.method, route.path, reply.status, reply.text());
        match OPEN.contains(&route.path) {
            true => {
                assert_eq!(route.permission, Permission::Open, "{cell}");
                let has_token_problem = reply.status == 401 && reply.json()["code"] == "invalid_token";
                assert!(reply.status != 401 || has_token_problem, "{cell}");
            }
            false => {
                assert_eq!(
                    (reply.status, reply.json()["code"].as_str()),
                    (401, Some("unauthorized")),
                    "{cell}"
                );
                assert_eq!(reply.headers["www-authenticate"], "Bearer", "{cell}");
            }
        }
    }
}

#[test]
fn no_route_is_registered_twice_and_reads_are_never_more_than_reads() {
    let table = route_table();
    let distinct: BTreeSet<(&str, &str)> =
        table.iter().map(|route| (route.method.as_str(), route.path)).collect();
    assert_eq!(distinct.len(), table.len());
    for route in &table {
        let administers = route.path.starts_with("/v1/admin") || route.path == "/metrics";
        let expected = match (route.permission, administers) {
            (Permission::Open, false) => OPEN.contains(&route.path),
            (Permission::Administer | Permission::AdministerServer, true) => true,
            (Permission::Read, false) => route.method == Method::GET,
            (Permission::Submit | Permission::Work | Permission::Operate, false) => {
                route.method != Method::GET
            }
            (_, true) | (Permission::Administer | Permission::AdministerServer, false) => false,
        };
        assert!(expected, "{route:?}");
    }
}
