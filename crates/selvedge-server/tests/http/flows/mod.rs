//! Tests of flows: submission and growth, work on their nodes, their ends, and invalid input.

mod ends;
mod invalid_input;
mod outcomes;
mod relatives;
mod submission;
mod work;

use serde_json::{Value, json};

/// Returns a flow of two nodes, `a` before `b`.
fn chain() -> Value {
    json!({ "nodes": [{ "name": "a", "kind": "k" }, { "name": "b", "kind": "k" }], "edges": [{ "from": "a", "to": "b" }] })
}
