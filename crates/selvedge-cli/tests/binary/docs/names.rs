//! Every name of the API is in the documentation: endpoints, codes, event types, flags, and the fields of requests and
//! responses.
//!
//! The names come from the program itself. Endpoints are read from the source of the router. All others come from a
//! running server, which lists the fields that it knows when it refuses an unknown one.

use super::{read_pages, workspace};
use crate::support::{Directory, Place, Server, Sqlite, claim, command, get, post, start_call, submit, text};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::process::Command;

/// A field that no request has.
const UNKNOWN: &str = "no_such_field";
/// The fields of responses whose content has names that callers choose.
const CHOSEN: [&str; 17] = [
    "children",
    "data",
    "document",
    "executions",
    "input",
    "limits",
    "payload",
    "reserve",
    "reserved",
    "result",
    "results",
    "spent",
    "steps",
    "tags",
    "upstream",
    "upstream_outcomes",
    "usage",
];

/// Returns the code of all pages: the text in fences and between backticks.
fn documented_code() -> String {
    let mut code = String::new();
    for (_, text) in read_pages() {
        let mut fenced = false;
        for line in text.lines() {
            if line.trim_start().starts_with("```") {
                fenced = !fenced;
            } else if fenced {
                code += line;
            } else {
                line.split('`').skip(1).step_by(2).for_each(|span| code = format!("{code}{span}\n"));
            }
            code.push('\n');
        }
    }
    code
}

/// Asserts that the documentation has each of these names as a whole word in its code.
fn check_documented(what: &str, names: impl IntoIterator<Item = String>) {
    let code = documented_code();
    let names: BTreeSet<String> = names.into_iter().collect();
    assert!(!names.is_empty(), "there is no {what}");
    let is_part = |one: char| one.is_ascii_alphanumeric() || "_-/{".contains(one);
    let is_documented = |name: &String| {
        code.match_indices(name.as_str()).any(|(at, _)| {
            let after = code[at + name.len()..].chars().next();
            let before = code[..at].chars().next_back();
            !after.is_some_and(is_part) && !before.is_some_and(is_part)
        })
    };
    let missing: Vec<&String> = names.iter().filter(|name| !is_documented(name)).collect();
    assert!(missing.is_empty(), "no page in docs has this {what} in its code: {missing:?}");
}

fn start_dev(place: &impl Place) -> Server {
    let mut dev = command();
    dev.args(["dev", "--store", &place.store(), "--json"]);
    Server::spawn(dev)
}

/// Returns the names at the end of a text such as `…; there are a, b, c`.
fn names_after(text: &str, words: &str) -> Vec<String> {
    let (_, names) = text.split_once(words).unwrap_or_else(|| panic!("{words:?} is not in {text:?}"));
    names.split(", ").map(|name| name.trim().to_owned()).collect()
}

#[test]
fn every_endpoint_is_documented() {
    let routes = workspace().join("crates/selvedge-server/src/routes/mod.rs");
    let source = std::fs::read_to_string(routes).expect("the router has a source");
    let mut endpoints = Vec::new();
    for route in source.split(".route(\"").skip(1) {
        let (path, rest) = route.split_once('"').expect("a path ends with a quote");
        let handlers = rest.split(['}', ';']).next().unwrap_or_default();
        for method in ["get", "post", "put", "patch", "delete"] {
            if handlers.contains(&format!("{method}(")) {
                endpoints.push(format!("{} {path}", method.to_uppercase()));
            }
        }
    }
    check_documented("endpoint", endpoints);
}

