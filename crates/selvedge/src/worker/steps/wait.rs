//! Waits: the handler is dropped, no resources are held, and a later attempt continues after the wait.
//!
//! A wait that has ended is a recorded step, which the engine wrote in the transaction that ended the wait. An open
//! wait registers itself with the attempt's tracker and never resolves. When the handler does nothing but wait, the
//! attempt is suspended with all waits that are registered then.

use super::Until;
use super::record::StepRequest;
use crate::submission::millis;
use crate::worker::{Context, Failure};
use crate::{Relative, ResumedBy, Timestamp};
use selvedge_core::Name;
use selvedge_core::json;
use selvedge_core::step::StepKind;
use selvedge_core::suspension::{OnTimeout, WaitDraft};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use std::future::{Future, IntoFuture, pending};
use std::pin::Pin;
use std::time::Duration;

type BoxedFuture<T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send>>;

impl Context {
    /// Sleeps without holding a lease, a worker's slot or memory. The time counts from the first attempt that reached
    /// the sleep, on the store's clock. An operator may end the sleep early by resuming the execution.
    ///
    /// ```
    /// # use selvedge::{Context, Engine, Failure, Submission, Worker};
    /// # use std::time::Duration;
    /// async fn remind(ctx: Context) -> Result<u32, Failure> {
    ///     ctx.sleep("a moment", Duration::from_millis(20)).await?;
    ///     Ok(ctx.attempt())
    /// }
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), selvedge::Error> {
    /// # let engine = Engine::open("memory:").await?;
    /// # let namespace = engine.namespace("default").await?;
    /// let worker = Worker::new(namespace.clone(), "reminders").handler("remind", remind).start()?;
    /// let id = Submission::new("remind").submit(&namespace).await?.execution.id;
    /// let ended = namespace.result(id, Duration::from_secs(10)).await?.expect("the execution ends");
    /// assert_eq!(ended.result.expect("a result"), "1");
    /// assert_eq!(worker.drain().await.suspended, 1);
    /// # engine.shutdown().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn sleep(
        &self,
        name: impl Into<String>,
        duration: Duration,
    ) -> impl Future<Output = Result<(), Failure>> + Send {
        let wait = Wait::new(self.request_step(name), StepKind::Sleep, Until::after(duration));
        async move { wait.run().await.map(drop) }
    }

    /// Sleeps until this time. Otherwise like [`sleep`](Context::sleep).
    ///
    /// ```
    /// # use selvedge::{Context, Failure, Timestamp};
    /// async fn remind(ctx: Context) -> Result<(), Failure> {
    ///     let due: i64 = ctx.input()?;
    ///     ctx.sleep_until("until due", Timestamp::from_millis(due)).await
    /// }
    /// ```
    pub fn sleep_until(
        &self,
        name: impl Into<String>,
        time: Timestamp,
    ) -> impl Future<Output = Result<(), Failure>> + Send {
        let wait = Wait::new(self.request_step(name), StepKind::Sleep, Until::at(time));
        async move { wait.run().await.map(drop) }
    }

    /// Waits for a signal of this name. A signal that was delivered earlier counts if no other wait has consumed it.
    ///
    /// ```
    /// # use selvedge::{Context, Engine, Failure, Signal, SignalWaitResult, Submission, Worker};
    /// # use std::time::Duration;
    /// async fn ship(ctx: Context) -> Result<String, Failure> {
    ///     let paid = ctx.wait_for_signal("payment", "paid").timeout(Duration::from_secs(3600)).await?;
    ///     match paid {
    ///         SignalWaitResult::Signal(paid) => Ok(format!("{} paid {}", paid.source, paid.payload::<u32>()?)),
    ///         SignalWaitResult::TimedOut => Err(Failure::permanent("the order was not paid in time")),
    ///         SignalWaitResult::Operator => Ok("released by an operator".into()),
    ///     }
    /// }
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), selvedge::Error> {
    /// # let engine = Engine::open("memory:").await?;
    /// # let namespace = engine.namespace("default").await?;
    /// let worker = Worker::new(namespace.clone(), "shop").handler("ship", ship).start()?;
    /// let id = Submission::new("ship").submit(&namespace).await?.execution.id;
    /// Signal::new("paid").payload(&42)?.source("ada").send(&namespace, id).await?;
    /// let ended = namespace.result(id, Duration::from_secs(10)).await?.expect("the execution ends");
    /// assert_eq!(ended.result.expect("a result"), r#""ada paid 42""#);
    /// # worker.drain().await;
    /// # engine.shutdown().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait_for_signal(&self, name: impl Into<String>, signal: impl AsRef<str>) -> WaitForSignal {
        WaitForSignal(Wait::new(self.request_step(name), StepKind::Wait, Until::signal(signal)))
    }

    /// Waits until a condition holds.
    ///
    /// ```
    /// # use selvedge::{Context, Engine, Failure, ResumedBy, Signal, Submission, Until, Worker};
    /// # use std::time::Duration;
    /// async fn pack(ctx: Context) -> Result<usize, Failure> {
    ///     let until = Until::all([Until::signal("paid"), Until::signal("in stock")]);
    ///     let waited = ctx.wait("order", until).timeout(Duration::from_secs(3600)).await?;
    ///     assert_eq!(waited.resumed_by, ResumedBy::Condition);
    ///     Ok(waited.signals.len())
    /// }
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), selvedge::Error> {
    /// # let engine = Engine::open("memory:").await?;
    /// # let namespace = engine.namespace("default").await?;
    /// let worker = Worker::new(namespace.clone(), "shop").handler("pack", pack).start()?;
    /// let id = Submission::new("pack").submit(&namespace).await?.execution.id;
    /// Signal::new("in stock").send(&namespace, id).await?;
    /// Signal::new("paid").send(&namespace, id).await?;
    /// let ended = namespace.result(id, Duration::from_secs(10)).await?.expect("the execution ends");
    /// assert_eq!(ended.result.expect("a result"), "2");
    /// # worker.drain().await;
    /// # engine.shutdown().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait(&self, name: impl Into<String>, until: Until) -> Wait {
        Wait::new(self.request_step(name), StepKind::Wait, until)
    }

    /// Waits until all children of this execution have ended, except detached ones, and returns all children with their
    /// outcomes. Use [`child`](Context::child) to read a result.
    ///
    /// ```
    /// # use selvedge::{Context, Engine, Failure, Nodes, Submission, Worker};
    /// # use std::time::Duration;
    /// async fn book(ctx: Context) -> Result<u32, Failure> {
    ///     let mut pages = Nodes::new();
    ///     for number in 1..=3 {
    ///         pages = pages.node(format!("page-{number}"), Submission::new("page").input(&number)?);
    ///     }
    ///     ctx.spawn(pages).await?;
    ///     let pages = ctx.join("pages").await?;
    ///     pages.iter().map(|page| ctx.child::<u32>(&page.name)).sum()
    /// }
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), selvedge::Error> {
    /// # let engine = Engine::open("memory:").await?;
    /// # let namespace = engine.namespace("default").await?;
    /// let worker = Worker::new(namespace.clone(), "printer")
    ///     .handler("book", book)
    ///     .handler("page", |ctx: Context| async move { Ok::<_, Failure>(100 * ctx.input::<u32>()?) })
    ///     .start()?;
    /// let id = Submission::new("book").submit(&namespace).await?.execution.id;
    /// let ended = namespace.result(id, Duration::from_secs(10)).await?.expect("the execution ends");
    /// assert_eq!(ended.result.expect("a result"), "600");
    /// # worker.drain().await;
    /// # engine.shutdown().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn join(
        &self,
        name: impl Into<String>,
    ) -> impl Future<Output = Result<Vec<Relative>, Failure>> + Send {
        let wait = Wait::new(self.request_step(name), StepKind::Join, Until::children());
        async move {
            wait.run().await?;
            Ok(self.children().to_vec())
        }
    }
}

