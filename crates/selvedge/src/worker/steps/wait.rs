//! Waits: the handler is dropped, nothing is held, and a later attempt goes on where it was.
//!
//! A wait that has ended is a recorded step, which the engine has written in the transaction that ended it. One that has
//! not registers itself with the attempt and never resolves: when all that the handler does is wait, the attempt is
//! suspended with everything that is registered then.

use super::Until;
use super::record::Asked;
use crate::submission::millis;
use crate::worker::{Context, Failure};
use crate::{Name, Relative, ResumedBy, Timestamp};
use selvedge_core::step::StepKind;
use selvedge_core::suspension::{OnTimeout, WaitDraft};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use std::future::{Future, IntoFuture, pending};
use std::pin::Pin;
use std::time::Duration;

/// A future of any type.
type Boxed<T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send>>;

impl Context {
    /// Sleeps without holding anything: no lease, no slot of a worker, no memory. It is over when so much time has passed
    /// since the first attempt that came here, on the store's clock; or earlier, if an operator lets the execution go on.
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
    /// let ended = namespace.result(id, Duration::from_secs(10)).await?.expect("it ends");
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
        let wait = Wait::new(self.ask(name), StepKind::Sleep, Until::after(duration));
        async move { wait.waited().await.map(drop) }
    }

    /// Sleeps until this time, in the same way.
    ///
    /// ```
    /// # use selvedge::{Context, Failure, Timestamp};
    /// async fn remind(ctx: Context) -> Result<(), Failure> {
    ///     let due: i64 = ctx.input()?;
    ///     ctx.sleep_until("until it is due", Timestamp::from_millis(due)).await
    /// }
    /// ```
    pub fn sleep_until(
        &self,
        name: impl Into<String>,
        time: Timestamp,
    ) -> impl Future<Output = Result<(), Failure>> + Send {
        let wait = Wait::new(self.ask(name), StepKind::Sleep, Until::at(time));
        async move { wait.waited().await.map(drop) }
    }

    /// Waits for a signal of this name. One that came before counts, if no other wait has taken it.
    ///
    /// ```
    /// # use selvedge::{Context, Engine, Failure, Heard, Signal, Submission, Worker};
    /// # use std::time::Duration;
    /// async fn ship(ctx: Context) -> Result<String, Failure> {
    ///     let paid = ctx.wait_for_signal("payment", "paid").timeout(Duration::from_secs(3600)).await?;
    ///     match paid {
    ///         Heard::Signal(paid) => Ok(format!("{} paid {}", paid.source, paid.payload::<u32>()?)),
    ///         Heard::TimedOut => Err(Failure::permanent("nobody has paid")),
    ///         Heard::Operator => Ok("let through".into()),
    ///     }
    /// }
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), selvedge::Error> {
    /// # let engine = Engine::open("memory:").await?;
    /// # let namespace = engine.namespace("default").await?;
    /// let worker = Worker::new(namespace.clone(), "shop").handler("ship", ship).start()?;
    /// let id = Submission::new("ship").submit(&namespace).await?.execution.id;
    /// Signal::new("paid").payload(&42)?.source("ada").send(&namespace, id).await?;
    /// let ended = namespace.result(id, Duration::from_secs(10)).await?.expect("it ends");
    /// assert_eq!(ended.result.expect("a result"), r#""ada paid 42""#);
    /// # worker.drain().await;
    /// # engine.shutdown().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait_for_signal(&self, name: impl Into<String>, signal: impl AsRef<str>) -> WaitForSignal {
        WaitForSignal(Wait::new(self.ask(name), StepKind::Wait, Until::signal(signal)))
    }

    /// Waits until something holds.
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
    /// let ended = namespace.result(id, Duration::from_secs(10)).await?.expect("it ends");
    /// assert_eq!(ended.result.expect("a result"), "2");
    /// # worker.drain().await;
    /// # engine.shutdown().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait(&self, name: impl Into<String>, until: Until) -> Wait {
        Wait::new(self.ask(name), StepKind::Wait, until)
    }

    /// Waits until the children that it has spawned have ended, those aside that were spawned detached, and gives how they
    /// did. [`child`](Context::child) reads a result.
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
    /// let ended = namespace.result(id, Duration::from_secs(10)).await?.expect("it ends");
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
        let wait = Wait::new(self.ask(name), StepKind::Join, Until::children());
        async move {
            wait.waited().await?;
            Ok(self.children().to_vec())
        }
    }
}

/// A wait that is set up: await it. Made by [`Context::wait`].
#[must_use = "a wait does nothing until it is awaited"]
pub struct Wait {
    asked: Asked,
    kind: StepKind,
    until: Until,
    timeout: Option<Duration>,
}

