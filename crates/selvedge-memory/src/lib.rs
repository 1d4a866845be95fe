//! The store in memory, for tests, simulation and evaluation. Nothing survives the process.
//!
//! One mutex guards plain maps. A decision runs under the mutex from its first load to its save, so no other transaction can
//! interleave; its guards can fail only for rows from a cache. Nothing is awaited while the mutex is held. A decision that
//! panics is caught before it has saved anything, and only its own call fails.

mod clock;
mod flows;
mod gates;
mod load;
mod log;
mod query;
mod record;
mod save;
mod schedules;
mod stats;
mod tables;
mod webhooks;

pub use clock::Clock;

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
    ApiKeyStore, BulkJobReads, CallMeter, ClassStore, Decision, DeliveryPage, Demand, Depth, Description,
    DueFlow, DueReads, DueRow, DueSchedules, Entries, Error, ExecutionReads, FlowDue, FlowReads, GateReads,
    Head, InboxStore, KeyStore, LaneCounts, ListPage, LogLimit, LogStore, ManualClock, NamespaceSettings,
    NamespaceStore, Notification, OutboxReads, Overview, ProjectionStore, ReconcilerScope, RollupStore,
    RootSecret, ScheduleReads, SecretPlace, SecretStore, SessionReads, SignalReads, StepReads, Stored,
    StreamStore, TokenKeyReads, Transaction, Transactions, WaitpointReads, WebhookReads,
};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tables::Tables;
use uuid::Uuid;

/// The number of times a decision is begun before the call fails as contended.
const TRIES_MAX: u32 = 10;

/// A store that keeps everything in memory.
#[derive(Debug, Default)]
pub struct MemoryStore {
    clock: Clock,
    tables: Mutex<Tables>,
    meter: CallMeter,
}

impl MemoryStore {
    /// Returns an empty store on the system clock.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns an empty store on `clock`.
    pub fn with_clock(clock: Clock) -> Self {
        MemoryStore { clock, tables: Mutex::default(), meter: CallMeter::default() }
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the tables under the mutex, at the current time, and reports the call to the meter.
    fn read<T>(&self, call: &'static str, query: impl FnOnce(&Tables, Timestamp) -> T) -> Result<T, Error> {
        self.change(call, |tables, now| query(tables, now))
    }

    /// Changes the tables under the mutex, at the current time, and reports the call to the meter.
    fn change<T>(
        &self,
        call: &'static str,
        change: impl FnOnce(&mut Tables, Timestamp) -> T,
    ) -> Result<T, Error> {
        let begun = Instant::now();
        let changed = change(&mut self.tables(), self.clock.now());
        self.meter.report(call, begun, false);
        Ok(changed)
    }

    /// Runs a decision until its guards hold.
    fn run(&self, decision: &mut dyn Decision) -> Result<Transaction, Error> {
        for again in 0..TRIES_MAX {
            if let Some(done) = catching_panics(|| self.attempt(&mut *decision, again))? {
                return Ok(done);
            }
        }
        Err(Error::Contended(format!(
            "a decision was begun {TRIES_MAX} times and its rows had changed every time"
        )))
    }

    /// Runs a decision once, from its start to its save. Returns none if a guard failed.
    fn attempt(&self, decision: &mut dyn Decision, again: u32) -> Result<Option<Transaction>, Error> {
        let mut tables = self.tables();
        let now = self.clock.now();
        let mut needs = decision.begin(again);
        loop {
            match decision.next(tables.load(&needs, now)) {
                Demand::Load(more) => needs = more,
                Demand::Save(changes) => {
                    let tries = again + 1;
                    let saved = tables.save(*changes, now);
                    return Ok(saved.map(|(entry, emptied)| Transaction { entry, tries, emptied }));
                }
                Demand::Abort(reason) => return Err(Error::Failed(reason)),
            }
        }
    }
}

/// Runs `attempt` and turns a panic into an error.
fn catching_panics<T>(attempt: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(attempt)).unwrap_or_else(|panic| {
        let message = panic_message(panic.as_ref());
        Err(Error::Failed(format!("the decision panicked: {message}")))
    })
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (None, Some(text)) => text,
        (None, None) => "without a message",
    }
}

#[async_trait]
impl Transactions for MemoryStore {
    fn describe(&self) -> Description {
        let durability = "None: everything is lost when the process ends.";
        Description { name: "memory", writers: 1, shared: false, durability }
    }

