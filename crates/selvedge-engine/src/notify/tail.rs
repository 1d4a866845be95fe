//! The tail: one reader per process follows the event log and broadcasts what it reads to all subscribers.
//!
//! It is woken by the commits of this process, by notifications from other servers, and by a timer, so a lost
//! notification only delays it. While there are no subscribers it reads nothing.
//!
//! Every read begins with the last entry of the previous one. If that entry is missing or is another one, the store has lost
//! its newest entries and numbers new ones as it numbered those. Then the tail begins again at the end of the log, and every
//! subscriber compares its own position with the log.

use super::entries::{EntryReader, Position, ReadEntry};
use selvedge_core::log::{Cursor, check};
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
    store: Arc<dyn Store>,
    entries: EntryReader,
    segments: broadcast::Sender<Arc<Segment>>,
    read_upto: AtomicI64,
    wake: Notify,
    subscribed: Notify,
}

/// A part of the log, or the reason why there is none.
pub enum Segment {
    /// All entries after a number, up to the last one read.
    Read {
        /// The number.
        after: i64,
        /// The entries, in order.
        entries: Vec<ReadEntry>,
    },
    /// The log has another history than the entries that were read before.
    OtherHistory,
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
        let unnotified = store.describe().shared && !notifications;
        let interval = if unnotified { READ_INTERVAL_UNNOTIFIED } else { READ_INTERVAL };
        let entries = EntryReader::default();
        let tail =
            Arc::new(Tail { store, entries, segments, read_upto: AtomicI64::new(0), wake, subscribed });
        let task = tokio::spawn(follow(tail.clone(), interval));
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

    /// The reader that unpacks entries.
    pub fn entries(&self) -> &EntryReader {
        &self.entries
    }

    /// Returns the position after the newest entry whose predecessors are all final.
    pub async fn end_of_log(&self) -> Result<Position, Error> {
        let newest = self.store.log_after(i64::MAX - 1, 1).await?.upto;
        let page = self.store.log_after((newest - 1).max(0), 1).await?;
        let found = page.entries.into_iter().next().filter(|entry| entry.number == newest);
        Ok(match found {
            Some(entry) => Position::after(&self.entries.read(entry)),
            None => Position::after_dropped(newest),
        })
    }

    /// The highest entry number that was read in the present history.
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

async fn follow(tail: Arc<Tail>, interval: Duration) {
    let mut after = None;
    let mut broken = false;
    loop {
        if tail.segments.receiver_count() == 0 {
            (after, broken) = (None, false);
            tail.subscribed.notified().await;
        }
        match tail.read(after).await {
            Ok(Read::Entries { after: before, position, entries }) => {
                broken = false;
                let upto = position.cursor.entry;
                let more = entries.len() == ENTRIES_PER_READ as usize;
                // The first segment is empty. It marks where the tail begins: a subscriber that has not read up to
                // there must read the log itself.
                if after.is_none() {
                    tail.read_upto.store(upto, Ordering::Release);
                } else {
                    tail.read_upto.fetch_max(upto, Ordering::AcqRel);
                }
                if upto > before || after.is_none() {
                    tail.send(Segment::Read { after: before, entries });
                }
                after = Some(position);
                if more {
                    continue;
                }
            }
            Ok(Read::OtherHistory) => {
                tracing::warn!(
                    "the event log has lost entries that were read before; subscriptions after them end"
                );
                after = None;
                tail.read_upto.store(0, Ordering::Release);
                tail.send(Segment::OtherHistory);
                continue;
            }
            Err(error) if !broken => {
                broken = true;
                tail.send(Segment::Broken(error.to_string()));
            }
            Err(_already_sent) => {}
        }
        let _ = tokio::time::timeout(interval, tail.wake.notified()).await;
    }
}

/// The result of one read.
enum Read {
    /// Entries; see [`Segment::Read`]. The position is behind the last one.
    Entries { after: i64, position: Position, entries: Vec<ReadEntry> },
    /// The log does not have the entry that the read should continue after.
    OtherHistory,
}

impl Tail {
    /// Reads the entries after a position. Without a position it reads none and returns the end of the log.
    async fn read(&self, after: Option<Position>) -> Result<Read, Error> {
        let Some(mut position) = after else {
            let position = self.end_of_log().await?;
            return Ok(Read::Entries { after: position.cursor.entry, position, entries: Vec::new() });
        };
        let number = position.cursor.entry;
        // With the last entry that was read, if it is known, to compare it.
        let begins_before = i64::from(position.mark.is_some());
        let limit = ENTRIES_PER_READ + begins_before as u32;
        let page = self.store.log_after(number - begins_before, limit).await?;
        let dropped = (page.oldest - 1).max(0);
        let mut entries = page.entries;
        if let Some(mark) = position.mark.filter(|_| number > dropped) {
            let is_same = entries
                .first()
                .is_some_and(|entry| entry.number == number && check(&entry.body) == mark.check);
            if !is_same {
                return Ok(Read::OtherHistory);
            }
            entries.remove(0);
        }
        let entries: Vec<ReadEntry> = entries.into_iter().map(|entry| self.entries.read(entry)).collect();
        // Entries that were dropped from the log unread are outside of the range: a subscriber that needs them then reads
        // the log itself and gets an error instead of a silent gap.
        let after = number.max(dropped);
        if Cursor::end_of(after) > position.cursor {
            position = Position::after_dropped(after);
        }
        if let Some(last) = entries.last() {
            position.pass(last);
        }
        Ok(Read::Entries { after, position, entries })
    }
}
