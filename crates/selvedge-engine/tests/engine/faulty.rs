//! A store in memory whose next call of a kind can be made to fail, to panic or never to return.

use async_trait::async_trait;
use selvedge_engine::core::filter::{Filter, Place};
use selvedge_engine::core::flow::{FlowFilter, FlowPlace};
use selvedge_engine::core::outbox::{OutboxKind, OutboxRow};
use selvedge_engine::core::rows::Members;
use selvedge_engine::core::{
    Class, ClassId, DueKind, Execution, ExecutionId, Flow, FlowId, Name, NamespaceId, Session, SessionId,
    Timestamp,
};
use selvedge_engine::store::{
    Decision, Description, DueFlow, DueRow, Entries, Error, FlowDue, News, Overview, Store, Stored,
    Transaction,
};
use selvedge_memory::MemoryStore;
use std::sync::Mutex;
use tokio::sync::watch;
use uuid::Uuid;

/// Which calls can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// [`Store::transact`]
    Transact,
    /// [`Store::overview`]
    Overview,
    /// [`Store::due`]
    Due,
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
}

/// The store.
pub struct Faulty {
    store: MemoryStore,
    faults: Mutex<Vec<(Call, Fault)>>,
    gate: watch::Sender<bool>,
}

impl Faulty {
    /// A store in which nothing is wrong yet.
    pub fn new(store: MemoryStore) -> Faulty {
        Faulty { store, faults: Mutex::default(), gate: watch::channel(true).0 }
    }

    /// The next such call goes wrong.
    pub fn next(&self, call: Call, fault: Fault) {
        self.faults.lock().expect("nobody panics with the faults").push((call, fault));
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

    async fn passes(&self, call: Call) -> Result<(), Error> {
        let fault = {
            let mut faults = self.faults.lock().expect("nobody panics with the faults");
            let found = faults.iter().position(|(of, _)| *of == call);
            found.map(|index| faults.remove(index).1)
        };
        match fault {
            None => Ok(()),
            Some(Fault::Fail(error)) => Err(error),
            Some(Fault::Panic) => panic!("{call:?} was made to panic"),
            Some(Fault::Hang) => std::future::pending().await,
        }
    }
}

#[async_trait]
impl Store for Faulty {
    fn describe(&self) -> Description {
        self.store.describe()
    }

    async fn transact(&self, decision: Box<dyn Decision>) -> Result<Transaction, Error> {
        let _ = self.gate.subscribe().wait_for(|open| *open).await;
        self.passes(Call::Transact).await?;
        self.store.transact(decision).await
    }

    async fn namespace(&self, name: &Name) -> Result<NamespaceId, Error> {
        self.store.namespace(name).await
    }

    async fn namespaces(&self) -> Result<Vec<(NamespaceId, Name)>, Error> {
        self.store.namespaces().await
    }

    async fn intern(&self, classes: &[Class]) -> Result<Vec<(ClassId, Class)>, Error> {
        self.store.intern(classes).await
    }

    async fn classes_after(&self, after: ClassId) -> Result<Vec<(ClassId, Class)>, Error> {
        self.store.classes_after(after).await
    }

    async fn fetch(&self, ids: &[ExecutionId]) -> Result<Vec<Stored>, Error> {
        self.store.fetch(ids).await
    }

    async fn list(&self, filter: &Filter, after: Option<Place>, limit: u32) -> Result<Vec<Stored>, Error> {
        self.store.list(filter, after, limit).await
    }

    async fn count(&self, filter: &Filter, bound: u64) -> Result<u64, Error> {
        self.store.count(filter, bound).await
    }

    async fn history_pages(&self, id: ExecutionId) -> Result<Vec<Vec<u8>>, Error> {
        self.store.history_pages(id).await
    }

    async fn ahead_of(&self, execution: &Execution, bound: u64) -> Result<u64, Error> {
        self.store.ahead_of(execution, bound).await
    }

    async fn sessions(&self, namespace: Option<NamespaceId>) -> Result<Vec<Session>, Error> {
        self.store.sessions(namespace).await
    }

    async fn fetch_flows(&self, ids: &[FlowId]) -> Result<Vec<Flow>, Error> {
        self.store.fetch_flows(ids).await
    }

    async fn list_flows(
        &self,
        filter: &FlowFilter,
        after: Option<FlowPlace>,
        limit: u32,
    ) -> Result<Vec<Flow>, Error> {
        self.store.list_flows(filter, after, limit).await
    }

    async fn members(&self, page: Members) -> Result<Vec<Execution>, Error> {
        self.store.members(page).await
    }

    async fn due_flows(
        &self,
        kind: FlowDue,
        after: Option<(Timestamp, FlowId)>,
        limit: u32,
    ) -> Result<Vec<DueFlow>, Error> {
        self.store.due_flows(kind, after, limit).await
    }

    async fn outbox(
        &self,
        kind: OutboxKind,
        stale_ms: i64,
        after: Option<(Timestamp, Uuid)>,
        limit: u32,
    ) -> Result<Vec<OutboxRow>, Error> {
        self.store.outbox(kind, stale_ms, after, limit).await
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

    async fn lapsed(&self, after: Option<ExecutionId>, limit: u32) -> Result<Vec<DueRow>, Error> {
        self.store.lapsed(after, limit).await
    }

    async fn unseen_sessions(&self, unseen_ms: i64, limit: u32) -> Result<Vec<SessionId>, Error> {
        self.store.unseen_sessions(unseen_ms, limit).await
    }

    async fn delete_expired_keys(&self, limit: u32) -> Result<u64, Error> {
        self.store.delete_expired_keys(limit).await
    }

    async fn log_after(&self, after: i64, limit: u32) -> Result<Entries, Error> {
        self.store.log_after(after, limit).await
    }

    async fn announce(&self, news: News) -> Result<(), Error> {
        self.store.announce(news).await
    }

    async fn news(&self) -> Option<News> {
        self.store.news().await
    }

    async fn figures(&self) -> Result<Option<(i64, i64)>, Error> {
        self.store.figures().await
    }

    async fn ping(&self) -> Result<(), Error> {
        self.store.ping().await
    }

    async fn close(&self) {
        self.store.close().await;
    }
}
