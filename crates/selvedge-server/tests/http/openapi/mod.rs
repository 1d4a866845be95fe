//! The OpenAPI document: it describes every route, field and problem, its examples work, and the reference shows it.

mod examples;
mod fields;

use crate::support::Server;
use crate::support::contract::DOCUMENT;
use selvedge_server::Role;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Returns the operations of the document with their methods and paths.
fn operations() -> Vec<(String, &'static str, &'static Value)> {
    let paths = DOCUMENT["paths"].as_object().expect("paths is an object");
    let of_path = |(path, methods): (&'static String, &'static Value)| {
        let methods = methods.as_object().expect("methods are an object");
        methods.iter().map(move |(method, operation)| (method.to_uppercase(), path.as_str(), operation))
    };
    paths.iter().flat_map(of_path).collect()
}

/// Returns the shape that a schema refers to, or the schema itself.
fn resolve(schema: &'static Value) -> &'static Value {
    match schema["$ref"].as_str() {
        Some(reference) => {
            let pointer = reference.strip_prefix('#').expect("references stay in the document");
            DOCUMENT.pointer(pointer).unwrap_or_else(|| panic!("there is no {reference}"))
        }
        None => schema,
    }
}

#[tokio::test]
async fn the_document_has_every_route_and_no_other() {
    let routes: BTreeSet<String> = selvedge_server::route_table()
        .iter()
        .map(|route| format!("{} {}", route.method, route.path))
        .collect();
    let described: BTreeSet<String> =
        operations().iter().map(|(method, path, _)| format!("{method} {path}")).collect();
    let missing: Vec<_> = routes.difference(&described).collect();
    let superfluous: Vec<_> = described.difference(&routes).collect();
    assert!(missing.is_empty(), "describe these routes in selvedge-api: {missing:?}");
    assert!(superfluous.is_empty(), "these are no routes: {superfluous:?}");
    let server = Server::start().await;
    let served = server.get("/openapi.json").await;
    assert_eq!((served.status, &served.json()), (200, &*DOCUMENT));
    assert_eq!(DOCUMENT["openapi"], "3.1.0");
}

/// Collects the places at which two values differ.
fn differences(ours: &Value, theirs: &Value, pointer: &str, found: &mut Vec<String>) {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            let names: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
            for name in names {
                let of =
                    |object: &serde_json::Map<String, Value>| object.get(name).cloned().unwrap_or_default();
                differences(&of(ours), &of(theirs), &format!("{pointer}/{name}"), found);
            }
        }
        _ if ours == theirs => {}
        _ => found.push(format!("{pointer}: {ours} instead of {theirs}")),
    }
}

#[test]
fn the_document_is_the_one_from_which_the_types_of_the_sdks_are_generated() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sdk/openapi.json");
    let text = std::fs::read_to_string(path).expect("the file is in the repository");
    let generated: Value = serde_json::from_str(&text).expect("the file is JSON");
    let mut found = Vec::new();
    differences(&DOCUMENT, &generated, "", &mut found);
    assert!(found.is_empty(), "run sdk/update-openapi and generate the types again: {found:#?}");
}

#[test]
fn every_operation_has_a_name_of_its_own_and_says_who_may_use_it() {
    let mut names = BTreeSet::new();
    for (method, path, operation) in operations() {
        let id = operation["operationId"].as_str().expect("an operation has a name");
        assert!(names.insert(id), "{id} is the name of two operations");
        assert!(id.bytes().all(|byte| byte == b'_' || byte.is_ascii_lowercase()), "{id}");
        assert!(!operation["summary"].as_str().unwrap_or_default().is_empty(), "{method} {path}");
        let route = selvedge_server::route_table()
            .into_iter()
            .find(|route| route.path == path && route.method.as_str() == method)
            .expect("the operation is a route");
        let is_open = route.permission == selvedge_server::Permission::Open;
        assert_eq!(operation["security"] == json!([]), is_open, "{method} {path}");
        let role = operation["x-required-role"].as_str().and_then(Role::parse);
        let least = Role::ALL.into_iter().find(|role| role.has(route.permission));
        assert_eq!(role, least.filter(|_| !is_open), "{method} {path}");
        let has_answer = |status: &String| status.starts_with(['2', '3']);
        let responses = operation["responses"].as_object().expect("responses is an object");
        assert!(responses.keys().any(has_answer), "{method} {path} has no answer");
    }
}

#[tokio::test]
async fn the_document_has_every_problem_code() {
    let server = Server::start().await;
    let page = server.get("/docs/problems").await.text();
    let codes: BTreeSet<&str> =
        page.split("<h2 id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let words = |value: &'static Value| -> BTreeSet<&str> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
    };
    let problem = &DOCUMENT["components"]["schemas"]["Problem"];
    assert_eq!(words(&problem["properties"]["code"]["enum"]), codes);
    let mut of_operations = BTreeSet::new();
    for (_, _, operation) in operations() {
        for response in operation["responses"].as_object().expect("responses is an object").values() {
            of_operations.extend(words(&response["x-problem-codes"]));
        }
    }
    // These are answers to no operation of the document: to another method, in the results of a report, and before a
    // request is read; and the row of a newer version is met by chance.
    for code in ["method_not_allowed", "stale_lease", "tls_required", "unreadable_row"] {
        of_operations.insert(code);
    }
    assert_eq!(of_operations, codes);
}

#[test]
fn every_reference_leads_to_a_shape_and_every_shape_is_used() {
    fn collect(value: &'static Value, found: &mut BTreeSet<&'static str>) {
        match value {
            Value::Object(fields) => {
                if let Some(reference) = value["$ref"].as_str() {
                    resolve(value);
                    found.insert(reference.rsplit('/').next().unwrap_or_default());
                }
                fields.values().for_each(|field| collect(field, found));
            }
            Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut used = BTreeSet::new();
    collect(&DOCUMENT, &mut used);
    let shapes = DOCUMENT["components"]["schemas"].as_object().expect("schemas is an object");
    let shapes: BTreeSet<&str> = shapes.keys().map(String::as_str).collect();
    assert_eq!(used, shapes);
}

#[tokio::test]
async fn the_reference_shows_every_operation_and_shape_and_loads_nothing() {
    let server = Server::start().await;
    let reply = server.get("/docs").await;
    let page = reply.text();
    assert_eq!((reply.status, reply.header("content-type")), (200, "text/html; charset=utf-8"));
    for (_, path, operation) in operations() {
        let id = operation["operationId"].as_str().expect("an operation has a name");
        assert!(page.contains(&format!("<details id=\"{id}\">")), "{id}");
        assert!(page.contains(&format!("<code>{path}</code>")), "{path}");
    }
    for name in DOCUMENT["components"]["schemas"].as_object().expect("schemas is an object").keys() {
        assert!(page.contains(&format!("<details id=\"{name}\">")), "{name}");
    }
    let own = selvedge_server::route_table();
    for link in page.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
        let path = link.split('#').next().unwrap_or_default();
        match link.strip_prefix('#') {
            Some(anchor) => assert!(page.contains(&format!("id=\"{anchor}\"")), "{link} leads nowhere"),
            None => {
                assert!(path.starts_with("/assets/") || own.iter().any(|route| route.path == path), "{link}")
            }
        }
    }
    assert_eq!(page.matches("src=\"").count(), page.matches("src=\"/assets/").count());
    assert!(reply.header("content-security-policy").starts_with("default-src 'none'"));
    let overview = server.get("/").await.text();
    assert!(overview.contains("href=\"/docs\"") && page.contains("href=\"/docs/problems\""));
}
