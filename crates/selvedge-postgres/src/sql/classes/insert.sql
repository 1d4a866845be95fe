-- Inserts a class with the next number, or records that it is in use; returns it. From the {unpooled}th of a lane and
-- capability set on, classes belong to a pool. The caller holds a lock on the whole table, so numbers become visible in
-- order.
-- Locks: the row. Index: classes_pkey, classes_namespace_lane_kind_capabilities_key, classes_pooled.
insert into classes (id, namespace, lane, kind, capabilities, pool, used_at)
select
  next.id, $1, $2, $3, $4,
  case
    when (
      select count(*)
      from (
        select
        from classes
        where namespace = $1
          and lane = $2
          and capabilities = $4
          and pool is null
        limit {unpooled}
      ) as unpooled
    ) = {unpooled} then coalesce(
      (
        select pool
        from classes
        where namespace = $1
          and lane = $2
          and capabilities = $4
          and pool is not null
        limit 1
      ),
      -next.id
    )
  end,
  {now}
from (
  select greatest((select max(id) from classes), (select upto from class_removal)) + 1 as id
) as next
on conflict (namespace, lane, kind, capabilities) do update
set used_at = excluded.used_at
returning {class}
