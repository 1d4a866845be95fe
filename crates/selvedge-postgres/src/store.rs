//! The contract of a store, fulfilled: decisions run in `transaction`, everything else in `read/`, `log/` and the
//! modules of their nouns.

use crate::{PostgresStore, sql};
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
use selvedge_core::stream::{Frame, FrameRange, Stream, StreamName};
use selvedge_core::token::TokenKey;
use selvedge_core::waitpoint::{WaitpointFilter, WaitpointPosition};
use selvedge_core::webhook::{Delivery, Webhook, WebhookName};
use selvedge_core::{
    Class, ClassId, DueKind, Execution, ExecutionId, Flow, FlowId, Name, NamespaceId, Session, SessionId,
    Signal, Step, Timestamp, Waitpoint, WaitpointId,
};
use selvedge_store::{
    ApiKeyStore, BulkJobReads, CallMeter, ClassStore, Decision, DeliveryPage, Depth, Description, DueFlow,
    DueReads, DueRow, DueSchedules, Entries, Error, ExecutionReads, FlowDue, FlowReads, GateReads, Head,
    InboxCounts, InboxStore, KeyStore, LaneCounts, ListPage, LogLimit, LogStore, NamespaceSettings,
    NamespaceStore, Notification, OutboxReads, Overview, ProjectionLease, ProjectionPage, ProjectionStore,
    ReconcilerScope, RollupStore, RootSecret, ScheduleReads, SecretPlace, SecretStore, SessionReads,
    SignalReads, StepReads, Stored, StreamStore, TokenKeyReads, Transaction, Transactions, WaitpointReads,
    WebhookReads,
};
use uuid::Uuid;

#[async_trait]
impl Transactions for PostgresStore {
    fn describe(&self) -> Description {
        let durability = "Every commit is in the write-ahead log on disk before it is acknowledged; with synchronous standbys, \
                          there as well.";
        Description { name: "postgres", writers: self.settings.writers, shared: true, durability }
    }

    fn lineage(&self) -> u64 {
        self.history.number()
    }

    fn meter(&self) -> &CallMeter {
        &self.meter
    }

    async fn now(&self) -> Result<Timestamp, Error> {
        self.meter.measure("now", self.read_time()).await
    }

    async fn bring_forward(&self, time: Timestamp) -> Result<bool, Error> {
        self.meter.measure("bring_forward", self.carry_on_from(time)).await
    }

    async fn transact(&self, decision: Box<dyn Decision>) -> Result<Transaction, Error> {
        self.meter.measure("transact", self.run(decision)).await
    }

    async fn notify(&self, notification: Notification) -> Result<(), Error> {
        self.meter.measure("notify", self.notify(notification)).await
    }

    async fn next_notification(&self) -> Option<Notification> {
        Some(self.listener.lock().await.next().await)
    }

    async fn figures(&self) -> Result<Option<(i64, i64)>, Error> {
        let text = "select pg_snapshot_xmax(pg_current_snapshot())::text::bigint, \
                    pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint";
        let rows = self.meter.measure("figures", self.query(text, &[])).await?;
        Ok(rows.first().map(|row| (row.get(0), row.get(1))))
    }

    async fn announce_coverage(&self, namespace: Option<NamespaceId>) {
        self.hold_coverage(namespace).await
    }

    async fn coverage(&self) -> Result<Vec<Option<NamespaceId>>, Error> {
        self.meter.measure("coverage", self.list_coverage()).await
    }

    async fn ping(&self) -> Result<(), Error> {
        // A row lock is a write: it is refused where writes are, and its commit waits for the disk. It leaves no dead row.
        let text = "select 1 from schema_version for update skip locked";
        self.meter.measure("ping", self.query(text, &[])).await.map(drop)
    }

    async fn close(&self) {
        for connections in [&self.writers, &self.readers, &self.background] {
            connections.close();
        }
    }
}

#[async_trait]
impl DueReads for PostgresStore {
    async fn overview(&self) -> Result<Overview, Error> {
        self.meter.measure("overview", self.read_overview()).await
    }

    async fn glance(&self) -> Result<Overview, Error> {
        self.meter.measure("glance", self.read_glance()).await
    }
}

