//! `idle`: what an engine costs that has nothing to do, all reconcilers running and a worker waiting.

use crate::floor::postgres::connect;
use crate::report::Report;
use crate::{Error, Place};
use selvedge_core::rules::claim::ClaimDraft;
use selvedge_engine::{ClaimWait, Engine, Options};
use serde_json::json;
use std::time::{Duration, Instant};

/// How long it is watched.
const WATCHED: Duration = Duration::from_secs(30);

/// Runs it.
pub async fn run(place: &Place) -> Result<Report, Error> {
    let fresh = place.open().await?;
    let engine = Engine::start(fresh.store.clone(), Options::default()).await?;
    let namespace = engine.namespace("default").await?;
    let waiting = tokio::spawn(async move {
        let claim = ClaimDraft {
            worker: "bench".into(),
            instance: "bench".into(),
            lanes: vec!["default".into()],
            kinds: None,
            capabilities: Vec::new(),
            max: 10,
            lease_ttl_ms: 30_000,
        };
        let _ = namespace.claim(ClaimWait { claim, wait: WATCHED * 2, operation: None }).await;
    });
    tokio::time::sleep(Duration::from_secs(2)).await;
    let before = (transactions(place).await?, cpu_seconds());
    let started = Instant::now();
    tokio::time::sleep(WATCHED).await;
    let seconds = started.elapsed().as_secs_f64();
    let after = (transactions(place).await?, cpu_seconds());
    waiting.abort();
    engine.shutdown().await;
    fresh.remains.remove().await?;
    let mut report =
        Report { scenario: "idle", store: place.name(), transport: "in_process", ..Report::default() };
    let rounded = |value: f64| json!((value * 1000.0).round() / 1000.0);
    if let (Some(before), Some(after)) = (before.0, after.0) {
        // Asking is a transaction of its own.
        report.more.insert("transactions_per_s".into(), rounded((after - before - 1) as f64 / seconds));
    }
    report.more.insert("cpu_percent".into(), rounded((after.1 - before.1) / seconds * 100.0));
    report.more.insert("memory_mb".into(), rounded(memory_mb()));
    Ok(report)
}

/// Transactions of the database so far. Backends hand their counts in when they have been idle for a while.
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

/// Processor time of this process so far.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

/// Resident memory of this process.
fn memory_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
}
