-- Lanes. Those that limit something are locked; the others are only read, so that nobody waits for anybody there.
-- Which are to be locked is looked up first: so one that was waited for is seen as it has become, whether it limits or not.
-- Locks: those lanes, in id order. Index: gates_pkey.
with locked as materialized (
  select {gate}
  from gates
  where gates.id = any(array(
    select limiting.id
    from gates as limiting
    where limiting.id = any($1)
      and limiting.limits
  ))
  order by gates.id
  for update
)
select *
from locked
union all
select {gate}
from gates
where gates.id = any($1)
  and not gates.limits
