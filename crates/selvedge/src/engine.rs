//! The engine, opened by its store's address.

use crate::{Error, Options, Store};
use std::ops::Deref;
use std::sync::Arc;

/// A running engine. Cheap to clone; all clones are the same engine.
///
/// Everything that [`selvedge_engine::Engine`] does, this does: [`namespace`](selvedge_engine::Engine::namespace) gives
/// the handle of a tenant, [`shutdown`](selvedge_engine::Engine::shutdown) stops it.
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
    /// Opens the store at this address, in the words of [`Address`](crate::Address), and starts an engine on it.
    pub async fn open(address: &str) -> Result<Engine, Error> {
        Engine::open_with(address, Options::default()).await
    }

    /// The same, with other options than the defaults.
    pub async fn open_with(address: &str, options: Options) -> Result<Engine, Error> {
        Engine::start(crate::open(address).await?, options).await
    }

    /// Starts an engine on a store that is already open.
    pub async fn start(store: Arc<dyn Store>, options: Options) -> Result<Engine, Error> {
        Ok(Engine(selvedge_engine::Engine::start(store, options).await?))
    }

    /// The engine itself, for what serves it.
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
