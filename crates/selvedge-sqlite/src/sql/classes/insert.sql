-- Inserts a class, or records that it is in use; returns its id and pool. From the {unpooled}th of a lane and capability
-- set on, classes belong to a pool, which the caller names after its first class.
-- Index: the unique index of classes, classes_pooled.
-- Parameters: ?1 namespace, ?2 lane, ?3 kind, ?4 capabilities, ?5 now
insert into classes (namespace, lane, kind, capabilities, used_at, pool)
values (
  ?1, ?2, ?3, ?4, ?5,
  case
    when (
      select count(*)
      from (
        select 1
        from classes indexed by classes_pooled
        where namespace = ?1
          and lane = ?2
          and capabilities = ?4
          and pool is null
        limit {unpooled}
      )
    ) = {unpooled} then ifnull(
      (
        select pool
        from classes indexed by classes_pooled
        where namespace = ?1
          and lane = ?2
          and capabilities = ?4
          and pool < 0
        limit 1
      ),
      -(select seq + 1 from sqlite_sequence where name = 'classes')
    )
  end
)
on conflict (namespace, lane, kind, capabilities) do update
set used_at = excluded.used_at
returning id, pool
