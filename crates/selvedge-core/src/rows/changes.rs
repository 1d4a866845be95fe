//! The changes of a decision, for a store to save.

use crate::flow::Counts;
use crate::gate::GateId;
use crate::rows::Changes;
use crate::stream::StreamName;
use crate::webhook::WebhookId;
use crate::{Execution, ExecutionId, FlowId};

/// Changes that are applied to rows without loading them: they do not depend on the content of the rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UnreadWrites {
    /// Additions to the counts of flows, in id order, applied after the flows are updated. Each addition raises the
    /// version by one.
    pub flow_counts: Vec<(FlowId, Counts)>,
    /// Number of slots given back to each gate, in id order.
    pub slots_freed: Vec<(GateId, u32)>,
    /// Taken signals, in key order: execution, signal number, and the number of the suspension that took it. May
    /// include new signals.
    pub signals_taken: Vec<(ExecutionId, u32, u32)>,
    /// Streams with a frame number: best-effort frames with smaller numbers are deleted.
    pub frames_dropped: Vec<(StreamName, u32)>,
    /// Webhooks that are deleted: all of their deliveries are deleted. Applied before deliveries are written.
    pub webhooks_removed: Vec<WebhookId>,
    /// Webhooks with the number of a delivery: the delivered ones with smaller numbers are deleted. Applied after
    /// deliveries are written.
    pub deliveries_pruned: Vec<(WebhookId, u64)>,
}

impl UnreadWrites {
    /// Reports whether there is nothing to save.
    pub fn is_empty(&self) -> bool {
        let UnreadWrites {
            flow_counts,
            slots_freed,
            signals_taken,
            frames_dropped,
            webhooks_removed,
            deliveries_pruned,
        } = self;
        flow_counts.is_empty()
            && slots_freed.is_empty()
            && signals_taken.is_empty()
            && frames_dropped.is_empty()
            && webhooks_removed.is_empty()
            && deliveries_pruned.is_empty()
    }
}

impl Changes {
    /// Returns an inserted or updated execution. Both are in the order of their ids.
    pub fn row(&self, id: ExecutionId) -> Option<&Execution> {
        let updated = &self.executions.updated;
        if let Ok(index) = updated.binary_search_by_key(&id, |row| row.execution.id) {
            return updated.get(index).map(|row| &row.execution);
        }
        let inserted = &self.executions.inserted;
        let index = inserted.binary_search_by_key(&id, |row| row.execution.id).ok()?;
        inserted.get(index).map(|row| &row.execution)
    }
}
