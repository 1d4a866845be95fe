-- Counts the active executions of namespace $1 by class or, where they have one, by pool. Looks at $2 at most.
-- Locks: none. Index: sessions_instance, then executions_lease, once per session of the namespace.
select coalesce(held.pool, held.class), count(*)
from (
  select executions.pool, executions.class
  from sessions as holder
  join executions on executions.session = holder.id
  where holder.namespace = $1
    and executions.session is not null
    and executions.namespace = $1
  limit $2
) as held
group by 1
