-- Class and priority of what becomes ready, in order. A generation that is not 0 makes bounds of before void.
insert into class_priorities (class, priority, generation)
select class, priority, generation
from unnest($1::integer[], $2::smallint[], $3::bigint[]) as written (class, priority, generation)
order by class, priority
on conflict (class, priority) do update
set generation = excluded.generation
where excluded.generation <> 0
