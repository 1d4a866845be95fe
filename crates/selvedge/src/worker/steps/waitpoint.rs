//! Waitpoints: an outside party delivers one signal to an execution, authorised by a token instead of an API key.

use super::record::{RECORD_RETRY_LIMIT, failure_of};
use crate::submission::millis;
use crate::worker::protocol::{IssuedWaitpoint, Op};
use crate::worker::{Context, Failure};
use crate::{Error, WaitpointId};
use selvedge_core::Name;
use selvedge_core::name::NAME_LIMIT;
use selvedge_core::rules::waitpoint::WaitpointDraft;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

impl Context {
    /// Creates a waitpoint. Its token authorises an outside party to deliver one signal to this execution and nothing
    /// else. A delivery without a signal name has the name of the waitpoint. A signal that arrives before the execution
    /// waits for it is buffered.
    ///
    /// A delivery may name another signal, but not that of another waitpoint. If the sender matters, wait with
    /// [`Until::waitpoints`](crate::Until::waitpoints), or check the source of the received signal.
    ///
    /// Creating a waitpoint of the same name again, in this attempt or a later one, returns the same waitpoint and
    /// token.
    ///
    /// ```
    /// # use selvedge::{Context, Engine, Failure, Signal, Submission, Waitpoint, Worker};
    /// # use std::sync::Arc;
    /// # use std::time::Duration;
    /// # use tokio::sync::mpsc;
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), selvedge::Error> {
    /// # let engine = Engine::open("memory:").await?;
    /// # let namespace = engine.namespace("default").await?;
    /// let (mail, mut inbox) = mpsc::unbounded_channel::<Waitpoint>();
    /// let worker = Worker::new(namespace.clone(), "bank")
    ///     .handler("transfer", move |ctx: Context| {
    ///         let mail = mail.clone();
    ///         async move {
    ///             let confirmed = ctx.waitpoint("confirmed").source("ada").await?;
    ///             ctx.step("write to ada", || async move { Ok(mail.send(confirmed)?) }).await?;
    ///             let confirmation = ctx.wait_for_signal("confirmation", "confirmed").await?;
    ///             Ok::<_, Failure>(confirmation.signal().map(|signal| signal.source))
    ///         }
    ///     })
    ///     .start()?;
    /// let id = Submission::new("transfer").submit(&namespace).await?.execution.id;
    /// let waitpoint = inbox.recv().await.expect("ada gets a mail");
    /// Signal::for_waitpoint().deliver(&namespace, waitpoint.id, &waitpoint.token).await?;
    /// let ended = namespace.result(id, Duration::from_secs(10)).await?.expect("the execution ends");
    /// assert_eq!(ended.result.expect("a result"), r#""ada""#);
    /// # worker.drain().await;
    /// # engine.shutdown().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn waitpoint(&self, name: impl Into<String>) -> NewWaitpoint {
        NewWaitpoint {
            context: self.clone(),
            name: name.into(),
            source: None,
            expires_after: None,
            signals: None,
            prompt: None,
        }
    }

    /// Creates several waitpoints in one report. A waitpoint that already exists in this generation of the execution is
    /// returned again, whatever its state. Otherwise every attempt after a delivery would create another one.
    pub(super) async fn create_waitpoints(
        &self,
        drafts: Vec<WaitpointDraft>,
    ) -> Result<Vec<Waitpoint>, Failure> {
        let settled = if self.attempt() == 0 { Vec::new() } else { self.settled_waitpoints().await? };
        let known = |draft: &WaitpointDraft| {
            settled.iter().rev().find(|waitpoint| waitpoint.name == draft.name.as_str()).cloned()
        };
        let known: Vec<Option<IssuedWaitpoint>> = drafts.iter().map(known).collect();
        let new = drafts.iter().zip(&known).filter(|(_, known)| known.is_none());
        let new: Vec<_> = new.map(|(draft, _)| (None, Op::Waitpoint(draft.clone()))).collect();
        let reported = match new.is_empty() {
            true => Vec::new(),
            false => self.report_with_retries(new, RECORD_RETRY_LIMIT).await.map_err(not_created)?,
        };
        let mut created = reported.into_iter().flat_map(|reported| reported.waitpoints);
        let fill = |(draft, known): (WaitpointDraft, Option<IssuedWaitpoint>)| {
            let issued = known.or_else(|| created.next()).ok_or_else(not_returned)?;
            Ok(Waitpoint::new(&draft, issued))
        };
        drafts.into_iter().zip(known).map(fill).collect()
    }

    /// Returns the waitpoints of this generation that accept no delivery any more.
    async fn settled_waitpoints(&self) -> Result<Vec<IssuedWaitpoint>, Failure> {
        self.link().settled_waitpoints(self.execution(), self.opened_at()).await.map_err(not_created)
    }
}

/// A waitpoint to be created when this is awaited. Created by [`Context::waitpoint`].
#[must_use = "a waitpoint is created when this is awaited"]
pub struct NewWaitpoint {
    context: Context,
    name: String,
    source: Option<String>,
    expires_after: Option<Duration>,
    signals: Option<Vec<String>>,
    prompt: Option<String>,
}