#[test]
fn every_code_event_type_and_flag_is_documented() {
    let place = Sqlite::new();
    let server = start_dev(&place);
    let problems = format!("{}/docs/problems", server.url);
    let page = Command::new("curl").args(["--silent", &problems]).output().expect("curl starts");
    let page = String::from_utf8(page.stdout).expect("the page is text");
    let codes = page.split("<h2 id=\"").skip(1).filter_map(|rest| rest.split('"').next());
    check_documented("code", codes.map(str::to_owned));

    let (status, refused) = get(&format!("{}/v1/events?types=none", server.url));
    assert_eq!(status, 422, "{refused}");
    check_documented("event type", names_after(&text(&refused["detail"]), "there are "));

    let directory = Directory::new();
    for subcommand in ["serve", "dev"] {
        let help = command().args([subcommand, "--help"]).current_dir(directory.path()).output();
        let help = String::from_utf8(help.expect("the binary starts").stdout).expect("help is text");
        let words = help.split(|one: char| !(one.is_ascii_alphanumeric() || "-_".contains(one)));
        let is_flag = |word: &&str| word.starts_with("--") && !["--help", "--version"].contains(word);
        let is_variable = |word: &&str| word.starts_with("SELVEDGE_");
        check_documented("flag", words.filter(|word| is_flag(word) || is_variable(word)).map(str::to_owned));
    }
}

/// Returns a valid body of each request that has fields, and for nested objects the pointer to the object to extend.
fn requests() -> Vec<(&'static str, &'static str, Value, &'static str)> {
    let submission = json!({"kind": "k", "retry": {"backoff": {"type": "exponential"}}, "budgets": [{"name": "b"}],
        "concurrency": {"key": "k", "limit": 1}});
    let fixed = json!({"kind": "k", "retry": {"backoff": {"type": "fixed", "delay_ms": 1}}});
    let flow = json!({"nodes": [{"name": "a", "kind": "k"}], "edges": [{"from": "a", "to": "b"}],
        "groups": [{"node": "a", "policy": {"type": "quorum", "k": 1}}], "defaults": {}});
    let claim = json!({"worker": "w", "lanes": ["l"], "max": 1});
    let fence =
        json!({"execution": uuid::Uuid::nil(), "attempt": 0, "lease_id": uuid::Uuid::nil(), "epoch": 1});
    let bulk = |kind: &str| json!({"action": {"type": kind, "priority": 1, "delay_ms": 1}, "ids": []});
    let limits = json!({"limits": {"tokens": {"hard": 1}}});
    let rate = json!({"rate": {"count": 1, "window_ms": 1}});
    vec![
        ("POST", "executions", submission.clone(), ""),
        ("POST", "executions", submission.clone(), "/retry"),
        ("POST", "executions", submission.clone(), "/retry/backoff"),
        ("POST", "executions", fixed, "/retry/backoff"),
        ("POST", "executions", submission.clone(), "/budgets/0"),
        ("POST", "executions", submission, "/concurrency"),
        ("POST", "executions/batch", json!({"executions": []}), ""),
        ("POST", "executions/bulk", bulk("cancel"), ""),
        ("POST", "executions/bulk", json!({"action": {"type": "cancel"}, "filter": {}}), "/filter"),
        ("POST", "flows", flow.clone(), ""),
        ("POST", "flows", flow.clone(), "/nodes/0"),
        ("POST", "flows", flow.clone(), "/edges/0"),
        ("POST", "flows", flow.clone(), "/groups/0"),
        ("POST", "flows", flow, "/groups/0/policy"),
        ("POST", "flows/{id}/cancel", json!({}), ""),
        ("POST", "executions/{id}/cancel", json!({}), ""),
        ("POST", "executions/{id}/replay", json!({}), ""),
        ("POST", "executions/{id}/reschedule", json!({"delay_ms": 1}), ""),
        ("POST", "executions/{id}/priority", json!({"priority": 1}), ""),
        ("POST", "executions/{id}/tags", json!({}), ""),
        ("POST", "executions/{id}/revoke-lease", json!({}), ""),
        ("POST", "executions/{id}/resume", json!({}), ""),
        ("POST", "executions/{id}/signals", json!({"name": "s"}), ""),
        ("POST", "waitpoints/{id}/signal", json!({"token": "t"}), ""),
        ("POST", "workers/w-1/claim", claim.clone(), ""),
        ("POST", "workers/w-1/heartbeat", json!({"leases": [fence.clone()]}), ""),
        ("POST", "workers/w-1/heartbeat", json!({"leases": [fence]}), "/leases/0"),
        ("POST", "workers/w-1/report", json!({"ops": [], "claim": claim}), ""),
        ("PUT", "lanes/l", rate.clone(), ""),
        ("PUT", "lanes/l", rate.clone(), "/rate"),
        ("PUT", "quotas/q", rate, ""),
        ("PUT", "budgets/b", limits.clone(), ""),
        ("PUT", "budgets/b", limits, "/limits/tokens"),
        ("POST", "budgets/b/usage", json!({"usage": {}}), ""),
        ("POST", "admin/waitpoint-keys/rotate", json!({"grace_ms": 1}), ""),
    ]
}

