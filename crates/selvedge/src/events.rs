//! Subscriptions: what happens, as it is committed.
//!
//! Every change is an event in one log. [`Namespace::subscribe`](crate::Namespace::subscribe) gives each one after a place
//! in it, in order, nothing twice and nothing missing. Each event carries its cursor: a program that keeps the cursor of
//! the last event it has dealt with, and subscribes from there when it starts again, misses nothing. The log keeps seven
//! days, or as long as [`Options::log_window`](crate::Options) says. A slow subscriber never holds anybody up.
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
//! let of_tag = EventFilter { tag: Some(("team".into(), "blue".into())), ..EventFilter::default() };
//! let mut subscription = namespace.subscribe(of_tag.clone(), events::From::Now).await?;
//! for kind in ["first", "second"] {
//!     Submission::new(kind).tag("team", "blue").submit(&namespace).await?;
//! }
//!
//! let Some(Notice::Event(first)) = subscription.next().await else { panic!("it was submitted") };
//! assert_eq!(first.kind, "execution.submitted");
//!
//! // Later, perhaps in another process:
//! let from = events::From::Cursor(first.cursor);
//! let mut resumed = namespace.subscribe(of_tag, from).await?;
//! match resumed.next().await {
//!     Some(Notice::Event(second)) => assert_ne!(second.execution, first.execution),
//!     Some(Notice::Break { cursor, detail }) => println!("{detail}; it goes on after {cursor}"),
//!     None => println!("the engine has shut down"),
//! }
//! engine.shutdown().await;
//! # Ok(())
//! # }
//! ```

pub use selvedge_engine::{EventFilter, EventPage, From, Notice, PublicEvent, Subscription};
