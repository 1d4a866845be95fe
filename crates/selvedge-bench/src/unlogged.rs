//! A store that records no events, and else is the one inside: what recording them costs is what it is faster by.
//!
//! Everything goes on as always but the log, which stays empty: the engine decides the same, and each row has its history.

use async_trait::async_trait;
use selvedge_core::filter::{Filter, Place};
use selvedge_core::flow::{FlowFilter, FlowPlace};
use selvedge_core::outbox::{OutboxKind, OutboxRow};
use selvedge_core::rows::Members;
use selvedge_core::stream::{Frame, Stream, StreamName};
use selvedge_core::{
    Class, ClassId, DueKind, Execution, ExecutionId, Flow, FlowId, Name, NamespaceId, Needs, Rows, Session,
    SessionId, Timestamp,
};
use selvedge_store::{
    Decision, Description, DueFlow, DueRow, Entries, Error, FlowDue, News, Overview, Step, Store, Stored,
    Transaction,
};
use std::sync::Arc;
use uuid::Uuid;

/// The store.
pub struct Unlogged(pub Arc<dyn Store>);

/// A decision whose events are dropped before they are saved.
struct Silent(Box<dyn Decision>);

impl Decision for Silent {
    fn begin(&mut self, again: u32) -> Needs {
        self.0.begin(again)
    }

    fn next(&mut self, rows: Rows) -> Step {
        match self.0.next(rows) {
            Step::Save(mut changes) => {
                changes.events.clear();
                Step::Save(changes)
            }
            load @ Step::Load(_) => load,
        }
    }
}

#[async_trait]
impl Store for Unlogged {
    fn describe(&self) -> Description {
        self.0.describe()
    }

    async fn transact(&self, decision: Box<dyn Decision>) -> Result<Transaction, Error> {
        self.0.transact(Box::new(Silent(decision))).await
    }

    async fn namespace(&self, name: &Name) -> Result<NamespaceId, Error> {
        self.0.namespace(name).await
    }

    async fn namespaces(&self) -> Result<Vec<(NamespaceId, Name)>, Error> {
        self.0.namespaces().await
    }

    async fn intern(&self, classes: &[Class]) -> Result<Vec<(ClassId, Class)>, Error> {
        self.0.intern(classes).await
    }

    async fn classes_after(&self, after: ClassId) -> Result<Vec<(ClassId, Class)>, Error> {
        self.0.classes_after(after).await
    }

    async fn fetch(&self, ids: &[ExecutionId]) -> Result<Vec<Stored>, Error> {
        self.0.fetch(ids).await
    }

    async fn list(&self, filter: &Filter, after: Option<Place>, limit: u32) -> Result<Vec<Stored>, Error> {
        self.0.list(filter, after, limit).await
    }

    async fn count(&self, filter: &Filter, bound: u64) -> Result<u64, Error> {
        self.0.count(filter, bound).await
    }

    async fn history_pages(&self, id: ExecutionId) -> Result<Vec<Vec<u8>>, Error> {
        self.0.history_pages(id).await
    }

    async fn ahead_of(&self, execution: &Execution, bound: u64) -> Result<u64, Error> {
        self.0.ahead_of(execution, bound).await
    }

    async fn sessions(&self, namespace: Option<NamespaceId>) -> Result<Vec<Session>, Error> {
        self.0.sessions(namespace).await
    }

    async fn fetch_flows(&self, ids: &[FlowId]) -> Result<Vec<Flow>, Error> {
        self.0.fetch_flows(ids).await
    }

    async fn list_flows(
        &self,
        filter: &FlowFilter,
        after: Option<FlowPlace>,
        limit: u32,
    ) -> Result<Vec<Flow>, Error> {
        self.0.list_flows(filter, after, limit).await
    }

    async fn members(&self, page: Members) -> Result<Vec<Execution>, Error> {
        self.0.members(page).await
    }

    async fn frames(&self, stream: StreamName, from: u32, limit: u32) -> Result<Vec<Frame>, Error> {
        self.0.frames(stream, from, limit).await
    }

    async fn stream(&self, stream: StreamName) -> Result<Option<Stream>, Error> {
        self.0.stream(stream).await
    }

    async fn delete_old_frames(&self, limit: u32) -> Result<u64, Error> {
        self.0.delete_old_frames(limit).await
    }

    async fn overview(&self) -> Result<Overview, Error> {
        self.0.overview().await
    }

    async fn due(
        &self,
        kind: DueKind,
        after: Option<(Timestamp, ExecutionId)>,
        limit: u32,
    ) -> Result<Vec<DueRow>, Error> {
        self.0.due(kind, after, limit).await
    }

    async fn due_flows(
        &self,
        kind: FlowDue,
        after: Option<(Timestamp, FlowId)>,
        limit: u32,
    ) -> Result<Vec<DueFlow>, Error> {
        self.0.due_flows(kind, after, limit).await
    }

    async fn outbox(
        &self,
        kind: OutboxKind,
        stale_ms: i64,
        after: Option<(Timestamp, Uuid)>,
        limit: u32,
    ) -> Result<Vec<OutboxRow>, Error> {
        self.0.outbox(kind, stale_ms, after, limit).await
    }

    async fn lapsed(&self, after: Option<ExecutionId>, limit: u32) -> Result<Vec<DueRow>, Error> {
        self.0.lapsed(after, limit).await
    }

    async fn unseen_sessions(&self, unseen_ms: i64, limit: u32) -> Result<Vec<SessionId>, Error> {
        self.0.unseen_sessions(unseen_ms, limit).await
    }

    async fn delete_expired_keys(&self, limit: u32) -> Result<u64, Error> {
        self.0.delete_expired_keys(limit).await
    }

    async fn log_after(&self, after: i64, limit: u32) -> Result<Entries, Error> {
        self.0.log_after(after, limit).await
    }

    async fn keep_log(&self, keep_ms: i64) -> Result<u64, Error> {
        self.0.keep_log(keep_ms).await
    }

    async fn announce(&self, news: News) -> Result<(), Error> {
        self.0.announce(news).await
    }

    async fn news(&self) -> Option<News> {
        self.0.news().await
    }

    async fn figures(&self) -> Result<Option<(i64, i64)>, Error> {
        self.0.figures().await
    }

    async fn ping(&self) -> Result<(), Error> {
        self.0.ping().await
    }

    async fn close(&self) {
        self.0.close().await
    }
}
