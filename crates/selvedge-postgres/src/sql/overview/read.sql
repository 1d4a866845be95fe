-- Returns one row with everything that reconcilers need to know to sleep: the time; the next due time of each kind in
-- $5; whether a lease has expired; whether a session (unseen for $1 milliseconds), a key or a best-effort frame (older
-- than $4 milliseconds) can be deleted; the newest class; the oldest outbox row of each kind in $2; the next due time
-- of flows of each kind in $3; the next due time of a gate; whether a lane is configured; the time at which a bulk job is
-- due; the next due time of a schedule; the time of the first row in the inbox that waits, and that of the first refused
-- one. An index condition cannot contain a volatile function, so the time is read once in a subquery.
-- Locks: none. Index: executions_due once per kind; executions_lease and sessions_pkey once per session with leases;
-- keys_expired; frames_old; classes_pkey; outbox_waiting and flows_due once per kind; gates_due; gates_configured;
-- bulk_jobs_due; schedules_due; inbox_pending; inbox_refused_at.
select
  {now} as now,
  array(
    select (
      select due_at
      from executions
      where due_kind = asked.code
        and due_at is not null
      order by due_at
      limit 1
    )
    from unnest($5::smallint[]) as asked (code)
  ) as next,
  exists (
    with recursive holding (session) as (
      select min(session)
      from executions
      where session is not null
      union all
      select (
        select min(further.session)
        from executions as further
        where further.session > holding.session
      )
      from holding
      where holding.session is not null
    )
    select
    from holding
    left join sessions on sessions.id = holding.session
    cross join lateral (
      select
      from executions
      where executions.session = holding.session
        and executions.session is not null
        and until_at < (select {now})
      limit 1
    ) as expired
    where sessions.renewed_at is null
      or sessions.renewed_at + sessions.ttl_ms * interval '1 millisecond' < {now}
  ) as expired,
  exists (
    select from sessions where seen_at < {now} - $1::bigint * interval '1 millisecond'
  ) or exists (
    select from keys where expires_at < (select {now})
  ) or exists (
    select from frames where best_effort and at <= (select {now} - $4::bigint * interval '1 millisecond')
  ) as stale,
  coalesce((select max(id) from classes), 0) as newest_class,
  array(
    select (
      select at
      from outbox
      where kind = asked.code
      order by at
      limit 1
    )
    from unnest($2::smallint[]) as asked (code)
  ) as outbox,
  array(
    select (
      select due_at
      from flows
      where due_kind = asked.code
        and due_at is not null
      order by due_at
      limit 1
    )
    from unnest($3::smallint[]) as asked (code)
  ) as flows,
  (
    select due_at
    from gates
    where due_at is not null
    order by due_at
    limit 1
  ) as gates,
  exists (
    select
    from gates
    where config is not null
      and kind = {gate_lane}
  ) as lanes,
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
    order by due_at
    limit 1
  ) as schedules,
  (
    select submitted_at
    from inbox
    where refused_at is null
    order by xid, number
    limit 1
  ) as inbox,
  (
    select refused_at
    from inbox
    where refused_at is not null
    order by refused_at
    limit 1
  ) as refused,
  {ahead_ms} as ahead_ms
