//! A wrapper around a store: every method that the wrapper does not override is forwarded to the inner store. It may observe
//! the calls. For metrics, tests and benchmarks.

mod store;

use crate::{
    Decision, DeliveryPage, Depth, Description, DueFlow, DueRow, DueSchedules, Entries, Error, FlowDue, Head,
    InboxCounts, LaneCounts, ListPage, LogLimit, ManualClock, NamespaceSettings, Notification, Overview,
    ProjectionLease, ProjectionPage, ReconcilerScope, RootSecret, Store, Stored, Transaction,
};
use async_trait::async_trait;
use selvedge_core::api_key::{ApiKey, ApiKeyId, KeyDigest};
use selvedge_core::bulk_job::{BulkJob, BulkJobId};
use selvedge_core::filter::{Filter, ListPosition, Payloads};
use selvedge_core::flow::{FlowFilter, FlowListPosition, FlowState};
use selvedge_core::gate::{Gate, GateId, GateKind, GateName, LedgerEntry};
use selvedge_core::inbox::{InboxEntry, InboxNumber};
use selvedge_core::outbox::{OutboxKind, OutboxRow};
use selvedge_core::rollup::{RollupQuery, RollupRow};
use selvedge_core::rows::Members;
use selvedge_core::schedule::{Schedule, ScheduleName};
use selvedge_core::step::Step as RecordedStep;
use selvedge_core::stream::{Frame, FrameRange, Stream, StreamName};
use selvedge_core::token::TokenKey;
use selvedge_core::waitpoint::{WaitpointFilter, WaitpointPosition};
use selvedge_core::webhook::{Delivery, Webhook, WebhookName};
use selvedge_core::{
    Class, ClassId, DueKind, Execution, ExecutionId, Flow, FlowId, Name, NamespaceId, Session, SessionId,
    Signal, Timestamp, Waitpoint, WaitpointId,
};
use std::time::Duration;
use uuid::Uuid;

