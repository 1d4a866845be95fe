-- Returns the next due times of all background work as overview/read does, at a cost that depends neither on the number of
-- sessions nor on the age of the oldest snapshot: each index is read from a time below which it has only dead entries, and
-- up to $3 milliseconds ahead. Sessions that registered since $12 are returned instead of being searched. `begun` is the
-- start of the oldest transaction that holds the writers' advisory lock $1, null if there is none. `inbox` is the time of the
-- first row of the inbox that was written by a transaction which the snapshot $13 does not contain. `database_at` is the
-- clock of the database, which the time of the store is never behind.
-- Parameters: $2 the lifetime of best-effort frames in milliseconds, $4 and $5 kinds of due executions with their times, $6
-- and $7 those of the outbox, $8 and $9 those of flows, $10 the time of gates, $11 the times of keys, frames and schedules.
-- Locks: none. Index: executions_due, outbox_waiting and flows_due once per kind; gates_due; keys_expired; frames_old;
-- sessions_registered; classes_pkey; gates_configured; bulk_jobs_due; schedules_due; inbox_pending twice.
with reading as materialized (
  select clock_timestamp() as database_at, {now} as now
), clock as materialized (
  select
    now,
    now + $3::bigint * interval '1 millisecond' as ahead,
    now - $2::bigint * interval '1 millisecond' as old
  from reading
), registered as materialized (
  select id, registered_at
  from sessions
  where registered_at > $12
  order by registered_at
  limit {registered_limit}
)
select
  (select now from clock),
  array(
    select (
      select due_at
      from executions
      where due_kind = asked.code
        and due_at is not null
        and due_at >= asked.since
        and due_at <= (select ahead from clock)
      order by due_at
      limit 1
    )
    from unnest($4::smallint[], $5::timestamptz[]) as asked (code, since)
  ) as next,
  array(
    select (
      select at
      from outbox
      where kind = asked.code
        and at >= asked.since
      order by at
      limit 1
    )
    from unnest($6::smallint[], $7::timestamptz[]) as asked (code, since)
  ) as outbox,
  array(
    select (
      select due_at
      from flows
      where due_kind = asked.code
        and due_at is not null
        and due_at >= asked.since
        and due_at <= (select ahead from clock)
      order by due_at
      limit 1
    )
    from unnest($8::smallint[], $9::timestamptz[]) as asked (code, since)
  ) as flows,
  (
    select due_at
    from gates
    where due_at is not null
      and due_at >= $10
      and due_at <= (select ahead from clock)
    order by due_at
    limit 1
  ) as gates,
  (
    select expires_at
    from keys
    where expires_at >= ($11::timestamptz[])[1]
      and expires_at < (select now from clock)
    order by expires_at
    limit 1
  ) as keys,
  (
    select at
    from frames
    where best_effort
      and at >= ($11::timestamptz[])[2]
      and at <= (select old from clock)
    order by at
    limit 1
  ) as frames,
  coalesce((select max(id) from classes), 0) as newest_class,
  exists (
    select
    from gates
    where config is not null
      and kind = {gate_lane}
  ) as lanes,
  array(select id from registered) as registered,
  (
    {oldest_writer}
  ) as begun,
  (select max(registered_at) from registered) as registered_upto,
  (
    select due_at
    from bulk_jobs
    order by due_at
    limit 1
  ) as bulk_jobs,
  (
    select due_at
    from schedules
    where due_at is not null
      and due_at >= ($11::timestamptz[])[3]
      and due_at <= (select ahead from clock)
    order by due_at
    limit 1
  ) as schedules,
  coalesce(
    (
      select submitted_at
      from inbox
      where refused_at is null
        and xid = any(array(select pg_snapshot_xip($13::text::pg_snapshot)))
      limit 1
    ),
    (
      select submitted_at
      from inbox
      where refused_at is null
        and xid >= pg_snapshot_xmax($13::text::pg_snapshot)
      order by xid, number
      limit 1
    )
  ) as inbox,
  pg_current_snapshot()::text as snapshot,
  (select database_at from reading),
  {ahead_ms} as ahead_ms
