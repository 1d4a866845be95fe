-- Deletes up to $2 rows of each kind that belong to a namespace without executions and flows, and returns how many: gates that
-- are configured or count a part, with their ledgers, keys of calls, sessions, rollups, ended bulk jobs, events of
-- the projection, refused submissions from SQL, and the rights of roles to submit into it.
-- Locks: the rows that no other transaction has locked. Index: gates_configured, gates_parts, ledger_entries, keys_pkey,
-- sessions_instance, rollups_pkey, bulk_jobs_namespace, projected_events_namespace, inbox_refused; and the primary keys, once per row.
with configured as materialized (
  select id
  from gates
  where namespace = $1
    and config is not null
  limit $2
  for update skip locked
), parts as materialized (
  select id
  from gates
  where namespace = $1
    and part is not null
  limit $2
  for update skip locked
), entries as (
  delete from ledger
  where gate = any(array(select id from configured union select id from parts))
  returning 1
), counted as (
  delete from gates
  where id = any(array(select id from configured union select id from parts))
  returning 1
), calls as (
  delete from keys
  where (namespace, scope, key) in (
    select namespace, scope, key
    from keys
    where namespace = $1
    limit $2
    for update skip locked
  )
  returning 1
), workers as (
  delete from sessions
  where id in (
    select id
    from sessions
    where namespace = $1
    limit $2
    for update skip locked
  )
  returning 1
), minutes as (
  delete from rollups
  where (namespace, minute_at, lane, server) in (
    select namespace, minute_at, lane, server
    from rollups
    where namespace = $1
    limit $2
    for update skip locked
  )
  returning 1
), jobs as (
  delete from bulk_jobs
  where id in (
    select id
    from bulk_jobs
    where namespace = $1
      and ended_at is not null
    limit $2
    for update skip locked
  )
  returning 1
), events as (
  delete from projected_events
  where cursor in (
    select cursor
    from projected_events
    where namespace = $1
    limit $2
    for update skip locked
  )
  returning 1
), refused as (
  delete from inbox
  where number in (
    select number
    from inbox
    where refused_at is not null
      and namespace = (select name from namespaces where id = $1)
    limit $2
    for update skip locked
  )
  returning 1
), rights as (
  delete from inbox_rights
  where namespace = (select name from namespaces where id = $1)
    and namespace <> '*'
  returning 1
)
select
  (select count(*) from entries)
  + (select count(*) from counted)
  + (select count(*) from calls)
  + (select count(*) from workers)
  + (select count(*) from minutes)
  + (select count(*) from jobs)
  + (select count(*) from events)
  + (select count(*) from refused)
  + (select count(*) from rights)
