//! The contract of a store, fulfilled: changes go to the writer, reads to a reader.

use crate::connection::failure::failure;
use crate::connection::job::JobContext;
use crate::connection::owner::Epoch;
use crate::read::{due, flows, list, names, stats};
use crate::transaction::decide;
use crate::{
    SqliteStore, api_keys, bulk_jobs, gates, locked, projection, read, record, schedules, sql, streams,
    wait_for, webhooks,
};
use async_trait::async_trait;
use selvedge_core::api_key::{ApiKey, ApiKeyId, KeyDigest};
use selvedge_core::bulk_job::{BulkJob, BulkJobId};
use selvedge_core::filter::{Filter, ListPosition, Payloads};
use selvedge_core::flow::{FlowFilter, FlowListPosition, FlowState};
use selvedge_core::gate::{Gate, GateId, GateKind, GateName, LedgerEntry};
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
use selvedge_store::{
    ApiKeyStore, BulkJobReads, CallMeter, ClassStore, Decision, DeliveryPage, Depth, Description, DueFlow,
    DueReads, DueRow, DueSchedules, Entries, Error, ExecutionReads, FlowDue, FlowReads, GateReads, Head,
    InboxStore, KeyStore, LaneCounts, ListPage, LogLimit, LogStore, NamespaceSettings, NamespaceStore,
    Notification, OutboxReads, Overview, ProjectionLease, ProjectionPage, ProjectionStore, ReconcilerScope,
    RollupStore, RootSecret, ScheduleReads, SecretStore, SessionReads, SignalReads, StepReads, Stored,
    StreamStore, TokenKeyReads, Transaction, Transactions, WaitpointReads, WebhookReads,
};
use std::future::ready;
use uuid::Uuid;

#[async_trait]
impl Transactions for SqliteStore {
    fn describe(&self) -> Description {
        let durability = "Every commit is written through to the disk before it is acknowledged.";
        Description { name: "sqlite", writers: 1, shared: false, durability }
    }

    fn meter(&self) -> &CallMeter {
        &self.meter
    }

    async fn now(&self) -> Result<Timestamp, Error> {
        self.meter.measure("now", ready(Ok(self.clock.now()))).await
    }

    async fn transact(&self, mut decision: Box<dyn Decision>) -> Result<Transaction, Error> {
        self.write("transact", move |context| decide(&mut *decision, context)).await
    }

    /// Does nothing: there are no other servers.
    async fn notify(&self, _: Notification) -> Result<(), Error> {
        self.meter.measure("notify", ready(Ok(()))).await
    }

    async fn next_notification(&self) -> Option<Notification> {
        None
    }

    async fn figures(&self) -> Result<Option<(i64, i64)>, Error> {
        self.meter.measure("figures", ready(Ok(Some(self.figures.so_far())))).await
    }

    async fn ping(&self) -> Result<(), Error> {
        self.write("ping", |context| {
            let written = Epoch::read(context.connection).and_then(|epoch| epoch.write(context.connection));
            written.map_err(failure)
        })
        .await
    }

    async fn close(&self) {
        self.readers.close().await;
        if let Some(thread) = self.stop_writing() {
            // If this fails the runtime is shutting down, and the thread ends by itself.
            let _ = tokio::task::spawn_blocking(move || wait_for(thread)).await;
        }
        locked(&self.lock).take();
    }
}

#[async_trait]
impl DueReads for SqliteStore {
    async fn overview(&self) -> Result<Overview, Error> {
        let now = self.clock.now();
        self.read("overview", move |connection| due::overview(connection, now)).await
    }

    async fn glance(&self) -> Result<Overview, Error> {
        let now = self.clock.now();
        self.read("glance", move |connection| due::overview(connection, now)).await
    }
}

#[async_trait]
impl ExecutionReads for SqliteStore {
    async fn fetch(&self, ids: &[ExecutionId], payloads: Payloads) -> Result<Vec<Stored>, Error> {
        let ids = ids.to_vec();
        self.read("fetch", move |connection| read::fetch(connection, &ids, payloads)).await
    }

    async fn payload_sizes(
        &self,
        ids: &[ExecutionId],
        payloads: Payloads,
    ) -> Result<Vec<(ExecutionId, u64)>, Error> {
        let ids = ids.to_vec();
        self.read("payload_sizes", move |connection| read::payload_sizes(connection, &ids, payloads)).await
    }

    async fn head(&self, id: ExecutionId) -> Result<Option<Head>, Error> {
        self.read("head", move |connection| read::head(connection, id)).await
    }

