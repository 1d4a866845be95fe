//! The saving half of a transaction: every statement that is needed, and `commit`, go out at once.
//!
//! The guards are inside the statements: one that fails aborts the transaction on the server before the commit behind it
//! is reached. The log's number is drawn by the last statement, when all locks are held; the pairs of class and priority that
//! claims must know of are written just before it, so nobody waits for one while it holds what others still need.

use crate::bounds::Written;
use crate::pipeline::{Parameters, Pipeline};
use crate::row::Micros;
use crate::sql;
use deadpool_postgres::Object;
use selvedge_core::rows::{Changes, Inserted, KeyRow, ResultChange, TagEntry, Updated};
use selvedge_core::{Name, Session, log};
use selvedge_store::columns::{Fixed, Moving};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};
use uuid::Uuid;

/// What the server said to a save and the commit behind it: the number of the log entry, or why the commit had no effect.
pub type Answer = Result<Option<i64>, Error>;

/// Saves everything and commits. An error means that nothing was sent, so that the transaction is still open.
pub async fn save_and_commit(client: &Object, changes: &Changes, pairs: &[Written]) -> Result<Answer, Error> {
    let body = log::pack(&changes.events);
    let moving: Vec<(Fixed, Moving)> =
        changes.inserted.iter().map(|row| (Fixed::of(&row.execution), Moving::of(&row.execution))).collect();
    let updated: Vec<Moving> = changes.updated.iter().map(|row| Moving::of(&row.execution)).collect();
    let mut pipeline = Pipeline::new(client);
    let mut add = async |text: &str, parameters| pipeline.add(text, parameters).await;
    if !changes.deleted.is_empty() {
        let ids: Vec<Uuid> = changes.deleted.iter().map(|(id, _)| id.0).collect();
        let versions: Vec<i32> = changes.deleted.iter().map(|(_, version)| *version as i32).collect();
        add(&sql::EXECUTIONS_DELETE, vec![Box::new(ids.clone()), Box::new(versions)]).await?;
        add(&sql::HISTORY_PAGES_DELETE, vec![Box::new(ids)]).await?;
    }
    if !changes.inserted.is_empty() {
        add(&sql::EXECUTIONS_INSERT, insert(&changes.inserted, &moving)).await?;
    }
    if !changes.updated.is_empty() {
        add(&sql::EXECUTIONS_UPDATE, update(&changes.updated, &updated)).await?;
    }
    if !changes.pages.is_empty() {
        let pages = &changes.pages;
        let parameters: Parameters<'_> = vec![
            column(pages, |page| page.execution.0),
            column(pages, |page| page.page as i32),
            column(pages, |page| page.lines.as_slice()),
        ];
        add(&sql::HISTORY_PAGES_INSERT, parameters).await?;
    }
    if !changes.tags_removed.is_empty() {
        add(&sql::TAGS_DELETE, tags(&changes.tags_removed)).await?;
    }
    if !changes.tags_added.is_empty() {
        add(&sql::TAGS_INSERT, tags(&changes.tags_added)).await?;
    }
    if !changes.keys_removed.is_empty() {
        let removed = &changes.keys_removed;
        let parameters: Parameters<'_> = vec![
            column(removed, |(name, _)| name.namespace.0),
            column(removed, |(name, _)| name.scope.code()),
            column(removed, |(name, _)| name.key.as_str()),
            column(removed, |(_, execution)| execution.map(|id| id.0)),
        ];
        add(&sql::KEYS_DELETE, parameters).await?;
    }
    if !changes.keys_added.is_empty() {
        add(&sql::KEYS_INSERT, keys(&changes.keys_added)).await?;
    }
    if !changes.sessions_removed.is_empty() {
        let ids: Vec<i64> = changes.sessions_removed.iter().map(|id| id.0).collect();
        add(&sql::SESSIONS_DELETE, vec![Box::new(ids)]).await?;
    }
    for written in &changes.sessions {
        add(&sql::SESSIONS_UPSERT, session(written)).await?;
    }
    if !pairs.is_empty() {
        let parameters: Parameters<'_> = vec![
            column(pairs, |((class, _), _)| *class),
            column(pairs, |((_, priority), _)| *priority),
            column(pairs, |(_, generation)| *generation),
        ];
        add(&sql::CLASS_PRIORITIES_UPSERT, parameters).await?;
    }
    let logs = !changes.events.is_empty();
    if logs {
        add(&sql::LOG_APPEND, vec![Box::new(body.as_slice())]).await?;
    }
    add("commit", vec![]).await?;
    Ok(answer(pipeline.run().await, logs))
}

/// The number of the entry, which the last statement before the commit gave where one was written.
fn answer(mut answers: Vec<Result<Vec<Row>, Error>>, logs: bool) -> Answer {
    let committed = answers.pop();
    let mut number = None;
    for answer in answers {
        number = answer?.into_iter().next();
    }
    committed.transpose()?;
    Ok(number.filter(|_| logs).map(|row| row.get(0)))
}

fn column<'a, R, T>(rows: &'a [R], value: impl Fn(&'a R) -> T) -> Box<dyn ToSql + Sync + Send + 'a>
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

fn moving<'a, R>(rows: &'a [R], of: impl Fn(&'a R) -> &'a Moving) -> Parameters<'a> {
    vec![
        column(rows, |row| of(row).version),
        column(rows, |row| of(row).epoch),
        column(rows, |row| of(row).state),
        column(rows, |row| of(row).priority),
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
        column(rows, |row| row.execution.map(|id| id.0)),
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
    ]
}
