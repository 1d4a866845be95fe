//! Group commit: every rule becomes a task, the queue groups tasks into batches, and each batch is one transaction.
//!
//! A rule passes through these files in order: `task_queue` (the rule with the channel for its reply), `committer` (the
//! writers, which give each batch to the store as a driver), `host` (the engine as the driver sees it, with the lease
//! cache, and everything to do after the commit). `waiting_claims` is state that transactions share within this process.
//! `dispatcher` runs the work that a commit left in the outbox.

mod committer;
pub mod dispatcher;
mod host;
mod task_queue;
mod waiting_claims;

pub use committer::{CommitSinks, Committer};
pub use host::{EngineHost, instance_key};
pub use task_queue::{new_task, receive};
pub use waiting_claims::{Registration, WaitingClaims, WakeUp, Watermark};
