//! The engine, opened with the address of its store.

use crate::{Aborted, Error, Namespace, Options, Store};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A running engine. Cheap to clone; all clones share one engine.
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> Result<(), selvedge::Error> {
/// let engine = selvedge::Engine::open("memory:").await?;
/// let namespace = engine.namespace("default").await?;
/// assert_eq!(namespace.name(), "default");
/// engine.shutdown().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Engine(selvedge_engine::Engine);

impl Engine {
    /// Opens the store at this address (see [`Address`](crate::Address) for the forms) and starts an engine on it, with
    /// default options.
    pub async fn open(address: &str) -> Result<Engine, Error> {
        Engine::open_with(address, Options::default()).await
    }

    /// Opens the store at this address and starts an engine on it, with these options.
    pub async fn open_with(address: &str, options: Options) -> Result<Engine, Error> {
        Engine::start(crate::open(address).await?, options).await
    }

    /// Starts an engine on a store that is already open.
    pub async fn start(store: Arc<dyn Store>, options: Options) -> Result<Engine, Error> {
        Ok(Engine(selvedge_engine::Engine::start(store, options).await?))
    }

    /// Returns the handle of a namespace, which is created if it does not exist.
    pub async fn namespace(&self, name: &str) -> Result<Namespace, Error> {
        Ok(Namespace::embedded(self.0.namespace(name).await?))
    }

    /// Runs one tick of a reconciler now, for tests that have switched the background ones off.
    pub async fn tick(&self, reconciler: &str) -> Result<(), Error> {
        self.0.tick(reconciler).await?;
        Ok(())
    }

    /// Shuts down: waiting claims return, accepted calls get their answers, and reconcilers finish or are aborted. Returns how
    /// many were aborted. A second call does nothing.
    pub async fn shutdown(&self) -> Aborted {
        self.0.shutdown().await
    }

    /// Shuts down like [`Engine::shutdown`], with another grace period.
    pub async fn shutdown_within(&self, grace: Duration) -> Aborted {
        self.0.shutdown_within(grace).await
    }

    /// Returns the inner engine, for a server that serves it.
    pub fn into_inner(self) -> selvedge_engine::Engine {
        self.0
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("store", &self.0.store_name()).finish()
    }
}