#[async_trait]
impl ExecutionReads for PostgresStore {
    async fn fetch(&self, ids: &[ExecutionId], payloads: Payloads) -> Result<Vec<Stored>, Error> {
        self.meter.measure("fetch", self.read_executions(ids, payloads)).await
    }

    async fn payload_sizes(
        &self,
        ids: &[ExecutionId],
        payloads: Payloads,
    ) -> Result<Vec<(ExecutionId, u64)>, Error> {
        self.meter.measure("payload_sizes", self.read_sizes(ids, payloads)).await
    }

    async fn head(&self, id: ExecutionId) -> Result<Option<Head>, Error> {
        self.meter.measure("head", self.read_head(id)).await
    }

    async fn list(
        &self,
        filter: &Filter,
        after: Option<ListPosition>,
        limit: u32,
        payloads: Payloads,
    ) -> Result<ListPage, Error> {
        self.meter.measure("list", self.find_executions(filter, after, limit, payloads)).await
    }

    async fn count(&self, filter: &Filter, bound: u64) -> Result<u64, Error> {
        self.meter.measure("count", self.count_executions(filter, bound)).await
    }

    async fn count_lanes(
        &self,
        namespace: NamespaceId,
        lanes: &[Vec<ClassId>],
        bound: u64,
    ) -> Result<Vec<LaneCounts>, Error> {
        self.meter.measure("count_lanes", self.count_in_lanes(namespace, lanes, bound)).await
    }

    async fn depths(
        &self,
        namespace: NamespaceId,
        ranges: &[ClassId],
        bound: u64,
    ) -> Result<Vec<Depth>, Error> {
        self.meter.measure("depths", self.measure_depths(namespace, ranges, bound)).await
    }

    async fn history_pages(&self, id: ExecutionId) -> Result<Vec<Vec<u8>>, Error> {
        self.meter.measure("history_pages", self.read_history(id)).await
    }

    async fn ahead_of(&self, execution: &Execution, bound: u64) -> Result<u64, Error> {
        self.meter.measure("ahead_of", self.count_ahead(execution, bound)).await
    }

    async fn due(
        &self,
        scope: &ReconcilerScope,
        kind: DueKind,
        after: Option<(Timestamp, ExecutionId)>,
        limit: u32,
    ) -> Result<Vec<DueRow>, Error> {
        self.meter.measure("due", self.find_due(scope, kind, after, limit)).await
    }

    async fn expired_leases(
        &self,
        scope: &ReconcilerScope,
        after: Option<ExecutionId>,
        limit: u32,
    ) -> Result<Vec<DueRow>, Error> {
        self.meter.measure("expired_leases", self.find_expired_leases(scope, after, limit)).await
    }
}

#[async_trait]
impl FlowReads for PostgresStore {
    async fn fetch_flows(&self, ids: &[FlowId]) -> Result<Vec<Flow>, Error> {
        self.meter.measure("fetch_flows", self.read_flows(ids)).await
    }

    async fn list_flows(
        &self,
        filter: &FlowFilter,
        after: Option<FlowListPosition>,
        limit: u32,
    ) -> Result<Vec<Flow>, Error> {
        self.meter.measure("list_flows", self.find_flows(filter, after, limit)).await
    }

    async fn count_flows(&self, namespace: NamespaceId, state: FlowState, bound: u64) -> Result<u64, Error> {
        self.meter.measure("count_flows", self.count_flows_in(namespace, state, bound)).await
    }

    async fn members(&self, page: Members) -> Result<Vec<Execution>, Error> {
        self.meter.measure("members", self.read_members(page)).await
    }

    async fn due_flows(
        &self,
        scope: &ReconcilerScope,
        kind: FlowDue,
        after: Option<(Timestamp, FlowId)>,
        limit: u32,
    ) -> Result<Vec<DueFlow>, Error> {
        self.meter.measure("due_flows", self.find_due_flows(scope, kind, after, limit)).await
    }
}

#[async_trait]
impl OutboxReads for PostgresStore {
    async fn outbox(
        &self,
        scope: &ReconcilerScope,
        kind: OutboxKind,
        stale_ms: i64,
        after: Option<(Timestamp, Uuid)>,
        limit: u32,
    ) -> Result<Vec<OutboxRow>, Error> {
        self.meter.measure("outbox", self.find_stale_outbox(scope, kind, stale_ms, after, limit)).await
    }
}

