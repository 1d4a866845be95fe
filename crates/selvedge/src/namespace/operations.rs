//! Operations on one execution: cancel, replay, reschedule, priority, tags, resume, lease, signals.

use super::executions::read_row;
use super::{Connected, Namespace, actor};
use crate::submission::millis;
use crate::wire::submissions::split;
use crate::wire::values::{raw, to_raw};
use crate::{Delivered, Effect, Error, Execution, ExecutionId, Signal, WaitpointId, When};
use selvedge_core::Name;
use selvedge_core::name::NAME_LIMIT;
use selvedge_core::rules::operator::Action;
use selvedge_core::submission::{check_priority, check_tags};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

#[derive(Deserialize)]
struct Operated {
    execution: Execution,
}

#[derive(Deserialize)]
struct DeliveredItem {
    signal: SignalItem,
    duplicate: bool,
    effect: Effect,
}

#[derive(Deserialize)]
struct SignalItem {
    number: u32,
}

/// The answer to a delivery through a waitpoint.
#[derive(Deserialize)]
pub(super) struct AnsweredItem {
    pub number: u32,
    pub duplicate: bool,
    pub effect: Effect,
}

impl Namespace {
    /// Cancels an execution. With a [grace period](Cancel::grace), its handler is asked to stop first.
    ///
    /// ```
    /// # use selvedge::{Engine, Outcome, Submission};
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), selvedge::Error> {
    /// # let engine = Engine::open("memory:").await?;
    /// # let namespace = engine.namespace("default").await?;
    /// let id = Submission::new("report").submit(&namespace).await?.execution.id;
    /// let cancelled = namespace.cancel(id).reason("no longer needed").await?;
    /// assert_eq!(cancelled.outcome, Some(Outcome::Cancelled));
    /// # Ok(())
    /// # }
    /// ```
    pub fn cancel(&self, id: ExecutionId) -> Cancel {
        Cancel { namespace: self.clone(), id, reason: None, grace: Duration::ZERO }
    }

    /// Replays an execution that has ended: it runs again in a new generation, and keeps its recorded steps.
    pub async fn replay(&self, id: ExecutionId) -> Result<Execution, Error> {
        self.operate(id, "replay", Action::Replay, json!({})).await
    }

    /// Changes the earliest start of an execution that is delayed or waits.
    pub async fn reschedule(&self, id: ExecutionId, until: When) -> Result<Execution, Error> {
        let until = until.check("/delay_ms")?;
        let body = match split(Some(until)) {
            (Some(delay_ms), _) => json!({ "delay_ms": delay_ms }),
            (None, until_at) => json!({ "until_at": until_at }),
        };
        self.operate(id, "reschedule", Action::Reschedule { until }, body).await
    }

    /// Changes the priority.
    pub async fn set_priority(&self, id: ExecutionId, priority: i64) -> Result<Execution, Error> {
        check_priority("/priority", priority)?;
        self.operate(id, "priority", Action::Prioritise { priority }, json!({ "priority": priority })).await
    }

    /// Sets and removes tags.
    pub async fn tag<N: Into<String>, V: Into<String>, R: Into<String>>(
        &self,
        id: ExecutionId,
        set: impl IntoIterator<Item = (N, V)>,
        remove: impl IntoIterator<Item = R>,
    ) -> Result<Execution, Error> {
        let set: BTreeMap<String, String> =
            set.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        let set = check_tags("/set", set)?;
        let remove: Vec<String> = remove.into_iter().map(Into::into).collect();
        let body = json!({ "set": set, "remove": remove });
        self.operate(id, "tags", Action::Tag { set, remove }, body).await
    }

    /// Resumes a suspended execution as an operator, whatever its condition.
    pub async fn resume(&self, id: ExecutionId) -> Result<Execution, Error> {
        self.operate(id, "resume", Action::Resume, json!({})).await
    }

    /// Takes an active execution from its worker. It waits for a worker again, and nothing is charged.
    pub async fn revoke_lease(&self, id: ExecutionId) -> Result<Execution, Error> {
        self.operate(id, "revoke-lease", Action::Revoke { reason: None }, json!({})).await
    }

    async fn operate(
        &self,
        id: ExecutionId,
        word: &str,
        action: Action,
        body: Value,
    ) -> Result<Execution, Error> {
        match &self.connected {
            Connected::Embedded(namespace) => {
                let done = namespace.operate(id, action, None, &actor()).await?;
                read_row(namespace, done, true).await
            }
            Connected::Remote(client) => {
                let request = client.post(&["executions", &id.to_string(), word]).json(&body);
                Ok(request.send().await?.json::<Operated>()?.execution)
            }
        }
    }

    /// Sends a signal to an execution. The signal is buffered until a wait of that execution consumes it.
    pub async fn signal(&self, id: ExecutionId, signal: Signal) -> Result<Delivered, Error> {
        let (draft, source) = signal.into_parts();
        match &self.connected {
            Connected::Embedded(namespace) => {
                let source = Name::parse("/source", &source, NAME_LIMIT)?;
                Ok(namespace.signal(id, draft, &source).await?.into())
            }
            Connected::Remote(client) => {
                let mut body: BTreeMap<&str, Box<RawValue>> = signal_body(&draft)?;
                body.insert("source", to_raw(&source));
                let request = client.post(&["executions", &id.to_string(), "signals"]).json(&body);
                let item: DeliveredItem = request.send().await?.json()?;
                Ok(Delivered { number: item.signal.number, duplicate: item.duplicate, effect: item.effect })
            }
        }
    }

    /// Delivers a signal through a waitpoint. The token is the only authorisation needed. Delivering the same signal again
    /// returns the first answer, marked as a duplicate.
    pub async fn deliver(
        &self,
        waitpoint: WaitpointId,
        token: &str,
        signal: Signal,
    ) -> Result<Delivered, Error> {
        let (draft, _) = signal.into_parts();
        match &self.connected {
            Connected::Embedded(namespace) => {
                Ok(namespace.engine().deliver(waitpoint, token, draft).await?.into())
            }
            Connected::Remote(client) => {
                let mut body = signal_body(&draft)?;
                body.insert("token", to_raw(&token));
                let request = client.post(&["waitpoints", &waitpoint.to_string(), "signal"]).json(&body);
                let AnsweredItem { number, duplicate, effect } = request.send().await?.json()?;
                Ok(Delivered { number, duplicate, effect })
            }
        }
    }
}

