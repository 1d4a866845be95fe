-- Deletes the pairs of removed classes, and those of pools without classes.
-- Locks: the pairs. Index: class_priorities_pkey; classes_in_pool, once per pool.
delete from class_priorities
where class = any($1)
  or (class < 0 and not exists (select from classes where classes.pool = class_priorities.class))
