-- Returns the sessions of instances.
-- Locks: the sessions, in id order. Index: sessions_instance.
select {session}
from sessions
where (namespace, instance) in (select * from unnest($1::integer[], $2::text[]))
order by id
for update
