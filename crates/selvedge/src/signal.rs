//! Signals, as programs send them: to an execution, or through a waitpoint.

use crate::{Delivered, Error, ExecutionId, Name, Namespace, Refusal, SignalDraft, WaitpointId};
use bytes::Bytes;
use selvedge_core::name::NAME_LIMIT;
use serde::Serialize;

/// Who has sent a signal that names no source.
const SOURCE: &str = "program";

/// A signal. Only its name has to be given, and that only where it does not go through a waitpoint; everything else has a
/// default.
///
/// ```
/// use selvedge::{Effect, Engine, Signal, Submission};
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), selvedge::Error> {
/// # let engine = Engine::open("memory:").await?;
/// # let namespace = engine.namespace("default").await?;
/// let order = Submission::new("order").submit(&namespace).await?.execution.id;
/// let paid = Signal::new("paid").payload(&42)?.source("ada").idempotency_key("invoice-7");
/// let delivered = paid.clone().send(&namespace, order).await?;
/// assert_eq!(delivered.effect, Effect::Buffered, "nobody waits for it yet");
/// assert!(paid.send(&namespace, order).await?.duplicate);
/// # engine.shutdown().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Signal {
    draft: SignalDraft,
    source: String,
}

impl Signal {
    /// A signal of this name.
    ///
    /// ```
    /// # use selvedge::{Signal, SignalDraft};
    /// assert_eq!(SignalDraft::from(Signal::new("paid")).name.as_deref(), Some("paid"));
    /// ```
    pub fn new(name: impl Into<String>) -> Signal {
        Signal {
            draft: SignalDraft { name: Some(name.into()), ..Signal::for_waitpoint().draft },
            source: SOURCE.into(),
        }
    }

    /// A signal that has the name of the waitpoint through which it is delivered.
    ///
    /// ```
    /// # use selvedge::{Delivered, Engine, Error, Signal, Waitpoint};
    /// async fn agree(engine: &Engine, letter: &Waitpoint) -> Result<Delivered, Error> {
    ///     Signal::for_waitpoint().deliver(engine, letter.id, &letter.token).await
    /// }
    /// ```
    pub fn for_waitpoint() -> Signal {
        let draft = SignalDraft { name: None, payload: Bytes::from_static(b"null"), key: None };
        Signal { draft, source: SOURCE.into() }
    }

    /// What it says, as JSON; `null`. Refused if it cannot be written as JSON.
    ///
    /// ```
    /// # use selvedge::{Signal, SignalDraft};
    /// let paid = Signal::new("paid").payload(&("EUR", 42))?;
    /// assert_eq!(SignalDraft::from(paid).payload, r#"["EUR",42]"#);
    /// # Ok::<_, selvedge::Error>(())
    /// ```
    pub fn payload<T: Serialize + ?Sized>(mut self, payload: &T) -> Result<Signal, Error> {
        let json = serde_json::to_vec(payload)
            .map_err(|error| Refusal::field("/payload", format!("cannot be written as JSON: {error}")))?;
        self.draft.payload = json.into();
        Ok(self)
    }

    /// What it says, JSON that is kept byte for byte.
    ///
    /// ```
    /// # use selvedge::{Signal, SignalDraft};
    /// assert_eq!(SignalDraft::from(Signal::new("paid").payload_json("[ 42 ]")).payload, "[ 42 ]");
    /// ```
    pub fn payload_json(mut self, payload: impl Into<Bytes>) -> Signal {
        self.draft.payload = payload.into();
        self
    }

    /// The same signal sent again to an execution with this key is the first one.
    ///
    /// ```
    /// # use selvedge::{Signal, SignalDraft};
    /// assert_eq!(SignalDraft::from(Signal::new("paid").idempotency_key("7")).key.as_deref(), Some("7"));
    /// ```
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Signal {
        self.draft.key = Some(key.into());
        self
    }

    /// Who sends it; `program`. Through a waitpoint, the source is the waitpoint's.
    ///
    /// ```
    /// # use selvedge::{Engine, Signal, Submission};
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), selvedge::Error> {
    /// # let engine = Engine::open("memory:").await?;
    /// # let namespace = engine.namespace("default").await?;
    /// # let order = Submission::new("order").submit(&namespace).await?.execution.id;
    /// let delivered = Signal::new("paid").source("ada").send(&namespace, order).await?;
    /// assert_eq!(delivered.source.as_str(), "ada");
    /// # engine.shutdown().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn source(mut self, source: impl Into<String>) -> Signal {
        self.source = source.into();
        self
    }

    /// Sends it to an execution. It is kept until a wait takes it.
    ///
    /// ```
    /// # use selvedge::{Engine, Signal, Submission};
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), selvedge::Error> {
    /// # let engine = Engine::open("memory:").await?;
    /// # let namespace = engine.namespace("default").await?;
    /// let order = Submission::new("order").submit(&namespace).await?.execution.id;
    /// let delivered = Signal::new("paid").send(&namespace, order).await?;
    /// assert_eq!((delivered.number, delivered.duplicate), (1, false));
    /// # engine.shutdown().await;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn send(self, namespace: &Namespace, execution: ExecutionId) -> Result<Delivered, Error> {
        let source = Name::parse("/source", &self.source, NAME_LIMIT)?;
        namespace.signal(execution, self.draft, &source).await
    }

    /// Delivers it through a waitpoint: the token is all that is asked for. The same again gets the first answer.
    ///
    /// ```
    /// # use selvedge::{Delivered, Engine, Error, Signal, Waitpoint};
    /// async fn decline(engine: &Engine, letter: &Waitpoint) -> Result<Delivered, Error> {
    ///     Signal::new("deploy/reject").payload("not on a Friday")?.deliver(engine, letter.id, &letter.token).await
    /// }
    /// ```
    pub async fn deliver(
        self,
        engine: &selvedge_engine::Engine,
        waitpoint: WaitpointId,
        token: &str,
    ) -> Result<Delivered, Error> {
        engine.deliver(waitpoint, token, self.draft).await
    }
}

impl From<Signal> for SignalDraft {
    fn from(signal: Signal) -> SignalDraft {
        signal.draft
    }
}
