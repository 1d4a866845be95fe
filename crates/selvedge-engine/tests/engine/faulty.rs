//! A store in memory whose next call of a kind can be made to fail, to panic or never to return.

use async_trait::async_trait;
use selvedge_engine::core::stream::{Frame, StreamName};
use selvedge_engine::core::{DueKind, ExecutionId, Timestamp};
use selvedge_engine::store::{Around, Decision, DueRow, Entries, Error, Overview, Store, Transaction};
use selvedge_memory::MemoryStore;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::watch;

/// Which calls can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// [`Store::transact`]
    Transact,
    /// [`Store::overview`]
    Overview,
    /// [`Store::due`]
    Due,
    /// [`Store::log_after`]
    LogAfter,
    /// [`Store::log_after`] of the first entry
    LogBeginning,
    /// [`Store::frames`]
    Frames,
}

/// How a call goes wrong.
#[derive(Clone, Debug)]
pub enum Fault {
    /// It fails.
    Fail(Error),
    /// It panics.
    Panic,
    /// It never returns.
    Hang,
    /// It finds nothing, as if what comes next were not settled yet. Only of the log.
    Nothing,
}

/// The store.
pub struct Faulty {
    store: MemoryStore,
    faults: Mutex<Vec<(Call, Fault)>>,
    gate: watch::Sender<bool>,
    answers: watch::Sender<bool>,
    log_reads: AtomicU64,
}

impl Faulty {
    /// A store in which nothing is wrong yet.
    pub fn new(store: MemoryStore) -> Faulty {
        let (gate, answers) = (watch::channel(true).0, watch::channel(true).0);
        Faulty { store, faults: Mutex::default(), gate, answers, log_reads: AtomicU64::new(0) }
    }

    /// The next such call goes wrong.
    pub fn next(&self, call: Call, fault: Fault) {
        self.faults.lock().expect("nobody panics with the faults").push((call, fault));
    }

    /// Nothing goes wrong any more.
    pub fn mend(&self) {
        self.faults.lock().expect("nobody panics with the faults").clear();
    }

    /// Whether all faults have occurred.
    pub fn is_spent(&self) -> bool {
        self.faults.lock().expect("nobody panics with the faults").is_empty()
    }

    /// Lets no transaction begin.
    pub fn shut(&self) {
        self.gate.send_replace(false);
    }

    /// Lets transactions begin again.
    pub fn open(&self) {
        self.gate.send_replace(true);
    }

    /// Lets transactions commit, but none return.
    pub fn hold_answers(&self) {
        self.answers.send_replace(false);
    }

    /// Lets transactions return again.
    pub fn give_answers(&self) {
        self.answers.send_replace(true);
    }

    /// How often the log was read.
    pub fn log_reads(&self) -> u64 {
        self.log_reads.load(Ordering::SeqCst)
    }

    async fn passes(&self, call: Call) -> Result<(), Error> {
        self.finds(call).await.map(drop)
    }

    /// Whether the call finds anything, if it returns.
    async fn finds(&self, call: Call) -> Result<bool, Error> {
        let fault = {
            let mut faults = self.faults.lock().expect("nobody panics with the faults");
            let found = faults.iter().position(|(of, _)| *of == call);
            found.map(|index| faults.remove(index).1)
        };
        match fault {
            None => Ok(true),
            Some(Fault::Fail(error)) => Err(error),
            Some(Fault::Panic) => panic!("{call:?} was made to panic"),
            Some(Fault::Hang) => std::future::pending().await,
            Some(Fault::Nothing) => Ok(false),
        }
    }
}

#[async_trait]
impl Around for Faulty {
    fn inner(&self) -> &dyn Store {
        &self.store
    }

    async fn transact(&self, decision: Box<dyn Decision>) -> Result<Transaction, Error> {
        let _ = self.gate.subscribe().wait_for(|open| *open).await;
        self.passes(Call::Transact).await?;
        let transaction = self.store.transact(decision).await;
        let _ = self.answers.subscribe().wait_for(|open| *open).await;
        transaction
    }

    async fn overview(&self) -> Result<Overview, Error> {
        self.passes(Call::Overview).await?;
        self.store.overview().await
    }

    async fn due(
        &self,
        kind: DueKind,
        after: Option<(Timestamp, ExecutionId)>,
        limit: u32,
    ) -> Result<Vec<DueRow>, Error> {
        self.passes(Call::Due).await?;
        self.store.due(kind, after, limit).await
    }

    async fn log_after(&self, after: i64, limit: u32) -> Result<Entries, Error> {
        self.log_reads.fetch_add(1, Ordering::SeqCst);
        let found =
            self.finds(Call::LogAfter).await? && (after > 0 || self.finds(Call::LogBeginning).await?);
        match found {
            true => self.store.log_after(after, limit).await,
            false => Ok(Entries { upto: after, ..Entries::default() }),
        }
    }

    async fn frames(&self, stream: StreamName, from: u32, limit: u32) -> Result<Vec<Frame>, Error> {
        self.passes(Call::Frames).await?;
        self.store.frames(stream, from, limit).await
    }
}
