//! The tail: one reader per process follows the log and passes on what it reads, however many subscribe.
//!
//! It is woken by the commits of this process, by news from other servers, and by a timer that is always armed, so that
//! lost news only delays it. While nobody subscribes it reads nothing.

use selvedge_core::log::{Event, unpack};
use selvedge_store::{Error, Store};
use std::sync::Arc;
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
    wake: Notify,
    subscribed: Notify,
}

/// A part of the log, or that it could not be read.
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
    /// Reading failed, for this reason; it is tried again.
    Broken(String),
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
        let tail = Arc::new(Tail { segments, wake: Notify::new(), subscribed: Notify::new() });
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
}

async fn follow(tail: Arc<Tail>, store: Arc<dyn Store>, rest: Duration) {
    let mut after = None;
    loop {
        if tail.segments.receiver_count() == 0 {
            after = None;
            tail.subscribed.notified().await;
        }
        match read(store.as_ref(), after).await {
            Ok(Segment::Read { after: before, upto, entries }) => {
                let more = entries.len() == ENTRIES as usize;
                // The first says only where the tail begins: who has not come so far must read up to there.
                if upto > before || after.is_none() {
                    let _ = tail.segments.send(Arc::new(Segment::Read { after: before, upto, entries }));
                }
                after = Some(upto);
                if more {
                    continue;
                }
            }
            Ok(broken @ Segment::Broken(_)) => drop(tail.segments.send(Arc::new(broken))),
            Err(error) => drop(tail.segments.send(Arc::new(Segment::Broken(error.to_string())))),
        }
        let _ = tokio::time::timeout(rest, tail.wake.notified()).await;
    }
}

/// The next segment; at first only where the log ends.
async fn read(store: &dyn Store, after: Option<i64>) -> Result<Segment, Error> {
    let Some(after) = after else {
        let newest = store.log_after(i64::MAX - 1, 1).await?.upto;
        return Ok(Segment::Read { after: newest, upto: newest, entries: Vec::new() });
    };
    let page = store.log_after(after, ENTRIES).await?;
    let mut entries = Vec::with_capacity(page.entries.len());
    for entry in page.entries {
        match unpack(&entry.body) {
            Ok(events) => entries.push((entry.number, events)),
            Err(error) => return Ok(Segment::Broken(format!("log entry {}: {error}", entry.number))),
        }
    }
    Ok(Segment::Read { after, upto: page.upto.max(after), entries })
}
