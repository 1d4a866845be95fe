//! The trait that every store implements, and the decisions that it runs. `data` has the values that it takes and returns.

use crate::data::{
    DeliveryPage, Depth, Description, DueFlow, DueRow, DueSchedules, Entries, FlowDue, Head, InboxCounts,
    LaneCounts, LogLimit, NamespaceSettings, Notification, Overview, RootSecret, Stored, Transaction,
};
use crate::{Error, ListPage, ProjectionLease, ProjectionPage, ReconcilerScope};
use async_trait::async_trait;
use selvedge_core::api_key::{ApiKey, ApiKeyId, KeyDigest};
use selvedge_core::bulk_job::{BulkJob, BulkJobId};
use selvedge_core::driver::{Driver, Host};
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
    Class, ClassId, Demand, DueKind, Execution, ExecutionId, Flow, FlowId, Name, NamespaceId, Needs, Rows,
    Session, SessionId, Signal, Timestamp, Waitpoint, WaitpointId,
};
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use uuid::Uuid;

/// A decision over rows, driven by [`Store::transact`]: it names the rows to load until it says what to save.
pub trait Decision: Send {
    /// Starts the decision, or restarts it from nothing, and returns the rows to load first. `again` is the number of
    /// earlier starts.
    fn begin(&mut self, again: u32) -> Needs;
    /// Takes the loaded rows and returns the next demand: load more rows, save, or abort.
    fn next(&mut self, rows: Rows) -> Demand;
    /// The time limit of each statement, which includes its waits for locks. None: the limits of the store. A store without
    /// such limits ignores it.
    fn patience(&self) -> Option<Duration> {
        None
    }
}

/// A shared driver: the caller takes its tasks back after the commit.
impl<H: Host + 'static> Decision for Arc<Mutex<Driver<H>>> {
    fn begin(&mut self, again: u32) -> Needs {
        locked(self).begin(again)
    }

    fn next(&mut self, rows: Rows) -> Demand {
        locked(self).next(rows)
    }
}

/// Locks a mutex. A panic of another holder is ignored: a decision starts over before it is used again.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The clock of a store for tests: it stands still until it is advanced.
pub trait ManualClock: Send + Sync {
    /// Returns the time.
    fn now(&self) -> Timestamp;
    /// Advances the clock to a time. A time that has passed is ignored.
    fn advance_to(&self, time: Timestamp);
}

