//! Every name of the API is in the documentation: endpoints, codes, event types, flags, and the fields of requests and
//! responses.
//!
//! The names come from the program itself. Endpoints are read from the table of routes. All others come from a
//! running server, which lists the fields that it knows when it refuses an unknown one.

use super::read_pages;
use super::requests::{fence, operations, requests};
use crate::support::{
    Directory, Place, Server, Sqlite, claim, claim_body, command, get, post, start_call, submit, text,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::process::Command;

/// A field that no request has.
const UNKNOWN: &str = "no_such_field";
/// The fields of responses whose content has names that callers choose.
const CHOSEN: [&str; 19] = [
    "children",
    "children_outcomes",
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
    "step_records",
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

/// Returns every endpoint of the router, such as `GET /v1/executions/{id}`.
fn endpoints() -> Vec<String> {
    selvedge_server::route_table().iter().map(|route| format!("{} {}", route.method, route.path)).collect()
}

#[test]
fn every_endpoint_is_documented() {
    check_documented("endpoint", endpoints());
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

/// Returns the names in the detail of a refusal of [`UNKNOWN`].
fn known_names(refused: &Value) -> Vec<String> {
    assert_eq!(refused["code"], "unknown_field", "{refused}");
    let detail = text(&refused["detail"]);
    match detail.ends_with("takes none") {
        true => Vec::new(),
        false => names_after(&detail, "there are "),
    }
}

#[test]
fn every_field_of_a_request_is_documented() {
    let place = Sqlite::new();
    let server = start_dev(&place);
    let id = submit(&server.url, json!({"kind": "k"}));
    let path = |path: &str| {
        let path = path.replace("{id}", &id).replace("{number}", "1");
        path.replace("{instance}", "w-1").replace("{name}", "n")
    };
    let (endpoints, requests) = (endpoints(), requests());
    let mut names = Vec::new();
    let has_json =
        |one: &&String| one.contains(" /v1/") && !one.starts_with("GET") && !one.starts_with("DELETE");
    // The pages have forms; docs/web.md describes them.
    for endpoint in endpoints.iter().filter(has_json) {
        let (method, target) = endpoint.split_once(' ').expect("an endpoint has a method");
        let url = format!("{}{}", server.url, path(target));
        let mut known = requests.iter().filter(|request| request.endpoint == endpoint).peekable();
        assert!(known.peek().is_some(), "there is no request for {endpoint} in requests.rs");
        for request in known {
            for object in request.objects {
                let mut body = request.body.clone();
                body.pointer_mut(object).expect("the pointer exists")[UNKNOWN] = json!(1);
                let (_, refused) = start_call(method, &url, Some(&body)).response();
                names.extend(known_names(&refused));
            }
        }
    }
    check_documented("field", names.into_iter().filter(|name| !name.is_empty()));
}

#[test]
fn every_parameter_of_a_request_is_documented() {
    let place = Sqlite::new();
    let server = start_dev(&place);
    let id = submit(&server.url, json!({"kind": "k"}));
    let mut names = Vec::new();
    for endpoint in endpoints() {
        let Some(path) = endpoint.strip_prefix("GET /v1/") else { continue };
        let path = path.replace("{id}", &id).replace("{name}", "n");
        let (_, refused) = get(&format!("{}/v1/{path}?{UNKNOWN}=1", server.url));
        names.extend(known_names(&refused));
    }
    check_documented("parameter", names);
}

#[test]
fn every_operation_of_a_report_is_documented() {
    let place = Sqlite::new();
    let server = start_dev(&place);
    let report = |op: &Value| {
        let (status, response) =
            post(&format!("{}/v1/workers/w-1/report", server.url), &json!({"ops": [op]}));
        assert_eq!(status, 200, "{response}");
        response["results"][0]["error"].clone()
    };
    let mut names = names_after(&text(&report(&json!({"op": UNKNOWN}))["detail"]), "one of ");
    for name in names.clone() {
        let op = operations().into_iter().find(|op| op["op"] == name);
        let op = op.unwrap_or_else(|| panic!("there is no example of the operation {name} in requests.rs"));
        let mut op = with_fence(op, &fence());
        op[UNKNOWN] = json!(1);
        names.extend(known_names(&report(&op)));
    }
    check_documented("operation or field", names);
}

/// Returns an operation with the fields of its fence.
fn with_fence(mut op: Value, fence: &Value) -> Value {
    let fence = fence.as_object().expect("a fence is an object").clone();
    op.as_object_mut().expect("an operation is an object").extend(fence);
    op
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
        put("lanes/n", json!({"concurrency": 9, "rate": {"count": 9, "window_ms": 1000}})),
        put("admin/namespaces/n", json!({"suspension_timeout_ms": 1000})),
        call("admin/keys", json!({"name": "n", "role": "reader", "namespaces": ["n"]})),
        put("quotas/n", json!({"concurrency": 1})),
        put("webhooks/n", json!({"url": "https://example.com/", "types": ["*"], "paused": true})),
        call("webhooks/n/rotate-secret", json!({"grace_ms": 1})),
        put("schedules/n", json!({"interval_ms": 3_600_000, "submit": {"execution": {"kind": "k"}}})),
        put("budgets/n", json!({"limits": {"tokens": {"hard": 10, "soft": 5}}, "scope": "lane"})),
    ];
    let submitted = call(
        "flows",
        json!({"nodes": [{"name": "a", "kind": "demo.echo"}, {"name": "b", "kind": "demo.echo"}], "edges": [{"from": "a", "to": "b"}]}),
    );
    let flow = text(&submitted["flow"]["id"]);
    responses.push(get(&format!("{url}/flows/{flow}/result?wait_ms=30000")).1);
    responses.push(submitted);

    let gates = json!({"kind": "k", "quotas": ["n"], "budgets": [{"name": "n", "reserve": {"tokens": 1}}]});
    let id = submit(&server.url, gates.clone());
    let held = submit(&server.url, gates);
    let claimed = claim(&server.url, "w-1", 2, 0).remove(0);
    let fence = json!({"execution": id, "attempt": claimed["attempt"], "lease_id": claimed["lease"]["id"],
        "epoch": claimed["lease"]["epoch"]});
    responses.push(call("workers/w-1/heartbeat", json!({"leases": [fence]})));
    responses.push(get(&format!("{url}/executions/{held}/explain")).1);
    responses.push(get(&format!("{url}/executions/{held}")).1);
    let condition =
        json!({"all": [{"signal": "s"}, {"count": {"n": 2, "of": ["t"], "distinct": "sources"}}]});
    let ops = [
        json!({"op": "frame", "kind": "stdout", "data": 1}),
        json!({"op": "frame", "kind": "stdout", "data": {"a": 1}, "mode": "summary"}),
        json!({"op": "step", "name": "s"}),
        json!({"op": "usage", "budget": "n", "usage": {"tokens": 1}}),
        json!({"op": "suspend", "condition": condition, "step": "t", "timeout_ms": 60_000, "waitpoints": ["w"]}),
        json!({"op": "complete"}),
    ];
    let ops = ops.map(|op| with_fence(op, &fence));
    let reported = call("workers/w-1/report", json!({"ops": ops, "claim": claim_body(1, 0)}));
    let waitpoint = text(&reported["results"][4]["waitpoints"][0]["id"]);
    responses.extend([claimed, reported]);
    responses.push(call("budgets/n/usage", json!({"usage": {"tokens": 1}})));
    responses.push(call(&format!("executions/{id}/signals"), json!({"name": "s"})));
    responses.push(call(&format!("executions/{id}/cancel"), json!({"if_version": 0})));

    let job = call("bulk-jobs", json!({"action": {"type": "replay"}, "filter": {"lane": "none"}}));
    let job = text(&job["id"]);

    for endpoint in endpoints() {
        let Some(path) = endpoint.strip_prefix("GET /v1/").filter(|path| !path.ends_with("/tail")) else {
            continue;
        };
        let id = match path.split('/').next() {
            Some("flows") => &flow,
            Some("waitpoints") => &waitpoint,
            Some("bulk-jobs") => &job,
            _ => &id,
        };
        let path = path.replace("{id}", id).replace("{name}", "n");
        let (status, response) = get(&format!("{url}/{path}"));
        assert!((200..300).contains(&status), "{path}: {response}");
        responses.push(response);
    }
    let mut names = BTreeSet::new();
    responses.iter().for_each(|response| add_fields(response, &mut names));
    check_documented("field", names);
}
