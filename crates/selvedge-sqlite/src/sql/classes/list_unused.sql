-- Returns the classes that were not used since a time, longest unused first.
-- Index: classes_used.
-- Parameters: ?1 the time, ?2 limit
select id, namespace, used_at
from classes indexed by classes_used
where used_at < ?1
order by used_at
limit ?2
