//! The token by which a part of a handler learns that the execution is cancelled.

use tokio::sync::watch;

/// Tells that work on an execution should stop: its cancellation was requested, or the attempt has ended, for example because
/// its lease was lost. Cheap to clone, for tasks and threads that a handler starts and that outlive it when it is dropped.
/// Returned by [`Context::cancellation`](crate::Context::cancellation).
///
/// ```
/// use selvedge::{Context, Failure};
///
/// async fn transcode(ctx: Context) -> Result<u32, Failure> {
///     let cancellation = ctx.cancellation();
///     let frames = tokio::task::spawn_blocking(move || {
///         (0..1000).take_while(|_| !cancellation.is_cancelled()).count() as u32
///     });
///     Ok(frames.await?)
/// }
/// # drop(transcode);
/// ```
#[derive(Clone, Debug)]
pub struct CancellationToken(watch::Receiver<bool>);

impl CancellationToken {
    pub(super) fn new(requested: watch::Receiver<bool>) -> CancellationToken {
        CancellationToken(requested)
    }

    /// Returns true if the cancellation has been requested or the attempt has ended.
    pub fn is_cancelled(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }

    /// Resolves when the cancellation is requested with a grace period, or the attempt ends.
    pub async fn cancelled(&self) {
        // Waiting fails if the worker has dropped the sender, with the lease of the attempt.
        let _ = self.0.clone().wait_for(|requested| *requested).await;
    }
}
