//! The surroundings of a scenario: the floor of the same run, an engine on an empty store, and the counters of that
//! store.

use super::Target;
use crate::floor::{self, Floor};
use crate::place::{FreshStore, StoreCleanup};
use crate::report::Report;
use crate::{Error, Load, Place};
use selvedge_engine::{Engine, Options};
use std::time::Duration;

/// A measured floor, and an engine on an empty store.
pub struct TestBed {
    /// The floor, measured just before.
    pub floor: Floor,
    pub engine: Engine,
    /// The transport to the engine.
    pub target: Target,
    cleanup: StoreCleanup,
}

/// The counters of the store at one moment: commits and bytes of write-ahead log. None if the store has no counters.
#[derive(Clone, Copy, Debug)]
pub struct Counters(Option<(i64, i64)>);

/// The commits and the write-ahead log that a part of a scenario cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Commits. On PostgreSQL, every transaction that drew an id, including notifications to other servers.
    pub commits: Option<i64>,
    /// Bytes of write-ahead log.
    pub wal_bytes: Option<i64>,
}

impl TestBed {
    /// Measures the floor, then starts an engine on an empty store.
    pub async fn open(place: &Place, load: &Load) -> Result<TestBed, Error> {
        TestBed::with_floor(place, load, floor::measure_for(place, load).await?).await
    }

    /// Starts an engine on an empty store, with a floor that was measured before.
    pub async fn with_floor(place: &Place, load: &Load, floor: Floor) -> Result<TestBed, Error> {
        let FreshStore { store, cleanup } = place.create_store().await?;
        let options = Options { event_views: load.event_views, ..Options::default() };
        let engine = Engine::start(store, options).await?;
        let target = Target::new(&engine, load).await?;
        Ok(TestBed { floor, engine, target, cleanup })
    }

    /// Stops the engine and removes the store.
    pub async fn close(self) -> Result<(), Error> {
        self.engine.shutdown().await;
        self.cleanup.run().await
    }

    /// Starts a report with the figures that are known before the scenario runs.
    pub fn report(&self, scenario: &'static str, place: &Place, load: &Load) -> Report {
        Report {
            scenario,
            store: place.name(),
            transport: load.transport(),
            floor: Some(self.floor.per_second),
            commit_ms: Some(self.floor.commit.p50),
            ..Report::default()
        }
    }

    /// Reads the counters of the store.
    pub async fn counters(&self) -> Result<Counters, Error> {
        Ok(Counters(self.engine.store().figures().await?))
    }

    /// Returns the cost since the counters were read.
    pub async fn cost_since(&self, before: Counters) -> Result<Cost, Error> {
        Ok(self.counters().await?.since(before))
    }

    /// Waits until this many claims are waiting for work.
    pub async fn wait_for_waiting_claims(&self, claims: usize) {
        while self.engine.activity().1 < claims {
            tokio::time::sleep(Duration::from_micros(100)).await;
        }
    }
}

impl Counters {
    fn since(self, before: Counters) -> Cost {
        let difference = |of: fn((i64, i64)) -> i64| Some(of(self.0?) - of(before.0?));
        Cost {
            commits: difference(|(commits, _)| commits),
            wal_bytes: difference(|(_, wal_bytes)| wal_bytes).filter(|bytes| *bytes > 0),
        }
    }
}

impl Cost {
    /// Returns the commits per execution, or per other unit of which there were `count`.
    pub fn commits_per(&self, count: u64) -> Option<f64> {
        self.commits.map(|commits| commits as f64 / count.max(1) as f64)
    }

    /// Returns the bytes of write-ahead log per execution, or per other unit of which there were `count`.
    pub fn wal_bytes_per(&self, count: u64) -> Option<f64> {
        self.wal_bytes.map(|bytes| bytes as f64 / count.max(1) as f64)
    }
}
