//! Everything that the HTTP API shows of a store, by path, and the file in which a fixture keeps it.

use crate::notes::Notes;
use crate::server::Server;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Status and body by path. Of a problem only the status is kept. Of a list only ids or names are kept where each of its items
/// is read on its own too; and of the history of an execution only versions and types, since each event must be the same
/// as that of the log.
pub type Answers = BTreeMap<String, Value>;

/// The queries of lists of executions.
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

/// Lists that belong to one execution.
const OF_EXECUTION: [&str; 7] =
    ["result", "explain", "attempts?limit=500", "signals", "steps", "waitpoints", "usage"];

/// Reads everything.
pub async fn read(server: &Server) -> Answers {
    let mut answers = Answers::new();
    let log = items(server, "/v1/events", "after").await;
    for query in LISTS {
        let path = format!("/v1/executions{query}");
        let ids = ids(server, &path).await;
        answers.insert(path, ids);
    }
    for id in texts(&answers["/v1/executions"]) {
        read_execution(server, &id, &mut answers).await;
        read_history(server, &id, &log, &mut answers).await;
    }
    for query in ["", "?state=running", "?state=failed", "?name=joined", "?tag=kept:blocked"] {
        let path = format!("/v1/flows{query}");
        let ids = ids(server, &path).await;
        answers.insert(path, ids);
    }
    for id in texts(&answers["/v1/flows"]) {
        for path in ["", "/graph", "/result"] {
            take(server, format!("/v1/flows/{id}{path}"), &mut answers).await;
        }
    }
    for kind in ["lanes", "quotas", "budgets"] {
        let path = format!("/v1/{kind}");
        let gates = items(server, &path, "cursor").await;
        let names: Value = gates.iter().map(|gate| gate["name"].clone()).collect();
        for name in texts(&names) {
            take(server, format!("{path}/{name}"), &mut answers).await;
        }
        answers.insert(path, names);
    }
    take(server, "/v1/workers".into(), &mut answers).await;
    answers.insert("/v1/events".into(), json!(log));
    answers
}

async fn read_execution(server: &Server, id: &str, answers: &mut Answers) {
    let execution = take(server, format!("/v1/executions/{id}"), answers).await;
    for list in OF_EXECUTION {
        take(server, format!("/v1/executions/{id}/{list}"), answers).await;
    }
    for attempt in 0..execution["attempts"].as_u64().expect("a count") {
        let stream = format!("/v1/executions/{id}/stream?attempt={attempt}");
        if take(server, stream.clone(), answers).await["items"] == json!([]) {
            answers.remove(&stream);
        }
        let summary = format!("/v1/executions/{id}/summary?attempt={attempt}");
        let (status, answer) = server.call("GET", &summary, None, None).await;
        if status == 200 && answer["version"] != 0 {
            answers.insert(summary, json!([status, answer]));
        }
    }
}

/// Reads the history of an execution. Each of its events must be in the log with the same content, but for the cursor, which
/// is that of another list.
async fn read_history(server: &Server, id: &str, log: &[Value], answers: &mut Answers) {
    let path = format!("/v1/executions/{id}/events");
    let mut told = Vec::new();
    for mut event in items(server, &path, "cursor").await {
        let is_same = |logged: &&Value| {
            event["cursor"] = logged["cursor"].clone();
            event == **logged
        };
        assert!(log.iter().find(is_same).is_some(), "{path}: the log has no {event}");
        told.push(json!({ "version": event["version"], "type": event["type"] }));
    }
    answers.insert(path, told.into());
}

/// Reads a path, keeps what it shows, and returns it.
async fn take(server: &Server, path: String, answers: &mut Answers) -> Value {
    let (status, answer) = server.call("GET", &path, None, None).await;
    answers.insert(path, if status < 400 { json!([status, answer]) } else { json!([status]) });
    answer
}

/// The ids of a list, in its order.
async fn ids(server: &Server, path: &str) -> Value {
    let items = items(server, path, "cursor").await;
    items.iter().map(|item| item["id"].clone()).collect()
}

/// All items of a list, page by page.
async fn items(server: &Server, path: &str, parameter: &str) -> Vec<Value> {
    let separator = if path.contains('?') { '&' } else { '?' };
    let (mut items, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = server.get(&format!("{path}{separator}limit=500{cursor}")).await;
        items.extend(page["items"].as_array().expect("items").iter().cloned());
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&{parameter}={next}"),
            None => return items,
        }
    }
}

fn texts(values: &Value) -> Vec<String> {
    let values = values.as_array().expect("a list").iter();
    values.map(|value| value.as_str().expect("a text").to_owned()).collect()
}

/// The text of a file with notes and answers: one line for each, so that a change shows where it is.
pub fn write(notes: &Notes, answers: &Answers) -> String {
    let lines = |values: Vec<(&String, &Value)>| {
        let lines = values.into_iter().map(|(name, value)| format!("{}: {value}", json!(name)));
        lines.collect::<Vec<String>>().join(",\n")
    };
    let (notes, answers) = (lines(notes.0.iter().collect()), lines(answers.iter().collect()));
    format!("{{\"notes\": {{\n{notes}\n}}, \"answers\": {{\n{answers}\n}}}}\n")
}

/// The notes and the answers in the text of a file.
pub fn parse(text: &str) -> (Notes, Answers) {
    let mut file: Map<String, Value> = serde_json::from_str(text).expect("the file is JSON");
    let mut part = |name: &str| match file.remove(name) {
        Some(Value::Object(part)) => part,
        other => panic!("{name} is {other:?}"),
    };
    (Notes(part("notes")), part("answers").into_iter().collect())
}
