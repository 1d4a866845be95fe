//! The rules of Selvedge, and the rows they are about.
//!
//! Everything here is plain synchronous Rust: no I/O, no clock, no randomness of its own. A rule takes rows as they
//! are, an operation and the time, and gives rows as they become, the facts that happened, and a reply:
//!
//! ```text
//! (rows, operation, now)  ->  (rows, facts, reply)
//! ```
//!
//! A store loads the rows that [`Needs`] names and saves what [`Changes`] says. It knows no rule.
//!
//! Where to look:
//! - [`transition`]: the one table of legal changes of state;
//! - [`rule`]: the trait that every operation implements;
//! - [`rules`]: one file per family of operations;
//! - [`driver`]: the transaction driver, which loads, decides in phases, propagates, and says what to save;
//! - [`Work`]: the rows of one transaction, and the only place through which a row changes;
//! - [`fact`], [`history`], [`log`]: what is recorded, in a row's own history and in the event log;
//! - [`explain`](mod@explain): why something does not run.

pub mod amount;
pub mod class;
pub mod driver;
pub mod entropy;
pub mod execution;
pub mod explain;
pub mod fact;
pub mod filter;
pub mod flow;
pub mod gate;
pub mod graph;
pub mod history;
pub mod id;
pub mod join;
pub mod log;
pub mod name;
pub mod outbox;
pub mod plan;
pub mod policy;
pub mod refusal;
pub mod rows;
pub mod rule;
pub mod rules;
pub mod session;
pub mod shares;
pub mod signal;
pub mod state;
pub mod step;
pub mod stream;
pub mod submission;
pub mod suspension;
pub mod table;
pub mod time;
pub mod token;
pub mod transition;
pub mod waitpoint;
pub mod window;
pub mod wiring;
pub mod work;

pub use class::{ClaimScope, Class, Classes};
pub use driver::{Demand, Driver};
pub use entropy::Entropy;
pub use execution::{Due, DueKind, Execution};
pub use fact::Fact;
pub use flow::Flow;
pub use gate::{Gate, GateId};
pub use history::History;
pub use id::{ClassId, ExecutionId, FlowId, LeaseId, NamespaceId, SessionId};
pub use join::Join;
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
pub use time::Timestamp;
pub use waitpoint::{Waitpoint, WaitpointId};
pub use wiring::Wiring;
pub use work::Work;
