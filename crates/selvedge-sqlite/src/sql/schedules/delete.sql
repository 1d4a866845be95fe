-- Deletes a schedule if it has the expected version.
-- Index: the primary key of schedules.
-- Parameters: ?1 namespace, ?2 name, ?3 expected version
delete from schedules
where namespace = ?1
  and name = ?2
  and version = ?3
