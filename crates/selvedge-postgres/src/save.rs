//! The saving half of a transaction: all statements that save changes, and `commit`, are sent together.
//!
//! Guards are inside the statements: a failing guard aborts the transaction on the server before it reaches the `commit`.
//! The last statement draws the number of the log, when all locks are held. Rows that many transactions want at once are
//! written just before it, so that no transaction holds them while it waits for others: the counts of flows, sessions,
//! gates, the ledger, token keys, API keys, webhooks, the pairs of class and priority, and attempts of the projection. The counts of flows come before the sessions, as
//! in the order of loads.

use crate::api_keys;
use crate::bounds::Written;
use crate::bulk_jobs;
use crate::connection::history::History;
use crate::connection::pipeline::{Parameters, Pipeline};
use crate::connection::{Connection, StatementError};
use crate::gates::GateRows;
use crate::inbox;
use crate::projection;
use crate::records;
use crate::row::Micros;
use crate::save_flows::{self, FlowRows};
use crate::schedules::ScheduleRows;
use crate::sql;
use crate::streams;
use crate::webhooks;
use selvedge_core::rows::{Changes, Inserted, KeyRow, ResultChange, TagEntry, Updated};
use selvedge_core::{ExecutionId, FlowId, Name, Session, log};
use selvedge_store::columns::{self, Fixed, Moving};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

/// The outcome of a committed save.
#[derive(Debug, Default)]
pub struct Saved {
    /// The number of the log entry.
    pub entry: Option<i64>,
    /// Flows that are running without a live member now.
    pub emptied: Vec<FlowId>,
}

/// The outcome of a save and its commit, or the error because of which the commit had no effect.
pub type Answer = Result<Saved, StatementError>;

/// Statements to send, in order.
#[derive(Default)]
pub struct Saving<'a>(Vec<(&'static str, Parameters<'a>)>);

impl<'a> Saving<'a> {
    /// Adds a statement.
    pub fn add(&mut self, text: &'static str, parameters: Parameters<'a>) {
        self.0.push((text, parameters));
    }

