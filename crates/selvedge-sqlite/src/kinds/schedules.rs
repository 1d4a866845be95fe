//! Schedules.

use crate::SqliteStore;
use crate::connection::failure::not_understood;
use crate::kinds::{Kind, Saving, due};
use crate::sql::{self, columns, statements};
use async_trait::async_trait;
use rusqlite::{Connection, Row, params};
use selvedge_core::schedule::{Schedule, ScheduleName};
use selvedge_core::{Changes, Name, NamespaceId, Needs, Rows, Timed, Timestamp};
use selvedge_store::columns::ScheduleColumns;
use selvedge_store::{DueSchedules, Error, ReconcilerScope, ScheduleReads};

pub(crate) const KIND: Kind = Kind {
    columns: &[("schedule", schedule::LIST)],
    statements: STATEMENTS,
    load,
    save,
    due: Some((Schedule::KIND, &SCHEDULES_FIND_NEXT_DUE)),
    ..Kind::EMPTY
};

statements! {
    SCHEDULES_DELETE = "schedules/delete";
    SCHEDULES_FIND_NEXT_DUE = "schedules/find_next_due";
    SCHEDULES_INSERT = "schedules/insert";
    SCHEDULES_LIST = "schedules/list";
    SCHEDULES_LIST_DUE = "schedules/list_due";
    SCHEDULES_READ = "schedules/read";
    SCHEDULES_UPDATE = "schedules/update";
}

columns! {
    schedule of columns: &ScheduleColumns as ScheduleColumns {
        namespace = columns.namespace,
        name = columns.name,
        version = columns.version,
        spec_version = columns.spec_version,
        spec = columns.spec,
        state = columns.state,
        due_at = columns.due_at,
    }
}

fn decode(found: &Row<'_>) -> rusqlite::Result<Schedule> {
    let columns = schedule::read(found, 0)?;
    let name = columns.name.clone();
    columns.schedule().map_err(|error| not_understood(&format!("schedule {name:?} cannot be read: {error}")))
}

fn find(connection: &Connection, name: &ScheduleName) -> rusqlite::Result<Option<Schedule>> {
    sql::row(connection, &SCHEDULES_READ, params![name.namespace.0, name.name.as_str()], decode)
}

fn load(connection: &Connection, needs: &Needs, rows: &mut Rows) -> rusqlite::Result<()> {
    for name in needs.schedules.keys() {
        rows.schedules.extend(find(connection, name)?);
    }
    Ok(())
}

fn save(connection: &Connection, changes: &Changes, _: &mut Saving) -> rusqlite::Result<Option<String>> {
    for (name, version) in &changes.schedules.deleted {
        let parameters = params![name.namespace.0, name.name.as_str(), version];
        if sql::execute(connection, &SCHEDULES_DELETE, parameters)? == 0 {
            return Ok(Some(format!("schedule {:?} has moved", name.name)));
        }
    }
    for (row, expected) in changes.schedules.versioned() {
        let columns = ScheduleColumns::of(row, expected);
        let (written, failed) = match expected {
            None => (schedule::write(connection, &SCHEDULES_INSERT, &columns, &[])?, "exists"),
            Some(expected) => (update(connection, &columns, expected)?, "has moved"),
        };
        if written == 0 {
            return Ok(Some(format!("schedule {:?} {failed}", row.name.name)));
        }
    }
    Ok(None)
}

fn update(connection: &Connection, columns: &ScheduleColumns, expected: u32) -> rusqlite::Result<u64> {
    schedule::with(columns, |values| {
        let (name, new) = values.split_at(schedule::AT.version);
        sql::execute(connection, &SCHEDULES_UPDATE, sql::joined(&[name, &[&expected], new]))
    })
}

/// Pages leave unreadable schedules out, so that the others go on.
#[async_trait]
impl ScheduleReads for SqliteStore {
    async fn schedule(&self, name: &ScheduleName) -> Result<Option<Schedule>, Error> {
        let name = name.clone();
        self.read("schedule", move |connection| find(connection, &name)).await
    }

    async fn schedules(
        &self,
        namespace: NamespaceId,
        after: Option<&Name>,
        limit: u32,
    ) -> Result<Vec<Schedule>, Error> {
        let after = after.map_or(String::new(), Name::to_string);
        self.read("schedules", move |connection| {
            sql::readable_rows(connection, &SCHEDULES_LIST, params![namespace.0, after, limit], limit, decode)
        })
        .await
    }

    async fn due_schedules(
        &self,
        scope: &ReconcilerScope,
        after: Option<(Timestamp, ScheduleName)>,
        limit: u32,
    ) -> Result<DueSchedules, Error> {
        let (now, only) = (self.clock.now(), due::namespace(scope));
        let due = move |connection: &_| {
            let place = after.as_ref().map(|(at, name)| (at.micros(), name.namespace.0, name.name.as_str()));
            let (at, of, name) = place.unwrap_or((-1, i32::MIN, ""));
            let parameters = params![now.micros(), at, of, name, only];
            sql::readable_rows(connection, &SCHEDULES_LIST_DUE, parameters, limit, decode)
        };
        Ok(DueSchedules { now, schedules: self.read("due_schedules", due).await? })
    }
}
