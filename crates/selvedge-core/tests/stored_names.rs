//! The spellings of the JSON documents that stores keep.
//!
//! Every stored struct reads missing fields as their defaults. So a renamed Rust field without a pinned spelling would silently
//! reset a budget's usage or drop a requested cancel. Each test reads a document with every field, written as it is stored, and
//! expects to write the same document: a field that was not recognised would be missing.

use selvedge_core::execution::{Detail, Spec};
use selvedge_core::flow::{FlowDetail, FlowSpec};
use selvedge_core::gate::{Config, GateState};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Asserts that a document is read and written with every field.
fn assert_kept<T: DeserializeOwned + Serialize>(stored: Value) {
    let read: T = serde_json::from_value(stored.clone()).expect("the document can be read");
    let written = serde_json::to_value(&read).expect("the document can be written");
    assert_eq!(written, stored);
}

const ID: &str = "0190aaaa-bbbb-7ccc-8ddd-eeeeffff0001";

fn lease() -> Value {
    json!({ "id": ID, "epoch": 3, "worker": "w", "instance": "w-1" })
}

#[test]
fn the_specification_of_an_execution_keeps_its_spelling() {
    assert_kept::<Spec>(json!({
        "policy": {
            "retry": {
                "max_retries": 7,
                "max_interruptions": 8,
                "retry_on": ["transient", "infrastructure", "timeout", "permanent"],
                "backoff": { "type": "exponential", "initial_ms": 1, "multiplier": 3.0, "max_ms": 9, "jitter": false }
            },
            "attempt_timeout_ms": 1,
            "deadline_ms": 2,
            "start_by_ms": 3,
            "retention_ms": 4
        },
        "idempotency_key": "key",
        "idempotency_window_ms": 5,
        "unique_while_active": "unique",
        "digest": 6,
        "node": { "name": "n", "depth": 1, "parent": ID, "delay": { "AfterMs": 7 }, "flow_deadline_at": 8 },
        "draws": {
            "budgets": [["b", { "tokens": 1 }]],
            "quotas": ["q"],
            "concurrency": ["k", 2],
            "fairness_key": "f"
        }
    }));
}

#[test]
fn the_detail_of_an_execution_keeps_its_spelling() {
    assert_kept::<Detail>(json!({
        "generation": 1,
        "replayed_at": 2,
        "retries": 3,
        "interruptions": 4,
        "interrupted": lease(),
        "cancel": { "actor": "a", "reason": "r", "until": 5 },
        "error": { "message": "m", "class": "transient" },
        "progress": { "percent": 6.0, "message": "p" },
        "history_pages": 7,
        "record": {
            "signals": 1,
            "untaken": 2,
            "waitpoints": 3,
            "steps": 4,
            "suspensions": 5,
            "bytes": 6,
            "expires_at": 7,
            "resumed_by": "timeout"
        },
        "slots": { "lane": "l", "drawn": true, "parts": ["x", null] },
        "head": 9
    }));
}

#[test]
fn a_flow_keeps_its_spelling() {
    assert_kept::<FlowSpec>(json!({
        "deadline_at": 1, "retention_ms": 2, "idempotency_key": "k", "kept_until": 3, "digest": 4
    }));
    assert_kept::<FlowDetail>(json!({
        "cancel": { "mode": "Pending", "actor": "a", "reason": "r", "draining": true }, "deleting": true
    }));
}

#[test]
fn a_gate_keeps_its_spelling() {
    assert_kept::<Config>(json!({
        "state": "paused",
        "concurrency": 1,
        "rate": { "count": 2, "window_ms": 3 },
        "weight": 4,
        "limits": { "tokens": { "hard": 5, "soft": 6 } },
        "scope": "lane",
        "period_ms": 7,
        "on_hard": "suspend"
    }));
    assert_kept::<GateState>(json!({
        "starts": { "part": 1, "starts": [[2, 3]] },
        "used": { "tokens": 4 },
        "reserved": { "tokens": 5 },
        "period": 6,
        "resets_at": 7,
        "stops": true,
        "holds": true,
        "most": 8,
        "least": { "tokens": 9 },
        "looked": { "after": [10, ID], "again": true },
        "head": ID
    }));
}
