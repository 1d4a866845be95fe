//! The engine that a benchmark drives: in this process, or behind the HTTP API of a server. Both offer the same calls.

use super::graphs::{input, mark};
use super::http::Client;
use super::workload::{ReportedUsage, Requirements};
use crate::{Error, Load};
use bytes::Bytes;
use selvedge_core::plan::GraphDraft;
use selvedge_core::rules::claim::{ClaimDraft, Claimed};
use selvedge_core::rules::flows::submit::FlowDraft;
use selvedge_core::rules::gates::budget::Spend;
use selvedge_core::rules::report::{Fence, Op};
use selvedge_core::{Draft, FlowId};
use selvedge_engine::{ClaimWait, Engine, Namespace, ReportItem};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The result of every execution.
const RESULT: &[u8] = b"{\"ok\":true}";
/// The default time for which a claim waits.
const CLAIM_WAIT: Duration = Duration::from_millis(250);

/// The engine and the transport to it.
#[derive(Clone)]
pub enum Target {
    /// The engine in this process.
    InProcess(Namespace),
    /// A server that is called over HTTP.
    Http(Arc<Client>),
}

/// An execution that the benchmark has claimed and has to complete.
#[derive(Clone, Copy, Debug)]
pub struct ActiveExecution {
    /// The fence of its lease.
    pub fence: Fence,
    /// The mark of its input. For an execution that is not a node, the time of its submission in nanoseconds since the
    /// start of the benchmark.
    pub mark: u64,
}

impl ActiveExecution {
    /// Returns the time from the submission to `now`, both in nanoseconds since the start of the benchmark.
    pub fn time_until(&self, now: u64) -> Duration {
        Duration::from_nanos(now.saturating_sub(self.mark))
    }
}

/// A worker of the benchmark: the settings of its claims and reports.
#[derive(Clone, Debug)]
pub struct BenchWorker {
    /// The name of its instance.
    pub instance: String,
    /// The lanes that it claims from.
    pub lanes: Vec<String>,
    /// The largest number of executions in one claim.
    pub max: usize,
    /// The time for which a claim waits for work. Default: 250 milliseconds.
    pub wait: Duration,
    /// The capabilities that it offers.
    pub capabilities: Vec<String>,
    /// The usage that it reports with each completion.
    pub usage: Option<ReportedUsage>,
}

impl BenchWorker {
    /// Creates a worker of the lane `default`, without capabilities.
    pub fn new(index: usize, max: usize) -> Self {
        BenchWorker {
            instance: format!("bench-{index}"),
            lanes: vec!["default".into()],
            max,
            wait: CLAIM_WAIT,
            capabilities: Vec::new(),
            usage: None,
        }
    }

    /// Returns the draft of a claim.
    pub fn claim(&self) -> ClaimDraft {
        ClaimDraft {
            worker: "bench".into(),
            instance: self.instance.clone(),
            lanes: self.lanes.clone(),
            kinds: None,
            capabilities: self.capabilities.clone(),
            max: self.max as u32,
            lease_ttl_ms: 60_000,
            incarnation: None,
        }
    }

    /// Returns a claim that waits for work.
    pub fn waiting_claim(&self) -> ClaimWait {
        ClaimWait { claim: self.claim(), wait: self.wait, call_key: None }
    }
}

/// Extracts the parts of a claimed execution that the benchmark needs.
pub fn active_execution(claimed: &Claimed) -> Option<ActiveExecution> {
    Some(ActiveExecution { fence: Fence::of(&claimed.execution)?, mark: mark(&claimed.input) })
}

impl Target {
    /// Returns the target of a load. For HTTP, starts a server in this process on a loopback port.
    pub async fn new(engine: &Engine, load: &Load) -> Result<Target, Error> {
        let namespace = engine.namespace("default").await?;
        match load.http {
            false => Ok(Target::InProcess(namespace)),
            true => Ok(Target::Http(Arc::new(Client::serve(engine.clone(), load.keys).await?))),
        }
    }

