//! The metrics of lanes, found by the class of an execution.
//!
//! The first [`NAMED_MAX`] lanes that this process commits changes of have metrics of their own. All later ones share one set,
//! so the number of series is bounded however many lanes callers invent. Which lanes are named does not change while the
//! process runs: a counter that moved from one series to another would look like a reset.

use super::histogram::Histogram;
use crate::locking::{lock, read, write};
use crate::registry::Registry;
use selvedge_core::history::ATTEMPT_OUTCOMES;
use selvedge_core::{ClassId, Name, NamespaceId, Outcome};
use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, RwLock};

/// The maximum number of lanes, and of gates, that have series of their own.
pub const NAMED_MAX: usize = 200;
/// The namespace and name in the labels of everything beyond [`NAMED_MAX`]. A lane that has this name is counted there too.
pub const OTHER: &str = "_other";
/// The maximum number of classes whose lane is remembered; beyond it they are looked up again.
const CLASSES_MAX: usize = 100_000;

/// The counters of one lane, or of all that share a set.
#[derive(Debug)]
pub struct LaneMetrics {
    /// The labels: namespace and lane.
    pub labels: (Name, Name),
    pub submitted: AtomicU64,
    pub started: AtomicU64,
    /// Failed attempts that are followed by another one.
    pub retries: AtomicU64,
    /// Ended executions, in the order of [`Outcome::ALL`].
    pub outcomes: [AtomicU64; Outcome::ALL.len()],
    /// Ended attempts, in the order of [`ATTEMPT_OUTCOMES`].
    pub attempts: [AtomicU64; ATTEMPT_OUTCOMES.len()],
    /// The times that executions waited for a worker before they started.
    pub queue: Histogram,
    /// The times that attempts ran.
    pub run: Histogram,
    /// The times that a claim and an execution waited for each other: the shorter one of the two.
    pub claim: Histogram,
}

impl LaneMetrics {
    fn new(namespace: Name, lane: Name) -> Self {
        LaneMetrics {
            labels: (namespace, lane),
            submitted: AtomicU64::new(0),
            started: AtomicU64::new(0),
            retries: AtomicU64::new(0),
            outcomes: Default::default(),
            attempts: Default::default(),
            queue: Histogram::of_durations(),
            run: Histogram::of_durations(),
            claim: Histogram::of_durations(),
        }
    }
}

/// A lane that this process has committed changes of.
#[derive(Debug)]
pub struct Lane {
    /// A number that identifies the lane in this process.
    pub number: u32,
    pub namespace: NamespaceId,
    pub name: Name,
    pub metrics: Arc<LaneMetrics>,
}

/// All lanes that this process has committed changes of.
#[derive(Debug)]
pub struct Lanes {
    by_class: RwLock<HashMap<ClassId, Arc<Lane>>>,
    known: Mutex<Known>,
}

#[derive(Debug)]
struct Known {
    by_name: HashMap<(NamespaceId, Name), Arc<Lane>>,
    /// The sets of counters, that of all others first.
    metrics: Vec<Arc<LaneMetrics>>,
}

impl Default for Lanes {
    fn default() -> Self {
        let other = Arc::new(LaneMetrics::new(Name::trusted(OTHER), Name::trusted(OTHER)));
        let known = Known { by_name: HashMap::new(), metrics: vec![other] };
        Lanes { by_class: RwLock::default(), known: Mutex::new(known) }
    }
}

impl Lanes {
    /// Calls `visit` for every class with its lane. Classes that are not interned are passed over. Takes a shared lock once.
    pub fn visit<T>(
        &self,
        items: &[(ClassId, T)],
        registry: &Registry,
        mut visit: impl FnMut(&Arc<Lane>, &T),
    ) {
        let mut unknown = Vec::new();
        {
            let by_class = read(&self.by_class);
            for (class, item) in items {
                match by_class.get(class) {
                    Some(lane) => visit(lane, item),
                    None => unknown.push((class, item)),
                }
            }
        }
        for (class, item) in unknown {
            if let Some(lane) = self.learn(*class, registry) {
                visit(&lane, item);
            }
        }
    }

    /// Returns the lane of a class, and remembers it.
    fn learn(&self, id: ClassId, registry: &Registry) -> Option<Arc<Lane>> {
        let classes = registry.classes();
        let class = classes.get(id)?;
        let lane = self.lane(class.namespace, &class.lane, registry);
        let mut by_class = write(&self.by_class);
        if by_class.len() >= CLASSES_MAX {
            by_class.clear();
        }
        by_class.insert(id, lane.clone());
        Some(lane)
    }

    fn lane(&self, namespace: NamespaceId, name: &Name, registry: &Registry) -> Arc<Lane> {
        let mut known = lock(&self.known);
        let key = (namespace, name.clone());
        if let Some(lane) = known.by_name.get(&key) {
            return lane.clone();
        }
        let metrics = match known.metrics.len() <= NAMED_MAX && name.as_str() != OTHER {
            true => {
                let labels = registry.namespace_name(namespace);
                let metrics = Arc::new(LaneMetrics::new(labels, name.clone()));
                known.metrics.push(metrics.clone());
                metrics
            }
            false => known.metrics[0].clone(),
        };
        let number = known.by_name.len() as u32;
        let lane = Arc::new(Lane { number, namespace, name: name.clone(), metrics });
        known.by_name.insert(key, lane.clone());
        lane
    }

    /// Returns all sets of counters. The set that lanes share is left out while no lane is counted in it.
    pub fn metrics(&self) -> Vec<Arc<LaneMetrics>> {
        let known = lock(&self.known);
        let shares = known.by_name.len() >= known.metrics.len();
        known.metrics[usize::from(!shares)..].to_vec()
    }
}
