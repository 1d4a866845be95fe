//! Schedules.

use crate::PostgresStore;
use crate::kinds::{Asking, Saving, collect};
use crate::read::readable;
use crate::sql::{Micros, array, column, columns, statements};
use crate::store_clock;
use async_trait::async_trait;
use selvedge_core::schedule::{Schedule, ScheduleName};
use selvedge_core::{Name, NamespaceId, Timestamp};
use selvedge_store::columns::ScheduleColumns;
use selvedge_store::{DueSchedules, Error, ReconcilerScope, ScheduleReads};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

statements! {
    with {
        schedule: schedule::list_of("schedules"),
        schedule_columns: schedule::list(),
        schedule_types: schedule::types(1),
    }
    DELETE = "schedules/delete";
    INSERT = "schedules/insert";
    LIST = "schedules/list";
    LIST_DUE = "schedules/list_due";
    LOCK = "schedules/lock";
    READ = "schedules/read";
    UPDATE = "schedules/update";
}

columns! {
    schedule<'a> of row: ScheduleColumns as ScheduleColumns {
        namespace: i32 = row.namespace,
        name: String = row.name,
        version: i32 = row.version,
        spec_version: i32 = row.spec_version,
        spec: Option<String> = row.spec,
        state: String = row.state,
        due_at: Option<Micros> = row.due_at.map(Micros),
    }
}

fn decode(row: &Row) -> Result<Schedule, Error> {
    let name: &str = row.get(schedule::AT.name);
    let read = schedule::read(row, 0).and_then(ScheduleColumns::schedule);
    read.map_err(|error| Error::Failed(format!("schedule {name:?} cannot be read: {error}")))
}

/// Locks schedules, then reads the others.
pub fn load(asking: &mut Asking<'_>) {
    let names = |names: &[ScheduleName]| {
        vec![array(names, |name| name.namespace.0), array(names, |name| name.name.to_string())]
    };
    let gather = || collect(decode, |rows| &mut rows.schedules);
    asking.lock(&asking.needs.schedules, &LOCK, names, gather());
    asking.read(&asking.needs.schedules, &READ, names, gather());
}

/// Saves schedules. Changed and deleted ones were locked when they were loaded.
pub fn save(saving: &mut Saving<'_>) {
    let changes = &saving.changes.schedules;
    saving.rows(&changes.deleted, &DELETE, |rows| {
        vec![
            column(rows, |(name, _)| name.namespace.0),
            column(rows, |(name, _)| name.name.as_str()),
            column(rows, |(_, version)| *version as i32),
        ]
    });
    saving.rows(&changes.updated, &UPDATE, |rows| {
        let each = rows.iter().map(|(row, expected)| ScheduleColumns::of(row, Some(*expected)));
        let mut parameters = schedule::arrays(each);
        parameters.insert(schedule::AT.version, column(rows, |(_, expected)| *expected as i32));
        parameters
    });
    saving.rows(&changes.inserted, &INSERT, |rows| {
        schedule::arrays(rows.iter().map(|row| ScheduleColumns::of(row, None)))
    });
}

#[async_trait]
impl ScheduleReads for PostgresStore {
    async fn schedule(&self, name: &ScheduleName) -> Result<Option<Schedule>, Error> {
        let (namespaces, names) = (vec![name.namespace.0], vec![name.name.as_str()]);
        self.first("schedule", &READ, &[&namespaces, &names], decode).await
    }

    async fn schedules(
        &self,
        namespace: NamespaceId,
        after: Option<&Name>,
        limit: u32,
    ) -> Result<Vec<Schedule>, Error> {
        let after = after.map_or("", Name::as_str);
        let parameters: [&(dyn ToSql + Sync); 3] = [&namespace.0, &after, &i64::from(limit)];
        let rows = self.meter.measure("schedules", self.query(&LIST, &parameters)).await?;
        Ok(readable(&rows, decode).collect())
    }

    async fn due_schedules(
        &self,
        scope: &ReconcilerScope,
        after: Option<(Timestamp, ScheduleName)>,
        limit: u32,
    ) -> Result<DueSchedules, Error> {
        self.meter.measure("due_schedules", self.find_due_schedules(scope, after, limit)).await
    }
}

impl PostgresStore {
    /// Returns a page of the due schedules. Unreadable ones are left out and replaced by the next ones.
    async fn find_due_schedules(
        &self,
        scope: &ReconcilerScope,
        after: Option<(Timestamp, ScheduleName)>,
        limit: u32,
    ) -> Result<DueSchedules, Error> {
        use schedule::AT;
        let namespace = scope.namespace.map(|namespace| namespace.0);
        let clock = self.query_in_background(&store_clock::NOW, &[]).await?;
        let now = clock.first().map(|row| row.get::<_, Micros>(0)).unwrap_or(Micros(0));
        let mut due = Vec::new();
        let mut place = after.map_or((Micros(0), i32::MIN, String::new()), |(at, name)| {
            (at.into(), name.namespace.0, name.name.to_string())
        });
        loop {
            let left = limit - due.len() as u32;
            let parameters: [&(dyn ToSql + Sync); 6] =
                [&place.0, &place.1, &place.2, &i64::from(left), &namespace, &now];
            let found = self.query_in_background(&LIST_DUE, &parameters).await?;
            due.extend(readable(&found, decode));
            match found.last() {
                Some(last) if found.len() as u32 == left && (due.len() as u32) < limit => {
                    place = (last.get(AT.due_at), last.get(AT.namespace), last.get(AT.name));
                }
                _ => return Ok(DueSchedules { now: now.time(), schedules: due }),
            }
        }
    }
}