#[async_trait]
impl GateReads for PostgresStore {
    async fn fetch_gates(&self, ids: &[GateId]) -> Result<Vec<Gate>, Error> {
        self.meter.measure("fetch_gates", self.read_gates(ids)).await
    }

    async fn list_gates(
        &self,
        namespace: NamespaceId,
        kind: GateKind,
        after: Option<&Name>,
        limit: u32,
    ) -> Result<Vec<Gate>, Error> {
        self.meter.measure("list_gates", self.find_gates(namespace, kind, after, limit)).await
    }

    async fn due_gates(
        &self,
        scope: &ReconcilerScope,
        after: Option<(Timestamp, GateId)>,
        limit: u32,
    ) -> Result<Vec<Gate>, Error> {
        self.meter.measure("due_gates", self.find_due_gates(scope, after, limit)).await
    }

    async fn parts_of(&self, gate: &GateName, limit: u32) -> Result<Vec<Gate>, Error> {
        self.meter.measure("parts_of", self.find_parts(gate, limit)).await
    }

    async fn ledger(&self, gate: GateId, period: u32) -> Result<Vec<LedgerEntry>, Error> {
        self.meter.measure("ledger", self.read_ledger(gate, period)).await
    }

    async fn ledger_of(&self, execution: ExecutionId) -> Result<Vec<LedgerEntry>, Error> {
        self.meter.measure("ledger_of", self.read_ledger_of(execution)).await
    }

    async fn held_by(&self, gate: GateId, bound: u64) -> Result<u64, Error> {
        self.meter.measure("held_by", self.count_held(gate, bound)).await
    }
}

#[async_trait]
impl SessionReads for PostgresStore {
    async fn sessions(&self, namespace: Option<NamespaceId>) -> Result<Vec<Session>, Error> {
        self.meter.measure("sessions", self.list_sessions(namespace)).await
    }

    async fn unseen_sessions(&self, unseen_ms: i64, limit: u32) -> Result<Vec<SessionId>, Error> {
        self.meter.measure("unseen_sessions", self.find_unseen_sessions(unseen_ms, limit)).await
    }
}

#[async_trait]
impl StreamStore for PostgresStore {
    async fn frames(&self, stream: StreamName, range: FrameRange, limit: u32) -> Result<Vec<Frame>, Error> {
        self.meter.measure("frames", self.read_frames(stream, range, limit)).await
    }

    async fn stream(&self, stream: StreamName) -> Result<Option<Stream>, Error> {
        self.meter.measure("stream", self.read_stream(stream)).await
    }

    async fn delete_old_frames(&self, limit: u32) -> Result<u64, Error> {
        self.meter.measure("delete_old_frames", self.delete_frames(limit)).await
    }
}

#[async_trait]
impl SignalReads for PostgresStore {
    async fn signals(&self, of: ExecutionId, after: u32, limit: u32) -> Result<Vec<Signal>, Error> {
        self.meter.measure("signals", self.read_signals(of, after, limit)).await
    }
}

#[async_trait]
impl StepReads for PostgresStore {
    async fn steps(&self, of: ExecutionId, after: u32, limit: u32) -> Result<Vec<Step>, Error> {
        self.meter.measure("steps", self.read_steps(of, after, limit)).await
    }
}

#[async_trait]
impl WaitpointReads for PostgresStore {
    async fn waitpoints(&self, of: ExecutionId, after: u32, limit: u32) -> Result<Vec<Waitpoint>, Error> {
        self.meter.measure("waitpoints", self.read_waitpoints(of, after, limit)).await
    }

    async fn list_waitpoints(
        &self,
        filter: &WaitpointFilter,
        after: Option<WaitpointPosition>,
        limit: u32,
    ) -> Result<Vec<Waitpoint>, Error> {
        self.meter.measure("list_waitpoints", self.list_waitpoints_of(filter, after, limit)).await
    }

    async fn waitpoint(&self, id: WaitpointId) -> Result<Option<Waitpoint>, Error> {
        self.meter.measure("waitpoint", self.find_waitpoint(id)).await
    }
}

#[async_trait]
impl TokenKeyReads for PostgresStore {
    async fn token_keys(&self) -> Result<Vec<TokenKey>, Error> {
        self.meter.measure("token_keys", self.list_token_keys()).await
    }
}

