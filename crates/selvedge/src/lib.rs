//! Selvedge is a durable execution engine, embedded in your program or behind a server: the address decides.
//!
//! A submitted execution is stored until it reaches a terminal state, even if processes crash in between. Workers claim
//! executions under leases. Every report carries the fence of its lease, so a worker that lost its lease cannot
//! overwrite the work of its successor. An attempt may run more than once; the result of an execution and of each
//! durable step is accepted exactly once.
//!
//! ```
//! use selvedge::{Context, Engine, Error, Failure, Submission, Worker};
//! use std::time::Duration;
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Error> {
//! let engine = Engine::open("memory:").await?;
//! let namespace = engine.namespace("default").await?;
//!
//! let worker = Worker::new(namespace.clone(), "greeter")
//!     .handler("greet", |ctx: Context| async move {
//!         let name: String = ctx.input()?;
//!         Ok::<_, Failure>(format!("Hello, {name}!"))
//!     })
//!     .start()?;
//!
//! let submitted = Submission::new("greet").input("Ada")?.submit(&namespace).await?;
//! let ended = namespace.result(submitted.execution.id, Duration::from_secs(10)).await?;
//! assert_eq!(ended.expect("the execution ends").json::<String>()?, "Hello, Ada!");
//!
//! worker.drain().await;
//! engine.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! The main types:
//! - [`connect`] takes the address of a server or a store; [`Client`] calls a server over HTTP, [`Engine`] runs on the store at
//!   an [`Address`] in this process;
//! - [`Namespace`] is the handle of one tenant: submit, read, wait for results, cancel, replay;
//! - [`Submission`] builds one execution, [`Flow`] a graph of dependent executions;
//! - [`Worker`] runs handlers, which receive a [`Context`] and return a value, a [`Return`] or a [`Failure`];
//! - [`steps`] explains durable steps and durable waits in handlers;
//! - [`Signal`] sends data to an execution, before or while it waits for that signal;
//! - [`events`] explains subscriptions to the event log;
//! - [`limits`], [`schedules`], [`webhooks`] and [`waitpoints`] have the settings and views of these objects.

#![warn(missing_docs)]

mod address;
mod connection;
mod engine;
mod error;
pub mod events;
mod execution;
mod flow;
pub mod limits;
mod namespace;
pub mod schedules;
mod signal;
mod sqlite;
pub mod steps;
mod streams;
mod submission;
pub mod testing;
mod transaction;
pub mod waitpoints;
pub mod webhooks;
mod wire;
mod worker;

pub use address::{Address, OpenStore, open};
pub use connection::{Client, Connection, connect};
pub use engine::Engine;
pub use error::{Error, Refusal};
pub use execution::{
    Ended, Execution, ExecutionError, ExecutionFilter, Explanation, Page, Progress, Reason, Relative,
    Submitted,
};
pub use flow::{Flow, FlowResult, FlowView, Join, Nodes, SubmittedFlow};
pub use namespace::{Cancel, Namespace};
pub use signal::{Delivered, Signal};
pub use streams::{Frame, Frames, StreamTail, Summary};
pub use submission::Submission;
pub use transaction::PostgresTransaction;
pub use worker::{
    Approval, CancellationToken, Context, Failure, Handle, IntoReturn, Next, ReceivedSignal, Return,
    SignalWaitResult, Task, Until, Verdict, Vote, WaitResult, Waitpoint, Worker, WorkerSummary,
};

pub use selvedge_client::{Options as ClientOptions, Retries as ClientRetries};
pub use selvedge_core::amount::Amount;
pub use selvedge_core::flow::{CancelMode, FlowState};
pub use selvedge_core::join::EdgeCondition;
pub use selvedge_core::signal::Effect;
pub use selvedge_core::state::StateName as State;
pub use selvedge_core::stream::{FrameKind, FrameMode};
pub use selvedge_core::submission::When;
pub use selvedge_core::suspension::ResumedBy;
pub use selvedge_core::{
    Backoff, ExecutionId, FailureClass, FlowId, Outcome, Retry, Timestamp, TraceParent, WaitpointId,
};
pub use selvedge_engine::{
    Aborted, Intervals, Options, ReconcilerScope, ServerDefaults, Span, SpanSink, UnknownReconciler,
};
pub use selvedge_postgres::Settings as PostgresSettings;
pub use selvedge_store::Store;
