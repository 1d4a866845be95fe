-- Returns lanes by id. Lanes that limit something are locked; the others are only read, so that no transaction waits
-- there. The lanes to lock are searched first, so a lane that was waited for is returned as it is afterwards, whether
-- it limits or not.
-- Locks: the lanes that limit something, in id order. Index: gates_pkey.
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
