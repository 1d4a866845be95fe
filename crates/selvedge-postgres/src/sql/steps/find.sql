-- Returns steps by execution and name.
-- Locks: none. Index: steps_pkey.
select {step}
from unnest($1::uuid[], $2::text[]) as asked (execution, name)
join steps on steps.execution = asked.execution and steps.name = asked.name
