//! The tail: one reader per process follows the log and passes on what it reads, however many subscribe.
//!
//! It is woken by the commits of this process, by news from other servers, and by a timer that is always armed, so that
//! lost news only delays it. While nobody subscribes it reads nothing.

use selvedge_core::log::{Event, unpack};
use selvedge_store::{Error, Store};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, broadcast};
use tokio::task::JoinHandle;

/// How many entries are read at a time.
pub const ENTRIES: u32 = 256;
/// How many segments a subscriber may lie behind before it must read the log itself.
const SEGMENTS: usize = 64;
/// How long the tail rests without being woken, where news of all commits comes.
const REST: Duration = Duration::from_secs(1);
/// The same where news of other servers does not come.
const REST_WITHOUT_NEWS: Duration = Duration::from_millis(200);

/// What follows the log.
pub struct Tail {
    segments: broadcast::Sender<Arc<Segment>>,
    upto: AtomicI64,
    wake: Notify,
    subscribed: Notify,
}

/// A part of the log, or why there is none.
pub enum Segment {
    /// Everything after one number up to another.
    Read {
        /// After this number.
        after: i64,
        /// Up to this one.
        upto: i64,
        /// The entries in between.
        entries: Vec<(i64, Vec<Event>)>,
    },
    /// Reading failed, for this reason; it is tried again. Told once, however often it fails.
    Broken(String),
    /// The engine shuts down: nothing comes any more.
    Over,
}

/// The task that follows the log; ends when it is dropped or stopped.
pub struct Task(JoinHandle<()>);

impl Task {
    /// Ends it.
    pub fn stop(&self) {
        self.0.abort();
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Tail {
    /// Starts to follow, as long as the task is kept.
    pub fn start(store: Arc<dyn Store>, notifications: bool) -> (Arc<Tail>, Task) {
        let (segments, _) = broadcast::channel(SEGMENTS);
        let (wake, subscribed) = (Notify::new(), Notify::new());
        let tail = Arc::new(Tail { segments, upto: AtomicI64::new(0), wake, subscribed });
        let rest = if store.describe().shared && !notifications { REST_WITHOUT_NEWS } else { REST };
        let task = tokio::spawn(follow(tail.clone(), store, rest));
        (tail, Task(task))
    }

    /// Something was logged, here or by another server.
    pub fn ring(&self) {
        self.wake.notify_one();
    }

    /// From now on every segment that is read.
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<Segment>> {
        let receiver = self.segments.subscribe();
        self.subscribed.notify_one();
        receiver
    }

    /// Up to which number it has read, now or earlier.
    pub fn upto(&self) -> i64 {
        self.upto.load(Ordering::Acquire)
    }

    /// Tells all subscribers that nothing comes any more.
    pub fn end(&self) {
        self.send(Segment::Over);
    }

    fn send(&self, segment: Segment) {
        // Where nobody subscribes nobody needs to know.
        let _ = self.segments.send(Arc::new(segment));
    }
}

async fn follow(tail: Arc<Tail>, store: Arc<dyn Store>, rest: Duration) {
    let mut after = None;
    let mut broken = false;
    loop {
        if tail.segments.receiver_count() == 0 {
            (after, broken) = (None, false);
            tail.subscribed.notified().await;
        }
        match read(store.as_ref(), after).await {
            Ok((before, upto, entries)) => {
                broken = false;
                tail.upto.fetch_max(upto, Ordering::AcqRel);
                let more = entries.len() == ENTRIES as usize;
                // The first says only where the tail begins: who has not come so far must read up to there.
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
            Err(_told) => {}
        }
        let _ = tokio::time::timeout(rest, tail.wake.notified()).await;
    }
}

/// What is read at a time: everything after one number up to another.
type Read = (i64, i64, Vec<(i64, Vec<Event>)>);

/// Reads on, or says why that is not possible; at first only where the log ends.
async fn read(store: &dyn Store, after: Option<i64>) -> Result<Read, String> {
    let told = |error: Error| error.to_string();
    let Some(after) = after else {
        let newest = store.log_after(i64::MAX - 1, 1).await.map_err(told)?.upto;
        return Ok((newest, newest, Vec::new()));
    };
    let page = store.log_after(after, ENTRIES).await.map_err(told)?;
    let mut entries = Vec::with_capacity(page.entries.len());
    for entry in page.entries {
        let events = unpack(&entry.body).map_err(|error| format!("log entry {}: {error}", entry.number))?;
        entries.push((entry.number, events));
    }
    // What has left the log unread is not passed over in silence: a subscriber that needs it must ask for it.
    let after = after.max(page.oldest - 1);
    Ok((after, page.upto.max(after), entries))
}
