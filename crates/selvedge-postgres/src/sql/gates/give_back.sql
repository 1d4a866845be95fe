-- Gives slots back to gates that were not read, and makes them due, because the executions that they hold are unknown.
-- A gate that does not exist is skipped.
-- Locks: the gates, in the order of the array, which is id order. Index: gates_pkey, nested loop.
update gates
set active = greatest(gates.active - freed.count, 0),
  version = gates.version + 1,
  due_at = least(gates.due_at, {now})
from unnest($1::bigint[], $2::integer[]) as freed (id, count)
where gates.id = freed.id
