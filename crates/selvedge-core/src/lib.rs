//! The rules of Selvedge and the rows they decide over.
//!
//! Everything here is plain synchronous Rust: no I/O, no clock, no randomness of its own. A rule takes the current
//! rows, an operation and the time. It returns the changed rows, the facts that record the changes, and a reply:
//!
//! ```text
//! (rows, operation, now)  ->  (rows, facts, reply)
//! ```
//!
//! A store loads the rows that [`Needs`] names and saves the rows in [`Changes`]. It knows no rules.
//!
//! Where to look:
//! - [`transition`]: the table of legal state transitions;
//! - [`rule`]: the trait that every operation implements;
//! - [`rules`]: the operations, one file per family;
//! - [`driver`]: the transaction driver, which loads rows, decides in phases, propagates and collects the changes to
//!   save;
//! - [`Work`]: the rows of one transaction; every change of a row goes through it;
//! - [`fact`], [`history`], [`log`]: the record of changes, in each execution's history and in the event log;
//! - [`headline`]: the line of an error that names the exception;
//! - [`json`]: the limits of the values that callers send;
//! - [`digest`]: the fingerprints by which repeated calls are recognised;
//! - [`api_key`]: API keys;
//! - [`web_session`]: the key of sessions of the web pages;
//! - [`bulk_job`]: bulk jobs;
//! - [`webhook`]: webhooks and their deliveries;
//! - [`inbox`]: submissions from SQL;
//! - [`access`]: the roles of API keys and their permissions;
//! - [`explain`](mod@explain): the reasons why an execution does not run.

pub mod access;
pub mod api_key;
pub mod bulk_job;
pub mod class;
pub mod digest;
pub mod driver;
pub mod entropy;
pub mod execution;
pub mod explain;
pub mod fact;
pub mod filter;
pub mod flow;
pub mod gate;
pub mod headline;
pub mod id;
pub mod inbox;
pub mod json;
mod kinds;
pub mod log;
pub mod name;
pub mod refusal;
pub mod rollup;
pub mod rows;
pub mod rule;
pub mod rules;
pub mod schedule;
pub mod session;
pub mod stored;
pub mod stream;
pub mod suspension;
pub mod table;
pub mod text;
pub mod time;
pub mod trace;
pub mod web_session;
pub mod webhook;
pub mod work;

pub use access::{Permission, Role};
pub use class::{ClaimScope, Class, Classes};
pub use driver::{Demand, Driver};
pub use entropy::Entropy;
pub use execution::{Due, DueKind, Execution};
pub use execution::{history, policy, state, submission, transition};
pub use fact::Fact;
pub use flow::Flow;
pub use flow::{critical_path, graph, join, outbox, past, plan, wiring};
pub use gate::{Gate, GateId};
pub use gate::{amount, shares, window};
pub use history::History;
pub use id::{ClassId, ExecutionId, FlowId, LeaseId, NamespaceId, SessionId};
pub use join::Join;
pub use kinds::{TIMED_KINDS, Timed};
pub use name::Name;
pub use policy::{Backoff, FailureClass, Policy, Retry};
pub use refusal::Refusal;
pub use rows::{Changes, Needs, Rows};
pub use rule::Rule;
pub use session::Session;
pub use signal::Signal;
pub use state::{Lease, Outcome, State};
pub use step::Step;
pub use submission::{Draft, Submission};
pub use suspension::Suspension;
pub use suspension::{signal, step, token, waitpoint};
pub use time::Timestamp;
pub use trace::TraceParent;
pub use waitpoint::{Waitpoint, WaitpointId};
pub use wiring::Wiring;
pub use work::Work;