    /// Adds a statement that saves these rows, if there are any. Returns its index.
    pub fn rows<R>(
        &mut self,
        rows: &'a [R],
        text: &'static str,
        parameters: impl FnOnce(&'a [R]) -> Parameters<'a>,
    ) -> Option<usize> {
        if rows.is_empty() {
            return None;
        }
        self.add(text, parameters(rows));
        Some(self.0.len() - 1)
    }
}

/// Saves all changes and commits. An outer error means that the transaction may still be open: nothing was sent, or the
/// connection was silent.
pub async fn save_and_commit(
    client: &Connection,
    changes: &Changes,
    pairs: &[Written],
    history: &History,
) -> Result<Answer, StatementError> {
    let body = log::pack(&changes.events);
    let inserted: Vec<(Fixed, Moving)> = changes
        .executions
        .inserted
        .iter()
        .map(|row| (Fixed::of(&row.execution), Moving::of(&row.execution)))
        .collect();
    let updated: Vec<Moving> =
        changes.executions.updated.iter().map(|row| Moving::of(&row.execution)).collect();
    let replaced: Vec<(ExecutionId, &[u8])> = changes
        .executions
        .updated
        .iter()
        .filter_map(|row| Some((row.execution.id, row.input.as_deref()?)))
        .collect();
    let rewired: Vec<Fixed> = changes
        .executions
        .updated
        .iter()
        .filter(|row| row.rewired)
        .map(|row| Fixed::of(&row.execution))
        .collect();
    let flows = FlowRows::of(changes);
    let gates = GateRows::of(changes);
    let schedules = ScheduleRows::of(changes);
    let taken = records::taken_later(changes);
    let mut saving = Saving::default();
    saving.rows(&changes.executions.deleted, &sql::EXECUTIONS_DELETE, |rows| {
        vec![column(rows, |(id, _)| id.0), column(rows, |(_, version)| *version as i32)]
    });
    saving.rows(&changes.executions.deleted, &sql::HISTORY_PAGES_DELETE, |rows| {
        vec![column(rows, |(id, _)| id.0)]
    });
    streams::delete(changes, &mut saving);
    records::delete(changes, &mut saving);
    saving.rows(&inserted, &sql::EXECUTIONS_INSERT, |columns| {
        let pool = |row: &Inserted| history.pool_of(row.execution.class).map(|pool| pool.0);
        let mut parameters = insert(&changes.executions.inserted, columns);
        parameters.push(column(&changes.executions.inserted, pool));
        parameters
    });
    saving.rows(&updated, &sql::EXECUTIONS_UPDATE, |columns| update(&changes.executions.updated, columns));
    saving.rows(&rewired, &sql::EXECUTIONS_REWIRE, rewire);
    saving.rows(&replaced, &sql::EXECUTIONS_UPDATE_INPUT, |inputs| {
        vec![column(inputs, |(id, _)| id.0), column(inputs, |(_, input)| *input)]
    });
    saving.rows(&changes.history_pages, &sql::HISTORY_PAGES_INSERT, |pages| {
        vec![
            column(pages, |page| page.execution.0),
            column(pages, |page| page.page as i32),
            column(pages, |page| page.lines.as_slice()),
        ]
    });
    streams::save(changes, &mut saving);
    records::save(changes, &taken, &mut saving);
    saving.rows(&changes.tags.removed, &sql::TAGS_DELETE, tags);
    saving.rows(&changes.tags.written, &sql::TAGS_INSERT, tags);
    saving.rows(&changes.keys.removed, &sql::KEYS_DELETE, |removed| {
        vec![
            column(removed, |(name, _)| name.namespace.0),
            column(removed, |(name, _)| name.scope.code()),
            column(removed, |(name, _)| name.key.as_str()),
            column(removed, |(_, subject)| subject.map(|subject| subject.id())),
        ]
    });
    saving.rows(&changes.keys.written, &sql::KEYS_INSERT, keys);
    flows.save(changes, &mut saving);
    let emptying = saving.rows(&changes.unread.flow_counts, &sql::FLOWS_ADD_COUNTS, save_flows::counted);
    saving.rows(&changes.sessions.removed, &sql::SESSIONS_DELETE, |ids| vec![column(ids, |id| id.0)]);
    for written in &changes.sessions.written {
        saving.add(&sql::SESSIONS_UPSERT, session(written));
    }
    gates.save(changes, &mut saving);
    records::save_token_keys(changes, &mut saving);
    api_keys::save(changes, &mut saving);
    bulk_jobs::save(changes, &mut saving);
    webhooks::save(changes, &mut saving);
    schedules.save(changes, &mut saving);
    inbox::save(changes, &mut saving);
    saving.rows(pairs, &sql::CLASS_PRIORITIES_UPSERT, |pairs| {
        vec![
            column(pairs, |((class, _), _)| *class),
            column(pairs, |((_, priority), _)| *priority),
            column(pairs, |(_, generation)| *generation),
        ]
    });
    projection::delete(&changes.executions.deleted, &mut saving);
    let logging = saving.rows(&changes.events, &sql::LOG_APPEND, |_| vec![Box::new(body.as_slice())]);
    let mut pipeline = Pipeline::new(client);
    for (text, parameters) in saving.0 {
        pipeline.add(text, parameters).await?;
    }
    pipeline.add("commit", vec![]).await?;
    Ok(answer(pipeline.run().await?, emptying, logging))
}

/// Reads the answers of the statements, unless one failed.
fn answer(
    answers: Vec<Result<Vec<Row>, StatementError>>,
    emptying: Option<usize>,
    logging: Option<usize>,
) -> Answer {
    let mut saved = Saved::default();
    for (index, answer) in answers.into_iter().enumerate() {
        let rows = answer?;
        if emptying == Some(index) {
            saved.emptied = rows.iter().map(|row| FlowId(row.get(0))).collect();
        }
        if logging == Some(index) {
            saved.entry = rows.first().map(|row| row.get(0));
        }
    }
    Ok(saved)
}

/// Returns a column of rows as an array parameter.
pub fn column<'a, R, T>(rows: &'a [R], value: impl Fn(&'a R) -> T) -> Box<dyn ToSql + Sync + Send + 'a>
where
    T: ToSql + Sync + Send + 'a,
{
    Box::new(rows.iter().map(value).collect::<Vec<T>>())
}

fn insert<'a>(rows: &'a [Inserted], columns: &'a [(Fixed, Moving)]) -> Parameters<'a> {
    let mut parameters: Parameters<'a> = vec![
        column(columns, |(fixed, _)| fixed.id),
        column(columns, |(fixed, _)| Micros(fixed.submitted_at)),
        column(columns, |(fixed, _)| fixed.namespace),
        column(columns, |(fixed, _)| fixed.class),
        column(columns, |(fixed, _)| fixed.partition),
        column(columns, |(fixed, _)| fixed.flow),
        column(columns, |(fixed, _)| fixed.spec.as_deref()),
        column(columns, |(fixed, _)| fixed.wiring.as_deref()),
        column(rows, |row| row.input.as_ref()),
    ];
    parameters.extend(moving(columns, |(_, moving)| moving));
    parameters.push(column(rows, |row| row.result.as_deref()));
    parameters
}

fn update<'a>(rows: &'a [Updated], columns: &'a [Moving]) -> Parameters<'a> {
    let mut parameters: Parameters<'a> =
        vec![column(rows, |row| row.execution.id.0), column(rows, |row| row.expected_version as i32)];
    parameters.extend(moving(columns, |moving| moving));
    parameters.push(column(rows, |row| match &row.result {
        ResultChange::Set(result) => Some(result.as_ref()),
        ResultChange::Keep | ResultChange::Clear => None,
    }));
    parameters.push(column(rows, |row| row.result == ResultChange::Keep));
    parameters
}

fn rewire(rows: &[Fixed]) -> Parameters<'_> {
    vec![
        column(rows, |fixed| fixed.id),
        column(rows, |fixed| fixed.flow),
        column(rows, |fixed| fixed.wiring.as_deref()),
    ]
}

