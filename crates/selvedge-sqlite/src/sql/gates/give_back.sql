-- Gives slots back to a gate that was not read, and makes it due, because the executions that it holds are unknown.
-- Index: the primary key of gates.
-- Parameters: ?1 id, ?2 number of slots, ?3 now
update gates
set
  version = version + 1,
  active = max(active - ?2, 0),
  due_at = min(ifnull(due_at, ?3), ?3)
where id = ?1
