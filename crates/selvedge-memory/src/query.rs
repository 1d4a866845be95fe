//! Queries over executions and sessions, the overview, and the deletion of expired keys.

use crate::tables::{Record, Tables};
use bytes::Bytes;
use selvedge_core::filter::{Filter, ListPosition, Listed, Payloads};
use selvedge_core::outbox::OutboxKind;
use selvedge_core::{DueKind, Execution, ExecutionId, NamespaceId, Session, SessionId, Timestamp};
use selvedge_store::{DueRow, FlowDue, Head, ListPage, ListScan, Overview, ReconcilerScope, Stored};
use std::ops::Bound::{Excluded, Unbounded};

impl Tables {
    fn stored(&self, record: &Record, payloads: Payloads) -> Stored {
        let lease = record.execution.state.lease();
        let session = lease.and_then(|lease| self.sessions.get(&lease.session));
        Stored {
            execution: record.execution.clone(),
            input: if payloads.input { record.input.clone() } else { Bytes::new() },
            result: record.result.clone().filter(|_| payloads.result),
            renewed_at: session.and_then(|session| session.renewed_at),
        }
    }

    pub fn payload_sizes(&self, ids: &[ExecutionId], payloads: Payloads) -> Vec<(ExecutionId, u64)> {
        let size = |stored: Stored| stored.input.len() + stored.result.map_or(0, |result| result.len());
        let rows = self.fetch(ids, payloads).into_iter();
        rows.map(|stored| (stored.execution.id, size(stored) as u64)).collect()
    }

    pub fn head(&self, id: ExecutionId) -> Option<Head> {
        let row = &self.executions.get(&id)?.execution;
        Some(Head { namespace: row.namespace, epoch: row.epoch, state: row.state.name() })
    }

    /// Returns the records of the narrowest index, newest first: that of the first tag, or that of the namespace.
    fn indexed(&self, filter: &Filter, after: Option<ListPosition>) -> impl Iterator<Item = &Record> {
        let index = match filter.tags.first() {
            Some(tag) => self.tags.get(&(filter.namespace, tag.clone())),
            None => self.listed.get(&filter.namespace),
        };
        let before = after.map_or(Unbounded, Excluded);
        index
            .into_iter()
            .flat_map(move |places| places.range((Unbounded, before)).rev())
            .filter_map(|place| self.executions.get(&place.id))
    }

    pub fn list(
        &self,
        filter: &Filter,
        after: Option<ListPosition>,
        limit: u32,
        payloads: Payloads,
    ) -> ListPage {
        let mut scan = ListScan::new(filter, after, limit);
        while !scan.has_ended() {
            let (after, count) = scan.next_scan();
            let entries =
                self.indexed(filter, after).take(count as usize).map(|record| listed(&record.execution));
            let entries: Vec<Listed> = entries.collect();
            let mut groups = scan.groups(&entries).into_iter();
            if !groups.any(|ids| scan.add(self.fetch(&ids, Payloads::NONE))) {
                scan.advance(&entries);
            }
        }
        if payloads == Payloads::NONE {
            return scan.page();
        }
        let mut page = scan.page();
        let ids: Vec<ExecutionId> = page.rows.iter().map(|stored| stored.execution.id).collect();
        let ids = page.cut(&self.payload_sizes(&ids, payloads));
        page.with_rows(filter, self.fetch(&ids, payloads))
    }

    pub fn fetch(&self, ids: &[ExecutionId], payloads: Payloads) -> Vec<Stored> {
        let records = ids.iter().filter_map(|id| self.executions.get(id));
        records.map(|record| self.stored(record, payloads)).collect()
    }

    pub fn count(&self, filter: &Filter, bound: u64) -> u64 {
        bounded(self.indexed(filter, None).filter(|record| filter.matches(&record.execution)), bound)
    }

    pub fn history_pages(&self, id: ExecutionId) -> Vec<Vec<u8>> {
        let pages = self.pages.range((id, 0)..=(id, u32::MAX));
        pages.map(|(_, lines)| lines.clone()).collect()
    }

    pub fn ahead_of(&self, execution: &Execution, bound: u64) -> u64 {
        let claimable = self.claimable.get(&execution.class).into_iter();
        bounded(claimable.flat_map(|set| set.range(..execution.claim_order())), bound)
    }

    pub fn sessions_of(&self, namespace: Option<NamespaceId>) -> Vec<Session> {
        let mut sessions: Vec<Session> = self
            .sessions
            .values()
            .filter(|session| namespace.is_none_or(|of| session.namespace() == of))
            .cloned()
            .collect();
        sessions.sort_by_key(|session| session.id);
        sessions
    }

