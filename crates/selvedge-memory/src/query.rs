//! Queries over executions and sessions, the overview, and the deletion of expired keys.

use crate::tables::{Record, Tables};
use selvedge_core::filter::{Filter, ListPosition};
use selvedge_core::outbox::OutboxKind;
use selvedge_core::{DueKind, Execution, ExecutionId, NamespaceId, Session, SessionId, Timestamp};
use selvedge_store::{DueRow, FlowDue, Overview, Stored};
use std::ops::Bound::{Excluded, Unbounded};

impl Tables {
    fn stored(&self, record: &Record) -> Stored {
        let lease = record.execution.state.lease();
        let session = lease.and_then(|lease| self.sessions.get(&lease.session));
        Stored {
            execution: record.execution.clone(),
            input: record.input.clone(),
            result: record.result.clone(),
            renewed_at: session.and_then(|session| session.renewed_at),
        }
    }

    pub fn fetch(&self, ids: &[ExecutionId]) -> Vec<Stored> {
        ids.iter().filter_map(|id| self.executions.get(id)).map(|record| self.stored(record)).collect()
    }

    /// Returns the records that match, newest first. Uses the tag index if the filter names a tag.
    fn matching(&self, filter: &Filter, after: Option<ListPosition>) -> impl Iterator<Item = &Record> {
        let index = match &filter.tag {
            Some(tag) => self.tags.get(&(filter.namespace, tag.clone())),
            None => self.listed.get(&filter.namespace),
        };
        let before = after.map_or(Unbounded, Excluded);
        index
            .into_iter()
            .flat_map(move |places| places.range((Unbounded, before)).rev())
            .filter_map(|place| self.executions.get(&place.id))
            .filter(|record| matches(filter, &record.execution))
    }

    pub fn list(&self, filter: &Filter, after: Option<ListPosition>, limit: u32) -> Vec<Stored> {
        let records = self.matching(filter, after).take(limit as usize);
        records.map(|record| self.stored(record)).collect()
    }

    pub fn count(&self, filter: &Filter, bound: u64) -> u64 {
        bounded(self.matching(filter, None), bound)
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
            lanes: self.gates.has_lanes(),
            newest_class: self.newest_class(),
        }
    }

    pub fn due(
        &self,
        kind: DueKind,
        after: Option<(Timestamp, ExecutionId)>,
        limit: u32,
        now: Timestamp,
    ) -> Vec<DueRow> {
        let from = after.map_or(Unbounded, Excluded);
        let due = self.due.get(&kind).into_iter();
        due.flat_map(|set| set.range((from, Unbounded)))
            .take_while(|(at, _)| *at <= now)
            .take(limit as usize)
            .filter_map(|(at, id)| Some(due_row(&self.executions.get(id)?.execution, *at)))
            .collect()
    }

    pub fn expired_leases(&self, after: Option<ExecutionId>, limit: u32, now: Timestamp) -> Vec<DueRow> {
        let mut rows: Vec<DueRow> = self
            .expired_lease_rows(now)
            .filter(|row| after.is_none_or(|after| row.execution > after))
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

/// Returns true if a row matches every part of a filter but its tag, which the index has matched.
fn matches(filter: &Filter, row: &Execution) -> bool {
    row.namespace == filter.namespace
        && filter.classes.as_ref().is_none_or(|classes| classes.contains(&row.class))
        && (filter.states.is_empty() || filter.states.contains(&row.state.name()))
        && filter.flow.is_none_or(|flow| row.flow() == flow)
        && filter.submitted_after.is_none_or(|from| row.submitted_at >= from)
        && filter.submitted_before.is_none_or(|until| row.submitted_at < until)
}
