//! The store in memory, for tests, simulation and evaluation. Nothing survives the process.
//!
//! One mutex guards plain maps. A decision runs under the mutex from its first load to its save, so no other transaction can
//! interleave; its guards can fail only for rows from a cache. Nothing is awaited while the mutex is held. A decision that
//! panics is caught before it has saved anything, and only its own call fails.

mod clock;
mod kinds;

pub use clock::Clock;

use async_trait::async_trait;
use kinds::{KINDS, Saving, Tables};
use selvedge_core::{Changes, Needs, Rows, Timestamp};
use selvedge_store::{
    CallMeter, Decision, Demand, Description, Error, ManualClock, Notification, Transaction, Transactions,
};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The number of times a decision is begun before the call fails as contended.
const TRIES_MAX: u32 = 10;

/// A store that keeps everything in memory.
#[derive(Debug, Default)]
pub struct MemoryStore {
    clock: Clock,
    tables: Mutex<Tables>,
    meter: CallMeter,
}

impl MemoryStore {
    /// Returns an empty store on the system clock.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns an empty store on `clock`.
    pub fn with_clock(clock: Clock) -> Self {
        MemoryStore { clock, tables: Mutex::default(), meter: CallMeter::default() }
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the tables under the mutex, at the current time, and reports the call to the meter.
    async fn read<T: Any + Send>(
        &self,
        call: &'static str,
        query: impl FnOnce(&Tables, Timestamp) -> T + Send,
    ) -> Result<T, Error> {
        self.change(call, |tables, now| query(tables, now)).await
    }

    /// Changes the tables under the mutex, at the current time, and reports the call to the meter.
    async fn change<T: Any + Send>(
        &self,
        call: &'static str,
        change: impl FnOnce(&mut Tables, Timestamp) -> T + Send,
    ) -> Result<T, Error> {
        self.meter.measure(call, async { Ok(change(&mut self.tables(), self.clock.now())) }).await
    }

    /// Runs a decision until its guards hold.
    fn run(&self, decision: &mut dyn Decision) -> Result<Transaction, Error> {
        for again in 0..TRIES_MAX {
            if let Some(done) = catching_panics(|| self.attempt(&mut *decision, again))? {
                return Ok(done);
            }
        }
        Err(Error::Contended(format!(
            "a decision was begun {TRIES_MAX} times and its rows had changed every time"
        )))
    }

    /// Runs a decision once, from its start to its save. Returns none if a guard failed.
    fn attempt(&self, decision: &mut dyn Decision, again: u32) -> Result<Option<Transaction>, Error> {
        let mut tables = self.tables();
        let now = self.clock.now();
        let mut needs = decision.begin(again);
        loop {
            match decision.next(load(&tables, &needs, now)) {
                Demand::Load(more) => needs = more,
                Demand::Save(changes) => {
                    let tries = again + 1;
                    let saved = save(&mut tables, *changes, now);
                    return Ok(saved.map(|Saving { entry, emptied, .. }| Transaction {
                        entry,
                        tries,
                        emptied,
                    }));
                }
                Demand::Abort(reason) => return Err(Error::Failed(reason)),
            }
        }
    }
}

/// Loads the rows that `needs` names.
fn load(tables: &Tables, needs: &Needs, now: Timestamp) -> Rows {
    let mut rows = Rows { now, ..Rows::default() };
    KINDS.iter().for_each(|kind| (kind.load)(tables, needs, &mut rows));
    rows
}

/// Saves changes, all or nothing: the guards are checked before anything changes. Returns none if a guard failed.
fn save(tables: &mut Tables, mut changes: Changes, now: Timestamp) -> Option<Saving> {
    let mut saving = Saving { now, entry: None, emptied: Vec::new() };
    if !KINDS.iter().all(|kind| (kind.guards_hold)(tables, &changes)) {
        return None;
    }
    if !changes.is_empty() {
        KINDS.iter().for_each(|kind| (kind.save)(tables, &mut changes, &mut saving));
        tables.commits += 1;
    }
    Some(saving)
}

/// Runs `attempt` and turns a panic into an error.
fn catching_panics<T>(attempt: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(attempt)).unwrap_or_else(|panic| {
        let message = panic_message(panic.as_ref());
        Err(Error::Failed(format!("the decision panicked: {message}")))
    })
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (None, Some(text)) => text,
        (None, None) => "without a message",
    }
}

#[async_trait]
impl Transactions for MemoryStore {
    fn describe(&self) -> Description {
        let durability = "None: everything is lost when the process ends.";
        Description { name: "memory", writers: 1, shared: false, durability }
    }

    fn manual_clock(&self) -> Option<&dyn ManualClock> {
        self.clock.as_manual()
    }

    fn meter(&self) -> &CallMeter {
        &self.meter
    }

    async fn now(&self) -> Result<Timestamp, Error> {
        self.read("now", |_, now| now).await
    }

    async fn transact(&self, decision: Box<dyn Decision>) -> Result<Transaction, Error> {
        let mut decision = self.meter.decision(decision);
        self.meter.measure("transact", async move { self.run(&mut *decision) }).await
    }

    async fn notify(&self, _notification: Notification) -> Result<(), Error> {
        self.read("notify", |_, _| ()).await
    }

    async fn next_notification(&self) -> Option<Notification> {
        None
    }

    async fn figures(&self) -> Result<Option<(i64, i64)>, Error> {
        self.read("figures", |tables, _| Some((tables.commits, 0))).await
    }

    async fn ping(&self) -> Result<(), Error> {
        self.read("ping", |_, _| ()).await
    }

    async fn close(&self) {}
}
