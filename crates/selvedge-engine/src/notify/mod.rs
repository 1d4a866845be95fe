//! Wake-ups and notifications: everything by which a caller learns of a commit without polling the store.
//!
//! All of it is best effort. Every waiter also has a timer, so a lost notification only delays it.

mod backlog;
mod entries;
mod heartbeat_throttle;
mod notifications;
mod subscriptions;
mod tail;
mod waiters;

pub use backlog::{BACKLOG_BYTES, Backlog, Step};
pub use entries::{Position, ReadEntry};
pub use heartbeat_throttle::HeartbeatThrottle;
pub use notifications::NotificationTasks;
pub use subscriptions::{Notice, Subscription};
pub use tail::{ENTRIES_PER_READ, Tail, TailTask};
pub use waiters::Waiters;