/// Returns a valid form of each operation of a report, without its fence.
fn operations() -> Vec<Value> {
    let condition = json!({"signal": "s"});
    vec![
        json!({"op": "complete"}),
        json!({"op": "fail", "message": "m"}),
        json!({"op": "cancelled"}),
        json!({"op": "progress"}),
        json!({"op": "delay", "delay_ms": 1}),
        json!({"op": "release"}),
        json!({"op": "waitpoint", "name": "w"}),
        json!({"op": "suspend", "condition": condition}),
        json!({"op": "step", "name": "s"}),
        json!({"op": "frame", "kind": "stdout", "data": 1}),
        json!({"op": "usage", "budget": "b", "usage": {}}),
        json!({"op": "spawn", "nodes": []}),
    ]
}

#[test]
fn every_field_and_parameter_of_a_request_is_documented() {
    let place = Sqlite::new();
    let server = start_dev(&place);
    let url = format!("{}/v1", server.url);
    let mut names = Vec::new();
    let id = submit(&server.url, json!({"kind": "k"}));
    for (method, path, mut body, pointer) in requests() {
        body.pointer_mut(pointer).expect("the pointer exists")[UNKNOWN] = json!(1);
        let path = path.replace("{id}", &id);
        let (status, refused) = start_call(method, &format!("{url}/{path}"), Some(&body)).response();
        assert_eq!((status, &refused["code"]), (422, &json!("unknown_field")), "{path}{pointer}: {refused}");
        names.extend(names_after(&text(&refused["detail"]), "there are "));
    }

    let report = |op: &Value| {
        let (status, response) = post(&format!("{url}/workers/w-1/report"), &json!({"ops": [op]}));
        assert_eq!(status, 200, "{response}");
        text(&response["results"][0]["error"]["detail"])
    };
    let known = names_after(&report(&json!({"op": UNKNOWN})), "one of ");
    for name in &known {
        let op = operations().into_iter().find(|op| op["op"] == **name);
        let mut op = op.unwrap_or_else(|| panic!("there is no example of the operation {name}"));
        op[UNKNOWN] = json!(1);
        for (field, value) in
            [("execution", json!(id)), ("attempt", json!(0)), ("lease_id", json!(id)), ("epoch", json!(1))]
        {
            op[field] = value;
        }
        names.extend(names_after(&report(&op), "there are "));
    }
    names.extend(known);

    for path in [
        "executions",
        "flows",
        "events",
        "workers",
        "lanes",
        "executions/{id}/result",
        "executions/{id}/stream",
        "executions/{id}/attempts",
        "flows/{id}/graph",
        "flows/{id}/result",
    ] {
        let path = path.replace("{id}", &id);
        let (status, refused) = get(&format!("{url}/{path}?{UNKNOWN}=1"));
        assert_eq!(status, 422, "{path}: {refused}");
        names.extend(names_after(&text(&refused["detail"]), "there are "));
    }
    check_documented("field", names);
}