    async fn list(
        &self,
        filter: &Filter,
        after: Option<ListPosition>,
        limit: u32,
        payloads: Payloads,
    ) -> Result<ListPage, Error> {
        let filter = filter.clone();
        self.read("list", move |connection| list::list(connection, &filter, after, limit, payloads)).await
    }

    async fn count(&self, filter: &Filter, bound: u64) -> Result<u64, Error> {
        let filter = filter.clone();
        self.read("count", move |connection| list::count(connection, &filter, bound)).await
    }

    async fn count_lanes(
        &self,
        namespace: NamespaceId,
        lanes: &[Vec<ClassId>],
        bound: u64,
    ) -> Result<Vec<LaneCounts>, Error> {
        let lanes = lanes.to_vec();
        self.read("count_lanes", move |connection| list::count_lanes(connection, namespace, &lanes, bound))
            .await
    }

    async fn depths(
        &self,
        namespace: NamespaceId,
        ranges: &[ClassId],
        bound: u64,
    ) -> Result<Vec<Depth>, Error> {
        let ranges = ranges.to_vec();
        self.read("depths", move |connection| stats::depths(connection, namespace, &ranges, bound)).await
    }

    async fn history_pages(&self, id: ExecutionId) -> Result<Vec<Vec<u8>>, Error> {
        self.read("history_pages", move |connection| read::history_pages(connection, id)).await
    }

    async fn ahead_of(&self, execution: &Execution, bound: u64) -> Result<u64, Error> {
        let execution = execution.clone();
        self.read("ahead_of", move |connection| read::ahead_of(connection, &execution, bound)).await
    }

    async fn due(
        &self,
        scope: &ReconcilerScope,
        kind: DueKind,
        after: Option<(Timestamp, ExecutionId)>,
        limit: u32,
    ) -> Result<Vec<DueRow>, Error> {
        let now = self.clock.now();
        let scope = scope.clone();
        self.read("due", move |connection| due::due(connection, now, &scope, kind, after, limit)).await
    }

    async fn expired_leases(
        &self,
        scope: &ReconcilerScope,
        after: Option<ExecutionId>,
        limit: u32,
    ) -> Result<Vec<DueRow>, Error> {
        let now = self.clock.now();
        let scope = scope.clone();
        self.read("expired_leases", move |connection| {
            due::expired_leases(connection, now, &scope, after, limit)
        })
        .await
    }
}

#[async_trait]
impl FlowReads for SqliteStore {
    async fn fetch_flows(&self, ids: &[FlowId]) -> Result<Vec<Flow>, Error> {
        let ids = ids.to_vec();
        self.read("fetch_flows", move |connection| flows::fetch(connection, &ids)).await
    }

    async fn list_flows(
        &self,
        filter: &FlowFilter,
        after: Option<FlowListPosition>,
        limit: u32,
    ) -> Result<Vec<Flow>, Error> {
        let filter = filter.clone();
        self.read("list_flows", move |connection| flows::list(connection, &filter, after, limit)).await
    }

    async fn count_flows(&self, namespace: NamespaceId, state: FlowState, bound: u64) -> Result<u64, Error> {
        self.read("count_flows", move |connection| stats::count_flows(connection, namespace, state, bound))
            .await
    }

    async fn members(&self, page: Members) -> Result<Vec<Execution>, Error> {
        self.read("members", move |connection| flows::members(connection, page)).await
    }

    async fn due_flows(
        &self,
        scope: &ReconcilerScope,
        kind: FlowDue,
        after: Option<(Timestamp, FlowId)>,
        limit: u32,
    ) -> Result<Vec<DueFlow>, Error> {
        let now = self.clock.now();
        let scope = scope.clone();
        self.read("due_flows", move |connection| due::due_flows(connection, now, &scope, kind, after, limit))
            .await
    }
}

#[async_trait]
impl OutboxReads for SqliteStore {
    async fn outbox(
        &self,
        scope: &ReconcilerScope,
        kind: OutboxKind,
        stale_ms: i64,
        after: Option<(Timestamp, Uuid)>,
        limit: u32,
    ) -> Result<Vec<OutboxRow>, Error> {
        let before = self.clock.now().minus_ms(stale_ms);
        let scope = scope.clone();
        self.read("outbox", move |connection| due::outbox(connection, before, &scope, kind, after, limit))
            .await
    }
}

#[async_trait]
impl GateReads for SqliteStore {
    async fn fetch_gates(&self, ids: &[GateId]) -> Result<Vec<Gate>, Error> {
        let ids = ids.to_vec();
        self.read("fetch_gates", move |connection| gates::fetch(connection, &ids)).await
    }

