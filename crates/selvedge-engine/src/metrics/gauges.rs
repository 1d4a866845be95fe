//! Gauges that are read from the store: depths, flows, gates and budgets.
//!
//! All scrapers share one read, which is repeated at most once in [`FRESH`]. A read that fails or takes too long keeps the
//! values of the last one, whose age is a metric of its own. Reads are bounded: at most [`NAMESPACES_MAX`] namespaces,
//! [`COUNT_BOUND`] waiting executions of a class, [`COUNT_BOUND`] executions of a namespace in each other state, and
//! [`NAMED_MAX`] series of each family. Lanes and gates beyond the bound are summed under [`OTHER`]; budgets and paused lanes
//! beyond it are left out.

use super::lanes::{NAMED_MAX, OTHER};
use crate::Inner;
use crate::locking::lock;
use futures_util::{StreamExt, TryStreamExt, stream};
use selvedge_core::amount::Amount;
use selvedge_core::flow::FlowState;
use selvedge_core::gate::{BudgetScope, Config, Gate, GateKind, LaneState};
use selvedge_core::state::StateName;
use selvedge_core::{Name, NamespaceId, Timestamp};
use selvedge_store::{Error, InboxCounts, Store};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The time for which a read is used.
pub const FRESH: Duration = Duration::from_secs(10);
/// The longest that a read may take.
const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum number of namespaces that are read.
const NAMESPACES_MAX: usize = 200;
/// The number of namespaces that are read at the same time.
const CONCURRENT_NAMESPACES: usize = 4;
/// The largest count of executions, flows or held executions.
const COUNT_BOUND: u64 = 10_000;
/// The maximum number of gates of a kind and namespace, and of parts of a budget, that are read.
const GATES_READ: u32 = 1000;
/// The states whose depth is published even if it is zero.
const ALWAYS: [StateName; 2] = [StateName::Waiting, StateName::Active];

/// The executions of a lane in a state.
#[derive(Clone, Debug, PartialEq)]
pub struct LaneDepth {
    pub namespace: Name,
    pub lane: Name,
    pub state: StateName,
    pub count: u64,
    pub age_seconds: f64,
}

/// The use of a lane, quota or budget.
#[derive(Clone, Debug, PartialEq)]
pub struct GateUse {
    pub namespace: Name,
    pub kind: &'static str,
    pub name: Name,
    pub active: u64,
    /// The limit of concurrent executions, if there is one.
    pub limit: Option<u64>,
    /// The number of held executions; none for a lane, which holds nothing.
    pub held: Option<u64>,
}

/// The use of a dimension of a budget. Of a budget that counts parts separately: of the part that has used most.
#[derive(Clone, Debug, PartialEq)]
pub struct BudgetUse {
    pub namespace: Name,
    pub name: Name,
    pub dimension: String,
    pub used: f64,
    pub reserved: f64,
    pub hard: Option<f64>,
    pub soft: Option<f64>,
}

/// The gauges of one read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gauges {
    pub depths: Vec<LaneDepth>,
    pub flows: Vec<(FlowState, u64)>,
    pub gates: Vec<GateUse>,
    pub paused: Vec<(Name, Name, bool)>,
    pub budgets: Vec<BudgetUse>,
    /// The number of namespaces that were not read.
    pub unmeasured: usize,
    /// The namespaces whose background work no server does.
    pub uncovered: Arc<Vec<Name>>,
    /// The submissions from SQL that wait to be taken in.
    pub inbox: InboxCounts,
    /// The time since the first of them was written.
    pub inbox_age_seconds: f64,
}

/// Reads gauges and caches them.
#[derive(Debug)]
pub struct GaugeReader {
    started_at: Instant,
    /// Held during a read, so that concurrent callers share one.
    reading: tokio::sync::Mutex<()>,
    last: Mutex<Last>,
    failures: AtomicU64,
}

impl Default for GaugeReader {
    fn default() -> Self {
        GaugeReader {
            started_at: Instant::now(),
            reading: tokio::sync::Mutex::default(),
            last: Mutex::default(),
            failures: AtomicU64::new(0),
        }
    }
}

#[derive(Debug, Default)]
struct Last {
    gauges: Arc<Gauges>,
    read_at: Option<Instant>,
    tried_at: Option<Instant>,
}

