//! A store that a test can make unavailable.

use super::lock;
use async_trait::async_trait;
use selvedge::Store;
use selvedge_store::{Decision, Error, StoreWrapper, Transaction};
use std::sync::{Arc, Mutex};
use tokio::sync::watch;

/// The state of the connection to the store.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Link {
    /// Transactions succeed.
    Up,
    /// Transactions do not reach the store.
    Down,
    /// Transactions commit, but their answers are lost.
    AnswersLost,
}

/// A wrapper that makes transactions fail according to the state of a link.
pub struct UnreliableStore {
    inner: Arc<dyn Store>,
    link: Mutex<Link>,
    failures: watch::Sender<u32>,
}

impl UnreliableStore {
    /// Wraps a store, with the link up.
    pub fn new(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(UnreliableStore { inner, link: Mutex::new(Link::Up), failures: watch::Sender::new(0) })
    }

    /// Sets the state of the link, and resets the count of failures.
    pub fn set_link(&self, link: Link) {
        self.failures.send_replace(0);
        *lock(&self.link) = link;
    }

    /// Waits until this many transactions have failed since the link was last set.
    pub async fn wait_for_failures(&self, count: u32) {
        let mut failures = self.failures.subscribe();
        failures.wait_for(|failures| *failures >= count).await.expect("the store is open");
    }

    fn fail(&self) -> Error {
        self.failures.send_modify(|failures| *failures += 1);
        Error::Unavailable("the link is down".into())
    }
}

#[async_trait]
impl StoreWrapper for UnreliableStore {
    fn inner(&self) -> &dyn Store {
        self.inner.as_ref()
    }

    async fn transact(&self, decision: Box<dyn Decision>) -> Result<Transaction, Error> {
        let link = *lock(&self.link);
        match link {
            Link::Up => self.inner.transact(decision).await,
            Link::Down => Err(self.fail()),
            Link::AnswersLost => {
                self.inner.transact(decision).await?;
                Err(self.fail())
            }
        }
    }
}
