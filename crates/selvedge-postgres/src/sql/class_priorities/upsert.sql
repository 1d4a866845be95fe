-- Inserts the pairs of class and priority that executions become waiting in. A generation other than 0 replaces the
-- stored one and so invalidates the bounds that servers have cached for the pair.
-- Locks: the pairs, in order of class and priority. Index: class_priorities_pkey.
insert into class_priorities (class, priority, generation)
select class, priority, generation
from unnest($1::integer[], $2::smallint[], $3::bigint[]) as written (class, priority, generation)
order by class, priority
on conflict (class, priority) do update
set generation = excluded.generation
where excluded.generation <> 0
