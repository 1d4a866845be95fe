//! The handle of one namespace, with the same methods for an embedded engine and for a server over HTTP.
//!
//! - `executions`: submit, read, list, wait for results, explain;
//! - `operations`: cancel, replay, reschedule, tag, resume, signal;
//! - `flows`: submit, grow, read and cancel flows;
//! - `events` and `streams`: subscriptions to the event log, frames of attempts;
//! - `limits`: lanes, quotas and budgets;
//! - `schedules`, `webhooks` and `waitpoints`.

mod events;
mod executions;
mod flows;
mod limits;
mod operations;
mod schedules;
mod streams;
mod waitpoints;
mod webhooks;

pub use operations::Cancel;

use crate::Error;
use selvedge_client::Client;
use selvedge_core::Name;
use selvedge_engine::request::cursors;
use std::fmt;
use std::time::Duration;

/// The actor in the events of operations by an embedded program.
const ACTOR: &str = "program";
/// The longest time that one call waits for an end. A longer wait is several calls.
const WAIT_SLICE: Duration = Duration::from_secs(30);

/// The handle of a namespace: submit, read, wait for results, cancel, replay, signal, subscribe. Cheap to clone.
///
/// It comes from [`Engine::namespace`](crate::Engine::namespace), [`Client::namespace`](crate::Client::namespace) or
/// [`Connection::namespace`](crate::Connection::namespace). A [`Worker`](crate::Worker) runs on either kind.
#[derive(Clone)]
pub struct Namespace {
    name: String,
    connected: Connected,
}

/// The way to the engine.
#[derive(Clone)]
pub(crate) enum Connected {
    /// The engine runs in this process.
    Embedded(selvedge_engine::Namespace),
    /// The engine is behind a server. The client names the namespace in every request.
    Remote(Client),
}

impl Namespace {
    pub(crate) fn embedded(namespace: selvedge_engine::Namespace) -> Namespace {
        Namespace { name: namespace.name().to_string(), connected: Connected::Embedded(namespace) }
    }

    pub(crate) fn remote(name: String, client: Client) -> Namespace {
        Namespace { name, connected: Connected::Remote(client) }
    }

    pub(crate) fn connected(&self) -> &Connected {
        &self.connected
    }

    /// Returns the name of the namespace.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the embedded engine's handle, for a program that builds on the engine itself. None over HTTP.
    pub fn engine_namespace(&self) -> Option<&selvedge_engine::Namespace> {
        match &self.connected {
            Connected::Embedded(namespace) => Some(namespace),
            Connected::Remote(_) => None,
        }
    }
}

impl fmt::Debug for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = match &self.connected {
            Connected::Embedded(namespace) => namespace.engine().store_name(),
            Connected::Remote(client) => client.server(),
        };
        f.debug_struct("Namespace").field("name", &self.name).field("on", &way).finish()
    }
}

/// Returns the name after which a page of a list ordered by name begins; none for the first page.
fn after_name(cursor: Option<&str>) -> Result<Option<Name>, Error> {
    let name = cursor.map(cursors::parse_name_cursor).transpose()?;
    Ok(name.as_deref().map(Name::trusted))
}

/// Returns the actor of an embedded program.
fn actor() -> Name {
    Name::trusted(ACTOR)
}
