//! The verbs that talk to a server, one file for each noun or verb.
//!
//! Each reads its arguments, makes requests with the shared client, and prints the answer: as text, or with `--json` as the
//! server sent it. A verb knows no rule of the engine.

pub mod approvals;
pub mod budgets;
pub mod bulk_jobs;
pub mod events;
mod execution_view;
pub mod explain;
pub mod flow;
pub mod get;
pub mod inbox;
pub mod keys;
pub mod lanes;
pub mod list;
pub mod logs;
pub mod namespaces;
pub mod operate;
pub mod profile;
pub mod quotas;
mod resource;
pub mod schedules;
mod selection;
pub mod signal;
mod still_waits;
pub mod submit;
mod values;
pub mod wait;
pub mod watch;
pub mod webhooks;
pub mod worker;
pub mod workers;
