//! Durable steps: handlers that survive their process, wait for days, and do everything once.
//!
//! A handler is an ordinary asynchronous function that may be run again from its beginning. What it does durably it asks
//! its [`Context`](crate::Context) for, by name:
//!
//! | call | does |
//! | --- | --- |
//! | [`step`](crate::Context::step) | does something once and keeps its result |
//! | [`sleep`](crate::Context::sleep), [`sleep_until`](crate::Context::sleep_until) | waits for a time |
//! | [`wait_for_signal`](crate::Context::wait_for_signal), [`wait`](crate::Context::wait) | waits for signals, or for anything that an [`Until`] can say |
//! | [`waitpoint`](crate::Context::waitpoint) | makes a token with which somebody outside may deliver a signal |
//! | [`spawn`](crate::Context::spawn), [`join`](crate::Context::join) | adds children to its flow, waits for their end |
//! | [`race`](crate::Context::race), [`all`](crate::Context::all) | runs branches side by side until the first has ended, or all have |
//! | [`approval`](crate::Context::approval) | asks several people and waits until enough have agreed |
//!
//! An attempt that comes to a step which is recorded gets what was recorded, and goes on. So every attempt runs through
//! what was done before, at no cost worth mentioning, to the place where the last one ended. Code between steps may do what
//! it likes: it is not replayed, only run again. What it decides should come from the input and from steps.
//!
//! # How a handler waits
//!
//! When all that a handler does is wait, its attempt is suspended: the handler is dropped where it awaits, nothing is held,
//! and no retry is charged. When what it waits for has come, the execution is claimed again, by any worker, and the
//! handler runs from its beginning to the place after the wait.
//!
//! A handler may wait for several things at once and run steps meanwhile, in branches or with `join!` and `select!`. A step
//! that runs is never cut off by a suspension, and neither is a report such as [`emit`](crate::Context::emit). Anything else
//! that takes time, such as a call to another service, belongs into a step: outside of one it is dropped by a suspension,
//! and begun again. Where branches have steps, prefer [`race`](crate::Context::race) to `select!`: it takes the same branch
//! in every attempt. Tasks that a handler spawns do not keep its attempt from being suspended, unless a step of them runs.
//!
//! # Changing a handler while executions are under way
//!
//! Steps are known by their names. They may be reordered, and others added between them. A step that means something else
//! than before needs another name; so do waits. What does not fit is not guessed at: a result of another type, a step that
//! has become a wait, a name used twice, or a recorded step that a handler has returned without asking for is a permanent
//! failure that names the step and says what to do. The execution can be replayed when that is done: it goes on where it
//! was, because its steps are kept.
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
//! let ended = namespace.result(id, Duration::from_secs(10)).await?.expect("it ends");
//! assert_eq!(ended.result.expect("a result"), r#""a lamp goes to ada""#);
//! # worker.drain().await;
//! # engine.shutdown().await;
//! # Ok(())
//! # }
//! ```

pub use crate::worker::{
    All, Approval, ApprovalCall, Heard, NewWaitpoint, Race, Received, Until, Verdict, Vote, Wait,
    WaitForSignal, Waited, Waitpoint,
};
