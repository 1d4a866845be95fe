//! Subscriptions to the event log.
//!
//! Every committed change writes an event to one log. [`Namespace::subscribe`](crate::Namespace::subscribe) delivers
//! each event after a position in that log, in order, without gaps or duplicates. Each event carries its cursor: a
//! program that stores the cursor of the last event it has processed, and subscribes from there after a restart, misses
//! nothing. The log keeps events for [`Options::log_window`](crate::Options), 7 days by default. A slow subscriber
//! delays nobody else.
//!
//! ```
//! use selvedge::events::{self, EventFilter};
//! use selvedge::{Engine, Error, Submission};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Error> {
//! let engine = Engine::open("memory:").await?;
//! let namespace = engine.namespace("default").await?;
//!
//! let filter = EventFilter { tag: Some(("team".into(), "blue".into())), ..EventFilter::default() };
//! let mut subscription = namespace.subscribe(filter.clone(), events::From::Now).await?;
//! for kind in ["first", "second"] {
//!     Submission::new(kind).tag("team", "blue").submit(&namespace).await?;
//! }
//! let first = subscription.next().await?;
//! assert_eq!(first.kind, "execution.submitted");
//!
//! // Later, perhaps in another process:
//! let mut resumed = namespace.subscribe(filter, events::From::Cursor(first.cursor)).await?;
//! let second = resumed.next().await?;
//! assert_ne!(second.execution, first.execution);
//! # engine.shutdown().await;
//! # Ok(())
//! # }
//! ```

use crate::wire::values::time;
use crate::{Error, ExecutionId, FlowId, Timestamp};
use selvedge_api::times;
use selvedge_client::EventStream;
use selvedge_engine::PublicEvent;
use serde::Deserialize;
use serde_json::Value;

pub use selvedge_engine::{EventFilter, From};

/// An event of the log.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct Event {
    /// The position of the event in the log, from which a subscription can continue.
    pub cursor: String,
    /// The type, such as `execution.completed`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The time of the change.
    #[serde(deserialize_with = "time")]
    pub at: Timestamp,
    /// The name of the namespace.
    pub namespace: String,
    /// The execution, if the event concerns one.
    pub execution: Option<ExecutionId>,
    /// The flow, if the event concerns one.
    pub flow: Option<FlowId>,
    /// The version after the change.
    pub version: Option<u32>,
    /// The actor who requested the change.
    pub actor: Option<String>,
    /// The fields that depend on the type. Times are RFC 3339 text.
    pub data: Value,
}

impl std::convert::From<PublicEvent> for Event {
    fn from(event: PublicEvent) -> Event {
        let mut data = event.data;
        times::format_fields(&mut data);
        Event {
            cursor: event.cursor,
            kind: event.kind.to_owned(),
            at: event.at,
            namespace: event.namespace.to_string(),
            execution: event.execution,
            flow: event.flow,
            version: event.version,
            actor: event.actor.map(|actor| actor.to_string()),
            data,
        }
    }
}

/// A page of events.
#[derive(Clone, Debug)]
pub struct EventPage {
    /// The events, oldest first.
    pub items: Vec<Event>,
    /// The cursor after everything that the page has read, from which a later call continues. None if the log is empty.
    pub resume_cursor: Option<String>,
}

/// A subscription to the event log.
pub struct Subscription(pub(crate) Source);

/// The source of a subscription.
pub(crate) enum Source {
    /// The engine of this process.
    Embedded(Box<selvedge_engine::Subscription>),
    /// An event stream of a server, which resumes by itself.
    Remote(Box<EventStream>),
}

impl Subscription {
    /// Returns the next event, in the order of the log, without gaps or repeats. Waits while there is none, and while the log
    /// or the server cannot be reached. Fails if the engine has shut down, or the log no longer has the position. Cancel safe.
    pub async fn next(&mut self) -> Result<Event, Error> {
        match &mut self.0 {
            Source::Embedded(subscription) => loop {
                match subscription.next().await {
                    Some(selvedge_engine::Notice::Event(event)) => return Ok((*event).into()),
                    Some(selvedge_engine::Notice::Break { detail, .. }) => {
                        tracing::debug!(detail, "the event log cannot be read for now");
                    }
                    None => return Err(Error::Closed),
                }
            },
            Source::Remote(stream) => {
                let message = stream.next().await?;
                serde_json::from_str(&message.data)
                    .map_err(|error| Error::Failed(format!("an event cannot be read: {error}")))
            }
        }
    }
}
