//! The views for reports show every execution and flow of a store with every kind of row.

use crate::support::Directory;
use rusqlite::{Connection, OpenFlags};
use selvedge_conformance::fixtures::newest;
use selvedge_core::filter::{Filter, Payloads};
use selvedge_core::state::StateName;
use selvedge_core::{Class, ClassId, Execution, Timestamp};
use selvedge_sqlite::SqliteStore;
use selvedge_store::{ClassStore, ExecutionReads, FlowReads, NamespaceStore, Stored};
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap};

/// Returns the rows of a view as JSON objects, by id.
fn rows(connection: &Connection, view: &str) -> HashMap<String, Value> {
    let mut statement = connection.prepare(&format!("select * from {view}")).expect("the view exists");
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let rows = statement.query_map((), |row| {
        let mut shown = serde_json::Map::new();
        for (index, name) in names.iter().enumerate() {
            let value = match row.get::<_, rusqlite::types::Value>(index)? {
                rusqlite::types::Value::Null => Value::Null,
                rusqlite::types::Value::Integer(number) => number.into(),
                rusqlite::types::Value::Real(number) => number.into(),
                rusqlite::types::Value::Text(text) => text.into(),
                rusqlite::types::Value::Blob(_) => panic!("{name} is not readable"),
            };
            shown.insert(name.clone(), value);
        }
        Ok((shown["id"].as_str().expect("an id is text").to_owned(), Value::Object(shown)))
    });
    rows.expect("the view is read").collect::<Result<_, _>>().expect("the rows are read")
}

/// Returns a time as the view shows it, without its fraction.
fn second(time: Option<Timestamp>) -> Option<i64> {
    time.map(|time| time.millis().div_euclid(1000))
}

/// Returns the second of a time in the view.
fn shown_second(connection: &Connection, time: &Value) -> Option<i64> {
    let text = time.as_str()?;
    let read = connection.query_row("select cast(strftime('%s', ?1) as integer)", [text], |row| row.get(0));
    Some(read.expect("it is a time"))
}

fn check(connection: &Connection, row: &Value, stored: &Stored, class: &Class) {
    let execution: &Execution = &stored.execution;
    let (spec, detail) = (&execution.spec, &execution.detail);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("a payload is text");
    let error = detail.error.as_ref();
    for (name, value) in [
        ("lane", json!(class.lane)),
        ("kind", json!(class.kind)),
        ("outcome", json!(execution.state.outcome())),
        ("flow_id", json!(execution.flow())),
        ("node", json!(execution.node())),
        ("parent", json!(spec.node.as_ref().and_then(|node| node.parent))),
        ("priority", json!(execution.priority)),
        ("attempts", json!(execution.epoch)),
        ("generation", json!(detail.generation)),
        ("retries", json!(detail.retries)),
        ("interruptions", json!(detail.interruptions)),
        ("input", json!(text(&stored.input))),
        ("result", json!(stored.result.as_ref().map(|result| text(result)))),
        ("error_message", json!(error.map(|error| &error.message))),
        ("error_class", json!(error.map(|error| error.class.as_str()))),
        ("version", json!(execution.version)),
        ("cancel_requested", json!(i64::from(detail.cancel.is_some()))),
        ("idempotency_key", json!(spec.idempotency_key)),
        ("unique_while_active", json!(spec.unique_while_active)),
        ("fairness_key", json!(spec.required_gates.fairness_key)),
        ("attempt_timeout_ms", json!(spec.policy.attempt_timeout_ms)),
        ("deadline_ms", json!(spec.policy.deadline_ms)),
        ("start_by_ms", json!(spec.policy.start_by_ms)),
        ("retention_ms", json!(spec.policy.retention_ms)),
    ] {
        assert_eq!(row[name], value, "{name} of {row}");
    }
    for (name, value) in [("tags", json!(execution.tags)), ("capabilities", json!(class.capabilities))] {
        let shown: Value = serde_json::from_str(row[name].as_str().expect("it is text")).expect("it is JSON");
        assert_eq!(shown, value, "{name} of {row}");
    }
    for (name, time) in [
        ("submitted_at", Some(execution.submitted_at)),
        ("started_at", execution.started_at),
        ("ended_at", execution.ended_at),
        ("deadline_at", execution.deadline_at()),
    ] {
        assert_eq!(shown_second(connection, &row[name]), second(time), "{name} of {row}");
    }
    let state = execution.state.name();
    // A waiting execution in a paused lane is shown as held.
    let held = state == StateName::Waiting && row["state"] == "held";
    assert!(held || row["state"] == state.as_str(), "{row}");
}

#[tokio::test]
async fn the_views_show_every_execution_and_flow_of_a_store() {
    let directory = Directory::new();
    std::fs::copy(newest().path("sqlite.db"), directory.database()).expect("the file is copied");
    let store = SqliteStore::open(&directory.database()).await.expect("the store opens");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let connection = Connection::open_with_flags(directory.database(), flags).expect("the file opens");
    let shown = rows(&connection, "v1_executions");
    let classes: HashMap<ClassId, Class> =
        store.classes_after(ClassId(0)).await.expect("classes are read").into_iter().collect();
    let (mut states, mut count) = (BTreeSet::new(), 0);
    for (namespace, name) in store.namespaces().await.expect("namespaces are read") {
        let (filter, mut after) = (Filter::all(namespace), None);
        loop {
            let page = store.list(&filter, after, 100, Payloads::ALL).await.expect("the list is read");
            for stored in &page.rows {
                let row = &shown[&stored.execution.id.to_string()];
                assert_eq!(row["namespace"], name.as_str());
                check(&connection, row, stored, &classes[&stored.execution.class]);
                states.insert(stored.execution.state.name().as_str());
                count += 1;
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
    }
    assert_eq!(count, shown.len());
    assert_eq!(states.len(), StateName::ALL.len(), "a store with every state: {states:?}");
    let flows = rows(&connection, "v1_flows");
    assert!(!flows.is_empty());
    for (id, row) in &flows {
        let id = selvedge_core::FlowId(id.parse().expect("an id is a UUID"));
        let flow = store.fetch_flows(&[id]).await.expect("the flow is read").remove(0);
        assert_eq!(row["state"], flow.state.as_str());
        assert_eq!(row["total"], flow.counts.total());
        for state in StateName::ALL {
            assert_eq!(row[state.as_str()], flow.counts.of(state), "{row}");
        }
        assert_eq!(shown_second(&connection, &row["deadline_at"]), second(flow.spec.deadline_at));
        assert_eq!(row["cancel_requested"], i64::from(flow.detail.cancel.is_some()));
    }
}