/// A wrapper around a store. Each implementor is a [`Store`]; each provided method forwards to [`inner`](StoreWrapper::inner).
#[async_trait]
pub trait StoreWrapper: Send + Sync + 'static {
    /// Returns the wrapped store.
    fn inner(&self) -> &dyn Store;

    /// Observes a call that has ended: its name, the time it took, and whether it failed. Calls that are dropped before
    /// their end are not observed. Default: does nothing.
    fn observe(&self, _call: &'static str, _time: Duration, _failed: bool) {}

    /// See [`Store::describe`].
    fn describe(&self) -> Description {
        self.inner().describe()
    }

    /// See [`Store::history`].
    fn lineage(&self) -> u64 {
        self.inner().lineage()
    }

    /// See [`Store::manual_clock`].
    fn manual_clock(&self) -> Option<&dyn ManualClock> {
        self.inner().manual_clock()
    }

    /// See [`Store::bring_forward`].
    async fn bring_forward(&self, time: Timestamp) -> Result<bool, Error> {
        self.inner().bring_forward(time).await
    }

    /// See [`Store::transact`].
    async fn transact(&self, decision: Box<dyn Decision>) -> Result<Transaction, Error> {
        self.inner().transact(decision).await
    }

    /// See [`Store::namespace`].
    async fn namespace(&self, name: &Name) -> Result<NamespaceId, Error> {
        self.inner().namespace(name).await
    }

    /// See [`Store::find_namespace`].
    async fn find_namespace(&self, name: &Name) -> Result<Option<NamespaceId>, Error> {
        self.inner().find_namespace(name).await
    }

    /// See [`Store::namespaces`].
    async fn namespaces(&self) -> Result<Vec<(NamespaceId, Name)>, Error> {
        self.inner().namespaces().await
    }

    /// See [`Store::namespace_settings`].
    async fn namespace_settings(&self, namespace: NamespaceId) -> Result<NamespaceSettings, Error> {
        self.inner().namespace_settings(namespace).await
    }

    /// See [`Store::configure_namespace`].
    async fn configure_namespace(
        &self,
        namespace: NamespaceId,
        settings: NamespaceSettings,
    ) -> Result<(), Error> {
        self.inner().configure_namespace(namespace, settings).await
    }

    /// See [`Store::intern`].
    async fn intern(&self, classes: &[Class]) -> Result<Vec<(ClassId, Class)>, Error> {
        self.inner().intern(classes).await
    }

    /// See [`Store::classes_after`].
    async fn classes_after(&self, after: ClassId) -> Result<Vec<(ClassId, Class)>, Error> {
        self.inner().classes_after(after).await
    }

    /// See [`Store::remove_unused_classes`].
    async fn remove_unused_classes(&self, unused_ms: i64, limit: u32) -> Result<u64, Error> {
        self.inner().remove_unused_classes(unused_ms, limit).await
    }

    /// See [`Store::count_lanes`].
    async fn count_lanes(
        &self,
        namespace: NamespaceId,
        lanes: &[Vec<ClassId>],
        bound: u64,
    ) -> Result<Vec<LaneCounts>, Error> {
        self.inner().count_lanes(namespace, lanes, bound).await
    }

    /// See [`Store::fetch`].
    async fn fetch(&self, ids: &[ExecutionId], payloads: Payloads) -> Result<Vec<Stored>, Error> {
        self.inner().fetch(ids, payloads).await
    }

    /// See [`Store::payload_sizes`].
    async fn payload_sizes(
        &self,
        ids: &[ExecutionId],
        payloads: Payloads,
    ) -> Result<Vec<(ExecutionId, u64)>, Error> {
        self.inner().payload_sizes(ids, payloads).await
    }

    /// See [`Store::head`].
    async fn head(&self, id: ExecutionId) -> Result<Option<Head>, Error> {
        self.inner().head(id).await
    }

    /// See [`Store::list`].
    async fn list(
        &self,
        filter: &Filter,
        after: Option<ListPosition>,
        limit: u32,
        payloads: Payloads,
    ) -> Result<ListPage, Error> {
        self.inner().list(filter, after, limit, payloads).await
    }

    /// See [`Store::count`].
    async fn count(&self, filter: &Filter, bound: u64) -> Result<u64, Error> {
        self.inner().count(filter, bound).await
    }

    /// See [`Store::depths`].
    async fn depths(
        &self,
        namespace: NamespaceId,
        ranges: &[ClassId],
        bound: u64,
    ) -> Result<Vec<Depth>, Error> {
        self.inner().depths(namespace, ranges, bound).await
    }

    /// See [`Store::history_pages`].
    async fn history_pages(&self, id: ExecutionId) -> Result<Vec<Vec<u8>>, Error> {
        self.inner().history_pages(id).await
    }

    /// See [`Store::ahead_of`].
    async fn ahead_of(&self, execution: &Execution, bound: u64) -> Result<u64, Error> {
        self.inner().ahead_of(execution, bound).await
    }

    /// See [`Store::sessions`].
    async fn sessions(&self, namespace: Option<NamespaceId>) -> Result<Vec<Session>, Error> {
        self.inner().sessions(namespace).await
    }

    /// See [`Store::fetch_flows`].
    async fn fetch_flows(&self, ids: &[FlowId]) -> Result<Vec<Flow>, Error> {
        self.inner().fetch_flows(ids).await
    }

    /// See [`Store::list_flows`].
    async fn list_flows(
        &self,
        filter: &FlowFilter,
        after: Option<FlowListPosition>,
        limit: u32,
    ) -> Result<Vec<Flow>, Error> {
        self.inner().list_flows(filter, after, limit).await
    }

    /// See [`Store::count_flows`].
    async fn count_flows(&self, namespace: NamespaceId, state: FlowState, bound: u64) -> Result<u64, Error> {
        self.inner().count_flows(namespace, state, bound).await
    }

    /// See [`Store::members`].
    async fn members(&self, page: Members) -> Result<Vec<Execution>, Error> {
        self.inner().members(page).await
    }

    /// See [`Store::frames`].
    async fn frames(&self, stream: StreamName, range: FrameRange, limit: u32) -> Result<Vec<Frame>, Error> {
        self.inner().frames(stream, range, limit).await
    }

    /// See [`Store::stream`].
    async fn stream(&self, stream: StreamName) -> Result<Option<Stream>, Error> {
        self.inner().stream(stream).await
    }

    /// See [`Store::delete_old_frames`].
    async fn delete_old_frames(&self, limit: u32) -> Result<u64, Error> {
        self.inner().delete_old_frames(limit).await
    }

    /// See [`Store::signals`].
    async fn signals(&self, of: ExecutionId, after: u32, limit: u32) -> Result<Vec<Signal>, Error> {
        self.inner().signals(of, after, limit).await
    }

    /// See [`Store::steps`].
    async fn steps(&self, of: ExecutionId, after: u32, limit: u32) -> Result<Vec<RecordedStep>, Error> {
        self.inner().steps(of, after, limit).await
    }

    /// See [`Store::waitpoints`].
    async fn waitpoints(&self, of: ExecutionId, after: u32, limit: u32) -> Result<Vec<Waitpoint>, Error> {
        self.inner().waitpoints(of, after, limit).await
    }

    /// See [`Store::list_waitpoints`].
    async fn list_waitpoints(
        &self,
        filter: &WaitpointFilter,
        after: Option<WaitpointPosition>,
        limit: u32,
    ) -> Result<Vec<Waitpoint>, Error> {
        self.inner().list_waitpoints(filter, after, limit).await
    }

    /// See [`Store::waitpoint`].
    async fn waitpoint(&self, id: WaitpointId) -> Result<Option<Waitpoint>, Error> {
        self.inner().waitpoint(id).await
    }

    /// See [`Store::token_keys`].
    async fn token_keys(&self) -> Result<Vec<TokenKey>, Error> {
        self.inner().token_keys().await
    }

    /// See [`Store::api_key`].
    async fn api_key(&self, digest: &KeyDigest) -> Result<Option<(ApiKey, Timestamp)>, Error> {
        self.inner().api_key(digest).await
    }

    /// See [`Store::api_keys`].
    async fn api_keys(&self, after: Option<ApiKeyId>, limit: u32) -> Result<Vec<ApiKey>, Error> {
        self.inner().api_keys(after, limit).await
    }

    /// See [`Store::delete_rest_of_namespace`].
    async fn delete_rest_of_namespace(&self, namespace: NamespaceId, limit: u32) -> Result<u64, Error> {
        self.inner().delete_rest_of_namespace(namespace, limit).await
    }

    /// See [`Store::bulk_job`].
    async fn bulk_job(&self, id: BulkJobId) -> Result<Option<BulkJob>, Error> {
        self.inner().bulk_job(id).await
    }

    /// See [`Store::bulk_jobs`].
    async fn bulk_jobs(
        &self,
        namespace: NamespaceId,
        after: Option<BulkJobId>,
        limit: u32,
    ) -> Result<Vec<BulkJob>, Error> {
        self.inner().bulk_jobs(namespace, after, limit).await
    }

    /// See [`Store::due_bulk_jobs`].
    async fn due_bulk_jobs(&self, scope: &ReconcilerScope, limit: u32) -> Result<Vec<BulkJob>, Error> {
        self.inner().due_bulk_jobs(scope, limit).await
    }

    /// See [`Store::pending_inbox`].
    async fn pending_inbox(
        &self,
        namespace: Option<&Name>,
        after: Option<(u64, InboxNumber)>,
        limit: u32,
    ) -> Result<Vec<InboxEntry>, Error> {
        self.inner().pending_inbox(namespace, after, limit).await
    }

    /// See [`Store::refused_inbox`].
    async fn refused_inbox(
        &self,
        namespace: &Name,
        after: Option<InboxNumber>,
        limit: u32,
    ) -> Result<Vec<InboxEntry>, Error> {
        self.inner().refused_inbox(namespace, after, limit).await
    }

    /// See [`Store::count_inbox`].
    async fn count_inbox(&self, namespace: Option<&Name>, bound: u64) -> Result<InboxCounts, Error> {
        self.inner().count_inbox(namespace, bound).await
    }

    /// See [`Store::delete_old_inbox`].
    async fn delete_old_inbox(&self, limit: u32) -> Result<u64, Error> {
        self.inner().delete_old_inbox(limit).await
    }

    /// See [`Store::touch_api_keys`].
    async fn touch_api_keys(&self, ids: &[ApiKeyId]) -> Result<(), Error> {
        self.inner().touch_api_keys(ids).await
    }

    /// See [`Store::webhook`].
    async fn webhook(&self, name: &WebhookName) -> Result<Option<Webhook>, Error> {
        self.inner().webhook(name).await
    }

    /// See [`Store::webhooks`].
    async fn webhooks(
        &self,
        namespace: Option<NamespaceId>,
        after: Option<&WebhookName>,
        limit: u32,
    ) -> Result<Vec<Webhook>, Error> {
        self.inner().webhooks(namespace, after, limit).await
    }

    /// See [`Store::deliveries`].
    async fn deliveries(&self, page: &DeliveryPage) -> Result<Vec<Delivery>, Error> {
        self.inner().deliveries(page).await
    }

    /// See [`Store::root_secret`].
    async fn root_secret(&self, new: &[u8]) -> Result<RootSecret, Error> {
        self.inner().root_secret(new).await
    }

    /// See [`Store::fetch_gates`].
    async fn fetch_gates(&self, ids: &[GateId]) -> Result<Vec<Gate>, Error> {
        self.inner().fetch_gates(ids).await
    }

    /// See [`Store::list_gates`].
    async fn list_gates(
        &self,
        namespace: NamespaceId,
        kind: GateKind,
        after: Option<&Name>,
        limit: u32,
    ) -> Result<Vec<Gate>, Error> {
        self.inner().list_gates(namespace, kind, after, limit).await
    }

    /// See [`Store::due_gates`].
    async fn due_gates(
        &self,
        scope: &ReconcilerScope,
        after: Option<(Timestamp, GateId)>,
        limit: u32,
    ) -> Result<Vec<Gate>, Error> {
        self.inner().due_gates(scope, after, limit).await
    }

    /// See [`Store::schedule`].
    async fn schedule(&self, name: &ScheduleName) -> Result<Option<Schedule>, Error> {
        self.inner().schedule(name).await
    }

    /// See [`Store::schedules`].
    async fn schedules(
        &self,
        namespace: NamespaceId,
        after: Option<&Name>,
        limit: u32,
    ) -> Result<Vec<Schedule>, Error> {
        self.inner().schedules(namespace, after, limit).await
    }

    /// See [`Store::due_schedules`].
    async fn due_schedules(
        &self,
        scope: &ReconcilerScope,
        after: Option<(Timestamp, ScheduleName)>,
        limit: u32,
    ) -> Result<DueSchedules, Error> {
        self.inner().due_schedules(scope, after, limit).await
    }

    /// See [`Store::held_by`].
    async fn held_by(&self, gate: GateId, bound: u64) -> Result<u64, Error> {
        self.inner().held_by(gate, bound).await
    }

    /// See [`Store::parts_of`].
    async fn parts_of(&self, gate: &GateName, limit: u32) -> Result<Vec<Gate>, Error> {
        self.inner().parts_of(gate, limit).await
    }

    /// See [`Store::ledger`].
    async fn ledger(&self, gate: GateId, period: u32) -> Result<Vec<LedgerEntry>, Error> {
        self.inner().ledger(gate, period).await
    }

    /// See [`Store::ledger_of`].
    async fn ledger_of(&self, execution: ExecutionId) -> Result<Vec<LedgerEntry>, Error> {
        self.inner().ledger_of(execution).await
    }

    /// See [`Store::glance`].
    async fn glance(&self) -> Result<Overview, Error> {
        self.inner().glance().await
    }

    /// See [`Store::now`].
    async fn now(&self) -> Result<Timestamp, Error> {
        self.inner().now().await
    }

    /// See [`Store::overview`].
    async fn overview(&self) -> Result<Overview, Error> {
        self.inner().overview().await
    }

    /// See [`Store::due`].
    async fn due(
        &self,
        scope: &ReconcilerScope,
        kind: DueKind,
        after: Option<(Timestamp, ExecutionId)>,
        limit: u32,
    ) -> Result<Vec<DueRow>, Error> {
        self.inner().due(scope, kind, after, limit).await
    }

    /// See [`Store::expired_leases`].
    async fn expired_leases(
        &self,
        scope: &ReconcilerScope,
        after: Option<ExecutionId>,
        limit: u32,
    ) -> Result<Vec<DueRow>, Error> {
        self.inner().expired_leases(scope, after, limit).await
    }

    /// See [`Store::due_flows`].
    async fn due_flows(
        &self,
        scope: &ReconcilerScope,
        kind: FlowDue,
        after: Option<(Timestamp, FlowId)>,
        limit: u32,
    ) -> Result<Vec<DueFlow>, Error> {
        self.inner().due_flows(scope, kind, after, limit).await
    }

    /// See [`Store::outbox`].
    async fn outbox(
        &self,
        scope: &ReconcilerScope,
        kind: OutboxKind,
        stale_ms: i64,
        after: Option<(Timestamp, Uuid)>,
        limit: u32,
    ) -> Result<Vec<OutboxRow>, Error> {
        self.inner().outbox(scope, kind, stale_ms, after, limit).await
    }

    /// See [`Store::unseen_sessions`].
    async fn unseen_sessions(&self, unseen_ms: i64, limit: u32) -> Result<Vec<SessionId>, Error> {
        self.inner().unseen_sessions(unseen_ms, limit).await
    }

    /// See [`Store::delete_expired_keys`].
    async fn delete_expired_keys(&self, limit: u32) -> Result<u64, Error> {
        self.inner().delete_expired_keys(limit).await
    }

    /// See [`Store::log_page`].
    async fn log_page(&self, after: i64, limit: LogLimit) -> Result<Entries, Error> {
        self.inner().log_page(after, limit).await
    }

    /// See [`Store::drop_old_log`].
    async fn drop_old_log(&self, keep_ms: i64) -> Result<u64, Error> {
        self.inner().drop_old_log(keep_ms).await
    }

    /// See [`Store::take_projection`].
    async fn take_projection(&self, lease: ProjectionLease) -> Result<Option<i64>, Error> {
        self.inner().take_projection(lease).await
    }

    /// See [`Store::save_projection`].
    async fn save_projection(&self, lease: ProjectionLease, page: ProjectionPage) -> Result<bool, Error> {
        self.inner().save_projection(lease, page).await
    }

    /// See [`Store::delete_old_projection`].
    async fn delete_old_projection(&self, limit: u32) -> Result<u64, Error> {
        self.inner().delete_old_projection(limit).await
    }

    /// See [`Store::save_rollups`].
    async fn save_rollups(&self, rows: &[RollupRow]) -> Result<(), Error> {
        self.inner().save_rollups(rows).await
    }

    /// See [`Store::rollups`].
    async fn rollups(&self, query: &RollupQuery, limit: u32) -> Result<Vec<RollupRow>, Error> {
        self.inner().rollups(query, limit).await
    }

    /// See [`Store::delete_old_rollups`].
    async fn delete_old_rollups(&self, keep_ms: i64, limit: u32) -> Result<u64, Error> {
        self.inner().delete_old_rollups(keep_ms, limit).await
    }

    /// See [`Store::notify`].
    async fn notify(&self, notification: Notification) -> Result<(), Error> {
        self.inner().notify(notification).await
    }

    /// See [`Store::next_notification`].
    async fn next_notification(&self) -> Option<Notification> {
        self.inner().next_notification().await
    }

    /// See [`Store::announce_coverage`].
    async fn announce_coverage(&self, namespace: Option<NamespaceId>) {
        self.inner().announce_coverage(namespace).await
    }

    /// See [`Store::coverage`].
    async fn coverage(&self) -> Result<Vec<Option<NamespaceId>>, Error> {
        self.inner().coverage().await
    }

    /// See [`Store::figures`].
    async fn figures(&self) -> Result<Option<(i64, i64)>, Error> {
        self.inner().figures().await
    }

    /// See [`Store::ping`].
    async fn ping(&self) -> Result<(), Error> {
        self.inner().ping().await
    }

    /// See [`Store::close`].
    async fn close(&self) {
        self.inner().close().await;
    }
}