fn moving<'a, R>(rows: &'a [R], of: impl Fn(&'a R) -> &'a Moving) -> Parameters<'a> {
    vec![
        column(rows, |row| of(row).version),
        column(rows, |row| of(row).epoch),
        column(rows, |row| of(row).state),
        column(rows, |row| of(row).claim_priority),
        column(rows, |row| of(row).due_kind),
        column(rows, |row| Micros(of(row).ready_order)),
        column(rows, |row| of(row).due_at.map(Micros)),
        column(rows, |row| of(row).session),
        column(rows, |row| of(row).until_at.map(Micros)),
        column(rows, |row| of(row).started_at.map(Micros)),
        column(rows, |row| of(row).ended_at.map(Micros)),
        column(rows, |row| of(row).lease_id),
        column(rows, |row| of(row).tags.as_deref()),
        column(rows, |row| of(row).detail.as_deref()),
        column(rows, |row| of(row).history.as_slice()),
        column(rows, |row| of(row).joined.as_deref()),
        column(rows, |row| of(row).suspension.as_deref()),
        column(rows, |row| of(row).held_by.as_deref()),
        column(rows, |row| of(row).gate),
        column(rows, |row| of(row).gate_rank()),
    ]
}

fn tags(entries: &[TagEntry]) -> Parameters<'_> {
    vec![
        column(entries, |entry| entry.namespace.0),
        column(entries, |entry| entry.tag.as_str()),
        column(entries, |entry| Micros::from(entry.submitted_at)),
        column(entries, |entry| entry.execution.0),
    ]
}

fn keys(rows: &[KeyRow]) -> Parameters<'_> {
    vec![
        column(rows, |row| row.name.namespace.0),
        column(rows, |row| row.name.scope.code()),
        column(rows, |row| row.name.key.as_str()),
        column(rows, |row| row.subject.map(|subject| subject.id())),
        column(rows, |row| row.digest as i64),
        column(rows, |row| row.answer.as_ref()),
        column(rows, |row| row.expires_at.map(Micros::from)),
    ]
}

fn session(session: &Session) -> Parameters<'_> {
    fn words<'a>(names: impl IntoIterator<Item = &'a Name>) -> Vec<&'a str> {
        names.into_iter().map(Name::as_str).collect()
    }
    vec![
        Box::new(session.id.0),
        Box::new(session.namespace().0),
        Box::new(session.worker.as_str()),
        Box::new(session.instance.as_str()),
        Box::new(session.ttl_ms),
        Box::new(words(&session.scope.lanes)),
        Box::new(session.scope.kinds.as_ref().map(words)),
        Box::new(words(&session.scope.capabilities)),
        Box::new(Micros::from(session.registered_at)),
        Box::new(Micros::from(session.seen_at)),
        Box::new(session.renewed_at.map(Micros::from)),
        Box::new(session.draining),
        Box::new(session.life as i32),
        Box::new(columns::session_detail_column(&session.detail)),
    ]
}