/// A wait to be awaited. Created by [`Context::wait`].
#[must_use = "a wait does nothing until it is awaited"]
pub struct Wait {
    request: StepRequest,
    kind: StepKind,
    until: Until,
    timeout: Option<Duration>,
}

impl Wait {
    fn new(request: StepRequest, kind: StepKind, until: Until) -> Wait {
        Wait { request, kind, until, timeout: None }
    }

    /// Sets a timeout, counted from the first attempt that reached the wait. Default: none.
    ///
    /// ```
    /// # use selvedge::{Context, Failure, ResumedBy, Until};
    /// # use std::time::Duration;
    /// async fn ask(ctx: Context) -> Result<bool, Failure> {
    ///     let answers = Until::sources(2, ["answer"]);
    ///     let waited = ctx.wait("answers", answers).timeout(Duration::from_secs(60)).await?;
    ///     Ok(waited.resumed_by != ResumedBy::Timeout)
    /// }
    /// ```
    pub fn timeout(mut self, timeout: Duration) -> Wait {
        self.timeout = Some(timeout);
        self
    }

    async fn run(self) -> Result<WaitResult, Failure> {
        let mut reserved = self.request.reserve()?;
        if let Some(result) = self.request.recorded(self.kind)? {
            reserved.keep();
            return Ok(result);
        }
        let draft = WaitDraft {
            step: Some((Name::trusted(&self.request.name), self.kind)),
            condition: self.until.0,
            timeout_ms: self.timeout.map(millis),
            on_timeout: OnTimeout::Resume,
        };
        draft.check("").map_err(|refusal| self.request.failure(refusal.into()))?;
        let _open = self.request.context.tracker().open_wait(draft)?;
        pending().await
    }
}

