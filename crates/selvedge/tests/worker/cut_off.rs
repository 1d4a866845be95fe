//! A store that goes away when a test says so.

use async_trait::async_trait;
use selvedge::core::filter::{Filter, Place};
use selvedge::core::flow::{FlowFilter, FlowPlace};
use selvedge::core::outbox::{OutboxKind, OutboxRow};
use selvedge::core::rows::Members;
use selvedge::core::stream::{Frame, Stream, StreamName};
use selvedge::core::{Class, ClassId, DueKind, Execution, Flow, FlowId, NamespaceId, Session, SessionId};
use selvedge::store::{
    Decision, Description, DueFlow, DueRow, Entries, Error, FlowDue, News, Overview, Stored, Transaction,
};
use selvedge::{ExecutionId, Name, Store, Timestamp};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;
use uuid::Uuid;

/// What happens to a transaction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Line {
    /// It comes through.
    Up,
    /// It does not reach the store.
    Down,
    /// It commits, and its answer is lost.
    Mute,
}

/// A store behind a line that can be cut.
pub struct CutOff {
    inner: Arc<dyn Store>,
    line: Mutex<Line>,
    failed: watch::Sender<u32>,
}

impl CutOff {
    /// Behind a line that is up.
    pub fn new(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(CutOff { inner, line: Mutex::new(Line::Up), failed: watch::Sender::new(0) })
    }

    /// Cuts or mends the line.
    pub fn set(&self, line: Line) {
        self.failed.send_replace(0);
        *self.line.lock().unwrap_or_else(PoisonError::into_inner) = line;
    }

    /// Waits until this many transactions failed since the line was last set.
    pub async fn failures(&self, count: u32) {
        let mut failed = self.failed.subscribe();
        failed.wait_for(|failed| *failed >= count).await.expect("the store is there");
    }

    fn fail(&self) -> Error {
        self.failed.send_modify(|failed| *failed += 1);
        Error::Unavailable("the line is cut".into())
    }
}

#[async_trait]
impl Store for CutOff {
    async fn transact(&self, decision: Box<dyn Decision>) -> Result<Transaction, Error> {
        let line = *self.line.lock().unwrap_or_else(PoisonError::into_inner);
        match line {
            Line::Up => self.inner.transact(decision).await,
            Line::Down => Err(self.fail()),
            Line::Mute => {
                self.inner.transact(decision).await?;
                Err(self.fail())
            }
        }
    }

    fn describe(&self) -> Description {
        self.inner.describe()
    }
    async fn namespace(&self, name: &Name) -> Result<NamespaceId, Error> {
        self.inner.namespace(name).await
    }
    async fn namespaces(&self) -> Result<Vec<(NamespaceId, Name)>, Error> {
        self.inner.namespaces().await
    }
    async fn intern(&self, classes: &[Class]) -> Result<Vec<(ClassId, Class)>, Error> {
        self.inner.intern(classes).await
    }
    async fn classes_after(&self, after: ClassId) -> Result<Vec<(ClassId, Class)>, Error> {
        self.inner.classes_after(after).await
    }
    async fn fetch(&self, ids: &[ExecutionId]) -> Result<Vec<Stored>, Error> {
        self.inner.fetch(ids).await
    }
    async fn list(&self, filter: &Filter, after: Option<Place>, limit: u32) -> Result<Vec<Stored>, Error> {
        self.inner.list(filter, after, limit).await
    }
    async fn count(&self, filter: &Filter, bound: u64) -> Result<u64, Error> {
        self.inner.count(filter, bound).await
    }
    async fn history_pages(&self, id: ExecutionId) -> Result<Vec<Vec<u8>>, Error> {
        self.inner.history_pages(id).await
    }
    async fn ahead_of(&self, execution: &Execution, bound: u64) -> Result<u64, Error> {
        self.inner.ahead_of(execution, bound).await
    }
    async fn sessions(&self, namespace: Option<NamespaceId>) -> Result<Vec<Session>, Error> {
        self.inner.sessions(namespace).await
    }
    async fn fetch_flows(&self, ids: &[FlowId]) -> Result<Vec<Flow>, Error> {
        self.inner.fetch_flows(ids).await
    }

    async fn list_flows(
        &self,
        filter: &FlowFilter,
        after: Option<FlowPlace>,
        limit: u32,
    ) -> Result<Vec<Flow>, Error> {
        self.inner.list_flows(filter, after, limit).await
    }

    async fn members(&self, page: Members) -> Result<Vec<Execution>, Error> {
        self.inner.members(page).await
    }

    async fn due_flows(
        &self,
        kind: FlowDue,
        after: Option<(Timestamp, FlowId)>,
        limit: u32,
    ) -> Result<Vec<DueFlow>, Error> {
        self.inner.due_flows(kind, after, limit).await
    }

    async fn outbox(
        &self,
        kind: OutboxKind,
        stale_ms: i64,
        after: Option<(Timestamp, Uuid)>,
        limit: u32,
    ) -> Result<Vec<OutboxRow>, Error> {
        self.inner.outbox(kind, stale_ms, after, limit).await
    }

    async fn overview(&self) -> Result<Overview, Error> {
        self.inner.overview().await
    }
    async fn due(
        &self,
        kind: DueKind,
        after: Option<(Timestamp, ExecutionId)>,
        limit: u32,
    ) -> Result<Vec<DueRow>, Error> {
        self.inner.due(kind, after, limit).await
    }
    async fn lapsed(&self, after: Option<ExecutionId>, limit: u32) -> Result<Vec<DueRow>, Error> {
        self.inner.lapsed(after, limit).await
    }
    async fn unseen_sessions(&self, unseen_ms: i64, limit: u32) -> Result<Vec<SessionId>, Error> {
        self.inner.unseen_sessions(unseen_ms, limit).await
    }
    async fn delete_expired_keys(&self, limit: u32) -> Result<u64, Error> {
        self.inner.delete_expired_keys(limit).await
    }
    async fn log_after(&self, after: i64, limit: u32) -> Result<Entries, Error> {
        self.inner.log_after(after, limit).await
    }
    async fn keep_log(&self, keep_ms: i64) -> Result<u64, Error> {
        self.inner.keep_log(keep_ms).await
    }
    async fn frames(&self, stream: StreamName, from: u32, limit: u32) -> Result<Vec<Frame>, Error> {
        self.inner.frames(stream, from, limit).await
    }
    async fn stream(&self, stream: StreamName) -> Result<Option<Stream>, Error> {
        self.inner.stream(stream).await
    }
    async fn delete_old_frames(&self, limit: u32) -> Result<u64, Error> {
        self.inner.delete_old_frames(limit).await
    }
    async fn announce(&self, news: News) -> Result<(), Error> {
        self.inner.announce(news).await
    }
    async fn news(&self) -> Option<News> {
        self.inner.news().await
    }
    async fn figures(&self) -> Result<Option<(i64, i64)>, Error> {
        self.inner.figures().await
    }
    async fn ping(&self) -> Result<(), Error> {
        self.inner.ping().await
    }
    async fn close(&self) {
        self.inner.close().await;
    }
}
