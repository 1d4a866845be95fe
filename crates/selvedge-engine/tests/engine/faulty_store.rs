//! A memory store with injectable faults: the next call of a kind fails, panics or never returns.

use async_trait::async_trait;
use selvedge_engine::core::filter::Payloads;
use selvedge_engine::core::rollup::RollupRow;
use selvedge_engine::core::stream::{Frame, FrameRange, StreamName};
use selvedge_engine::core::{DueKind, ExecutionId, Timestamp};
use selvedge_engine::store::{
    Decision, DueReads, DueRow, Entries, Error, ExecutionReads, LogLimit, LogStore, Overview,
    ReconcilerScope, RollupStore, Store, StoreWrapper, Stored, StreamStore, Transaction, Transactions,
};
use selvedge_memory::MemoryStore;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::watch;

/// The calls into which faults can be injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// [`Transactions::transact`].
    Transact,
    /// [`DueReads::overview`].
    Overview,
    /// [`ExecutionReads::due`].
    Due,
    /// [`LogStore::log_page`].
    LogAfter,
    /// [`LogStore::log_page`] of the first entry.
    LogBeginning,
    /// [`StreamStore::frames`].
    Frames,
    /// [`RollupStore::save_rollups`].
    SaveRollups,
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

/// A store with injectable faults.
pub struct FaultyStore {
    store: MemoryStore,
    faults: Mutex<Vec<(Call, Fault)>>,
    may_begin: watch::Sender<bool>,
    may_return: watch::Sender<bool>,
    log_reads: AtomicU64,
    frame_reads: AtomicU64,
    row_reads: AtomicU64,
}

impl FaultyStore {
    /// Creates a store without faults.
    pub fn new(store: MemoryStore) -> FaultyStore {
        let (may_begin, may_return) = (watch::channel(true).0, watch::channel(true).0);
        let (faults, log_reads, frame_reads) = (Mutex::default(), AtomicU64::new(0), AtomicU64::new(0));
        let row_reads = AtomicU64::new(0);
        FaultyStore { store, faults, may_begin, may_return, log_reads, frame_reads, row_reads }
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

    /// Applies the next fault of this kind of call, except [`Fault::FindNothing`].
    async fn apply_fault(&self, call: Call) -> Result<(), Error> {
        self.finds_entries(call).await.map(drop)
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
impl StoreWrapper for FaultyStore {
    fn inner(&self) -> &dyn Store {
        &self.store
    }

    async fn transact(&self, decision: Box<dyn Decision>) -> Result<Transaction, Error> {
        let _ = self.may_begin.subscribe().wait_for(|open| *open).await;
        self.apply_fault(Call::Transact).await?;
        let transaction = self.store.transact(decision).await;
        let _ = self.may_return.subscribe().wait_for(|open| *open).await;
        transaction
    }

    async fn fetch(&self, ids: &[ExecutionId], payloads: Payloads) -> Result<Vec<Stored>, Error> {
        self.row_reads.fetch_add(1, Ordering::SeqCst);
        self.store.fetch(ids, payloads).await
    }

    async fn glance(&self) -> Result<Overview, Error> {
        StoreWrapper::overview(self).await
    }

    async fn overview(&self) -> Result<Overview, Error> {
        self.apply_fault(Call::Overview).await?;
        self.store.overview().await
    }

    async fn due(
        &self,
        scope: &ReconcilerScope,
        kind: DueKind,
        after: Option<(Timestamp, ExecutionId)>,
        limit: u32,
    ) -> Result<Vec<DueRow>, Error> {
        self.apply_fault(Call::Due).await?;
        self.store.due(scope, kind, after, limit).await
    }

    async fn log_page(&self, after: i64, limit: LogLimit) -> Result<Entries, Error> {
        self.log_reads.fetch_add(1, Ordering::SeqCst);
        let found = self.finds_entries(Call::LogAfter).await?
            && (after > 0 || self.finds_entries(Call::LogBeginning).await?);
        match found {
            true => self.store.log_page(after, limit).await,
            false => Ok(Entries { upto: after, ..Entries::default() }),
        }
    }

    async fn save_rollups(&self, rows: &[RollupRow]) -> Result<(), Error> {
        let _ = self.may_begin.subscribe().wait_for(|open| *open).await;
        self.apply_fault(Call::SaveRollups).await?;
        self.store.save_rollups(rows).await
    }

    async fn frames(&self, stream: StreamName, range: FrameRange, limit: u32) -> Result<Vec<Frame>, Error> {
        self.frame_reads.fetch_add(1, Ordering::SeqCst);
        self.apply_fault(Call::Frames).await?;
        self.store.frames(stream, range, limit).await
    }
}
