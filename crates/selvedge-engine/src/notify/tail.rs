//! The tail: one reader per process follows the event log and broadcasts what it reads to all subscribers.
//!
//! It is woken by the commits of this process, by notifications from other servers, and by a timer, so a lost
//! notification only delays it. While there are no subscribers it reads nothing.

use selvedge_core::log::{Event, unpack};
use selvedge_store::{Error, Store};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, broadcast};
use tokio::task::JoinHandle;

/// The maximum number of log entries per read.
pub const ENTRIES_PER_READ: u32 = 256;
/// The number of segments that a subscriber may fall behind before it must read the log itself.
const SEGMENTS: usize = 64;
/// The maximum time between two reads if every commit is notified.
const READ_INTERVAL: Duration = Duration::from_secs(1);
/// The maximum time between two reads if commits of other servers are not notified.
const READ_INTERVAL_UNNOTIFIED: Duration = Duration::from_millis(200);

/// Follows the event log.
pub struct Tail {
    segments: broadcast::Sender<Arc<Segment>>,
    read_upto: AtomicI64,
    wake: Notify,
    subscribed: Notify,
}

/// A part of the log, or the reason why there is none.
pub enum Segment {
    /// All entries with numbers in the range `after < number <= upto`.
    Read {
        /// The lower bound, exclusive.
        after: i64,
        /// The upper bound, inclusive.
        upto: i64,
        /// The entries of the range, in order.
        entries: Vec<(i64, Vec<Event>)>,
    },
    /// Reading failed, for this reason, and is retried. Sent once per failure, however many retries fail.
    Broken(String),
    /// The engine shuts down; no further segment is sent.
    Over,
}

/// The task that follows the log. Aborted when stopped or dropped.
pub struct TailTask(JoinHandle<()>);

impl TailTask {
    /// Aborts the task.
    pub fn stop(&self) {
        self.0.abort();
    }
}

impl Drop for TailTask {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Tail {
    /// Starts to follow the log, for as long as the task is kept.
    pub fn start(store: Arc<dyn Store>, notifications: bool) -> (Arc<Tail>, TailTask) {
        let (segments, _) = broadcast::channel(SEGMENTS);
        let (wake, subscribed) = (Notify::new(), Notify::new());
        let tail = Arc::new(Tail { segments, read_upto: AtomicI64::new(0), wake, subscribed });
        let unnotified = store.describe().shared && !notifications;
        let interval = if unnotified { READ_INTERVAL_UNNOTIFIED } else { READ_INTERVAL };
        let task = tokio::spawn(follow(tail.clone(), store, interval));
        (tail, TailTask(task))
    }

    /// Wakes the reader: this or another server wrote to the log. A wake-up during a read is kept for the next one.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    /// Subscribes to every segment read from now on.
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<Segment>> {
        let receiver = self.segments.subscribe();
        self.subscribed.notify_one();
        receiver
    }

    /// The highest entry number that was ever read.
    pub fn read_upto(&self) -> i64 {
        self.read_upto.load(Ordering::Acquire)
    }

    /// Tells all subscribers that no further segment is sent.
    pub fn end(&self) {
        self.send(Segment::Over);
    }

    fn send(&self, segment: Segment) {
        // Sending fails only if there are no subscribers.
        let _ = self.segments.send(Arc::new(segment));
    }
}

async fn follow(tail: Arc<Tail>, store: Arc<dyn Store>, interval: Duration) {
    let mut after = None;
    let mut broken = false;
    loop {
        if tail.segments.receiver_count() == 0 {
            (after, broken) = (None, false);
            tail.subscribed.notified().await;
        }
        match read(store.as_ref(), after).await {
            Ok(ReadRange { after: before, upto, entries }) => {
                broken = false;
                tail.read_upto.fetch_max(upto, Ordering::AcqRel);
                let more = entries.len() == ENTRIES_PER_READ as usize;
                // The first segment is empty. It marks where the tail begins: a subscriber that has not read up to
                // there must read the log itself.
                if upto > before || after.is_none() {
                    tail.send(Segment::Read { after: before, upto, entries });
                }
                after = Some(upto);
                if more {
                    continue;
                }
            }
            Err(detail) if !broken => {
                broken = true;
                tail.send(Segment::Broken(detail));
            }
            Err(_already_sent) => {}
        }
        let _ = tokio::time::timeout(interval, tail.wake.notified()).await;
    }
}

/// The result of one read; see [`Segment::Read`].
struct ReadRange {
    after: i64,
    upto: i64,
    entries: Vec<(i64, Vec<Event>)>,
}

/// Reads the entries after a number. Without a number it reads none and returns the end of the log. An error is
/// returned as text.
async fn read(store: &dyn Store, after: Option<i64>) -> Result<ReadRange, String> {
    let text = |error: Error| error.to_string();
    let Some(after) = after else {
        let newest = store.log_after(i64::MAX - 1, 1).await.map_err(text)?.upto;
        return Ok(ReadRange { after: newest, upto: newest, entries: Vec::new() });
    };
    let page = store.log_after(after, ENTRIES_PER_READ).await.map_err(text)?;
    let mut entries = Vec::with_capacity(page.entries.len());
    for entry in page.entries {
        let events = unpack(&entry.body).map_err(|error| format!("log entry {}: {error}", entry.number))?;
        entries.push((entry.number, events));
    }
    // Entries that were dropped from the log unread are outside of the range: a subscriber that needs them then reads
    // the log itself and gets an error instead of a silent gap.
    let after = after.max(page.oldest - 1);
    Ok(ReadRange { after, upto: page.upto.max(after), entries })
}
