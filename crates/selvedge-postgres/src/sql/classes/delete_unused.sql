-- Looks at up to $3 classes that were not used for $1 milliseconds, longest unused first. Deletes and returns those that no
-- execution refers to, and records that the others are in use, so that they do not hide the classes behind them. An
-- execution is submitted at most $2 milliseconds after the last recorded use of its class. So only executions that old can
-- refer to an unused class: up to $4 of each namespace are looked at, oldest first, and up to $4 active ones. Classes that
-- were used later than the last of these count as used. The caller holds a lock on the table of classes.
-- Locks: the classes. Index: classes_used; executions_list, sessions_instance and executions_lease, once per namespace;
-- classes_pkey.
with unused as materialized (
  select id, namespace, used_at + $2::bigint * interval '1 millisecond' as upto
  from classes
  where used_at < (select {now} - $1::bigint * interval '1 millisecond')
  order by used_at
  limit $3
), affected as materialized (
  select namespace, max(upto) as upto
  from unused
  group by namespace
), old as materialized (
  select affected.namespace, oldest.class, oldest.submitted_at
  from affected
  cross join lateral (
    select class, submitted_at
    from executions
    where executions.namespace = affected.namespace
      and state <> {active}
      and submitted_at <= affected.upto
    order by submitted_at, id
    limit $4
  ) as oldest
), leased as materialized (
  select affected.namespace, held.class
  from affected
  cross join lateral (
    select executions.class
    from sessions as holder
    join executions on executions.session = holder.id
    where holder.namespace = affected.namespace
      and executions.session is not null
      and executions.submitted_at <= affected.upto
    limit $4
  ) as held
), looked_at as materialized (
  select namespace,
    case
      when (select count(*) from leased where leased.namespace = affected.namespace) >= $4 then '-infinity'
      when (select count(*) from old where old.namespace = affected.namespace) >= $4
        then (select max(submitted_at) from old where old.namespace = affected.namespace)
      else 'infinity'
    end::timestamptz as upto
  from affected
), doomed as materialized (
  select unused.id
  from unused
  join looked_at on looked_at.namespace = unused.namespace
  where unused.upto < looked_at.upto
    and unused.id not in (select class from old)
    and unused.id not in (select class from leased)
), kept as (
  update classes
  set used_at = {now}
  where id in (select id from unused)
    and id not in (select id from doomed)
)
delete from classes
where id in (select id from doomed)
returning id, pool
