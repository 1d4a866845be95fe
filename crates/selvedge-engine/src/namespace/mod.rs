//! The handle of a namespace, and its calls by subject: one file or folder per subject.

mod api_keys;
mod bulk_jobs;
pub(crate) mod creation;
pub(crate) mod deletion;
mod events;
mod executions;
mod flows;
pub(crate) mod gates;
mod inbox;
mod keyed;
pub(crate) mod schedules;
mod settings;
mod stats;
mod webhooks;
mod workers;

pub use api_keys::*;
pub use bulk_jobs::*;
pub use events::*;
pub use executions::*;
pub use flows::*;
pub use gates::*;
pub use keyed::KeyedCalls;
pub use schedules::*;
pub use stats::*;
pub use webhooks::*;
pub use workers::*;

use crate::{Engine, Error, Inner};
use selvedge_core::rule::Rule;
use selvedge_core::{Name, NamespaceId};
use std::time::Duration;

/// The maximum time that a call may wait.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// The handle of a namespace. Cheap to clone.
#[derive(Clone)]
pub struct Namespace {
    engine: Engine,
    id: NamespaceId,
    name: Name,
    actor: Option<Name>,
}

impl Namespace {
    pub(crate) fn new(engine: Engine, id: NamespaceId, name: Name) -> Self {
        Namespace { engine, id, name, actor: None }
    }

    /// Returns a handle whose submissions name `actor` in their events. Default: no actor.
    pub fn with_actor(self, actor: Name) -> Self {
        Namespace { actor: Some(actor), ..self }
    }

    pub fn name(&self) -> &Name {
        &self.name
    }

    /// The interned id of the namespace.
    pub fn id(&self) -> NamespaceId {
        self.id
    }

    /// The engine that the namespace belongs to.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.engine.inner
    }

    async fn run<R: Rule>(&self, rule: R) -> Result<R::Reply, Error> {
        self.inner().committer.run(rule).await
    }
}