impl GaugeReader {
    /// Returns the gauges of the last read, after a new one if that was too long ago.
    pub async fn read(&self, engine: &Inner) -> Arc<Gauges> {
        let is_fresh = || lock(&self.last).tried_at.is_some_and(|at| at.elapsed() < FRESH);
        if !is_fresh() {
            let _reading = self.reading.lock().await;
            if !is_fresh() {
                let read = tokio::time::timeout(READ_TIMEOUT, read(engine)).await;
                let mut last = lock(&self.last);
                last.tried_at = Some(Instant::now());
                match read {
                    Ok(Ok(gauges)) => {
                        (last.gauges, last.read_at) = (Arc::new(gauges), last.tried_at);
                    }
                    Ok(Err(error)) => {
                        self.failures.fetch_add(1, Relaxed);
                        tracing::debug!(%error, "the gauges cannot be read");
                    }
                    Err(_elapsed) => drop(self.failures.fetch_add(1, Relaxed)),
                }
            }
        }
        lock(&self.last).gauges.clone()
    }

    /// Returns the age of the gauges: the time since the last read that succeeded, or since the start if none has.
    pub fn age_seconds(&self) -> f64 {
        lock(&self.last).read_at.unwrap_or(self.started_at).elapsed().as_secs_f64()
    }

    /// Returns the number of reads that failed.
    pub fn failures(&self) -> u64 {
        self.failures.load(Relaxed)
    }
}

async fn read(engine: &Inner) -> Result<Gauges, Error> {
    let mut namespaces = engine.store.namespaces().await?;
    namespaces.retain(|(_, name)| !selvedge_store::is_retired(name));
    namespaces.sort_unstable();
    let mut gauges =
        Gauges { unmeasured: namespaces.len().saturating_sub(NAMESPACES_MAX), ..Gauges::default() };
    namespaces.truncate(NAMESPACES_MAX);
    gauges.uncovered = engine.coverage.uncovered(&*engine.store).await?;
    gauges.flows = FlowState::ALL.map(|state| (state, 0)).to_vec();
    let reads: Vec<_> = namespaces.into_iter().map(|(id, name)| read_namespace(engine, id, name)).collect();
    let mut reads = stream::iter(reads).buffered(CONCURRENT_NAMESPACES);
    while let Some(read) = reads.try_next().await? {
        gauges.add(read);
    }
    gauges.inbox = engine.store.count_inbox(None, COUNT_BOUND).await?;
    let now = engine.metrics.store_time();
    let age_us = gauges.inbox.oldest.map_or(0, |oldest| now.micros() - oldest.micros());
    gauges.inbox_age_seconds = age_us.max(0) as f64 / 1e6;
    gauges.bound();
    Ok(gauges)
}

/// Returns the gauges of a namespace.
async fn read_namespace(engine: &Inner, id: NamespaceId, name: Name) -> Result<Gauges, Error> {
    let store = &*engine.store;
    let mut gauges = Gauges::default();
    read_depths(engine, id, &name, &mut gauges).await?;
    for state in FlowState::ALL {
        gauges.flows.push((state, store.count_flows(id, state, COUNT_BOUND).await?));
    }
    for kind in [GateKind::Lane, GateKind::Quota, GateKind::Budget] {
        for gate in store.list_gates(id, kind, None, GATES_READ).await? {
            read_gate(store, &name, gate, &mut gauges).await?;
        }
    }
    Ok(gauges)
}

/// Adds the depths of the lanes of a namespace.
async fn read_depths(
    engine: &Inner,
    namespace: NamespaceId,
    name: &Name,
    gauges: &mut Gauges,
) -> Result<(), Error> {
    let classes = engine.registry.classes();
    let lanes = classes.lanes(namespace);
    let ranges: Vec<_> = lanes.iter().flat_map(|lane| classes.ranges_of(namespace, lane)).collect();
    let mut found: HashMap<(Name, StateName), (u64, Timestamp)> = HashMap::new();
    for depth in engine.store.depths(namespace, &ranges, COUNT_BOUND).await? {
        // A class that another server interned is known a little later.
        let Some(lane) = classes.lane_of(depth.range) else { continue };
        let entry = found.entry((lane.clone(), depth.state)).or_insert((0, depth.oldest_at));
        *entry = (entry.0 + depth.count, entry.1.min(depth.oldest_at));
    }
    let now = engine.metrics.store_time();
    for lane in lanes {
        for state in StateName::ALL {
            let found = found.get(&(lane.clone(), state)).copied();
            if found.is_none() && !ALWAYS.contains(&state) {
                continue;
            }
            let (count, oldest_at) = found.unwrap_or((0, now));
            let age_seconds = (now.micros() - oldest_at.micros()).max(0) as f64 / 1e6;
            gauges.depths.push(LaneDepth {
                namespace: name.clone(),
                lane: lane.clone(),
                state,
                count,
                age_seconds,
            });
        }
    }
    Ok(())
}

