//! The namespaces whose background work some server does.
//!
//! A server whose reconcilers handle whole namespaces announces that to the others through the store, for as long as it
//! runs. A server that is restricted to a tag announces nothing: nobody knows whether the tags of all servers together cover
//! a namespace. Only a restricted server has to ask: any other one handles everything itself.

use crate::Options;
use crate::locking::lock;
use selvedge_core::{Name, NamespaceId};
use selvedge_store::{Error, ReconcilerScope, Store};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// The time for which a read is used.
const FRESH: Duration = Duration::from_secs(5);

/// The announcement of this server, and what it knows of those of others.
pub struct Coverage {
    /// The namespaces that this server handles whole: none of them, one, or all.
    own: Option<Option<NamespaceId>>,
    announcing: Option<JoinHandle<()>>,
    /// Held during a read, so that concurrent callers share one.
    reading: tokio::sync::Mutex<()>,
    last: Mutex<Option<(Instant, Arc<Vec<Name>>)>>,
}

impl Coverage {
    /// Announces the scope of the reconcilers, for as long as the value is kept.
    pub fn start(store: Arc<dyn Store>, options: &Options) -> Coverage {
        let ReconcilerScope { namespace, tag } = &options.scope;
        let own = (options.reconcilers && tag.is_none()).then_some(*namespace);
        let announcing =
            own.map(|namespace| tokio::spawn(async move { store.announce_coverage(namespace).await }));
        Coverage { own, announcing, reading: tokio::sync::Mutex::default(), last: Mutex::default() }
    }

    /// Ends the announcement.
    pub fn stop(&self) {
        self.announcing.iter().for_each(JoinHandle::abort);
    }

    /// Returns the names of namespaces that no server handles, sorted; what was read a moment ago will do.
    pub async fn uncovered(&self, store: &dyn Store) -> Result<Arc<Vec<Name>>, Error> {
        if self.own == Some(None) {
            return Ok(Arc::default());
        }
        let known = || lock(&self.last).clone().filter(|(at, _)| at.elapsed() < FRESH);
        if let Some((_, known)) = known() {
            return Ok(known);
        }
        let _reading = self.reading.lock().await;
        if let Some((_, known)) = known() {
            return Ok(known);
        }
        let uncovered = Arc::new(self.read(store).await?);
        let before = lock(&self.last).replace((Instant::now(), uncovered.clone()));
        if before.is_none_or(|(_, before)| before != uncovered) && !uncovered.is_empty() {
            let names: Vec<&str> = uncovered.iter().take(10).map(Name::as_str).collect();
            tracing::warn!(
                count = uncovered.len(),
                names = names.join(", "),
                "no server does the background work of some namespaces; start one whose reconcilers handle them"
            );
        }
        Ok(uncovered)
    }

    async fn read(&self, store: &dyn Store) -> Result<Vec<Name>, Error> {
        let mut announced = store.coverage().await?;
        announced.extend(self.own);
        if announced.contains(&None) {
            return Ok(Vec::new());
        }
        let namespaces = store.namespaces().await?.into_iter();
        let uncovered = namespaces
            .filter(|(id, name)| !announced.contains(&Some(*id)) && !selvedge_store::is_retired(name));
        let mut names: Vec<Name> = uncovered.map(|(_, name)| name).collect();
        names.sort_unstable();
        Ok(names)
    }
}

impl Drop for Coverage {
    fn drop(&mut self) {
        self.stop();
    }
}
