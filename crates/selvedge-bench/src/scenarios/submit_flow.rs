//! `submit-flow`: the submission of one large flow in one call, into a store that already holds many flows.
//!
//! The flow has layers of a hundred nodes, each with two upstreams in the previous layer. The stored flows have two
//! nodes each and were submitted to the engine.
//!
//! Measures the time of the call, and nodes per second. Compared with the throughput of the floor; runs with different
//! numbers of stored flows should give the same time.

use crate::harness::{TestBed, graphs};
use crate::report::{Report, Times, rounded};
use crate::{Error, Load, Place, task_result};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tokio::task::JoinSet;

/// The parameters of the scenario.
#[derive(Clone, Debug)]
pub struct Study {
    /// The number of nodes of the flow. Default: 10 000.
    pub nodes: usize,
    /// The number of flows that are stored before. Default: 10.
    pub stored: u64,
    /// The number of times the flow is submitted. Default: 5.
    pub rounds: usize,
}

impl Default for Study {
    fn default() -> Self {
        Study { nodes: 10_000, stored: 10, rounds: 5 }
    }
}

/// The number of concurrent calls that store flows.
const STORING: usize = 200;

/// Runs the scenario.
pub async fn run(place: &Place, load: &Load, study: &Study) -> Result<Report, Error> {
    let bed = TestBed::open(place, load).await?;
    let report = bed.report("submit-flow", place, load);
    let report = measure(&bed, study, report).await;
    bed.close().await?;
    report
}

async fn measure(bed: &TestBed, study: &Study, report: Report) -> Result<Report, Error> {
    let begun = Instant::now();
    store_flows(bed, study.stored.max(1)).await?;
    let storing = begun.elapsed();
    let graph = graphs::layers(study.nodes);
    let before = bed.counters().await?;
    let mut times = Vec::new();
    for _ in 0..study.rounds {
        let graph = graph.clone();
        let begun = Instant::now();
        bed.target.submit_flow(graph).await?;
        times.push(begun.elapsed());
    }
    let cost = bed.cost_since(before).await?;
    let executions = (study.rounds * study.nodes) as u64;
    let seconds: f64 = times.iter().map(|time| time.as_secs_f64()).sum();
    let mut report = Report {
        executions,
        throughput: Some(executions as f64 / seconds),
        times: Times::of(times),
        commits: cost.commits_per(executions),
        wal_bytes: cost.wal_bytes_per(executions),
        ..report
    };
    report.more.insert("commits_per_flow".into(), json!(cost.commits_per(study.rounds as u64)));
    report.more.insert("storing_s".into(), rounded(storing.as_secs_f64()));
    report.settings.extend([
        ("nodes".to_owned(), json!(study.nodes)),
        ("edges".to_owned(), json!(graph.edges.len())),
        ("stored".to_owned(), json!(study.stored)),
        ("rounds".to_owned(), json!(study.rounds)),
    ]);
    Ok(report)
}

/// Submits this many small flows.
async fn store_flows(bed: &TestBed, flows: u64) -> Result<(), Error> {
    let submitted = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..STORING {
        let (target, submitted) = (bed.target.clone(), submitted.clone());
        tasks.spawn(async move {
            while submitted.fetch_add(1, Ordering::Relaxed) < flows {
                target.submit_flow(graphs::chain(2, graphs::JOIN)).await?;
            }
            Ok::<(), Error>(())
        });
    }
    while let Some(joined) = tasks.join_next().await {
        task_result(joined)?;
    }
    Ok(())
}
