//! The tail: one reader per process follows the event log and broadcasts what it reads to all subscribers.
//!
//! It is woken by the commits of this process, by notifications from other servers, and by a timer, so a lost
//! notification only delays it. While there are no subscribers it reads nothing.
//!
//! Every read begins with the last entry of the previous one. If that entry is missing or is another one, the store has lost
//! its newest entries and numbers new ones as it numbered those. Then the tail begins again at the end of the log, and every
//! subscriber compares its own position with the log.

use super::backlog::BACKLOG_BYTES;
use super::entries::{EntryReader, Position, ReadEntry};
use crate::locking::lock;
use selvedge_core::log::{Cursor, check};
use selvedge_store::{Entry, Error, LogLimit, Store};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, broadcast};
use tokio::task::JoinHandle;

/// The maximum number of log entries per read.
pub const ENTRIES_PER_READ: u32 = 256;
/// The number of segments that a subscriber may fall behind before it must read the log itself.
const SEGMENTS: usize = 64;
/// The total size of the bodies of entries that are kept unpacked for subscribers, in bytes. Unpacked they need several
/// times as much.
const RECENT_BYTES: usize = 2 * 1024 * 1024;
/// The maximum size of the body of an entry that is unpacked for all subscribers, in bytes. Of a larger one, each subscriber
/// unpacks one fact at a time.
const UNPACKED_BYTES: usize = 256 * 1024;
/// The maximum time between two reads if every commit is notified.
const READ_INTERVAL: Duration = Duration::from_secs(1);
/// The maximum time between two reads if commits of other servers are not notified.
const READ_INTERVAL_UNNOTIFIED: Duration = Duration::from_millis(200);

/// Follows the event log.
pub struct Tail {
    store: Arc<dyn Store>,
    entries: EntryReader,
    segments: broadcast::Sender<Segment>,
    recent: Mutex<RecentRuns>,
    read_upto: AtomicI64,
    /// The highest entry number that this process has written.
    appended: AtomicI64,
    /// The last time at which the reader had read everything that this process had written before.
    caught_up_at: Mutex<Instant>,
    wake: Notify,
    subscribed: Notify,
}

/// A part of the log, or the reason why there is none.
#[derive(Clone)]
pub enum Segment {
    /// All entries after a number, up to the last one read.
    Read {
        after: i64,
        /// The entries. The tail alone keeps them: a subscriber that is too slow to find them reads the log itself.
        run: Weak<EntryRun>,
    },
    /// The log has another history than the entries that were read before.
    OtherHistory,
    /// Reading failed, for this reason, and is retried. Sent once per failure, however many retries fail.
    Broken(Arc<str>),
    /// The engine shuts down; no further segment is sent.
    Over,
}

/// Unpacked entries without a gap.
pub struct EntryRun {
    /// The entries, in order.
    pub entries: Vec<ReadEntry>,
}

/// The newest runs, for all subscribers together.
#[derive(Default)]
struct RecentRuns {
    /// The runs, oldest first, each with the size of its bodies.
    runs: VecDeque<(Arc<EntryRun>, usize)>,
    bytes: usize,
}

