//! Tests of executions: submission, idempotency keys, lists, explain, operator actions, and actions in bulk.

mod bulk;
mod bulk_jobs;
mod explain;
mod idempotency;
mod inbox;
mod lists;
mod operators;
mod resubmission;
mod submission;
