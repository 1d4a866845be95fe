//! Flows: graphs, joins, propagation, growth, children, cancellation, replays and retention.

pub mod cancel;
pub mod dispatch;
pub mod growth;
pub mod joins;
pub mod lists;
pub mod outbox;
pub mod replays;
pub mod retention;
pub mod rows;
pub mod spawning;
pub mod submission;
