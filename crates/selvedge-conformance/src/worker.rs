//! A worker of a case.

use selvedge_core::{ClaimScope, Name, NamespaceId};

/// A worker that claims.
#[derive(Clone, Debug)]
pub struct Worker {
    /// Its instance.
    pub instance: String,
    /// Its lanes.
    pub lanes: Vec<String>,
    /// Its kinds; none means any.
    pub kinds: Option<Vec<String>>,
    /// What it is capable of.
    pub capabilities: Vec<String>,
    /// The time to live of its leases.
    pub ttl_ms: i64,
}

impl Worker {
    /// The worker with this instance, on the lane `default`.
    pub fn new(instance: &str) -> Self {
        Worker {
            instance: instance.into(),
            lanes: vec!["default".into()],
            kinds: None,
            capabilities: Vec::new(),
            ttl_ms: 30_000,
        }
    }

    /// The same worker on these lanes.
    pub fn on(self, lanes: &[&str]) -> Self {
        Worker { lanes: lanes.iter().map(|lane| (*lane).to_owned()).collect(), ..self }
    }

    /// What it says it can run.
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
