-- Deletes the pairs of the removed classes $1, and those of the pools $2 that have no class any more.
-- Locks: the pairs. Index: class_priorities_pkey; classes_in_pool, once per pool.
delete from class_priorities
where class = any($1::integer[] || array(
  select removed.pool
  from unnest($2::integer[]) as removed (pool)
  where not exists (
    select
    from classes
    where classes.pool = removed.pool
      and classes.pool is not null
  )
))
