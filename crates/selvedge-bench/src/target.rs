//! What a benchmark drives: the engine in this process, or a server over HTTP. The same calls, two transports.

use crate::http::Client;
use crate::{Error, Load};
use bytes::Bytes;
use selvedge_core::Draft;
use selvedge_core::rules::claim::{ClaimDraft, Claimed};
use selvedge_core::rules::report::{Fence, Op};
use selvedge_engine::{ClaimWait, Engine, Namespace};
use std::time::{Duration, Instant};

/// The result every handler gives.
const RESULT: &[u8] = b"{\"ok\":true}";
/// How long a claim waits.
const WAIT: Duration = Duration::from_millis(250);

/// Something that takes submissions and gives claims.
#[derive(Clone)]
pub enum Target {
    /// The engine in this process.
    InProcess(Namespace),
    /// A server.
    Http(Client),
}

/// A claimed execution: what is needed to complete it, and when it was submitted.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// Its fence.
    pub fence: Fence,
    /// Nanoseconds from the start of the benchmark to its submission.
    pub submitted: u64,
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
}

impl Claimer {
    /// A worker on the default lane.
    pub fn new(index: usize, max: usize) -> Self {
        Claimer { instance: format!("bench-{index}"), lanes: vec!["default".into()], max }
    }

    fn draft(&self) -> ClaimDraft {
        ClaimDraft {
            worker: "bench".into(),
            instance: self.instance.clone(),
            lanes: self.lanes.clone(),
            kinds: None,
            capabilities: Vec::new(),
            max: self.max as u32,
            lease_ttl_ms: 60_000,
        }
    }
}

/// The input of an execution: when it was submitted.
pub fn input(started: Instant) -> String {
    format!("{{\"t\":{}}}", started.elapsed().as_nanos())
}

/// When an input says that it was submitted.
pub fn submitted(input: &[u8]) -> u64 {
    let digits = input.iter().filter(|byte| byte.is_ascii_digit());
    digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0'))
}

fn taken(one: &Claimed) -> Option<Taken> {
    Some(Taken { fence: Fence::of(&one.execution)?, submitted: submitted(&one.input) })
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
        let input = input(started);
        match self {
            Target::InProcess(namespace) => {
                let draft = Draft { input: Bytes::from(input), lane: lane.into(), ..Draft::new("noop") };
                let drafts = (0..count).map(|_| Ok(draft.clone())).collect();
                for answer in namespace.submit_many(drafts, None).await? {
                    answer.map_err(selvedge_engine::Error::from)?;
                }
                Ok(())
            }
            Target::Http(client) => client.submit(count, lane, &input).await,
        }
    }

    /// Completes what was taken and takes more; waits a moment if there is nothing.
    pub async fn work(&self, done: &[Taken], claimer: &Claimer) -> Result<Vec<Taken>, Error> {
        // Whoever has something to report wants to know that it is done before waiting for more.
        let wait = if done.is_empty() { WAIT } else { Duration::ZERO };
        match self {
            Target::InProcess(namespace) => {
                let complete = || Op::Complete { result: Bytes::from_static(RESULT) };
                let ops = done.iter().map(|taken| Ok((taken.fence, None, complete()))).collect();
                if done.is_empty() {
                    let wanted = ClaimWait { claim: claimer.draft(), wait, operation: None };
                    return Ok(namespace.claim(wanted).await?.iter().filter_map(taken).collect());
                }
                let (results, claimed) = namespace.report(ops, Some(claimer.draft())).await?;
                for result in results {
                    result.map_err(selvedge_engine::Error::from)?;
                }
                Ok(claimed.iter().filter_map(taken).collect())
            }
            Target::Http(client) => client.work(done, claimer, wait).await,
        }
    }
}
