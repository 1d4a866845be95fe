//! Tells calls that wait when the server closes, so that they answer at once instead of holding it up.

use std::future::{Future, pending};
use tokio::sync::watch;

/// Tells when the server closes.
#[derive(Clone)]
pub struct Closing(watch::Receiver<bool>);

impl Closing {
    /// What closes, and what tells.
    pub fn new() -> (watch::Sender<bool>, Closing) {
        let (close, closing) = watch::channel(false);
        (close, Closing(closing))
    }

    /// A server that is never told to close.
    pub fn never() -> Closing {
        Self::new().1
    }

    /// Whether the server closes.
    pub fn is_closing(&self) -> bool {
        *self.0.borrow()
    }

    /// What `call` gives; none if the server closes before.
    pub async fn cut<T>(&self, call: impl Future<Output = T>) -> Option<T> {
        let mut closing = self.0.clone();
        let closed = async move {
            if closing.wait_for(|closing| *closing).await.is_err() {
                pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            given = call => Some(given),
            () = closed => None,
        }
    }
}
