//! Faults that a test injects into a store: the next call of a kind fails, panics or never returns.

use async_trait::async_trait;
use selvedge_engine::store::{Entries, Error, Interceptor, Store, Transactions};
use selvedge_memory::MemoryStore;
use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::watch;

/// The calls into which faults can be injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Transact,
    /// The overview and the glance.
    Overview,
    Due,
    /// The next page of the log.
    LogAfter,
    /// The first page of the log.
    LogBeginning,
    Frames,
    SaveRollups,
}

impl Call {
    /// Returns the call of this name, if faults are applied before it is made.
    fn named(name: &str) -> Option<Call> {
        match name {
            "transact" => Some(Call::Transact),
            "overview" | "glance" => Some(Call::Overview),
            "due" => Some(Call::Due),
            "frames" => Some(Call::Frames),
            "save_rollups" => Some(Call::SaveRollups),
            _ => None,
        }
    }
}

/// The behaviour of a faulty call.
#[derive(Clone, Debug)]
pub enum Fault {
    /// Returns this error.
    Fail(Error),
    /// Panics.
    Panic,
    /// Never returns.
    Hang,
    /// Returns no entries, as if the next ones were not final yet. Only for reads of the log.
    FindNothing,
}

/// The faults of a store, and counts of some of its calls.
pub struct Faults {
    faults: Mutex<Vec<(Call, Fault)>>,
    may_begin: watch::Sender<bool>,
    may_return: watch::Sender<bool>,
    log_reads: AtomicU64,
    frame_reads: AtomicU64,
    row_reads: AtomicU64,
}

impl Faults {
    /// Returns the store and its faults: none yet.
    pub fn of(store: MemoryStore) -> (Arc<dyn Store>, Arc<Faults>) {
        let faults = Arc::new(Faults {
            faults: Mutex::default(),
            may_begin: watch::channel(true).0,
            may_return: watch::channel(true).0,
            log_reads: AtomicU64::new(0),
            frame_reads: AtomicU64::new(0),
            row_reads: AtomicU64::new(0),
        });
        store.meter().intercept(faults.clone());
        (Arc::new(store), faults)
    }

    /// Makes the next such call faulty.
    pub fn inject(&self, call: Call, fault: Fault) {
        self.faults.lock().expect("the mutex is not poisoned").push((call, fault));
    }

    /// Removes all faults that have not occurred.
    pub fn clear_faults(&self) {
        self.faults.lock().expect("the mutex is not poisoned").clear();
    }

    /// Reports whether all injected faults have occurred.
    pub fn all_faults_occurred(&self) -> bool {
        self.faults.lock().expect("the mutex is not poisoned").is_empty()
    }

    /// Blocks transactions and saves of rollups before they begin.
    pub fn block_transactions(&self) {
        self.may_begin.send_replace(false);
    }

    /// Lets transactions and saves of rollups begin again.
    pub fn unblock_transactions(&self) {
        self.may_begin.send_replace(true);
    }

    /// Lets transactions commit but not return.
    pub fn hold_replies(&self) {
        self.may_return.send_replace(false);
    }

    /// Lets transactions return again.
    pub fn release_replies(&self) {
        self.may_return.send_replace(true);
    }

    /// Returns how often the log was read.
    pub fn log_reads(&self) -> u64 {
        self.log_reads.load(Ordering::SeqCst)
    }

    /// Returns how often frames were read.
    pub fn frame_reads(&self) -> u64 {
        self.frame_reads.load(Ordering::SeqCst)
    }

    /// Returns how often executions were read with their payloads.
    pub fn row_reads(&self) -> u64 {
        self.row_reads.load(Ordering::SeqCst)
    }

    /// Applies the next fault of this kind of call. Returns false if the call is to find nothing.
    async fn finds_entries(&self, call: Call) -> Result<bool, Error> {
        let fault = {
            let mut faults = self.faults.lock().expect("the mutex is not poisoned");
            let found = faults.iter().position(|(kind, _)| *kind == call);
            found.map(|index| faults.remove(index).1)
        };
        match fault {
            None => Ok(true),
            Some(Fault::Fail(error)) => Err(error),
            Some(Fault::Panic) => panic!("injected panic in {call:?}"),
            Some(Fault::Hang) => std::future::pending().await,
            Some(Fault::FindNothing) => Ok(false),
        }
    }
}

#[async_trait]
impl Interceptor for Faults {
    async fn before(&self, call: &'static str) -> Result<(), Error> {
        match call {
            "transact" | "save_rollups" => drop(self.may_begin.subscribe().wait_for(|open| *open).await),
            "fetch" => drop(self.row_reads.fetch_add(1, Ordering::SeqCst)),
            "log_page" => drop(self.log_reads.fetch_add(1, Ordering::SeqCst)),
            "frames" => drop(self.frame_reads.fetch_add(1, Ordering::SeqCst)),
            _ => {}
        }
        match Call::named(call) {
            Some(call) => self.finds_entries(call).await.map(drop),
            None => Ok(()),
        }
    }

    async fn after(&self, call: &'static str, returned: &mut (dyn Any + Send)) -> Result<(), Error> {
        if call == "transact" {
            let _ = self.may_return.subscribe().wait_for(|open| *open).await;
        }
        let Some(page) = returned.downcast_mut::<Entries>() else { return Ok(()) };
        let after = page.entries.first().map_or(page.upto, |first| first.number - 1);
        let found = self.finds_entries(Call::LogAfter).await?
            && (after > 0 || self.finds_entries(Call::LogBeginning).await?);
        if !found {
            *page = Entries { upto: after, ..Entries::default() };
        }
        Ok(())
    }
}
