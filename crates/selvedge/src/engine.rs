//! The engine, opened with the address of its store.

use crate::{Error, Options, Store};
use std::ops::Deref;
use std::sync::Arc;

/// A running engine. Cheap to clone; all clones share one engine.
///
/// Dereferences to [`selvedge_engine::Engine`]: [`namespace`](selvedge_engine::Engine::namespace) returns the handle of
/// a tenant, [`shutdown`](selvedge_engine::Engine::shutdown) stops the engine.
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> Result<(), selvedge::Error> {
/// let engine = selvedge::Engine::open("memory:").await?;
/// let namespace = engine.namespace("default").await?;
/// assert_eq!(namespace.name().as_str(), "default");
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

    /// Returns the inner engine, for a server that serves it.
    pub fn into_inner(self) -> selvedge_engine::Engine {
        self.0
    }
}

impl Deref for Engine {
    type Target = selvedge_engine::Engine;

    fn deref(&self) -> &selvedge_engine::Engine {
        &self.0
    }
}
