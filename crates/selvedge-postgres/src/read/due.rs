//! Scans for reconcilers: due executions and flows, stale outbox rows, expired leases, unseen sessions.

use super::scanned_tags;
use crate::row::Micros;
use crate::{PostgresStore, sql};
use selvedge_core::inbox::REFUSED_KEPT_MS;
use selvedge_core::outbox::{OutboxKind, OutboxName, OutboxRow};
use selvedge_core::session::FORGET_MS;
use selvedge_core::stream::BEST_EFFORT_MS;
use selvedge_core::{DueKind, ExecutionId, FlowId, NamespaceId, SessionId, Timestamp};
use selvedge_store::{DueFlow, DueRow, Error, FlowDue, Overview, ReconcilerScope};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

/// The position before every other one of a scan by time and id.
const START: (Micros, Uuid) = (Micros(0), Uuid::nil());

/// Pairs each kind that has a time with its time.
pub fn first_of<K>(kinds: impl IntoIterator<Item = K>, first: Vec<Option<Micros>>) -> Vec<(K, Timestamp)> {
    kinds.into_iter().zip(first).filter_map(|(kind, at)| Some((kind, at?.time()))).collect()
}

/// Returns the namespace of a scope, and the text that the tags of its rows contain.
pub fn scope_parameters(scope: &ReconcilerScope) -> (Option<i32>, Option<String>) {
    (scope.namespace.map(|namespace| namespace.0), scope.tag_text())
}

fn due_row(row: &Row) -> DueRow {
    DueRow {
        execution: ExecutionId(row.get(0)),
        due_at: row.get::<_, Micros>(1).time(),
        namespace: NamespaceId(row.get(2)),
        tags: scanned_tags(row, 3),
    }
}

fn due_flow(row: &Row) -> DueFlow {
    DueFlow {
        flow: FlowId(row.get(0)),
        due_at: row.get::<_, Micros>(1).time(),
        namespace: NamespaceId(row.get(2)),
        tags: scanned_tags(row, 3),
    }
}

fn stale_row(row: &Row, kind: OutboxKind) -> OutboxRow {
    OutboxRow {
        name: OutboxName { id: row.get(0), kind },
        at: row.get::<_, Micros>(2).time(),
        position: row.get::<_, i32>(3) as u32,
        namespace: NamespaceId(row.get(4)),
        tags: scanned_tags(row, 5),
    }
}

impl PostgresStore {
    pub(crate) async fn read_overview(&self) -> Result<Overview, Error> {
        self.check_schema().await?;
        let (outbox, flows) = (OutboxKind::ALL.map(OutboxKind::code), FlowDue::ALL.map(FlowDue::code));
        let kinds = DueKind::ALL.map(DueKind::code);
        let parameters: [&(dyn ToSql + Sync); 5] =
            [&FORGET_MS, &outbox.as_slice(), &flows.as_slice(), &BEST_EFFORT_MS, &kinds.as_slice()];
        let rows = self.query_in_background(&sql::OVERVIEW_READ, &parameters).await?;
        let row = rows.first().ok_or_else(|| Error::Failed("the overview returned no row".into()))?;
        let overview = Overview {
            now: row.get::<_, Micros>(0).time(),
            ahead_ms: row.get(13),
            next: first_of(DueKind::ALL, row.get(1)),
            expired_leases: row.get(2),
            stale: row.get(3),
            newest_class: row.get(4),
            outbox: first_of(OutboxKind::ALL, row.get(5)),
            flows: first_of(FlowDue::ALL, row.get(6)),
            gates: row.get::<_, Option<Micros>>(7).map(Micros::time),
            lanes: row.get(8),
            bulk_jobs: row.get::<_, Option<Micros>>(9).map(Micros::time),
            schedules: row.get::<_, Option<Micros>>(10).map(Micros::time),
            inbox: row.get::<_, Option<Micros>>(11).map(Micros::time),
        };
        self.glances.lower(&overview);
        self.keep_pace(&overview).await?;
        let refused = row.get::<_, Option<Micros>>(12).map(Micros::time);
        let deleted_at = refused.map(|at| at.plus_ms(REFUSED_KEPT_MS));
        let overview = Overview { inbox: overview.inbox.or(deleted_at), ..overview };
        Ok(overview)
    }

    pub(crate) async fn find_due(
        &self,
        scope: &ReconcilerScope,
        kind: DueKind,
        after: Option<(Timestamp, ExecutionId)>,
        limit: u32,
    ) -> Result<Vec<DueRow>, Error> {
        let start = || (self.glances.since(kind), Uuid::nil());
        let (at, id) = after.map_or_else(start, |(at, id)| (at.into(), id.0));
        let (namespace, tag) = scope_parameters(scope);
        let parameters: [&(dyn ToSql + Sync); 6] =
            [&kind.code(), &at, &id, &i64::from(limit), &namespace, &tag];
        Ok(self
            .query_in_background(&sql::EXECUTIONS_LIST_DUE, &parameters)
            .await?
            .iter()
            .map(due_row)
            .collect())
    }

    pub(crate) async fn find_expired_leases(
        &self,
        scope: &ReconcilerScope,
        after: Option<ExecutionId>,
        limit: u32,
    ) -> Result<Vec<DueRow>, Error> {
        let after = after.map_or(Uuid::nil(), |id| id.0);
        let (namespace, tag) = scope_parameters(scope);
        let parameters: [&(dyn ToSql + Sync); 4] = [&after, &i64::from(limit), &namespace, &tag];
        let rows = self.query_in_background(&sql::LEASES_LIST_EXPIRED, &parameters).await?;
        Ok(rows.iter().map(due_row).collect())
    }

    pub(crate) async fn find_due_flows(
        &self,
        scope: &ReconcilerScope,
        kind: FlowDue,
        after: Option<(Timestamp, FlowId)>,
        limit: u32,
    ) -> Result<Vec<DueFlow>, Error> {
        let (at, id) = after.map_or(START, |(at, id)| (at.into(), id.0));
        let (namespace, tag) = scope_parameters(scope);
        let parameters: [&(dyn ToSql + Sync); 6] =
            [&kind.code(), &at, &id, &i64::from(limit), &namespace, &tag];
        Ok(self.query_in_background(&sql::FLOWS_LIST_DUE, &parameters).await?.iter().map(due_flow).collect())
    }

    pub(crate) async fn find_stale_outbox(
        &self,
        scope: &ReconcilerScope,
        kind: OutboxKind,
        stale_ms: i64,
        after: Option<(Timestamp, Uuid)>,
        limit: u32,
    ) -> Result<Vec<OutboxRow>, Error> {
        let (at, id) = after.map_or(START, |(at, id)| (at.into(), id));
        let (namespace, tag) = scope_parameters(scope);
        let parameters: [&(dyn ToSql + Sync); 7] =
            [&kind.code(), &stale_ms, &at, &id, &i64::from(limit), &namespace, &tag];
        let rows = self.query_in_background(&sql::OUTBOX_LIST_STALE, &parameters).await?;
        Ok(rows.iter().map(|row| stale_row(row, kind)).collect())
    }

    pub(crate) async fn find_unseen_sessions(
        &self,
        unseen_ms: i64,
        limit: u32,
    ) -> Result<Vec<SessionId>, Error> {
        let rows =
            self.query_in_background(&sql::SESSIONS_LIST_UNSEEN, &[&unseen_ms, &i64::from(limit)]).await?;
        Ok(rows.iter().map(|row| SessionId(row.get(0))).collect())
    }
}
