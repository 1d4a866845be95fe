//! The floor on SQLite: one connection, WAL, `synchronous=FULL`.

use super::{COMMITS, DURATION, Floor};
use crate::Error;
use crate::place::remove_sqlite_files;
use crate::report::Times;
use rusqlite::{Connection, params};
use std::path::Path;
use std::time::Instant;
use uuid::Uuid;

const SCHEMA: &str = "
    pragma journal_mode = wal;
    pragma synchronous = full;
    create table floor (
      id blob primary key,
      lane integer not null default 1,
      priority integer not null default 0,
      ready_order integer not null,
      state integer not null default 0,
      version integer not null default 1,
      lease_id blob,
      started_at integer,
      ended_at integer,
      input blob,
      result blob
    );
    create index floor_ready on floor (lane, priority desc, ready_order) where state = 0;
    create table floor_commit (id integer primary key, at integer not null);";

/// Measures the floor in a new file, and removes the file.
pub fn measure(directory: &Path, batch: usize) -> Result<Floor, Error> {
    let path = directory.join(format!("selvedge-floor-{}.db", Uuid::new_v4().simple()));
    let floor = measure_in(&path, batch);
    remove_sqlite_files(&path);
    floor
}

fn measure_in(path: &Path, batch: usize) -> Result<Floor, Error> {
    let mut connection = Connection::open(path)?;
    connection.execute_batch(SCHEMA)?;
    let mut durations = Vec::new();
    for at in 0..COMMITS as i64 {
        let started = Instant::now();
        connection.execute("insert into floor_commit (at) values (?1)", params![at])?;
        durations.push(started.elapsed());
    }
    let commit = Times::of(durations).ok_or_else(|| Error::Usage("no commit was measured".into()))?;
    let started = Instant::now();
    let mut executions = 0;
    let mut order = 0;
    while started.elapsed() < DURATION {
        executions += cycle(&mut connection, batch, &mut order)?;
    }
    Ok(Floor {
        per_second: executions as f64 / started.elapsed().as_secs_f64(),
        commit,
        commits: Some(3.0 / batch as f64),
        wal_bytes: None,
        executions,
    })
}

/// Inserts, claims and completes one batch, in three commits. Returns the number of completed executions.
fn cycle(connection: &mut Connection, batch: usize, order: &mut i64) -> Result<u64, Error> {
    let insert = connection.transaction()?;
    {
        let mut statement =
            insert.prepare_cached("insert into floor (id, ready_order, input) values (?1, ?2, ?3)")?;
        for _ in 0..batch {
            *order += 1;
            statement.execute(params![Uuid::now_v7().as_bytes(), *order, b"{\"t\":123456789}"])?;
        }
    }
    insert.commit()?;
    let claim = connection.transaction()?;
    let claimed: Vec<[u8; 16]> = {
        let mut statement = claim.prepare_cached(
            "update floor set state = 1, version = version + 1, lease_id = randomblob(16), started_at = ?2
             where id in (
               select id from floor where state = 0 and lane = 1 order by priority desc, ready_order limit ?1
             )
             returning id",
        )?;
        let rows = statement.query_map(params![batch as i64, *order], |row| row.get(0))?;
        rows.collect::<Result<_, _>>()?
    };
    claim.commit()?;
    let complete = connection.transaction()?;
    {
        let mut statement = complete.prepare_cached(
            "update floor set state = 2, version = version + 1, lease_id = null, ended_at = ?2, result = ?3
             where id = ?1 and state = 1",
        )?;
        for id in &claimed {
            statement.execute(params![id, *order, b"{\"ok\":true}"])?;
        }
    }
    complete.commit()?;
    Ok(claimed.len() as u64)
}
