//! Tests of gates: lanes, quotas, budgets, and concurrency and fairness keys.

mod budget_breaches;
mod budgets;
mod held;
mod invalid_input;
mod lane_draining;
mod lanes;
mod patches;
mod quotas;
mod unknown_names;

use crate::support::text_of;
use serde_json::Value;

/// Returns the ids of claimed executions, in the order of the claims.
fn claimed_ids(claims: &[Value]) -> Vec<String> {
    claims.iter().map(|claim| text_of(&claim["execution"]["id"])).collect()
}
