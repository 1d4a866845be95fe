//! Signals that a program sends to an execution, directly or through a waitpoint.

use crate::{Effect, Error, ExecutionId, Namespace, WaitpointId};
use bytes::Bytes;
use selvedge_core::rules::signal::SignalDraft;
use serde::Serialize;

/// The default source of a signal.
const DEFAULT_SOURCE: &str = "program";

/// A signal to send. Only the name is required, and not even that for a delivery through a waitpoint.
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
/// assert_eq!(delivered.effect, Effect::Buffered, "the execution does not wait for it yet");
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
    /// Creates a signal of this name.
    ///
    /// ```
    /// let paid = selvedge::Signal::new("paid");
    /// # drop(paid);
    /// ```
    pub fn new(name: impl Into<String>) -> Signal {
        Signal {
            draft: SignalDraft { name: Some(name.into()), ..Signal::for_waitpoint().draft },
            source: DEFAULT_SOURCE.into(),
        }
    }

    /// Creates a signal without a name: it takes the name of the waitpoint through which it is delivered.
    ///
    /// ```
    /// # use selvedge::{Delivered, Error, Namespace, Signal, Waitpoint};
    /// async fn agree(namespace: &Namespace, waitpoint: &Waitpoint) -> Result<Delivered, Error> {
    ///     Signal::for_waitpoint().deliver(namespace, waitpoint.id, &waitpoint.token).await
    /// }
    /// ```
    pub fn for_waitpoint() -> Signal {
        let draft = SignalDraft { name: None, payload: Bytes::from_static(b"null"), key: None };
        Signal { draft, source: DEFAULT_SOURCE.into() }
    }

    /// Sets the payload, serialised as JSON. Default: `null`. Fails if the value cannot be serialised.
    ///
    /// ```
    /// let paid = selvedge::Signal::new("paid").payload(&("EUR", 42))?;
    /// # drop(paid);
    /// # Ok::<_, selvedge::Error>(())
    /// ```
    pub fn payload<T: Serialize + ?Sized>(mut self, payload: &T) -> Result<Signal, Error> {
        let json = serde_json::to_vec(payload)
            .map_err(|error| Error::field("/payload", format!("cannot be serialised as JSON: {error}")))?;
        self.draft.payload = json.into();
        Ok(self)
    }

    /// Sets the payload to this JSON text, which is stored byte for byte. Default: `null`.
    ///
    /// ```
    /// let paid = selvedge::Signal::new("paid").payload_json("[ 42 ]");
    /// # drop(paid);
    /// ```
    pub fn payload_json(mut self, payload: impl Into<Bytes>) -> Signal {
        self.draft.payload = payload.into();
        self
    }

    /// Sets the idempotency key. Default: none. Sending the same signal to the same execution again with this key
    /// changes nothing and returns the first answer, marked as a duplicate.
    ///
    /// ```
    /// let paid = selvedge::Signal::new("paid").idempotency_key("7");
    /// # drop(paid);
    /// ```
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Signal {
        self.draft.key = Some(key.into());
        self
    }

    /// Sets the sender's name. Default: `program`. A delivery through a waitpoint ignores it and uses the waitpoint's
    /// source.
    ///
    /// ```
    /// # use selvedge::{Engine, Signal, Submission};
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), selvedge::Error> {
    /// # let engine = Engine::open("memory:").await?;
    /// # let namespace = engine.namespace("default").await?;
    /// # let order = Submission::new("order").submit(&namespace).await?.execution.id;
    /// Signal::new("paid").source("ada").send(&namespace, order).await?;
    /// # engine.shutdown().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn source(mut self, source: impl Into<String>) -> Signal {
        self.source = source.into();
        self
    }

    /// Returns the content and the source.
    pub(crate) fn into_parts(self) -> (SignalDraft, String) {
        (self.draft, self.source)
    }

    /// Sends the signal to an execution. The signal is buffered until a wait of that execution consumes it.
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
        namespace.signal(execution, self).await
    }

    /// Delivers the signal through a waitpoint. The token is the only authorisation needed. Delivering the same signal
    /// again returns the first answer, marked as a duplicate.
    ///
    /// ```
    /// # use selvedge::{Delivered, Error, Namespace, Signal, Waitpoint};
    /// async fn decline(namespace: &Namespace, waitpoint: &Waitpoint) -> Result<Delivered, Error> {
    ///     let reject = Signal::new("deploy/reject").payload("not on a Friday")?;
    ///     reject.deliver(namespace, waitpoint.id, &waitpoint.token).await
    /// }
    /// ```
    pub async fn deliver(
        self,
        namespace: &Namespace,
        waitpoint: WaitpointId,
        token: &str,
    ) -> Result<Delivered, Error> {
        namespace.deliver(waitpoint, token, self).await
    }
}

/// The answer to an accepted signal.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivered {
    /// The number of the signal in its execution, from 1.
    pub number: u32,
    /// True if the signal was delivered before.
    pub duplicate: bool,
    /// The effect of the first delivery.
    pub effect: Effect,
}

impl From<selvedge_core::rules::signal::Delivered> for Delivered {
    fn from(delivered: selvedge_core::rules::signal::Delivered) -> Delivered {
        let selvedge_core::rules::signal::Delivered { number, duplicate, effect, .. } = delivered;
        Delivered { number, duplicate, effect }
    }
}
