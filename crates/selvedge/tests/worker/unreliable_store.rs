//! Makes a store unavailable in a test.

use super::lock;
use async_trait::async_trait;
use selvedge::Store;
use selvedge_store::{Error, Interceptor};
use std::any::Any;
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

/// Makes the transactions of a store fail according to the state of a link.
pub struct UnreliableLink {
    link: Mutex<Link>,
    failures: watch::Sender<u32>,
}

impl UnreliableLink {
    /// Adds a link to a store. It is up.
    pub fn to(store: &dyn Store) -> Arc<Self> {
        let link = Arc::new(UnreliableLink { link: Mutex::new(Link::Up), failures: watch::Sender::new(0) });
        store.meter().intercept(link.clone());
        link
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

    /// Fails a transaction if the link is in this state.
    fn fail_if(&self, call: &str, state: Link) -> Result<(), Error> {
        if call != "transact" || *lock(&self.link) != state {
            return Ok(());
        }
        self.failures.send_modify(|failures| *failures += 1);
        Err(Error::Unavailable("the link is down".into()))
    }
}

#[async_trait]
impl Interceptor for UnreliableLink {
    async fn before(&self, call: &'static str) -> Result<(), Error> {
        self.fail_if(call, Link::Down)
    }

    async fn after(&self, call: &'static str, _returned: &mut (dyn Any + Send)) -> Result<(), Error> {
        self.fail_if(call, Link::AnswersLost)
    }
}