    /// Submits `count` executions to a lane, marked with the time since `started`.
    pub async fn submit(&self, count: usize, lane: &str, started: Instant) -> Result<(), Error> {
        self.submit_with(count, &[Requirements::lane(lane)], started.elapsed().as_nanos() as u64).await
    }

    /// Submits `count` executions with this mark, which have these requirements in turn.
    pub async fn submit_with(
        &self,
        count: usize,
        requirements: &[Requirements],
        mark: u64,
    ) -> Result<(), Error> {
        let input = input(mark);
        match self {
            Target::InProcess(namespace) => {
                let input = Bytes::from(input);
                let draft = |requirements: &Requirements| Draft {
                    input: input.clone(),
                    lane: requirements.lane.clone(),
                    capabilities: requirements.capabilities.clone(),
                    required_gates: requirements.required_gates.clone(),
                    ..Draft::new("noop")
                };
                let drafts = requirements.iter().cycle().take(count).map(|one| Ok(draft(one))).collect();
                for answer in namespace.submit_many(drafts, None).await? {
                    answer.map_err(selvedge_engine::Error::from)?;
                }
                Ok(())
            }
            Target::Http(client) => client.submit(count, requirements, &input).await,
        }
    }

    /// Submits a flow.
    pub async fn submit_flow(&self, graph: GraphDraft) -> Result<FlowId, Error> {
        match self {
            Target::InProcess(namespace) => {
                let draft = FlowDraft { graph, ..FlowDraft::default() };
                Ok(namespace.submit_flow(draft, None).await?.flow.id)
            }
            Target::Http(client) => client.submit_flow(&graph).await,
        }
    }

    /// Completes executions and claims more in the same call. If there is nothing to complete, the claim waits for
    /// work.
    pub async fn work(
        &self,
        active: &[ActiveExecution],
        worker: &BenchWorker,
    ) -> Result<Vec<ActiveExecution>, Error> {
        match self {
            Target::InProcess(namespace) if active.is_empty() => {
                let claimed = namespace.claim(worker.waiting_claim()).await?;
                Ok(claimed.iter().filter_map(active_execution).collect())
            }
            Target::InProcess(namespace) => {
                let claim = Some(worker.claim());
                let claimed = report_all(namespace, completions(namespace, active, worker), claim).await?;
                Ok(claimed.iter().filter_map(active_execution).collect())
            }
            Target::Http(client) => client.work(active, worker).await,
        }
    }

    /// Completes executions.
    pub async fn complete(&self, active: &[ActiveExecution], worker: &BenchWorker) -> Result<(), Error> {
        match self {
            Target::InProcess(namespace) => {
                report_all(namespace, completions(namespace, active, worker), None).await.map(drop)
            }
            Target::Http(client) => client.complete(active, worker).await,
        }
    }
}

/// Returns the operations that complete executions, each preceded by the usage that the worker reports.
fn completions(namespace: &Namespace, active: &[ActiveExecution], worker: &BenchWorker) -> Vec<ReportItem> {
    let mut ops = Vec::with_capacity(active.len());
    for ActiveExecution { fence, .. } in active {
        if let Some(ReportedUsage { budget, amounts }) = worker.usage.clone() {
            let execution = Some(fence.execution);
            let spend =
                Spend { namespace: namespace.id(), budget, usage: amounts, dedup_key: None, execution };
            ops.push(Ok((*fence, None, Op::Usage(spend))));
        }
        ops.push(Ok((*fence, None, Op::Complete { result: Bytes::from_static(RESULT) })));
    }
    ops
}

/// Reports operations and claims in the same call. Fails if any operation is refused.
pub async fn report_all(
    namespace: &Namespace,
    ops: Vec<ReportItem>,
    claim: Option<ClaimDraft>,
) -> Result<Vec<Claimed>, Error> {
    let (results, claimed) = namespace.report(ops, claim).await?;
    for result in results {
        result.map_err(selvedge_engine::Error::from)?;
    }
    Ok(claimed)
}
