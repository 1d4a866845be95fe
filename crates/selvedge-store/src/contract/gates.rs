//! Reads of gates, their parts and their ledgers.

use crate::{Error, ReconcilerScope};
use async_trait::async_trait;
use selvedge_core::gate::{Gate, GateId, GateKind, GateName, LedgerEntry};
use selvedge_core::{ExecutionId, Name, NamespaceId, Timestamp};

#[async_trait]
pub trait GateReads: Send + Sync {
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
    /// Returns the parts of a gate that are counted separately, in the order of their ids.
    async fn parts_of(&self, gate: &GateName, limit: u32) -> Result<Vec<Gate>, Error>;
    /// Returns the amounts spent of a budget, or of a part of it, in a period, one entry per execution and one for usage
    /// without an execution.
    async fn ledger(&self, gate: GateId, period: u32) -> Result<Vec<LedgerEntry>, Error>;
    /// Returns the amounts that an execution has spent, one entry per budget and period.
    async fn ledger_of(&self, execution: ExecutionId) -> Result<Vec<LedgerEntry>, Error>;
    /// Returns the number of executions that a gate holds, or `bound` if there are more.
    async fn held_by(&self, gate: GateId, bound: u64) -> Result<u64, Error>;
}