impl RecentRuns {
    fn add(&mut self, run: Arc<EntryRun>, bytes: usize) {
        self.runs.push_back((run, bytes));
        self.bytes += bytes;
        while self.runs.len() > SEGMENTS || (self.bytes > RECENT_BYTES && self.runs.len() > 1) {
            let Some((_, bytes)) = self.runs.pop_front() else { break };
            self.bytes -= bytes;
        }
    }
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
        let tail = Arc::new(Tail {
            store,
            entries,
            segments,
            recent: Mutex::default(),
            read_upto: AtomicI64::new(0),
            appended: AtomicI64::new(0),
            caught_up_at: Mutex::new(Instant::now()),
            wake,
            subscribed,
        });
        let task = tokio::spawn(follow(tail.clone(), interval));
        (tail, TailTask(task))
    }

    /// Wakes the reader: this or another server wrote to the log. A wake-up during a read is kept for the next one.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    /// Records that this process wrote an entry.
    pub fn appended(&self, entry: i64) {
        self.appended.fetch_max(entry, Ordering::Relaxed);
    }

    /// Returns the number of entries that this process has written and the reader has not read, and the time for which it
    /// has been behind, in seconds. Zero while there are no subscribers.
    pub fn lag(&self) -> (i64, f64) {
        let behind = self.appended.load(Ordering::Relaxed) - self.read_upto();
        match behind > 0 && self.subscribers() > 0 {
            true => (behind, lock(&self.caught_up_at).elapsed().as_secs_f64()),
            false => (0, 0.0),
        }
    }

    /// Returns the number of subscribers.
    pub fn subscribers(&self) -> usize {
        self.segments.receiver_count()
    }

    /// Subscribes to every segment read from now on.
    pub fn subscribe(&self) -> broadcast::Receiver<Segment> {
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
            Some(entry) => Position::after(entry.number, check(&entry.body)),
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
        let _ = self.segments.send(segment);
    }

    /// Sends entries to all subscribers, in runs: an entry that is too large is left out, and so ends a run. A subscriber
    /// that has not read it then reads the log itself.
    fn send_entries(&self, mut after: i64, entries: Vec<Entry>) {
        let (mut run, mut bytes) = (Vec::new(), 0);
        for entry in entries {
            let size = entry.body.len();
            if size <= UNPACKED_BYTES {
                bytes += size;
                run.push(self.entries.read(entry));
                continue;
            }
            if !run.is_empty() {
                self.send_run(after, std::mem::take(&mut run), std::mem::take(&mut bytes));
            }
            after = entry.number;
        }
        self.send_run(after, run, bytes);
    }

    fn send_run(&self, after: i64, entries: Vec<ReadEntry>, bytes: usize) {
        let run = Arc::new(EntryRun { entries });
        let segment = Segment::Read { after, run: Arc::downgrade(&run) };
        lock(&self.recent).add(run, bytes);
        self.send(segment);
    }
}

async fn follow(tail: Arc<Tail>, interval: Duration) {
    let mut after = None;
    let mut broken = false;
    loop {
        if tail.segments.receiver_count() == 0 {
            (after, broken) = (None, false);
            *lock(&tail.recent) = RecentRuns::default();
            tail.subscribed.notified().await;
        }
        let (appended, read_at) = (tail.appended.load(Ordering::Relaxed), Instant::now());
        match tail.read(after).await {
            Ok(Read::Entries { after: before, position, entries, more }) => {
                broken = false;
                let upto = position.cursor.entry;
                // The first segment is empty. It marks where the tail begins: a subscriber that has not read up to
                // there must read the log itself.
                if after.is_none() {
                    tail.read_upto.store(upto, Ordering::Release);
                } else {
                    tail.read_upto.fetch_max(upto, Ordering::AcqRel);
                }
                if upto > before || after.is_none() {
                    tail.send_entries(before, entries);
                }
                if upto >= appended {
                    *lock(&tail.caught_up_at) = read_at;
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
                tail.send(Segment::Broken(error.to_string().into()));
            }
            Err(_already_sent) => {}
        }
        let _ = tokio::time::timeout(interval, tail.wake.notified()).await;
    }
}

/// The result of one read.
enum Read {
    /// Entries; see [`Segment::Read`]. The position is behind the last one, and there may be more.
    Entries { after: i64, position: Position, entries: Vec<Entry>, more: bool },
    /// The log does not have the entry that the read should continue after.
    OtherHistory,
}

impl Tail {
    /// Reads the entries after a position. Without a position it reads none and returns the end of the log.
    async fn read(&self, after: Option<Position>) -> Result<Read, Error> {
        let Some(mut position) = after else {
            let position = self.end_of_log().await?;
            let after = position.cursor.entry;
            return Ok(Read::Entries { after, position, entries: Vec::new(), more: false });
        };
        let number = position.cursor.entry;
        // With the last entry that was read, if it is known, to compare it.
        let begins_before = i64::from(position.mark.is_some());
        let entries = ENTRIES_PER_READ + begins_before as u32;
        let limit = LogLimit { entries, bytes: BACKLOG_BYTES as u32 };
        let page = self.store.log_page(number - begins_before, limit).await?;
        let (dropped, more) = ((page.oldest - 1).max(0), page.is_full);
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
        // Entries that were dropped from the log unread are outside of the range: a subscriber that needs them then reads
        // the log itself and gets an error instead of a silent gap.
        let after = number.max(dropped);
        if Cursor::end_of(after) > position.cursor {
            position = Position::after_dropped(after);
        }
        if let Some(last) = entries.last() {
            position.pass(Position::after(last.number, check(&last.body)));
        }
        Ok(Read::Entries { after, position, entries, more })
    }
}
