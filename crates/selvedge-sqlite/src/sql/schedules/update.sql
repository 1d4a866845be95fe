-- Updates a schedule if it has the expected version. A specification that is null stays as it is.
-- Index: the primary key of schedules.
-- Parameters: ?1 namespace, ?2 name, ?3 expected version, ?4 to ?8 the new columns
update schedules
set
  version = ?4,
  spec_version = ?5,
  spec = ifnull(?6, spec),
  state = ?7,
  due_at = ?8
where namespace = ?1
  and name = ?2
  and version = ?3
