-- Counts the waiting executions of the classes $1, up to $2.
-- Locks: none. Index: executions_claim, once per class.
select count(*)
from (
  select
  from unnest($1::integer[]) as asked (class)
  join executions on executions.class = asked.class and state = {waiting}
  limit $2
) as counted