#[async_trait]
impl KeyStore for PostgresStore {
    async fn delete_expired_keys(&self, limit: u32) -> Result<u64, Error> {
        self.meter
            .measure("delete_expired_keys", self.execute(&sql::KEYS_DELETE_EXPIRED, &[&i64::from(limit)]))
            .await
    }
}

#[async_trait]
impl ApiKeyStore for PostgresStore {
    async fn api_key(&self, digest: &KeyDigest) -> Result<Option<(ApiKey, Timestamp)>, Error> {
        self.meter.measure("api_key", self.find_api_key(digest)).await
    }

    async fn api_keys(&self, after: Option<ApiKeyId>, limit: u32) -> Result<Vec<ApiKey>, Error> {
        self.meter.measure("api_keys", self.list_api_keys(after, limit)).await
    }

    async fn touch_api_keys(&self, ids: &[ApiKeyId]) -> Result<(), Error> {
        self.meter.measure("touch_api_keys", self.record_use_of_api_keys(ids)).await
    }
}

#[async_trait]
impl BulkJobReads for PostgresStore {
    async fn bulk_job(&self, id: BulkJobId) -> Result<Option<BulkJob>, Error> {
        self.meter.measure("bulk_job", self.read_bulk_job(id)).await
    }

    async fn bulk_jobs(
        &self,
        namespace: NamespaceId,
        after: Option<BulkJobId>,
        limit: u32,
    ) -> Result<Vec<BulkJob>, Error> {
        self.meter.measure("bulk_jobs", self.list_bulk_jobs(namespace, after, limit)).await
    }

    async fn due_bulk_jobs(&self, scope: &ReconcilerScope, limit: u32) -> Result<Vec<BulkJob>, Error> {
        self.meter.measure("due_bulk_jobs", self.find_due_bulk_jobs(scope, limit)).await
    }
}

#[async_trait]
impl WebhookReads for PostgresStore {
    async fn webhook(&self, name: &WebhookName) -> Result<Option<Webhook>, Error> {
        self.meter.measure("webhook", self.find_webhook(name)).await
    }

    async fn webhooks(
        &self,
        namespace: Option<NamespaceId>,
        after: Option<&WebhookName>,
        limit: u32,
    ) -> Result<Vec<Webhook>, Error> {
        self.meter.measure("webhooks", self.list_webhooks(namespace, after, limit)).await
    }

    async fn deliveries(&self, page: &DeliveryPage) -> Result<Vec<Delivery>, Error> {
        self.meter.measure("deliveries", self.list_deliveries(page)).await
    }
}

#[async_trait]
impl ScheduleReads for PostgresStore {
    async fn schedule(&self, name: &ScheduleName) -> Result<Option<Schedule>, Error> {
        self.meter.measure("schedule", self.find_schedule(name)).await
    }

    async fn schedules(
        &self,
        namespace: NamespaceId,
        after: Option<&Name>,
        limit: u32,
    ) -> Result<Vec<Schedule>, Error> {
        self.meter.measure("schedules", self.list_schedules(namespace, after, limit)).await
    }

    async fn due_schedules(
        &self,
        scope: &ReconcilerScope,
        after: Option<(Timestamp, ScheduleName)>,
        limit: u32,
    ) -> Result<DueSchedules, Error> {
        self.meter.measure("due_schedules", self.find_due_schedules(scope, after, limit)).await
    }
}

#[async_trait]
impl InboxStore for PostgresStore {
    async fn pending_inbox(
        &self,
        namespace: Option<&Name>,
        after: Option<(u64, InboxNumber)>,
        limit: u32,
    ) -> Result<Vec<InboxEntry>, Error> {
        self.meter.measure("pending_inbox", self.list_pending_inbox(namespace, after, limit)).await
    }

    async fn refused_inbox(
        &self,
        namespace: &Name,
        after: Option<InboxNumber>,
        limit: u32,
    ) -> Result<Vec<InboxEntry>, Error> {
        self.meter.measure("refused_inbox", self.list_refused_inbox(namespace, after, limit)).await
    }

    async fn count_inbox(&self, namespace: Option<&Name>, bound: u64) -> Result<InboxCounts, Error> {
        self.meter.measure("count_inbox", self.count_inbox_rows(namespace, bound)).await
    }