    async fn list_gates(
        &self,
        namespace: NamespaceId,
        kind: GateKind,
        after: Option<&Name>,
        limit: u32,
    ) -> Result<Vec<Gate>, Error> {
        let after = after.cloned();
        let list = move |connection: &_| gates::list(connection, namespace, kind, after.as_ref(), limit);
        self.read("list_gates", list).await
    }

    async fn due_gates(
        &self,
        scope: &ReconcilerScope,
        after: Option<(Timestamp, GateId)>,
        limit: u32,
    ) -> Result<Vec<Gate>, Error> {
        let now = self.clock.now();
        let scope = scope.clone();
        self.read("due_gates", move |connection| gates::due(connection, now, &scope, after, limit)).await
    }

    async fn parts_of(&self, gate: &GateName, limit: u32) -> Result<Vec<Gate>, Error> {
        let gate = gate.clone();
        self.read("parts_of", move |connection| gates::parts_of(connection, &gate, limit)).await
    }

    async fn ledger(&self, gate: GateId, period: u32) -> Result<Vec<LedgerEntry>, Error> {
        self.read("ledger", move |connection| gates::ledger(connection, gate, period)).await
    }

    async fn ledger_of(&self, execution: ExecutionId) -> Result<Vec<LedgerEntry>, Error> {
        self.read("ledger_of", move |connection| gates::ledger_of(connection, execution)).await
    }

    async fn held_by(&self, gate: GateId, bound: u64) -> Result<u64, Error> {
        self.read("held_by", move |connection| gates::held_by(connection, gate, bound)).await
    }
}

#[async_trait]
impl SessionReads for SqliteStore {
    async fn sessions(&self, namespace: Option<NamespaceId>) -> Result<Vec<Session>, Error> {
        self.read("sessions", move |connection| read::sessions(connection, namespace)).await
    }

    async fn unseen_sessions(&self, unseen_ms: i64, limit: u32) -> Result<Vec<SessionId>, Error> {
        let before = self.clock.now().minus_ms(unseen_ms);
        self.read("unseen_sessions", move |connection| due::unseen_sessions(connection, before, limit)).await
    }
}

#[async_trait]
impl StreamStore for SqliteStore {
    async fn frames(&self, name: StreamName, range: FrameRange, limit: u32) -> Result<Vec<Frame>, Error> {
        let now = self.clock.now();
        self.read("frames", move |connection| streams::frames(connection, name, range, limit, now)).await
    }

    async fn stream(&self, name: StreamName) -> Result<Option<Stream>, Error> {
        self.read("stream", move |connection| streams::read(connection, name)).await
    }

    async fn delete_old_frames(&self, limit: u32) -> Result<u64, Error> {
        self.write("delete_old_frames", move |context| {
            streams::delete_old_frames(context.connection, context.now, limit).map_err(failure)
        })
        .await
    }
}

#[async_trait]
impl SignalReads for SqliteStore {
    async fn signals(&self, of: ExecutionId, after: u32, limit: u32) -> Result<Vec<Signal>, Error> {
        self.read("signals", move |connection| record::signals(connection, of, after, limit)).await
    }
}

#[async_trait]
impl StepReads for SqliteStore {
    async fn steps(&self, of: ExecutionId, after: u32, limit: u32) -> Result<Vec<RecordedStep>, Error> {
        self.read("steps", move |connection| record::steps(connection, of, after, limit)).await
    }
}

#[async_trait]
impl WaitpointReads for SqliteStore {
    async fn waitpoints(&self, of: ExecutionId, after: u32, limit: u32) -> Result<Vec<Waitpoint>, Error> {
        self.read("waitpoints", move |connection| record::waitpoints(connection, of, after, limit)).await
    }

    async fn list_waitpoints(
        &self,
        filter: &WaitpointFilter,
        after: Option<WaitpointPosition>,
        limit: u32,
    ) -> Result<Vec<Waitpoint>, Error> {
        let filter = filter.clone();
        let read = move |connection: &_| record::list_waitpoints(connection, &filter, after, limit);
        self.read("list_waitpoints", read).await
    }

    async fn waitpoint(&self, id: WaitpointId) -> Result<Option<Waitpoint>, Error> {
        self.read("waitpoint", move |connection| record::waitpoint(connection, id)).await
    }
}

