//! What a benchmark drives: the engine in this process, or a server over HTTP. The same calls, two transports.

use crate::http::Client;
use crate::shape::{input, mark};
use crate::terms::{Asks, Spends};
use crate::{Error, Load};
use bytes::Bytes;
use selvedge_core::plan::GraphDraft;
use selvedge_core::rules::claim::{ClaimDraft, Claimed};
use selvedge_core::rules::gates::budget::Spend;
use selvedge_core::rules::report::{Fence, Op};
use selvedge_core::rules::submit_flow::FlowDraft;
use selvedge_core::{Draft, FlowId};
use selvedge_engine::{ClaimWait, Engine, Namespace};
use std::time::{Duration, Instant};

/// The result every handler gives.
const RESULT: &[u8] = b"{\"ok\":true}";
/// How long a claim waits, by default.
const WAIT: Duration = Duration::from_millis(250);

/// Something that takes submissions and gives claims.
#[derive(Clone)]
pub enum Target {
    /// The engine in this process.
    InProcess(Namespace),
    /// A server.
    Http(Client),
}

/// A claimed execution: what is needed to complete it, and what its input says.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// Its fence.
    pub fence: Fence,
    /// Its mark. What is submitted alone is marked with its time: nanoseconds from the start of the benchmark.
    pub mark: u64,
}

/// Where a worker claims.
#[derive(Clone, Debug)]
pub struct Claimer {
    /// Its instance.
    pub instance: String,
    /// Its lanes.
    pub lanes: Vec<String>,
    /// How many at a time.
    pub max: usize,
    /// How long it waits when there is nothing.
    pub wait: Duration,
    /// What it is capable of.
    pub capabilities: Vec<String>,
    /// What each of its completions reports as spent.
    pub spends: Option<Spends>,
}

impl Claimer {
    /// A worker on the default lane.
    pub fn new(index: usize, max: usize) -> Self {
        Claimer {
            instance: format!("bench-{index}"),
            lanes: vec!["default".into()],
            max,
            wait: WAIT,
            capabilities: Vec::new(),
            spends: None,
        }
    }

    /// The claim it makes.
    pub fn draft(&self) -> ClaimDraft {
        ClaimDraft {
            worker: "bench".into(),
            instance: self.instance.clone(),
            lanes: self.lanes.clone(),
            kinds: None,
            capabilities: self.capabilities.clone(),
            max: self.max as u32,
            lease_ttl_ms: 60_000,
        }
    }
}

/// What is needed of what was claimed.
pub fn taken(one: &Claimed) -> Option<Taken> {
    Some(Taken { fence: Fence::of(&one.execution)?, mark: mark(&one.input) })
}

impl Target {
    /// The target that a load asks for; the server runs in this process, on a loopback port.
    pub async fn new(engine: &Engine, load: &Load) -> Result<Target, Error> {
        let namespace = engine.namespace("default").await?;
        match load.http {
            false => Ok(Target::InProcess(namespace)),
            true => Ok(Target::Http(Client::serve(engine.clone()).await?)),
        }
    }

    /// Submits `count` executions to a lane.
    pub async fn submit(&self, count: usize, lane: &str, started: Instant) -> Result<(), Error> {
        self.submit_asking(count, &[Asks::lane(lane)], started.elapsed().as_nanos() as u64).await
    }

    /// Submits `count` executions with this mark that take turns in what they ask for.
    pub async fn submit_asking(&self, count: usize, asks: &[Asks], mark: u64) -> Result<(), Error> {
        let input = input(mark);
        match self {
            Target::InProcess(namespace) => {
                let input = Bytes::from(input);
                let draft = |asks: &Asks| Draft {
                    input: input.clone(),
                    lane: asks.lane.clone(),
                    capabilities: asks.capabilities.clone(),
                    draws: asks.draws.clone(),
                    ..Draft::new("noop")
                };
                let drafts = asks.iter().cycle().take(count).map(|asks| Ok(draft(asks))).collect();
                for answer in namespace.submit_many(drafts, None).await? {
                    answer.map_err(selvedge_engine::Error::from)?;
                }
                Ok(())
            }
            Target::Http(client) => client.submit(count, asks, &input).await,
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

    /// Completes what was taken and takes more; waits a moment if there is nothing to complete and nothing to take.
    pub async fn work(&self, done: &[Taken], claimer: &Claimer) -> Result<Vec<Taken>, Error> {
        match self {
            Target::InProcess(namespace) if done.is_empty() => {
                let wanted = ClaimWait { claim: claimer.draft(), wait: claimer.wait, operation: None };
                Ok(namespace.claim(wanted).await?.iter().filter_map(taken).collect())
            }
            Target::InProcess(namespace) => complete(namespace, done, claimer, true).await,
            Target::Http(client) => client.work(done, claimer).await,
        }
    }

    /// Completes what was taken.
    pub async fn complete(&self, done: &[Taken], claimer: &Claimer) -> Result<(), Error> {
        match self {
            Target::InProcess(namespace) => complete(namespace, done, claimer, false).await.map(drop),
            Target::Http(client) => client.complete(done, claimer).await,
        }
    }
}

async fn complete(
    namespace: &Namespace,
    done: &[Taken],
    claimer: &Claimer,
    claims: bool,
) -> Result<Vec<Taken>, Error> {
    let mut ops = Vec::with_capacity(done.len());
    for Taken { fence, .. } in done {
        if let Some(Spends { budget, usage }) = claimer.spends.clone() {
            let execution = Some(fence.execution);
            let spend = Spend { namespace: namespace.id(), budget, usage, dedup_key: None, execution };
            ops.push(Ok((*fence, None, Op::Usage(spend))));
        }
        ops.push(Ok((*fence, None, Op::Complete { result: Bytes::from_static(RESULT) })));
    }
    let (results, claimed) = namespace.report(ops, claims.then(|| claimer.draft())).await?;
    for result in results {
        result.map_err(selvedge_engine::Error::from)?;
    }
    Ok(claimed.iter().filter_map(taken).collect())
}
