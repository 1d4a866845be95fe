//! Subscriptions to the event log.
//!
//! Every committed change writes an event to one log. [`Namespace::subscribe`](crate::Namespace::subscribe) delivers
//! each event after a position in that log, in order, without gaps or duplicates. Each event carries its cursor: a
//! program that stores the cursor of the last event it has processed, and subscribes from there after a restart, misses
//! nothing. The log keeps events for [`Options::log_window`](crate::Options), 7 days by default. A slow subscriber
//! delays nobody else.
//!
//! ```
//! use selvedge::events::{self, EventFilter, Notice};
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
//!
//! let Some(Notice::Event(first)) = subscription.next().await else { panic!("an event is delivered") };
//! assert_eq!(first.kind, "execution.submitted");
//!
//! // Later, perhaps in another process:
//! let from = events::From::Cursor(first.cursor);
//! let mut resumed = namespace.subscribe(filter, from).await?;
//! match resumed.next().await {
//!     Some(Notice::Event(second)) => assert_ne!(second.execution, first.execution),
//!     Some(Notice::Break { cursor, detail }) => println!("{detail}; the subscription continues after {cursor}"),
//!     None => println!("the engine has shut down"),
//! }
//! engine.shutdown().await;
//! # Ok(())
//! # }
//! ```

pub use selvedge_engine::{EventFilter, EventPage, From, Notice, PublicEvent, Subscription};