    fn manual_clock(&self) -> Option<&dyn ManualClock> {
        self.clock.as_manual()
    }

    fn meter(&self) -> &CallMeter {
        &self.meter
    }

    async fn now(&self) -> Result<Timestamp, Error> {
        self.read("now", |_, now| now)
    }

    async fn transact(&self, mut decision: Box<dyn Decision>) -> Result<Transaction, Error> {
        self.meter.measure("transact", async move { self.run(&mut *decision) }).await
    }

    async fn notify(&self, _notification: Notification) -> Result<(), Error> {
        self.read("notify", |_, _| ())
    }

    async fn next_notification(&self) -> Option<Notification> {
        None
    }

    async fn figures(&self) -> Result<Option<(i64, i64)>, Error> {
        self.read("figures", |tables, _| Some((tables.commits, 0)))
    }

    async fn ping(&self) -> Result<(), Error> {
        self.read("ping", |_, _| ())
    }

    async fn close(&self) {}
}

#[async_trait]
impl DueReads for MemoryStore {
    async fn overview(&self) -> Result<Overview, Error> {
        self.read("overview", Tables::overview)
    }

    async fn glance(&self) -> Result<Overview, Error> {
        self.read("glance", Tables::overview)
    }
}

#[async_trait]
impl ExecutionReads for MemoryStore {
    async fn fetch(&self, ids: &[ExecutionId], payloads: Payloads) -> Result<Vec<Stored>, Error> {
        self.read("fetch", |tables, _| tables.fetch(ids, payloads))
    }

    async fn payload_sizes(
        &self,
        ids: &[ExecutionId],
        payloads: Payloads,
    ) -> Result<Vec<(ExecutionId, u64)>, Error> {
        self.read("payload_sizes", |tables, _| tables.payload_sizes(ids, payloads))
    }

    async fn head(&self, id: ExecutionId) -> Result<Option<Head>, Error> {
        self.read("head", |tables, _| tables.head(id))
    }

    async fn list(
        &self,
        filter: &Filter,
        after: Option<ListPosition>,
        limit: u32,
        payloads: Payloads,
    ) -> Result<ListPage, Error> {
        self.read("list", |tables, _| tables.list(filter, after, limit, payloads))
    }

    async fn count(&self, filter: &Filter, bound: u64) -> Result<u64, Error> {
        self.read("count", |tables, _| tables.count(filter, bound))
    }

    async fn count_lanes(
        &self,
        namespace: NamespaceId,
        lanes: &[Vec<ClassId>],
        bound: u64,
    ) -> Result<Vec<LaneCounts>, Error> {
        self.read("count_lanes", |tables, _| tables.count_lanes(namespace, lanes, bound))
    }

    async fn depths(
        &self,
        namespace: NamespaceId,
        ranges: &[ClassId],
        bound: u64,
    ) -> Result<Vec<Depth>, Error> {
        self.read("depths", |tables, _| tables.depths(namespace, ranges, bound))
    }

    async fn history_pages(&self, id: ExecutionId) -> Result<Vec<Vec<u8>>, Error> {
        self.read("history_pages", |tables, _| tables.history_pages(id))
    }

    async fn ahead_of(&self, execution: &Execution, bound: u64) -> Result<u64, Error> {
        self.read("ahead_of", |tables, _| tables.ahead_of(execution, bound))
    }

    async fn due(
        &self,
        scope: &ReconcilerScope,
        kind: DueKind,
        after: Option<(Timestamp, ExecutionId)>,
        limit: u32,
    ) -> Result<Vec<DueRow>, Error> {
        self.read("due", |tables, now| tables.due(scope, kind, after, limit, now))
    }

    async fn expired_leases(
        &self,
        scope: &ReconcilerScope,
        after: Option<ExecutionId>,
        limit: u32,
    ) -> Result<Vec<DueRow>, Error> {
        self.read("expired_leases", |tables, now| tables.expired_leases(scope, after, limit, now))
    }
}

#[async_trait]
impl FlowReads for MemoryStore {
    async fn fetch_flows(&self, ids: &[FlowId]) -> Result<Vec<Flow>, Error> {
        self.read("fetch_flows", |tables, _| tables.fetch_flows(ids))
    }

