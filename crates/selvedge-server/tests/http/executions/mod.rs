//! Tests of executions: submission, idempotency keys, lists, operator actions, and actions in bulk.

mod bulk;
mod idempotency;
mod lists;
mod operators;
mod submission;