impl IntoFuture for Wait {
    type Output = Result<WaitResult, Failure>;
    type IntoFuture = BoxedFuture<WaitResult>;

    fn into_future(self) -> BoxedFuture<WaitResult> {
        Box::pin(self.run())
    }
}

/// A wait for a signal, to be awaited. Created by [`Context::wait_for_signal`].
#[must_use = "a wait does nothing until it is awaited"]
pub struct WaitForSignal(Wait);

impl WaitForSignal {
    /// Sets a timeout, counted from the first attempt that reached the wait. Default: none.
    ///
    /// ```
    /// # use selvedge::{Context, Failure};
    /// # use std::time::Duration;
    /// async fn ask(ctx: Context) -> Result<bool, Failure> {
    ///     let answer = ctx.wait_for_signal("answer", "yes").timeout(Duration::from_secs(60)).await?;
    ///     Ok(answer.signal().is_some())
    /// }
    /// ```
    pub fn timeout(self, timeout: Duration) -> WaitForSignal {
        WaitForSignal(self.0.timeout(timeout))
    }
}

impl IntoFuture for WaitForSignal {
    type Output = Result<SignalWaitResult, Failure>;
    type IntoFuture = BoxedFuture<SignalWaitResult>;

    fn into_future(self) -> BoxedFuture<SignalWaitResult> {
        Box::pin(async move {
            let WaitResult { resumed_by, signals } = self.0.run().await?;
            Ok(match (resumed_by, signals.into_iter().next()) {
                (_, Some(signal)) => SignalWaitResult::Signal(signal),
                (ResumedBy::Timeout, None) => SignalWaitResult::TimedOut,
                (ResumedBy::Operator | ResumedBy::Condition, None) => SignalWaitResult::Operator,
            })
        })
    }
}

/// The result of a [`wait`](Context::wait).
#[derive(Clone, Debug, Deserialize)]
pub struct WaitResult {
    /// The reason for the end of the wait: its condition, its timeout, or an operator.
    pub resumed_by: ResumedBy,
    /// The signals that the wait consumed, in the order of delivery: those that satisfied the condition, or after a
    /// timeout or an operator's resume all that counted towards it.
    pub signals: Vec<ReceivedSignal>,
}

/// The result of [`wait_for_signal`](Context::wait_for_signal).
#[derive(Clone, Debug)]
pub enum SignalWaitResult {
    /// The signal was received.
    Signal(ReceivedSignal),
    /// The timeout passed before a signal was received.
    TimedOut,
    /// An operator resumed the execution before a signal was received.
    Operator,
}

impl SignalWaitResult {
    /// Returns the signal, if it was received.
    ///
    /// ```
    /// # use selvedge::SignalWaitResult;
    /// assert!(SignalWaitResult::TimedOut.signal().is_none());
    /// ```
    pub fn signal(self) -> Option<ReceivedSignal> {
        match self {
            SignalWaitResult::Signal(signal) => Some(signal),
            SignalWaitResult::TimedOut | SignalWaitResult::Operator => None,
        }
    }
}

/// A signal that a wait has consumed.
#[derive(Clone, Debug, Deserialize)]
pub struct ReceivedSignal {
    /// The name of the signal.
    pub name: String,
    /// The name of the sender.
    pub source: String,
    /// The name of the waitpoint through which the signal was delivered, or none if it was sent directly.
    pub waitpoint: Option<String>,
    payload: Box<RawValue>,
}

impl ReceivedSignal {
    /// Deserialises the payload. A payload of another type is a permanent failure.
    ///
    /// ```
    /// # use selvedge::{Failure, ReceivedSignal};
    /// fn amount(paid: &ReceivedSignal) -> Result<u32, Failure> {
    ///     paid.payload()
    /// }
    /// ```
    pub fn payload<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        json::parse(self.payload.get().as_bytes()).map_err(|error| {
            let (name, source) = (&self.name, &self.source);
            Failure::permanent(format!(
                "the payload of the signal {name:?} from {source} is not what the handler expects: {error}"
            ))
        })
    }

    /// Returns the payload, as the JSON text that was sent.
    ///
    /// ```
    /// # use selvedge::ReceivedSignal;
    /// fn log(signal: &ReceivedSignal) -> String {
    ///     format!("{}: {}", signal.name, signal.payload_json())
    /// }
    /// ```
    pub fn payload_json(&self) -> &str {
        self.payload.get()
    }
}