/// Returns the body of a signal.
pub(super) fn signal_body(
    draft: &selvedge_core::rules::signal::SignalDraft,
) -> Result<BTreeMap<&'static str, Box<RawValue>>, Error> {
    let payload =
        raw(&draft.payload).map_err(|error| Error::field("/payload", format!("is not JSON: {error}")))?;
    let mut body = BTreeMap::from([("payload", payload.to_owned())]);
    if let Some(name) = &draft.name {
        body.insert("name", to_raw(name));
    }
    if let Some(key) = &draft.key {
        body.insert("idempotency_key", to_raw(key));
    }
    Ok(body)
}

/// A cancellation to be awaited. Created by [`Namespace::cancel`].
#[must_use = "nothing is cancelled until this is awaited"]
pub struct Cancel {
    namespace: Namespace,
    id: ExecutionId,
    reason: Option<String>,
    grace: Duration,
}

impl Cancel {
    /// Sets the reason, for people. Default: none.
    pub fn reason(mut self, reason: impl Into<String>) -> Cancel {
        self.reason = Some(reason.into());
        self
    }

    /// Sets the time that a running handler has to clean up and return. Default: none, so the lease ends at once.
    pub fn grace(mut self, grace: Duration) -> Cancel {
        self.grace = grace;
        self
    }
}

impl IntoFuture for Cancel {
    type Output = Result<Execution, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let Cancel { namespace, id, reason, grace } = self;
        let grace_ms = millis(grace);
        Box::pin(async move {
            let body = json!({ "reason": reason, "grace_ms": grace_ms });
            namespace.operate(id, "cancel", Action::Cancel { reason, grace_ms }, body).await
        })
    }
}