#[async_trait]
impl TokenKeyReads for SqliteStore {
    async fn token_keys(&self) -> Result<Vec<TokenKey>, Error> {
        self.read("token_keys", record::token_keys).await
    }
}

#[async_trait]
impl KeyStore for SqliteStore {
    async fn delete_expired_keys(&self, limit: u32) -> Result<u64, Error> {
        self.write("delete_expired_keys", move |context| {
            context
                .connection
                .prepare_cached(&sql::KEYS_DELETE_EXPIRED)
                .and_then(|mut statement| statement.execute([context.now.micros(), i64::from(limit)]))
                .map(|deleted| deleted as u64)
                .map_err(failure)
        })
        .await
    }
}

#[async_trait]
impl ApiKeyStore for SqliteStore {
    async fn api_key(&self, digest: &KeyDigest) -> Result<Option<(ApiKey, Timestamp)>, Error> {
        let (digest, now) = (*digest, self.clock.now());
        let found = self.read("api_key", move |connection| api_keys::find(connection, &digest)).await?;
        Ok(found.map(|key| (key, now)))
    }

    async fn api_keys(&self, after: Option<ApiKeyId>, limit: u32) -> Result<Vec<ApiKey>, Error> {
        self.read("api_keys", move |connection| api_keys::list(connection, after, limit)).await
    }

    async fn touch_api_keys(&self, ids: &[ApiKeyId]) -> Result<(), Error> {
        let ids = ids.to_vec();
        let touch = move |context: &JobContext<'_>| {
            api_keys::touch(context.connection, &ids, context.now).map_err(failure)
        };
        self.write("touch_api_keys", touch).await
    }
}

#[async_trait]
impl BulkJobReads for SqliteStore {
    async fn bulk_job(&self, id: BulkJobId) -> Result<Option<BulkJob>, Error> {
        self.read("bulk_job", move |connection| bulk_jobs::read(connection, id)).await
    }

    async fn bulk_jobs(
        &self,
        namespace: NamespaceId,
        after: Option<BulkJobId>,
        limit: u32,
    ) -> Result<Vec<BulkJob>, Error> {
        self.read("bulk_jobs", move |connection| bulk_jobs::list(connection, namespace, after, limit)).await
    }

    async fn due_bulk_jobs(&self, scope: &ReconcilerScope, limit: u32) -> Result<Vec<BulkJob>, Error> {
        let (now, scope) = (self.clock.now(), scope.clone());
        self.read("due_bulk_jobs", move |connection| bulk_jobs::due(connection, now, &scope, limit)).await
    }
}

#[async_trait]
impl WebhookReads for SqliteStore {
    async fn webhook(&self, name: &WebhookName) -> Result<Option<Webhook>, Error> {
        let name = name.clone();
        self.read("webhook", move |connection| webhooks::find(connection, &name)).await
    }

    async fn webhooks(
        &self,
        namespace: Option<NamespaceId>,
        after: Option<&WebhookName>,
        limit: u32,
    ) -> Result<Vec<Webhook>, Error> {
        let after = after.cloned();
        let list = move |connection: &_| webhooks::list(connection, namespace, after.as_ref(), limit);
        self.read("webhooks", list).await
    }

    async fn deliveries(&self, page: &DeliveryPage) -> Result<Vec<Delivery>, Error> {
        let page = *page;
        self.read("deliveries", move |connection| webhooks::deliveries(connection, &page)).await
    }
}

#[async_trait]
impl ScheduleReads for SqliteStore {
    async fn schedule(&self, name: &ScheduleName) -> Result<Option<Schedule>, Error> {
        let name = name.clone();
        self.read("schedule", move |connection| schedules::find(connection, &name)).await
    }

    async fn schedules(
        &self,
        namespace: NamespaceId,
        after: Option<&Name>,
        limit: u32,
    ) -> Result<Vec<Schedule>, Error> {
        let after = after.cloned();
        self.read("schedules", move |connection| {
            schedules::list(connection, namespace, after.as_ref(), limit)
        })
        .await
    }

    async fn due_schedules(
        &self,
        scope: &ReconcilerScope,
        after: Option<(Timestamp, ScheduleName)>,
        limit: u32,
    ) -> Result<DueSchedules, Error> {
        let (now, scope) = (self.clock.now(), scope.clone());
        let due = move |connection: &_| schedules::due(connection, now, &scope, after.as_ref(), limit);
        Ok(DueSchedules { now, schedules: self.read("due_schedules", due).await? })
    }
}

impl InboxStore for SqliteStore {}

