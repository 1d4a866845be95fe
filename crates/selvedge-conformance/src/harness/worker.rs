//! Workers that claim.

use selvedge_core::{ClaimScope, Name, NamespaceId};

/// A worker and the scope of its claims.
#[derive(Clone, Debug)]
pub struct Worker {
    /// The worker's instance.
    pub instance: String,
    /// The incarnation that its claims name, if any.
    pub incarnation: Option<String>,
    /// The lanes that it claims from.
    pub lanes: Vec<String>,
    /// The kinds that it claims; none means any.
    pub kinds: Option<Vec<String>>,
    /// The worker's capabilities.
    pub capabilities: Vec<String>,
    /// Time to live of its leases, in milliseconds.
    pub ttl_ms: i64,
}

impl Worker {
    /// Returns a worker that claims any kind from the lane `default`, with leases of 30 seconds.
    pub fn new(instance: &str) -> Self {
        Worker {
            instance: instance.into(),
            incarnation: None,
            lanes: vec!["default".into()],
            kinds: None,
            capabilities: Vec::new(),
            ttl_ms: 30_000,
        }
    }

    /// Replaces the lanes.
    pub fn on(self, lanes: &[&str]) -> Self {
        Worker { lanes: lanes.iter().map(|lane| (*lane).to_owned()).collect(), ..self }
    }

    /// Returns the scope of the worker's claims.
    pub fn scope(&self, namespace: NamespaceId) -> ClaimScope {
        let names =
            |words: &[String]| -> Vec<Name> { words.iter().map(|word| Name::trusted(word)).collect() };
        ClaimScope {
            namespace,
            lanes: names(&self.lanes),
            kinds: self.kinds.as_deref().map(names),
            capabilities: names(&self.capabilities).into_iter().collect(),
        }
    }
}