/// Adds the names of all fields of a response.
fn add_fields(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                names.insert(name.clone());
                if !CHOSEN.contains(&name.as_str()) {
                    add_fields(value, names);
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| add_fields(item, names)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn every_field_of_a_response_is_documented() {
    let place = Sqlite::new();
    let server = start_dev(&place);
    let url = format!("{}/v1", server.url);
    let put = |path: &str, body: Value| start_call("PUT", &format!("{url}/{path}"), Some(&body)).response().1;
    let call = |path: &str, body: Value| post(&format!("{url}/{path}"), &body).1;
    let mut responses = vec![
        put("lanes/default", json!({"concurrency": 9, "rate": {"count": 9, "window_ms": 1000}})),
        put("quotas/q", json!({"concurrency": 1})),
        put(
            "budgets/b",
            json!({"limits": {"tokens": {"hard": 10, "soft": 5}}, "scope": "lane", "period_ms": 1000}),
        ),
        call(
            "flows",
            json!({"nodes": [{"name": "a", "kind": "echo"}, {"name": "b", "kind": "echo"}],
            "edges": [{"from": "a", "to": "b"}]}),
        ),
        call("budgets/b/usage", json!({"usage": {"tokens": 1}})),
    ];
    let flow = text(&responses[3]["flow"]["id"]);
    let gates = json!({"kind": "k", "quotas": ["q"], "budgets": [{"name": "b", "reserve": {"tokens": 1}}]});
    let id = submit(&server.url, gates.clone());
    let held = submit(&server.url, gates);
    let claimed = claim(&server.url, "w-1", 2, 0);
    let fence = json!({"execution": id, "attempt": claimed[0]["attempt"], "lease_id": claimed[0]["lease"]["id"],
        "epoch": claimed[0]["lease"]["epoch"]});
    let with = |mut op: Value| {
        op.as_object_mut()
            .expect("an operation is an object")
            .extend(fence.as_object().expect("it is one").clone());
        op
    };
    responses.push(call("workers/w-1/heartbeat", json!({"leases": [fence]})));
    responses.push(get(&format!("{url}/executions/{held}/explain")).1);
    responses.push(get(&format!("{url}/executions/{held}")).1);
    responses.push(call(
        "workers/w-1/report",
        json!({"ops": [
            with(json!({"op": "frame", "kind": "stdout", "data": 1})),
            with(json!({"op": "frame", "kind": "stdout", "data": {"a": 1}, "mode": "summary"})),
            with(json!({"op": "step", "name": "s"})),
            with(json!({"op": "usage", "budget": "b", "usage": {"tokens": 1}})),
            with(json!({"op": "suspend", "condition": {"all": [{"signal": "s"}, {"count": {"n": 2, "of": ["t"],
                "distinct": "sources"}}]}, "step": "t", "timeout_ms": 60_000, "waitpoints": ["w"]})),
            with(json!({"op": "complete"})),
        ]}),
    ));
    responses.push(call(&format!("executions/{id}/signals"), json!({"name": "s"})));
    responses.push(call(&format!("executions/{id}/cancel"), json!({"if_version": 0})));
    responses.push(get(&format!("{url}/flows/{flow}/result?wait_ms=20000")).1);
    responses.extend(claimed);
    for path in [
        "executions",
        "flows",
        "workers",
        "lanes",
        "quotas",
        "budgets",
        "budgets/b",
        "events",
        "executions/{id}",
        "executions/{id}/explain",
        "executions/{id}/attempts",
        "executions/{id}/events",
        "executions/{id}/steps",
        "executions/{id}/signals",
        "executions/{id}/waitpoints",
        "executions/{id}/usage",
        "executions/{id}/stream",
        "executions/{id}/summary",
        "executions/{id}/result",
        "flows/{flow}",
        "flows/{flow}/graph",
    ] {
        let path = path.replace("{id}", &id).replace("{flow}", &flow);
        let (status, response) = get(&format!("{url}/{path}"));
        assert!((200..300).contains(&status), "{path}: {response}");
        responses.push(response);
    }
    let mut names = BTreeSet::new();
    responses.iter().for_each(|response| add_fields(response, &mut names));
    check_documented("field", names);
}
