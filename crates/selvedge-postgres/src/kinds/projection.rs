//! The projection of the log: events and attempts as rows that SQL can read.
//!
//! An attempt is deleted with its execution, also if both happen at once: the transaction that deletes executions and the one
//! that writes attempts take an advisory lock before they look, the one shared, the other exclusively. So either the writer
//! sees that the execution is gone, or the deletion sees the attempt. Neither waits for anything else while it has the lock.

use crate::PostgresStore;
use crate::connection::failure;
use crate::connection::{Parameters, as_refs};
use crate::kinds::{Saving, ignore};
use crate::sql::{Micros, array, column, statements};
use async_trait::async_trait;
use selvedge_core::Name;
use selvedge_store::{
    Error, ProjectedAttempt, ProjectedEnd, ProjectedEvent, ProjectedStart, ProjectionLease, ProjectionPage,
    ProjectionStore,
};
use tokio_postgres::types::ToSql;

statements! {
    ATTEMPTS_DELETE = "projected_attempts/delete";
    EVENTS_DELETE_OLD = "projected_events/delete_old";
    LOCK = "projection/lock";
    SAVE = "projection/save";
    SHARE = "projection/share";
    TAKE = "projection/take";
}

#[async_trait]
impl ProjectionStore for PostgresStore {
    /// Takes or renews the lease, and returns the position.
    async fn take_projection(&self, lease: ProjectionLease) -> Result<Option<i64>, Error> {
        let parameters: [&(dyn ToSql + Sync); 2] = [&lease.owner, &lease.ttl_ms];
        let rows = self.query_in_background(&TAKE, &parameters);
        Ok(self.meter.measure("take_projection", rows).await?.first().map(|row| row.get(0)))
    }

    async fn save_projection(&self, lease: ProjectionLease, page: ProjectionPage) -> Result<bool, Error> {
        self.meter.measure("save_projection", self.save_page(lease, &page)).await
    }

    async fn delete_old_projection(&self, limit: u32) -> Result<u64, Error> {
        let limit = i64::from(limit);
        self.meter.measure("delete_old_projection", self.execute(&EVENTS_DELETE_OLD, &[&limit])).await
    }
}

impl PostgresStore {
    /// Saves a page. Returns false if the owner or the position is another one.
    async fn save_page(&self, lease: ProjectionLease, page: &ProjectionPage) -> Result<bool, Error> {
        let client = self.background.get().await?;
        let save = async {
            let lock = client.prepare_cached(&LOCK).await.map_err(failure)?;
            client.query(&lock, &[]).await.map_err(failure)?;
            let save = client.prepare_cached(&SAVE).await.map_err(failure)?;
            let parameters = parameters(lease, page);
            let row = client.query_one(&save, &as_refs(&parameters)).await.map_err(failure)?;
            Ok(row.get::<_, i64>(0) > 0)
        };
        client.transaction("begin", save).await
    }
}

/// Deletes the attempts of deleted executions.
pub fn delete(saving: &mut Saving<'_>) {
    let deleted = &saving.changes.executions.deleted;
    if !deleted.is_empty() {
        saving.add(&SHARE, vec![], ignore);
        saving.add(&ATTEMPTS_DELETE, vec![array(deleted, |(id, _)| id.0)], ignore);
    }
}

/// Returns the parameters of `projection/save`.
fn parameters(lease: ProjectionLease, page: &ProjectionPage) -> Parameters<'_> {
    let mut parameters: Parameters<'_> =
        vec![Box::new(lease.owner), Box::new(page.after), Box::new(page.upto), Box::new(lease.ttl_ms)];
    parameters.extend(events(&page.events));
    let began = page.attempts.iter().filter_map(|attempt| Some((attempt, attempt.start.as_ref()?)));
    parameters.extend(starts(&began.collect::<Vec<_>>()));
    let ended = page.attempts.iter().filter(|attempt| attempt.start.is_none());
    let ended = ended.filter_map(|attempt| Some((attempt, attempt.end.as_ref()?)));
    parameters.extend(ends(&ended.collect::<Vec<_>>()));
    parameters
}

fn events(rows: &[ProjectedEvent]) -> Parameters<'_> {
    vec![
        column(rows, |row| row.cursor.as_str()),
        column(rows, |row| row.kind),
        column(rows, |row| Micros::from(row.at)),
        column(rows, |row| row.namespace.map(|namespace| namespace.0)),
        column(rows, |row| row.execution.map(|execution| execution.0)),
        column(rows, |row| row.flow.map(|flow| flow.0)),
        column(rows, |row| row.version.map(i64::from)),
        column(rows, |row| row.actor.as_ref().map(Name::as_str)),
        column(rows, |row| row.data.as_str()),
    ]
}

fn starts<'a>(rows: &[(&'a ProjectedAttempt, &'a ProjectedStart)]) -> Parameters<'a> {
    let end = |row: &'a ProjectedAttempt| row.end.as_ref();
    vec![
        values(rows, |(row, _)| row.execution.0),
        values(rows, |(row, _)| row.attempt as i32),
        values(rows, |(row, _)| row.namespace.0),
        values(rows, |(_, start)| start.lease.id.0),
        values(rows, |(_, start)| start.lease.epoch as i32),
        values(rows, |(_, start)| start.lease.worker.as_str()),
        values(rows, |(_, start)| start.lease.instance.as_str()),
        values(rows, |(_, start)| Micros::from(start.at)),
        values(rows, |(row, _)| end(row).map(|end| Micros::from(end.at))),
        values(rows, |(row, _)| end(row).map(|end| end.outcome)),
        values(rows, |(row, _)| end(row).and_then(message)),
        values(rows, |(row, _)| end(row).and_then(class)),
    ]
}

fn ends<'a>(rows: &[(&'a ProjectedAttempt, &'a ProjectedEnd)]) -> Parameters<'a> {
    vec![
        values(rows, |(row, _)| row.execution.0),
        values(rows, |(row, _)| row.attempt as i32),
        values(rows, |(_, end)| Micros::from(end.at)),
        values(rows, |(_, end)| end.outcome),
        values(rows, |(_, end)| message(end)),
        values(rows, |(_, end)| class(end)),
    ]
}

/// Returns a column of values that outlive the slice.
fn values<'a, R: Copy, T>(rows: &[R], value: impl Fn(R) -> T) -> Box<dyn ToSql + Sync + Send + 'a>
where
    T: ToSql + Sync + Send + 'a,
{
    Box::new(rows.iter().copied().map(value).collect::<Vec<T>>())
}

fn message(end: &ProjectedEnd) -> Option<&str> {
    end.error.as_ref().map(|error| error.message.as_str())
}

fn class(end: &ProjectedEnd) -> Option<&'static str> {
    end.error.as_ref().map(|error| error.class.as_str())
}
