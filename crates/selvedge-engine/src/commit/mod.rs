//! Group commit: every rule becomes a task, the schedule groups tasks into batches, and each batch is one transaction.
//!
//! A rule passes through these files in order: `task` (the rule with the channel for its reply), `schedule` (the
//! queue), `committer` (the writers), `batch` and `host` (the batch as the store and the transaction driver see it),
//! `effects` (everything to do after the commit) with `observations` (its counts). `health` remembers the result of the last one, and `halving` limits the
//! time of a batch that failed. `waiting_claims`, `lease_cache` and `refusals` are state that transactions share
//! within this process. `dispatcher` runs the work that a commit left in the outbox.

mod batch;
mod committer;
pub mod dispatcher;
mod effects;
mod halving;
mod health;
mod host;
mod lease_cache;
mod observations;
mod refusals;
mod schedule;
mod task;
mod waiting_claims;

pub use committer::{CommitSinks, Committer};
pub use effects::instance_key;
pub use host::EngineHost;
pub use observations::{LEASE_EVENTS, LaneChange, Observations, SCHEDULE_RESULTS};
pub use task::{CommitTask, new_task, receive};
pub use waiting_claims::{Registration, WaitingClaims, WakeUp, Watermark};
