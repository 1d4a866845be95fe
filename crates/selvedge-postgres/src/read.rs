//! Everything outside of transactions: reads, scans, interning; and the store's contract, put together.

use crate::connect::{failure, no_connection};
use crate::flows::scanned_tags;
use crate::list::Parameters;
use crate::row::{self, Micros};
use crate::{PostgresStore, sql};
use async_trait::async_trait;
use deadpool_postgres::Object;
use selvedge_core::filter::{Filter, ListPosition};
use selvedge_core::flow::{FlowFilter, FlowListPosition};
use selvedge_core::gate::{Gate, GateId, GateKind, GateName, LedgerEntry};
use selvedge_core::outbox::{OutboxKind, OutboxRow};
use selvedge_core::rows::Members;
use selvedge_core::session::FORGET_MS;
use selvedge_core::stream::{BEST_EFFORT_MS, Frame, Stream, StreamName};
use selvedge_core::token::TokenKey;
use selvedge_core::{
    Class, ClassId, DueKind, Execution, ExecutionId, Flow, FlowId, Name, NamespaceId, Session, SessionId,
    Signal, Step, Timestamp, Waitpoint, WaitpointId,
};
use selvedge_store::{
    Decision, Description, DueFlow, DueRow, Entries, Error, FlowDue, Notification, Overview, Store, Stored,
    Transaction,
};
use std::cmp::Reverse;
use tokio_postgres::types::ToSql;
use tokio_postgres::{IsolationLevel, Row};
use uuid::Uuid;

impl PostgresStore {
    async fn client(&self) -> Result<Object, Error> {
        self.pool.get().await.map_err(no_connection)
    }

    /// Several statements in one snapshot: what moves from one to the other meanwhile is in exactly one of them.
    async fn query_at_once(&self, asked: Vec<(String, Parameters)>) -> Result<Vec<Row>, Error> {
        let mut client = self.client().await?;
        let snapshot =
            client.build_transaction().isolation_level(IsolationLevel::RepeatableRead).read_only(true);
        let transaction = snapshot.start().await.map_err(failure)?;
        let mut rows = Vec::new();
        for (text, parameters) in asked {
            let statement = transaction.prepare_cached(&text).await.map_err(failure)?;
            rows.extend(transaction.query(&statement, &parameters.as_refs()).await.map_err(failure)?);
        }
        transaction.commit().await.map_err(failure)?;
        Ok(rows)
    }

