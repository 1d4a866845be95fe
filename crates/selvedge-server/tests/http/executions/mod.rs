//! Tests of executions: submission, idempotency keys, lists, explain, and operator actions.

mod explain;
mod idempotency;
mod lists;
mod operators;
mod submission;
