//! A store that goes away when a test says so.

use async_trait::async_trait;
use selvedge::Store;
use selvedge::store::{Around, Decision, Error, Transaction};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// What happens to a transaction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Line {
    /// It comes through.
    Up,
    /// It does not reach the store.
    Down,
    /// It commits, and its answer is lost.
    Mute,
}

/// A store behind a line that can be cut.
pub struct CutOff {
    inner: Arc<dyn Store>,
    line: Mutex<Line>,
    failed: watch::Sender<u32>,
}

impl CutOff {
    /// Behind a line that is up.
    pub fn new(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(CutOff { inner, line: Mutex::new(Line::Up), failed: watch::Sender::new(0) })
    }

    /// Cuts or mends the line.
    pub fn set(&self, line: Line) {
        self.failed.send_replace(0);
        *self.line.lock().unwrap_or_else(PoisonError::into_inner) = line;
    }

    /// Waits until this many transactions failed since the line was last set.
    pub async fn failures(&self, count: u32) {
        let mut failed = self.failed.subscribe();
        failed.wait_for(|failed| *failed >= count).await.expect("the store is there");
    }

    fn fail(&self) -> Error {
        self.failed.send_modify(|failed| *failed += 1);
        Error::Unavailable("the line is cut".into())
    }
}

#[async_trait]
impl Around for CutOff {
    fn inner(&self) -> &dyn Store {
        self.inner.as_ref()
    }

    async fn transact(&self, decision: Box<dyn Decision>) -> Result<Transaction, Error> {
        let line = *self.line.lock().unwrap_or_else(PoisonError::into_inner);
        match line {
            Line::Up => self.inner.transact(decision).await,
            Line::Down => Err(self.fail()),
            Line::Mute => {
                self.inner.transact(decision).await?;
                Err(self.fail())
            }
        }
    }
}
