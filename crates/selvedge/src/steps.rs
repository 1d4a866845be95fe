//! Durable steps: handlers that survive a crash of their process, can wait for days, and perform each step once.
//!
//! A handler is an ordinary async function that may be run again from its beginning. Its durable operations are calls
//! on its [`Context`](crate::Context), each with a name:
//!
//! | call | effect |
//! | --- | --- |
//! | [`step`](crate::Context::step) | runs a closure once and records its result |
//! | [`sleep`](crate::Context::sleep), [`sleep_until`](crate::Context::sleep_until) | waits for a time |
//! | [`wait_for_signal`](crate::Context::wait_for_signal), [`wait`](crate::Context::wait) | waits for a signal, or for any condition that [`Until`] can express |
//! | [`waitpoint`](crate::Context::waitpoint) | creates a token with which an outside party may deliver one signal |
//! | [`spawn`](crate::Context::spawn), [`join`](crate::Context::join) | adds children to the flow, waits until they end |
//! | [`race`](crate::Context::race), [`all`](crate::Context::all) | runs branches concurrently until the first ends, or until all have ended |
//! | [`approval`](crate::Context::approval) | asks several people and waits until enough have agreed |
//!
//! An attempt that reaches a recorded step gets the recorded result and continues. So every attempt passes quickly
//! through the work of its predecessors to the point where the last one ended. Code between steps is not replayed, only
//! run again, so it may do anything; its decisions should depend only on the input and on the results of steps.
//!
//! # How a handler waits
//!
//! When a handler does nothing but wait, its attempt is suspended: the handler is dropped at its await point, no
//! resources are held, and no retry is charged. When the condition holds, any worker may claim the execution again, and
//! the handler runs from its beginning to the code after the wait.
//!
//! A handler may wait for several conditions at once and run steps meanwhile, in branches or with `join!` and
//! `select!`. A suspension never interrupts a running step or a report such as [`emit`](crate::Context::emit). Any
//! other slow operation, such as a call to another service, belongs in a step: outside a step it is dropped by a
//! suspension and started again. Where branches have steps, prefer [`race`](crate::Context::race) to `select!`, because
//! a race takes the same branch in every attempt. A task that a handler spawns does not prevent a suspension, except
//! while the task runs a step.
//!
//! # Changing a handler while executions are in progress
//!
//! Steps and waits are identified by their names. They may be reordered, and new ones may be added between them. A step
//! or wait whose meaning changes needs a new name. A mismatch is a permanent failure that names the step and says what
//! to do: a result of another type, a step that has become a wait, a name used twice, or a recorded step that the
//! handler did not reach before it returned. After the code is corrected the execution can be replayed; it keeps its
//! recorded steps and continues where it was.
//!
//! ```
//! use selvedge::{Context, Engine, Failure, Signal, Submission, Worker};
//! use std::time::Duration;
//!
//! async fn order(ctx: Context) -> Result<String, Failure> {
//!     let item: String = ctx.input()?;
//!     let invoice: u32 = ctx.step("invoice", || async { Ok(7) }).await?;
//!     let paid = ctx.wait_for_signal("payment", "paid").timeout(Duration::from_secs(14 * 24 * 3600)).await?;
//!     let Some(paid) = paid.signal() else {
//!         ctx.step("cancel the invoice", || async { Ok(()) }).await?;
//!         return Err(Failure::permanent(format!("invoice {invoice} was not paid")));
//!     };
//!     ctx.step("ship", || async { Ok(()) }).await?;
//!     Ok(format!("{item} goes to {}", paid.source))
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), selvedge::Error> {
//! let engine = Engine::open("memory:").await?;
//! let namespace = engine.namespace("default").await?;
//! let worker = Worker::new(namespace.clone(), "shop").handler("order", order).start()?;
//!
//! let id = Submission::new("order").input("a lamp")?.submit(&namespace).await?.execution.id;
//! Signal::new("paid").source("ada").send(&namespace, id).await?;
//! let ended = namespace.result(id, Duration::from_secs(10)).await?.expect("the execution ends");
//! assert_eq!(ended.result.expect("a result"), r#""a lamp goes to ada""#);
//! # worker.drain().await;
//! # engine.shutdown().await;
//! # Ok(())
//! # }
//! ```

pub use crate::worker::{
    All, Approval, ApprovalRequest, NewWaitpoint, Race, ReceivedSignal, SignalWaitResult, Until, Verdict,
    Vote, Wait, WaitForSignal, WaitResult, Waitpoint,
};