impl Wait {
    fn new(asked: Asked, kind: StepKind, until: Until) -> Wait {
        Wait { asked, kind, until, timeout: None }
    }

    /// Wait this long at most, counted from the first attempt that came here; without end.
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

    async fn waited(self) -> Result<Waited, Failure> {
        let mut taken = self.asked.take()?;
        if let Some(waited) = self.asked.recorded(self.kind)? {
            taken.keep();
            return Ok(waited);
        }
        let draft = WaitDraft {
            step: Some((Name::trusted(&self.asked.name), self.kind)),
            condition: self.until.0,
            timeout_ms: self.timeout.map(millis),
            on_timeout: OnTimeout::Resume,
        };
        draft.check("").map_err(|refusal| self.asked.refused(refusal.into()))?;
        let _waiting = self.asked.context.ledger().wait(draft)?;
        pending().await
    }
}

impl IntoFuture for Wait {
    type Output = Result<Waited, Failure>;
    type IntoFuture = Boxed<Waited>;

    fn into_future(self) -> Boxed<Waited> {
        Box::pin(self.waited())
    }
}

/// A wait for a signal that is set up: await it. Made by [`Context::wait_for_signal`].
#[must_use = "a wait does nothing until it is awaited"]
pub struct WaitForSignal(Wait);

impl WaitForSignal {
    /// Wait this long at most, counted from the first attempt that came here; without end.
    ///
    /// ```
    /// # use selvedge::{Context, Failure};
    /// # use std::time::Duration;
    /// async fn ask(ctx: Context) -> Result<bool, Failure> {
    ///     let heard = ctx.wait_for_signal("answer", "yes").timeout(Duration::from_secs(60)).await?;
    ///     Ok(heard.signal().is_some())
    /// }
    /// ```
    pub fn timeout(self, timeout: Duration) -> WaitForSignal {
        WaitForSignal(self.0.timeout(timeout))
    }
}

impl IntoFuture for WaitForSignal {
    type Output = Result<Heard, Failure>;
    type IntoFuture = Boxed<Heard>;

    fn into_future(self) -> Boxed<Heard> {
        Box::pin(async move {
            let Waited { resumed_by, signals } = self.0.waited().await?;
            Ok(match (resumed_by, signals.into_iter().next()) {
                (_, Some(signal)) => Heard::Signal(signal),
                (ResumedBy::Timeout, None) => Heard::TimedOut,
                (ResumedBy::Operator | ResumedBy::Condition, None) => Heard::Operator,
            })
        })
    }
}

/// How a wait ended.
#[derive(Clone, Debug, Deserialize)]
pub struct Waited {
    /// What ended it: its condition held, its time was over, or an operator let the execution go on.
    pub resumed_by: ResumedBy,
    /// The signals that it took, in the order of their delivery: those by which its condition holds, or all that it had
    /// heard where it does not.
    pub signals: Vec<Received>,
}

/// How the wait for a signal ended.
#[derive(Clone, Debug)]
pub enum Heard {
    /// The signal has come.
    Signal(Received),
    /// It has not come in time.
    TimedOut,
    /// It has not come, and an operator let the execution go on.
    Operator,
}

impl Heard {
    /// The signal, if it has come.
    ///
    /// ```
    /// # use selvedge::Heard;
    /// assert!(Heard::TimedOut.signal().is_none());
    /// ```
    pub fn signal(self) -> Option<Received> {
        match self {
            Heard::Signal(signal) => Some(signal),
            Heard::TimedOut | Heard::Operator => None,
        }
    }
}

/// A signal that a wait has taken.
#[derive(Clone, Debug, Deserialize)]
pub struct Received {
    /// Its name.
    pub name: String,
    /// Who sent it.
    pub source: String,
    /// The waitpoint through which it came.
    pub waitpoint: Option<String>,
    payload: Box<RawValue>,
}

impl Received {
    /// What it says, as a value. A payload of another shape will not change by itself: a permanent failure.
    ///
    /// ```
    /// # use selvedge::{Failure, Received};
    /// fn amount(paid: &Received) -> Result<u32, Failure> {
    ///     paid.payload()
    /// }
    /// ```
    pub fn payload<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_str(self.payload.get()).map_err(|error| {
            let (name, source) = (&self.name, &self.source);
            Failure::permanent(format!(
                "what {source} said with the signal {name:?} is not what is expected: {error}"
            ))
        })
    }

    /// What it says, JSON as it was sent.
    ///
    /// ```
    /// # use selvedge::Received;
    /// fn log(signal: &Received) -> String {
    ///     format!("{}: {}", signal.name, signal.payload_json())
    /// }
    /// ```
    pub fn payload_json(&self) -> &str {
        self.payload.get()
    }
}
