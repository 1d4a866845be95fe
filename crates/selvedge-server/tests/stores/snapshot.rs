//! Snapshots: everything that the HTTP API shows of a store, and the file format in which a fixture keeps it.

use crate::driver::text;
use crate::notes::Notes;
use crate::server::Server;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Status and body by path. Problems are reduced to their status. Lists whose items are read one by one as well are
/// reduced to ids or names. The history of an execution is reduced to versions and types, because its events must equal
/// those of the log.
pub type Snapshot = BTreeMap<String, Value>;

/// The queries with which executions are listed.
const LISTS: [&str; 22] = [
    "",
    "?state=waiting",
    "?state=delayed",
    "?state=waiting_dependencies",
    "?state=held",
    "?state=active",
    "?state=suspended",
    "?state=completed",
    "?state=failed",
    "?state=cancelled",
    "?state=expired",
    "?state=skipped",
    "?lane=completed",
    "?lane=no-such-lane",
    "?kind=child",
    "?tag=kept:waiting",
    "?tag=team:blue",
    "?tag=team:red",
    "?tag=flow:joined",
    "?flow=f1c70000-0000-7000-8000-000000000201",
    "?flow=f1c70000-0000-7000-8000-000000000206",
    "?state=failed,expired&lane=expired",
];

/// The subpaths of an execution.
const OF_EXECUTION: [&str; 7] =
    ["result", "explain", "attempts?limit=500", "signals", "steps", "waitpoints", "usage"];

/// Reads the snapshot of a store.
pub async fn read(server: &Server) -> Snapshot {
    let mut snapshot = Snapshot::new();
    let log = items(server, "/v1/events", "after").await;
    for query in LISTS {
        let path = format!("/v1/executions{query}");
        let ids = ids(server, &path).await;
        snapshot.insert(path, ids);
    }
    for id in texts(&snapshot["/v1/executions"]) {
        read_execution(server, &id, &mut snapshot).await;
        read_history(server, &id, &log, &mut snapshot).await;
    }
    for query in ["", "?state=running", "?state=failed", "?name=joined", "?tag=kept:blocked"] {
        let path = format!("/v1/flows{query}");
        let ids = ids(server, &path).await;
        snapshot.insert(path, ids);
    }
    for id in texts(&snapshot["/v1/flows"]) {
        for path in ["", "/graph", "/result"] {
            take(server, format!("/v1/flows/{id}{path}"), &mut snapshot).await;
        }
    }
    for kind in ["lanes", "quotas", "budgets"] {
        let path = format!("/v1/{kind}");
        let gates = items(server, &path, "cursor").await;
        let names: Value = gates.iter().map(|gate| gate["name"].clone()).collect();
        for name in texts(&names) {
            take(server, format!("{path}/{name}"), &mut snapshot).await;
        }
        snapshot.insert(path, names);
    }
    // Workers that have ended are listed for a while.
    let (status, mut workers) = server.call("GET", "/v1/workers", None, None).await;
    workers["items"].as_array_mut().expect("items is an array").retain(|worker| worker["live"] == true);
    snapshot.insert("/v1/workers".into(), json!([status, workers]));
    snapshot.insert("/v1/events".into(), json!(log));
    snapshot
}

async fn read_execution(server: &Server, id: &str, snapshot: &mut Snapshot) {
    let execution = take(server, format!("/v1/executions/{id}"), snapshot).await;
    for list in OF_EXECUTION {
        take(server, format!("/v1/executions/{id}/{list}"), snapshot).await;
    }
    for attempt in 0..execution["attempts"].as_u64().expect("attempts is an integer") {
        let stream = format!("/v1/executions/{id}/stream?attempt={attempt}");
        if take(server, stream.clone(), snapshot).await["items"] == json!([]) {
            snapshot.remove(&stream);
        }
        let summary = format!("/v1/executions/{id}/summary?attempt={attempt}");
        let (status, response) = server.call("GET", &summary, None, None).await;
        if status == 200 && response["version"] != 0 {
            snapshot.insert(summary, json!([status, response]));
        }
    }
}

/// Reads the history of an execution. Each of its events must be in the log with the same content except for the
/// cursor, which belongs to another list.
async fn read_history(server: &Server, id: &str, log: &[Value], snapshot: &mut Snapshot) {
    let path = format!("/v1/executions/{id}/events");
    let mut history = Vec::new();
    for mut event in items(server, &path, "cursor").await {
        let is_same = |logged: &&Value| {
            event["cursor"] = logged["cursor"].clone();
            event == **logged
        };
        assert!(log.iter().find(is_same).is_some(), "{path}: the log has no {event}");
        history.push(json!({ "version": event["version"], "type": event["type"] }));
    }
    snapshot.insert(path, history.into());
}

/// Reads a path into the snapshot and returns the body.
async fn take(server: &Server, path: String, snapshot: &mut Snapshot) -> Value {
    let (status, response) = server.call("GET", &path, None, None).await;
    snapshot.insert(path, if status < 400 { json!([status, response]) } else { json!([status]) });
    response
}

/// Reads the ids of a list, in its order.
async fn ids(server: &Server, path: &str) -> Value {
    let items = items(server, path, "cursor").await;
    items.iter().map(|item| item["id"].clone()).collect()
}

/// Reads all items of a list, page by page.
async fn items(server: &Server, path: &str, parameter: &str) -> Vec<Value> {
    let separator = if path.contains('?') { '&' } else { '?' };
    let (mut items, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = server.get(&format!("{path}{separator}limit=500{cursor}")).await;
        items.extend(page["items"].as_array().expect("items is an array").iter().cloned());
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&{parameter}={next}"),
            None => return items,
        }
    }
}

fn texts(values: &Value) -> Vec<String> {
    values.as_array().expect("an array of strings").iter().map(text).collect()
}

/// Formats a fixture's file of notes and snapshot, with one line per entry, so that diffs are readable.
pub fn write(notes: &Notes, snapshot: &Snapshot) -> String {
    let lines = |values: Vec<(&String, &Value)>| {
        let lines = values.into_iter().map(|(name, value)| format!("{}: {value}", json!(name)));
        lines.collect::<Vec<String>>().join(",\n")
    };
    let (notes, snapshot) = (lines(notes.0.iter().collect()), lines(snapshot.iter().collect()));
    format!("{{\"notes\": {{\n{notes}\n}}, \"answers\": {{\n{snapshot}\n}}}}\n")
}

/// Parses a fixture's file of notes and snapshot.
pub fn parse(text: &str) -> (Notes, Snapshot) {
    let mut file: Map<String, Value> = serde_json::from_str(text).expect("the file is JSON");
    let mut part = |name: &str| match file.remove(name) {
        Some(Value::Object(part)) => part,
        other => panic!("{name} is {other:?}"),
    };
    (Notes(part("notes")), part("answers").into_iter().collect())
}