    async fn list_flows(
        &self,
        filter: &FlowFilter,
        after: Option<FlowListPosition>,
        limit: u32,
    ) -> Result<Vec<Flow>, Error> {
        self.read("list_flows", |tables, _| tables.list_flows(filter, after, limit))
    }

    async fn count_flows(&self, namespace: NamespaceId, state: FlowState, bound: u64) -> Result<u64, Error> {
        self.read("count_flows", |tables, _| tables.count_flows(namespace, state, bound))
    }

    async fn members(&self, page: Members) -> Result<Vec<Execution>, Error> {
        self.read("members", |tables, _| tables.members_of(page))
    }

    async fn due_flows(
        &self,
        scope: &ReconcilerScope,
        kind: FlowDue,
        after: Option<(Timestamp, FlowId)>,
        limit: u32,
    ) -> Result<Vec<DueFlow>, Error> {
        self.read("due_flows", |tables, now| tables.due_flows(scope, kind, after, limit, now))
    }
}

#[async_trait]
impl OutboxReads for MemoryStore {
    async fn outbox(
        &self,
        scope: &ReconcilerScope,
        kind: OutboxKind,
        stale_ms: i64,
        after: Option<(Timestamp, Uuid)>,
        limit: u32,
    ) -> Result<Vec<OutboxRow>, Error> {
        self.read("outbox", |tables, now| {
            tables.outbox_before(scope, kind, now.minus_ms(stale_ms), after, limit)
        })
    }
}

#[async_trait]
impl GateReads for MemoryStore {
    async fn fetch_gates(&self, ids: &[GateId]) -> Result<Vec<Gate>, Error> {
        self.read("fetch_gates", |tables, _| {
            ids.iter().filter_map(|id| tables.gates.rows.get(id).cloned()).collect()
        })
    }

    async fn list_gates(
        &self,
        namespace: NamespaceId,
        kind: GateKind,
        after: Option<&Name>,
        limit: u32,
    ) -> Result<Vec<Gate>, Error> {
        self.read("list_gates", |tables, _| tables.gates.list(namespace, kind, after, limit))
    }

    async fn due_gates(
        &self,
        scope: &ReconcilerScope,
        after: Option<(Timestamp, GateId)>,
        limit: u32,
    ) -> Result<Vec<Gate>, Error> {
        self.read("due_gates", |tables, now| tables.gates.due(scope, after, limit, now))
    }

    async fn parts_of(&self, gate: &GateName, limit: u32) -> Result<Vec<Gate>, Error> {
        self.read("parts_of", |tables, _| tables.gates.parts_of(gate, limit))
    }

    async fn ledger(&self, gate: GateId, period: u32) -> Result<Vec<LedgerEntry>, Error> {
        self.read("ledger", |tables, _| tables.gates.ledger(gate, period))
    }

    async fn ledger_of(&self, execution: ExecutionId) -> Result<Vec<LedgerEntry>, Error> {
        self.read("ledger_of", |tables, _| tables.gates.ledger_of(execution))
    }

    async fn held_by(&self, gate: GateId, bound: u64) -> Result<u64, Error> {
        self.read("held_by", |tables, _| tables.gates.count_held(gate, bound))
    }
}

#[async_trait]
impl SessionReads for MemoryStore {
    async fn sessions(&self, namespace: Option<NamespaceId>) -> Result<Vec<Session>, Error> {
        self.read("sessions", |tables, _| tables.sessions_of(namespace))
    }

    async fn unseen_sessions(&self, unseen_ms: i64, limit: u32) -> Result<Vec<SessionId>, Error> {
        self.read("unseen_sessions", |tables, now| tables.unseen_sessions(now.minus_ms(unseen_ms), limit))
    }
}

#[async_trait]
impl StreamStore for MemoryStore {
    async fn frames(&self, stream: StreamName, range: FrameRange, limit: u32) -> Result<Vec<Frame>, Error> {
        self.read("frames", |tables, now| tables.frames_in(stream, range, limit, now))
    }

    async fn stream(&self, stream: StreamName) -> Result<Option<Stream>, Error> {
        self.read("stream", |tables, _| tables.streams.get(&stream).cloned())
    }

    async fn delete_old_frames(&self, limit: u32) -> Result<u64, Error> {
        self.change("delete_old_frames", |tables, now| tables.delete_old_frames(now, limit))
    }
}