#[async_trait]
impl NamespaceStore for SqliteStore {
    async fn namespace(&self, name: &Name) -> Result<NamespaceId, Error> {
        let name = name.clone();
        self.write("namespace", move |context| {
            names::intern_namespace(context.connection, &name).map_err(failure)
        })
        .await
    }

    async fn find_namespace(&self, name: &Name) -> Result<Option<NamespaceId>, Error> {
        let name = name.clone();
        self.read("find_namespace", move |connection| names::find_namespace(connection, &name)).await
    }

    async fn namespaces(&self) -> Result<Vec<(NamespaceId, Name)>, Error> {
        self.read("namespaces", names::namespaces).await
    }

    async fn namespace_settings(&self, namespace: NamespaceId) -> Result<NamespaceSettings, Error> {
        self.read("namespace_settings", move |connection| names::settings(connection, namespace)).await
    }

    async fn configure_namespace(
        &self,
        namespace: NamespaceId,
        settings: NamespaceSettings,
    ) -> Result<(), Error> {
        self.write("configure_namespace", move |context| {
            names::configure(context.connection, namespace, settings).map_err(failure)
        })
        .await
    }

    async fn delete_rest_of_namespace(&self, namespace: NamespaceId, limit: u32) -> Result<u64, Error> {
        let delete = move |context: &JobContext<'_>| {
            names::delete_rest(context.connection, namespace, limit).map_err(failure)
        };
        self.write("delete_rest_of_namespace", delete).await
    }
}

#[async_trait]
impl ClassStore for SqliteStore {
    async fn intern(&self, classes: &[Class]) -> Result<Vec<(ClassId, Class)>, Error> {
        let classes = classes.to_vec();
        let intern = move |context: &JobContext<'_>| {
            names::intern_classes(context.connection, classes, context.now).map_err(failure)
        };
        self.write("intern", intern).await
    }

    async fn classes_after(&self, after: ClassId) -> Result<Vec<(ClassId, Class)>, Error> {
        self.read("classes_after", move |connection| names::classes_after(connection, after)).await
    }

    async fn remove_unused_classes(&self, unused_ms: i64, limit: u32) -> Result<u64, Error> {
        let remove = move |context: &JobContext<'_>| {
            names::remove_unused_classes(context.connection, context.now, unused_ms, limit).map_err(failure)
        };
        self.write("remove_unused_classes", remove).await
    }
}

#[async_trait]
impl LogStore for SqliteStore {
    async fn log_page(&self, after: i64, limit: LogLimit) -> Result<Entries, Error> {
        self.read("log_page", move |connection| read::log_page(connection, after, limit)).await
    }

    async fn drop_old_log(&self, keep_ms: i64) -> Result<u64, Error> {
        self.meter.measure("drop_old_log", self.keep_window(keep_ms)).await
    }
}

#[async_trait]
impl ProjectionStore for SqliteStore {
    async fn take_projection(&self, _: ProjectionLease) -> Result<Option<i64>, Error> {
        self.read("take_projection", projection::position).await.map(Some)
    }

    async fn save_projection(&self, _: ProjectionLease, page: ProjectionPage) -> Result<bool, Error> {
        self.write("save_projection", move |context| {
            projection::save(context.connection, &page).map_err(failure)
        })
        .await
    }

    async fn delete_old_projection(&self, limit: u32) -> Result<u64, Error> {
        self.write("delete_old_projection", move |context| {
            projection::delete_old(context.connection, limit).map_err(failure)
        })
        .await
    }
}

#[async_trait]
impl RollupStore for SqliteStore {
    async fn save_rollups(&self, rows: &[RollupRow]) -> Result<(), Error> {
        let rows = rows.to_vec();
        self.write("save_rollups", move |context| {
            stats::save_rollups(context.connection, &rows).map_err(failure)
        })
        .await
    }

    async fn rollups(&self, query: &RollupQuery, limit: u32) -> Result<Vec<RollupRow>, Error> {
        let query = query.clone();
        self.read("rollups", move |connection| stats::rollups(connection, &query, limit)).await
    }

    async fn delete_old_rollups(&self, keep_ms: i64, limit: u32) -> Result<u64, Error> {
        self.write("delete_old_rollups", move |context| {
            let before = context.now.minus_ms(keep_ms);
            stats::delete_old_rollups(context.connection, before, limit).map_err(failure)
        })
        .await
    }
}

#[async_trait]
impl SecretStore for SqliteStore {
    async fn root_secret(&self, new: &[u8]) -> Result<RootSecret, Error> {
        self.meter.measure("root_secret", self.keep_secret(new)).await
    }
}