    pub fn overview(&self, now: Timestamp) -> Overview {
        let first = |kind: DueKind| self.due.get(&kind)?.first().map(|(at, _)| (kind, *at));
        let deletable =
            |session: &Session| session.is_forgotten(now) && !self.leases.contains_key(&session.id);
        let expired = self.expiring.first().is_some_and(|(at, _)| *at <= now);
        Overview {
            now,
            ahead_ms: 0,
            next: DueKind::ALL.into_iter().filter_map(first).collect(),
            outbox: OutboxKind::ALL
                .into_iter()
                .filter_map(|kind| self.outbox_by_age.get(&kind)?.first().map(|(at, _)| (kind, *at)))
                .collect(),
            flows: FlowDue::ALL
                .into_iter()
                .filter_map(|kind| self.due_flows.get(&kind)?.first().map(|(at, _)| (kind, *at)))
                .collect(),
            expired_leases: self.expired_lease_rows(now).next().is_some(),
            stale: expired || self.has_old_frames(now) || self.sessions.values().any(deletable),
            gates: self.gates.next_due(),
            bulk_jobs: self.records.bulk_jobs.values().map(|job| job.due_at).min(),
            schedules: self.schedules.next_due(),
            inbox: None,
            lanes: self.gates.has_lanes(),
            newest_class: self.newest_class(),
        }
    }

    pub fn due(
        &self,
        scope: &ReconcilerScope,
        kind: DueKind,
        after: Option<(Timestamp, ExecutionId)>,
        limit: u32,
        now: Timestamp,
    ) -> Vec<DueRow> {
        let from = after.map_or(Unbounded, Excluded);
        let due = self.due.get(&kind).into_iter();
        due.flat_map(|set| set.range((from, Unbounded)))
            .take_while(|(at, _)| *at <= now)
            .filter_map(|(at, id)| Some(due_row(&self.executions.get(id)?.execution, *at)))
            .filter(|row| scope.covers(row.namespace, &row.tags))
            .take(limit as usize)
            .collect()
    }

    pub fn expired_leases(
        &self,
        scope: &ReconcilerScope,
        after: Option<ExecutionId>,
        limit: u32,
        now: Timestamp,
    ) -> Vec<DueRow> {
        let mut rows: Vec<DueRow> = self
            .expired_lease_rows(now)
            .filter(|row| after.is_none_or(|after| row.execution > after))
            .filter(|row| scope.covers(row.namespace, &row.tags))
            .collect();
        rows.sort_by_key(|row| row.execution);
        rows.truncate(limit as usize);
        rows
    }

    fn expired_lease_rows(&self, now: Timestamp) -> impl Iterator<Item = DueRow> {
        self.first_terms.iter().take_while(move |(first_term, _)| *first_term <= now).filter_map(
            move |(first_term, id)| {
                let row = &self.executions.get(id)?.execution;
                let session = self.sessions.get(&row.state.lease()?.session);
                let renewed_until = session.and_then(Session::renewed_until).unwrap_or_default();
                let since = renewed_until.max(*first_term);
                (since <= now).then(|| due_row(row, since))
            },
        )
    }

    pub fn unseen_sessions(&self, before: Timestamp, limit: u32) -> Vec<SessionId> {
        let mut unseen: Vec<SessionId> = self
            .sessions
            .values()
            .filter(|session| session.seen_at < before && !self.leases.contains_key(&session.id))
            .map(|session| session.id)
            .collect();
        unseen.sort_unstable();
        unseen.truncate(limit as usize);
        unseen
    }

    pub fn delete_expired_keys(&mut self, now: Timestamp, limit: u32) -> u64 {
        let expired: Vec<_> = self
            .expiring
            .iter()
            .take_while(|(at, _)| *at <= now)
            .take(limit as usize)
            .map(|(_, name)| name.clone())
            .collect();
        expired.iter().for_each(|name| self.take_key(name));
        expired.len() as u64
    }
}

fn bounded<T>(items: impl Iterator<Item = T>, bound: u64) -> u64 {
    let bound = usize::try_from(bound).unwrap_or(usize::MAX);
    items.take(bound).count() as u64
}

fn due_row(row: &Execution, due_at: Timestamp) -> DueRow {
    DueRow { execution: row.id, due_at, namespace: row.namespace, tags: row.tags.clone() }
}

/// Returns the columns of an execution that a scan reads.
fn listed(row: &Execution) -> Listed {
    Listed {
        position: ListPosition::of(row),
        class: row.class,
        state: row.state.name(),
        ended_at: row.ended_at,
    }
}