#[async_trait]
impl SignalReads for MemoryStore {
    async fn signals(&self, of: ExecutionId, after: u32, limit: u32) -> Result<Vec<Signal>, Error> {
        self.read("signals", |tables, _| tables.records.signals_after(of, after, limit))
    }
}

#[async_trait]
impl StepReads for MemoryStore {
    async fn steps(&self, of: ExecutionId, after: u32, limit: u32) -> Result<Vec<RecordedStep>, Error> {
        self.read("steps", |tables, _| tables.records.steps_after(of, after, limit))
    }
}

#[async_trait]
impl WaitpointReads for MemoryStore {
    async fn waitpoints(&self, of: ExecutionId, after: u32, limit: u32) -> Result<Vec<Waitpoint>, Error> {
        self.read("waitpoints", |tables, _| tables.records.waitpoints_after(of, after, limit))
    }

    async fn list_waitpoints(
        &self,
        filter: &WaitpointFilter,
        after: Option<WaitpointPosition>,
        limit: u32,
    ) -> Result<Vec<Waitpoint>, Error> {
        self.read("list_waitpoints", |tables, _| tables.records.list_waitpoints(filter, after, limit))
    }

    async fn waitpoint(&self, id: WaitpointId) -> Result<Option<Waitpoint>, Error> {
        self.read("waitpoint", |tables, _| tables.records.waitpoint(id))
    }
}

#[async_trait]
impl TokenKeyReads for MemoryStore {
    async fn token_keys(&self) -> Result<Vec<TokenKey>, Error> {
        self.read("token_keys", |tables, _| tables.records.token_keys.values().copied().collect())
    }
}

#[async_trait]
impl KeyStore for MemoryStore {
    async fn delete_expired_keys(&self, limit: u32) -> Result<u64, Error> {
        self.change("delete_expired_keys", |tables, now| tables.delete_expired_keys(now, limit))
    }
}

#[async_trait]
impl ApiKeyStore for MemoryStore {
    async fn api_key(&self, digest: &KeyDigest) -> Result<Option<(ApiKey, Timestamp)>, Error> {
        self.read("api_key", |tables, now| tables.records.api_key(digest).map(|key| (key, now)))
    }

    async fn api_keys(&self, after: Option<ApiKeyId>, limit: u32) -> Result<Vec<ApiKey>, Error> {
        self.read("api_keys", |tables, _| tables.records.list_api_keys(after, limit))
    }

    async fn touch_api_keys(&self, ids: &[ApiKeyId]) -> Result<(), Error> {
        self.change("touch_api_keys", |tables, now| tables.records.touch_api_keys(ids, now))
    }
}

#[async_trait]
impl BulkJobReads for MemoryStore {
    async fn bulk_job(&self, id: BulkJobId) -> Result<Option<BulkJob>, Error> {
        self.read("bulk_job", |tables, _| tables.records.bulk_jobs.get(&id).cloned())
    }

    async fn bulk_jobs(
        &self,
        namespace: NamespaceId,
        after: Option<BulkJobId>,
        limit: u32,
    ) -> Result<Vec<BulkJob>, Error> {
        self.read("bulk_jobs", |tables, _| tables.records.list_bulk_jobs(namespace, after, limit))
    }

    async fn due_bulk_jobs(&self, scope: &ReconcilerScope, limit: u32) -> Result<Vec<BulkJob>, Error> {
        self.read("due_bulk_jobs", |tables, now| tables.records.due_bulk_jobs(scope, limit, now))
    }
}

#[async_trait]
impl WebhookReads for MemoryStore {
    async fn webhook(&self, name: &WebhookName) -> Result<Option<Webhook>, Error> {
        self.read("webhook", |tables, _| tables.webhooks.find(name))
    }

    async fn webhooks(
        &self,
        namespace: Option<NamespaceId>,
        after: Option<&WebhookName>,
        limit: u32,
    ) -> Result<Vec<Webhook>, Error> {
        self.read("webhooks", |tables, _| tables.webhooks.list(namespace, after, limit))
    }

    async fn deliveries(&self, page: &DeliveryPage) -> Result<Vec<Delivery>, Error> {
        self.read("deliveries", |tables, _| tables.webhooks.deliveries(page))
    }
}

#[async_trait]
impl ScheduleReads for MemoryStore {
    async fn schedule(&self, name: &ScheduleName) -> Result<Option<Schedule>, Error> {
        self.read("schedule", |tables, _| tables.schedules.get(name))
    }

