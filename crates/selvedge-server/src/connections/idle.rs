//! Finds idle HTTP/2 connections. The library limits the time for the head of a request on HTTP/1.1 connections only.
//!
//! A request is in progress until the HTTP library has the last part of its response body, so an event stream keeps its connection
//! open. A response that its client does not read ends after a while (`sending`), and with it the request. A connection that has not sent the preface, or not the whole head of a request, has no request in progress.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

/// The requests of a connection. Clones share them.
#[derive(Clone)]
pub struct Activity(Arc<Requests>);

struct Requests {
    in_progress: AtomicUsize,
    opened_at: Instant,
    /// The time at which the last request ended, in milliseconds since `opened_at`.
    ended_at_ms: AtomicU64,
}

impl Activity {
    /// Returns the activity of a connection that has been opened now.
    pub fn new() -> Activity {
        Activity(Arc::new(Requests {
            in_progress: AtomicUsize::new(0),
            opened_at: Instant::now(),
            ended_at_ms: AtomicU64::new(0),
        }))
    }

    /// Begins a request, which ends when the returned value is dropped.
    pub fn begin(&self) -> InProgress {
        self.0.in_progress.fetch_add(1, Ordering::SeqCst);
        InProgress(self.clone())
    }

    /// Completes when there has been no request in progress for `limit`, counted from now on.
    pub async fn idle(&self, limit: Duration) {
        let mut since = Instant::now();
        loop {
            // The order matters: a request that ends in between has set the time of its end before.
            let in_progress = self.0.in_progress.load(Ordering::SeqCst);
            let ended_ms = self.0.ended_at_ms.load(Ordering::SeqCst);
            since = since.max(self.0.opened_at + Duration::from_millis(ended_ms));
            match in_progress {
                0 if since.elapsed() >= limit => return,
                0 => sleep_until(since + limit).await,
                // Ends after the request, which then sets the time.
                _ => sleep(limit).await,
            }
        }
    }
}

/// A request in progress.
pub struct InProgress(Activity);

impl Drop for InProgress {
    fn drop(&mut self) {
        let Requests { in_progress, opened_at, ended_at_ms } = &*self.0.0;
        let now_ms = u64::try_from(opened_at.elapsed().as_millis()).unwrap_or(u64::MAX);
        ended_at_ms.fetch_max(now_ms, Ordering::SeqCst);
        in_progress.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::timeout;

    const LIMIT: Duration = Duration::from_millis(20);
    /// The times of ends are kept in milliseconds.
    const RESOLUTION: Duration = Duration::from_millis(1);

    #[tokio::test]
    async fn a_connection_is_idle_after_the_limit_without_a_request() {
        let activity = Activity::new();
        let begun = Instant::now();
        activity.idle(LIMIT).await;
        assert!(begun.elapsed() >= LIMIT);
    }

    #[tokio::test]
    async fn a_request_in_progress_keeps_a_connection_open_and_its_end_begins_the_limit() {
        let activity = Activity::new();
        let (first, second) = (activity.begin(), activity.begin());
        assert!(timeout(LIMIT * 3, activity.idle(LIMIT)).await.is_err());
        drop(first);
        assert!(timeout(LIMIT * 3, activity.idle(LIMIT)).await.is_err());
        let waiting = tokio::spawn({
            let activity = activity.clone();
            async move { activity.idle(LIMIT).await }
        });
        let ended = Instant::now();
        drop(second);
        waiting.await.expect("the task does not panic");
        assert!(ended.elapsed() + RESOLUTION >= LIMIT);
    }
}
