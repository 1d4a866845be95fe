//! Reads of flows and their members.

use crate::{DueFlow, Error, FlowDue, ReconcilerScope};
use async_trait::async_trait;
use selvedge_core::flow::{FlowFilter, FlowListPosition, FlowState};
use selvedge_core::rows::Members;
use selvedge_core::{Execution, Flow, FlowId, NamespaceId, Timestamp};

#[async_trait]
pub trait FlowReads: Send + Sync {
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
    /// Returns a page of the flows in a scope that are due for `kind`, earliest first.
    async fn due_flows(
        &self,
        scope: &ReconcilerScope,
        kind: FlowDue,
        after: Option<(Timestamp, FlowId)>,
        limit: u32,
    ) -> Result<Vec<DueFlow>, Error>;
}
