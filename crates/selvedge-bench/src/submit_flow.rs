//! `submit-flow`: one large flow in one call, into a store that holds many flows already.
//!
//! The flow has layers of a hundred nodes, each of which waits for two of the layer before. What was stored before are
//! flows of two nodes, made through the engine.

use crate::bed::Bed;
use crate::report::{Report, Times, rounded};
use crate::shape;
use crate::{Error, Load, Place};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tokio::task::JoinSet;

/// How much there is.
#[derive(Clone, Debug)]
pub struct Study {
    /// How many nodes the flow has.
    pub nodes: usize,
    /// How many flows are stored before.
    pub stored: u64,
    /// How often it is submitted.
    pub rounds: usize,
}

impl Default for Study {
    fn default() -> Self {
        Study { nodes: 10_000, stored: 10, rounds: 5 }
    }
}

/// How many flows are stored at once.
const STORING: usize = 200;

/// Runs it, next to its floor.
pub async fn run(place: &Place, load: &Load, study: &Study) -> Result<Report, Error> {
    let bed = Bed::open(place, load).await?;
    let report = bed.report("submit-flow", place, load);
    let report = measure(&bed, study, report).await;
    bed.close().await?;
    report
}

async fn measure(bed: &Bed, study: &Study, report: Report) -> Result<Report, Error> {
    let begun = Instant::now();
    store(bed, study.stored.max(1)).await?;
    let storing = begun.elapsed();
    let graph = shape::layers(study.nodes);
    let before = bed.figures().await?;
    let mut times = Vec::new();
    for _ in 0..study.rounds {
        let graph = graph.clone();
        let begun = Instant::now();
        bed.target.submit_flow(graph).await?;
        times.push(begun.elapsed());
    }
    let spent = bed.spent(before).await?;
    let executions = (study.rounds * study.nodes) as u64;
    let seconds: f64 = times.iter().map(|time| time.as_secs_f64()).sum();
    let mut report = Report {
        executions,
        throughput: Some(executions as f64 / seconds),
        times: Times::of(times),
        commits: spent.commits_per(executions),
        wal_bytes: spent.wal_bytes_per(executions),
        ..report
    };
    report.more.insert("commits_per_flow".into(), json!(spent.commits_per(study.rounds as u64)));
    report.more.insert("storing_s".into(), rounded(storing.as_secs_f64()));
    report.settings.extend([
        ("nodes".to_owned(), json!(study.nodes)),
        ("edges".to_owned(), json!(graph.edges.len())),
        ("stored".to_owned(), json!(study.stored)),
        ("rounds".to_owned(), json!(study.rounds)),
    ]);
    Ok(report)
}

/// Stores so many small flows.
async fn store(bed: &Bed, flows: u64) -> Result<(), Error> {
    let begun = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..STORING {
        let (target, begun) = (bed.target.clone(), begun.clone());
        tasks.spawn(async move {
            while begun.fetch_add(1, Ordering::Relaxed) < flows {
                target.submit_flow(shape::chain(2, shape::JOIN)).await?;
            }
            Ok::<(), Error>(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.map_err(|error| Error::Usage(error.to_string()))??;
    }
    Ok(())
}