    async fn delete_old_inbox(&self, limit: u32) -> Result<u64, Error> {
        self.meter.measure("delete_old_inbox", self.delete_old_inbox_rows(limit)).await
    }
}

#[async_trait]
impl NamespaceStore for PostgresStore {
    async fn namespace(&self, name: &Name) -> Result<NamespaceId, Error> {
        self.meter.measure("namespace", self.intern_namespace(name)).await
    }

    async fn find_namespace(&self, name: &Name) -> Result<Option<NamespaceId>, Error> {
        self.meter.measure("find_namespace", self.find_namespace_named(name)).await
    }

    async fn namespaces(&self) -> Result<Vec<(NamespaceId, Name)>, Error> {
        self.meter.measure("namespaces", self.list_namespaces()).await
    }

    async fn namespace_settings(&self, namespace: NamespaceId) -> Result<NamespaceSettings, Error> {
        self.meter.measure("namespace_settings", self.read_settings(namespace)).await
    }

    async fn configure_namespace(
        &self,
        namespace: NamespaceId,
        settings: NamespaceSettings,
    ) -> Result<(), Error> {
        self.meter.measure("configure_namespace", self.update_settings(namespace, settings)).await
    }

    async fn delete_rest_of_namespace(&self, namespace: NamespaceId, limit: u32) -> Result<u64, Error> {
        self.meter
            .measure(
                "delete_rest_of_namespace",
                PostgresStore::delete_rest_of_namespace(self, namespace, limit),
            )
            .await
    }
}

#[async_trait]
impl ClassStore for PostgresStore {
    async fn intern(&self, classes: &[Class]) -> Result<Vec<(ClassId, Class)>, Error> {
        self.meter.measure("intern", self.intern_classes(classes)).await
    }

    async fn classes_after(&self, after: ClassId) -> Result<Vec<(ClassId, Class)>, Error> {
        self.meter.measure("classes_after", self.list_classes(after)).await
    }

    async fn remove_unused_classes(&self, unused_ms: i64, limit: u32) -> Result<u64, Error> {
        self.meter.measure("remove_unused_classes", self.remove_classes(unused_ms, limit)).await
    }
}

#[async_trait]
impl LogStore for PostgresStore {
    async fn log_page(&self, after: i64, limit: LogLimit) -> Result<Entries, Error> {
        self.meter.measure("log_page", self.read_log(after, limit)).await
    }

    async fn drop_old_log(&self, keep_ms: i64) -> Result<u64, Error> {
        self.meter.measure("drop_old_log", self.keep_window(keep_ms)).await
    }
}

#[async_trait]
impl ProjectionStore for PostgresStore {
    async fn take_projection(&self, lease: ProjectionLease) -> Result<Option<i64>, Error> {
        self.meter.measure("take_projection", self.take_projection_lease(lease)).await
    }

    async fn save_projection(&self, lease: ProjectionLease, page: ProjectionPage) -> Result<bool, Error> {
        self.meter.measure("save_projection", self.save_projection_page(lease, &page)).await
    }

    async fn delete_old_projection(&self, limit: u32) -> Result<u64, Error> {
        self.meter
            .measure(
                "delete_old_projection",
                self.execute(&sql::PROJECTED_EVENTS_DELETE_OLD, &[&i64::from(limit)]),
            )
            .await
    }
}

#[async_trait]
impl RollupStore for PostgresStore {
    async fn save_rollups(&self, rows: &[RollupRow]) -> Result<(), Error> {
        self.meter.measure("save_rollups", self.upsert_rollups(rows)).await
    }

    async fn rollups(&self, query: &RollupQuery, limit: u32) -> Result<Vec<RollupRow>, Error> {
        self.meter.measure("rollups", self.list_rollups(query, limit)).await
    }

    async fn delete_old_rollups(&self, keep_ms: i64, limit: u32) -> Result<u64, Error> {
        self.meter
            .measure(
                "delete_old_rollups",
                self.execute(&sql::ROLLUPS_DELETE_OLD, &[&keep_ms, &i64::from(limit)]),
            )
            .await
    }
}

#[async_trait]
impl SecretStore for PostgresStore {
    async fn root_secret(&self, new: &[u8]) -> Result<RootSecret, Error> {
        let bytes = self.meter.measure("root_secret", self.keep_secret(new)).await?;
        Ok(RootSecret { bytes, place: SecretPlace::Store })
    }
}
