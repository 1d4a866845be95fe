//! What every scenario stands on: the floor of the same run, an engine on a fresh store, and a target to drive.

use crate::floor::{self, Floor};
use crate::report::Report;
use crate::target::Target;
use crate::{Error, Load, Place, Remains};
use selvedge_engine::{Engine, Options};
use std::time::Duration;

/// A floor that was measured, and an engine that was started.
pub struct Bed {
    /// What hand-written SQL did just before.
    pub floor: Floor,
    /// The engine.
    pub engine: Engine,
    /// The way to it.
    pub target: Target,
    remains: Remains,
}

/// What the store had counted at some moment.
#[derive(Clone, Copy, Debug)]
pub struct Figures(Option<(i64, i64)>);

/// What was spent since.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spent {
    /// Commits. On Postgres every transaction that drew an id, notifications to other servers included.
    pub commits: Option<i64>,
    /// Bytes of write-ahead log.
    pub wal_bytes: Option<i64>,
}

impl Bed {
    /// Measures the floor, then starts an engine on a fresh store.
    pub async fn open(place: &Place, load: &Load) -> Result<Bed, Error> {
        Bed::beside(place, load, floor::measure(place, load.batch, 4).await?).await
    }

    /// Starts an engine on a fresh store, where the floor was measured before.
    pub async fn beside(place: &Place, load: &Load, floor: Floor) -> Result<Bed, Error> {
        let fresh = place.open().await?;
        let engine = Engine::start(fresh.store.clone(), Options::default()).await?;
        let target = Target::new(&engine, load).await?;
        Ok(Bed { floor, engine, target, remains: fresh.remains })
    }

    /// Stops the engine and removes the store.
    pub async fn close(self) -> Result<(), Error> {
        self.engine.shutdown().await;
        self.remains.remove().await
    }

    /// A report that has what is known before anything was driven.
    pub fn report(&self, scenario: &'static str, place: &Place, load: &Load) -> Report {
        Report {
            scenario,
            store: place.name(),
            transport: if load.http { "http" } else { "in_process" },
            floor: Some(self.floor.per_second),
            commit_ms: Some(self.floor.commit.p50),
            ..Report::default()
        }
    }

    /// What the store has counted so far.
    pub async fn figures(&self) -> Result<Figures, Error> {
        Ok(Figures(self.engine.store().figures().await?))
    }

    /// What was spent since.
    pub async fn spent(&self, since: Figures) -> Result<Spent, Error> {
        let now = self.figures().await?;
        let spent = |of: fn(&(i64, i64)) -> i64| Some(of(now.0.as_ref()?) - of(since.0.as_ref()?));
        Ok(Spent { commits: spent(|one| one.0), wal_bytes: spent(|one| one.1).filter(|bytes| *bytes > 0) })
    }

    /// Waits until so many claims wait for work.
    pub async fn claims_wait(&self, claims: usize) {
        while self.engine.activity().1 < claims {
            tokio::time::sleep(Duration::from_micros(100)).await;
        }
    }
}

impl Spent {
    /// Commits for each of so many.
    pub fn commits_per(&self, count: u64) -> Option<f64> {
        self.commits.map(|commits| commits as f64 / count.max(1) as f64)
    }

    /// Bytes of write-ahead log for each of so many.
    pub fn wal_bytes_per(&self, count: u64) -> Option<f64> {
        self.wal_bytes.map(|bytes| bytes as f64 / count.max(1) as f64)
    }
}
