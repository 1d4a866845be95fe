//! Tests of executions: submission, idempotency keys, lists, and operator actions.

mod idempotency;
mod lists;
mod operators;
mod submission;
