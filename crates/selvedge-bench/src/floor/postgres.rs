//! The floor on PostgreSQL.

use super::{COMMITS, DURATION, Floor};
use crate::report::Times;
use crate::{Error, task_result};
use std::time::{Duration, Instant};
use tokio_postgres::Client;
use uuid::Uuid;

/// A plain table with a partial index for the claim.
const SCHEMA: &str = "
    create table floor (
      id uuid primary key,
      lane integer not null default 1,
      priority smallint not null default 0,
      ready_order bigint generated always as identity,
      state smallint not null default 0,
      version integer not null default 1,
      lease_id uuid,
      started_at timestamptz,
      ended_at timestamptz,
      input bytea,
      result bytea
    ) with (fillfactor = 70);
    create index floor_ready on floor (lane, priority desc, ready_order) where state = 0;
    create table floor_commit (id bigint generated always as identity primary key, at timestamptz not null);";

const INSERT: &str = "insert into floor (id, input) select * from unnest($1::uuid[], $2::bytea[])";

/// Claims a batch. The materialized subquery keeps the same plan as the table grows.
const CLAIM: &str = "
    with picked as materialized (
      select id
      from floor
      where state = 0
        and lane = 1
      order by priority desc, ready_order
      limit $1
      for update skip locked
    )
    update floor
    set state = 1,
      version = version + 1,
      lease_id = gen_random_uuid(),
      started_at = clock_timestamp()
    where id = any(array(select id from picked))
    returning id, input";

const COMPLETE: &str = "
    update floor
    set state = 2,
      version = version + 1,
      lease_id = null,
      ended_at = clock_timestamp(),
      result = $2
    where id = any($1)
      and state = 1";

/// Opens a connection of its own.
pub async fn connect(url: &str) -> Result<Client, Error> {
    Ok(selvedge_postgres::connect(url).await?)
}

/// Measures the floor in a new schema, and drops the schema.
pub async fn measure(url: &str, batch: usize, connections: usize) -> Result<Floor, Error> {
    let schema = format!("selvedge_floor_{}", Uuid::new_v4().simple());
    let owner = connect(url).await?;
    owner.batch_execute(&format!("create schema {schema}; set search_path to {schema}; {SCHEMA}")).await?;
    let floor = measure_in(url, &owner, &schema, batch, connections).await;
    owner.batch_execute(&format!("drop schema {schema} cascade")).await?;
    floor
}

async fn measure_in(
    url: &str,
    owner: &Client,
    schema: &str,
    batch: usize,
    connections: usize,
) -> Result<Floor, Error> {
    let commit = single_commits(owner).await?;
    let before = counters(owner).await?;
    let started = Instant::now();
    let mut tasks = Vec::new();
    for _ in 0..connections {
        let client = connect(url).await?;
        client.batch_execute(&format!("set search_path to {schema}")).await?;
        tasks.push(tokio::spawn(run_cycles(client, batch)));
    }
    let mut executions = 0;
    for task in tasks {
        executions += task_result(task.await)?;
    }
    let seconds = started.elapsed().as_secs_f64();
    let after = counters(owner).await?;
    Ok(Floor {
        per_second: executions as f64 / seconds,
        commit,
        commits: Some((after.0 - before.0) as f64 / executions as f64),
        wal_bytes: Some((after.1 - before.1) as f64 / executions as f64),
        executions,
    })
}

/// Inserts, claims and completes batches until the time is over. Returns the number of completed executions.
async fn run_cycles(client: Client, batch: usize) -> Result<u64, Error> {
    let insert = client.prepare(INSERT).await?;
    let claim = client.prepare(CLAIM).await?;
    let complete = client.prepare(COMPLETE).await?;
    let inputs: Vec<&[u8]> = vec![b"{\"t\":123456789}"; batch];
    let result: &[u8] = b"{\"ok\":true}";
    let started = Instant::now();
    let mut executions = 0;
    while started.elapsed() < DURATION {
        let ids: Vec<Uuid> = (0..batch).map(|_| Uuid::now_v7()).collect();
        client.execute(&insert, &[&ids, &inputs]).await?;
        let rows = client.query(&claim, &[&(batch as i64)]).await?;
        let claimed: Vec<Uuid> = rows.iter().map(|row| row.get(0)).collect();
        executions += client.execute(&complete, &[&claimed, &result]).await?;
    }
    Ok(executions)
}

/// Times single-row commits, one after another on one connection.
async fn single_commits(client: &Client) -> Result<Times, Error> {
    let insert = client.prepare("insert into floor_commit (at) values (clock_timestamp())").await?;
    let mut durations: Vec<Duration> = Vec::new();
    for _ in 0..COMMITS {
        let started = Instant::now();
        client.execute(&insert, &[]).await?;
        durations.push(started.elapsed());
    }
    Times::of(durations).ok_or_else(|| Error::Usage("no commit was measured".into()))
}

/// Reads the number of transactions that drew an id, and the position of the write-ahead log in bytes.
async fn counters(client: &Client) -> Result<(i64, i64), Error> {
    let row = client
        .query_one(
            "select pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
                    pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint",
            &[],
        )
        .await?;
    Ok((row.get(0), row.get(1)))
}
