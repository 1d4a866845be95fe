//! Schedules: read, loaded and saved.

use crate::connection::pipeline::Parameters;
use crate::row::Micros;
use crate::save::{Saving, column};
use crate::{PostgresStore, sql};
use selvedge_core::schedule::{Schedule, ScheduleName};
use selvedge_core::{Changes, Name, NamespaceId, Rows, Timestamp};
use selvedge_store::columns::ScheduleColumns;
use selvedge_store::{DueSchedules, Error, ReconcilerScope};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

impl PostgresStore {
    /// Returns a schedule.
    pub(crate) async fn find_schedule(&self, name: &ScheduleName) -> Result<Option<Schedule>, Error> {
        let rows =
            self.query(&sql::SCHEDULES_READ, &[&vec![name.namespace.0], &vec![name.name.as_str()]]).await?;
        rows.first().map(schedule).transpose()
    }

    /// Returns a page of the schedules of a namespace, by name. Unreadable ones are left out.
    pub(crate) async fn list_schedules(
        &self,
        namespace: NamespaceId,
        after: Option<&Name>,
        limit: u32,
    ) -> Result<Vec<Schedule>, Error> {
        let after = after.map_or("", Name::as_str);
        let parameters: [&(dyn ToSql + Sync); 3] = [&namespace.0, &after, &i64::from(limit)];
        Ok(readable(&self.query(&sql::SCHEDULES_LIST, &parameters).await?).collect())
    }

    /// Returns a page of the due schedules. Unreadable ones are left out and replaced by the next ones.
    pub(crate) async fn find_due_schedules(
        &self,
        scope: &ReconcilerScope,
        after: Option<(Timestamp, ScheduleName)>,
        limit: u32,
    ) -> Result<DueSchedules, Error> {
        let namespace = scope.namespace.map(|namespace| namespace.0);
        let clock = self.query_in_background(&sql::SERVER_NOW, &[]).await?;
        let now = clock.first().map(|row| row.get::<_, Micros>(0)).unwrap_or(Micros(0));
        let mut due = Vec::new();
        let mut place = after.map_or((Micros(0), i32::MIN, String::new()), |(at, name)| {
            (at.into(), name.namespace.0, name.name.to_string())
        });
        loop {
            let left = limit - due.len() as u32;
            let parameters: [&(dyn ToSql + Sync); 6] =
                [&place.0, &place.1, &place.2, &i64::from(left), &namespace, &now];
            let found = self.query_in_background(&sql::SCHEDULES_LIST_DUE, &parameters).await?;
            due.extend(readable(&found));
            match found.last() {
                Some(last) if found.len() as u32 == left && (due.len() as u32) < limit => {
                    place = (last.get(6), last.get(0), last.get(1));
                }
                _ => return Ok(DueSchedules { now: now.time(), schedules: due }),
            }
        }
    }
}

/// Reads schedules. An unreadable row must not hide the others.
fn readable(found: &[Row]) -> impl Iterator<Item = Schedule> {
    found.iter().filter_map(|row| match schedule(row) {
        Ok(schedule) => Some(schedule),
        Err(error) => {
            tracing::error!(%error, "left out of a list");
            None
        }
    })
}

/// Returns the parameters of statements that take names of schedules.
pub fn names(names: &[ScheduleName]) -> Parameters<'static> {
    vec![
        Box::new(names.iter().map(|name| name.namespace.0).collect::<Vec<i32>>()),
        Box::new(names.iter().map(|name| name.name.to_string()).collect::<Vec<String>>()),
    ]
}

/// Adds schedules to the rows.
pub fn gather(answer: &[Row], rows: &mut Rows) -> Result<(), Error> {
    for row in answer {
        rows.schedules.push(schedule(row)?);
    }
    Ok(())
}

/// The changes of schedules, as columns.
pub struct ScheduleRows {
    inserted: Vec<ScheduleColumns>,
    /// The columns and the expected version.
    updated: Vec<(ScheduleColumns, i32)>,
}

impl ScheduleRows {
    /// Converts changes to columns.
    pub fn of(changes: &Changes) -> Self {
        let updated = changes.schedules.updated.iter();
        ScheduleRows {
            inserted: changes.schedules.inserted.iter().map(|row| ScheduleColumns::of(row, None)).collect(),
            updated: updated
                .map(|(row, expected)| (ScheduleColumns::of(row, Some(*expected)), *expected as i32))
                .collect(),
        }
    }

    /// Adds all statements about schedules. Changed and deleted ones were locked when they were loaded.
    pub fn save<'a>(&'a self, changes: &'a Changes, saving: &mut Saving<'a>) {
        saving.rows(&changes.schedules.deleted, &sql::SCHEDULES_DELETE, |rows| {
            vec![
                column(rows, |(name, _)| name.namespace.0),
                column(rows, |(name, _)| name.name.as_str()),
                column(rows, |(_, version)| *version as i32),
            ]
        });
        saving.rows(&self.updated, &sql::SCHEDULES_UPDATE, |rows| {
            vec![
                column(rows, |(row, _)| row.namespace),
                column(rows, |(row, _)| row.name.as_str()),
                column(rows, |(_, expected)| *expected),
                column(rows, |(row, _)| row.version),
                column(rows, |(row, _)| row.spec_version),
                column(rows, |(row, _)| row.spec.as_deref()),
                column(rows, |(row, _)| row.state.as_str()),
                column(rows, |(row, _)| row.due_at.map(Micros)),
            ]
        });
        saving.rows(&self.inserted, &sql::SCHEDULES_INSERT, |rows| {
            vec![
                column(rows, |row| row.namespace),
                column(rows, |row| row.name.as_str()),
                column(rows, |row| row.version),
                column(rows, |row| row.spec_version),
                column(rows, |row| row.spec.as_deref()),
                column(rows, |row| row.state.as_str()),
                column(rows, |row| row.due_at.map(Micros)),
            ]
        });
    }
}

/// Reads the schedule in a row of `{schedule}`.
fn schedule(row: &Row) -> Result<Schedule, Error> {
    let columns = ScheduleColumns {
        namespace: row.get(0),
        name: row.get(1),
        version: row.get(2),
        spec_version: row.get(3),
        spec: row.get(4),
        state: row.get(5),
        due_at: row.get::<_, Option<Micros>>(6).map(|at| at.0),
    };
    let name = columns.name.clone();
    columns.schedule().map_err(|error| Error::Failed(format!("schedule {name:?} cannot be read: {error}")))
}
