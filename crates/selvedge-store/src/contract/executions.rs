//! Reads of executions.

use crate::{Depth, DueRow, Error, Head, LaneCounts, ListPage, ReconcilerScope, Stored};
use async_trait::async_trait;
use selvedge_core::filter::{Filter, ListPosition, Payloads};
use selvedge_core::{ClassId, DueKind, Execution, ExecutionId, NamespaceId, Timestamp};

#[async_trait]
pub trait ExecutionReads: Send + Sync {
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
}