/// A store of executions, flows, gates and the event log.
///
/// Methods other than [`transact`](Store::transact) lock no row of an execution, flow or gate; what they return may be stale
/// by then. Pages are keyed: `after` is the last key of the previous page, none for the first page. Times come from the
/// store's clock.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Returns the properties of this store.
    fn describe(&self) -> Description;

    /// Returns a number that rises whenever the store may have another history than before: rows that were read or written
    /// earlier may never have existed. Whoever caches rows drops them when the number changes. Default: 0 for ever.
    fn history(&self) -> u64 {
        0
    }

    /// Returns the clock, if it moves only when it is advanced. Default: none.
    fn manual_clock(&self) -> Option<&dyn ManualClock> {
        None
    }

    /// Returns the time.
    async fn now(&self) -> Result<Timestamp, Error>;

    /// Runs a decision in one transaction: loads and locks the rows that it names, in the lock order of
    /// [`Needs`], and saves its changes, all or nothing.
    ///
    /// Locks are held until the end of the transaction. When the call returns without an error, the changes are durable. If
    /// a guard of the save fails, nothing is saved and the decision is begun again on fresh rows, up to a limit, then
    /// [`Error::Contended`]. After [`Demand::Save`] the decision is not called again for any other reason. On an error
    /// nothing was saved, except that after [`Error::Unavailable`] the changes may have been saved. A decision that panics
    /// fails its own call with [`Error::Failed`] and no other. A caller may drop the future at any time; the transaction is
    /// then saved completely or not at all.
    async fn transact(&self, decision: Box<dyn Decision>) -> Result<Transaction, Error>;

    /// Returns the id of a namespace, which is created if it does not exist. One that was deleted gets a name that no caller can
    /// choose ([`is_retired`](crate::is_retired)), and the name gets a new id: rows of the deleted namespace stay apart.
    async fn namespace(&self, name: &Name) -> Result<NamespaceId, Error>;
    /// Returns the id of the namespace with this name, also of one that was deleted and not created again.
    async fn find_namespace(&self, name: &Name) -> Result<Option<NamespaceId>, Error>;
    /// Returns all namespaces, deleted ones too, in no particular order.
    async fn namespaces(&self) -> Result<Vec<(NamespaceId, Name)>, Error>;
    /// Returns the settings of a namespace; those of an unknown one are the defaults.
    async fn namespace_settings(&self, namespace: NamespaceId) -> Result<NamespaceSettings, Error>;
    /// Replaces the settings of a namespace. One that is being deleted only becomes deleted, with the job that was stored first, and
    /// then nothing changes it: any other call has no effect.
    async fn configure_namespace(
        &self,
        namespace: NamespaceId,
        settings: NamespaceSettings,
    ) -> Result<(), Error>;
    /// Deletes up to `limit` rows of each kind that belong to a namespace without executions and flows: configured gates,
    /// parts of budgets, ledgers, keys, sessions, rollups, ended bulk jobs, and events of the projection. Returns how many were
    /// deleted. Skips locked rows.
    async fn delete_rest_of_namespace(&self, namespace: NamespaceId, limit: u32) -> Result<u64, Error>;
    /// Returns the ids of classes in the order of the argument; missing classes are created, and the use of all of them is
    /// recorded. Writers of classes exclude each other, so ids become visible in ascending order: a reader that sees an id has
    /// seen all smaller ones. The first [`UNPOOLED`](selvedge_core::class::UNPOOLED) classes of a lane and capability set have
    /// no pool, later ones share one.
    async fn intern(&self, classes: &[Class]) -> Result<Vec<(ClassId, Class)>, Error>;
    /// Returns the classes with ids greater than `after`, in ascending order.
    async fn classes_after(&self, after: ClassId) -> Result<Vec<(ClassId, Class)>, Error>;

    /// Looks at up to `limit` classes that were not used for `unused_ms` milliseconds, removes those that no execution refers
    /// to, and returns how many were removed. The others count as used, so that they do not hide the classes behind them.
    /// Bounded work: a class may stay although it could be removed. Ids are never used again. Callers use the id of a class
    /// only for [`USED_EVERY_MS`](selvedge_core::class::USED_EVERY_MS) after they
    /// interned it.
    async fn remove_unused_classes(&self, unused_ms: i64, limit: u32) -> Result<u64, Error>;

    /// Returns executions by id with the payloads asked for, in no particular order; unknown ids are omitted. An unreadable
    /// row fails the call.
    async fn fetch(&self, ids: &[ExecutionId], payloads: Payloads) -> Result<Vec<Stored>, Error>;
    /// Returns the size of the payloads asked for of executions, in bytes, without reading them. In no particular order;
    /// unknown ids are omitted.
    async fn payload_sizes(
        &self,
        ids: &[ExecutionId],
        payloads: Payloads,
    ) -> Result<Vec<(ExecutionId, u64)>, Error>;
    /// Returns the head of an execution, without reading the rest of its row.
    async fn head(&self, id: ExecutionId) -> Result<Option<Head>, Error>;
    /// Returns a page of the executions that match, newest first, with the payloads asked for. Unreadable rows are omitted. A
    /// page may end before it is full; it then says where to continue. See [`ListScan`](crate::ListScan).
    async fn list(
        &self,
        filter: &Filter,
        after: Option<ListPosition>,
        limit: u32,
        payloads: Payloads,
    ) -> Result<ListPage, Error>;
    /// Returns the number of executions that match, or `bound` if there are more. Where no index has a condition, only
    /// the newest [`COUNT_SCAN_MAX`](crate::COUNT_SCAN_MAX) executions of the namespace are counted.
    async fn count(&self, filter: &Filter, bound: u64) -> Result<u64, Error>;
    /// Counts the waiting and the active executions of lanes of a namespace, in the order of the argument, which has the
    /// classes without a pool and the pools of each lane. Waiting ones are counted up to `bound` per lane, and at most
    /// 100 000 active executions of the namespace are looked at.
    async fn count_lanes(
        &self,
        namespace: NamespaceId,
        lanes: &[Vec<ClassId>],
        bound: u64,
    ) -> Result<Vec<LaneCounts>, Error>;
    /// Counts the live executions of a namespace by class or pool and by state, in no particular order. Waiting ones are
    /// counted in `ranges` alone, its classes without a pool and its pools, up to `bound` in each; of every other state the
    /// `bound` oldest are looked at.
    async fn depths(
        &self,
        namespace: NamespaceId,
        ranges: &[ClassId],
        bound: u64,
    ) -> Result<Vec<Depth>, Error>;
    /// Returns the pages of an execution's history that were moved out of its row, oldest first.
    async fn history_pages(&self, id: ExecutionId) -> Result<Vec<Vec<u8>>, Error>;
    /// Returns the number of waiting executions of the same class that precede this waiting execution in claim order, or
    /// `bound` if there are more.
    async fn ahead_of(&self, execution: &Execution, bound: u64) -> Result<u64, Error>;
    /// Returns the sessions of a namespace, or of all namespaces, by id.
    async fn sessions(&self, namespace: Option<NamespaceId>) -> Result<Vec<Session>, Error>;

    /// Returns flows by id, in no particular order; unknown ids are omitted.
    async fn fetch_flows(&self, ids: &[FlowId]) -> Result<Vec<Flow>, Error>;
    /// Returns a page of the flows that match, newest first.
    async fn list_flows(
        &self,
        filter: &FlowFilter,
        after: Option<FlowListPosition>,
        limit: u32,
    ) -> Result<Vec<Flow>, Error>;
    /// Returns the number of flows of a namespace in a state, or `bound` if there are more.
    async fn count_flows(&self, namespace: NamespaceId, state: FlowState, bound: u64) -> Result<u64, Error>;
    /// Returns a page of a flow's members in the order of their submission, without payloads. Unreadable rows are omitted.
    async fn members(&self, page: Members) -> Result<Vec<Execution>, Error>;

    /// Returns the first `limit` frames of a range of a stream, in order. Best-effort frames past their lifetime are omitted.
    async fn frames(&self, stream: StreamName, range: FrameRange, limit: u32) -> Result<Vec<Frame>, Error>;
    /// Returns a stream with its summary; none if nothing was appended to it.
    async fn stream(&self, stream: StreamName) -> Result<Option<Stream>, Error>;
    /// Deletes up to `limit` best-effort frames past their lifetime, skipping locked ones, and returns how many were deleted.
    async fn delete_old_frames(&self, limit: u32) -> Result<u64, Error>;

    /// Returns signals of an execution with numbers greater than `after`, in order, with their payloads.
    async fn signals(&self, of: ExecutionId, after: u32, limit: u32) -> Result<Vec<Signal>, Error>;
    /// Returns steps of an execution with numbers greater than `after`, in order, with their results.
    async fn steps(&self, of: ExecutionId, after: u32, limit: u32) -> Result<Vec<RecordedStep>, Error>;
    /// Returns waitpoints of an execution with numbers greater than `after`, in order.
    async fn waitpoints(&self, of: ExecutionId, after: u32, limit: u32) -> Result<Vec<Waitpoint>, Error>;
    /// Returns a page of the waitpoints of a namespace that match, newest first.
    async fn list_waitpoints(
        &self,
        filter: &WaitpointFilter,
        after: Option<WaitpointPosition>,
        limit: u32,
    ) -> Result<Vec<Waitpoint>, Error>;
    /// Returns a waitpoint by its id.
    async fn waitpoint(&self, id: WaitpointId) -> Result<Option<Waitpoint>, Error>;
    /// Returns the keys that sign waitpoint tokens, by id.
    async fn token_keys(&self) -> Result<Vec<TokenKey>, Error>;
    /// Returns the API key with this digest, and the store's time.
    async fn api_key(&self, digest: &KeyDigest) -> Result<Option<(ApiKey, Timestamp)>, Error>;
    /// Returns a page of the API keys, newest first: `after` is the id of the last key of the previous page.
    async fn api_keys(&self, after: Option<ApiKeyId>, limit: u32) -> Result<Vec<ApiKey>, Error>;
    /// Sets the last use of API keys to the store's time; unknown ids are ignored. Changes nothing else.
    async fn touch_api_keys(&self, ids: &[ApiKeyId]) -> Result<(), Error>;
    /// Returns a bulk job.
    async fn bulk_job(&self, id: BulkJobId) -> Result<Option<BulkJob>, Error>;
    /// Returns a page of the bulk jobs of a namespace, newest first: `after` is the id of the last job of the previous page.
    async fn bulk_jobs(
        &self,
        namespace: NamespaceId,
        after: Option<BulkJobId>,
        limit: u32,
    ) -> Result<Vec<BulkJob>, Error>;
    /// Returns bulk jobs that are due, earliest first: those of the namespace of a scope, whatever its tag.
    async fn due_bulk_jobs(&self, scope: &ReconcilerScope, limit: u32) -> Result<Vec<BulkJob>, Error>;
    /// Returns a webhook.
    async fn webhook(&self, name: &WebhookName) -> Result<Option<Webhook>, Error>;
    /// Returns a page of the webhooks of a namespace, or of all namespaces, by namespace and name. Unreadable rows are
    /// omitted.
    async fn webhooks(
        &self,
        namespace: Option<NamespaceId>,
        after: Option<&WebhookName>,
        limit: u32,
    ) -> Result<Vec<Webhook>, Error>;
    /// Returns a page of the deliveries of a webhook, newest first.
    async fn deliveries(&self, page: &DeliveryPage) -> Result<Vec<Delivery>, Error>;
    /// Returns a page of the rows of the inbox that wait to be taken in: by transaction, then by number. `after` is the last
    /// row of the previous page. With a namespace: only its rows. A page ends at `limit` rows or 8 MiB, and has at least one
    /// row if there is one. Stores without SQL submission have no inbox.
    async fn pending_inbox(
        &self,
        _namespace: Option<&Name>,
        _after: Option<(u64, InboxNumber)>,
        _limit: u32,
    ) -> Result<Vec<InboxEntry>, Error> {
        Ok(Vec::new())
    }
    /// Returns a page of the refused rows of a namespace, newest first, with empty bodies. `after` is the last number of the previous page.
    async fn refused_inbox(
        &self,
        _namespace: &Name,
        _after: Option<InboxNumber>,
        _limit: u32,
    ) -> Result<Vec<InboxEntry>, Error> {
        Ok(Vec::new())
    }
    /// Counts the rows of the inbox, each kind up to `bound`. With a namespace: only its rows.
    async fn count_inbox(&self, _namespace: Option<&Name>, _bound: u64) -> Result<InboxCounts, Error> {
        Ok(InboxCounts::default())
    }
    /// Deletes up to `limit` rows that were refused longer than [`REFUSED_KEPT_MS`](selvedge_core::inbox::REFUSED_KEPT_MS)
    /// ago. Returns how many.
    async fn delete_old_inbox(&self, _limit: u32) -> Result<u64, Error> {
        Ok(0)
    }
    /// Returns the root secret that the store keeps, or one made from `new` if there is none, which is durable before this
    /// returns. All callers, also concurrent ones, get the same secret.
    async fn root_secret(&self, new: &[u8]) -> Result<RootSecret, Error>;

    /// Returns gates by id, in no particular order; unknown ids are omitted.
    async fn fetch_gates(&self, ids: &[GateId]) -> Result<Vec<Gate>, Error>;
    /// Returns a page of the configured gates of a kind in a namespace, by name.
    async fn list_gates(
        &self,
        namespace: NamespaceId,
        kind: GateKind,
        after: Option<&Name>,
        limit: u32,
    ) -> Result<Vec<Gate>, Error>;
    /// Returns a page of the gates that are due to be checked, earliest first: those of the namespace of a scope, whatever
    /// its tag, because executions with any tags pass a gate.
    async fn due_gates(
        &self,
        scope: &ReconcilerScope,
        after: Option<(Timestamp, GateId)>,
        limit: u32,
    ) -> Result<Vec<Gate>, Error>;
    /// Returns a schedule.
    async fn schedule(&self, name: &ScheduleName) -> Result<Option<Schedule>, Error>;
    /// Returns a page of the schedules of a namespace, by name. Unreadable ones are omitted.
    async fn schedules(
        &self,
        namespace: NamespaceId,
        after: Option<&Name>,
        limit: u32,
    ) -> Result<Vec<Schedule>, Error>;
    /// Returns a page of the schedules that are due, earliest first: those of the namespace of a scope, whatever its tag.
    /// Unreadable ones are omitted.
    async fn due_schedules(
        &self,
        scope: &ReconcilerScope,
        after: Option<(Timestamp, ScheduleName)>,
        limit: u32,
    ) -> Result<DueSchedules, Error>;
    /// Returns the parts of a gate that are counted separately, in the order of their ids.
    async fn parts_of(&self, gate: &GateName, limit: u32) -> Result<Vec<Gate>, Error>;
    /// Returns the amounts spent of a budget, or of a part of it, in a period, one entry per execution and one for usage
    /// without an execution.
    async fn ledger(&self, gate: GateId, period: u32) -> Result<Vec<LedgerEntry>, Error>;
    /// Returns the amounts that an execution has spent, one entry per budget and period.
    async fn ledger_of(&self, execution: ExecutionId) -> Result<Vec<LedgerEntry>, Error>;
    /// Returns the number of executions that a gate holds, or `bound` if there are more.
    async fn held_by(&self, gate: GateId, bound: u64) -> Result<u64, Error>;

    /// Returns the next due times of all background work. Cheap: reads only the heads of indexes.
    async fn overview(&self) -> Result<Overview, Error>;
    /// Returns an overview at a cost that depends neither on the number of sessions nor on what other users of the database
    /// do. It may leave out times that are more than 3 s ahead, sessions that may be deleted, and rows that became due with
    /// a time in the past. Default: the complete overview.
    async fn glance(&self) -> Result<Overview, Error> {
        self.overview().await
    }
    /// Returns a page of the executions in a scope that are due for `kind`, earliest first.
    async fn due(
        &self,
        scope: &ReconcilerScope,
        kind: DueKind,
        after: Option<(Timestamp, ExecutionId)>,
        limit: u32,
    ) -> Result<Vec<DueRow>, Error>;
    /// Returns a page of the executions in a scope whose lease has expired: its first term is over and its session was not
    /// renewed in time. Ordered by execution id.
    async fn expired_leases(
        &self,
        scope: &ReconcilerScope,
        after: Option<ExecutionId>,
        limit: u32,
    ) -> Result<Vec<DueRow>, Error>;
    /// Returns a page of the flows in a scope that are due for `kind`, earliest first.
    async fn due_flows(
        &self,
        scope: &ReconcilerScope,
        kind: FlowDue,
        after: Option<(Timestamp, FlowId)>,
        limit: u32,
    ) -> Result<Vec<DueFlow>, Error>;
    /// Returns a page of the outbox rows of a kind in a scope that are at least `stale_ms` milliseconds old, oldest first.
    async fn outbox(
        &self,
        scope: &ReconcilerScope,
        kind: OutboxKind,
        stale_ms: i64,
        after: Option<(Timestamp, Uuid)>,
        limit: u32,
    ) -> Result<Vec<OutboxRow>, Error>;
    /// Returns up to `limit` sessions without leases that were last seen more than `unseen_ms` milliseconds ago.
    async fn unseen_sessions(&self, unseen_ms: i64, limit: u32) -> Result<Vec<SessionId>, Error>;
    /// Deletes up to `limit` expired keys of operations, skipping locked ones, and returns how many were deleted.
    async fn delete_expired_keys(&self, limit: u32) -> Result<u64, Error>;

    /// Returns a page of event log entries with numbers greater than `after`. `after` may exceed every number; `upto` is then
    /// the number of the newest entry.
    async fn log_page(&self, after: i64, limit: LogLimit) -> Result<Entries, Error>;
    /// [`Store::log_page`] with a limit on the number of entries alone.
    async fn log_after(&self, after: i64, limit: u32) -> Result<Entries, Error> {
        self.log_page(after, LogLimit::entries(limit)).await
    }

    /// Drops whole periods of the event log whose entries are all older than `keep_ms` milliseconds, prepares periods to come,
    /// and returns how many periods were dropped. Gives up after a short wait instead of blocking writers; the next call
    /// continues.
    async fn drop_old_log(&self, keep_ms: i64) -> Result<u64, Error>;

    /// Takes or renews the lease on the projection, and returns its position: the number of the last entry of the log whose
    /// rows it has, 0 before the first. None if another owner has the lease. Default: none, because SQL cannot read the store.
    async fn take_projection(&self, _lease: ProjectionLease) -> Result<Option<i64>, Error> {
        Ok(None)
    }
    /// Saves rows of the projection with their position, all or nothing, and renews the lease. Returns false, and saves
    /// nothing, if another owner has taken the lease or the position is another one. An attempt of an execution that was
    /// deleted gets no row.
    async fn save_projection(&self, _lease: ProjectionLease, _page: ProjectionPage) -> Result<bool, Error> {
        Ok(false)
    }
    /// Deletes up to `limit` events of the projection whose entries were dropped from the log, and returns how many were
    /// deleted. Attempts are deleted with their executions.
    async fn delete_old_projection(&self, _limit: u32) -> Result<u64, Error> {
        Ok(0)
    }

    /// Saves rollups, all or nothing. A rollup with the same key is replaced.
    async fn save_rollups(&self, rows: &[RollupRow]) -> Result<(), Error>;
    /// Returns a page of rollups in the order of their keys.
    async fn rollups(&self, query: &RollupQuery, limit: u32) -> Result<Vec<RollupRow>, Error>;
    /// Deletes up to `limit` rollups of minutes that began more than `keep_ms` milliseconds ago, and returns how many were
    /// deleted.
    async fn delete_old_rollups(&self, keep_ms: i64, limit: u32) -> Result<u64, Error>;

    /// Sends a notification to the other servers. Best effort: notifications may be lost.
    async fn notify(&self, notification: Notification) -> Result<(), Error>;
    /// Waits for a notification from another server. Returns none at once if this store never receives any.
    async fn next_notification(&self) -> Option<Notification>;

    /// Returns totals for benchmarks, (commits, bytes of write-ahead log), if the store counts them.
    async fn figures(&self) -> Result<Option<(i64, i64)>, Error>;
    /// Announces to the other servers of the store that the reconcilers of this one handle every execution of a namespace, or
    /// of all namespaces if none is given. The announcement lasts while the call is polled, which never returns, and ends at
    /// the latest some time after a crash. Best effort: it is repeated while the store is unavailable. Default: announces
    /// nothing, because no other server uses the store.
    async fn announce_coverage(&self, _namespace: Option<NamespaceId>) {
        pending().await
    }
    /// Returns the announcements of all servers. Default: none.
    async fn coverage(&self) -> Result<Vec<Option<NamespaceId>>, Error> {
        Ok(Vec::new())
    }
    /// Checks that the store accepts writes, by a small write that changes no value.
    async fn ping(&self) -> Result<(), Error>;
    /// Releases connections, threads and files. Transactions under way finish; later calls may fail. May be called twice.
    async fn close(&self);
}
