//! Selvedge is a durable execution engine that runs inside your program.
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
//! let result = ended.and_then(|ended| ended.result).expect("the execution completes with a result");
//! assert_eq!(result, r#""Hello, Ada!""#);
//!
//! worker.drain().await;
//! engine.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! The main types:
//! - [`Engine`] runs on the store at an [`Address`];
//! - [`Namespace`] is the handle of one tenant: submit, read, wait for results, cancel, replay;
//! - [`Submission`] builds one execution, [`Flow`] a graph of dependent executions;
//! - [`Worker`] runs handlers, which receive a [`Context`] and return a value, a [`Return`] or a [`Failure`];
//! - [`steps`] explains durable steps and durable waits in handlers;
//! - [`Signal`] sends data to an execution, before or while it waits for that signal;
//! - [`events`] explains subscriptions to the event log.

mod address;
mod engine;
pub mod events;
mod flow;
mod signal;
pub mod steps;
mod submission;
mod worker;

pub use address::{Address, OpenStore, open};
pub use engine::Engine;
pub use flow::{Flow, FlowResult, Join, Nodes, SubmittedFlow};
pub use signal::Signal;
pub use submission::Submission;
pub use worker::{
    Approval, Context, Failure, Handle, IntoReturn, ReceivedSignal, Return, SignalWaitResult, Until, Verdict,
    Vote, WaitResult, Waitpoint, Worker, WorkerSummary,
};

pub use selvedge_core as core;
pub use selvedge_core::amount::Amount;
pub use selvedge_core::flow::{CancelMode, FlowState};
pub use selvedge_core::join::EdgeCondition;
pub use selvedge_core::rows::Relative;
pub use selvedge_core::rules::operator::Action;
pub use selvedge_core::rules::signal::{Delivered, SignalDraft};
pub use selvedge_core::rules::submit::Submitted;
pub use selvedge_core::signal::Effect;
pub use selvedge_core::stream::{Frame, FrameKind, FrameMode, Stream};
pub use selvedge_core::submission::{Debounce, When};
pub use selvedge_core::suspension::ResumedBy;
pub use selvedge_core::{
    Backoff, Draft, ExecutionId, FailureClass, FlowId, Name, Outcome, Policy, Refusal, Retry, Timestamp,
    TraceParent, WaitpointId,
};
pub use selvedge_engine::{
    Aborted, Ended, Error, FlowEnded, FlowView, Frames, GrownFlow, Intervals, Namespace, Options,
    ReconcilerScope, ServerDefaults, Span, SpanSink, StreamTail, UnknownReconciler, View,
};
pub use selvedge_postgres::Settings as PostgresSettings;
pub use selvedge_store as store;
pub use selvedge_store::Store;