impl NewWaitpoint {
    /// Sets the source of a signal that is delivered through the waitpoint. Default: the waitpoint's name.
    ///
    /// ```
    /// # use selvedge::{Context, Failure};
    /// async fn token_for_ada(ctx: Context) -> Result<String, Failure> {
    ///     Ok(ctx.waitpoint("confirmed").source("ada").await?.token)
    /// }
    /// ```
    pub fn source(mut self, source: impl Into<String>) -> NewWaitpoint {
        self.source = Some(source.into());
        self
    }

    /// Sets the time after which the waitpoint accepts no delivery. Default: the end of the execution.
    ///
    /// ```
    /// # use selvedge::{Context, Failure};
    /// # use std::time::Duration;
    /// async fn token_for_today(ctx: Context) -> Result<String, Failure> {
    ///     Ok(ctx.waitpoint("confirmed").expires_after(Duration::from_secs(24 * 3600)).await?.token)
    /// }
    /// ```
    pub fn expires_after(mut self, expires_after: Duration) -> NewWaitpoint {
        self.expires_after = Some(expires_after);
        self
    }

    /// Sets the names of the signals that the token may send. Default: the waitpoint's name.
    ///
    /// ```
    /// # use selvedge::{Context, Failure};
    /// async fn token_to_decide(ctx: Context) -> Result<String, Failure> {
    ///     Ok(ctx.waitpoint("decision").signals(["approved", "rejected"]).await?.token)
    /// }
    /// ```
    pub fn signals<T: Into<String>>(mut self, signals: impl IntoIterator<Item = T>) -> NewWaitpoint {
        self.signals = Some(signals.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the question to the holder of the token. Default: none.
    ///
    /// ```
    /// # use selvedge::{Context, Failure};
    /// async fn token_to_pay(ctx: Context) -> Result<String, Failure> {
    ///     Ok(ctx.waitpoint("paid").prompt("Please pay invoice 7.").await?.token)
    /// }
    /// ```
    pub fn prompt(mut self, prompt: impl Into<String>) -> NewWaitpoint {
        self.prompt = Some(prompt.into());
        self
    }

    async fn create(self) -> Result<Waitpoint, Failure> {
        let draft = draft(&self.name, self.source.as_deref(), self.signals.as_deref())?;
        let draft =
            WaitpointDraft { expires_ms: self.expires_after.map(millis), prompt: self.prompt, ..draft };
        draft.check("").map_err(|refusal| not_created(refusal.into()))?;
        let created = self.context.create_waitpoints(vec![draft]).await?;
        created.into_iter().next().ok_or_else(not_returned)
    }
}

/// Validates the names of a waitpoint and builds its draft.
pub fn draft(
    name: &str,
    source: Option<&str>,
    signals: Option<&[String]>,
) -> Result<WaitpointDraft, Failure> {
    let parse = |pointer: &str, name: &str| {
        Name::parse(pointer, name, NAME_LIMIT).map_err(|refusal| not_created(refusal.into()))
    };
    let name = parse("/name", name)?;
    let source = source.map(|source| parse("/source", source)).transpose()?;
    let signals = signals.map(|signals| signals.iter().map(|signal| parse("/signals", signal)).collect());
    Ok(WaitpointDraft { source, signals: signals.transpose()?, ..WaitpointDraft::new(name) })
}

fn not_created(error: Error) -> Failure {
    failure_of("a waitpoint", error)
}

fn not_returned() -> Failure {
    Failure::transient("a waitpoint was created but the engine did not return it")
}

impl IntoFuture for NewWaitpoint {
    type Output = Result<Waitpoint, Failure>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.create())
    }
}

/// A waitpoint, with the token that authorises one delivery: with [`Signal::deliver`](crate::Signal::deliver), or over
/// HTTP with `POST /v1/waitpoints/{id}/signal`.
#[derive(Clone, PartialEq, Eq)]
pub struct Waitpoint {
    /// The id of the waitpoint.
    pub id: WaitpointId,
    /// The name of the waitpoint, and of the delivered signal unless the token may send others.
    pub name: String,
    /// The source of the delivered signal.
    pub source: String,
    /// The secret that authorises the delivery. Give it only to the party that is to deliver the signal. Over HTTP it is
    /// empty in the attempts after the delivery, when it no longer authorises anything.
    pub token: String,
}

impl Waitpoint {
    fn new(draft: &WaitpointDraft, issued: IssuedWaitpoint) -> Waitpoint {
        let IssuedWaitpoint { id, name, source, token } = issued;
        let chosen = || draft.source.as_ref().unwrap_or(&draft.name).to_string();
        Waitpoint { id, name, source: source.unwrap_or_else(chosen), token }
    }
}

/// Omits the token, because it is a secret.
impl fmt::Debug for Waitpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Waitpoint { id, name, source, token: _ } = self;
        f.debug_struct("Waitpoint")
            .field("id", id)
            .field("name", name)
            .field("source", source)
            .finish_non_exhaustive()
    }
}
