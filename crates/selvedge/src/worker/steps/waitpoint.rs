//! Waitpoints: where somebody outside delivers one signal, with a token instead of a key to the API.

use super::record::{RECORD_PATIENCE, refused};
use crate::submission::millis;
use crate::worker::{Context, Failure};
use crate::{Error, Name, WaitpointId};
use selvedge_core::name::NAME_LIMIT;
use selvedge_core::rules::waitpoint::WaitpointDraft;
use selvedge_core::waitpoint::{WAITPOINTS_MAX, WaitpointState};
use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

impl Context {
    /// Makes a waitpoint, whose token can be handed to somebody outside: it allows to deliver one signal to this execution
    /// and nothing else. A delivery that names no signal delivers one of the waitpoint's name. What comes before it is
    /// waited for is kept.
    ///
    /// The delivery may name another signal, unless that is the name of another waitpoint. Where it matters who has spoken,
    /// wait with [`Until::waitpoints`](crate::Until::waitpoints), or look at the source of what was received.
    ///
    /// Asked for again, by this attempt or a later one, it is the same waitpoint with the same token.
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
    /// let (mail, mut letters) = mpsc::unbounded_channel::<Waitpoint>();
    /// let worker = Worker::new(namespace.clone(), "bank")
    ///     .handler("transfer", move |ctx: Context| {
    ///         let mail = mail.clone();
    ///         async move {
    ///             let confirmed = ctx.waitpoint("confirmed").source("ada").await?;
    ///             ctx.step("write to ada", || async move { Ok(mail.send(confirmed)?) }).await?;
    ///             let heard = ctx.wait_for_signal("confirmation", "confirmed").await?;
    ///             Ok::<_, Failure>(heard.signal().map(|signal| signal.source))
    ///         }
    ///     })
    ///     .start()?;
    /// let id = Submission::new("transfer").submit(&namespace).await?.execution.id;
    /// let letter = letters.recv().await.expect("ada gets a letter");
    /// Signal::for_waitpoint().deliver(&engine, letter.id, &letter.token).await?;
    /// let ended = namespace.result(id, Duration::from_secs(10)).await?.expect("it ends");
    /// assert_eq!(ended.result.expect("a result"), r#""ada""#);
    /// # worker.drain().await;
    /// # engine.shutdown().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn waitpoint(&self, name: impl Into<String>) -> NewWaitpoint {
        NewWaitpoint { context: self.clone(), name: name.into(), source: None, expires_after: None }
    }

    /// Makes these waitpoints, together. One that this generation of the execution has had is given again, however it
    /// stands: otherwise every attempt after a delivery would make another.
    pub(super) async fn make_waitpoints(
        &self,
        drafts: Vec<WaitpointDraft>,
    ) -> Result<Vec<Waitpoint>, Failure> {
        let settled = if self.attempt() == 0 { Vec::new() } else { self.settled_waitpoints().await? };
        let mut made: Vec<Option<Waitpoint>> = Vec::with_capacity(drafts.len());
        let mut new = Vec::new();
        for draft in drafts {
            let known = settled.iter().rev().find(|one| one.name == draft.name);
            made.push(known.map(|known| Waitpoint::new(self, known)));
            if known.is_none() {
                new.push((None, self.namespace().waitpoint(draft)));
            }
        }
        let reported = match new.is_empty() {
            true => Vec::new(),
            false => self.repeat(new, RECORD_PATIENCE).await.map_err(not_made)?,
        };
        let mut reported = reported.iter().flat_map(|reported| &reported.waitpoints);
        let missing = || Failure::transient("a waitpoint was made and not told");
        let fill = |known: Option<Waitpoint>| {
            known.or_else(|| reported.next().map(|one| Waitpoint::new(self, one))).ok_or_else(missing)
        };
        made.into_iter().map(fill).collect()
    }

    /// The waitpoints of this generation that take no delivery any more.
    async fn settled_waitpoints(&self) -> Result<Vec<selvedge_core::Waitpoint>, Failure> {
        let listed = self.namespace().waitpoints(self.execution(), 0, WAITPOINTS_MAX).await;
        let mut known = listed.map_err(not_made)?;
        let opened_at = self.opened_at();
        known.retain(|one| one.created_at >= opened_at && one.state != WaitpointState::Open);
        Ok(known)
    }
}

/// A waitpoint that is set up: await it. Made by [`Context::waitpoint`].
#[must_use = "a waitpoint is made when this is awaited"]
pub struct NewWaitpoint {
    context: Context,
    name: String,
    source: Option<String>,
    expires_after: Option<Duration>,
}

impl NewWaitpoint {
    /// Whose word a delivery through it is; the waitpoint's own name.
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

    /// How long it takes a delivery; as long as the execution lives.
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

    async fn make(self) -> Result<Waitpoint, Failure> {
        let draft = draft(&self.name, self.source.as_deref(), self.expires_after)?;
        let made = self.context.make_waitpoints(vec![draft]).await?;
        made.into_iter().next().ok_or_else(|| Failure::transient("a waitpoint was made and not told"))
    }
}

/// A waitpoint as it is asked for.
pub fn draft(
    name: &str,
    source: Option<&str>,
    expires_after: Option<Duration>,
) -> Result<WaitpointDraft, Failure> {
    let parse = |pointer: &str, name: &str| {
        Name::parse(pointer, name, NAME_LIMIT).map_err(|refusal| not_made(refusal.into()))
    };
    let name = parse("/name", name)?;
    let source = source.map(|source| parse("/source", source)).transpose()?;
    Ok(WaitpointDraft { name, source, expires_ms: expires_after.map(millis) })
}

fn not_made(error: Error) -> Failure {
    refused("a waitpoint", error)
}

impl IntoFuture for NewWaitpoint {
    type Output = Result<Waitpoint, Failure>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.make())
    }
}

/// A waitpoint, with the token that allows one delivery to it. [`Signal::deliver`](crate::Signal::deliver) does so; over
/// HTTP it is `POST /v1/waitpoints/{id}/signal`.
#[derive(Clone, PartialEq, Eq)]
pub struct Waitpoint {
    /// Its id.
    pub id: WaitpointId,
    /// Its name, which is that of the signal unless the delivery names another.
    pub name: String,
    /// Whose word a delivery through it is.
    pub source: String,
    /// What allows the delivery: give it to nobody but who is to deliver.
    pub token: String,
}

impl Waitpoint {
    fn new(context: &Context, known: &selvedge_core::Waitpoint) -> Waitpoint {
        Waitpoint {
            id: known.id,
            name: known.name.as_str().to_owned(),
            source: known.source.as_str().to_owned(),
            token: context.namespace().token(known),
        }
    }
}

/// Without the token, which allows something.
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