/// Adds the use of a gate.
async fn read_gate(
    store: &dyn Store,
    namespace: &Name,
    gate: Gate,
    gauges: &mut Gauges,
) -> Result<(), Error> {
    let Some(config) = &gate.config else { return Ok(()) };
    let kind = gate.name.kind;
    let held = match kind {
        GateKind::Lane => None,
        _ if gate.state.holds => Some(store.held_by(gate.id(), COUNT_BOUND).await?),
        _ => Some(0),
    };
    let name = gate.name.name.clone();
    if kind == GateKind::Lane {
        gauges.paused.push((namespace.clone(), name.clone(), config.state == LaneState::Paused));
    }
    if kind == GateKind::Budget {
        read_budget(store, namespace, &gate, config, gauges).await?;
    }
    gauges.gates.push(GateUse {
        namespace: namespace.clone(),
        kind: kind.as_str(),
        name,
        active: gate.active.into(),
        limit: config.concurrency.map(u64::from),
        held,
    });
    Ok(())
}

async fn read_budget(
    store: &dyn Store,
    namespace: &Name,
    gate: &Gate,
    config: &Config,
    gauges: &mut Gauges,
) -> Result<(), Error> {
    let parts = match config.scope {
        BudgetScope::Namespace => vec![gate.clone()],
        BudgetScope::Flow | BudgetScope::Lane => store.parts_of(&gate.name, GATES_READ).await?,
    };
    for (dimension, limit) in &config.limits {
        let amount = |amount: Option<&Amount>| amount.map_or(0.0, |amount| amount.millionths() as f64 / 1e6);
        let uses = parts
            .iter()
            .map(|part| (amount(part.state.used.get(dimension)), amount(part.state.reserved.get(dimension))));
        let most = uses.max_by(|a, b| (a.0 + a.1).total_cmp(&(b.0 + b.1)));
        let (used, reserved) = most.unwrap_or_default();
        gauges.budgets.push(BudgetUse {
            namespace: namespace.clone(),
            name: gate.name.name.clone(),
            dimension: dimension.clone(),
            used,
            reserved,
            hard: limit.hard.as_ref().map(|hard| amount(Some(hard))),
            soft: limit.soft.as_ref().map(|soft| amount(Some(soft))),
        });
    }
    Ok(())
}

impl Gauges {
    fn add(&mut self, namespace: Gauges) {
        let Gauges { depths, flows, gates, paused, budgets, unmeasured, .. } = namespace;
        self.depths.extend(depths);
        self.flows.iter_mut().zip(flows).for_each(|((_, total), (_, count))| *total += count);
        self.gates.extend(gates);
        self.paused.extend(paused);
        self.budgets.extend(budgets);
        self.unmeasured += unmeasured;
    }

    /// Keeps the largest [`NAMED_MAX`] of each family by name, and sums up the others where a sum says something.
    fn bound(&mut self) {
        self.bound_lanes();
        self.gates.sort_by_key(|gate| std::cmp::Reverse((gate.held.unwrap_or(0), gate.active)));
        if self.gates.len() > NAMED_MAX {
            let other = Name::trusted(OTHER);
            for gate in self.gates.split_off(NAMED_MAX) {
                let sum = self.gates[NAMED_MAX..].iter_mut().find(|sum| sum.kind == gate.kind);
                match sum {
                    Some(sum) => {
                        sum.active += gate.active;
                        sum.limit =
                            sum.limit.zip(gate.limit).map(|(a, b)| a + b).or(sum.limit).or(gate.limit);
                        sum.held = sum.held.zip(gate.held).map(|(a, b)| a + b);
                    }
                    None => {
                        self.gates.push(GateUse { namespace: other.clone(), name: other.clone(), ..gate })
                    }
                }
            }
        }
        self.paused.sort_by_key(|(.., is_paused)| !is_paused);
        self.paused.truncate(NAMED_MAX);
        let share = |budget: &BudgetUse| {
            (budget.used + budget.reserved) / budget.hard.or(budget.soft).unwrap_or(f64::MAX)
        };
        self.budgets.sort_by(|a, b| share(b).total_cmp(&share(a)));
        self.budgets.truncate(NAMED_MAX);
    }

