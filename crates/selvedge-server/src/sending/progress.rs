//! The progress of responses: how many bytes the HTTP library has and has not written, and when it last wrote one.

use super::room::ResponseRoom;
use futures_util::task::AtomicWaker;
use hyper::rt::Executor;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep, sleep_until};

tokio::task_local! {
    /// The progress of the response of the HTTP/2 stream whose task this is.
    static STREAM: Arc<SendProgress>;
}

/// The progress of the responses of one HTTP/1.1 connection, or of the one of an HTTP/2 stream.
pub struct SendProgress {
    /// The bytes that the library has and has not written.
    unsent: AtomicUsize,
    began: Instant,
    /// The time of the last byte, or of the first one that waited, in milliseconds since `began`.
    moved_at_ms: AtomicU64,
    /// Woken when all bytes were written or dropped.
    all_sent: AtomicWaker,
}

impl SendProgress {
    pub fn new() -> Arc<SendProgress> {
        Arc::new(SendProgress {
            unsent: AtomicUsize::new(0),
            began: Instant::now(),
            moved_at_ms: AtomicU64::new(0),
            all_sent: AtomicWaker::new(),
        })
    }

    /// Records bytes that the library gets.
    pub fn hand_over(&self, bytes: usize) {
        if self.unsent.fetch_add(bytes, Ordering::AcqRel) == 0 {
            self.note_time();
        }
    }

    /// Records bytes that the library has written.
    pub fn written(&self, bytes: usize) {
        self.note_time();
        self.dropped(bytes);
    }

    /// Records bytes that will never be written.
    pub fn dropped(&self, bytes: usize) {
        if bytes > 0 && self.unsent.fetch_sub(bytes, Ordering::AcqRel) == bytes {
            self.all_sent.wake();
        }
    }

    fn note_time(&self) {
        let now_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.moved_at_ms.store(now_ms, Ordering::Release);
    }

    fn is_sending(&self) -> bool {
        self.unsent.load(Ordering::Acquire) > 0
    }

    /// Completes when the library has no bytes left.
    pub fn poll_sent(&self, context: &mut Context<'_>) -> Poll<()> {
        self.all_sent.register(context.waker());
        match self.is_sending() {
            true => Poll::Pending,
            false => Poll::Ready(()),
        }
    }

    /// Completes when the library has had bytes, and has written none of them, for `limit`. Notices that it has bytes when it is
    /// polled, so poll it after the future that hands them over. It sets no timer before.
    pub async fn stalled(&self, limit: Duration) {
        let mut timer: Option<Pin<Box<Sleep>>> = None;
        poll_fn(|context| {
            loop {
                if !self.is_sending() {
                    timer = None;
                    return Poll::Pending;
                }
                let moved_at = Duration::from_millis(self.moved_at_ms.load(Ordering::Acquire));
                let end = self.began + moved_at + limit;
                if Instant::now() >= end {
                    return Poll::Ready(());
                }
                let timer = timer.get_or_insert_with(|| Box::pin(sleep_until(end)));
                if timer.is_elapsed() {
                    timer.as_mut().reset(end);
                }
                ready!(timer.as_mut().poll(context));
            }
        })
        .await;
    }
}

/// Returns the progress of the HTTP/2 stream whose task calls it.
pub fn current_progress() -> Option<Arc<SendProgress>> {
    STREAM.try_with(Arc::clone).ok()
}

/// Runs the streams of an HTTP/2 connection.
#[derive(Clone)]
pub struct StreamExecutor {
    /// The longest time without progress.
    pub limit: Duration,
    pub room: ResponseRoom,
    /// Notified when the connection must be closed.
    pub close: Arc<Notify>,
}

impl<F> Executor<F> for StreamExecutor
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, stream: F) {
        let progress = SendProgress::new();
        let StreamExecutor { limit, room, close } = self.clone();
        tokio::spawn(STREAM.scope(progress.clone(), async move {
            if !run_stream(stream, &progress, limit).await {
                room.count_stalled();
                tracing::debug!("a response ended because its client took nothing of it");
                return;
            }
            // In most cases the connection has written everything when this task runs again.
            pause().await;
            if !progress.is_sending() {
                return;
            }
            tokio::select! {
                biased;
                () = poll_fn(|context| progress.poll_sent(context)) => {}
                () = progress.stalled(limit) => {
                    room.count_stalled();
                    close.notify_one();
                }
            }
        }));
    }
}

/// Runs a stream to its end, or drops it, which resets it, when it makes no progress. Returns false then.
async fn run_stream(stream: impl Future, progress: &SendProgress, limit: Duration) -> bool {
    let mut stream = pin!(stream);
    tokio::select! {
        biased;
        _ = stream.as_mut() => true,
        () = progress.stalled(limit) => false,
    }
}

/// Lets other tasks run once.
async fn pause() {
    let mut has_paused = false;
    poll_fn(|context| {
        if has_paused {
            return Poll::Ready(());
        }
        has_paused = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::timeout;

    const LIMIT: Duration = Duration::from_millis(50);

    #[tokio::test]
    async fn a_response_stalls_after_the_limit_without_a_byte_and_not_while_it_has_nothing_to_send() {
        let progress = SendProgress::new();
        assert!(timeout(LIMIT * 3, progress.stalled(LIMIT)).await.is_err(), "it has nothing to send");
        progress.hand_over(10);
        let began = Instant::now();
        progress.stalled(LIMIT).await;
        assert!(began.elapsed() + Duration::from_millis(1) >= LIMIT);
        progress.written(1);
        assert!(timeout(LIMIT / 2, progress.stalled(LIMIT)).await.is_err(), "a byte has left");
        progress.written(9);
        poll_fn(|context| progress.poll_sent(context)).await;
        assert!(timeout(LIMIT * 3, progress.stalled(LIMIT)).await.is_err(), "all has left");
    }
}
