//! When background work is due next.

use crate::MemoryStore;
use crate::kinds::{KINDS, Tables, executions, gates, streams};
use async_trait::async_trait;
use selvedge_core::outbox::OutboxKind;
use selvedge_core::{DueKind, Session, Timestamp};
use selvedge_store::{DueReads, Error, FlowDue, Overview};

fn overview(tables: &Tables, now: Timestamp) -> Overview {
    let first = |kind: DueKind| tables.due.get(&kind)?.first().map(|(at, _)| (kind, *at));
    let deletable = |session: &Session| session.is_forgotten(now) && !tables.leases.contains_key(&session.id);
    let expired = tables.expiring.first().is_some_and(|(at, _)| *at <= now);
    Overview {
        now,
        ahead_ms: 0,
        next: DueKind::ALL.into_iter().filter_map(first).collect(),
        outbox: OutboxKind::ALL
            .into_iter()
            .filter_map(|kind| tables.outbox_by_age.get(&kind)?.first().map(|(at, _)| (kind, *at)))
            .collect(),
        flows: FlowDue::ALL
            .into_iter()
            .filter_map(|kind| tables.due_flows.get(&kind)?.first().map(|(at, _)| (kind, *at)))
            .collect(),
        expired_leases: executions::expired_leases(tables, now).next().is_some(),
        stale: expired || streams::has_old_frames(tables, now) || tables.sessions.values().any(deletable),
        due: KINDS.iter().filter_map(|kind| (kind.due)(tables)).collect(),
        lanes: gates::has_lanes(tables),
        newest_class: tables.newest_class,
    }
}

#[async_trait]
impl DueReads for MemoryStore {
    async fn overview(&self) -> Result<Overview, Error> {
        self.read("overview", overview).await
    }

    async fn glance(&self) -> Result<Overview, Error> {
        self.read("glance", overview).await
    }
}
