-- A changed gate; changes nothing unless the version is the expected one. Expects the primary key of gates.
-- ?1 id, ?2 expected version
update gates
set
  version = ?3,
  config = ?4,
  active = ?5,
  state = ?6,
  due_at = ?7
where id = ?1
  and version = ?2