    async fn schedules(
        &self,
        namespace: NamespaceId,
        after: Option<&Name>,
        limit: u32,
    ) -> Result<Vec<Schedule>, Error> {
        self.read("schedules", |tables, _| tables.schedules.list(namespace, after, limit))
    }

    async fn due_schedules(
        &self,
        scope: &ReconcilerScope,
        after: Option<(Timestamp, ScheduleName)>,
        limit: u32,
    ) -> Result<DueSchedules, Error> {
        self.read("due_schedules", |tables, now| DueSchedules {
            now,
            schedules: tables.schedules.due(scope, after, limit, now),
        })
    }
}

impl InboxStore for MemoryStore {}

#[async_trait]
impl NamespaceStore for MemoryStore {
    async fn namespace(&self, name: &Name) -> Result<NamespaceId, Error> {
        self.change("namespace", |tables, _| tables.intern_namespace(name))
    }

    async fn find_namespace(&self, name: &Name) -> Result<Option<NamespaceId>, Error> {
        self.read("find_namespace", |tables, _| tables.find_namespace(name))
    }

    async fn namespaces(&self) -> Result<Vec<(NamespaceId, Name)>, Error> {
        self.read("namespaces", |tables, _| tables.namespaces())
    }

    async fn namespace_settings(&self, namespace: NamespaceId) -> Result<NamespaceSettings, Error> {
        self.read("namespace_settings", |tables, _| {
            tables.settings.get(&namespace).copied().unwrap_or_default()
        })
    }

    async fn configure_namespace(
        &self,
        namespace: NamespaceId,
        settings: NamespaceSettings,
    ) -> Result<(), Error> {
        self.change("configure_namespace", |tables, _| {
            let known = tables.settings.entry(namespace).or_default();
            *known = known.changed_to(settings);
        })
    }

    async fn delete_rest_of_namespace(&self, namespace: NamespaceId, _limit: u32) -> Result<u64, Error> {
        self.change("delete_rest_of_namespace", |tables, _| tables.delete_rest_of_namespace(namespace))
    }
}

#[async_trait]
impl ClassStore for MemoryStore {
    async fn intern(&self, classes: &[Class]) -> Result<Vec<(ClassId, Class)>, Error> {
        self.change("intern", |tables, now| tables.intern_classes(classes, now))
    }

    async fn classes_after(&self, after: ClassId) -> Result<Vec<(ClassId, Class)>, Error> {
        self.read("classes_after", |tables, _| tables.classes_after(after))
    }

    async fn remove_unused_classes(&self, unused_ms: i64, limit: u32) -> Result<u64, Error> {
        self.change("remove_unused_classes", |tables, now| {
            tables.remove_unused_classes(now.minus_ms(unused_ms), now, limit)
        })
    }
}

#[async_trait]
impl LogStore for MemoryStore {
    async fn log_page(&self, after: i64, limit: LogLimit) -> Result<Entries, Error> {
        self.read("log_page", |tables, _| tables.log_page(after, limit))
    }

    async fn drop_old_log(&self, keep_ms: i64) -> Result<u64, Error> {
        self.change("drop_old_log", |tables, now| tables.drop_log(now.minus_ms(keep_ms)))
    }
}

impl ProjectionStore for MemoryStore {}

#[async_trait]
impl RollupStore for MemoryStore {
    async fn save_rollups(&self, rows: &[RollupRow]) -> Result<(), Error> {
        self.change("save_rollups", |tables, _| tables.save_rollups(rows))
    }

    async fn rollups(&self, query: &RollupQuery, limit: u32) -> Result<Vec<RollupRow>, Error> {
        self.read("rollups", |tables, _| tables.rollups(query, limit))
    }

    async fn delete_old_rollups(&self, keep_ms: i64, limit: u32) -> Result<u64, Error> {
        self.change("delete_old_rollups", |tables, now| {
            tables.delete_old_rollups(now.minus_ms(keep_ms), limit)
        })
    }
}

#[async_trait]
impl SecretStore for MemoryStore {
    async fn root_secret(&self, new: &[u8]) -> Result<RootSecret, Error> {
        self.change("root_secret", |tables, _| RootSecret {
            bytes: tables.records.secret.get_or_insert_with(|| new.to_vec()).clone(),
            place: SecretPlace::Memory,
        })
    }
}