    pub(crate) async fn query(
        &self,
        text: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Error> {
        let client = self.client().await?;
        let statement = client.prepare_cached(text).await.map_err(failure)?;
        client.query(&statement, parameters).await.map_err(failure)
    }

    /// Runs a statement; says how many rows it changed.
    pub(crate) async fn execute(&self, text: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<u64, Error> {
        let client = self.client().await?;
        let statement = client.prepare_cached(text).await.map_err(failure)?;
        client.execute(&statement, parameters).await.map_err(failure)
    }
}

/// An execution in a row of `{columns}, input, result, renewed_at`.
fn stored(row: &Row) -> Result<Stored, Error> {
    let execution = row::execution(row)
        .map_err(|(id, detail)| Error::Failed(format!("execution {id} cannot be read: {detail}")))?;
    Ok(Stored {
        execution,
        input: row::payload(row, sql::COLUMN_COUNT),
        result: row::some_payload(row, sql::COLUMN_COUNT + 1),
        renewed_at: row.get::<_, Option<Micros>>(sql::COLUMN_COUNT + 2).map(Micros::time),
    })
}

/// The first time of each kind that has one.
fn first_of<K>(kinds: impl IntoIterator<Item = K>, first: Vec<Option<Micros>>) -> Vec<(K, Timestamp)> {
    kinds.into_iter().zip(first).filter_map(|(kind, at)| Some((kind, at?.time()))).collect()
}

fn due_row(row: &Row) -> DueRow {
    DueRow {
        execution: ExecutionId(row.get(0)),
        due_at: row.get::<_, Micros>(1).time(),
        namespace: NamespaceId(row.get(2)),
        tags: scanned_tags(row, 3),
    }
}

#[async_trait]
impl Store for PostgresStore {
    fn describe(&self) -> Description {
        Description { name: "postgres", writers: self.settings.writers, shared: true }
    }

    async fn transact(&self, decision: Box<dyn Decision>) -> Result<Transaction, Error> {
        self.run(decision).await
    }

    async fn namespace(&self, name: &Name) -> Result<NamespaceId, Error> {
        let insert = "insert into namespaces (name) values ($1) on conflict do nothing";
        self.query(insert, &[&name.as_str()]).await?;
        let rows = self.query("select id from namespaces where name = $1", &[&name.as_str()]).await?;
        let row = rows.first().ok_or_else(|| Error::Failed(format!("namespace {name} is not there")))?;
        Ok(NamespaceId(row.get(0)))
    }

    async fn namespaces(&self) -> Result<Vec<(NamespaceId, Name)>, Error> {
        let rows = self.query("select id, name from namespaces", &[]).await?;
        Ok(rows.iter().map(|row| (NamespaceId(row.get(0)), Name::trusted(row.get(1)))).collect())
    }

    async fn intern(&self, classes: &[Class]) -> Result<Vec<(ClassId, Class)>, Error> {
        let mut client = self.client().await?;
        let transaction = client.transaction().await.map_err(failure)?;
        transaction.batch_execute("lock table classes in share row exclusive mode").await.map_err(failure)?;
        let mut interned = Vec::new();
        for class in classes {
            let capabilities: Vec<&str> = class.capabilities.iter().map(Name::as_str).collect();
            let parameters: [&(dyn ToSql + Sync); 4] =
                [&class.namespace.0, &class.lane.as_str(), &class.kind.as_str(), &capabilities];
            transaction.execute(sql::CLASSES_INSERT.as_str(), &parameters).await.map_err(failure)?;
            let row =
                transaction.query_one(sql::CLASSES_FIND.as_str(), &parameters).await.map_err(failure)?;
            interned.push(row::class(&row));
        }
        transaction.commit().await.map_err(failure)?;
        Ok(interned)
    }

    async fn classes_after(&self, after: ClassId) -> Result<Vec<(ClassId, Class)>, Error> {
        Ok(self.query(&sql::CLASSES_AFTER, &[&after.0]).await?.iter().map(row::class).collect())
    }

    async fn fetch(&self, ids: &[ExecutionId]) -> Result<Vec<Stored>, Error> {
        let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
        self.query(&sql::EXECUTIONS_FETCH, &[&ids]).await?.iter().map(stored).collect()
    }

    async fn list(
        &self,
        filter: &Filter,
        after: Option<ListPosition>,
        limit: u32,
    ) -> Result<Vec<Stored>, Error> {
        let sources = self.sources(filter).await?;
        let (mut listed, mut after) = (Vec::new(), after);
        loop {
            let left = limit - listed.len() as u32;
            let asked = sources
                .iter()
                .map(|source| (source.text.to_owned(), source.parameters(after, i64::from(left))));
            let mut found = self.query_at_once(asked.collect()).await?;
            found.sort_by_key(|row| Reverse(row::place(row)));
            found.truncate(left as usize);
            for row in &found {
                match stored(row) {
                    Ok(stored) => listed.push(stored),
                    // One damaged row must not hide the others.
                    Err(error) => tracing::error!(%error, "left out of a list"),
                }
            }
            // A page that is short only because of damaged rows is filled with what comes behind them.
            if (found.len() as u32) < left || listed.len() as u32 == limit {
                return Ok(listed);
            }
            after = found.last().map(row::place);
        }
    }

    async fn count(&self, filter: &Filter, bound: u64) -> Result<u64, Error> {
        let sources = self.sources(filter).await?;
        let count = |text: &str| format!("select count(*) from (\n{text}\n) as counted");
        let asked = sources.iter().map(|source| (count(source.text), source.parameters(None, bound as i64)));
        let rows = self.query_at_once(asked.collect()).await?;
        Ok(rows.iter().map(|row| row.get::<_, i64>(0) as u64).sum::<u64>().min(bound))
    }

    async fn history_pages(&self, id: ExecutionId) -> Result<Vec<Vec<u8>>, Error> {
        Ok(self.query(&sql::HISTORY_PAGES_OF, &[&id.0]).await?.iter().map(|row| row.get(0)).collect())
    }

    async fn ahead_of(&self, execution: &Execution, bound: u64) -> Result<u64, Error> {
        let order = Micros::from(execution.ready_order);
        let rows = self
            .query(
                &sql::EXECUTIONS_AHEAD,
                &[&execution.class.0, &execution.claim_priority(), &order, &execution.id.0, &(bound as i64)],
            )
            .await?;
        Ok(rows.first().map_or(0, |row| row.get::<_, i64>(0) as u64).min(bound))
    }

    async fn sessions(&self, namespace: Option<NamespaceId>) -> Result<Vec<Session>, Error> {
        let namespace = namespace.map(|namespace| namespace.0);
        Ok(self.query(&sql::SESSIONS_LIST, &[&namespace]).await?.iter().map(row::session).collect())
    }

    async fn fetch_flows(&self, ids: &[FlowId]) -> Result<Vec<Flow>, Error> {
        self.read_flows(ids).await
    }

    async fn list_flows(
        &self,
        filter: &FlowFilter,
        after: Option<FlowListPosition>,
        limit: u32,
    ) -> Result<Vec<Flow>, Error> {
        self.find_flows(filter, after, limit).await
    }

    async fn members(&self, page: Members) -> Result<Vec<Execution>, Error> {
        self.read_members(page).await
    }

    async fn due_flows(
        &self,
        kind: FlowDue,
        after: Option<(Timestamp, FlowId)>,
        limit: u32,
    ) -> Result<Vec<DueFlow>, Error> {
        self.find_due_flows(kind, after, limit).await
    }

    async fn outbox(
        &self,
        kind: OutboxKind,
        stale_ms: i64,
        after: Option<(Timestamp, Uuid)>,
        limit: u32,
    ) -> Result<Vec<OutboxRow>, Error> {
        self.find_outbox(kind, stale_ms, after, limit).await
    }

    async fn frames(&self, stream: StreamName, from: u32, limit: u32) -> Result<Vec<Frame>, Error> {
        self.read_frames(stream, from, limit).await
    }

    async fn stream(&self, stream: StreamName) -> Result<Option<Stream>, Error> {
        self.read_stream(stream).await
    }

    async fn delete_old_frames(&self, limit: u32) -> Result<u64, Error> {
        self.drop_old_frames(limit).await
    }

    async fn signals(&self, of: ExecutionId, after: u32, limit: u32) -> Result<Vec<Signal>, Error> {
        self.read_signals(of, after, limit).await
    }

    async fn steps(&self, of: ExecutionId, after: u32, limit: u32) -> Result<Vec<Step>, Error> {
        self.read_steps(of, after, limit).await
    }

    async fn waitpoints(&self, of: ExecutionId, after: u32, limit: u32) -> Result<Vec<Waitpoint>, Error> {
        self.read_waitpoints(of, after, limit).await
    }

    async fn waitpoint(&self, id: WaitpointId) -> Result<Option<Waitpoint>, Error> {
        self.find_waitpoint(id).await
    }

    async fn token_keys(&self) -> Result<Vec<TokenKey>, Error> {
        self.list_token_keys().await
    }

    async fn kept_secret(&self, new: &[u8]) -> Result<Vec<u8>, Error> {
        self.keep_secret(new).await
    }

    async fn fetch_gates(&self, ids: &[GateId]) -> Result<Vec<Gate>, Error> {
        self.read_gates(ids).await
    }

    async fn list_gates(
        &self,
        namespace: NamespaceId,
        kind: GateKind,
        after: Option<&Name>,
        limit: u32,
    ) -> Result<Vec<Gate>, Error> {
        self.find_gates(namespace, kind, after, limit).await
    }

    async fn due_gates(&self, after: Option<(Timestamp, GateId)>, limit: u32) -> Result<Vec<Gate>, Error> {
        self.find_due_gates(after, limit).await
    }

    async fn parts_of(&self, gate: &GateName, limit: u32) -> Result<Vec<Gate>, Error> {
        self.find_parts(gate, limit).await
    }

    async fn ledger(&self, gate: GateId, period: u32) -> Result<Vec<LedgerEntry>, Error> {
        self.read_ledger(gate, period).await
    }

    async fn ledger_of(&self, execution: ExecutionId) -> Result<Vec<LedgerEntry>, Error> {
        self.read_ledger_of(execution).await
    }

    async fn held_by(&self, gate: GateId, bound: u64) -> Result<u64, Error> {
        self.count_held(gate, bound).await
    }

    async fn overview(&self) -> Result<Overview, Error> {
        let (outbox, flows) = (OutboxKind::ALL.map(OutboxKind::code), FlowDue::ALL.map(FlowDue::code));
        let kinds = DueKind::ALL.map(DueKind::code);
        let parameters: [&(dyn ToSql + Sync); 5] =
            [&FORGET_MS, &outbox.as_slice(), &flows.as_slice(), &BEST_EFFORT_MS, &kinds.as_slice()];
        let rows = self.query(&sql::OVERVIEW, &parameters).await?;
        let row = rows.first().ok_or_else(|| Error::Failed("no overview".into()))?;
        Ok(Overview {
            now: row.get::<_, Micros>(0).time(),
            next: first_of(DueKind::ALL, row.get(1)),
            outbox: first_of(OutboxKind::ALL, row.get(5)),
            flows: first_of(FlowDue::ALL, row.get(6)),
            lapsed: row.get(2),
            stale: row.get(3),
            gates: row.get::<_, Option<Micros>>(7).map(Micros::time),
            lanes: row.get(8),
            newest_class: row.get(4),
        })
    }

    async fn due(
        &self,
        kind: DueKind,
        after: Option<(Timestamp, ExecutionId)>,
        limit: u32,
    ) -> Result<Vec<DueRow>, Error> {
        let (at, id) = after.map_or((Micros(0), Uuid::nil()), |(at, id)| (at.into(), id.0));
        let parameters: [&(dyn ToSql + Sync); 4] = [&kind.code(), &at, &id, &i64::from(limit)];
        Ok(self.query(&sql::EXECUTIONS_DUE_OF_KIND, &parameters).await?.iter().map(due_row).collect())
    }

    async fn lapsed(&self, after: Option<ExecutionId>, limit: u32) -> Result<Vec<DueRow>, Error> {
        let after = after.map_or(Uuid::nil(), |id| id.0);
        let rows = self.query(&sql::EXECUTIONS_LAPSED, &[&after, &i64::from(limit)]).await?;
        Ok(rows.iter().map(due_row).collect())
    }

    async fn unseen_sessions(&self, unseen_ms: i64, limit: u32) -> Result<Vec<SessionId>, Error> {
        let rows = self.query(&sql::SESSIONS_UNSEEN, &[&unseen_ms, &i64::from(limit)]).await?;
        Ok(rows.iter().map(|row| SessionId(row.get(0))).collect())
    }

    async fn delete_expired_keys(&self, limit: u32) -> Result<u64, Error> {
        self.execute(&sql::KEYS_DELETE_EXPIRED, &[&i64::from(limit)]).await
    }

    async fn log_after(&self, after: i64, limit: u32) -> Result<Entries, Error> {
        self.read_log(after, limit).await
    }

    async fn keep_log(&self, keep_ms: i64) -> Result<u64, Error> {
        self.keep_window(keep_ms).await
    }

    async fn announce(&self, news: Notification) -> Result<(), Error> {
        self.tell(news).await
    }

    async fn news(&self) -> Option<Notification> {
        Some(self.listener.lock().await.next().await)
    }

    async fn figures(&self) -> Result<Option<(i64, i64)>, Error> {
        let text = "select pg_snapshot_xmax(pg_current_snapshot())::text::bigint, \
                    pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint";
        let rows = self.query(text, &[]).await?;
        Ok(rows.first().map(|row| (row.get(0), row.get(1))))
    }

    async fn ping(&self) -> Result<(), Error> {
        self.query("select 1", &[]).await.map(|_| ())
    }

    async fn close(&self) {
        self.writers.close();
        self.pool.close();
    }
}
