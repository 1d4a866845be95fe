//! The content of the overview, and its sharing: however many people look at a namespace, it is read once for all of them.

use super::COUNT_MAX;
use super::attention::{self, Matter, Situation};
use super::minutes::{LastHour, ended};
use selvedge_core::filter::{Filter, Payloads};
use selvedge_core::flow::FlowFilter;
use selvedge_core::{Name, NamespaceId, Timestamp};
use selvedge_engine::{ClassDepth, Error, FlowView, GateView, Namespace, StateCount, View, WorkerView};
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The most executions and flows that are listed.
const NEWEST: u32 = 8;
/// The most lanes that are listed: those with the most executions in the last hour.
const LANES_MAX: usize = 20;
/// A read is used again for this many times its own duration, and at most for [`SHARED_MAX`]: reading takes a tenth of the time.
const SHARED_FACTOR: u32 = 10;
const SHARED_MAX: Duration = Duration::from_secs(2);
/// The number of namespaces at which all shared reads are forgotten.
const NAMESPACES_MAX: usize = 1000;

/// The content of the page.
pub struct OverviewData {
    /// The store's time.
    pub now: Timestamp,
    /// Live executions by state, and failed ones.
    pub counts: Vec<StateCount>,
    /// Matters that need attention.
    pub matters: Vec<Matter>,
    pub hour: LastHour,
    /// The lanes that are listed, by name.
    pub lanes: Vec<GateView>,
    /// The number of lanes that are not listed.
    pub lanes_left_out: usize,
    pub workers: Vec<WorkerView>,
    /// The newest executions.
    pub executions: Vec<View>,
    /// The newest flows.
    pub flows: Vec<FlowView>,
}

impl OverviewData {
    async fn read(namespace: &Namespace) -> Result<OverviewData, Error> {
        let (all, all_flows) = (Filter::all(namespace.id()), FlowFilter::all(namespace.id()));
        let now = namespace.now().await?;
        let (counts, depths, paused, workers, hour, executions, flows) = tokio::try_join!(
            namespace.count_by_state(COUNT_MAX),
            namespace.depths(),
            namespace.paused_lanes(),
            namespace.workers(),
            LastHour::read(namespace, now),
            namespace.list(&all, None, NEWEST, Payloads::NONE),
            namespace.flows(&all_flows, None, NEWEST),
        )?;
        let (listed, lanes_left_out) = lanes_listed(&hour, &depths, &paused);
        let situation = Situation {
            now,
            counts: &counts,
            depths: &depths,
            paused: &paused,
            workers: &workers,
            hour: &hour,
        };
        let (lanes, matters) =
            tokio::try_join!(namespace.lanes(&listed), attention::matters(namespace, &situation))?;
        let (executions, flows) = (executions.0, flows.0);
        Ok(OverviewData { now, counts, matters, hour, lanes, lanes_left_out, workers, executions, flows })
    }
}

/// Returns the lanes with the most executions, by name, and the number of other lanes.
fn lanes_listed(hour: &LastHour, depths: &[ClassDepth], paused: &[Name]) -> (Vec<Name>, usize) {
    let mut lanes: HashMap<&Name, u64> = paused.iter().map(|lane| (lane, 1)).collect();
    for depth in depths {
        *lanes.entry(&depth.lane).or_default() += depth.count;
    }
    for (lane, minutes) in &hour.lanes {
        *lanes.entry(lane).or_default() += minutes.sum(|minute| minute.submitted + ended(minute));
    }
    let mut lanes: Vec<(&Name, u64)> = lanes.into_iter().collect();
    lanes.sort_by_key(|(lane, count)| (Reverse(*count), *lane));
    let left_out = lanes.len().saturating_sub(LANES_MAX);
    let listed: BTreeSet<Name> = lanes.into_iter().take(LANES_MAX).map(|(lane, _)| lane.clone()).collect();
    (listed.into_iter().collect(), left_out)
}

/// The last read of each namespace. Clones share them.
#[derive(Clone, Default)]
pub struct SharedOverviews(Arc<Mutex<HashMap<NamespaceId, Arc<Slot>>>>);

/// The last read of a namespace. Locked during a read, so that concurrent callers share it.
type Slot = tokio::sync::Mutex<Option<SharedRead>>;

struct SharedRead {
    data: Arc<OverviewData>,
    usable_until: Instant,
}

impl SharedOverviews {
    /// Returns the content for a namespace: the last read, if it is recent enough for its cost, or a new one.
    pub async fn get(&self, namespace: &Namespace) -> Result<Arc<OverviewData>, Error> {
        let slot = self.slot(namespace.id());
        let mut last = slot.lock().await;
        if let Some(shared) = last.as_ref().filter(|shared| Instant::now() < shared.usable_until) {
            return Ok(shared.data.clone());
        }
        let begun = Instant::now();
        let data = Arc::new(OverviewData::read(namespace).await?);
        let usable = (begun.elapsed() * SHARED_FACTOR).min(SHARED_MAX);
        *last = Some(SharedRead { data: data.clone(), usable_until: Instant::now() + usable });
        Ok(data)
    }

    fn slot(&self, namespace: NamespaceId) -> Arc<Slot> {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.len() >= NAMESPACES_MAX && !slots.contains_key(&namespace) {
            slots.clear();
        }
        slots.entry(namespace).or_default().clone()
    }
}
