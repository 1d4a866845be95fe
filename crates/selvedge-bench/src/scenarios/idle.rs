//! `idle`: the resources of an engine without work, with all reconcilers running and one waiting claim.
//!
//! Measures transactions per second (PostgreSQL), processor time in percent and resident memory. It has no floor; the
//! figures stand for themselves.

use crate::floor::postgres::connect;
use crate::harness::BenchWorker;
use crate::place::FreshStore;
use crate::report::{Report, rounded};
use crate::{Error, Place};
use selvedge_core::rules::claim::ClaimDraft;
use selvedge_engine::{ClaimWait, Engine, Options};
use std::time::{Duration, Instant};

/// Time before the measurement, in which the engine settles.
const SETTLE: Duration = Duration::from_secs(2);
/// Time of the measurement.
const DURATION: Duration = Duration::from_secs(30);

/// Runs the scenario.
pub async fn run(place: &Place) -> Result<Report, Error> {
    let FreshStore { store, cleanup } = place.create_store().await?;
    let engine = Engine::start(store, Options::default()).await?;
    let namespace = engine.namespace("default").await?;
    let waiting_claim = tokio::spawn(async move {
        let claim = ClaimDraft { lease_ttl_ms: 30_000, ..BenchWorker::new(0, 10).claim() };
        let _ = namespace.claim(ClaimWait { claim, wait: DURATION * 2, call_key: None }).await;
    });
    tokio::time::sleep(SETTLE).await;
    let before = (transactions(place).await?, cpu_seconds());
    let started = Instant::now();
    tokio::time::sleep(DURATION).await;
    let seconds = started.elapsed().as_secs_f64();
    let after = (transactions(place).await?, cpu_seconds());
    waiting_claim.abort();
    engine.shutdown().await;
    cleanup.run().await?;
    let mut report =
        Report { scenario: "idle", store: place.name(), transport: "in_process", ..Report::default() };
    if let (Some(before), Some(after)) = (before.0, after.0) {
        // Reading the counter is a transaction too.
        report.more.insert("transactions_per_s".into(), rounded((after - before - 1) as f64 / seconds));
    }
    report.more.insert("cpu_percent".into(), rounded((after.1 - before.1) / seconds * 100.0));
    report.more.insert("memory_mb".into(), rounded(memory_mb()));
    Ok(report)
}

/// Reads the number of transactions of the database. Backends publish their counts after they have been idle for a
/// while.
async fn transactions(place: &Place) -> Result<Option<i64>, Error> {
    let Place::Postgres(url) = place else {
        return Ok(None);
    };
    let client = connect(url).await?;
    let row = client
        .query_one(
            "select xact_commit + xact_rollback from pg_stat_database where datname = current_database()",
            &[],
        )
        .await?;
    Ok(Some(row.get(0)))
}

/// Reads the processor time of this process, in seconds. Returns 0 where `/proc` does not exist.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

/// Reads the resident memory of this process, in MB. Returns 0 where `/proc` does not exist.
fn memory_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
}
