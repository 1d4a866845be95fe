-- Updates a gate if it has the expected version.
-- Index: the primary key of gates.
-- Parameters: ?1 id, ?2 expected version, ?3 to ?7 the new columns
update gates
set
  version = ?3,
  config = ?4,
  active = ?5,
  state = ?6,
  due_at = ?7
where id = ?1
  and version = ?2
