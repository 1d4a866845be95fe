-- Slots are given back to a gate that was not read, and it is to be looked at, because nobody knows what it holds. Expects
-- the primary key of gates.
-- ?1 id, ?2 how many, ?3 now
update gates
set
  version = version + 1,
  active = max(active - ?2, 0),
  due_at = min(ifnull(due_at, ?3), ?3)
where id = ?1
