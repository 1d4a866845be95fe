//! The store that a wrapper is: each call goes to the wrapper, and is observed.

use super::StoreWrapper;
use crate::{
    ApiKeyStore, BulkJobReads, CallMeter, ClassStore, Decision, DeliveryPage, Depth, Description, DueFlow,
    DueReads, DueRow, DueSchedules, Entries, Error, ExecutionReads, FlowDue, FlowReads, GateReads, Head,
    InboxCounts, InboxStore, KeyStore, LaneCounts, ListPage, LogLimit, LogStore, ManualClock,
    NamespaceSettings, NamespaceStore, Notification, OutboxReads, Overview, ProjectionLease, ProjectionPage,
    ProjectionStore, ReconcilerScope, RollupStore, RootSecret, ScheduleReads, SecretStore, SessionReads,
    SignalReads, StepReads, Stored, StreamStore, TokenKeyReads, Transaction, Transactions, WaitpointReads,
    WebhookReads,
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
use std::time::Instant;
use uuid::Uuid;

/// Awaits a call and observes it.
async fn observed<T>(
    wrapper: &impl StoreWrapper,
    name: &'static str,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let begun = Instant::now();
    let result = call.await;
    wrapper.observe(name, begun.elapsed(), result.is_err());
    result
}

#[async_trait]
impl<T: StoreWrapper> Transactions for T {
    fn describe(&self) -> Description {
        StoreWrapper::describe(self)
    }

    fn lineage(&self) -> u64 {
        StoreWrapper::lineage(self)
    }

    fn manual_clock(&self) -> Option<&dyn ManualClock> {
        StoreWrapper::manual_clock(self)
    }

    fn meter(&self) -> &CallMeter {
        self.inner().meter()
    }

    async fn now(&self) -> Result<Timestamp, Error> {
        observed(self, "now", StoreWrapper::now(self)).await
    }

    async fn bring_forward(&self, time: Timestamp) -> Result<bool, Error> {
        observed(self, "bring_forward", StoreWrapper::bring_forward(self, time)).await
    }

    async fn transact(&self, decision: Box<dyn Decision>) -> Result<Transaction, Error> {
        observed(self, "transact", StoreWrapper::transact(self, decision)).await
    }

    async fn notify(&self, notification: Notification) -> Result<(), Error> {
        observed(self, "notify", StoreWrapper::notify(self, notification)).await
    }

    async fn next_notification(&self) -> Option<Notification> {
        StoreWrapper::next_notification(self).await
    }

    async fn figures(&self) -> Result<Option<(i64, i64)>, Error> {
        observed(self, "figures", StoreWrapper::figures(self)).await
    }

    async fn announce_coverage(&self, namespace: Option<NamespaceId>) {
        StoreWrapper::announce_coverage(self, namespace).await
    }

    async fn coverage(&self) -> Result<Vec<Option<NamespaceId>>, Error> {
        observed(self, "coverage", StoreWrapper::coverage(self)).await
    }

    async fn ping(&self) -> Result<(), Error> {
        observed(self, "ping", StoreWrapper::ping(self)).await
    }

    async fn close(&self) {
        StoreWrapper::close(self).await;
    }
}

#[async_trait]
impl<T: StoreWrapper> DueReads for T {
    async fn overview(&self) -> Result<Overview, Error> {
        observed(self, "overview", StoreWrapper::overview(self)).await
    }

    async fn glance(&self) -> Result<Overview, Error> {
        observed(self, "glance", StoreWrapper::glance(self)).await
    }
}

#[async_trait]
impl<T: StoreWrapper> ExecutionReads for T {
    async fn fetch(&self, ids: &[ExecutionId], payloads: Payloads) -> Result<Vec<Stored>, Error> {
        observed(self, "fetch", StoreWrapper::fetch(self, ids, payloads)).await
    }

    async fn payload_sizes(
        &self,
        ids: &[ExecutionId],
        payloads: Payloads,
    ) -> Result<Vec<(ExecutionId, u64)>, Error> {
        observed(self, "payload_sizes", StoreWrapper::payload_sizes(self, ids, payloads)).await
    }

    async fn head(&self, id: ExecutionId) -> Result<Option<Head>, Error> {
        observed(self, "head", StoreWrapper::head(self, id)).await
    }

    async fn list(
        &self,
        filter: &Filter,
        after: Option<ListPosition>,
        limit: u32,
        payloads: Payloads,
    ) -> Result<ListPage, Error> {
        observed(self, "list", StoreWrapper::list(self, filter, after, limit, payloads)).await
    }

    async fn count(&self, filter: &Filter, bound: u64) -> Result<u64, Error> {
        observed(self, "count", StoreWrapper::count(self, filter, bound)).await
    }

    async fn count_lanes(
        &self,
        namespace: NamespaceId,
        lanes: &[Vec<ClassId>],
        bound: u64,
    ) -> Result<Vec<LaneCounts>, Error> {
        observed(self, "count_lanes", StoreWrapper::count_lanes(self, namespace, lanes, bound)).await
    }

    async fn depths(
        &self,
        namespace: NamespaceId,
        ranges: &[ClassId],
        bound: u64,
    ) -> Result<Vec<Depth>, Error> {
        observed(self, "depths", StoreWrapper::depths(self, namespace, ranges, bound)).await
    }

    async fn history_pages(&self, id: ExecutionId) -> Result<Vec<Vec<u8>>, Error> {
        observed(self, "history_pages", StoreWrapper::history_pages(self, id)).await
    }

    async fn ahead_of(&self, execution: &Execution, bound: u64) -> Result<u64, Error> {
        observed(self, "ahead_of", StoreWrapper::ahead_of(self, execution, bound)).await
    }

    async fn due(
        &self,
        scope: &ReconcilerScope,
        kind: DueKind,
        after: Option<(Timestamp, ExecutionId)>,
        limit: u32,
    ) -> Result<Vec<DueRow>, Error> {
        observed(self, "due", StoreWrapper::due(self, scope, kind, after, limit)).await
    }

    async fn expired_leases(
        &self,
        scope: &ReconcilerScope,
        after: Option<ExecutionId>,
        limit: u32,
    ) -> Result<Vec<DueRow>, Error> {
        observed(self, "expired_leases", StoreWrapper::expired_leases(self, scope, after, limit)).await
    }
}

#[async_trait]
impl<T: StoreWrapper> FlowReads for T {
    async fn fetch_flows(&self, ids: &[FlowId]) -> Result<Vec<Flow>, Error> {
        observed(self, "fetch_flows", StoreWrapper::fetch_flows(self, ids)).await
    }

    async fn list_flows(
        &self,
        filter: &FlowFilter,
        after: Option<FlowListPosition>,
        limit: u32,
    ) -> Result<Vec<Flow>, Error> {
        observed(self, "list_flows", StoreWrapper::list_flows(self, filter, after, limit)).await
    }

    async fn count_flows(&self, namespace: NamespaceId, state: FlowState, bound: u64) -> Result<u64, Error> {
        observed(self, "count_flows", StoreWrapper::count_flows(self, namespace, state, bound)).await
    }

    async fn members(&self, page: Members) -> Result<Vec<Execution>, Error> {
        observed(self, "members", StoreWrapper::members(self, page)).await
    }

    async fn due_flows(
        &self,
        scope: &ReconcilerScope,
        kind: FlowDue,
        after: Option<(Timestamp, FlowId)>,
        limit: u32,
    ) -> Result<Vec<DueFlow>, Error> {
        observed(self, "due_flows", StoreWrapper::due_flows(self, scope, kind, after, limit)).await
    }
}

#[async_trait]
impl<T: StoreWrapper> OutboxReads for T {
    async fn outbox(
        &self,
        scope: &ReconcilerScope,
        kind: OutboxKind,
        stale_ms: i64,
        after: Option<(Timestamp, Uuid)>,
        limit: u32,
    ) -> Result<Vec<OutboxRow>, Error> {
        observed(self, "outbox", StoreWrapper::outbox(self, scope, kind, stale_ms, after, limit)).await
    }
}

#[async_trait]
impl<T: StoreWrapper> GateReads for T {
    async fn fetch_gates(&self, ids: &[GateId]) -> Result<Vec<Gate>, Error> {
        observed(self, "fetch_gates", StoreWrapper::fetch_gates(self, ids)).await
    }

    async fn list_gates(
        &self,
        namespace: NamespaceId,
        kind: GateKind,
        after: Option<&Name>,
        limit: u32,
    ) -> Result<Vec<Gate>, Error> {
        observed(self, "list_gates", StoreWrapper::list_gates(self, namespace, kind, after, limit)).await
    }

    async fn due_gates(
        &self,
        scope: &ReconcilerScope,
        after: Option<(Timestamp, GateId)>,
        limit: u32,
    ) -> Result<Vec<Gate>, Error> {
        observed(self, "due_gates", StoreWrapper::due_gates(self, scope, after, limit)).await
    }

    async fn parts_of(&self, gate: &GateName, limit: u32) -> Result<Vec<Gate>, Error> {
        observed(self, "parts_of", StoreWrapper::parts_of(self, gate, limit)).await
    }

    async fn ledger(&self, gate: GateId, period: u32) -> Result<Vec<LedgerEntry>, Error> {
        observed(self, "ledger", StoreWrapper::ledger(self, gate, period)).await
    }

    async fn ledger_of(&self, execution: ExecutionId) -> Result<Vec<LedgerEntry>, Error> {
        observed(self, "ledger_of", StoreWrapper::ledger_of(self, execution)).await
    }

    async fn held_by(&self, gate: GateId, bound: u64) -> Result<u64, Error> {
        observed(self, "held_by", StoreWrapper::held_by(self, gate, bound)).await
    }
}

#[async_trait]
impl<T: StoreWrapper> SessionReads for T {
    async fn sessions(&self, namespace: Option<NamespaceId>) -> Result<Vec<Session>, Error> {
        observed(self, "sessions", StoreWrapper::sessions(self, namespace)).await
    }

    async fn unseen_sessions(&self, unseen_ms: i64, limit: u32) -> Result<Vec<SessionId>, Error> {
        observed(self, "unseen_sessions", StoreWrapper::unseen_sessions(self, unseen_ms, limit)).await
    }
}

#[async_trait]
impl<T: StoreWrapper> StreamStore for T {
    async fn frames(&self, stream: StreamName, range: FrameRange, limit: u32) -> Result<Vec<Frame>, Error> {
        observed(self, "frames", StoreWrapper::frames(self, stream, range, limit)).await
    }

    async fn stream(&self, stream: StreamName) -> Result<Option<Stream>, Error> {
        observed(self, "stream", StoreWrapper::stream(self, stream)).await
    }

    async fn delete_old_frames(&self, limit: u32) -> Result<u64, Error> {
        observed(self, "delete_old_frames", StoreWrapper::delete_old_frames(self, limit)).await
    }
}

#[async_trait]
impl<T: StoreWrapper> SignalReads for T {
    async fn signals(&self, of: ExecutionId, after: u32, limit: u32) -> Result<Vec<Signal>, Error> {
        observed(self, "signals", StoreWrapper::signals(self, of, after, limit)).await
    }
}

#[async_trait]
impl<T: StoreWrapper> StepReads for T {
    async fn steps(&self, of: ExecutionId, after: u32, limit: u32) -> Result<Vec<RecordedStep>, Error> {
        observed(self, "steps", StoreWrapper::steps(self, of, after, limit)).await
    }
}

#[async_trait]
impl<T: StoreWrapper> WaitpointReads for T {
    async fn waitpoints(&self, of: ExecutionId, after: u32, limit: u32) -> Result<Vec<Waitpoint>, Error> {
        observed(self, "waitpoints", StoreWrapper::waitpoints(self, of, after, limit)).await
    }

    async fn list_waitpoints(
        &self,
        filter: &WaitpointFilter,
        after: Option<WaitpointPosition>,
        limit: u32,
    ) -> Result<Vec<Waitpoint>, Error> {
        observed(self, "list_waitpoints", StoreWrapper::list_waitpoints(self, filter, after, limit)).await
    }

    async fn waitpoint(&self, id: WaitpointId) -> Result<Option<Waitpoint>, Error> {
        observed(self, "waitpoint", StoreWrapper::waitpoint(self, id)).await
    }
}

#[async_trait]
impl<T: StoreWrapper> TokenKeyReads for T {
    async fn token_keys(&self) -> Result<Vec<TokenKey>, Error> {
        observed(self, "token_keys", StoreWrapper::token_keys(self)).await
    }
}

#[async_trait]
impl<T: StoreWrapper> KeyStore for T {
    async fn delete_expired_keys(&self, limit: u32) -> Result<u64, Error> {
        observed(self, "delete_expired_keys", StoreWrapper::delete_expired_keys(self, limit)).await
    }
}

#[async_trait]
impl<T: StoreWrapper> ApiKeyStore for T {
    async fn api_key(&self, digest: &KeyDigest) -> Result<Option<(ApiKey, Timestamp)>, Error> {
        observed(self, "api_key", StoreWrapper::api_key(self, digest)).await
    }

    async fn api_keys(&self, after: Option<ApiKeyId>, limit: u32) -> Result<Vec<ApiKey>, Error> {
        observed(self, "api_keys", StoreWrapper::api_keys(self, after, limit)).await
    }

    async fn touch_api_keys(&self, ids: &[ApiKeyId]) -> Result<(), Error> {
        observed(self, "touch_api_keys", StoreWrapper::touch_api_keys(self, ids)).await
    }
}

#[async_trait]
impl<T: StoreWrapper> BulkJobReads for T {
    async fn bulk_job(&self, id: BulkJobId) -> Result<Option<BulkJob>, Error> {
        observed(self, "bulk_job", StoreWrapper::bulk_job(self, id)).await
    }

    async fn bulk_jobs(
        &self,
        namespace: NamespaceId,
        after: Option<BulkJobId>,
        limit: u32,
    ) -> Result<Vec<BulkJob>, Error> {
        observed(self, "bulk_jobs", StoreWrapper::bulk_jobs(self, namespace, after, limit)).await
    }

    async fn due_bulk_jobs(&self, scope: &ReconcilerScope, limit: u32) -> Result<Vec<BulkJob>, Error> {
        observed(self, "due_bulk_jobs", StoreWrapper::due_bulk_jobs(self, scope, limit)).await
    }
}

#[async_trait]
impl<T: StoreWrapper> WebhookReads for T {
    async fn webhook(&self, name: &WebhookName) -> Result<Option<Webhook>, Error> {
        observed(self, "webhook", StoreWrapper::webhook(self, name)).await
    }

    async fn webhooks(
        &self,
        namespace: Option<NamespaceId>,
        after: Option<&WebhookName>,
        limit: u32,
    ) -> Result<Vec<Webhook>, Error> {
        observed(self, "webhooks", StoreWrapper::webhooks(self, namespace, after, limit)).await
    }

    async fn deliveries(&self, page: &DeliveryPage) -> Result<Vec<Delivery>, Error> {
        observed(self, "deliveries", StoreWrapper::deliveries(self, page)).await
    }
}

#[async_trait]
impl<T: StoreWrapper> ScheduleReads for T {
    async fn schedule(&self, name: &ScheduleName) -> Result<Option<Schedule>, Error> {
        observed(self, "schedule", StoreWrapper::schedule(self, name)).await
    }

    async fn schedules(
        &self,
        namespace: NamespaceId,
        after: Option<&Name>,
        limit: u32,
    ) -> Result<Vec<Schedule>, Error> {
        observed(self, "schedules", StoreWrapper::schedules(self, namespace, after, limit)).await
    }

    async fn due_schedules(
        &self,
        scope: &ReconcilerScope,
        after: Option<(Timestamp, ScheduleName)>,
        limit: u32,
    ) -> Result<DueSchedules, Error> {
        observed(self, "due_schedules", StoreWrapper::due_schedules(self, scope, after, limit)).await
    }
}

#[async_trait]
impl<T: StoreWrapper> InboxStore for T {
    async fn pending_inbox(
        &self,
        namespace: Option<&Name>,
        after: Option<(u64, InboxNumber)>,
        limit: u32,
    ) -> Result<Vec<InboxEntry>, Error> {
        let reading = StoreWrapper::pending_inbox(self, namespace, after, limit);
        observed(self, "pending_inbox", reading).await
    }

    async fn refused_inbox(
        &self,
        namespace: &Name,
        after: Option<InboxNumber>,
        limit: u32,
    ) -> Result<Vec<InboxEntry>, Error> {
        let reading = StoreWrapper::refused_inbox(self, namespace, after, limit);
        observed(self, "refused_inbox", reading).await
    }

    async fn count_inbox(&self, namespace: Option<&Name>, bound: u64) -> Result<InboxCounts, Error> {
        observed(self, "count_inbox", StoreWrapper::count_inbox(self, namespace, bound)).await
    }

    async fn delete_old_inbox(&self, limit: u32) -> Result<u64, Error> {
        observed(self, "delete_old_inbox", StoreWrapper::delete_old_inbox(self, limit)).await
    }
}

#[async_trait]
impl<T: StoreWrapper> NamespaceStore for T {
    async fn namespace(&self, name: &Name) -> Result<NamespaceId, Error> {
        observed(self, "namespace", StoreWrapper::namespace(self, name)).await
    }

    async fn find_namespace(&self, name: &Name) -> Result<Option<NamespaceId>, Error> {
        observed(self, "find_namespace", StoreWrapper::find_namespace(self, name)).await
    }

    async fn namespaces(&self) -> Result<Vec<(NamespaceId, Name)>, Error> {
        observed(self, "namespaces", StoreWrapper::namespaces(self)).await
    }

    async fn namespace_settings(&self, namespace: NamespaceId) -> Result<NamespaceSettings, Error> {
        observed(self, "namespace_settings", StoreWrapper::namespace_settings(self, namespace)).await
    }

    async fn configure_namespace(
        &self,
        namespace: NamespaceId,
        settings: NamespaceSettings,
    ) -> Result<(), Error> {
        observed(self, "configure_namespace", StoreWrapper::configure_namespace(self, namespace, settings))
            .await
    }

    async fn delete_rest_of_namespace(&self, namespace: NamespaceId, limit: u32) -> Result<u64, Error> {
        let deleting = StoreWrapper::delete_rest_of_namespace(self, namespace, limit);
        observed(self, "delete_rest_of_namespace", deleting).await
    }
}

#[async_trait]
impl<T: StoreWrapper> ClassStore for T {
    async fn intern(&self, classes: &[Class]) -> Result<Vec<(ClassId, Class)>, Error> {
        observed(self, "intern", StoreWrapper::intern(self, classes)).await
    }

    async fn classes_after(&self, after: ClassId) -> Result<Vec<(ClassId, Class)>, Error> {
        observed(self, "classes_after", StoreWrapper::classes_after(self, after)).await
    }

    async fn remove_unused_classes(&self, unused_ms: i64, limit: u32) -> Result<u64, Error> {
        observed(self, "remove_unused_classes", StoreWrapper::remove_unused_classes(self, unused_ms, limit))
            .await
    }
}

#[async_trait]
impl<T: StoreWrapper> LogStore for T {
    async fn log_page(&self, after: i64, limit: LogLimit) -> Result<Entries, Error> {
        observed(self, "log_page", StoreWrapper::log_page(self, after, limit)).await
    }

    async fn drop_old_log(&self, keep_ms: i64) -> Result<u64, Error> {
        observed(self, "drop_old_log", StoreWrapper::drop_old_log(self, keep_ms)).await
    }
}

#[async_trait]
impl<T: StoreWrapper> ProjectionStore for T {
    async fn take_projection(&self, lease: ProjectionLease) -> Result<Option<i64>, Error> {
        observed(self, "take_projection", StoreWrapper::take_projection(self, lease)).await
    }

    async fn save_projection(&self, lease: ProjectionLease, page: ProjectionPage) -> Result<bool, Error> {
        observed(self, "save_projection", StoreWrapper::save_projection(self, lease, page)).await
    }

    async fn delete_old_projection(&self, limit: u32) -> Result<u64, Error> {
        observed(self, "delete_old_projection", StoreWrapper::delete_old_projection(self, limit)).await
    }
}

#[async_trait]
impl<T: StoreWrapper> RollupStore for T {
    async fn save_rollups(&self, rows: &[RollupRow]) -> Result<(), Error> {
        observed(self, "save_rollups", StoreWrapper::save_rollups(self, rows)).await
    }

    async fn rollups(&self, query: &RollupQuery, limit: u32) -> Result<Vec<RollupRow>, Error> {
        observed(self, "rollups", StoreWrapper::rollups(self, query, limit)).await
    }

    async fn delete_old_rollups(&self, keep_ms: i64, limit: u32) -> Result<u64, Error> {
        observed(self, "delete_old_rollups", StoreWrapper::delete_old_rollups(self, keep_ms, limit)).await
    }
}

#[async_trait]
impl<T: StoreWrapper> SecretStore for T {
    async fn root_secret(&self, new: &[u8]) -> Result<RootSecret, Error> {
        observed(self, "root_secret", StoreWrapper::root_secret(self, new)).await
    }
}
