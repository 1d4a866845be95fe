//! The changes of a decision, for a store to save.

use super::{Inserted, KeyName, KeyRow, KeySubject, NodeEntry, TagEntry, Updated};
use crate::api_key::ApiKey;
use crate::bulk_job::{BulkJob, BulkJobId};
use crate::flow::Counts;
use crate::gate::{Gate, GateId, LedgerEntry};
use crate::inbox::{InboxNumber, InboxRow};
use crate::log::Event;
use crate::outbox::{OutboxName, OutboxRow};
use crate::rows::HistoryPage;
use crate::schedule::{Schedule, ScheduleName};
use crate::stream::{Frame, Stream, StreamName};
use crate::table::{Entries, Guarded};
use crate::token::{TokenKey, TokenKeyId};
use crate::webhook::{Delivery, Webhook, WebhookId, WebhookName};
use crate::{Execution, ExecutionId, Flow, FlowId, Name, Session, SessionId, Signal, Step, Waitpoint};

/// The changes of a decision. A store saves all of them or none, in the order of the fields.
///
/// The store checks the versions of executions, flows, schedules and gates, and that a new key or a new node name does not exist
/// yet.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Executions. The history pages, streams, steps, signals and waitpoints of a deleted execution are deleted with
    /// it.
    pub executions: Guarded<Inserted, Updated, ExecutionId>,
    /// New pages of history.
    pub history_pages: Vec<HistoryPage>,
    /// Entries of the tag index.
    pub tags: Entries<TagEntry, TagEntry>,
    /// Keys. A removed key with a subject is deleted only if it still stands for that subject; one without, only if
    /// it has expired.
    pub keys: Entries<KeyRow, (KeyName, Option<KeySubject>)>,
    /// Sessions. A write is merged with the stored row: one of an earlier life changes nothing, and one of a later life
    /// replaces the row. Within a life times never go back, a requested drain stays requested, and the detail stays. A
    /// session that is both removed and written replaces the stored row without merging.
    pub sessions: Entries<Session, SessionId>,
    /// Flows. An update writes everything but the counts; namespace, tags and time of submission never change. The
    /// budget parts that count for a deleted flow are deleted with it, as are those of a deleted execution that had no
    /// flow.
    pub flows: Guarded<Flow, (Flow, u32), FlowId>,
    /// Names of nodes in flows.
    pub nodes: Entries<NodeEntry, (FlowId, Name)>,
    /// Outbox rows to upsert and to delete.
    pub outbox: Entries<OutboxRow, OutboxName>,
    /// Streams to upsert. A summary document is written only if its version differs from the stored one.
    pub streams: Vec<Stream>,
    /// New frames.
    pub frames: Vec<Frame>,
    /// New signals.
    pub signals: Vec<Signal>,
    /// Steps to upsert.
    pub steps: Vec<Step>,
    /// Waitpoints to upsert.
    pub waitpoints: Vec<Waitpoint>,
    /// Token keys to upsert and to delete.
    pub token_keys: Entries<TokenKey, TokenKeyId>,
    /// API keys to insert, or to mark as revoked.
    pub api_keys: Vec<ApiKey>,
    /// Bulk jobs to upsert and to delete.
    pub bulk_jobs: Entries<BulkJob, BulkJobId>,
    /// Webhooks.
    pub webhooks: Guarded<Webhook, (Webhook, u32), WebhookName>,
    /// Deliveries of webhooks to upsert.
    pub deliveries: Vec<Delivery>,
    /// Schedules. The specification of an updated one is written only if its `spec_version` exceeds the expected version.
    pub schedules: Guarded<Schedule, (Schedule, u32), ScheduleName>,
    /// Rows of the inbox whose refusal to save, and rows to delete.
    pub inbox: Entries<InboxRow, InboxNumber>,
    /// Gates.
    pub gates: Guarded<Gate, (Gate, u32), GateId>,
    /// Amounts to add to the ledger.
    pub ledger: Vec<LedgerEntry>,
    /// Changes to rows that need not be loaded.
    pub unread: UnreadWrites,
    /// The events of the transaction. They form one entry of the event log.
    pub events: Vec<Event>,
}

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

    /// Reports whether there is nothing to save.
    pub fn is_empty(&self) -> bool {
        let Changes {
            executions,
            history_pages,
            tags,
            keys,
            sessions,
            flows,
            nodes,
            outbox,
            streams,
            frames,
            signals,
            steps,
            waitpoints,
            token_keys,
            api_keys,
            bulk_jobs,
            webhooks,
            deliveries,
            schedules,
            inbox,
            gates,
            ledger,
            unread,
            events,
        } = self;
        executions.is_empty()
            && history_pages.is_empty()
            && tags.is_empty()
            && keys.is_empty()
            && sessions.is_empty()
            && flows.is_empty()
            && nodes.is_empty()
            && outbox.is_empty()
            && streams.is_empty()
            && frames.is_empty()
            && signals.is_empty()
            && steps.is_empty()
            && waitpoints.is_empty()
            && token_keys.is_empty()
            && api_keys.is_empty()
            && bulk_jobs.is_empty()
            && webhooks.is_empty()
            && deliveries.is_empty()
            && schedules.is_empty()
            && inbox.is_empty()
            && gates.is_empty()
            && ledger.is_empty()
            && unread.is_empty()
            && events.is_empty()
    }
}
