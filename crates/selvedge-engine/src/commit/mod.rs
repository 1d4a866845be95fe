//! Group commit: every rule becomes a task, the queue groups tasks into batches, and each batch is one transaction.
//!
//! A rule passes through these files in order: `reply` (the rule with the channel for its reply), `task_queue`,
//! `committer` (the writers, which give each batch to the store as a driver), `host` (the engine as the driver sees it),
//! `effects` (everything to do after the commit) with `observations` (its counts). `health` remembers the result of the
//! last commit, and `halving` limits the time of a batch that failed. `waiting_claims`, `lease_cache` and `refusals` are
//! state that transactions share within this process. `dispatcher` runs the work that a commit left in the outbox.

mod committer;
pub mod dispatcher;
mod effects;
mod halving;
mod health;
mod host;
mod lease_cache;
mod observations;
mod refusals;
mod reply;
mod task_queue;
mod waiting_claims;

pub use committer::{CommitSinks, Committer};
pub use effects::instance_key;
pub use host::EngineHost;
pub use observations::{LEASE_EVENTS, LaneChange, Observations, SCHEDULE_RESULTS};
pub use reply::{new_task, receive};
pub use waiting_claims::{Registration, WaitingClaims, WakeUp, Watermark};