    /// Keeps the deepest lanes by name, and sums up the others by state. The sum has the age of the oldest execution that does
    /// not wait in a paused lane: an operator expects those to wait.
    fn bound_lanes(&mut self) {
        let mut totals: HashMap<(Name, Name), u64> = HashMap::new();
        for depth in &self.depths {
            *totals.entry((depth.namespace.clone(), depth.lane.clone())).or_default() += depth.count;
        }
        if totals.len() <= NAMED_MAX {
            return;
        }
        let mut lanes: Vec<((Name, Name), u64)> = totals.into_iter().collect();
        lanes.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        lanes.truncate(NAMED_MAX);
        let named: HashMap<(Name, Name), u64> = lanes.into_iter().collect();
        let is_paused = |(namespace, lane, is_paused): &(Name, Name, bool)| {
            is_paused.then(|| (namespace.clone(), lane.clone()))
        };
        let paused: HashSet<(Name, Name)> = self.paused.iter().filter_map(is_paused).collect();
        let other = Name::trusted(OTHER);
        let mut sums: HashMap<StateName, LaneDepth> = HashMap::new();
        let mut kept = Vec::new();
        for depth in std::mem::take(&mut self.depths) {
            let lane = (depth.namespace.clone(), depth.lane.clone());
            if named.contains_key(&lane) {
                kept.push(depth);
                continue;
            }
            let sum = sums.entry(depth.state).or_insert_with(|| LaneDepth {
                namespace: other.clone(),
                lane: other.clone(),
                state: depth.state,
                count: 0,
                age_seconds: 0.0,
            });
            sum.count += depth.count;
            if depth.state != StateName::Waiting || !paused.contains(&lane) {
                sum.age_seconds = sum.age_seconds.max(depth.age_seconds);
            }
        }
        kept.extend(sums.into_values());
        self.depths = kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn before_the_first_read_the_gauges_are_as_old_as_the_engine() {
        let started_at =
            Instant::now().checked_sub(Duration::from_secs(5)).expect("the machine runs for 5 s");
        let reader = GaugeReader { started_at, ..GaugeReader::default() };
        assert!(reader.age_seconds() >= 5.0);
        lock(&reader.last).read_at = Some(Instant::now());
        assert!(reader.age_seconds() < 5.0, "the age of the last read");
    }

    #[test]
    fn lanes_and_gates_beyond_the_bound_are_summed_under_a_reserved_name() {
        let name = |text: &str| Name::trusted(text);
        let depth = |number: usize| LaneDepth {
            namespace: name("n"),
            lane: name(&format!("lane {number}")),
            state: StateName::Waiting,
            count: number as u64,
            age_seconds: number as f64,
        };
        let gate = |number: usize| GateUse {
            namespace: name("n"),
            kind: "quota",
            name: name(&format!("quota {number}")),
            active: number as u64,
            limit: Some(1),
            held: Some(0),
        };
        let count = NAMED_MAX + 3;
        let mut gauges = Gauges {
            depths: (0..count).map(depth).collect(),
            gates: (0..count).map(gate).collect(),
            paused: vec![(name("n"), name("lane 2"), true), (name("n"), name("lane 1"), false)],
            ..Gauges::default()
        };
        gauges.bound();
        assert_eq!((gauges.depths.len(), gauges.gates.len()), (NAMED_MAX + 1, NAMED_MAX + 1));
        let rest = gauges.depths.iter().find(|depth| depth.lane.as_str() == OTHER).expect("there is a sum");
        assert_eq!((rest.count, rest.age_seconds), (1 + 2, 1.0), "lane 2 is paused");
        let rest = gauges.gates.iter().find(|gate| gate.name.as_str() == OTHER).expect("there is a sum");
        assert_eq!((rest.active, rest.limit), (1 + 2, Some(3)));
    }
}
