//! Single executions: submission, claims, leases, keys, schedules, the event log, history, streams and lists.

pub mod api_keys;
pub mod bulk_jobs;
pub mod claims;
pub mod debounce;
pub mod due;
pub mod events;
pub mod guards;
pub mod history;
pub mod interning;
pub mod keys;
pub mod lanes;
pub mod life;
pub mod lists;
pub mod liveness;
pub mod log_window;
pub mod merge;
pub mod payloads;
pub mod rows;
pub mod schedules;
pub mod scopes;
pub mod sessions;
pub mod stats;
pub mod streams;
pub mod submission;
pub mod tags;
pub mod webhooks;
