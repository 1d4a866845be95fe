//! Selvedge, a durable execution engine: embed it in a program.
//!
//! An execution that was submitted is kept until it has ended, whatever crashes meanwhile. Workers claim executions under
//! leases; every report of a worker presents the fence of its lease, so a worker that was too slow cannot overwrite what
//! another one did. An attempt may run more than once, a result is accepted once, and so is that of each durable step.
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
//! let result = ended.and_then(|ended| ended.result).expect("it ended with a result");
//! assert_eq!(result, r#""Hello, Ada!""#);
//!
//! worker.drain().await;
//! engine.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! Where to look:
//! - [`Engine`] runs on a store, whose [`Address`] says which;
//! - [`Namespace`] is the handle through which everything of one tenant is done: submit, read, wait, cancel, replay;
//! - [`Submission`] is what is submitted, and [`Flow`] is a graph of submissions that wait for each other;
//! - [`Worker`] runs handlers, which get a [`Context`] and return a value, a [`Return`] or a [`Failure`];
//! - [`steps`] are what a handler does once and for all, and how it waits, for a moment or for months;
//! - [`Signal`] is what is sent to an execution that waits for it, or will;
//! - [`events`] are what happens, for those who subscribe.

mod address;
mod engine;
pub mod events;
mod flow;
mod signal;
pub mod steps;
mod submission;
mod worker;

pub use address::{Address, Opened, open};
pub use engine::Engine;
pub use flow::{Flow, FlowResult, Join, Nodes, SubmittedFlow};
pub use signal::Signal;
pub use submission::Submission;
pub use worker::{
    Approval, Context, Drained, Failure, Handle, Heard, IntoReturn, Received, Return, Until, Verdict, Vote,
    Waited, Waitpoint, Worker,
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
pub use selvedge_core::submission::When;
pub use selvedge_core::suspension::ResumedBy;
pub use selvedge_core::{
    Backoff, Draft, ExecutionId, FailureClass, FlowId, Name, Outcome, Policy, Refusal, Retry, Timestamp,
    WaitpointId,
};
pub use selvedge_engine::{
    Aborted, Ended, Error, FlowEnded, FlowView, Frames, Grown, Namespace, Options, StreamTail, View,
};
pub use selvedge_store as store;
pub use selvedge_store::Store;
